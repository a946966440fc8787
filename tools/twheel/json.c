// SPDX-License-Identifier: GPL-2.0
/*
 * JSON for programs that read the output of the tool: flat objects. Keys and texts are the tool's
 * own and need no escapes.
 */
#include <stdio.h>

#include "json.h"

static void key_of(struct json *json, const char *key)
{
	printf("%s\"%s\":", json->separator, key);
	json->separator = ",";
}

void json_begin(struct json *json)
{
	json->separator = "{";
}

void json_number(struct json *json, const char *key, uint64_t value)
{
	key_of(json, key);
	printf("%ju", value);
}

void json_signed(struct json *json, const char *key, int64_t value)
{
	key_of(json, key);
	printf("%jd", value);
}

void json_id(struct json *json, const char *key, uint64_t id)
{
	key_of(json, key);
	printf("\"%ju\"", id);
}

void json_bool(struct json *json, const char *key, bool value)
{
	key_of(json, key);
	fputs(value ? "true" : "false", stdout);
}

void json_numbers(struct json *json, const char *key, const __u64 *values, size_t nr)
{
	key_of(json, key);
	putchar('[');
	for (size_t i = 0; i < nr; i++)
		printf("%s%llu", i ? "," : "", values[i]);
	putchar(']');
}

void json_text(struct json *json, const char *key, const char *text)
{
	key_of(json, key);
	printf("\"%s\"", text);
}

void json_end(struct json *json)
{
	(void)json;
	puts("}");
}
