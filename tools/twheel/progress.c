// SPDX-License-Identifier: GPL-2.0
/*
 * A progress bar, at most 80 columns wide. It is redrawn in one line, which is cleared at
 * the end.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "progress.h"

#define WIDTH	30

void progress_show(uint64_t done, uint64_t total, const char *what)
{
	static const char bar[] = "##############################";
	int part;

	if (!isatty(STDERR_FILENO) || !total)
		return;
	if (done > total)
		done = total;
	part = done * WIDTH / total;
	fprintf(stderr, "\r[%-*.*s] %3u%% %ju of %ju %s\033[K", WIDTH, part, bar,
		(unsigned int)(done * 100 / total), done, total, what);
	fflush(stderr);
}

void progress_end(void)
{
	if (isatty(STDERR_FILENO))
		fputs("\r\033[K", stderr);
}
