/* SPDX-License-Identifier: GPL-2.0 */
/*
 * State of the machine from /proc and from the module of the benchmark. Each function calls
 * die() on an error.
 */
#ifndef BENCH_PROC_H
#define BENCH_PROC_H

#include <stdint.h>
#include <stdio.h>
#include <stdnoreturn.h>

#define MODULE		"/sys/module/twheel_bench/parameters/"

/* Defined by each program: prints @what and errno, and exits. */
noreturn void die(const char *what);

FILE *open_file(const char *path);
void write_to(const char *path, const char *text);

/* Time that the CPU has been idle, in ns. Needs the module. */
uint64_t cpu_idle_ns(void);

/* Free pages, including those on the lists of the CPUs. Drops the page cache first. */
uint64_t free_bytes(void);

#endif
