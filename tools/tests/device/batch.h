/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tests of a call with many operations: SUBMIT as an ioctl and as a command of an io_uring. The
 * argument @run makes the call. It returns the number of operations tried, or -errno if none was.
 */
#ifndef TWHEEL_TESTS_BATCH_H
#define TWHEEL_TESTS_BATCH_H

#include "device.h"
#include "memory.h"

/* Sizes of an operation that SUBMIT refuses. */
static const __u32 bad_op_sizes[] = { 0, 1, 48, 55, 57, 64, 112, ~0U };

static inline void fill_with_arms(struct twheel_op *ops, __u32 nr)
{
	for (__u32 i = 0; i < nr; i++)
		ops[i] = op_arm(HOUR + i, 0, i);
}

static inline void check_mix_runs_in_order(int (*run)(int fd, void *ops, __u32 nr))
{
	static const int results[] = {
		0, 0, 0, 0, -EINVAL, 0, -ENOENT, -ENOENT, -ENOENT,
		TWHEEL_WITHDRAWN, TWHEEL_WITHDRAWN,
	};
	int fd = device_open(O_RDWR | O_NONBLOCK);
	__u64 id = arm(fd, HOUR, 1);
	struct twheel_op ops[] = {
		op_get(id),
		op_mod(id, 2 * HOUR, 0, 2),
		op_get(id),
		op_arm(HOUR, 0, 3),
		op_arm(~0ULL, 0, 4),
		op_cancel(id),
		op_get(id),
		op_cancel(id),
		op_mod(id, HOUR, 0, 4),
		op_cancel(arm_fired(fd, 5)),
		op_mod(arm_fired(fd, 6), HOUR, 0, 7),
	};

	CHECK_EQ(run(fd, ops, ARRAY_SIZE(ops)), ARRAY_SIZE(ops));
	for (size_t i = 0; i < ARRAY_SIZE(ops); i++)
		CHECK_EQ(ops[i].result, results[i]);
	CHECK_EQ(ops[0].cookie, 1);
	CHECK_EQ(ops[2].cookie, 2);
	CHECK(ops[2].expires_ns > HOUR);
	check_no_event(fd);
	CHECK_EQ(cancel(fd, ops[3].id), 0);
	CHECK_EQ(info(fd).live, 1);
}

static inline int compare_ids(const void *a, const void *b)
{
	__u64 x = *(const __u64 *)a, y = *(const __u64 *)b;

	return x < y ? -1 : x > y;
}

static inline void check_ids_differ(__u64 *ids, size_t nr)
{
	qsort(ids, nr, sizeof(*ids), compare_ids);
	CHECK(ids[0] != 0);
	for (size_t i = 1; i < nr; i++)
		CHECK(ids[i] != ids[i - 1]);
}

/* Lengths around sizes at which a driver might split the array. */
static inline void check_any_length_arms_and_cancels_all(int (*run)(int fd, void *ops, __u32 nr))
{
	static const __u32 lengths[] = {
		1, 2, 12, 13, 31, 32, 33, 63, 64, 65, 127, 128, 129, 255, 256, 257,
		1000, 1023, 1024, 1025, 5000,
	};
	struct twheel_op *ops = calloc(5000, sizeof(*ops));
	__u64 *ids = calloc(5000, sizeof(*ids));
	int fd = device_open(O_RDWR);

	for (size_t l = 0; l < ARRAY_SIZE(lengths); l++) {
		fill_with_arms(ops, lengths[l]);
		CHECK_EQ(run(fd, ops, lengths[l]), lengths[l]);
		CHECK_EQ(info(fd).live, lengths[l]);
		for (__u32 i = 0; i < lengths[l]; i++) {
			CHECK_EQ(ops[i].result, 0);
			ids[i] = ops[i].id;
			ops[i] = op_cancel(ids[i]);
		}
		CHECK_EQ(run(fd, ops, lengths[l]), lengths[l]);
		for (__u32 i = 0; i < lengths[l]; i++)
			CHECK_EQ(ops[i].result, 0);
		check_ids_differ(ids, lengths[l]);
		CHECK_EQ(info(fd).live, 0);
	}
	free(ops);
	free(ids);
}

