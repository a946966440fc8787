// SPDX-License-Identifier: GPL-2.0
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "report.h"

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

void report_init(void)
{
	report = shared_memory(sizeof(*report));
}

void report_reset(int verbose)
{
	report->mismatch_found = 0;
	report->verbose = verbose;
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
