// SPDX-License-Identifier: GPL-2.0
/*
 * Stress tests: module unloading while the device is in use, CPU hotplug, and suspend. Each test
 * prints the number of repetitions and of losses.
 *
 * With TWHEEL_STORMS=full they take minutes; otherwise they are short.
 */
#define _GNU_SOURCE
#define KTAP_HANG_S	1800

#include <pthread.h>

#include "group.h"
#include "module.h"

#define MS		NSEC_PER_MSEC

static unsigned int repetitions(unsigned int full, unsigned int quick)
{
	const char *text = getenv("TWHEEL_STORMS");

	return text && !strcmp(text, "full") ? full : quick;
}

/* A line for the table in the documentation. */
static void note_storm(const char *what, unsigned long long times, const char *unit)
{
	ktap_note("storm: %s: %llu %s, 0 lost", what, times, unit);
}

/* Each of @nr timeouts fires once, with its cookie as the index in @fired, and none is left. */
static void expect_all(int fd, struct twheel_event *fired, __u32 nr)
{
	struct twheel_event events[64];

	memset(fired, 0, nr * sizeof(*fired));
	for (__u32 got = 0; got < nr;) {
		int n = read_events(fd, events, ARRAY_SIZE(events));

		CHECK(n > 0);
		got += n;
		for (int i = 0; i < n; i++) {
			CHECK(events[i].cookie < nr);
			CHECK(events[i].fired_ns >= events[i].expires_ns);
			CHECK_EQ(fired[events[i].cookie].id, 0);
			fired[events[i].cookie] = events[i];
		}
	}
	CHECK_EQ(info(fd).live, 0);
}

/* Modules */

struct opener {
	pthread_t thread;
	int stop;
	unsigned int used;
	unsigned int absent;
};

static void use_file(int fd, __u64 *seed)
{
	struct twheel_event fired[3];

	arm_many(fd, 3, 0, random_below(seed, MS), 0, NULL);
	if (random_below(seed, 2))
		expect_all(fd, fired, 3);
}

static void *open_and_close(void *arg)
{
	struct opener *o = arg;
	__u64 seed = now_ns() ^ (uintptr_t)o;

	while (!PEEK(o->stop)) {
		int fd = open(DEVICE, O_RDWR | O_CLOEXEC);

		if (fd < 0) {
			CHECK(errno == ENOENT || errno == ENODEV || errno == ENXIO);
			o->absent++;
		} else {
			use_file(fd, &seed);
			close(fd);
			o->used++;
		}
		sleep_ns(random_below(&seed, 10 * MS));
	}
	return NULL;
}

/* Returns the number of attempts while the module was in use. */
static unsigned int unload_when_free(const struct module *m)
{
	unsigned int refused = 0;
	int ret;

	while ((ret = unload_module(m))) {
		CHECK(ret == -EAGAIN || ret == -EBUSY);
		refused++;
		sleep_ns(MS / 10);
	}
	return refused;
}

TEST(modules_come_and_go_while_others_open)
{
	unsigned int rounds = repetitions(500, 5), refused = 0, used = 0, absent = 0;
	struct opener openers[3] = { 0 };

	read_module(&engine_module);
	read_module(&device_module);
	for (size_t i = 0; i < ARRAY_SIZE(openers); i++)
		CHECK(!pthread_create(&openers[i].thread, NULL, open_and_close, &openers[i]));
	for (unsigned int i = 0; i < rounds; i++) {
		refused += unload_when_free(&device_module);
		CHECK_EQ(unload_module(&engine_module), 0);
		CHECK_EQ(load_module(&engine_module), 0);
		CHECK_EQ(load_module(&device_module), 0);
	}
	for (size_t i = 0; i < ARRAY_SIZE(openers); i++) {
		SET(openers[i].stop, 1);
		pthread_join(openers[i].thread, NULL);
		used += openers[i].used;
		absent += openers[i].absent;
	}
	ktap_note("%u times used, %u times absent, %u times in use while unloading", used,
		  absent, refused);
	note_storm("modules loaded and unloaded while others open the device", rounds, "times");
}

/* twheel load, which keeps an account of its own */
static void run_load(const char *threads, const char *how, unsigned int nr)
{
	pid_t pid = fork_child();
	char text[16];

	if (pid) {
		join_child(pid);
		return;
	}
	snprintf(text, sizeof(text), "%u", nr);
	CHECK(freopen("/dev/null", "w", stdout));
	execlp("twheel", "twheel", "load", "--json", "--threads", threads, how, "--timeouts", text,
	       NULL);
	ktap_fail("twheel: %s", strerror(errno));
}

TEST(threads_share_a_file)
{
	unsigned int nr = repetitions(2000000, 20000);

	run_load("64", "--share", nr);
	note_storm("64 threads on one file", nr, "timeouts");
}

/* CPUs */

