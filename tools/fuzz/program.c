// SPDX-License-Identifier: GPL-2.0
/*
 * Programs: generated, mutated, printed and parsed.
 *
 * A generated program is probably useful: it opens a file, most of its steps are valid, and
 * interesting kinds of steps are frequent. A mutated program may contain anything.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

/* Weight of each kind in the random choice. */
static const struct {
	const char *name;
	unsigned int weight;
} kinds[NR_KINDS] = {
	[OPEN]		= { "open", 6 },
	[DUP]		= { "dup", 4 },
	[CLOSE]		= { "close", 2 },
	[SETUP]		= { "setup", 6 },
	[ARM]		= { "arm", 60 },
	[MOD]		= { "mod", 24 },
	[CANCEL]	= { "cancel", 24 },
	[GET]		= { "get", 16 },
	[KICK]		= { "kick", 10 },
	[SUBMIT]	= { "submit", 30 },
	[CANCEL_ALL]	= { "cancel_all", 6 },
	[STOP]		= { "stop", 2 },
	[LIST]		= { "list", 8 },
	[INFO]		= { "info", 12 },
	[STATS]		= { "stats", 8 },
	[UNKNOWN]	= { "unknown", 2 },
	[READ]		= { "read", 28 },
	[POLL]		= { "poll", 12 },
	[EPOLL]		= { "epoll", 6 },
	[MAP]		= { "map", 8 },
	[UNMAP]		= { "unmap", 2 },
	[CELL]		= { "cell", 60 },
	[WAIT]		= { "wait", 10 },
	[DRAIN]		= { "drain", 2 },
	[FORK]		= { "fork", 1 },
};

static const struct {
	const char *name;
	size_t offset;
} fields[] = {
	{ "thread", offsetof(struct step, thread) },
	{ "fd", offsetof(struct step, fd) },
	{ "target", offsetof(struct step, target) },
	{ "when", offsetof(struct step, when) },
	{ "span", offsetof(struct step, span) },
	{ "flags", offsetof(struct step, flags) },
	{ "error", offsetof(struct step, error) },
};

#define NR_FIELDS	ARRAY_SIZE(fields)

static uint8_t *field_of(struct step *step, unsigned int field)
{
	return (uint8_t *)step + fields[field].offset;
}

