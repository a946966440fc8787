// SPDX-License-Identifier: GPL-2.0
/*
 * Bursts of one user beside a SCHED_FIFO task that never sleeps, on one CPU whose clock counts
 * instructions. The task keeps the threads from running. How late are the timeouts of another user?
 */
#define _GNU_SOURCE
#define KTAP_HANG_S	300

#include "machine.h"

#define MS		NSEC_PER_MSEC
#define USER		1001
#define OTHER_USER	1002
#define OTHERS		60U		/* timeouts of the other user, one each 10 ms */
#define BUSY_NS		(700 * MS)

/**
 * struct burst - timeouts of the first user
 * @name: for messages
 * @each: due in each tick, in as many files if these are few
 * @ticks: number of ticks
 * @limit_ns: how late those of the other user may be
 */
static const struct burst {
	const char *name;
	__u32 each, ticks;
	__u64 limit_ns;
} bursts[] = {
	{ "100 in each of 20 ticks", 100, 20, MS },
	{ "130 in one tick", 130, 1, MS },
	{ "10,000 in one tick", 10000, 1, 2 * MS },
};

/* Says so in @pipe. */
static void arm_burst(const struct burst *b, __u64 when, int pipe)
{
	__u32 files = b->each < 1000 ? b->each : 10;

	become_user(USER);
	for (__u32 i = 0; i < files; i++) {
		int fd = device_open(O_RDWR);

		for (__u32 j = 0; j < b->ticks; j++)
			for (__u32 k = 0; k < b->each / files; k++)
				arm_at(fd, when + j * MS, 0);
	}
	CHECK_EQ(write(pipe, "", 1), 1);
	pause();
}

static void busy_wait_until(__u64 until)
{
	struct sched_param param = { .sched_priority = 10 };

	CHECK_EQ(sched_setscheduler(0, SCHED_FIFO, &param), 0);
	while (now_ns() < until)
		;
	param.sched_priority = 0;
	CHECK_EQ(sched_setscheduler(0, SCHED_OTHER, &param), 0);
}

/* How late the timeouts of another user are, which are armed after those of the burst. */
static __u64 worst_lateness_beside(const struct burst *b)
{
	__u64 begin = (now_ns() / NSEC_PER_SEC + 3) * NSEC_PER_SEC, worst = 0;
	int fd = device_open_for(OTHER_USER), ready[2];
	struct twheel_event event;
	char armed;
	pid_t pid;

	CHECK_EQ(pipe(ready), 0);
	pid = fork_child();
	if (!pid)
		arm_burst(b, begin + 100 * MS, ready[1]);
	CHECK_EQ(read(ready[0], &armed, 1), 1);
	for (__u32 i = 0; i < OTHERS; i++)
		arm_at(fd, begin + i * 10 * MS, 0);
	CHECK(now_ns() < begin);
	sleep_until(begin);
	busy_wait_until(begin + BUSY_NS);
	for (__u32 i = 0; i < OTHERS; i++) {
		CHECK_EQ(read(fd, &event, sizeof(event)), sizeof(event));
		if (event.fired_ns - event.expires_ns > worst)
			worst = event.fired_ns - event.expires_ns;
	}
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	close(fd);
	return worst;
}

TEST(bursts_of_others_beside_a_real_time_task)
{
	skip_outside_test_machine();
	pin_to_cpu(0);
	for_each_row(b, bursts) {
		__u64 worst = worst_lateness_beside(b);

		ktap_note("%s: another user is %llu us late", b->name, worst / 1000);
		CHECK(worst <= b->limit_ns);
	}
}
