// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
/*
 * The exchanges of cells, without ctypes, which releases the GIL for each call. _pycell.py is
 * the same in Python.
 *
 * The GIL serialises an exchange with Wheel.close(), which shuts the gate before anything is
 * unmapped. So Python code runs before the gate is tested, and never after it. An interpreter
 * without a GIL uses _pycell.py. There is no static state: each interpreter has its own types.
 */
#include <Python.h>
#include <structmember.h>
#include <math.h>
#include <libtwheel.h>

#define LONGEST	9e9	/* seconds. _expires_ns() converts longer ones, and those out of range */

/* As in _lib.py. */
struct gate {
	uint64_t	ctx;
	uint8_t		usable;		/* the wheel is open, and works in this process */
	uint8_t		relative;	/* its clock takes relative times */
	uint32_t	epoch;		/* number of calls of cancel_all() */
};

struct exchange {
	PyObject_HEAD
	PyObject		*wheel;
	PyObject		*outcomes;	/* tuple, indexed by the result */
	PyObject		*check;		/* raises the error of a negative result */
	PyObject		*owner;		/* of the memory of @gate */
	struct gate		*gate;
	unsigned long long	address;	/* of the cell; 0: it has ended */
	uint32_t		epoch;		/* in which it was made */
	unsigned long long	id;
	unsigned long long	cookie;
};

static int traverse(PyObject *object, visitproc visit, void *arg)
{
	struct exchange *self = (struct exchange *)object;

	Py_VISIT(Py_TYPE(object));
	Py_VISIT(self->wheel);
	return 0;
}

static int clear(PyObject *object)
{
	struct exchange *self = (struct exchange *)object;

	self->gate = NULL;
	Py_CLEAR(self->owner);
	Py_CLEAR(self->wheel);
	Py_CLEAR(self->outcomes);
	Py_CLEAR(self->check);
	return 0;
}

static void dealloc(PyObject *object)
{
	PyTypeObject *type = Py_TYPE(object);

	PyObject_GC_UnTrack(object);
	clear(object);
	((freefunc)PyType_GetSlot(type, Py_tp_free))(object);
	Py_DECREF(type);
}

static int init(PyObject *object, PyObject *args, PyObject *Py_UNUSED(keywords))
{
	struct exchange *self = (struct exchange *)object;
	unsigned long long id, cookie, address, gate;
	PyObject *wheel, *owner, *outcomes, *check;

	if (!PyArg_ParseTuple(args, "OKKKOKO!O", &wheel, &id, &cookie, &address, &owner, &gate,
			      &PyTuple_Type, &outcomes, &check))
		return -1;
	clear(object);
	self->owner = Py_NewRef(owner);
	self->wheel = Py_NewRef(wheel);
	self->outcomes = Py_NewRef(outcomes);
	self->check = Py_NewRef(check);
	self->gate = (struct gate *)(uintptr_t)gate;
	self->address = address;
	self->epoch = self->gate ? self->gate->epoch : 0;
	self->id = id;
	self->cookie = cookie;
	return 0;
}

/* If the gate is shut, raise the reason, which the wheel knows. */
static int pass(struct exchange *self)
{
	if (self->gate && self->gate->usable)
		return 1;
	if (self->wheel)
		Py_XDECREF(PyObject_CallMethod(self->wheel, "_use", NULL));
	if (!PyErr_Occurred())
		PyErr_SetString(PyExc_ValueError, "the cell cannot be used");
	return 0;
}

/* NULL if the cell has ended by close() or cancel_all(): another one may have its place. */
static struct twheel_cell *cell(struct exchange *self)
{
	if (self->epoch != self->gate->epoch)
		return NULL;
	return (struct twheel_cell *)(uintptr_t)self->address;
}

static PyObject *outcome(struct exchange *self, int result)
{
	if (result < 0)
		return PyObject_CallFunction(self->check, "i", result);
	return Py_XNewRef(PyTuple_GetItem(self->outcomes, result));
}

/*
 * Seconds in nanoseconds, rounded up. The fraction is exact. So is its product, which is
 * @ns and a remainder of less than half a unit in the last place.
 */
static uint64_t round_up(double seconds)
{
	double whole = floor(seconds), part = seconds - whole;
	double ns = part * 1e9, up = ceil(ns);

	if (up == ns && fma(part, 1e9, -ns) > 0)
		up++;
	return (uint64_t)whole * TWHEEL_SEC + (uint64_t)up;
}

/* The absolute deadline. Returns 0 with an exception. */
static int expires(struct exchange *self, PyObject *when, uint64_t *expires_ns)
{
	PyObject *number;
	double seconds;

	if (self->gate->relative && (PyFloat_CheckExact(when) || PyLong_CheckExact(when))) {
		seconds = PyFloat_AsDouble(when);
		if (seconds <= LONGEST && !PyErr_Occurred()) {
			twheel_now((struct twheel_ctx *)(uintptr_t)self->gate->ctx, expires_ns);
			*expires_ns += seconds > 0 ? round_up(seconds) : 0;
			if (*expires_ns > INT64_MAX)
				*expires_ns = INT64_MAX;
			return 1;
		}
		PyErr_Clear();
	}
	number = PyObject_CallMethod(self->wheel, "_expires_ns", "O", when);
	if (!number)
		return 0;
	*expires_ns = PyLong_AsUnsignedLongLong(number);
	Py_DECREF(number);
	/* Meanwhile another thread may have closed the wheel. */
	return !PyErr_Occurred() && pass(self);
}

