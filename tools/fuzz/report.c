// SPDX-License-Identifier: GPL-2.0
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "program.h"

#define TIME_LIMIT_S	60
#define FRAMES		3	/* stack frames that show the origin of an access */
#define REPORT_US	300000	/* maximum time that the kernel takes to print a report */

static struct report {
	int verbose;
	int mismatch_found;
	char text[300];
} *report;

void *shared_memory(size_t size)
{
	void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			    -1, 0);

	if (memory == MAP_FAILED) {
		perror("fuzz: mmap");
		exit(1);
	}
	return memory;
}

int mismatch_found(void)
{
	return __atomic_load_n(&report->mismatch_found, __ATOMIC_ACQUIRE);
}

/* Several threads may call this at once: the first one writes. */
void mismatch(const char *format, ...)
{
	static int taken;
	va_list args;

	if (mismatch_found() || __atomic_exchange_n(&taken, 1, __ATOMIC_ACQUIRE))
		return;
	va_start(args, format);
	vsnprintf(report->text, sizeof(report->text), format, args);
	va_end(args);
	__atomic_store_n(&report->mismatch_found, 1, __ATOMIC_RELEASE);
	__atomic_store_n(&taken, 0, __ATOMIC_RELEASE);
}

const char *mismatch_text(void)
{
	return report->text;
}

void log_call(const char *format, ...)
{
	va_list args;

	if (!report->verbose)
		return;
	fputs("#   ", stdout);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	putchar('\n');
	fflush(stdout);
}

/* Calls that do not return, and reports of the kernel */

static int kmsg = -1;
static timer_t timer;

/* The signal interrupts calls that wait, so the program ends. */
static void on_time_limit(int signal)
{
	(void)signal;
	mismatch("a program has not ended within %d s", TIME_LIMIT_S);
}

void report_init(int of_kernel)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	const struct sigaction action = { .sa_handler = on_time_limit };

	report = shared_memory(sizeof(*report));
	sigaction(SIGUSR1, &action, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer)) {
		perror("fuzz: timer");
		exit(1);
	}
	if (!of_kernel)
		return;
	kmsg = open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	if (kmsg >= 0)
		lseek(kmsg, 0, SEEK_END);
}

static void set_timer(time_t seconds)
{
	const struct itimerspec time = {
		.it_value.tv_sec = seconds,
		.it_interval.tv_sec = seconds ? 1 : 0,
	};

	timer_settime(timer, 0, &time, NULL);
}

void report_begin(int verbose)
{
	report->mismatch_found = 0;
	report->verbose = verbose;
	set_timer(TIME_LIMIT_S);
}

static int is_kernel_report(const char *text)
{
	static const char * const keywords[] = {
		"BUG", "WARNING", "KASAN", "UBSAN", "ODEBUG", "corruption", "possible ",
		"stall", "lockup", "blocked for more than",
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(keywords); i++) {
		if (strstr(text, keywords[i]))
			return 1;
	}
	return 0;
}

/* Returns whether one of the next lines of @text names a function of the modules. */
static int next_is_ours(const char *text)
{
	for (unsigned int i = 0; i < FRAMES && (text = strchr(text, '\n')); i++) {
		text++;
		if (memmem(text, strcspn(text, "\n"), "[twheel", strlen("[twheel")))
			return 1;
	}
	return 0;
}

/* Returns whether one of the two accesses is ours. An interrupt may add frames on top. */
static int race_is_ours(const char *text)
{
	while ((text = strstr(text, " bytes by "))) {
		if (next_is_ours(text++))
			return 1;
	}
	return 0;
}

/*
 * Returns whether a report concerns the modules. KCSAN also reports races of other code,
 * after a warning about itself in 6.1, and other code prints with interrupts off.
 */
static int is_ours(const char *text)
{
	if (strstr(text, "KCSAN") || strstr(text, "kcsan/report.c"))
		return race_is_ours(text);
	return !strstr(text, "wait context") || strstr(text, "[twheel");
}

/* Read the new lines of the log, as many as fit. */
static void read_log(char *text, size_t size)
{
	char record[1024];
	size_t used = 0;
	ssize_t len;

	text[0] = '\0';
	while ((len = read(kmsg, record, sizeof(record) - 1)) > 0) {
		record[len] = '\0';
		record[strcspn(record, "\n") + 1] = '\0';
		if (used < size)
			used += snprintf(text + used, size - used, "%s", strchr(record, ';') + 1);
	}
}

void report_end(void)
{
	static char text[1 << 16];
	size_t used;

	set_timer(0);
	if (kmsg < 0)
		return;
	read_log(text, sizeof(text) / 2);
	if (!is_kernel_report(text))
		return;
	/* A report has many lines, and may not be complete. */
	sleep_us(REPORT_US);
	used = strlen(text);
	read_log(text + used, sizeof(text) - used);
	fputs(text, stderr);
	if (is_ours(text))
		mismatch("a report in the kernel log: %s", text);
}
