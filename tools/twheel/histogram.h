/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A histogram, for the percentiles of millions of values in little memory.
 */
#ifndef TWHEEL_HISTOGRAM_H
#define TWHEEL_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_SUB_BITS	5
#define HISTOGRAM_SUB		32	/* 1 << HISTOGRAM_SUB_BITS */
#define HISTOGRAM_BUCKETS	((64 - HISTOGRAM_SUB_BITS + 1) * HISTOGRAM_SUB)

/**
 * struct histogram - counts of values
 * @nr: values
 * @max: the largest, exact
 * @bucket: values in each range
 */
struct histogram {
	uint64_t nr;
	uint64_t max;
	uint64_t bucket[HISTOGRAM_BUCKETS];
};

void histogram_add(struct histogram *histogram, uint64_t value);

/* Add all of @from. */
void histogram_merge(struct histogram *histogram, const struct histogram *from);

/*
 * A value that @percent of 100 values do not exceed, at most 1/32 too large and
 * never too small; 0 when there is none.
 */
uint64_t histogram_percentile(const struct histogram *histogram, unsigned int percent);

#endif /* TWHEEL_HISTOGRAM_H */
