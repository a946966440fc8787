/* SPDX-License-Identifier: GPL-2.0 */
/*
 * "Did you mean": the known word that is nearest to a misspelt one.
 */
#ifndef TWHEEL_GUESS_H
#define TWHEEL_GUESS_H

#include <stddef.h>

/**
 * struct guess - the nearest word so far
 * @word: the misspelt word
 * @len: its length
 * @best: the nearest word that was offered, or NULL if none is near
 * @distance: edits from @word to @best, plus one; 0 if @best is NULL
 */
struct guess {
	const char *word;
	size_t len;
	const char *best;
	unsigned int distance;
};

/* @len: of @word, which need not end there. */
void guess_begin(struct guess *guess, const char *word, size_t len);

/* @candidate stays the caller's and must outlive @guess. */
void guess_offer(struct guess *guess, const char *candidate);

/* "; did you mean 'arm'?", or "" if no candidate was near. */
struct guess_text {
	char s[64];
};

struct guess_text guess_text(const struct guess *guess, const char *prefix);

#endif /* TWHEEL_GUESS_H */