static PyObject *arm_ns(struct exchange *self, uint64_t expires_ns)
{
	if (!cell(self))
		return outcome(self, -ENOENT);
	return outcome(self, twheel_cell_arm((struct twheel_ctx *)(uintptr_t)self->gate->ctx,
					     cell(self), self->id, expires_ns));
}

static PyObject *arm(PyObject *object, PyObject *when)
{
	struct exchange *self = (struct exchange *)object;
	uint64_t expires_ns;

	if (!pass(self) || !expires(self, when, &expires_ns))
		return NULL;
	return arm_ns(self, expires_ns);
}

/* Of seconds on the clock of the wheel, from 0 to LONGEST. */
static PyObject *arm_at(PyObject *object, PyObject *when)
{
	double seconds = PyFloat_AsDouble(when);

	if (PyErr_Occurred() || !pass((struct exchange *)object))
		return NULL;
	return arm_ns((struct exchange *)object, round_up(seconds));
}

static PyObject *cancel(PyObject *object, PyObject *Py_UNUSED(none))
{
	struct exchange *self = (struct exchange *)object;

	if (!pass(self))
		return NULL;
	return outcome(self, cell(self) ? twheel_cell_cancel(cell(self)) : TWHEEL_IDLE);
}

static PyObject *cancel_at(PyObject *object, PyObject *expires)
{
	struct exchange *self = (struct exchange *)object;
	uint64_t expires_ns = PyLong_AsUnsignedLongLong(expires);

	if (PyErr_Occurred() || !pass(self))
		return NULL;
	return PyBool_FromLong(cell(self) && !twheel_cell_cancel_at(cell(self), expires_ns));
}

static PyObject *end(PyObject *object, PyObject *Py_UNUSED(none))
{
	struct exchange *self = (struct exchange *)object;
	int alive = self->address != 0;

	self->address = 0;
	return PyBool_FromLong(alive);
}

static PyMemberDef members[] = {
	{ "wheel", T_OBJECT_EX, offsetof(struct exchange, wheel), READONLY, NULL },
	{ "id", T_ULONGLONG, offsetof(struct exchange, id), READONLY, NULL },
	{ "cookie", T_ULONGLONG, offsetof(struct exchange, cookie), READONLY, NULL },
	{ "_address", T_ULONGLONG, offsetof(struct exchange, address), READONLY, NULL },
	{ 0 }
};

/* As in _pycell.py. */
static const char arm_doc[] =
	"arm($self, when, /)\n--\n\n"
	"Arm the cell, or move it if it is armed. Returns its state before.\n\n"
	"when: a number of seconds from now, or after(), after_ns(), at(), at_ns(). A deadline in\n"
	"the past is due at once. It is a system call only if the kernel would look too late: not if\n"
	"the cell was armed with about the same delay before and is in regular use.\n\n"
	"Raises Stopped, TimeoutGone; OSError with EBADF when the wheel is open for reading\n"
	"only. The cell is idle then. Raises OSError with EINVAL for a relative time on\n"
	"CLOCK_REALTIME, like Wheel.arm(). That changes nothing.";

static const char cancel_doc[] =
	"cancel($self, /)\n--\n\n"
	"Cancel the current arming without a system call. The cell stays usable.\n\n"
	"After PENDING or WITHDRAWN no event of that arming is read. IDLE means that the cell was\n"
	"not armed, or that its event was read before.";

static PyMethodDef methods[] = {
	{ "arm", arm, METH_O, arm_doc },
	{ "cancel", cancel, METH_NOARGS, cancel_doc },
	{ "_arm_at", arm_at, METH_O, NULL },
	{ "_cancel_at", cancel_at, METH_O, NULL },
	{ "_end", end, METH_NOARGS, NULL },
	{ 0 }
};

static PyType_Slot type_slots[] = {
	{ Py_tp_init, init }, { Py_tp_members, members }, { Py_tp_methods, methods },
	{ Py_tp_traverse, traverse }, { Py_tp_clear, clear }, { Py_tp_dealloc, dealloc }, { 0 }
};

static PyType_Spec spec = {
	"twheel._cell.Exchange", sizeof(struct exchange), 0,
	Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_BASETYPE, type_slots
};

static int execute(PyObject *module)
{
	PyObject *type = PyType_FromModuleAndSpec(module, &spec, NULL);
	int ret = type ? PyModule_AddType(module, (PyTypeObject *)type) : -1;

	Py_XDECREF(type);
	return ret;
}

/* From Python 3.12 on, the second says that interpreters may have a GIL of their own. */
static PyModuleDef_Slot slots[] = { { Py_mod_exec, execute }, { 0 }, { 0 } };

static struct PyModuleDef definition = {
	.m_base = PyModuleDef_HEAD_INIT, .m_name = "_cell", .m_slots = slots
};

PyMODINIT_FUNC PyInit__cell(void)
{
	/* Py_mod_multiple_interpreters, Py_MOD_PER_INTERPRETER_GIL_SUPPORTED: not in 3.11 */
	if (Py_Version >= 0x030c0000)
		slots[1] = (PyModuleDef_Slot){ 3, (void *)2 };
	return PyModuleDef_Init(&definition);
}
