// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
/*
 * The native methods of org.twheel.Native, on libtwheel. Each is one call of the library:
 * records are in direct buffers, whose addresses Java passes.
 *
 * A method that fails throws TwheelException with the errno, and its return value is
 * meaningless. read() returns -EAGAIN and -EINTR, and kick() any error: their callers handle
 * these.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jni.h>
#include <libtwheel.h>

#include "org_twheel_Native.h"

/* Each method has the environment and the class of Native. Few use them. */
#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NATIVE(returns, name, ...) \
	JNIEXPORT returns JNICALL \
	Java_org_twheel_Native_##name(JNIEnv *env, jclass type, ##__VA_ARGS__)

static void *pointer(jlong address)
{
	return (void *)(uintptr_t)address;
}

static void throw_errno(JNIEnv *env, const char *call, int error)
{
	char message[192];
	jclass type = (*env)->FindClass(env, "org/twheel/TwheelException");
	jmethodID make = type ? (*env)->GetMethodID(env, type, "<init>",
						    "(ILjava/lang/String;)V") : NULL;
	jstring text;
	jobject exception;

	snprintf(message, sizeof(message), "%s: %s", call, strerror(error));
	text = make ? (*env)->NewStringUTF(env, message) : NULL;
	exception = text ? (*env)->NewObject(env, type, make, error, text) : NULL;
	/* Otherwise another exception, such as OutOfMemoryError, is pending. */
	if (exception)
		(*env)->Throw(env, exception);
}

/* Returns @ret, or throws if it is negative. */
static int checked(JNIEnv *env, const char *call, int ret)
{
	if (ret < 0)
		throw_errno(env, call, -ret);
	return ret;
}

NATIVE(jlong, open, jint backend)
{
	struct twheel_ctx *ctx = NULL;
	int ret = twheel_open(NULL, backend, &ctx);

	if (ret == -EINVAL)
		throw_errno(env, "open: TWHEEL_BACKEND is neither 'kernel' nor 'process'", -ret);
	else if (ret == -ENOENT || ret == -ENODEV || ret == -ENXIO)
		throw_errno(env, "open " TWHEEL_DEVICE " (modprobe twheel_dev loads the module; "
			    "Backend.ANY and PROCESS need none)", -ret);
	else if (ret == -EACCES || ret == -EPERM)
		throw_errno(env, "open " TWHEEL_DEVICE " (root and the group twheel have access; "
			    "Backend.ANY and PROCESS need none)", -ret);
	else
		checked(env, "open " TWHEEL_DEVICE, ret);
	return (uintptr_t)ctx;
}

NATIVE(void, close, jlong ctx)
{
	/* A mapping of cells may outlive the descriptor: the timeouts end here. */
	twheel_cancel_timeouts(pointer(ctx), NULL);
	twheel_close(pointer(ctx));
}

NATIVE(jint, fd, jlong ctx)
{
	return twheel_fd(pointer(ctx));
}

NATIVE(jlong, now, jlong ctx)
{
	uint64_t now = 0;

	checked(env, "now", twheel_now(pointer(ctx), &now));
	return now;
}

NATIVE(jint, setup, jlong ctx, jlong setup)
{
	return checked(env, "setup", twheel_configure(pointer(ctx), pointer(setup)));
}

NATIVE(jint, info, jlong ctx, jlong info)
{
	return checked(env, "info", twheel_get_info(pointer(ctx), pointer(info)));
}

NATIVE(jint, stats, jlong ctx, jlong stats)
{
	return checked(env, "stats", twheel_get_stats(pointer(ctx), pointer(stats)));
}

NATIVE(jlong, arm, jlong ctx, jlong expires_ns, jint flags, jlong cookie)
{
	uint64_t id = 0;

	checked(env, "arm", twheel_arm(pointer(ctx), expires_ns, flags, cookie, &id));
	return id;
}

NATIVE(jint, mod, jlong ctx, jlong id, jlong expires_ns, jint flags, jlong cookie)
{
	int ret = twheel_mod(pointer(ctx), id, expires_ns, flags, cookie);

	return ret == -ENOENT ? ret : checked(env, "mod", ret);
}

NATIVE(jint, cancel, jlong ctx, jlong id)
{
	int ret = twheel_cancel(pointer(ctx), id);

	return ret == -ENOENT ? ret : checked(env, "cancel", ret);
}

NATIVE(jint, submit, jlong ctx, jlong ops, jint nr)
{
	return checked(env, "submit", twheel_submit_ops(pointer(ctx), pointer(ops), nr));
}

NATIVE(jlong, cancelAll, jlong ctx, jboolean has_cookie, jlong cookie)
{
	struct twheel_cancel_all done = { 0 };

	checked(env, "cancel_all", has_cookie ?
		twheel_cancel_cookie(pointer(ctx), cookie, &done) :
		twheel_cancel_timeouts(pointer(ctx), &done));
	return (uint64_t)done.pending + done.withdrawn;
}

NATIVE(jint, setTime, jlong ctx, jlong now_ns)
{
	return checked(env, "set_time", twheel_set_time(pointer(ctx), now_ns));
}

