// SPDX-License-Identifier: GPL-2.0
/*
 * SUBMIT: many operations in one call.
 *
 * The call fails only if no operation was tried. `done` is the number of operations tried,
 * and each of them has its own result.
 */
#define _GNU_SOURCE
#include <sys/time.h>

#include "device.h"
#include "memory.h"

/* The call itself */

static void submit_with_flags_is_einval(void)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	int fd = device_open(O_RDWR);

	for (unsigned int bit = 0; bit < 32; bit++) {
		struct twheel_submit submit = {
			.ops = (uintptr_t)&op,
			.nr = 1,
			.flags = 1U << bit,
			.op_size = sizeof(op),
		};

		CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_SUBMIT, &submit), -EINVAL);
	}
	CHECK_EQ(info(fd).live, 0);
}

static void submit_with_another_op_size_is_einval(void)
{
	static const __u32 sizes[] = { 0, 1, 48, 55, 57, 64, 112, ~0U };
	struct twheel_op op = op_arm(HOUR, 0, 0);
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(sizes); i++) {
		struct twheel_submit submit = {
			.ops = (uintptr_t)&op,
			.nr = 1,
			.op_size = sizes[i],
		};

		CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_SUBMIT, &submit), -EINVAL);
	}
	CHECK_EQ(info(fd).live, 0);
}

/* Invalid arguments are refused even if there is nothing to do. */
static void submit_of_none_with_flags_is_einval(void)
{
	struct twheel_submit submit = { .flags = 1, .op_size = sizeof(struct twheel_op) };
	int fd = device_open(O_RDWR);

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_SUBMIT, &submit), -EINVAL);
}

static void submit_of_none_does_nothing(void)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	__u32 done;
	int fd = device_open(O_RDWR);

	CHECK_EQ(try_submit(fd, &op, 0, &done), 0);
	CHECK_EQ(done, 0);
	CHECK_EQ(try_submit(fd, NULL, 0, &done), 0);
	CHECK_EQ(done, 0);
	CHECK_EQ(info(fd).live, 0);
}

static void submit_ignores_done_on_input(void)
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	struct twheel_submit submit = {
		.ops = (uintptr_t)&op,
		.nr = 1,
		.done = 12345,
		.op_size = sizeof(op),
	};
	int fd = device_open(O_RDWR);

	CHECK_EQ(device_ioctl(fd, TWHEEL_IOC_SUBMIT, &submit), 0);
	CHECK_EQ(submit.done, 1);
	CHECK_EQ(info(fd).live, 1);
}

static void submit_at_bad_address_is_efault(void)
{
	struct bad_address bad[NR_BAD_ADDRESSES];
	int fd = device_open(O_RDWR);

	bad_addresses(bad);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_ROW(device_ioctl(fd, TWHEEL_IOC_SUBMIT, bad[i].address), -EFAULT,
			  bad[i].name);
}

static void submit_of_array_at_bad_address_is_efault(void)
{
	struct bad_address bad[NR_BAD_ADDRESSES];
	__u32 done;
	int fd = device_open(O_RDWR);

	bad_addresses(bad);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_ROW(try_submit(fd, bad[i].address, 1, &done), -EFAULT, bad[i].name);
		CHECK_ROW(try_submit(fd, bad[i].address, 1000, &done), -EFAULT, bad[i].name);
	}
	CHECK_EQ(info(fd).live, 0);
}

/* The ids would be lost. */
static void submit_of_read_only_array_is_efault(void)
{
	const struct twheel_op op = op_arm(0, 0, 0);
	__u32 done;
	int fd = device_open(O_RDWR | O_NONBLOCK);

	CHECK_EQ(try_submit(fd, map_read_only(&op, sizeof(op)), 1, &done), -EFAULT);
	CHECK_EQ(info(fd).live, 0);
	sleep_ns(20 * NSEC_PER_MSEC);
	check_no_event(fd);
}

/* Arrays that are usable only in part */

/* @usable entries, and @part bytes of the next one, before a page with @protection. */
static void check_cut_short(__u32 usable, size_t part, int protection)
{
	__u32 nr = usable + 20, done;
	struct twheel_op *ops = calloc(nr, sizeof(*ops));
	size_t size = usable * sizeof(*ops) + part;
	void *place = map_before(size, PROT_READ | PROT_WRITE);
	int fd = device_open(O_RDWR);

	CHECK(ops);
	for (__u32 i = 0; i < nr; i++)
		ops[i] = op_arm(HOUR, 0, i);
	memcpy(place, ops, nr * sizeof(*ops));
	protect_page(place + size, protection);
	CHECK_EQ(try_submit(fd, place, nr, &done), 0);
	CHECK_EQ(done, usable);
	CHECK_EQ(info(fd).live, usable);
	memcpy(ops, place, usable * sizeof(*ops));
	for (__u32 i = 0; i < usable; i++) {
		CHECK_EQ(ops[i].result, 0);
		CHECK_EQ(cancel(fd, ops[i].id), 0);
	}
	free(ops);
	close(fd);
}

