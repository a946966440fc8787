/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Make an allocation or a copy in a system call fail, at one place after another.
 *
 * The kernel counts the places where an allocation or a copy in a task could fail, and
 * fails the one given in fail-nth in /proc. In a task marked with make-it-fail, every place
 * from there on fails. fault-injection.rst describes this.
 *
 * The call is made by a thread of its own, the victim, which makes no other calls. So the
 * fault hits this call and not the code that checks it.
 */
#ifndef TWHEEL_FAULTS_INJECT_H
#define TWHEEL_FAULTS_INJECT_H

#include <linux/futex.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "group.h"

#define FAULTS_AT_MOST	1000000		/* the kernel counts down from here */

enum { FAULT_SLAB, FAULT_PAGE, FAULT_COPY, NR_FAULTS };

static const char *const fault_names[NR_FAULTS] = {
	[FAULT_SLAB] = "failslab",
	[FAULT_PAGE] = "fail_page_alloc",
	[FAULT_COPY] = "fail_usercopy",
};

struct victim {
	pthread_t thread;
	pid_t tid;
	char directory[32];
	long (*call)(void *arg);
	void *arg;
	long ret;
	int go;
};

static inline void set_fault(int fault, const char *attribute, const char *value)
{
	char directory[64];

	snprintf(directory, sizeof(directory), "/sys/kernel/debug/%s", fault_names[fault]);
	write_file(directory, attribute, value);
}

/* Number of faults since fault_prepare(). */
static inline unsigned long fault_count(int fault)
{
	char directory[64], left[32];

	snprintf(directory, sizeof(directory), "/sys/kernel/debug/%s", fault_names[fault]);
	read_file(directory, "times", left, sizeof(left));
	return FAULTS_AT_MOST - strtoul(left, NULL, 10);
}

/*
 * Include all allocations, also those that may wait. Exclude pages for user space, whose
 * allocation is repeated until it succeeds. Set the filter before the probability;
 * otherwise every task would fail.
 */
static inline void fault_prepare(void)
{
	char times[16];

	if (access("/sys/kernel/debug/fail_usercopy", F_OK))
		ktap_skip("the kernel does not make calls fail");
	snprintf(times, sizeof(times), "%d", FAULTS_AT_MOST);
	for (int fault = 0; fault < NR_FAULTS; fault++) {
		set_fault(fault, "task-filter", "Y");
		set_fault(fault, "verbose", "0");
		set_fault(fault, "times", times);
		set_fault(fault, "probability", "100");
	}
	set_fault(FAULT_SLAB, "ignore-gfp-wait", "N");
	set_fault(FAULT_PAGE, "ignore-gfp-wait", "N");
	set_fault(FAULT_PAGE, "min-order", "0");
}

/* Let the @nth place of a task fail. @task: its directory in /proc; @nth: 0: none */
static inline void set_fail_nth(const char *task, unsigned int nth)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", nth);
	write_file(task, "fail-nth", text);
}

/* Returns the number of places not yet counted down. 0: one has failed. No other fails then. */
static inline unsigned long end_fail_nth(const char *task)
{
	char left[32];

	read_file(task, "fail-nth", left, sizeof(left));
	set_fail_nth(task, 0);
	return strtoul(left, NULL, 10);
}

static inline void victim_futex(struct victim *v, int operation, int value)
{
	syscall(SYS_futex, &v->go, operation | FUTEX_PRIVATE_FLAG, value, NULL, NULL, 0);
}

/*
 * Make calls, and wait for the next one without a place that could fail. A private futex
 * needs no memory, and no function that can fail copies its value. The victim sleeps
 * because preparing a call takes another thread long.
 */
static inline void *victim_main(void *arg)
{
	struct victim *v = arg;

	SET(v->tid, syscall(SYS_gettid));
	for (;;) {
		while (!PEEK(v->go))
			victim_futex(v, FUTEX_WAIT, 0);
		v->ret = v->call(v->arg);
		SET(v->go, 0);
	}
	return NULL;
}

static inline void victim_start(struct victim *v)
{
	memset(v, 0, sizeof(*v));
	CHECK_EQ(pthread_create(&v->thread, NULL, victim_main, v), 0);
	while (!PEEK(v->tid))
		sched_yield();
	snprintf(v->directory, sizeof(v->directory), "/proc/self/task/%d", v->tid);
	CHECK_EQ(mlockall(MCL_CURRENT), 0);
}

/*
 * Let the victim make @call with the @nth place failing and, with @all, all later places
 * too. Returns whether there was such a place; the result of the call is in v->ret.
 */
static inline int victim_fails(struct victim *v, unsigned int nth, int all,
			       long (*call)(void *arg), void *arg)
{
	v->call = call;
	v->arg = arg;
	write_file(v->directory, "make-it-fail", all ? "1" : "0");
	set_fail_nth(v->directory, nth);
	SET(v->go, 1);
	victim_futex(v, FUTEX_WAKE, 1);
	while (PEEK(v->go))
		sleep_ns(20 * NSEC_PER_USEC);
	write_file(v->directory, "make-it-fail", "0");
	return !end_fail_nth(v->directory);
}

/* A line for the table in the documentation. */
static inline void fault_note(unsigned int places)
{
	ktap_note("faults: %u places; failed: %lu slab allocations, %lu pages, %lu copies",
		  places, fault_count(FAULT_SLAB), fault_count(FAULT_PAGE),
		  fault_count(FAULT_COPY));
}

#endif /* TWHEEL_FAULTS_INJECT_H */
