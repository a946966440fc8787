// SPDX-License-Identifier: GPL-2.0
/*
 * The language of twheel run.
 *
 * A line is a verb and its arguments. The table of verbs is the grammar: each letter of
 * `takes` is a function that turns the next word into a member of the line. A name must have
 * been armed in an earlier line, so a misspelt name is found before the script runs.
 *
 * Names are looked up in a search tree, since a generated script may be long.
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <search.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "duration.h"
#include "script.h"

#define BLANKS	" \t\r\n\v\f"

struct name {
	const char *text;
	size_t index;
};

static const struct verb {
	const char *word;
	enum script_verb verb;
	const char *takes;
	const char *usage;
} verbs[] = {
	{ "arm", SCRIPT_ARM, "Nd", "arm NAME DURATION" },
	{ "every", SCRIPT_EVERY, "Nic", "every NAME DURATION COUNT" },
	{ "mod", SCRIPT_MOD, "nd", "mod NAME DURATION" },
	{ "disarm", SCRIPT_DISARM, "n", "disarm NAME" },
	{ "cancel", SCRIPT_CANCEL, "n", "cancel NAME" },
	{ "wait", SCRIPT_WAIT, "d", "wait DURATION" },
	{ "expect", SCRIPT_EXPECT, "ns", "expect NAME fired|cancelled|disarmed|pending" },
	{ "print", SCRIPT_PRINT, "t", "print TEXT" },
	{ "echo", SCRIPT_PRINT, "t", "echo TEXT" },
};

static const char *const states[] = {
	[SCRIPT_PENDING] = "pending",
	[SCRIPT_FIRED] = "fired",
	[SCRIPT_CANCELLED] = "cancelled",
	[SCRIPT_DISARMED] = "disarmed",
};

const char *script_state_name(enum script_state state)
{
	return states[state];
}

static int __printf(2, 3) script_error(struct script *script, const char *format, ...)
{
	va_list args;

	fprintf(script->mistakes, "%s:%u: ", script->file, script->number);
	va_start(args, format);
	vfprintf(script->mistakes, format, args);
	va_end(args);
	putc('\n', script->mistakes);
	script->mistaken = true;
	return -EBADMSG;
}

/* The word at *@rest, ended there; NULL when there is none. A # ends the line. */
static char *next_word(char **rest)
{
	char *word = *rest + strspn(*rest, BLANKS);
	size_t len = strcspn(word, BLANKS);

	if (!*word || *word == '#')
		return NULL;
	*rest = word + len;
	if (**rest)
		*(*rest)++ = '\0';
	return word;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(((const struct name *)a)->text, ((const struct name *)b)->text);
}

static const struct name *find_name(const struct script *script, const char *text)
{
	struct name key = { .text = text };
	struct name **found = tfind(&key, &script->index, compare_names);

	return found ? *found : NULL;
}

static const struct name *add_name(struct script *script, const char *text)
{
	struct name *name = cli_resize(NULL, 1, sizeof(*name));
	size_t size = strlen(text) + 1;
	char *copy = cli_resize(NULL, size, 1);

	script->names = cli_resize(script->names, script->nr_names + 1, sizeof(*script->names));
	script->names[script->nr_names] = memcpy(copy, text, size);
	*name = (struct name) { .text = copy, .index = script->nr_names++ };
	if (!tsearch(name, &script->index, compare_names)) {
		cli_error("out of memory");
		exit(EX_OSERR);
	}
	return name;
}

/* Only a line that arms a timeout may have a name that is new. */
static int take_name(struct script *script, struct script_line *line, const char *word, bool arms)
{
	const struct name *name;
	const char *c = word;

	while (isalnum((unsigned char)*c) || (*c && strchr("_-.:", *c)))
		c++;
	if (*c || !isalpha((unsigned char)*word))
		return script_error(script,
				    "'%.60s' is not a name: a letter, then letters, digits, _-.:",
					    word);
	name = find_name(script, word);
	if (!name && !arms)
		return script_error(script, "no earlier line arms '%.60s'", word);
	if (!name)
		name = add_name(script, word);
	line->name = name->index;
	return 0;
}

static int take_duration(struct script *script, struct script_line *line, const char *word)
{
	const char *why = duration_parse(word, &line->ns);

	if (why)
		return script_error(script, "'%.60s' is not a duration: %s", word, why);
	return 0;
}

static int take_interval(struct script *script, struct script_line *line, const char *word)
{
	int error = take_duration(script, line, word);

	if (!error && !line->ns)
		error = script_error(script, "the interval must be longer than 0");
	return error;
}

