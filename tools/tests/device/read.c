// SPDX-License-Identifier: GPL-2.0
/*
 * read(): each event goes to one reader, and none is lost. The fuzzer has the lengths, buffers and
 * flags of a single reader.
 */
#define _GNU_SOURCE
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <sys/uio.h>

#include "memory.h"
#include "signals.h"

#define RECORD		sizeof(struct twheel_event)

/* Open a file with @nr unread events, with cookies 0, 1, 2... in the order of expiry. */
static int open_with_events(int flags, int nr)
{
	int fd = device_open(flags);

	for (int i = 0; i < nr; i++)
		arm_fired(fd, i);
	return fd;
}

static void check_cookies(const struct twheel_event *events, int nr, __u64 first)
{
	for (int i = 0; i < nr; i++) {
		check_event(&events[i]);
		CHECK_EQ(events[i].cookie, first + i);
	}
}

/*
 * Each record comes to lie across the boundary between a page in use and a fresh one. A copy
 * that faults there may report fewer bytes than it has written.
 */
TEST(read_into_a_fresh_page_returns_them_all)
{
	for (size_t room = RECORD; room <= 4 * RECORD; room += is_slow() ? 5 : 1) {
		char *page = map_pages(2) + page_size();
		int fd = open_with_events(O_RDWR | O_NONBLOCK, 6);
		struct twheel_event events[6];

		page[-1] = 1;
		CHECK_EQ(read(fd, page - room, sizeof(events)), sizeof(events));
		memcpy(events, page - room, sizeof(events));
		check_cookies(events, 6, 0);
		check_no_event(fd);
		close(fd);
		CHECK_EQ(munmap(page - page_size(), 2 * page_size()), 0);
	}
}

/* Waiting */

