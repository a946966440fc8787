// SPDX-License-Identifier: GPL-2.0
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "program.h"
#include "report.h"
#include "watch.h"

#define MINUTE_S	60

static int kmsg = -1;
static timer_t timer;

/* Calls that wait are interrupted, so the program ends. */
static void on_minute(int signal)
{
	(void)signal;
	disagree("no end within %d s", MINUTE_S);
}

void watch_init(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1 };
	const struct sigaction action = { .sa_handler = on_minute };

	sigaction(SIGUSR1, &action, NULL);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer)) {
		perror("fuzz: timer");
		exit(1);
	}
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

void watch_begin(void)
{
	set_timer(MINUTE_S);
}

static int is_report(const char *record)
{
	static const char * const marks[] = {
		"BUG", "WARNING", "KASAN", "KCSAN", "UBSAN", "ODEBUG", "corruption", "possible ",
		"stall", "lockup", "blocked for more than",
	};

	for (unsigned int i = 0; i < ARRAY_SIZE(marks); i++) {
		if (strstr(record, marks[i]))
			return 1;
	}
	return 0;
}

void watch_end(void)
{
	char record[1024];
	ssize_t size;

	set_timer(0);
	while (kmsg >= 0 && (size = read(kmsg, record, sizeof(record) - 1)) > 0) {
		record[size] = '\0';
		record[strcspn(record, "\n")] = '\0';
		if (is_report(record))
			disagree("the kernel says: %s", strchr(record, ';') + 1);
	}
}
