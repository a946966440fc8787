// SPDX-License-Identifier: GPL-2.0
#include <dirent.h>
#include <stdlib.h>
#include <string.h>

#include "corpus.h"

#define MAX_CORPUS	8192

static struct program programs[MAX_CORPUS];
static unsigned int nr;

void corpus_add(const struct program *program)
{
	if (nr < MAX_CORPUS)
		programs[nr++] = *program;
}

unsigned int corpus_size(void)
{
	return nr;
}

const struct program *corpus_at(unsigned int i)
{
	return &programs[i];
}

static void load_file(const char *path)
{
	FILE *file = fopen(path, "r");
	struct program program;
	int ret = -1;

	while (file && (ret = program_read(file, &program)) > 0)
		corpus_add(&program);
	if (!file || ret < 0) {
		fprintf(stderr, "fuzz: %s: cannot be read, or program %u is not one\n", path,
			nr + 1);
		exit(1);
	}
	fclose(file);
}

void corpus_load(const char *path)
{
	struct dirent **entries;
	char name[512];
	int found = scandir(path, &entries, NULL, alphasort);

	if (found < 0) {
		load_file(path);
		return;
	}
	for (int i = 0; i < found; i++) {
		snprintf(name, sizeof(name), "%s/%s", path, entries[i]->d_name);
		if (entries[i]->d_name[0] != '.')
			load_file(name);
		free(entries[i]);
	}
	free(entries);
}