static void submit_tries_what_lies_before_a_bad_page(void)
{
	check_cut_short(1, 0, PROT_NONE);
	check_cut_short(5, 0, PROT_NONE);
	check_cut_short(32, 0, PROT_NONE);
	check_cut_short(33, 0, PROT_NONE);
	check_cut_short(100, 0, PROT_NONE);
	check_cut_short(1000, 0, PROT_NONE);
}

static void submit_tries_no_entry_that_is_partly_bad(void)
{
	check_cut_short(1, 8, PROT_NONE);
	check_cut_short(31, 48, PROT_NONE);
	check_cut_short(40, 4, PROT_NONE);
	check_cut_short(1000, 16, PROT_NONE);
}

static void submit_tries_what_lies_before_a_read_only_page(void)
{
	check_cut_short(1, 0, PROT_READ);
	check_cut_short(33, 0, PROT_READ);
	check_cut_short(1000, 0, PROT_READ);
}

/* The id is on the writable page, the result on the other one. */
static void submit_tries_no_entry_that_is_partly_read_only(void)
{
	check_cut_short(1, 48, PROT_READ);
	check_cut_short(40, 16, PROT_READ);
	check_cut_short(1000, 48, PROT_READ);
}

static void submit_of_too_many_for_memory_tries_what_there_is(void)
{
	struct twheel_op *ops = map_before(10 * sizeof(*ops), PROT_NONE);
	__u32 done;
	int fd = device_open(O_RDWR);

	for (__u32 i = 0; i < 10; i++)
		ops[i] = op_arm(HOUR, 0, i);
	CHECK_EQ(try_submit(fd, ops, ~0U, &done), 0);
	CHECK_EQ(done, 10);
	CHECK_EQ(info(fd).live, 10);
}

static void submit_leaves_what_it_was_not_given(void)
{
	struct twheel_op ops[3] = { op_arm(HOUR, 0, 0), op_arm(HOUR, 0, 1) };
	int fd = device_open(O_RDWR);

	memset(&ops[2], 0x5a, sizeof(ops[2]));
	submit(fd, ops, 2);
	for (size_t i = 0; i < sizeof(ops[2]); i++)
		CHECK_EQ(((unsigned char *)&ops[2])[i], 0x5a);
	CHECK_EQ(info(fd).live, 2);
}

/* Entries */

static void submit_runs_a_mix_in_order(void)
{
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 1);
	struct twheel_op ops[] = {
		op_get(id),
		op_mod(id, 2 * HOUR, 0, 2),
		op_get(id),
		op_arm(HOUR, 0, 3),
		op_cancel(id),
		op_get(id),
		op_cancel(id),
		op_mod(id, HOUR, 0, 4),
	};

	submit(fd, ops, ARRAY_SIZE(ops));
	CHECK_EQ(ops[0].result, 0);
	CHECK_EQ(ops[0].cookie, 1);
	CHECK_EQ(ops[1].result, 0);
	CHECK_EQ(ops[2].cookie, 2);
	CHECK(ops[2].expires_ns > HOUR);
	CHECK_EQ(ops[3].result, 0);
	CHECK_EQ(ops[4].result, 0);
	CHECK_EQ(ops[5].result, -ENOENT);
	CHECK_EQ(ops[6].result, -ENOENT);
	CHECK_EQ(ops[7].result, -ENOENT);
	CHECK_EQ(cancel(fd, ops[3].id), 0);
	CHECK_EQ(info(fd).live, 0);
}

