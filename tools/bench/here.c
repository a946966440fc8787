// SPDX-License-Identifier: GPL-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "../lib/libtwheel.h"
#include "backends/backend.h"
#include "here.h"
#include "machine.h"

/* Descriptors of the program in addition to those of the timers. */
#define OWN_FILES	16

#define ROWS_MAX	128

/**
 * struct row - results of one operation in the table
 * @operation: its name
 * @n: number of timeouts
 * @ns: result of each system; 0: not measured
 */
struct row {
	char		operation[32];
	unsigned int	n;
	double		ns[7];
};

static const char *const columns[] = {
	"twheel", "process", "timerfd", "posix", "io_uring", "misdn", "wheel",
};

#define NR_COLUMNS	(sizeof(columns) / sizeof(*columns))

static struct row rows[ROWS_MAX];
static unsigned int nr_rows;

/* The first line of a file that begins with @prefix, from its colon on if there is one. */
static const char *find_line(const char *path, const char *prefix)
{
	static char line[4096];
	FILE *file = fopen(path, "r");
	char *value = NULL;

	while (file && !value && fgets(line, sizeof(line), file)) {
		if (!strncmp(line, prefix, strlen(prefix)))
			value = line;
	}
	if (file)
		fclose(file);
	if (!value)
		return NULL;
	value[strcspn(value, "\n")] = '\0';
	if (*prefix && strchr(value, ':'))
		value = strchr(value, ':') + 2;
	return value;
}

static void print_fact(const char *name, const char *value)
{
	fprintf(stderr, "%-10s %s\n", name, value ?: "unknown");
}

static void raise_limit(int resource)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit))
		die("getrlimit");
	limit.rlim_cur = limit.rlim_max;
	if (setrlimit(resource, &limit))
		die("setrlimit");
}

/* Print to standard error, because standard output contains only results. */
void here_begin(void)
{
	const char *flags;
	struct utsname name;
	char cpus[16];

	/* It would make one back end of both. */
	unsetenv("TWHEEL_BACKEND");
	uname(&name);
	snprintf(cpus, sizeof(cpus), "%ld", sysconf(_SC_NPROCESSORS_ONLN));
	print_fact("processor", find_line("/proc/cpuinfo", "model name"));
	flags = find_line("/proc/cpuinfo", "flags");
	if (flags && strstr(flags, " hypervisor"))
		print_fact("machine", "virtual");
	print_fact("CPUs", cpus);
	print_fact("governor", find_line("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor",
					 ""));
	print_fact("kernel", name.release);
	print_fact("module", find_line("/sys/module/twheel_dev/version", "") ?:
			     find_line("/sys/module/twheel_dev/srcversion", "") ?:
			     (twheel_available() ? "none" : "without a version"));
	raise_limit(RLIMIT_NOFILE);
	raise_limit(RLIMIT_SIGPENDING);
}

static bool skip_system(const char *system, unsigned int n, const char *why)
{
	fprintf(stderr, "%s with %u timeouts is left out: %s\n", system, n, why);
	return false;
}

static bool limit_allows(int resource, unsigned int n)
{
	struct rlimit limit;

	return !getrlimit(resource, &limit) && limit.rlim_cur >= n + OWN_FILES;
}

bool here_allows(const char *system, unsigned int n)
{
	if (!strcmp(system, "twheel") && twheel_available())
		return skip_system(system, n, "/dev/twheel cannot be opened");
	if (!strcmp(system, "timerfd") && !limit_allows(RLIMIT_NOFILE, n))
		return skip_system(system, n, "the limit of open files (ulimit -Hn)");
	if (!strcmp(system, "posix") && !limit_allows(RLIMIT_SIGPENDING, n))
		return skip_system(system, n, "the limit of pending signals (ulimit -Hi)");
	if (!strcmp(system, "misdn") && access("/dev/mISDNtimer", R_OK | W_OK))
		return skip_system(system, n, "there is no /dev/mISDNtimer");
	if (!strcmp(system, "io_uring") && !io_uring_works())
		return skip_system(system, n, "the kernel, or this build, has none");
	return true;
}

static struct row *find_row(const char *operation, unsigned int n)
{
	struct row *row = rows;

	while (row < rows + nr_rows && (row->n != n || strcmp(row->operation, operation)))
		row++;
	if (row == rows + ROWS_MAX)
		die("too many results");
	if (row == rows + nr_rows) {
		nr_rows++;
		snprintf(row->operation, sizeof(row->operation), "%s", operation);
		row->n = n;
	}
	return row;
}

void here_add(const char *system, const char *operation, unsigned int n, double ns)
{
	for (unsigned int i = 0; i < NR_COLUMNS; i++) {
		if (!strcmp(columns[i], system))
			find_row(operation, n)->ns[i] = ns;
	}
}

static bool has_result(unsigned int column)
{
	unsigned int i = 0;

	while (i < nr_rows && rows[i].ns[column] <= 0)
		i++;
	return i < nr_rows;
}

void here_print(void)
{
	puts("ns for each timeout, the best of several");
	printf("%-20s %8s", "operation", "n");
	for (unsigned int i = 0; i < NR_COLUMNS; i++) {
		if (has_result(i))
			printf(" %9s", columns[i]);
	}
	putchar('\n');
	for (struct row *row = rows; row < rows + nr_rows; row++) {
		printf("%-20s %8u", row->operation, row->n);
		for (unsigned int i = 0; i < NR_COLUMNS; i++) {
			if (row->ns[i] > 0)
				printf(" %9.1f", row->ns[i]);
			else if (has_result(i))
				printf(" %9s", "-");
		}
		putchar('\n');
	}
	if (fflush(stdout) || ferror(stdout))
		die("output");
}
