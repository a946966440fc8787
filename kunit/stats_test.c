// SPDX-License-Identifier: GPL-2.0
/*
 * KUnit suite of what a wheel tells about itself: occupied slots, its file in debugfs, and the
 * warning of too many wheels. The table of the suite state has the other counters.
 */
#include <linux/fs.h>
#include <linux/kmsg_dump.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include "fixture.h"
#include "suite.h"

#define TICK		((u64)NSEC_PER_MSEC)

/* Not inline, so that fewer counters are on the stack. */
static noinline struct twheel_counters stats_of(struct kunit *test)
{
	struct fixture *f = test->priv;
	struct twheel_counters stats;

	twheel_get_counters(f->wheel, &stats);
	KUNIT_EXPECT_EQ(test, stats.armed,
			stats.cancelled + stats.fired + stats.stopped + stats.pending);
	KUNIT_EXPECT_EQ(test, 0, twheel_audit(f->wheel));
	return stats;
}

static void occupied_slots_are_counted_by_level(struct kunit *test)
{
	static const u64 ticks[] = { 1, 3, 3, 5, 14, 260, 266, 1000, 1002 };
	static const unsigned int expected[2][3] = { { 3, 3, 1 }, { 7, 0, 0 } };
	struct twheel_counters stats;
	unsigned int ring, i;
	struct probe *p;

	for (ring = 0; ring < 2; ring++) {
		fixture_exit(test);
		manual_wheel(test, TICK, 8, ring);
		p = probes(test, ARRAY_SIZE(ticks));
		for (i = 0; i < ARRAY_SIZE(ticks); i++)
			arm_tick(test, &p[i], ticks[i]);
		stats = stats_of(test);
		for (i = 0; i < ARRAY_SIZE(stats.occupied); i++)
			KUNIT_EXPECT_EQ_MSG(test, i < 3 ? expected[ring][i] : 0, stats.occupied[i],
					    "level %u", i);
		advance_tick(test, 1002);
		stats = stats_of(test);
		KUNIT_EXPECT_NULL(test, memchr_inv(stats.occupied, 0, sizeof(stats.occupied)));
	}
}

/* The file in debugfs */

#define DEBUGFS		"/sys/kernel/debug/twheel"

struct search {
	struct dir_context ctx;
	unsigned int found;
	char path[64];
};

/* A slash in the name of a wheel becomes an exclamation mark. */
static bool find_file(struct dir_context *ctx, const char *name, int len, loff_t pos, u64 ino,
		      unsigned int type)
{
	struct search *search = container_of(ctx, struct search, ctx);

	if (strncmp(name, "kunit!file.", 11))
		return true;
	snprintf(search->path, sizeof(search->path), DEBUGFS "/%.*s", len, name);
	search->found++;
	return true;
}

static unsigned int nr_files(struct search *search)
{
	struct file *dir = filp_open(DEBUGFS, O_RDONLY | O_DIRECTORY, 0);

	search->ctx = (struct dir_context){ .actor = find_file };
	search->found = 0;
	if (!IS_ERR(dir)) {
		iterate_dir(dir, &search->ctx);
		filp_close(dir, NULL);
	}
	return search->found;
}

/* Let the file write into a buffer of the test; without a task, nothing can be read. */
static const char *contents(struct kunit *test, const char *path)
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
	struct search *search = kunit_kzalloc(test, sizeof(*search), GFP_KERNEL);
	struct probe *p;
	const char *text;
	unsigned int i;

	KUNIT_ASSERT_NOT_NULL(test, search);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, fixture_create(test->priv, &params));
	if (!nr_files(search))
		kunit_skip(test, "no debugfs");
	KUNIT_EXPECT_EQ(test, 1U, search->found);
	p = probes(test, 3);
	for (i = 0; i < 3; i++)
		arm_tick(test, &p[i], i + 1);
	twheel_mod(&p[1].t, 5 * TICK);
	twheel_cancel(&p[1].t);
	advance_tick(test, 2);
	text = contents(test, search->path);
	for (i = 0; i < ARRAY_SIZE(lines); i++)
		KUNIT_EXPECT_NOT_NULL_MSG(test, strstr(text, lines[i]), "%s", lines[i]);
	fixture_exit(test);
	KUNIT_EXPECT_EQ(test, 0U, nr_files(search));
}

/* The warning of too many wheels */

/* The default of warn_wheels. */
#define WHEELS		64

static unsigned int lines_with(const char *text)
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
	unsigned int before = lines_with(" wheels: share one");

	make_small_wheels(test, true);
	KUNIT_EXPECT_EQ(test, before, lines_with(" wheels: share one"));
}

/* The first wheel above the limit causes the warning. Any code may have made the others. */
static void too_many_wheels_are_warned_of_once(struct kunit *test)
{
	if (lines_with(" wheels: share one"))
		kunit_skip(test, "the kernel has already warned");
	make_small_wheels(test, false);
	KUNIT_EXPECT_EQ(test, 1U, lines_with("twheel: 65 wheels: share one"));
	KUNIT_EXPECT_EQ(test, 1U, lines_with(" wheels: share one"));
}

static struct kunit_case stats_cases[] = {
	KUNIT_CASE(occupied_slots_are_counted_by_level),
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
