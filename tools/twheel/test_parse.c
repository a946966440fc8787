// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the parsers of durations and scripts. They need no device.
 */
#include "cli.h"
#include "duration.h"
#include "ktap.h"
#include "script.h"

#define LONG		"292 years"
#define FINER		"finer"
#define NUMBER		"expected a number"
#define UNIT		"unit must be"
#define ORDER		"largest unit"
#define DECIMALS	"decimals"

static const struct {
	const char *name;
	const char *why;
	uint64_t ns;
} durations[] = {
	{ "0", NULL, 0 },
	{ "0s", NULL, 0 },
	{ "0.0ms", NULL, 0 },
	{ "1ns", NULL, 1 },
	{ "1us", NULL, 1000 },
	{ "1ms", NULL, 1000000 },
	{ "1s", NULL, NSEC_PER_SEC },
	{ "1m", NULL, 60 * NSEC_PER_SEC },
	{ "1h", NULL, 3600 * NSEC_PER_SEC },
	{ "1d", NULL, 86400 * NSEC_PER_SEC },
	{ "1.5s", NULL, 1500000000 },
	{ "0.25us", NULL, 250 },
	{ "007s", NULL, 7 * NSEC_PER_SEC },
	{ "1.000000001s", NULL, 1000000001 },
	{ "0.123456789s", NULL, 123456789 },
	{ "0.5d", NULL, 43200 * NSEC_PER_SEC },
	{ "0.00000000005h", NULL, 180 },
	{ "1.50000000000000000000000000000000s", NULL, 1500000000 },
	{ "9223372036854775807ns", NULL, INT64_MAX },
	{ "9223372036.854775807s", NULL, INT64_MAX },
	{ "9223372036854775808ns", LONG, 0 },
	{ "9223372036.854775808s", LONG, 0 },
	{ "18446744073709551616ns", LONG, 0 },
	{ "18446744073709551617s", LONG, 0 },
	{ "99999999999999999999999999d", LONG, 0 },
	{ "106752d", LONG, 0 },
	{ "0.5ns", FINER, 0 },
	{ "1.0000000001s", FINER, 0 },
	{ "0.00000000000000000000000001d", FINER, 0 },
	{ "", NUMBER, 0 },
	{ "s", NUMBER, 0 },
	{ "1", NULL, NSEC_PER_SEC },
	{ "0.25", NULL, 250000000 },
	{ "0.0", NULL, 0 },
	{ "00", NULL, 0 },
	{ ".5s", NUMBER, 0 },
	{ "1.s", NUMBER, 0 },
	{ "1..5s", NUMBER, 0 },
	{ "1,5s", UNIT, 0 },
	{ "1e3s", UNIT, 0 },
	{ "0x10s", UNIT, 0 },
	{ "-1s", NUMBER, 0 },
	{ "+1s", NUMBER, 0 },
	{ " 1s", NUMBER, 0 },
	{ "1 s", UNIT, 0 },
	{ "1s ", UNIT, 0 },
	{ "1S", UNIT, 0 },
	{ "1sec", UNIT, 0 },
	{ "1h30m", NULL, 5400 * NSEC_PER_SEC },
	{ "1d2h3m4s5ms6us7ns", NULL, 93784 * NSEC_PER_SEC + 5006007 },
	{ "1m0.5s", NULL, 60500000000 },
	{ "0h0m", NULL, 0 },
	{ "9223372036s854775807ns", NULL, INT64_MAX },
	{ "9223372036s854775808ns", LONG, 0 },
	{ "1h30", UNIT, 0 },
	{ "30m1h", ORDER, 0 },
	{ "1h1h", ORDER, 0 },
	{ "1.5h30m", DECIMALS, 0 },
	{ "1h 30m", UNIT, 0 },
	{ "1h-30m", UNIT, 0 },
};

