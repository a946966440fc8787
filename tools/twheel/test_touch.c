// SPDX-License-Identifier: GPL-2.0
/*
 * What the library knows of ids that can be touched. Needs no device.
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "ktap.h"
#include "touch.h"

#define NR	4

static uint64_t word[NR], entries[1 + NR];
static uint64_t *const known = entries + 1;
static const struct touch touch = {
	.word = word,
	.table = (struct touch_table *)entries,
	.nr = NR,
};

static uint64_t id_of(uint32_t index, uint32_t generation)
{
	return (uint64_t)generation << 32 | index;
}

static void unknown_id_is_not_stored(void)
{
	CHECK(!touch_store(&touch, id_of(2, 1), 77));
	CHECK(!touch_has_ended(&touch, id_of(2, 1)));
	CHECK_EQ(word[2], 0);
}

static void live_id_is_stored_in_its_place(void)
{
	touch_begin(&touch, id_of(2, 1));
	CHECK(touch_store(&touch, id_of(2, 1), 77));
	CHECK_EQ(word[2], 77);
	CHECK(touch_store(&touch, id_of(2, 1), 78));
	CHECK_EQ(word[2], 78);
	CHECK_EQ(word[1] | word[3], 0);
}

static void ended_id_is_not_stored(void)
{
	touch_begin(&touch, id_of(0, 1));
	touch_end(&touch, id_of(0, 1));
	CHECK(!touch_store(&touch, id_of(0, 1), 77));
	CHECK(touch_has_ended(&touch, id_of(0, 1)));
	CHECK_EQ(word[0], 0);
}

/* The event may be read before the call that arms returns. */
static void end_may_be_seen_before_the_beginning(void)
{
	touch_end(&touch, id_of(0, 1));
	touch_begin(&touch, id_of(0, 1));
	CHECK(touch_has_ended(&touch, id_of(0, 1)));
	CHECK(!touch_store(&touch, id_of(0, 1), 77));
}

static void successor_ends_its_predecessor(void)
{
	touch_begin(&touch, id_of(1, 6));
	touch_begin(&touch, id_of(1, 7));
	CHECK(touch_has_ended(&touch, id_of(1, 6)));
	CHECK(!touch_store(&touch, id_of(1, 6), 77));
	CHECK(touch_store(&touch, id_of(1, 7), 78));
}

static void end_of_the_predecessor_may_be_late(void)
{
	touch_begin(&touch, id_of(1, 6));
	touch_begin(&touch, id_of(1, 7));
	touch_end(&touch, id_of(1, 6));
	CHECK(touch_store(&touch, id_of(1, 7), 77));
}

static void successor_of_an_ended_one_can_be_touched(void)
{
	touch_end(&touch, id_of(1, 6));
	CHECK(!touch_has_ended(&touch, id_of(1, 7)));
	touch_begin(&touch, id_of(1, 7));
	CHECK(touch_store(&touch, id_of(1, 7), 77));
}

static void largest_generation_has_an_end(void)
{
	touch_begin(&touch, id_of(3, UINT32_MAX));
	CHECK(touch_store(&touch, id_of(3, UINT32_MAX), 77));
	touch_end(&touch, id_of(3, UINT32_MAX));
	CHECK(touch_has_ended(&touch, id_of(3, UINT32_MAX)));
}

static void id_beyond_the_table_has_ended(void)
{
	static const uint32_t indices[] = { NR, NR + 1, 1U << 31, (1U << 31) + 1, UINT32_MAX };

	for (size_t i = 0; i < ARRAY_SIZE(indices); i++) {
		uint64_t id = id_of(indices[i], 1);

		touch_begin(&touch, id);
		CHECK(touch_has_ended(&touch, id));
		CHECK(!touch_store(&touch, id, 77));
		touch_end(&touch, id);
	}
	for (size_t i = 0; i < NR; i++)
		CHECK_EQ(word[i] | known[i], 0);
}

#define ROUNDS	20000

static void *begin_all(void *unused)
{
	(void)unused;
	for (uint32_t i = 1; i <= ROUNDS; i++)
		touch_begin(&touch, id_of(0, i));
	return NULL;
}

static void *end_all(void *unused)
{
	(void)unused;
	for (uint32_t i = 1; i <= ROUNDS; i++)
		touch_end(&touch, id_of(0, i));
	return NULL;
}

/* Whoever is first, the last id has ended in the end. */
static void threads_agree_on_the_last_end(void)
{
	pthread_t threads[4];

	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		CHECK_EQ(pthread_create(&threads[i], NULL, i % 2 ? end_all : begin_all, NULL), 0);
	for (size_t i = 0; i < ARRAY_SIZE(threads); i++)
		CHECK_EQ(pthread_join(threads[i], NULL), 0);
	CHECK_EQ(known[0], (long long)(id_of(0, ROUNDS) | TOUCH_ENDED));
	CHECK(!touch_store(&touch, id_of(0, ROUNDS), 77));
}

static void id_without_a_table_is_not_stored(void)
{
	static const struct touch none = { .word = word, .nr = NR };

	touch_use(&none);
	touch_begin(&none, id_of(2, 1));
	CHECK(!touch_in_use(&none));
	CHECK(touch_has_ended(&none, id_of(2, 1)));
	CHECK(!touch_store(&none, id_of(2, 1), 77));
	CHECK_EQ(word[2], 0);
}

static void id_without_words_is_not_stored(void)
{
	static const struct touch early = {
		.table = (struct touch_table *)entries,
		.nr = NR,
	};

	touch_begin(&early, id_of(2, 1));
	CHECK(!touch_store(&early, id_of(2, 1), 77));
	CHECK(touch_store(&touch, id_of(2, 1), 77));
}

/* The words may be mapped after a fork(), the table has been before. */
static void child_and_parent_learn_from_each_other(void)
{
	uint64_t *shared = mmap(NULL, sizeof(entries), PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct touch own = { .word = word, .table = (struct touch_table *)shared, .nr = NR };
	pid_t pid;
	int status;

	CHECK(shared != MAP_FAILED);
	touch_begin(&own, id_of(1, 6));
	pid = fork();
	if (!pid) {
		touch_use(&own);
		touch_end(&own, id_of(1, 6));
		touch_begin(&own, id_of(1, 7));
		_exit(0);
	}
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK_EQ(status, 0);
	CHECK(touch_in_use(&own));
	CHECK(!touch_store(&own, id_of(1, 6), 77));
	CHECK(touch_store(&own, id_of(1, 7), 78));
}

static const struct ktap_test tests[] = {
	TEST(unknown_id_is_not_stored),
	TEST(live_id_is_stored_in_its_place),
	TEST(ended_id_is_not_stored),
	TEST(end_may_be_seen_before_the_beginning),
	TEST(successor_ends_its_predecessor),
	TEST(end_of_the_predecessor_may_be_late),
	TEST(successor_of_an_ended_one_can_be_touched),
	TEST(largest_generation_has_an_end),
	TEST(id_beyond_the_table_has_ended),
	TEST(threads_agree_on_the_last_end),
	TEST(id_without_a_table_is_not_stored),
	TEST(id_without_words_is_not_stored),
	TEST(child_and_parent_learn_from_each_other),
};

int main(int argc, char **argv)
{
	return ktap_main(tests, ARRAY_SIZE(tests), argc, argv);
}
