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
	{ "who", offsetof(struct step, who) },
	{ "fd", offsetof(struct step, fd) },
	{ "target", offsetof(struct step, target) },
	{ "when", offsetof(struct step, when) },
	{ "span", offsetof(struct step, span) },
	{ "flags", offsetof(struct step, flags) },
	{ "odd", offsetof(struct step, odd) },
};

#define NR_FIELDS	ARRAY_SIZE(fields)

static uint8_t *field_of(struct step *step, unsigned int field)
{
	return (uint8_t *)step + fields[field].offset;
}

/* splitmix64: the first numbers are good for any seed. */
static uint64_t dice_next(struct dice *dice)
{
	uint64_t z = dice->state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

struct dice dice_of(uint64_t seed, uint64_t number)
{
	struct dice dice = { .state = seed };

	dice.state = dice_next(&dice) + number;
	return dice;
}

uint32_t roll(struct dice *dice, uint32_t sides)
{
	return (dice_next(dice) >> 32) * sides >> 32;
}

static int one_in(struct dice *dice, uint32_t sides)
{
	return !roll(dice, sides);
}

/* Generation */

static enum kind roll_kind(struct dice *dice)
{
	unsigned int sum = 0, left;
	enum kind kind = 0;

	for (unsigned int i = 0; i < NR_KINDS; i++)
		sum += kinds[i].weight;
	left = roll(dice, sum);
	while (left >= kinds[kind].weight)
		left -= kinds[kind++].weight;
	return kind;
}

static void make_step(struct step *step, enum kind kind, struct dice *dice)
{
	*step = (struct step) {
		.kind = kind,
		.who = roll(dice, 256),
		.fd = one_in(dice, 3) ? roll(dice, 256) : 0,
		.target = roll(dice, 256),
		.when = roll(dice, 256),
		.span = one_in(dice, 3) ? roll(dice, 256) : 0,
		.flags = one_in(dice, 2) ? roll(dice, 256) : 0,
		.odd = one_in(dice, 6) ? roll(dice, 256) : 0,
	};
}

void program_make(struct program *program, struct dice *dice)
{
	unsigned int i;

	program->threads = one_in(dice, 4) ? 2 + roll(dice, MAX_THREADS - 1) : 1;
	program->nr = 6 + roll(dice, MAX_STEPS - 6);
	for (i = 0; i < program->nr; i++)
		make_step(&program->steps[i], roll_kind(dice), dice);
	program->steps[0] = (struct step) { .kind = OPEN };
	if (one_in(dice, 2))
		make_step(&program->steps[1], SETUP, dice);
	if (one_in(dice, 2))
		program->steps[1].odd = 0;
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

static void change_field(struct program *program, struct dice *dice)
{
	struct step *step = &program->steps[roll(dice, program->nr)];
	uint8_t *field = field_of(step, roll(dice, NR_FIELDS));

	switch (roll(dice, 4)) {
	case 0:
		*field = 0;
		break;
	case 1:
		*field += 1;
		break;
	case 2:
		*field ^= 1 << roll(dice, 8);
		break;
	default:
		*field = roll(dice, 256);
		break;
	}
}

static void insert_made(struct program *program, struct dice *dice)
{
	struct step step;

	make_step(&step, roll_kind(dice), dice);
	insert(program, &step, roll(dice, program->nr));
}

static void repeat_step(struct program *program, struct dice *dice)
{
	struct step step = program->steps[roll(dice, program->nr)];

	insert(program, &step, roll(dice, program->nr));
}

static void insert_run(struct program *program, const struct program *other,
		       struct dice *dice)
{
	unsigned int first = roll(dice, other->nr);
	unsigned int nr = 1 + roll(dice, other->nr - first);
	unsigned int where = roll(dice, program->nr);

	for (unsigned int i = 0; i < nr && where + i < MAX_STEPS - 1; i++)
		insert(program, &other->steps[first + i], where + i);
}

static void mutate_once(struct program *program, const struct program *other,
			struct dice *dice)
{
	switch (roll(dice, 12)) {
	case 0:
		insert_run(program, other, dice);
		break;
	case 1:
		repeat_step(program, dice);
		break;
	case 2:
	case 3:
		insert_made(program, dice);
		break;
	case 4:
	case 5:
		if (program->nr > 1)
			program_remove(program, roll(dice, program->nr), 1);
		break;
	case 6:
		program->steps[roll(dice, program->nr)].kind = roll_kind(dice);
		break;
	case 7:
		if (one_in(dice, 4))
			program->threads = 1 + roll(dice, MAX_THREADS);
		break;
	default:
		change_field(program, dice);
		break;
	}
}

void program_mutate(struct program *program, const struct program *other, struct dice *dice)
{
	unsigned int changes = 1 + roll(dice, 6);

	while (changes--)
		mutate_once(program, other, dice);
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