TEST(duration_is_exact_or_refused)
{
	uint64_t ns;

	for_each_row(row, durations) {
		const char *why = duration_parse(row->name, &ns);

		CHECK(!why == !row->why);
		if (why)
			CHECK(strstr(why, row->why));
		else
			CHECK_EQ(ns, row->ns);
	}
}

static const struct {
	const char *name;
	uint64_t ns;
	bool refused;
} sleeps[] = {
	{ ".5", 500000000, false },
	{ "1e1", 10 * NSEC_PER_SEC, false },
	{ "25E-1m", 150 * NSEC_PER_SEC, false },
	{ ".5h", 1800 * NSEC_PER_SEC, false },
	{ "1e-99", 1, false },
	{ "1e99d", INT64_MAX, false },
	{ "106752d", INT64_MAX, false },
	{ "infinity", INT64_MAX, false },
	{ "", 0, true },
	{ "nan", 0, true },
	{ "-1", 0, true },
	{ "1e1ms", 0, true },
	{ "1e1x", 0, true },
};

TEST(sleep_takes_what_sleep_takes)
{
	uint64_t ns;

	for_each_row(row, sleeps) {
		CHECK_EQ(!!duration_parse_sleep(row->name, &ns), row->refused);
		if (!row->refused)
			CHECK_EQ(ns, row->ns);
	}
}

static const struct {
	uint64_t ns;
	const char *text;
} texts[] = {
	{ 0, "0s" },
	{ 1, "1ns" },
	{ 999, "999ns" },
	{ 1000, "1us" },
	{ 1001, "1.001us" },
	{ 1500000, "1.5ms" },
	{ 100000000, "100ms" },
	{ 999999999, "999.999ms" },
	{ NSEC_PER_SEC, "1s" },
	{ 59999999999, "59.999s" },
	{ 60 * NSEC_PER_SEC, "1m" },
	{ 5400 * NSEC_PER_SEC + 999999999, "1h30m" },
	{ 90061 * NSEC_PER_SEC, "1d1h1m1s" },
	{ UINT64_MAX, "213503d23h34m33s" },
};

TEST(duration_text_suits_the_size)
{
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++)
		CHECK_ROW(strcmp(duration_text(texts[i].ns).s, texts[i].text), 0, texts[i].text);
}

TEST(duration_text_is_read_again)
{
	uint64_t ns;

	for (uint64_t then = 1; then < DURATION_MAX / 3; then *= 3) {
		CHECK(!duration_parse(duration_text(then).s, &ns));
		CHECK(ns <= then && then - ns <= then / 60);
	}
}

static const struct {
	const char *name;
	bool misspelt;
} words[] = {
	{ "cacnel", true },
	{ "acncel", true },
	{ "acnecl", false },
	{ "canel", true },
	{ "canecl", true },
	{ "ancel", true },
	{ "cance", true },
	{ "canccel", true },
	{ "cancelx", true },
	{ "xcancel", true },
	{ "cansel", true },
	{ "cnasel", false },
	{ "cel", false },
	{ "cancellation", false },
	{ "", false },
};

TEST(misspelt_word_has_one_mistake)
{
	for_each_row(row, words) {
		CHECK_EQ(cli_is_misspelt(row->name, strlen(row->name), "cancel"), row->misspelt);
	}
	CHECK(cli_is_misspelt("cookei=5", 6, "cookie"));
}

static char mistakes[4096];

/* Mistakes are found in the text of that name. */
static int parse(struct script *script, const char *text, size_t len)
{
	FILE *file = fmemopen((void *)text, len, "r");
	FILE *out = fmemopen(mistakes, sizeof(mistakes), "w");
	int error = script_parse(script, file, "F", out);

	fclose(file);
	fclose(out);
	return error;
}