/* A nonblocking call does not wait, and another one does. */
TEST(read_waits_unless_it_is_nonblocking)
{
	struct twheel_event event;
	struct iovec iov = { &event, sizeof(event) };
	int fd = device_open(O_RDWR);

	CHECK_EQ(preadv2(fd, &iov, 1, -1, RWF_NOWAIT), -1);
	CHECK_EQ(errno, EAGAIN);
	CHECK_EQ(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
	check_no_event(fd);
	CHECK_EQ(fcntl(fd, F_SETFL, 0), 0);
	arm(fd, 50 * NSEC_PER_MSEC, 7);
	CHECK_EQ(read_event(fd).cookie, 7);
}

/* A thread that reads once, and its result. */
struct reader {
	pthread_t thread;
	int fd;
	int ret;
	void *buffer;
	struct twheel_event event;
	pid_t tid;
	int finished;
};

static void *read_once(void *arg)
{
	struct reader *reader = arg;

	SET(reader->tid, gettid());
	reader->ret = read_events(reader->fd, reader->buffer, 1);
	SET(reader->finished, 1);
	return NULL;
}

/* Does the reader sleep, or has it finished? */
static bool has_begun(const struct reader *reader)
{
	char text[512], *state;

	if (!read_task(PEEK(reader->tid), "stat", text, sizeof(text)))
		return PEEK(reader->finished);
	state = strrchr(text, ')');
	return state && state[2] == 'S';
}

static void start_reader_into(struct reader *reader, int fd, void *buffer)
{
	*reader = (struct reader) { .fd = fd, .buffer = buffer };
	CHECK_EQ(pthread_create(&reader->thread, NULL, read_once, reader), 0);
	WAIT_FOR(has_begun(reader));
}

static void start_reader(struct reader *reader, int fd)
{
	start_reader_into(reader, fd, &reader->event);
}

TEST(read_that_blocks_is_not_ended_by_a_cancel)
{
	int fd = device_open(O_RDWR);
	struct reader reader;

	start_reader(&reader, fd);
	for (int i = 0; i < 100; i++)
		CHECK_EQ(cancel(fd, arm(fd, HOUR, i)), 0);
	CHECK(!PEEK(reader.finished));
	arm(fd, 0, 1000);
	pthread_join(reader.thread, NULL);
	CHECK_EQ(reader.ret, 1);
	CHECK_EQ(reader.event.cookie, 1000);
}

TEST(read_goes_on_when_its_descriptor_is_closed)
{
	int fd = device_open(O_RDWR);
	struct reader reader;

	arm(fd, 100 * NSEC_PER_MSEC, 7);
	start_reader(&reader, fd);
	close(fd);
	pthread_join(reader.thread, NULL);
	CHECK_EQ(reader.ret, 1);
	CHECK_EQ(reader.event.cookie, 7);
}

/* Wakeups */

#define NR_READERS	128		/* readers, and events of a burst */
#define MAX_COOKIE	1000000		/* cookies are lower */

/* How often an event with this cookie was read. */
static __u8 seen[MAX_COOKIE];

struct reading_thread {
	pthread_t thread;
	int fd;
	int room;			/* room of the buffer, in events */
	int limit;			/* number of events after which it ends */
	int got;
	int waiting;
};

static void *reading_thread(void *arg)
{
	struct reading_thread *member = arg;
	struct twheel_event events[NR_READERS];

	SET(member->waiting, 1);
	while (member->got < member->limit) {
		int nr = read_events(member->fd, events, member->room);

		CHECK(nr > 0);
		for (int i = 0; i < nr; i++) {
			check_event(&events[i]);
			CHECK(events[i].cookie < MAX_COOKIE);
			__atomic_add_fetch(&seen[events[i].cookie], 1, __ATOMIC_RELAXED);
		}
		SET(member->got, member->got + nr);
	}
	return NULL;
}

/* On return, all readers are asleep. */
static void start_reading_threads(struct reading_thread *readers, int nr, int fd, int room,
				  int limit)
{
	for (int i = 0; i < nr; i++) {
		pthread_attr_t attr;

		readers[i] = (struct reading_thread) { .fd = fd, .room = room, .limit = limit };
		pthread_attr_init(&attr);
		pthread_attr_setstacksize(&attr, 128 * 1024);
		CHECK_EQ(pthread_create(&readers[i].thread, &attr, reading_thread, &readers[i]), 0);
	}
	for (int i = 0; i < nr; i++)
		WAIT_FOR(PEEK(readers[i].waiting));
	sleep_ns(200 * NSEC_PER_MSEC);
}

static int nr_read_by(struct reading_thread *readers, int nr)
{
	int got = 0;

	for (int i = 0; i < nr; i++)
		got += PEEK(readers[i].got);
	return got;
}

static void wait_nr_read(struct reading_thread *readers, int nr, int got)
{
	WAIT_FOR(nr_read_by(readers, nr) >= got);
}

/* Number of times that a thread, but not the main one, has gone to sleep. */
static int sleeps_of_other(pid_t tid)
{
	static const char label[] = "\nvoluntary_ctxt_switches:";
	char text[4096], *line;

	if (tid == getpid())
		return 0;
	CHECK(read_task(tid, "status", text, sizeof(text)));
	line = strstr(text, label);
	CHECK(line);
	return atoi(line + strlen(label));
}

/* Events of one tick come in one batch unless the wheel's thread is preempted. */
static void burst(int fd)
{
	arm_many(fd, NR_READERS, 30 * NSEC_PER_MSEC, 0, 0, NULL);
}

TEST(burst_wakes_no_more_readers_than_it_takes)
{
	static struct reading_thread readers[NR_READERS];
	int fd = device_open(O_RDWR), before, woken, fewest = NR_READERS;

	start_reading_threads(readers, NR_READERS, fd, NR_READERS, INT_MAX);
	for (int i = 1; i <= (is_slow() ? 2 : 5); i++) {
		before = sum_over_tasks(sleeps_of_other);
		burst(fd);
		wait_nr_read(readers, NR_READERS, i * NR_READERS);
		sleep_ns(50 * NSEC_PER_MSEC);
		woken = sum_over_tasks(sleeps_of_other) - before;
		ktap_note("%d readers woken", woken);
		fewest = woken < fewest ? woken : fewest;
	}
	CHECK(fewest >= 1);
	CHECK(fewest <= 16);
}

/* With buffers of all sizes and overlapping bursts, no event stays until the next one. */
TEST(readers_get_each_event_once)
{
	static struct reading_thread readers[16];
	int fd = device_open(O_RDWR), sent = 0;
	__u64 until, seed = now_ns();

	for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
		start_reading_threads(&readers[i], 1, fd, 1 + i % 5, INT_MAX);
	until = now_ns() + race_duration_ns(2000);
	while (now_ns() < until && sent < MAX_COOKIE - 3 * (int)ARRAY_SIZE(readers)) {
		int nr = 1 + random_below(&seed, 3 * ARRAY_SIZE(readers));

		arm_many(fd, nr, random_below(&seed, NSEC_PER_MSEC), 0, sent, NULL);
		sent += nr;
		if (random_below(&seed, 2))
			sleep_ns(random_below(&seed, 2 * NSEC_PER_MSEC));
		if (!random_below(&seed, 8))
			wait_nr_read(readers, ARRAY_SIZE(readers), sent);
	}
	wait_nr_read(readers, ARRAY_SIZE(readers), sent);
	CHECK_EQ(info(fd).live, 0);
	for (int i = 0; i < sent; i++)
		CHECK_EQ(seen[i], 1);
	ktap_note("%d events", sent);
}

/* Signals */

TEST(read_ends_at_a_signal_unless_it_restarts)
{
	static const struct {
		const char *name;
		int flags;
		int ret;
	} rows[] = { { "no flags", 0, -EINTR }, { "SA_RESTART", SA_RESTART, 1 } };

	for_each_row(row, rows) {
		int fd = device_open(O_RDWR);
		struct reader reader;

		handle_signal(SIGUSR1, row->flags);
		start_reader(&reader, fd);
		SET(nr_signals, 0);
		while (row->ret < 0 ? !PEEK(reader.finished) : PEEK(nr_signals) < 5) {
			pthread_kill(reader.thread, SIGUSR1);
			sleep_ns(5 * NSEC_PER_MSEC);
		}
		arm(fd, 0, 7);
		pthread_join(reader.thread, NULL);
		CHECK_EQ(reader.ret, row->ret);
		CHECK_EQ((row->ret < 0 ? read_event(fd) : reader.event).cookie, 7);
	}
}

static void *read_unless_interrupted(void *arg)
{
	struct reading_thread *member = arg;
	struct twheel_event event;
	int nr;

	SET(member->waiting, 1);
	nr = read_events(member->fd, &event, 1);
	CHECK(nr == 1 || nr == -EINTR);
	SET(member->got, nr == 1);
	return NULL;
}

/*
 * A signal comes together with the event. A reader that is woken for the event and
 * interrupted by the signal leaves the event to the next reader.
 */
TEST(event_of_an_interrupted_reader_goes_to_the_next)
{
	__u64 until = now_ns() + race_duration_ns(2000), seed = until, signal_ns;
	int rounds = 0, interrupted = 0;

	handle_signal(SIGUSR1, 0);
	for (; now_ns() < until; rounds++) {
		static struct reading_thread readers[4], last;
		int fd = device_open(O_RDWR);

		for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
			readers[i] = (struct reading_thread) { .fd = fd };
			pthread_create(&readers[i].thread, NULL, read_unless_interrupted,
				       &readers[i]);
		}
		for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
			while (!PEEK(readers[i].waiting))
				sched_yield();
		}
		sleep_ns(NSEC_PER_MSEC);
		/* this reader comes last and gets no signal */
		last = (struct reading_thread) { .fd = fd, .room = 1, .limit = 1 };
		pthread_create(&last.thread, NULL, reading_thread, &last);
		sleep_ns(NSEC_PER_MSEC);
		arm_many(fd, ARRAY_SIZE(readers) + 1, 0, 0, 0, NULL);
		signal_ns = now_ns() + random_below(&seed, 2 * NSEC_PER_MSEC);
		while (now_ns() < signal_ns)
			;
		for (size_t i = 0; i < ARRAY_SIZE(readers); i++)
			pthread_kill(readers[i].thread, SIGUSR1);
		for (size_t i = 0; i < ARRAY_SIZE(readers); i++) {
			pthread_join(readers[i].thread, NULL);
			interrupted += !readers[i].got;
		}
		wait_nr_read(&last, 1, 1);
		pthread_join(last.thread, NULL);
		close(fd);
	}
	ktap_note("%d rounds, %d interrupted", rounds, interrupted);
}

