/* SPDX-License-Identifier: GPL-2.0 */
/*
 * "Did you mean": a known word that differs from a misspelt one by one mistake.
 */
#ifndef TWHEEL_GUESS_H
#define TWHEEL_GUESS_H

#include <stdbool.h>
#include <string.h>

/*
 * Is @word, of @len letters, @known with a letter too many, too few or wrong, or with two
 * neighbours swapped?
 */
static inline bool is_misspelt(const char *word, size_t len, const char *known)
{
	size_t known_len = strlen(known);

	for (; len && *word == *known; word++, known++, len--, known_len--)
		;
	for (; len && known_len && word[len - 1] == known[known_len - 1]; len--, known_len--)
		;
	return (len <= 1 && known_len <= 1) ||
	       (len == 2 && known_len == 2 && word[0] == known[1] && word[1] == known[0]);
}

#endif /* TWHEEL_GUESS_H */