/* A # in place of a word begins a comment. */
TEST(script_lines_are_understood)
{
	static const struct {
		const char *name;
		unsigned int number;
		struct script_line line;
	} lines[] = {
		{ "# comment\n\narm a 100ms\n", 3, { .verb = SCRIPT_ARM, .ns = 100000000 } },
		{ "\tarm  b.2\t1.5s   # the other\r\n", 4,
		  { .verb = SCRIPT_ARM, .name = 1, .ns = 1500000000 } },
		{ "mod a 2s\n", 5, { .verb = SCRIPT_MOD, .ns = 2 * NSEC_PER_SEC } },
		{ "cancel b.2\n", 6, { .verb = SCRIPT_CANCEL, .name = 1 } },
		{ "wait 1us\n", 7, { .verb = SCRIPT_WAIT, .ns = 1000 } },
		{ "expect a pending\n", 8, { .verb = SCRIPT_EXPECT, .state = SCRIPT_PENDING } },
		{ "expect b.2 cancelled\n", 9,
		  { .verb = SCRIPT_EXPECT, .name = 1, .state = SCRIPT_CANCELLED } },
		{ "print  what's # this? \t\r\n", 10,
		  { .verb = SCRIPT_PRINT, .text = "what's # this?" } },
		{ "echo\n", 11, { .verb = SCRIPT_PRINT, .text = "" } },
		{ "expect a fired\n", 12, { .verb = SCRIPT_EXPECT, .state = SCRIPT_FIRED } },
		{ "every beat 10ms 4294967295\n", 13,
		  { .verb = SCRIPT_EVERY, .name = 2, .ns = 10000000, .count = UINT32_MAX } },
		{ "mod a 3s\n", 14, { .verb = SCRIPT_MOD, .ns = 3 * NSEC_PER_SEC } },
		{ "disarm a\n", 15, { .verb = SCRIPT_DISARM } },
		{ "expect a disarmed", 16, { .verb = SCRIPT_EXPECT, .state = SCRIPT_DISARMED } },
	};
	const struct script_line *line;
	struct script script;
	char text[512];
	size_t len = 0;

	for_each_row(row, lines) {
		len += snprintf(text + len, sizeof(text) - len, "%s", row->name);
	}
	CHECK_EQ(parse(&script, text, len), 0);
	CHECK_EQ(script.nr_lines, ARRAY_SIZE(lines));
	CHECK_EQ(script.nr_names, 3);
	CHECK(!strcmp(script.names[1], "b.2"));
	line = script.lines;
	for_each_row(row, lines) {
		CHECK_EQ(line->number, row->number);
		CHECK_EQ(line->verb, row->line.verb);
		CHECK_EQ(line->name, row->line.name);
		CHECK_EQ(line->ns, row->line.ns);
		CHECK_EQ(line->count, row->line.count);
		CHECK_EQ(line->state, row->line.state);
		CHECK(!line->text == !row->line.text);
		CHECK(!line->text || !strcmp(line->text, row->line.text));
		line++;
	}
	script_free(&script);
}