TEST(reader_can_be_killed)
{
	int fd = device_open(O_RDWR);
	pid_t pid = fork_child();

	if (!pid) {
		read_event(fd);
		_exit(0);
	}
	sleep_ns(20 * NSEC_PER_MSEC);
	kill_child(pid);
	arm(fd, 0, 7);
	CHECK_EQ(read_event(fd).cookie, 7);
}

/* Bad memory: an event that could not be delivered stays */

TEST(read_at_bad_address_is_efault_and_loses_nothing)
{
	const struct twheel_event old = { 0 };
	struct bad_address bad[NR_BAD_ADDRESSES + 1];
	struct twheel_event events[3];
	int fd = open_with_events(O_RDWR | O_NONBLOCK, 3);

	bad_addresses(bad);
	bad[NR_BAD_ADDRESSES] = (struct bad_address) {
		"read-only", map_read_only(&old, sizeof(old)),
	};
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_ROW(read_events(fd, bad[i].address, 1), -EFAULT, bad[i].name);
		CHECK_ROW(read_events(fd, bad[i].address, 3), -EFAULT, bad[i].name);
		CHECK_ROW(info(fd).ready, 3, bad[i].name);
	}
	CHECK_EQ(read_events(fd, events, 3), 3);
	check_cookies(events, 3, 0);
	check_no_event(fd);
}

/*
 * The reader that has waited longest is woken and cannot take the event. If it tried again,
 * it would wait for the event that the next reader has taken.
 */
TEST(event_that_one_reader_cannot_take_goes_to_the_next)
{
	int fd = device_open(O_RDWR);
	struct reader bad, good;

	start_reader_into(&bad, fd, map_unusable());
	start_reader(&good, fd);
	arm(fd, 0, 7);
	pthread_join(bad.thread, NULL);
	CHECK_EQ(bad.ret, -EFAULT);
	WAIT_FOR(PEEK(good.finished));
	CHECK_EQ(good.ret, 1);
	CHECK_EQ(good.event.cookie, 7);
}

TEST(lseek_and_pread_are_espipe)
{
	struct twheel_event event;
	int fd = open_with_events(O_RDWR, 1);

	CHECK_EQ(lseek(fd, 0, SEEK_CUR), -1);
	CHECK_EQ(errno, ESPIPE);
	CHECK_EQ(pread(fd, &event, sizeof(event), 0), -1);
	CHECK_EQ(errno, ESPIPE);
	CHECK_EQ(info(fd).ready, 1);
}
