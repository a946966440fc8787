// SPDX-License-Identifier: GPL-2.0
/*
 * The nearest of several words, by the number of edits: insert, delete or replace a
 * letter, or swap two neighbours. A third of the letters, rounded up, may be wrong.
 */
#include <stdio.h>
#include <string.h>

#include "guess.h"

#define LONGEST	24	/* longer words are no typing mistakes of ours */

static unsigned int least(unsigned int a, unsigned int b)
{
	return a < b ? a : b;
}

/* rows[i % 3][j]: edits from the first i letters of @a to the first j of @b. */
static unsigned int edits(const char *a, size_t a_len, const char *b, size_t b_len)
{
	unsigned int rows[3][LONGEST + 1];

	for (size_t i = 0; i <= a_len; i++) {
		unsigned int *row = rows[i % 3], *above = rows[(i + 2) % 3];

		for (size_t j = 0; j <= b_len; j++) {
			if (!i || !j) {
				row[j] = i + j;
				continue;
			}
			row[j] = least(above[j], row[j - 1]) + 1;
			row[j] = least(row[j], above[j - 1] + (a[i - 1] != b[j - 1]));
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = least(row[j], rows[(i + 1) % 3][j - 2] + 1);
		}
	}
	return rows[a_len % 3][b_len];
}

void guess_begin(struct guess *guess, const char *word, size_t len)
{
	*guess = (struct guess) { .word = word, .len = len };
}

void guess_offer(struct guess *guess, const char *candidate)
{
	size_t len = strlen(candidate);
	unsigned int distance;

	if (len > LONGEST || guess->len > LONGEST)
		return;
	distance = edits(guess->word, guess->len, candidate, len) + 1;
	if (distance > (guess->len + 2) / 3 + 1)
		return;
	if (!guess->best || distance < guess->distance) {
		guess->best = candidate;
		guess->distance = distance;
	}
}

struct guess_text guess_text(const struct guess *guess, const char *prefix)
{
	struct guess_text text = { "" };

	if (guess->best)
		snprintf(text.s, sizeof(text.s), "; did you mean '%s%s'?", prefix, guess->best);
	return text;
}
