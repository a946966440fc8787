// SPDX-License-Identifier: GPL-2.0
/*
 * Tests of the parsers of durations and scripts. They need no device.
 */
#include "duration.h"
#include "guess.h"
#include "ktap.h"
#include "script.h"

static const struct {
	const char *text;
	int error;
	uint64_t ns;
} durations[] = {
	{ "0", 0, 0 },
	{ "0s", 0, 0 },
	{ "0.0ms", 0, 0 },
	{ "1ns", 0, 1 },
	{ "1us", 0, 1000 },
	{ "1ms", 0, 1000000 },
	{ "1s", 0, NSEC_PER_SEC },
	{ "1m", 0, 60 * NSEC_PER_SEC },
	{ "1h", 0, 3600 * NSEC_PER_SEC },
	{ "1d", 0, 86400 * NSEC_PER_SEC },
	{ "1.5s", 0, 1500000000 },
	{ "0.25us", 0, 250 },
	{ "007s", 0, 7 * NSEC_PER_SEC },
	{ "1.000000001s", 0, 1000000001 },
	{ "0.123456789s", 0, 123456789 },
	{ "0.5d", 0, 43200 * NSEC_PER_SEC },
	{ "0.00000000005h", 0, 180 },
	{ "1.50000000000000000000000000000000s", 0, 1500000000 },
	{ "9223372036854775807ns", 0, INT64_MAX },
	{ "9223372036.854775807s", 0, INT64_MAX },
	{ "9223372036854775808ns", -ERANGE, 0 },
	{ "9223372036.854775808s", -ERANGE, 0 },
	{ "18446744073709551616ns", -ERANGE, 0 },
	{ "18446744073709551617s", -ERANGE, 0 },
	{ "99999999999999999999999999d", -ERANGE, 0 },
	{ "106752d", -ERANGE, 0 },
	{ "0.5ns", -EINVAL, 0 },
	{ "1.0000000001s", -EINVAL, 0 },
	{ "0.00000000000000000000000001d", -EINVAL, 0 },
	{ "", -EINVAL, 0 },
	{ "s", -EINVAL, 0 },
	{ "1", 0, NSEC_PER_SEC },
	{ "0.25", 0, 250000000 },
	{ "0.0", 0, 0 },
	{ "00", 0, 0 },
	{ ".5s", -EINVAL, 0 },
	{ "1.s", -EINVAL, 0 },
	{ "1..5s", -EINVAL, 0 },
	{ "1,5s", -EINVAL, 0 },
	{ "1e3s", -EINVAL, 0 },
	{ "0x10s", -EINVAL, 0 },
	{ "-1s", -EINVAL, 0 },
	{ "+1s", -EINVAL, 0 },
	{ " 1s", -EINVAL, 0 },
	{ "1 s", -EINVAL, 0 },
	{ "1s ", -EINVAL, 0 },
	{ "1S", -EINVAL, 0 },
	{ "1sec", -EINVAL, 0 },
	{ "1h30m", 0, 5400 * NSEC_PER_SEC },
	{ "1d2h3m4s5ms6us7ns", 0, 93784 * NSEC_PER_SEC + 5006007 },
	{ "1m0.5s", 0, 60500000000 },
	{ "0h0m", 0, 0 },
	{ "9223372036s854775807ns", 0, INT64_MAX },
	{ "9223372036s854775808ns", -ERANGE, 0 },
	{ "1h30", -EINVAL, 0 },
	{ "30m1h", -EINVAL, 0 },
	{ "1h1h", -EINVAL, 0 },
	{ "1.5h30m", -EINVAL, 0 },
	{ "1h 30m", -EINVAL, 0 },
	{ "1h-30m", -EINVAL, 0 },
};

TEST(duration_is_exact_or_refused)
{
	const char *why;
	uint64_t ns;

	for (size_t i = 0; i < ARRAY_SIZE(durations); i++) {
		CHECK_ROW(duration_parse(durations[i].text, &ns, &why), durations[i].error,
			  durations[i].text);
		if (!durations[i].error)
			CHECK_ROW(ns, durations[i].ns, durations[i].text);
	}
}

