// SPDX-License-Identifier: GPL-2.0
/*
 * A histogram with a relative error of 1/32. Values below 32 have a bucket each; every
 * power of two above is divided into 32 buckets. That covers 64 bits in 15 KiB, and adding
 * a value is a shift and an increment.
 */
#include "histogram.h"

static unsigned int bucket_of(uint64_t value)
{
	unsigned int shift;

	if (value < HISTOGRAM_SUB)
		return value;
	shift = 63 - __builtin_clzll(value) - HISTOGRAM_SUB_BITS;
	return (shift + 1) * HISTOGRAM_SUB + (value >> shift) - HISTOGRAM_SUB;
}

/* The largest value that is in @bucket. */
static uint64_t bucket_end(unsigned int bucket)
{
	unsigned int shift;

	if (bucket < HISTOGRAM_SUB)
		return bucket;
	shift = bucket / HISTOGRAM_SUB - 1;
	return ((uint64_t)(bucket % HISTOGRAM_SUB + HISTOGRAM_SUB + 1) << shift) - 1;
}

void histogram_add(struct histogram *histogram, uint64_t value)
{
	histogram->nr++;
	histogram->bucket[bucket_of(value)]++;
	if (value > histogram->max)
		histogram->max = value;
}

void histogram_merge(struct histogram *histogram, const struct histogram *from)
{
	histogram->nr += from->nr;
	for (unsigned int i = 0; i < HISTOGRAM_BUCKETS; i++)
		histogram->bucket[i] += from->bucket[i];
	if (from->max > histogram->max)
		histogram->max = from->max;
}

uint64_t histogram_percentile(const struct histogram *histogram, unsigned int percent)
{
	uint64_t above = histogram->nr / 100 * (100 - percent) +
			 histogram->nr % 100 * (100 - percent) / 100;
	uint64_t left = histogram->nr - above;
	unsigned int i = 0;

	if (!histogram->nr)
		return 0;
	while (left > histogram->bucket[i])
		left -= histogram->bucket[i++];
	return bucket_end(i) < histogram->max ? bucket_end(i) : histogram->max;
}
