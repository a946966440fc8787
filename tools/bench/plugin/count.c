// SPDX-License-Identifier: GPL-2.0
/*
 * A QEMU plugin that counts how often each instruction is executed between two marks. The
 * marks are nops that clock.h defines. At the end it writes ADDRESS COUNT for each executed
 * instruction to the file given by the argument `out`.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "qemu.h"

#define SLOTS	0x800000U

int qemu_plugin_version = 1;

static const unsigned char mark_start[] = { 0x0f, 0x1f, 0x80, 0x31, 0x6c, 0x77, 0x74 };
static const unsigned char mark_stop[] = { 0x0f, 0x1f, 0x80, 0x32, 0x6c, 0x77, 0x74 };

/* Hash table by address: executions in total, at the start mark, and between the marks. */
static struct slot {
	uint64_t address;
	uint64_t executed;
	uint64_t at_start;
	uint64_t counted;
} *slots;

static uint32_t used[SLOTS / 2];
static uint32_t nr_used;
static const char *out;

static struct slot *slot_of(uint64_t address)
{
	uint32_t i = (address * 0x9e3779b97f4a7c15ULL) >> 41;

	while (slots[i].address && slots[i].address != address)
		i = (i + 1) % SLOTS;
	if (!slots[i].address) {
		if (nr_used == SLOTS / 2)
			abort();
		slots[i].address = address;
		used[nr_used++] = i;
	}
	return &slots[i];
}

static void start(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	for (uint32_t i = 0; i < nr_used; i++)
		slots[used[i]].at_start = slots[used[i]].executed;
}

/* Code translated after the start mark has @at_start 0. */
static void stop(unsigned int cpu, void *data)
{
	(void)cpu;
	(void)data;
	for (uint32_t i = 0; i < nr_used; i++) {
		struct slot *s = &slots[used[i]];

		s->counted += s->executed - s->at_start;
	}
}

static bool is(const struct qemu_plugin_insn *insn, const unsigned char *mark)
{
	return qemu_plugin_insn_size(insn) == sizeof(mark_start) &&
	       !memcmp(qemu_plugin_insn_data(insn), mark, sizeof(mark_start));
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		struct slot *s = slot_of(qemu_plugin_insn_vaddr(insn));

		if (is(insn, mark_start))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, start, 0, NULL);
		else if (is(insn, mark_stop))
			qemu_plugin_register_vcpu_insn_exec_cb(insn, stop, 0, NULL);
		else
			qemu_plugin_register_vcpu_insn_exec_inline(insn, 0, &s->executed, 1);
	}
}

static void finish(uint64_t id, void *data)
{
	FILE *file = fopen(out, "w");

	(void)id;
	(void)data;
	for (uint32_t i = 0; file && i < nr_used; i++) {
		struct slot *s = &slots[used[i]];

		if (s->counted)
			fprintf(file, "%016lx %lu\n", s->address, s->counted);
	}
	if (file)
		fclose(file);
}

int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int argc, char **argv)
{
	(void)info;
	if (argc != 1 || strncmp(argv[0], "out=", 4))
		return -1;
	out = strdup(argv[0] + 4);
	slots = calloc(SLOTS, sizeof(*slots));
	if (!slots)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	qemu_plugin_register_atexit_cb(id, finish, NULL);
	return 0;
}