/* splitmix64: the first numbers are good for any seed. */
static uint64_t generator_next(struct generator *generator)
{
	uint64_t z = generator->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

struct generator generator_init(uint64_t seed, uint64_t number)
{
	struct generator generator = { .state = seed };

	generator.state = generator_next(&generator) + number;
	return generator;
}

uint32_t random_below(struct generator *generator, uint32_t sides)
{
	return (generator_next(generator) >> 32) * sides >> 32;
}

static int one_in(struct generator *generator, uint32_t sides)
{
	return !random_below(generator, sides);
}

/* Generation */

static enum kind random_kind(struct generator *generator)
{
	unsigned int sum = 0, left;
	enum kind kind = 0;

	for (unsigned int i = 0; i < NR_KINDS; i++)
		sum += kinds[i].weight;
	left = random_below(generator, sum);
	while (left >= kinds[kind].weight)
		left -= kinds[kind++].weight;
	return kind;
}

static void generate_step(struct step *step, enum kind kind, struct generator *generator)
{
	*step = (struct step) {
		.kind = kind,
		.thread = random_below(generator, 256),
		.fd = one_in(generator, 3) ? random_below(generator, 256) : 0,
		.target = random_below(generator, 256),
		.when = random_below(generator, 256),
		.span = one_in(generator, 3) ? random_below(generator, 256) : 0,
		.flags = one_in(generator, 2) ? random_below(generator, 256) : 0,
		.error = one_in(generator, 6) ? random_below(generator, 256) : 0,
	};
}

void program_generate(struct program *program, struct generator *generator)
{
	unsigned int i;

	program->threads = one_in(generator, 4) ? 2 + random_below(generator, MAX_THREADS - 1) : 1;
	program->nr = 6 + random_below(generator, MAX_STEPS - 6);
	for (i = 0; i < program->nr; i++)
		generate_step(&program->steps[i], random_kind(generator), generator);
	program->steps[0] = (struct step) { .kind = OPEN };
	if (one_in(generator, 2))
		generate_step(&program->steps[1], SETUP, generator);
	if (one_in(generator, 2))
		program->steps[1].error = 0;
}

/* Mutation */

void program_remove(struct program *program, unsigned int first, unsigned int nr)
{
	memmove(&program->steps[first], &program->steps[first + nr],
		(program->nr - first - nr) * sizeof(program->steps[0]));
	program->nr -= nr;
}

static void insert(struct program *program, const struct step *step, unsigned int where)
{
	if (program->nr == MAX_STEPS)
		program->nr--;
	memmove(&program->steps[where + 1], &program->steps[where],
		(program->nr - where) * sizeof(*step));
	program->steps[where] = *step;
	program->nr++;
}

static void change_field(struct program *program, struct generator *generator)
{
	struct step *step = &program->steps[random_below(generator, program->nr)];
	uint8_t *field = field_of(step, random_below(generator, NR_FIELDS));

	switch (random_below(generator, 4)) {
	case 0:
		*field = 0;
		break;
	case 1:
		*field += 1;
		break;
	case 2:
		*field ^= 1 << random_below(generator, 8);
		break;
	default:
		*field = random_below(generator, 256);
		break;
	}
}

static void insert_random_step(struct program *program, struct generator *generator)
{
	struct step step;

	generate_step(&step, random_kind(generator), generator);
	insert(program, &step, random_below(generator, program->nr));
}

static void repeat_step(struct program *program, struct generator *generator)
{
	struct step step = program->steps[random_below(generator, program->nr)];

	insert(program, &step, random_below(generator, program->nr));
}

static void insert_steps_of(struct program *program, const struct program *other,
			    struct generator *generator)
{
	unsigned int first = random_below(generator, other->nr);
	unsigned int nr = 1 + random_below(generator, other->nr - first);
	unsigned int where = random_below(generator, program->nr);

	for (unsigned int i = 0; i < nr && where + i < MAX_STEPS - 1; i++)
		insert(program, &other->steps[first + i], where + i);
}

static void mutate_once(struct program *program, const struct program *other,
			struct generator *generator)
{
	switch (random_below(generator, 12)) {
	case 0:
		insert_steps_of(program, other, generator);
		break;
	case 1:
		repeat_step(program, generator);
		break;
	case 2:
	case 3:
		insert_random_step(program, generator);
		break;
	case 4:
	case 5:
		if (program->nr > 1)
			program_remove(program, random_below(generator, program->nr), 1);
		break;
	case 6:
		program->steps[random_below(generator, program->nr)].kind = random_kind(generator);
		break;
	case 7:
		if (one_in(generator, 4))
			program->threads = 1 + random_below(generator, MAX_THREADS);
		break;
	default:
		change_field(program, generator);
		break;
	}
}

void program_mutate(struct program *program, const struct program *other,
		    struct generator *generator)
{
	unsigned int changes = 1 + random_below(generator, 6);

	while (changes--)
		mutate_once(program, other, generator);
}

/* Text form */

static void print_step(FILE *file, struct step step)
{
	fputs(kinds[kind_of(&step)].name, file);
	for (unsigned int i = 0; i < NR_FIELDS; i++) {
		if (*field_of(&step, i))
			fprintf(file, " %s=%u", fields[i].name, *field_of(&step, i));
	}
	putc('\n', file);
}

void program_print(FILE *file, const struct program *program)
{
	fprintf(file, "threads %u\n", program->threads);
	for (unsigned int i = 0; i < program->nr; i++)
		print_step(file, program->steps[i]);
	putc('\n', file);
	fflush(file);
}

static int parse_field(struct step *step, char *word)
{
	char *value = strchr(word, '=');

	if (!value)
		return -1;
	*value++ = '\0';
	for (unsigned int i = 0; i < NR_FIELDS; i++) {
		if (!strcmp(fields[i].name, word)) {
			*field_of(step, i) = strtoul(value, NULL, 0);
			return 0;
		}
	}
	return -1;
}

static int parse_step(struct step *step, char *line)
{
	char *word = strtok(line, " \t\n");

	*step = (struct step) { 0 };
	while (step->kind < NR_KINDS && strcmp(kinds[step->kind].name, word))
		step->kind++;
	if (step->kind == NR_KINDS)
		return -1;
	while ((word = strtok(NULL, " \t\n"))) {
		if (parse_field(step, word))
			return -1;
	}
	return 0;
}

static int parse_line(struct program *program, char *line)
{
	if (sscanf(line, "threads %hhu", &program->threads) == 1)
		return program->threads >= 1 && program->threads <= MAX_THREADS ? 0 : -1;
	if (program->nr == MAX_STEPS)
		return -1;
	return parse_step(&program->steps[program->nr++], line);
}

int program_read(FILE *file, struct program *program)
{
	char line[200];

	program->threads = 1;
	program->nr = 0;
	while (fgets(line, sizeof(line), file)) {
		int comment = !!strchr(line, '#');

		line[strcspn(line, "#\n")] = '\0';
		if (line[strspn(line, " \t")]) {
			if (parse_line(program, line))
				return -1;
		} else if (program->nr && !comment) {
			return 1;
		}
	}
	return program->nr > 0;
}