TEST(duration_failure_says_why)
{
	const char *why = NULL;
	uint64_t ns;

	duration_parse("5x", &ns, &why);
	CHECK(strstr(why, "unit must be"));
	duration_parse("30m1h", &ns, &why);
	CHECK(strstr(why, "largest unit"));
	duration_parse("1.5h30m", &ns, &why);
	CHECK(strstr(why, "decimals"));
	duration_parse("300000d", &ns, &why);
	CHECK(strstr(why, "292 years"));
	duration_parse("0.1ns", &ns, &why);
	CHECK(strstr(why, "finer"));
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
	const char *why;
	uint64_t ns;

	for (uint64_t then = 1; then < DURATION_MAX / 3; then *= 3) {
		CHECK_EQ(duration_parse(duration_text(then).s, &ns, &why), 0);
		CHECK(ns <= then && then - ns <= then / 60);
	}
}

static const struct {
	const char *word;
	const char *best;
} guesses[] = {
	{ "amr", "arm" },
	{ "ar", "arm" },
	{ "armm", "arm" },
	{ "canel", "cancel" },
	{ "cnacle", "cancel" },
	{ "discard", "disarm" },
	{ "move", NULL },
	{ "x", NULL },
	{ "", NULL },
	{ "averyverylongwordindeedwhichisnotours", NULL },
};

TEST(guess_is_the_nearest_word)
{
	static const char *const words[] = { "cancel", "disarm", "arm" };

	for (size_t i = 0; i < ARRAY_SIZE(guesses); i++) {
		const char *word = guesses[i].word, *best = guesses[i].best;
		struct guess guess;

		guess_begin(&guess, word, strlen(word));
		for (size_t j = 0; j < ARRAY_SIZE(words); j++)
			guess_offer(&guess, words[j]);
		CHECK_ROW(!guess.best, !best, word);
		if (guess.best && best)
			CHECK_ROW(strcmp(guess.best, best), 0, word);
	}
}

static int parse(struct script *script, const char *text, size_t len)
{
	FILE *file = fmemopen((void *)text, len, "r");
	int error = script_parse(script, file);

	fclose(file);
	return error;
}

TEST(script_lines_are_understood)
{
	static const char text[] =
		"# comment\n"
		"\n"
		"arm a 100ms\n"
		"\tarm  b.2\t1.5s   # the other\r\n"
		"mod a 2s\n"
		"cancel b.2\n"
		"wait 1us\n"
		"expect a pending\n"
		"expect b.2 cancelled\n"
		"print  what's # this? \t\n"
		"expect a fired\n"
		"every beat 10ms 4294967295\n"
		"move a 3s\n"
		"disarm a\n"
		"expect a disarmed";
	struct script script;
	const struct script_line *line;

	CHECK_EQ(parse(&script, text, sizeof(text) - 1), 0);
	CHECK_EQ(script.nr_lines, 13);
	CHECK_EQ(script.nr_names, 3);
	CHECK(!strcmp(script.names[1], "b.2"));

	line = &script.lines[1];
	CHECK_EQ(line->number, 4);
	CHECK_EQ(line->verb, SCRIPT_ARM);
	CHECK_EQ(line->name, 1);
	CHECK_EQ(line->ns, 1500000000);
	CHECK_EQ(script.lines[2].verb, SCRIPT_MOD);
	CHECK_EQ(script.lines[2].name, 0);
	CHECK_EQ(script.lines[3].verb, SCRIPT_CANCEL);
	CHECK_EQ(script.lines[4].verb, SCRIPT_WAIT);
	CHECK_EQ(script.lines[4].ns, 1000);
	CHECK_EQ(script.lines[5].state, SCRIPT_PENDING);
	CHECK_EQ(script.lines[6].state, SCRIPT_CANCELLED);
	CHECK(!strcmp(script.lines[7].text, "what's # this?"));
	CHECK_EQ(script.lines[8].state, SCRIPT_FIRED);
	CHECK_EQ(script.lines[8].number, 11);
	CHECK_EQ(script.lines[9].verb, SCRIPT_EVERY);
	CHECK_EQ(script.lines[9].name, 2);
	CHECK_EQ(script.lines[9].ns, 10 * NSEC_PER_MSEC);
	CHECK_EQ(script.lines[9].count, UINT32_MAX);
	CHECK_EQ(script.lines[10].verb, SCRIPT_MOVE);
	CHECK_EQ(script.lines[10].name, 0);
	CHECK_EQ(script.lines[10].ns, 3 * NSEC_PER_SEC);
	CHECK_EQ(script.lines[11].verb, SCRIPT_DISARM);
	CHECK_EQ(script.lines[12].state, SCRIPT_DISARMED);
	script_free(&script);
}