static void set_cpu(unsigned int cpu, const char *online)
{
	char directory[64];

	snprintf(directory, sizeof(directory), "/sys/devices/system/cpu/cpu%u", cpu);
	write_file(directory, "online", online);
}

static void *toggle_cpus(void *arg)
{
	long nr = sysconf(_SC_NPROCESSORS_CONF);
	unsigned int *cycles = arg;
	__u64 seed = now_ns();

	for (unsigned int i = 0; i < *cycles; i++) {
		unsigned int cpu = 1 + random_below(&seed, nr - 1);

		set_cpu(cpu, "0");
		sleep_ns(random_below(&seed, 20 * MS));
		set_cpu(cpu, "1");
		sleep_ns(random_below(&seed, 20 * MS));
	}
	SET(*cycles, 0);
	return NULL;
}

TEST(cpus_come_and_go_under_load)
{
	unsigned int cycles = repetitions(300, 6), left = cycles, loads = 0,
		nr = repetitions(20000, 2000);
	pthread_t thread;

	if (sysconf(_SC_NPROCESSORS_CONF) < 2)
		ktap_skip("one CPU");
	CHECK(!pthread_create(&thread, NULL, toggle_cpus, &left));
	for (; PEEK(left); loads++)
		run_load("4", "--spread=500ms", nr);
	pthread_join(thread, NULL);
	ktap_note("%u timeouts", loads * nr);
	note_storm("CPU taken offline and online under load", cycles, "times");
}

/* Suspend to RAM, by a module: nothing has to wake the machine. */

#define NR_ASLEEP	300
#define SLEEP		(NSEC_PER_SEC / 2)	/* the least that the machine sleeps */
#define POWER		"/sys/power"

static void need_sleep(void)
{
	if (access(POWER "/mem_sleep", W_OK))
		ktap_skip("the kernel has no suspend");
	write_file(POWER, "mem_sleep", "deep");
}

/* For how long CLOCK_MONOTONIC has stood still: the machine may stall between two reads. */
static __u64 slept_ns(void)
{
	__u64 least = EXPIRES_MAX;

	for (int i = 0; i < 10; i++) {
		__u64 monotonic = now_ns(), slept = clock_ns(CLOCK_BOOTTIME) - monotonic;

		if (slept < least)
			least = slept;
	}
	return least;
}

/*
 * Of two timeouts for the same time from now, that on CLOCK_BOOTTIME fires earlier, by the time
 * for which the machine slept. Returns whether that is so for all pairs of which both fired after
 * the resume. It is not if the machine stalled, or if there is none.
 */
static bool are_apart(const struct twheel_event *monotonic, const struct twheel_event *boottime,
		      int nr, __u64 resumed)
{
	__u64 slept = slept_ns();
	int compared = 0, apart = 0;

	for (int i = 0; i < nr; i++) {
		__u64 fired = boottime[i].fired_ns - slept;

		if (fired < resumed)
			continue;
		compared++;
		apart += fired + SLEEP / 2 < monotonic[i].fired_ns;
	}
	return compared && apart == compared;
}

/* The first @nr multiples of @step are due before suspend, in it and after it, on either clock. */
static bool sleep_once(const int *fds, int nr, __u64 step)
{
	struct twheel_event monotonic[NR_ASLEEP], boottime[NR_ASLEEP];
	__u64 slept = slept_ns(), resumed;

	for (int i = 0; i < 2; i++)
		arm_many(fds[i], nr, step, step, 0, NULL);
	write_file(POWER, "state", "mem");
	resumed = now_ns();
	CHECK(slept_ns() - slept > SLEEP);
	expect_all(fds[0], monotonic, nr);
	expect_all(fds[1], boottime, nr);
	CHECK(monotonic[nr - 1].fired_ns <= now_ns());
	CHECK(boottime[nr - 1].fired_ns <= clock_ns(CLOCK_BOOTTIME));
	return are_apart(monotonic, boottime, nr, resumed);
}

static void sleep_often(int nr, __u64 step)
{
	unsigned int times = repetitions(10, 2), apart = 0, i;
	__u64 begun = now_ns();
	int fds[2];

	need_sleep();
	fds[0] = device_open(O_RDWR);
	fds[1] = device_open_setup(O_RDWR, setup_clock(CLOCK_BOOTTIME));
	/* A slow machine gets more time and more tries. */
	for (i = 0; i < times || (!apart && i < times + 3); i++) {
		if (sleep_once(fds, nr, step))
			apart++;
		else
			step += step / 2;
	}
	ktap_note("within %llu ms; both clocks were kept %u times of %u",
		  (now_ns() - begun) / MS, apart, i);
	CHECK(apart > 0);
	note_storm("machine suspended and resumed", i, "times");
}

TEST(machine_sleeps)
{
	sleep_often(NR_ASLEEP, 40 * MS);
}

/* No timer before it makes the kernel look at those of soft interrupts. */
TEST(machine_sleeps_with_one_timeout)
{
	sleep_often(1, 4 * NSEC_PER_SEC);
}