static void submit_goes_on_after_a_bad_entry(void)
{
	struct twheel_op ops[100];
	int fd = device_open(O_RDWR);

	for (__u32 i = 0; i < ARRAY_SIZE(ops); i++) {
		ops[i] = op_arm(HOUR, 0, i);
		ops[i].reserved = i % 3 == 1;
	}
	submit(fd, ops, ARRAY_SIZE(ops));
	for (__u32 i = 0; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(ops[i].result, i % 3 == 1 ? -EINVAL : 0);
	CHECK_EQ(info(fd).live, 67);
}

static void submit_entry_with_unknown_opcode_is_einval(void)
{
	static const __u32 opcodes[] = { 0, 5, 0x100, 0x10001, ~0U };
	int fd = device_open(O_RDWR);

	for (size_t i = 0; i < ARRAY_SIZE(opcodes); i++) {
		struct twheel_op ops[] = { op_arm(HOUR, 0, 0), op_arm(HOUR, 0, 0) };

		ops[0].opcode = opcodes[i];
		submit(fd, ops, 2);
		CHECK_EQ(ops[0].result, -EINVAL);
		CHECK_EQ(ops[1].result, 0);
		CHECK_EQ(cancel(fd, ops[1].id), 0);
	}
	CHECK_EQ(info(fd).live, 0);
}

static void submit_reports_withdrawal_in_the_entry(void)
{
	int fd = device_open(O_RDWR | O_NONBLOCK);
	struct twheel_op ops[] = {
		op_cancel(arm_fired(fd, 1)),
		op_mod(arm_fired(fd, 2), HOUR, 0, 3),
		op_cancel(arm(fd, HOUR, 4)),
	};

	submit(fd, ops, ARRAY_SIZE(ops));
	CHECK_EQ(ops[0].result, TWHEEL_WITHDRAWN);
	CHECK_EQ(ops[1].result, TWHEEL_WITHDRAWN);
	CHECK_EQ(ops[2].result, 0);
	check_no_event(fd);
	CHECK_EQ(info(fd).live, 1);
}

static void submit_cancels_one_id_only_once(void)
{
	struct twheel_op ops[40];
	int fd = device_open(O_RDWR);
	__u64 id = arm(fd, HOUR, 0);

	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		ops[i] = op_cancel(id);
	submit(fd, ops, ARRAY_SIZE(ops));
	CHECK_EQ(ops[0].result, 0);
	for (size_t i = 1; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(ops[i].result, -ENOENT);
}

static int compare_ids(const void *a, const void *b)
{
	__u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

static void check_ids_differ(__u64 *ids, size_t nr)
{
	qsort(ids, nr, sizeof(*ids), compare_ids);
	CHECK(ids[0] != 0);
	for (size_t i = 1; i < nr; i++)
		CHECK(ids[i] != ids[i - 1]);
}

/* Lengths around sizes at which a driver might split the array. */
static void submit_of_any_length_arms_and_cancels_all(void)
{
	static const __u32 lengths[] = {
		1, 2, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257, 1023, 1024, 1025, 5000,
	};
	struct twheel_op *ops = calloc(5000, sizeof(*ops));
	__u64 *ids = calloc(5000, sizeof(*ids));
	int fd = device_open(O_RDWR);

	for (size_t l = 0; l < ARRAY_SIZE(lengths); l++) {
		for (__u32 i = 0; i < lengths[l]; i++)
			ops[i] = op_arm(HOUR + i, 0, i);
		submit(fd, ops, lengths[l]);
		CHECK_EQ(info(fd).live, lengths[l]);
		for (__u32 i = 0; i < lengths[l]; i++) {
			CHECK_EQ(ops[i].result, 0);
			ids[i] = ops[i].id;
			ops[i] = op_cancel(ids[i]);
		}
		submit(fd, ops, lengths[l]);
		for (__u32 i = 0; i < lengths[l]; i++)
			CHECK_EQ(ops[i].result, 0);
		check_ids_differ(ids, lengths[l]);
		CHECK_EQ(info(fd).live, 0);
	}
}

/* Signals */

static void on_signal(int number)
{
	(void)number;
}

static void signal_every(long usec)
{
	const struct sigaction action = { .sa_handler = on_signal };
	const struct itimerval timer = {
		.it_interval.tv_usec = usec,
		.it_value.tv_usec = usec,
	};

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, usec ? &timer : &(struct itimerval) { 0 }, NULL);
}

#define MANY_OPS	scaled(50000)

static struct twheel_op *many_arms(void)
{
	struct twheel_op *ops = calloc(MANY_OPS, sizeof(*ops));

	CHECK(ops);
	for (__u32 i = 0; i < MANY_OPS; i++)
		ops[i] = op_arm(HOUR, 0, i);
	return ops;
}

/* Arm and cancel all timeouts, with one call each. */
static void submit_to_and_fro(int fd, struct twheel_op *ops)
{
	submit(fd, ops, MANY_OPS);
	for (__u32 i = 0; i < MANY_OPS; i++) {
		CHECK_EQ(ops[i].result, 0);
		ops[i] = op_cancel(ops[i].id);
	}
	submit(fd, ops, MANY_OPS);
	for (__u32 i = 0; i < MANY_OPS; i++) {
		CHECK_EQ(ops[i].result, 0);
		ops[i] = op_arm(HOUR, 0, i);
	}
}

static void submit_is_not_cut_short_by_signals(void)
{
	struct twheel_op *ops = many_arms();
	int fd = device_open(O_RDWR);
	__u64 until = now_ns() + race_ns(2000);

	signal_every(1000);
	while (now_ns() < until)
		submit_to_and_fro(fd, ops);
	signal_every(0);
	CHECK_EQ(info(fd).live, 0);
}

/* The process has no signal handlers. */
static void submit_is_not_cut_short_by_stop_and_continue(void)
{
	struct twheel_op *ops = many_arms();
	__u64 until = now_ns() + race_ns(2000);
	int fd = device_open(O_RDWR), status, stops = 0;
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		while (now_ns() < until)
			submit_to_and_fro(fd, ops);
		_exit(0);
	}
	while (waitpid(pid, &status, WNOHANG) != pid) {
		kill(pid, SIGSTOP);
		sleep_ns(NSEC_PER_MSEC);
		kill(pid, SIGCONT);
		sleep_ns(3 * NSEC_PER_MSEC);
		stops++;
	}
	ktap_note("%d stops", stops);
	CHECK(WIFEXITED(status));
	CHECK_EQ(WEXITSTATUS(status), 0);
}

/*
 * Operations for a call that takes seconds. They use little memory, which is mapped
 * repeatedly.
 */
static struct twheel_op *endless_cancels(__u32 *nr)
{
	/* a whole number of operations and of pages */
	const size_t size = sizeof(struct twheel_op) * page_size();
	const size_t times = is_slow() ? 500 : 2000;
	int memory = memfd_create("cancels", 0);
	char *map = mmap(NULL, size * times, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct twheel_op *ops;

	CHECK(memory >= 0);
	CHECK_EQ(ftruncate(memory, size), 0);
	CHECK(map != MAP_FAILED);
	for (size_t i = 0; i < times; i++)
		CHECK(mmap(map + i * size, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
			   memory, 0) != MAP_FAILED);
	ops = (struct twheel_op *)map;
	for (size_t i = 0; i < page_size(); i++)
		ops[i] = op_cancel(1);
	*nr = page_size() * times;
	return ops;
}

static void submit_can_be_killed(void)
{
	int fd = device_open(O_RDWR), status;
	struct twheel_op *ops;
	__u32 nr, done;
	__u64 before;
	pid_t pid;

	ops = endless_cancels(&nr);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		for (;;)
			try_submit(fd, ops, nr, &done);
	}
	sleep_ns(100 * NSEC_PER_MSEC);
	before = now_ns();
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, &status, 0), pid);
	CHECK(WIFSIGNALED(status));
	ktap_note("gone after %llu us", (now_ns() - before) / NSEC_PER_USEC);
	CHECK(now_ns() - before < quick_ns());
	arm(fd, 0, 7);
	CHECK_EQ(read_event(fd).cookie, 7);
}

