// SPDX-License-Identifier: GPL-2.0
/*
 * Stress tests: module unloading while the device is in use, CPU hotplug, memory
 * exhaustion, SIGKILL, steps of CLOCK_REALTIME, and suspend. Each test prints the number of
 * repetitions and of losses.
 *
 * With TWHEEL_STORMS=full they take minutes; otherwise they are short.
 */
#define _GNU_SOURCE
#define KTAP_HANG_S	1800

#include <pthread.h>
#include <sys/mman.h>

#include "group.h"
#include "machine.h"
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

/* Memory that a test shares with its children. */
static void *map_shared(size_t size)
{
	void *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(shared != MAP_FAILED);
	return shared;
}

/*
 * Read events, which come once for each cookie, into an array of @nr that was zero. Returns how
 * many were read: some, or none if the file is nonblocking.
 */
static __u32 take_fired(int fd, struct twheel_event *fired, __u32 nr)
{
	struct twheel_event events[64];
	int n = read_events(fd, events, ARRAY_SIZE(events));

	CHECK(n > 0 || n == -EAGAIN);
	for (int i = 0; i < n; i++) {
		CHECK(events[i].cookie < nr);
		CHECK(events[i].fired_ns >= events[i].expires_ns);
		CHECK_EQ(fired[events[i].cookie].id, 0);
		fired[events[i].cookie] = events[i];
	}
	return n > 0 ? n : 0;
}

/* Each of @nr timeouts fires once, and none is left. */
static void expect_all(int fd, struct twheel_event *fired, __u32 nr)
{
	memset(fired, 0, nr * sizeof(*fired));
	for (__u32 got = 0; got < nr;)
		got += take_fired(fd, fired, nr);
	CHECK_EQ(info(fd).live, 0);
}

/* A process that uses the device during the disturbance of others */

#define NR_BYSTANDING	500

struct bystander {
	pid_t pid;
	struct {
		int stop;
		unsigned int rounds;
		__u64 latest;		/* maximum time from a deadline to its event */
	} *shared;
};

static void run_bystander(struct bystander *b)
{
	struct twheel_event event, fired[NR_BYSTANDING];
	int fd = device_open(O_RDWR);
	__u64 late;

	while (!PEEK(b->shared->stop)) {
		arm_many(fd, NR_BYSTANDING, 0, 20 * NSEC_PER_USEC, 0, NULL);
		expect_all(fd, fired, NR_BYSTANDING);
		arm(fd, MS, 0);
		event = read_event(fd);
		late = event.fired_ns - event.expires_ns;
		if (late > b->shared->latest)
			b->shared->latest = late;
		SET(b->shared->rounds, b->shared->rounds + 1);
	}
}

static void start_bystander(struct bystander *b)
{
	b->shared = map_shared(sizeof(*b->shared));
	b->pid = fork_child();
	if (b->pid)
		return;
	run_bystander(b);
	_exit(0);
}

