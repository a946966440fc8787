// SPDX-License-Identifier: GPL-2.0
/*
 * Mappings of the touch words: which there can be, what they show, and how long they
 * live.
 */
#define _GNU_SOURCE
#include <setjmp.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "privilege.h"
#include "words.h"

#define MS		NSEC_PER_MSEC
#define NR		512

/* Which there can be */

static void check_map_fails(int fd, size_t size, int protection, int flags, off_t offset,
			    int error)
{
	CHECK(try_map(fd, size, protection, flags, offset) == MAP_FAILED);
	CHECK_EQ(errno, error);
}

static void private_mapping_is_einval(void)
{
	int fd = device_open(O_RDWR);

	check_map_fails(fd, page_size(), PROT_READ | PROT_WRITE, MAP_PRIVATE, 0, EINVAL);
	check_map_fails(fd, page_size(), PROT_READ, MAP_PRIVATE, 0, EINVAL);
}

static void mapping_at_an_offset_is_einval(void)
{
	int fd = device_open(O_RDWR);

	check_map_fails(fd, page_size(), PROT_READ, MAP_SHARED, page_size(), EINVAL);
	check_map_fails(fd, page_size(), PROT_READ, MAP_SHARED, 7 * page_size(), EINVAL);
	check_map_fails(fd, page_size(), PROT_READ, MAP_SHARED, 1, EINVAL);
	check_map_fails(fd, page_size(), PROT_READ, MAP_SHARED, 8, EINVAL);
}

static void mapping_of_more_than_the_limit_is_einval(void)
{
	int fd = device_open_limited(O_RDWR, NR + 1), small = device_open_limited(O_RDWR, 1);

	check_map_fails(fd, 2 * page_size() + 1, PROT_READ, MAP_SHARED, 0, EINVAL);
	check_map_fails(fd, 1000 * page_size(), PROT_READ, MAP_SHARED, 0, EINVAL);
	check_map_fails(small, page_size() + 1, PROT_READ, MAP_SHARED, 0, EINVAL);
	CHECK(try_map(fd, 2 * page_size(), PROT_READ, MAP_SHARED, 0) != MAP_FAILED);
	CHECK(try_map(small, page_size(), PROT_READ, MAP_SHARED, 0) != MAP_FAILED);
}

static void mapping_of_nothing_is_einval(void)
{
	check_map_fails(device_open(O_RDWR), 0, PROT_READ, MAP_SHARED, 0, EINVAL);
}

static void executable_mapping_is_refused(void)
{
	int fd = device_open(O_RDWR);
	void *words;

	check_map_fails(fd, page_size(), PROT_READ | PROT_EXEC, MAP_SHARED, 0, EINVAL);
	words = map_words(fd, NR);
	CHECK_EQ(mprotect(words, page_size(), PROT_READ | PROT_EXEC), -1);
	CHECK_EQ(errno, EACCES);
}

static void mapping_needs_the_access_of_the_descriptor(void)
{
	check_map_fails(device_open(O_WRONLY), page_size(), PROT_WRITE, MAP_SHARED, 0, EACCES);
	check_map_fails(device_open(O_RDONLY), page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, 0,
			EACCES);
}

static void mapping_of_a_read_only_descriptor_stays_read_only(void)
{
	void *words = try_map(device_open(O_RDONLY), page_size(), PROT_READ, MAP_SHARED, 0);

	CHECK(words != MAP_FAILED);
	CHECK_EQ(look(words, 0), 0);
	CHECK_EQ(mprotect(words, page_size(), PROT_READ | PROT_WRITE), -1);
	CHECK_EQ(errno, EACCES);
}

static void mapping_of_any_size_is_of_whole_pages(void)
{
	static const size_t sizes[] = { 1, 7, 8, 9, 4095, 4096, 4097, 12345, 65536 };
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t pages = (sizes[i] + page_size() - 1) / page_size();
		__u64 *words = try_map(fd, sizes[i], PROT_READ | PROT_WRITE, MAP_SHARED, 0);

		CHECK(words != MAP_FAILED);
		words[pages * WORDS_PER_PAGE - 1] = i + 1;
		CHECK_EQ(words[pages * WORDS_PER_PAGE - 1], i + 1);
		CHECK_EQ(munmap(words, sizes[i]), 0);
	}
}