TEST(script_may_be_empty)
{
	struct script script;

	CHECK_EQ(parse(&script, "# nothing\n", 10), 0);
	CHECK_EQ(script.nr_lines, 0);
	script_free(&script);
}

static const struct {
	const char *text;
	unsigned int line;
	const char *why;
} mistakes[] = {
	{ "arm a 1s\nfire a\n", 2, "'fire' is not an operation" },
	{ "ARM a 1s\n", 1, "'ARM' is not an operation" },
	{ "amr a 1s\n", 1, "did you mean 'arm'?" },
	{ "arm\n", 1, "incomplete: arm NAME DURATION" },
	{ "arm a\n", 1, "incomplete" },
	{ "arm a # 1s\n", 1, "incomplete" },
	{ "arm a 1x\n", 1, "unit" },
	{ "arm a 1s 2s\n", 1, "unexpected '2s'" },
	{ "arm 1a 1s\n", 1, "not a name" },
	{ "arm a$ 1s\n", 1, "not a name" },
	{ "\n\nmod a 1s\n", 3, "no earlier line arms 'a'" },
	{ "cancel a\narm a 1s\n", 1, "no earlier line" },
	{ "arm a 1s\nexpect a gone\n", 2, "'gone' is not a state" },
	{ "arm a 1s\nexpect a\n", 2, "incomplete" },
	{ "every a 1s\n", 1, "incomplete: every NAME DURATION COUNT" },
	{ "every a 0 3\n", 1, "longer than 0" },
	{ "every a 1s 0\n", 1, "'0' is not a count" },
	{ "every a 1s -1\n", 1, "not a count" },
	{ "every a 1s 4294967296\n", 1, "not a count" },
	{ "every a 1s 3x\n", 1, "not a count" },
	{ "move a 1s\n", 1, "no earlier line arms 'a'" },
	{ "arm a 1s\nmove a\n", 2, "incomplete: move NAME DURATION" },
	{ "arm a 1s\ndisarm a 1s\n", 2, "unexpected '1s'" },
	{ "wait\n", 1, "incomplete" },
	{ "wait -1s\n", 1, "not a duration" },
	{ "wait 1s 1s\n", 1, "unexpected" },
};

TEST(script_mistake_has_line_and_reason)
{
	struct script script;

	for (size_t i = 0; i < ARRAY_SIZE(mistakes); i++) {
		const char *text = mistakes[i].text;

		CHECK_ROW(parse(&script, text, strlen(text)), -EBADMSG, text);
		CHECK_ROW(script.nr_mistakes, 1, text);
		CHECK_ROW(script.mistakes[0].number, mistakes[i].line, text);
		CHECK_ROW(!strstr(script.mistakes[0].text, mistakes[i].why), 0, text);
		script_free(&script);
	}
}

/* The name in a line with a mistake is known: one mistake makes one message. */
TEST(script_mistakes_are_all_found)
{
	static const char text[] =
		"arm a 5x\n"
		"expect a fierd\n"
		"\n"
		"wait 1s\n"
		"wait\n"
		"mod b 1s # no such name\n"
		"cancel a\n";
	static const unsigned int numbers[] = { 1, 2, 5, 6 };
	struct script script;

	CHECK_EQ(parse(&script, text, sizeof(text) - 1), -EBADMSG);
	CHECK_EQ(script.nr_mistakes, ARRAY_SIZE(numbers));
	for (size_t i = 0; i < script.nr_mistakes && i < ARRAY_SIZE(numbers); i++)
		CHECK_EQ(script.mistakes[i].number, numbers[i]);
	script_free(&script);
}

TEST(script_with_zero_byte_is_refused)
{
	struct script script;

	CHECK_EQ(parse(&script, "wait 1s\nwait\0 1s\n", 17), -EBADMSG);
	CHECK_EQ(script.nr_mistakes, 1);
	CHECK_EQ(script.mistakes[0].number, 2);
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
