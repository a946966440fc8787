/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One JSON object in one line of standard output.
 *
 * Ids and cookies are strings: they may pass 2^53, and many readers make doubles of numbers.
 */
#ifndef TWHEEL_JSON_H
#define TWHEEL_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/types.h>

struct json {
	const char *separator;
};

void json_begin(struct json *json);
void json_number(struct json *json, const char *key, uint64_t value);
void json_signed(struct json *json, const char *key, int64_t value);
void json_id(struct json *json, const char *key, uint64_t id);

void json_bool(struct json *json, const char *key, bool value);
void json_numbers(struct json *json, const char *key, const __u64 *values, size_t nr);

void json_text(struct json *json, const char *key, const char *text);
void json_end(struct json *json);

#endif /* TWHEEL_JSON_H */