static void end_bystander(struct bystander *b)
{
	unsigned int rounds = PEEK(b->shared->rounds);

	/* it has not been blocked */
	while (PEEK(b->shared->rounds) < rounds + 2)
		sleep_ns(MS);
	SET(b->shared->stop, 1);
	join_child(b->pid);
	ktap_note("others: %u timeouts, 0 lost, at most %llu us late",
		  b->shared->rounds * (NR_BYSTANDING + 1), b->shared->latest / 1000);
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

TEST(modules_in_use_cannot_be_unloaded)
{
	int fd = device_open(O_RDWR);

	CHECK_EQ(unload_module(&engine_module), -EWOULDBLOCK);
	CHECK_EQ(unload_module(&device_module), -EWOULDBLOCK);
	arm(fd, 0, 7);
	CHECK_EQ(read_event(fd).cookie, 7);
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

/* Processes that end before their timeouts */

static void arm_for_ever(const char *group, unsigned long long *armed)
{
	int fd;

	enter_group(group);
	fd = device_open(O_RDWR);
	for (;;) {
		arm_many(fd, 512, HOUR, NSEC_PER_USEC, 0, NULL);
		SET(*armed, *armed + 512);
	}
}

static void kill_and_check(pid_t pid)
{
	int status;

	CHECK_EQ(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status))
		_exit(WEXITSTATUS(status) ?: 1);
	CHECK_EQ(WTERMSIG(status), SIGKILL);
}

TEST(memory_ends_for_a_group)
{
	const char *group = create_group("storm", repetitions(16, 4) * MIB);
	unsigned int rounds = repetitions(50, 2);
	struct bystander bystander;
	unsigned long long *armed = map_shared(sizeof(*armed));

	start_bystander(&bystander);
	for (unsigned int i = 0; i < rounds; i++) {
		pid_t pid = fork_child();

		if (!pid)
			arm_for_ever(group, armed);
		kill_and_check(pid);
		wait_uncharged(group, MIB);
	}
	CHECK(out_of_memory_kills(group) >= rounds);
	end_bystander(&bystander);
	ktap_note("%llu timeouts were pending", *armed);
	note_storm("process killed at the memory limit of its cgroup", rounds, "times");
}

static void arm_and_wait(__u32 nr, int pipe)
{
	int fd = device_open(O_RDWR);

	arm_many(fd, nr, HOUR, NSEC_PER_USEC, 0, NULL);
	CHECK_EQ(write(pipe, "", 1), 1);
	pause();
}

/* Two such processes would exceed the limit, so the memory of the first must be free. */
static void kill_with_many_pending(void)
{
	unsigned int rounds = repetitions(3, 2), nr = repetitions(1000000, 30000);
	struct bystander bystander;
	__u64 begun, longest = 0;
	int pipes[2];
	char byte;

	CHECK_EQ(pipe(pipes), 0);
	start_bystander(&bystander);
	for (unsigned int i = 0; i < rounds; i++) {
		pid_t pid = fork_child();

		if (!pid)
			arm_and_wait(nr, pipes[1]);
		CHECK_EQ(read(pipes[0], &byte, 1), 1);
		begun = now_ns();
		kill(pid, SIGKILL);
		kill_and_check(pid);
		if (now_ns() - begun > longest)
			longest = now_ns() - begun;
	}
	end_bystander(&bystander);
	ktap_note("%u pending, gone within %llu ms", nr, longest / MS);
	note_storm("process killed with very many pending", rounds, "times");
}

TEST(process_is_killed_with_many_pending)
{
	__u32 nr = repetitions(1000000, 30000);

	with_parameter("max_user_timeouts", nr + nr / 2, kill_with_many_pending);
}

/* CLOCK_REALTIME */

#define DAY		(24 * HOUR)

TEST(clock_is_set_forward_and_backward)
{
	__u32 nr = repetitions(100000, 10000), steps = repetitions(1000, 50), got = 0;
	struct twheel_event *fired = calloc(nr, sizeof(*fired));
	__u64 *deadlines = calloc(nr, sizeof(*deadlines)), seed = 4711, begun;
	int fd = open_realtime(O_RDWR | O_NONBLOCK);

	CHECK(deadlines && fired);
	begun = clock_ns(CLOCK_REALTIME);
	for (__u32 i = 0; i < nr; i++) {
		deadlines[i] = begun + random_below(&seed, DAY);
		arm_at(fd, deadlines[i], i);
	}
	for (__u32 i = 0; i < steps; i++) {
		/* from two days back up to the progress of the steps */
		set_realtime((__s64)random_below(&seed, 2 * DAY + i * (DAY / steps)) -
			     2 * (__s64)DAY);
		sleep_ns(random_below(&seed, 10 * MS));
		for (__u32 now; (now = take_fired(fd, fired, nr));)
			got += now;
	}
	CHECK(got < nr);
	set_realtime(2 * DAY);
	wait_ready(fd, nr - got);
	for (__u32 left = nr - got; left;)
		left -= take_fired(fd, fired, nr);
	CHECK_EQ(info(fd).live, 0);
	for (__u32 i = 0; i < nr; i++)
		CHECK_EQ(fired[i].expires_ns, deadlines[i]);
	set_realtime(0);
	ktap_note("%u timeouts, %u of them fired between the steps", nr, got);
	note_storm("CLOCK_REALTIME set forward and backward", steps, "times");
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
		      __u64 resumed)
{
	__u64 slept = slept_ns();
	int compared = 0, apart = 0;

	for (int i = 0; i < NR_ASLEEP; i++) {
		__u64 fired = boottime[i].fired_ns - slept;

		if (fired < resumed)
			continue;
		compared++;
		apart += fired + SLEEP / 2 < monotonic[i].fired_ns;
	}
	return compared && apart == compared;
}

/* Timeouts are due before suspend, during it and after it, each on its own clock. */
static bool sleep_once(const int *fds, __u64 step)
{
	struct twheel_event monotonic[NR_ASLEEP], boottime[NR_ASLEEP];
	__u64 slept = slept_ns(), resumed;

	for (int i = 0; i < 2; i++)
		arm_many(fds[i], NR_ASLEEP, 0, step, 0, NULL);
	write_file(POWER, "state", "mem");
	resumed = now_ns();
	CHECK(slept_ns() - slept > SLEEP);
	expect_all(fds[0], monotonic, NR_ASLEEP);
	expect_all(fds[1], boottime, NR_ASLEEP);
	CHECK(monotonic[NR_ASLEEP - 1].fired_ns <= now_ns());
	CHECK(boottime[NR_ASLEEP - 1].fired_ns <= clock_ns(CLOCK_BOOTTIME));
	return are_apart(monotonic, boottime, resumed);
}

TEST(machine_sleeps)
{
	unsigned int times = repetitions(10, 2), apart = 0, i;
	__u64 begun = now_ns(), step = 40 * MS;
	int fds[2];

	need_sleep();
	fds[0] = device_open(O_RDWR);
	fds[1] = device_open_setup(O_RDWR, setup_clock(CLOCK_BOOTTIME));
	/* A slow machine gets more time and more tries. */
	for (i = 0; i < times || (!apart && i < times + 3); i++) {
		if (sleep_once(fds, step))
			apart++;
		else
			step += step / 2;
	}
	ktap_note("within %llu ms; both clocks were kept %u times of %u",
		  (now_ns() - begun) / MS, apart, i);
	CHECK(apart > 0);
	note_storm("machine suspended and resumed", i, "times");
}