/* As by the limit: there is a word for every index that there can be. */
static void mapping_may_be_as_large_as_the_limit(void)
{
	int fd = device_open(O_RDWR);
	__u32 limit = info(fd).max_timeouts;
	__u64 *words = map_words(fd, limit);

	words[limit - 1] = 7;
	CHECK_EQ(words[limit - 1], 7);
	CHECK_EQ(words[0], 0);
}

static void mapping_is_bounded_by_the_limit_of_setup(void)
{
	struct twheel_setup setup = { .max_timeouts = 2 * NR };
	int fd = device_open_setup(O_RDWR, setup);

	CHECK(try_map(fd, 2 * page_size(), PROT_READ, MAP_SHARED, 0) != MAP_FAILED);
	check_map_fails(fd, 2 * page_size() + 1, PROT_READ, MAP_SHARED, 0, EINVAL);
}

static void setup_after_mmap_is_ebusy(void)
{
	int fd = device_open(O_RDWR);

	map_words(fd, NR);
	CHECK_EQ(try_setup(fd, setup_clock(CLOCK_BOOTTIME)), -EBUSY);
}

/* What they show */

static void mappings_show_the_same_words(void)
{
	int fd = device_open(O_RDWR);
	__u64 when = now_ns() + HOUR, id = arm_touch(fd, when, 7);
	__u64 *one = map_words(fd, NR), *other = map_words(fd, 10 * NR);

	CHECK(one != other);
	CHECK_EQ(look(one, id), when);
	CHECK_EQ(look(other, id), when);
	touch(one, id, when + 1);
	CHECK_EQ(look(other, id), when + 1);
	unmap_words(one, NR);
	CHECK_EQ(look(other, id), when + 1);
	touch(other, id, when + HOUR);
	CHECK(state_of(fd, id).expires_ns > HOUR);
}

static void mappings_of_two_files_are_independent(void)
{
	int a = device_open(O_RDWR), b = device_open(O_RDWR);
	__u64 *in_a = map_words(a, NR), *in_b = map_words(b, NR);

	for (int i = 0; i < NR; i++)
		in_a[i] = i + 1;
	for (int i = 0; i < NR; i++)
		CHECK_EQ(in_b[i], 0);
}

static void read_only_mapping_shows_stores_of_others(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), *view, when = now_ns() + HOUR, id;

	view = try_map(fd, page_size(), PROT_READ, MAP_SHARED, 0);
	CHECK(view != MAP_FAILED);
	id = arm_touch(fd, when, 7);
	CHECK_EQ(look(view, id), when);
	touch(words, id, when + 5);
	CHECK_EQ(look(view, id), when + 5);
}

static void words_stay_when_their_pages_are_dropped(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, 4 * NR);

	for (int i = 0; i < 4 * NR; i++)
		words[i] = i + 1;
	CHECK_EQ(madvise(words, 4 * page_size(), MADV_DONTNEED), 0);
	for (int i = 0; i < 4 * NR; i++)
		CHECK_EQ(words[i], i + 1);
}

static void mapping_can_be_moved_and_cut_but_not_grown(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, 4 * NR), *moved, id = arm_touch(fd, now_ns() + HOUR, 7);
	void *place = map_pages(2);

	touch(words, id, 99);
	CHECK(mremap(words, 4 * page_size(), 8 * page_size(), MREMAP_MAYMOVE) == MAP_FAILED);
	CHECK_EQ(errno, EFAULT);
	CHECK(mremap(words, 4 * page_size(), 2 * page_size(), 0) == words);
	CHECK_EQ(look(words, id), 99);
	moved = mremap(words, 2 * page_size(), 2 * page_size(), MREMAP_MAYMOVE | MREMAP_FIXED,
		       place);
	CHECK(moved == place);
	CHECK_EQ(look(moved, id), 99);
	touch(moved, id, now_ns() + 2 * HOUR);
	CHECK(state_of(fd, id).expires_ns > HOUR);
}

static void words_can_be_read_into_by_a_system_call(void)
{
	int fd = device_open(O_RDWR), ends[2];
	__u64 *words = map_words(fd, NR), value = now_ns() + 2 * HOUR;
	__u64 id = arm_touch(fd, now_ns() + HOUR, 7);

	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(write(ends[1], &value, sizeof(value)), sizeof(value));
	CHECK_EQ(read(ends[0], word_of(words, id), sizeof(value)), sizeof(value));
	CHECK(state_of(fd, id).expires_ns > HOUR);
}