NATIVE(jint, list, jlong ctx, jlong memory, jint nr)
{
	struct twheel_list_entry *entries = pointer(memory);
	uint32_t *next = (uint32_t *)(entries + nr);

	return checked(env, "list", twheel_list_timeouts(pointer(ctx), entries, nr, next));
}

NATIVE(jint, stop, jlong ctx)
{
	return checked(env, "stop", twheel_stop(pointer(ctx)));
}

NATIVE(jint, read, jlong ctx, jlong events, jint nr, jboolean wait)
{
	int ret = twheel_read(pointer(ctx), pointer(events), nr,
			      wait ? TWHEEL_FOREVER : TWHEEL_NO_WAIT);

	return ret == -EAGAIN || ret == -EINTR ? ret : checked(env, "read", ret);
}

/* Not twheel_wait(), since that waits for one descriptor. The caller reads before each wait. */
NATIVE(void, await, jlong ctx, jint waker, jlong timeout_ns)
{
	struct pollfd fds[] = { { .fd = twheel_fd(pointer(ctx)), .events = POLLIN },
				{ .fd = waker, .events = POLLIN } };
	/* A time_t may have 32 bits: then the wait ends earlier. */
	jlong seconds = timeout_ns / 1000000000;
	struct timespec timeout = { .tv_sec = seconds < INT32_MAX ? seconds : INT32_MAX,
				    .tv_nsec = timeout_ns % 1000000000 };

	if (ppoll(fds, 2, timeout_ns < 0 ? NULL : &timeout, NULL) < 0 && errno != EINTR)
		throw_errno(env, "poll", errno);
}

NATIVE(jint, newWaker)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	return checked(env, "eventfd", fd < 0 ? -errno : fd);
}

NATIVE(void, wake, jint waker)
{
	eventfd_write(waker, 1);
}

NATIVE(void, closeWaker, jint waker)
{
	close(waker);
}

/*
 * The mapping is Java's own: it lives until detach(), or until no cell can be reached any more.
 * Pages are made when they are used, also after mlockall(), which the library's mapping explains.
 */
NATIVE(jobject, map, jlong ctx, jlong size)
{
	jobject buffer;
	void *cells;

	cells = mmap(NULL, size, PROT_NONE, MAP_SHARED, twheel_fd(pointer(ctx)), 0);
	if (cells == MAP_FAILED) {
		throw_errno(env, "mmap", errno);
		return NULL;
	}
	if (mprotect(cells, size, PROT_READ | PROT_WRITE)) {
		throw_errno(env, "mprotect", errno);
		munmap(cells, size);
		return NULL;
	}
	buffer = (*env)->NewDirectByteBuffer(env, cells, size);
	if (!buffer)
		munmap(cells, size);
	return buffer;
}

NATIVE(void, unmap, jlong cells, jlong size)
{
	munmap(pointer(cells), size);
}

/*
 * A mapping keeps the records of the context. Cells can still be reached, so the memory that takes
 * its place comes at once, with all bits set: idle words that any arming has to kick. Without
 * memory, the mapping stays.
 */
NATIVE(void, detach, jlong cells, jlong size, jlong used)
{
	void *idle = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (idle == MAP_FAILED)
		return;
	memset(idle, 0xff, used);
	if (mremap(idle, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(cells)) == MAP_FAILED)
		munmap(idle, size);
}

/* The last address is a check: in a block, an index determines the place. */
NATIVE(jobject, cells, jlong ctx, jlong id, jint nr)
{
	struct twheel_cell *first, *last;

	if (checked(env, "cell", twheel_cell_find(pointer(ctx), id, &first)) < 0 ||
	    checked(env, "cell", twheel_cell_find(pointer(ctx), id + nr - 1, &last)) < 0)
		return NULL;
	if (last - first != nr - 1) {
		throw_errno(env, "cell", EOPNOTSUPP);
		return NULL;
	}
	return (*env)->NewDirectByteBuffer(env, first, nr * sizeof(*first));
}

/* Does not throw: if the allocation of the exception failed, the arming would seem to count. */
NATIVE(jint, kick, jlong ctx, jlong cell, jlong id, jlong expires_ns)
{
	return twheel_cell_kick(pointer(ctx), pointer(cell), id, expires_ns);
}

NATIVE(jlong, address, jobject buffer)
{
	return (uintptr_t)(*env)->GetDirectBufferAddress(env, buffer);
}

/* The sizes of the records, for a test that compares them with the offsets in Java. */
NATIVE(jintArray, sizes)
{
	const jint sizes[] = { sizeof(struct twheel_op), sizeof(struct twheel_event),
			       sizeof(struct twheel_info), sizeof(struct twheel_setup),
			       sizeof(struct twheel_cell), sizeof(struct twheel_stats),
			       sizeof(struct twheel_list_entry) };
	const jsize nr = sizeof(sizes) / sizeof(*sizes);
	jintArray array = (*env)->NewIntArray(env, nr);

	if (array)
		(*env)->SetIntArrayRegion(env, array, 0, nr, sizes);
	return array;
}