static const struct ktap_test tests[] = {
	TEST(submit_with_flags_is_einval),
	TEST(submit_with_another_op_size_is_einval),
	TEST(submit_of_none_with_flags_is_einval),
	TEST(submit_of_none_does_nothing),
	TEST(submit_ignores_done_on_input),
	TEST(submit_at_bad_address_is_efault),
	TEST(submit_of_array_at_bad_address_is_efault),
	TEST(submit_of_read_only_array_is_efault),
	TEST(submit_tries_what_lies_before_a_bad_page),
	TEST(submit_tries_no_entry_that_is_partly_bad),
	TEST(submit_tries_what_lies_before_a_read_only_page),
	TEST(submit_tries_no_entry_that_is_partly_read_only),
	TEST(submit_of_too_many_for_memory_tries_what_there_is),
	TEST(submit_leaves_what_it_was_not_given),
	TEST(submit_runs_a_mix_in_order),
	TEST(submit_goes_on_after_a_bad_entry),
	TEST(submit_entry_with_unknown_opcode_is_einval),
	TEST(submit_reports_withdrawal_in_the_entry),
	TEST(submit_cancels_one_id_only_once),
	TEST(submit_of_any_length_arms_and_cancels_all),
	TEST(submit_is_not_cut_short_by_signals),
	TEST(submit_is_not_cut_short_by_stop_and_continue),
	TEST(submit_can_be_killed),
};

int main(int argc, char **argv)
{
	return ktap_main(tests, ARRAY_SIZE(tests), argc, argv);
}