static int take_count(struct script *script, struct script_line *line, const char *word)
{
	unsigned long count;
	char *end;

	errno = 0;
	count = strtoul(word, &end, 10);
	if (!isdigit((unsigned char)*word) || *end || errno || !count || count > UINT32_MAX)
		return script_error(script, "'%.60s' is not a count: a number from 1 to %u", word,
				    UINT32_MAX);
	line->count = count;
	return 0;
}

static int take_state(struct script *script, struct script_line *line, const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(states); i++) {
		if (!strcmp(states[i], word)) {
			line->state = i;
			return 0;
		}
	}
	return script_error(script, "'%.60s' is not a state: fired, cancelled, disarmed or pending",
			    word);
}

/* The rest of the line as it is, # too. */
static void take_text(struct script_line *line, char *rest)
{
	size_t len;

	rest += strspn(rest, BLANKS);
	len = strlen(rest);
	while (len && strchr(BLANKS, rest[len - 1]))
		len--;
	line->text = cli_resize(NULL, len + 1, 1);
	memcpy(line->text, rest, len);
	line->text[len] = '\0';
}

static int take_word(struct script *script, struct script_line *line, char kind,
		     const char *word)
{
	switch (kind) {
	case 'N':
	case 'n':
		return take_name(script, line, word, kind == 'N');
	case 's':
		return take_state(script, line, word);
	case 'i':
		return take_interval(script, line, word);
	case 'c':
		return take_count(script, line, word);
	default:
		return take_duration(script, line, word);
	}
}

static int take_words(struct script *script, struct script_line *line,
		      const struct verb *verb, char *rest)
{
	const char *word;
	int error;

	for (const char *kind = verb->takes; *kind; kind++) {
		if (*kind == 't') {
			take_text(line, rest);
			return 0;
		}
		word = next_word(&rest);
		if (!word)
			return script_error(script, "incomplete: %s", verb->usage);
		error = take_word(script, line, *kind, word);
		if (error)
			return error;
	}
	word = next_word(&rest);
	if (word)
		return script_error(script, "unexpected '%.60s': %s", word, verb->usage);
	return 0;
}

static void unknown_verb(struct script *script, const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(verbs); i++) {
		if (!cli_is_misspelt(word, strlen(word), verbs[i].word))
			continue;
		script_error(script, "'%s' is not an operation; did you mean '%s'?", word,
			     verbs[i].word);
		return;
	}
	script_error(script, "'%.60s' is not an operation (see twheel run --help)", word);
}

/* Room grows by doubling: the number of lines is a power of two when it is full. */
static struct script_line *add_line(struct script *script)
{
	size_t nr = script->nr_lines;

	if (!(nr & (nr - 1)))
		script->lines = cli_resize(script->lines, nr ? 2 * nr : 1,
					   sizeof(*script->lines));
	script->nr_lines++;
	script->lines[nr] = (struct script_line) { .number = script->number };
	return &script->lines[nr];
}

/* A mistake ends the line and not the script: all lines are looked at. */
static void parse_line(struct script *script, char *rest)
{
	const char *word = next_word(&rest);
	const struct verb *verb = verbs, *end = verbs + ARRAY_SIZE(verbs);
	struct script_line *line;

	if (!word)
		return;
	while (verb < end && strcmp(verb->word, word))
		verb++;
	if (verb == end) {
		unknown_verb(script, word);
		return;
	}
	line = add_line(script);
	line->verb = verb->verb;
	line->word = verb->word;
	take_words(script, line, verb, rest);
}

int script_parse(struct script *script, FILE *file, const char *name, FILE *mistakes)
{
	char *text = NULL;
	size_t size = 0;
	ssize_t len;
	int error = 0;

	*script = (struct script) { .file = name, .mistakes = mistakes };
	while ((len = getline(&text, &size, file)) >= 0) {
		script->number++;
		if (strlen(text) != (size_t)len) {
			script_error(script, "not text: the line has a zero byte");
			break;
		}
		parse_line(script, text);
	}
	if (ferror(file))
		error = -errno;
	else if (script->mistaken)
		error = -EBADMSG;
	free(text);
	return error;
}

void script_free(struct script *script)
{
	tdestroy(script->index, free);
	for (size_t i = 0; i < script->nr_lines; i++)
		free(script->lines[i].text);
	for (size_t i = 0; i < script->nr_names; i++)
		free(script->names[i]);
	free(script->lines);
	free(script->names);
}
