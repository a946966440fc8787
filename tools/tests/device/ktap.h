/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Main program of a set of tests; prints KTAP version 1.
 *
 * Every test runs in its own process and process group. The first failed check ends it, in
 * whatever thread or function it is. Everything that it leaves open or running ends with
 * it. A test that hangs is killed and counts as failed. Arguments of the program select
 * tests by a part of their name. A program with a main() of its own defines KTAP_NO_MAIN. If
 * KTAP_NEEDS is defined, it names a file without which all tests are skipped.
 */
#ifndef TWHEEL_TESTS_KTAP_H
#define TWHEEL_TESTS_KTAP_H

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ARRAY_SIZE(a)	(sizeof(a) / sizeof((a)[0]))

/* A test that takes longer than this number of seconds is stuck. */
#ifndef KTAP_HANG_S
#define KTAP_HANG_S	40
#endif

#define KTAP_EXIT_SKIP	4

struct ktap_test {
	const char *name;
	void (*run)(void);
};

/* Defines a test. The compiler chooses their order. */
#define TEST(function)							\
	static void function(void);					\
	static const struct ktap_test ktap_##function			\
		__attribute__((used, section("ktap_tests"))) = { #function, function };	\
	static void function(void)

/* Set by the linker: the section of the tests. */
extern const struct ktap_test __start_ktap_tests[], __stop_ktap_tests[];

/* Called in the process of each test before and after it, if set. */
static void (*ktap_before)(void);
static void (*ktap_after)(void);

/* Uses no stdio: a line of each thread stays whole, and _exit() loses none. */
#define ktap_note(format, ...)						\
	((void)dprintf(STDOUT_FILENO, "# " format "\n", ##__VA_ARGS__))

/* Name of the row of a table that is being tested, for the message of a failed check. */
static const char *ktap_row;

#define ktap_fail(format, ...) do {					\
	if (ktap_row)							\
		ktap_note("row \"%s\":", ktap_row);			\
	ktap_note("%s:%d: " format, __func__, __LINE__, ##__VA_ARGS__);	\
	_exit(1);							\
} while (0)

/* Test each row of a table, whose first member is its name. */
#define for_each_row(row, table)					\
	for (__typeof__(&(table)[0]) row = (table);			\
	     (ktap_row = row < (table) + ARRAY_SIZE(table) ? row->name : NULL); row++)

#define ktap_skip(reason) do {						\
	ktap_note("SKIP %s", reason);					\
	_exit(KTAP_EXIT_SKIP);						\
} while (0)

#define CHECK(condition) do {						\
	if (!(condition))						\
		ktap_fail("not true: %s", #condition);			\
} while (0)

/* Compares any integers. Most calls that can fail are functions that return -errno. */
#define CHECK_EQ(value, expected) do {					\
	long long value_ = (value), expected_ = (expected);		\
									\
	if (value_ != expected_)					\
		ktap_fail("%s is %lld, not %lld", #value, value_, expected_);	\
} while (0)

/* The same for a row that has no name of its own in a table; @row identifies it. */
#define CHECK_ROW(value, expected, row) do {				\
	long long value_ = (value), expected_ = (expected);		\
									\
	if (value_ != expected_)					\
		ktap_fail("%s: %s is %lld, not %lld", row, #value, value_, expected_);	\
} while (0)

/* For a variable that a thread or signal handler sets and another thread waits for. */
#define SET(variable, value)	__atomic_store_n(&(variable), value, __ATOMIC_SEQ_CST)
#define PEEK(variable)		__atomic_load_n(&(variable), __ATOMIC_SEQ_CST)

static inline int ktap_selected(const char *name, int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		if (strstr(name, argv[i]))
			return 1;
	}
	return argc < 2;
}

/* The environment can give a slow machine more time. */
static inline time_t ktap_hang_s(void)
{
	const char *seconds = getenv("KTAP_HANG_S");

	return seconds ? atoi(seconds) : KTAP_HANG_S;
}

/* Returns the wait status of @pid; nothing of its process group runs any more. */
static inline int ktap_reap(pid_t pid, const sigset_t *sigchld)
{
	const struct timespec hang = { .tv_sec = ktap_hang_s() };
	int status = 0;

	while (waitpid(pid, &status, WNOHANG) != pid) {
		if (sigtimedwait(sigchld, NULL, &hang) >= 0 || errno != EAGAIN)
			continue;
		ktap_note("still running after %ld s", (long)hang.tv_sec);
		kill(-pid, SIGKILL);
		waitpid(pid, &status, 0);
		break;
	}
	kill(-pid, SIGKILL);
	return status;
}

static inline int ktap_run(const struct ktap_test *test)
{
	sigset_t sigchld, before;
	pid_t pid;
	int status;

	sigemptyset(&sigchld);
	sigaddset(&sigchld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &sigchld, &before);
	pid = fork();
	if (pid < 0) {
		ktap_note("fork: %s", strerror(errno));
		return 1;
	}
	if (!pid) {
		setpgid(0, 0);
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		sigprocmask(SIG_SETMASK, &before, NULL);
		if (ktap_before)
			ktap_before();
		test->run();
		if (ktap_after)
			ktap_after();
		_exit(0);
	}
	setpgid(pid, pid);
	status = ktap_reap(pid, &sigchld);
	if (!WIFEXITED(status)) {
		ktap_note("killed by signal %d", WTERMSIG(status));
		return 1;
	}
	return WEXITSTATUS(status);
}

/*
 * Returns the exit status of the program: KTAP_EXIT_SKIP if all of its tests were skipped. Notes
 * how long a test took, if that was seconds.
 */
static inline int ktap_main(int argc, char **argv)
{
	const struct ktap_test *tests = __start_ktap_tests;
	const size_t nr = __stop_ktap_tests - tests;
	unsigned int plan = 0, number = 0, failed = 0, skipped = 0;

#ifdef KTAP_NEEDS
	if (access(KTAP_NEEDS, F_OK)) {
		printf("KTAP version 1\n1..0 # SKIP there is no %s\n", KTAP_NEEDS);
		return KTAP_EXIT_SKIP;
	}
#endif
	for (size_t i = 0; i < nr; i++)
		plan += ktap_selected(tests[i].name, argc, argv);
	printf("KTAP version 1\n1..%u\n", plan);
	for (size_t i = 0; i < nr && !plan; i++)
		printf("# no test of this name, but %s\n", tests[i].name);
	fflush(stdout);

	for (size_t i = 0; i < nr; i++) {
		struct timespec begin, end;
		int status;

		if (!ktap_selected(tests[i].name, argc, argv))
			continue;
		clock_gettime(CLOCK_MONOTONIC, &begin);
		status = ktap_run(&tests[i]);
		clock_gettime(CLOCK_MONOTONIC, &end);
		end.tv_sec -= begin.tv_sec;
		if (end.tv_sec > 1)
			ktap_note("%ld s", (long)end.tv_sec);
		if (status == KTAP_EXIT_SKIP)
			skipped++;
		else if (status)
			failed++;
		printf("%s %u %s%s\n", status && status != KTAP_EXIT_SKIP ? "not ok" : "ok",
		       ++number, tests[i].name, status == KTAP_EXIT_SKIP ? " # SKIP" : "");
		fflush(stdout);
	}
	if (failed || (nr && !plan))
		return 1;
	return plan && skipped == plan ? KTAP_EXIT_SKIP : 0;
}

#ifndef KTAP_NO_MAIN
int main(int argc, char **argv)
{
	return ktap_main(argc, argv);
}
#endif

#endif /* TWHEEL_TESTS_KTAP_H */