static inline void check_none_does_nothing(int (*run)(int fd, void *ops, __u32 nr))
{
	struct twheel_op op = op_arm(HOUR, 0, 0);
	int fd = device_open(O_RDWR);

	CHECK_EQ(run(fd, &op, 0), 0);
	CHECK_EQ(run(fd, NULL, 0), 0);
	CHECK_EQ(run(fd, map_unusable(), 0), 0);
	CHECK_EQ(info(fd).live, 0);
}

/* If the array can only be read, the ids would be lost. */
static inline void check_bad_addresses(int (*run)(int fd, void *ops, __u32 nr))
{
	const struct twheel_op op = op_arm(0, 0, 0);
	struct bad_address bad[NR_BAD_ADDRESSES];
	int fd = device_open(O_RDWR | O_NONBLOCK);

	bad_addresses(bad);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_ROW(run(fd, bad[i].address, 1), -EFAULT, bad[i].name);
		CHECK_ROW(run(fd, bad[i].address, 1000), -EFAULT, bad[i].name);
	}
	CHECK_EQ(run(fd, map_read_only(&op, sizeof(op)), 1), -EFAULT);
	CHECK_EQ(info(fd).live, 0);
	sleep_ns(20 * NSEC_PER_MSEC);
	check_no_event(fd);
}

/* @usable entries, and @part bytes of the next one, before a page with @protection. */
static inline void check_partial_access(int (*run)(int fd, void *ops, __u32 nr), __u32 usable,
					size_t part, int protection)
{
	__u32 nr = usable + 20;
	struct twheel_op *ops = calloc(nr, sizeof(*ops));
	size_t size = usable * sizeof(*ops) + part;
	void *place = map_before(size, PROT_READ | PROT_WRITE);
	int fd = device_open(O_RDWR);

	CHECK(ops);
	fill_with_arms(ops, nr);
	memcpy(place, ops, nr * sizeof(*ops));
	protect_page(place + size, protection);
	CHECK_EQ(run(fd, place, nr), usable);
	CHECK_EQ(info(fd).live, usable);
	memcpy(ops, place, usable * sizeof(*ops));
	for (__u32 i = 0; i < usable; i++) {
		CHECK_EQ(ops[i].result, 0);
		CHECK_EQ(cancel(fd, ops[i].id), 0);
	}
	free(ops);
	close(fd);
}

static inline void check_what_lies_before_a_bad_page(int (*run)(int fd, void *ops, __u32 nr))
{
	static const struct {
		__u32	usable;
		size_t	part;
		int	protection;
	} rows[] = {
		{ 1, 0, PROT_NONE }, { 5, 0, PROT_NONE }, { 32, 0, PROT_NONE },
		{ 33, 0, PROT_NONE }, { 100, 0, PROT_NONE }, { 1000, 0, PROT_NONE },
		{ 1, 0, PROT_READ }, { 33, 0, PROT_READ }, { 1000, 0, PROT_READ },
		/* an entry that is partly bad is not tried */
		{ 1, 8, PROT_NONE }, { 31, 48, PROT_NONE }, { 40, 4, PROT_NONE },
		{ 1000, 16, PROT_NONE },
		/* its id is on the writable page, its result on the other one */
		{ 1, 48, PROT_READ }, { 40, 16, PROT_READ }, { 1000, 48, PROT_READ },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		ktap_note("%u entries and %zu bytes, protection %d", rows[i].usable, rows[i].part,
			  rows[i].protection);
		check_partial_access(run, rows[i].usable, rows[i].part, rows[i].protection);
	}
}

#endif /* TWHEEL_TESTS_BATCH_H */
