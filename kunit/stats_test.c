// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of what a wheel tells about itself: its file in debugfs, and the warning of too many
 * wheels. The suites state and combination compare the counters.
 */
#include <linux/fs.h>
#include <linux/kmsg_dump.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include "fixture.h"

#define TICK		((u64)NSEC_PER_MSEC)

/* The file in debugfs */

#define DEBUGFS		"/sys/kernel/debug/twheel"

struct file_search {
	struct dir_context ctx;
	unsigned int found;
	char path[64];
};

/* A slash in the name of a wheel becomes an exclamation mark. */
static bool find_file(struct dir_context *ctx, const char *name, int len, loff_t pos, u64 ino,
		      unsigned int type)
{
	struct file_search *file_search = container_of(ctx, struct file_search, ctx);

	if (strncmp(name, "kunit!file.", 11))
		return true;
	snprintf(file_search->path, sizeof(file_search->path), DEBUGFS "/%.*s", len, name);
	file_search->found++;
	return true;
}

static unsigned int nr_files(struct file_search *file_search)
{
	struct file *dir = filp_open(DEBUGFS, O_RDONLY | O_DIRECTORY, 0);

	file_search->ctx = (struct dir_context){ .actor = find_file };
	file_search->found = 0;
	if (!IS_ERR(dir)) {
		iterate_dir(dir, &file_search->ctx);
		filp_close(dir, NULL);
	}
	return file_search->found;
}

/* Let the file write into a buffer of the test; without a task, nothing can be read. */
static const char *read_seq_file(struct kunit *test, const char *path)
{
	struct file *file = filp_open(path, O_RDONLY, 0);
	char *copy = kunit_kzalloc(test, PAGE_SIZE, GFP_KERNEL);
	struct seq_file *m;

	KUNIT_ASSERT_FALSE(test, IS_ERR(file) || !copy);
	m = file->private_data;
	m->buf = kvzalloc(PAGE_SIZE, GFP_KERNEL);
	m->size = PAGE_SIZE;
	KUNIT_EXPECT_EQ(test, 0, m->op->show(m, NULL));
	memcpy(copy, m->buf, min(m->count, PAGE_SIZE - 1));
	m->count = 0;
	filp_close(file, NULL);
	return copy;
}

static void file_shows_the_counters_until_the_wheel_is_destroyed(struct kunit *test)
{
	static const char * const lines[] = {
		"clock          manual\n", "tick_ns        1000000\n", "armed          4\n",
		"rearmed        1\n", "cancelled      2\n", "fired          1\n",
		"pending        1\n", "\n    0               1  ", "\n    8               0  ",
	};
	struct twheel_params params = { .name = "kunit/file", .clock = TWHEEL_MANUAL,
					.tick_ns = TICK, .slots = 2 };
	struct file_search *file_search = kunit_kzalloc(test, sizeof(*file_search), GFP_KERNEL);
	struct test_timeout *p;
	const char *text;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, file_search);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	if (!nr_files(file_search))
		kunit_skip(test, "no debugfs");
	KUNIT_EXPECT_EQ(test, 1U, file_search->found);
	p = create_timeouts(test, 3);
	for (i = 0; i < 3; i++)
		arm_at_tick(test, &p[i], i + 1);
	twheel_mod(&p[1].t, 5 * TICK);
	twheel_cancel(&p[1].t);
	advance_to_tick(test, 2);
	text = read_seq_file(test, file_search->path);
	for (i = 0; i < ARRAY_SIZE(lines); i++)
		KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(text, lines[i]), "%s", lines[i]);
	fixture_exit(test);
	KUNIT_EXPECT_EQ(test, 0U, nr_files(file_search));
}

/* The warning of too many wheels */

/* The default of warn_wheels. */
#define WHEELS		64

static unsigned int count_log_lines(const char *text)
{
	static char line[256];
	struct kmsg_dump_iter iter;
	unsigned int n = 0;
	size_t len;

	kmsg_dump_rewind(&iter);
	while (kmsg_dump_get_line(&iter, false, line, sizeof(line), &len))
		n += !!strnstr(line, text, len);
	return n;
}

static void make_small_wheels(struct kunit *test, bool account)
{
	struct twheel_params params = {
		.name = "kunit-small", .clock = TWHEEL_MANUAL, .slots = 2, .levels = 1,
		.account = account,
	};
	struct twheel *wheel[WHEELS + 2];
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(wheel); i++)
		wheel[i] = twheel_create(&params);
	for (i = 0; i < ARRAY_SIZE(wheel); i++) {
		KUNIT_EXPECT_FALSE(test, IS_ERR(wheel[i]));
		twheel_destroy(wheel[i]);
	}
}

static void wheels_that_are_accounted_are_not_warned_of(struct kunit *test)
{
	unsigned int before = count_log_lines(" wheels: share one");

	make_small_wheels(test, true);
	KUNIT_EXPECT_EQ(test, before, count_log_lines(" wheels: share one"));
}

/* The first wheel above the limit causes the warning. Any code may have made the others. */
static void too_many_wheels_are_warned_of_once(struct kunit *test)
{
	if (count_log_lines(" wheels: share one"))
		kunit_skip(test, "the kernel has already warned");
	make_small_wheels(test, false);
	KUNIT_EXPECT_EQ(test, 1U, count_log_lines("twheel: 65 wheels: share one"));
	KUNIT_EXPECT_EQ(test, 1U, count_log_lines(" wheels: share one"));
}

static struct kunit_case stats_cases[] = {
	KUNIT_CASE(file_shows_the_counters_until_the_wheel_is_destroyed),
	KUNIT_CASE(wheels_that_are_accounted_are_not_warned_of),
	KUNIT_CASE(too_many_wheels_are_warned_of_once),
	{}
};

static struct kunit_suite stats_suite = {
	.name = "twheel-stats",
	.init = fixture_init,
	.exit = fixture_exit,
	.test_cases = stats_cases,
};

module_test_suite(stats_suite);

MODULE_DESCRIPTION("KUnit suite of what a timing wheel tells about itself");
MODULE_LICENSE("GPL");