/* All mistakes are found. A name in a line with a mistake is known. */
static const struct {
	const char *name;
	const char *mistakes;
} scripts[] = {
	{ "# nothing\n", "" },
	{ "arm a 1s\nfire a\n", "F:2: 'fire' is not an operation (see twheel run --help)\n" },
	{ "ARM a 1s\n", "F:1: 'ARM' is not an operation (see twheel run --help)\n" },
	{ "amr a 1s\n", "F:1: 'amr' is not an operation; did you mean 'arm'?\n" },
	{ "arm\n", "F:1: incomplete: arm NAME DURATION\n" },
	{ "arm a\n", "F:1: incomplete: arm NAME DURATION\n" },
	{ "arm a # 1s\n", "F:1: incomplete: arm NAME DURATION\n" },
	{ "arm a 1x\n",
	  "F:1: '1x' is not a duration: the unit must be ns, us, ms, s, m, h or d\n" },
	{ "arm a 1s 2s\n", "F:1: unexpected '2s': arm NAME DURATION\n" },
	{ "arm 1a 1s\n", "F:1: '1a' is not a name: a letter, then letters, digits, _-.:\n" },
	{ "arm a$ 1s\n", "F:1: 'a$' is not a name: a letter, then letters, digits, _-.:\n" },
	{ "\n\nmod a 1s\n", "F:3: no earlier line arms 'a'\n" },
	{ "cancel a\narm a 1s\n", "F:1: no earlier line arms 'a'\n" },
	{ "arm a 1s\nexpect a gone\n",
	  "F:2: 'gone' is not a state: fired, cancelled, disarmed or pending\n" },
	{ "arm a 1s\nexpect a\n",
	  "F:2: incomplete: expect NAME fired|cancelled|disarmed|pending\n" },
	{ "every a 1s\n", "F:1: incomplete: every NAME DURATION COUNT\n" },
	{ "every a 0 3\n", "F:1: the interval must be longer than 0\n" },
	{ "every a 1s 0\n", "F:1: '0' is not a count: a number from 1 to 4294967295\n" },
	{ "every a 1s -1\n", "F:1: '-1' is not a count: a number from 1 to 4294967295\n" },
	{ "every a 1s 4294967296\n",
	  "F:1: '4294967296' is not a count: a number from 1 to 4294967295\n" },
	{ "every a 1s 3x\n", "F:1: '3x' is not a count: a number from 1 to 4294967295\n" },
	{ "arm a 1s\nmod a\n", "F:2: incomplete: mod NAME DURATION\n" },
	{ "arm a 1s\ndisarm a 1s\n", "F:2: unexpected '1s': disarm NAME\n" },
	{ "wait\n", "F:1: incomplete: wait DURATION\n" },
	{ "wait -1s\n",
	  "F:1: '-1s' is not a duration: expected a number and a unit, as in 1.5s or 1h30m\n" },
	{ "wait 1s 1s\n", "F:1: unexpected '1s': wait DURATION\n" },
	{ "arm a\nexpect a fierd\n\nwait 1s\nwait\nmod b 1s # no such name\ncancel a\n",
	  "F:1: incomplete: arm NAME DURATION\n"
	  "F:2: 'fierd' is not a state: fired, cancelled, disarmed or pending\n"
	  "F:5: incomplete: wait DURATION\n"
	  "F:6: no earlier line arms 'b'\n" },
};

TEST(script_mistake_has_line_and_reason)
{
	struct script script;

	for_each_row(row, scripts) {
		CHECK_EQ(parse(&script, row->name, strlen(row->name)),
			 *row->mistakes ? -EBADMSG : 0);
		if (strcmp(mistakes, row->mistakes))
			ktap_fail("%s", mistakes);
		script_free(&script);
	}
}

TEST(script_with_zero_byte_is_refused)
{
	struct script script;

	CHECK_EQ(parse(&script, "wait 1s\nwait\0 1s\n", 17), -EBADMSG);
	CHECK(!strcmp(mistakes, "F:2: not text: the line has a zero byte\n"));
	script_free(&script);
}

TEST(script_has_room_for_many)
{
	const size_t nr = 20000;
	struct script script;
	size_t len;
	char *text;
	FILE *file = open_memstream(&text, &len);

	for (size_t i = 0; i < nr; i++)
		fprintf(file, "arm t%zu 1s\ncancel t%zu\n", i, i);
	fclose(file);
	CHECK_EQ(parse(&script, text, len), 0);
	CHECK_EQ(script.nr_lines, 2 * nr);
	CHECK_EQ(script.nr_names, nr);
	CHECK_EQ(script.lines[2 * nr - 1].name, nr - 1);
	script_free(&script);
	free(text);
}

TEST(script_line_may_be_long)
{
	const size_t len = 1000000;
	char *text = malloc(len + 1);
	struct script script;

	memset(text, 'x', len);
	memcpy(text, "print ", 6);
	text[len] = '\0';
	CHECK_EQ(parse(&script, text, len), 0);
	CHECK_EQ(strlen(script.lines[0].text), len - 6);
	script_free(&script);

	text[0] = 'q';
	CHECK_EQ(parse(&script, text, len), -EBADMSG);
	script_free(&script);
	free(text);
}
