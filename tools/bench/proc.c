// SPDX-License-Identifier: GPL-2.0
#include <unistd.h>

#include "proc.h"

FILE *open_file(const char *path)
{
	FILE *file = fopen(path, "r");

	if (!file)
		die(path);
	return file;
}

void write_to(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	if (!file || fputs(text, file) < 0 || fclose(file))
		die(path);
}

uint64_t cpu_idle_ns(void)
{
	FILE *file = open_file(MODULE "idle_ns");
	uint64_t ns;

	if (fscanf(file, "%lu", &ns) != 1)
		die(MODULE "idle_ns");
	fclose(file);
	return ns;
}

uint64_t free_bytes(void)
{
	unsigned long pages = 0, nr;
	char line[256];
	FILE *file;

	write_to("/proc/sys/vm/drop_caches", "3");
	usleep(500000);
	write_to("/proc/sys/vm/stat_refresh", "1");
	file = open_file("/proc/zoneinfo");
	while (fgets(line, sizeof(line), file)) {
		if (sscanf(line, " pages free %lu", &nr) == 1 ||
		    sscanf(line, " count: %lu", &nr) == 1)
			pages += nr;
	}
	fclose(file);
	return pages * sysconf(_SC_PAGESIZE);
}