/* Events read into the words of the same file: a strange buffer, but a buffer. */
static void events_can_be_read_into_the_words(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, 100 * NR);
	struct twheel_event *events = (struct twheel_event *)words;
	int nr = 1000, got = 0;

	arm_many(fd, nr, 0, 0, 0, NULL);
	wait_ready(fd, nr);
	while (got < nr)
		got += read_events(fd, events + got, nr - got);
	for (int i = 0; i < nr; i++)
		CHECK_EQ(events[i].flags, TWHEEL_EV_LAST);
}

/* How long they live */

static int module_in_use(void)
{
	return syscall(SYS_delete_module, "twheel_dev", O_NONBLOCK) == -1 &&
	       errno == EWOULDBLOCK;
}

static void mapping_outlives_its_descriptor(void)
{
	int fd = device_open(O_RDWR), other = device_open(O_RDWR);
	__u64 *words = map_words(fd, 2 * NR), id;

	id = arm_touch(fd, now_ns() + 20 * MS, 7);
	touch(words, id, now_ns() + 40 * MS);
	arm_many(fd, 10000, 10 * MS, 1000, 0, NULL);
	close(fd);
	for (int i = 0; i < 20; i++) {
		words[i % (2 * NR)] = i;
		CHECK_EQ(words[i % (2 * NR)], i);
		sleep_ns(5 * MS);
	}
	CHECK(module_in_use());
	unmap_words(words, 2 * NR);
	arm(other, 0, 7);
	CHECK_EQ(read_event(other).cookie, 7);
}

static void descriptor_outlives_its_mapping(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), base = now_ns(), id = arm_touch(fd, base + 1000 * MS, 7);

	touch(words, id, base + 1100 * MS);
	unmap_words(words, NR);
	CHECK_EQ(read_event(fd).expires_ns, base + 1100 * MS);
}

static void child_extends_through_its_mapping(void)
{
	int fd = device_open(O_RDWR);
	__u64 *words = map_words(fd, NR), base = now_ns(), id = arm_touch(fd, base + 500 * MS, 7);
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		touch(words, id, base + 700 * MS);
		_exit(0);
	}
	join_child(pid);
	CHECK_EQ(look(words, id), base + 700 * MS);
	CHECK_EQ(read_event(fd).expires_ns, base + 700 * MS);
}

static void mapping_of_a_child_outlives_the_parents(void)
{
	int fd = device_open(O_RDWR), ready[2];
	__u64 *words = map_words(fd, NR), id = arm_touch(fd, now_ns() + HOUR, 7);
	pid_t pid;
	char byte;

	CHECK_EQ(pipe(ready), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		CHECK_EQ(read(ready[0], &byte, 1), 1);
		touch(words, id, now_ns() + 2 * HOUR);
		CHECK(state_of(fd, id).expires_ns > HOUR);
		close(fd);
		for (int i = 0; i < NR; i++)
			words[i] = i;
		_exit(0);
	}
	unmap_words(words, NR);
	close(fd);
	CHECK_EQ(write(ready[1], "x", 1), 1);
	join_child(pid);
}

static void exit_with_a_mapping_is_clean(void)
{
	for (int i = 0; i < 20; i++) {
		pid_t pid = fork();
		int status;

		CHECK(pid >= 0);
		if (!pid) {
			int fd = device_open(O_RDWR);
			__u64 *words = map_words(fd, 10 * NR);

			for (int n = 0; n < 100; n++)
				arm_touch(fd, now_ns() + n * NSEC_PER_USEC * 50, n);
			words[5 * NR] = 1;
			if (i % 2)
				close(fd);
			if (i % 3)
				raise(SIGKILL);
			_exit(0);
		}
		CHECK_EQ(waitpid(pid, &status, 0), pid);
		CHECK(WIFSIGNALED(status) == !!(i % 3));
	}
}

/* A page that is in use elsewhere, in a pipe, has left the file behind. */
static void page_in_a_pipe_outlives_the_file(void)
{
	int fd = device_open(O_RDWR), ends[2];
	__u64 *words = map_words(fd, NR), copy[NR];
	struct iovec iov = { words, page_size() };

	for (int i = 0; i < NR; i++)
		words[i] = i * 3;
	CHECK_EQ(pipe(ends), 0);
	CHECK_EQ(vmsplice(ends[1], &iov, 1, 0), page_size());
	unmap_words(words, NR);
	close(fd);
	fd = device_open(O_RDWR);
	arm_many(fd, 10000, HOUR, 0, ~0ULL >> 1, NULL);
	CHECK_EQ(read(ends[0], copy, sizeof(copy)), sizeof(copy));
	for (int i = 0; i < NR; i++)
		CHECK_EQ(copy[i], i * 3);
}

