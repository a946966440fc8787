/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The part of QEMU's plugin interface, version 1, that count.c needs. Distributions do not
 * ship its header with QEMU.
 */
#ifndef BENCH_QEMU_H
#define BENCH_QEMU_H

#include <stddef.h>
#include <stdint.h>

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info;

typedef void (*tb_callback)(uint64_t id, struct qemu_plugin_tb *tb);
typedef void (*insn_callback)(unsigned int cpu, void *data);
typedef void (*exit_callback)(uint64_t id, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, tb_callback callback);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, insn_callback callback,
					    int flags, void *data);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int op, void *at,
						uint64_t value);
void qemu_plugin_register_atexit_cb(uint64_t id, exit_callback callback, void *data);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *insn);

extern int qemu_plugin_version;
int qemu_plugin_install(uint64_t id, const struct qemu_info *info, int argc, char **argv);

#endif
