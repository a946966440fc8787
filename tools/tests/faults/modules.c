// SPDX-License-Identifier: GPL-2.0
/*
 * Loading of the modules, with each allocation and each copy made to fail in turn,
 * including those of kthreadd, which makes their threads.
 *
 * A module that fails to load leaves nothing behind and can be loaded again; one that loads
 * nevertheless works. With $TWHEEL_STRIDE, only every such place is tried.
 */
#define KTAP_NO_MAIN
#define _GNU_SOURCE
#define KTAP_HANG_S	600

#include "inject.h"
#include "module.h"

#define MAX_PLACES	100000
#define KTHREADD	"/proc/2"
#define KWORKERS_MAX	10		/* new kworkers that may take the fault of a thread */

static long load(void *module)
{
	return load_module(module);
}

static void unload(const struct module *m)
{
	int ret = unload_module(m);

	if (ret)
		ktap_fail("%s is not unloaded: %s", m->name, strerror(-ret));
}

static void check_device(void)
{
	int fd = device_open(O_RDWR);

	arm(fd, NSEC_PER_MSEC, 7);
	CHECK_EQ(read_event(fd).cookie, 7);
	close(fd);
}

/* Only @m is not loaded, before and after. */
static void check_loads(struct module *m)
{
	CHECK_EQ(load_module(m), 0);
	if (m == &engine_module)
		CHECK_EQ(load_module(&device_module), 0);
	check_device();
	if (m == &engine_module)
		unload(&device_module);
	unload(m);
}

/* Returns whether the module was loaded in spite of the fault. */
static int loads_in_spite_of_fault(struct module *m, long ret)
{
	CHECK(ret == 0 || ret == -ENOMEM || ret == -EFAULT || ret == -EAGAIN);
	CHECK_EQ(module_is_loaded(m), !ret);
	if (!ret)
		unload(m);
	return !ret;
}

static unsigned int stride(void)
{
	const char *text = getenv("TWHEEL_STRIDE");

	return text ? atoi(text) : 1;
}

enum fault {
	ONE,
	ALL,			/* later places fail too */
	IN_KTHREADD,
};

/* Load @m with a fault at @place. Returns whether it occurred. */
static bool load_with(struct victim *v, enum fault where, unsigned int place, struct module *m)
{
	if (where != IN_KTHREADD)
		return victim_fails(v, place, where == ALL, load, m);
	set_fail_nth(KTHREADD, place);
	v->ret = load_module(m);
	return !end_fail_nth(KTHREADD);
}

/* Try the first place again if the module loads, because a new kworker may have taken the fault. */
static void fail_to_load(struct module *m, enum fault where)
{
	unsigned int place = 1, tried = 0, loaded = 0;
	struct victim victim;

	fault_prepare();
	victim_start(&victim);
	while (load_with(&victim, where, place, m)) {
		CHECK(place < MAX_PLACES);
		loaded += loads_in_spite_of_fault(m, victim.ret);
		tried++;
		if (tried > loaded || tried >= KWORKERS_MAX)
			place += stride();
	}
	CHECK_EQ(victim.ret, 0);
	unload(m);
	CHECK(tried > loaded);
	check_loads(m);
	ktap_note("%u times tried, %u times loaded in spite of it", tried, loaded);
	fault_note(place - 1);
}

TEST(engine_fails_to_load_cleanly)
{
	fail_to_load(&engine_module, ONE);
}

TEST(engine_without_memory_fails_to_load_cleanly)
{
	fail_to_load(&engine_module, ALL);
}

TEST(engine_without_threads_fails_to_load_cleanly)
{
	fail_to_load(&engine_module, IN_KTHREADD);
}

TEST(device_fails_to_load_cleanly)
{
	CHECK_EQ(load_module(&engine_module), 0);
	fail_to_load(&device_module, ONE);
	unload(&engine_module);
}

TEST(device_without_memory_fails_to_load_cleanly)
{
	CHECK_EQ(load_module(&engine_module), 0);
	fail_to_load(&device_module, ALL);
	unload(&engine_module);
}

/* The modules are loaded when this program begins and when it ends. */
int main(int argc, char **argv)
{
	int ret;

	read_module(&engine_module);
	read_module(&device_module);
	unload(&device_module);
	unload(&engine_module);
	ret = ktap_main(argc, argv);
	return load_module(&engine_module) || load_module(&device_module) ? 1 : ret;
}