/* Limits */

static sigjmp_buf after_fault;

static void jump_on(int signal)
{
	(void)signal;
	siglongjmp(after_fault, 1);
}

/* True if a store there ends in SIGBUS. */
static int store_is_refused(__u64 *word)
{
	CHECK(signal(SIGBUS, jump_on) != SIG_ERR);
	if (sigsetjmp(after_fault, 1))
		return 1;
	touch(word, 0, 1);
	return 0;
}

static void use_up_pages(void)
{
	__u64 *words, nr;
	int fd, other;

	become_user(4711);
	fd = device_open(O_RDWR);
	words = map_words(fd, 100 * NR);
	for (nr = 0; nr < 100; nr++) {
		if (store_is_refused(&words[nr * NR]))
			break;
	}
	ktap_note("%llu pages", (unsigned long long)nr);
	CHECK(nr > 0 && nr < 100);
	/* No page for a timeout either, until these are given back. */
	other = device_open(O_RDWR);
	CHECK_EQ(try_arm(other, HOUR, 0, 0, &nr), -EAGAIN);
	unmap_words(words, 100 * NR);
	CHECK_EQ(try_arm(other, HOUR, 0, 0, &nr), -EAGAIN);
	close(fd);
	arm(other, HOUR, 0);
}

static void fault_beyond_the_limit_of_a_user_is_sigbus(void)
{
	need_words();
	with_parameter("max_user_timeouts", 1000, use_up_pages);
}

static void arm_without_a_page_for_the_word(void)
{
	struct twheel_op op = op_arm(HOUR, TWHEEL_F_TOUCH, 0);
	__u64 id, *words;
	int fd;

	become_user(4711);
	fd = device_open(O_RDWR);
	id = arm(fd, HOUR, 7);
	words = map_words(fd, 100 * NR);
	for (int page = 99; page > 0; page--)
		store_is_refused(&words[page * NR]);
	CHECK_EQ(operate(fd, TWHEEL_IOC_ARM, &op), -EAGAIN);
	submit(fd, &op, 1);
	CHECK_EQ(op.result, -EAGAIN);
	/* A MOD that fails has no effect. */
	op = op_mod(id, 0, TWHEEL_F_TOUCH, 8);
	CHECK_EQ(operate(fd, TWHEEL_IOC_MOD, &op), -EAGAIN);
	CHECK_EQ(state_of(fd, id).cookie, 7);
	CHECK(state_of(fd, id).expires_ns > HOUR / 2);
	CHECK_EQ(info(fd).live, 1);
}

static void touch_beyond_the_limit_of_a_user_is_eagain(void)
{
	need_words();
	with_parameter("max_user_timeouts", 1000, arm_without_a_page_for_the_word);
}

static const struct ktap_test tests[] = {
	TEST(private_mapping_is_einval),
	TEST(mapping_at_an_offset_is_einval),
	TEST(mapping_of_more_than_the_limit_is_einval),
	TEST(mapping_of_nothing_is_einval),
	TEST(executable_mapping_is_refused),
	TEST(mapping_needs_the_access_of_the_descriptor),
	TEST(mapping_of_a_read_only_descriptor_stays_read_only),
	TEST(mapping_of_any_size_is_of_whole_pages),
	TEST(mapping_may_be_as_large_as_the_limit),
	TEST(mapping_is_bounded_by_the_limit_of_setup),
	TEST(setup_after_mmap_is_ebusy),
	TEST(mappings_show_the_same_words),
	TEST(mappings_of_two_files_are_independent),
	TEST(read_only_mapping_shows_stores_of_others),
	TEST(words_stay_when_their_pages_are_dropped),
	TEST(mapping_can_be_moved_and_cut_but_not_grown),
	TEST(words_can_be_read_into_by_a_system_call),
	TEST(events_can_be_read_into_the_words),
	TEST(mapping_outlives_its_descriptor),
	TEST(descriptor_outlives_its_mapping),
	TEST(child_extends_through_its_mapping),
	TEST(mapping_of_a_child_outlives_the_parents),
	TEST(exit_with_a_mapping_is_clean),
	TEST(page_in_a_pipe_outlives_the_file),
	TEST(fault_beyond_the_limit_of_a_user_is_sigbus),
	TEST(touch_beyond_the_limit_of_a_user_is_eagain),
};

int main(int argc, char **argv)
{
	return ktap_main(tests, ARRAY_SIZE(tests), argc, argv);
}
