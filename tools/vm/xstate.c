// SPDX-License-Identifier: GPL-2.0
/*
 * A ptrace() for User Mode Linux before 6.13 on processors with AMX, to be preloaded
 *
 * User Mode Linux saves and restores the extended registers of its processes in 2,696 bytes. The
 * host insists on the whole area in PTRACE_SETREGSET: 11,008 bytes with AMX. This function passes
 * the whole area to the host and its beginning to User Mode Linux. No process of a test uses AMX,
 * so the rest is empty.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

/* XSTATE_BV, the states that are not empty, and in it the two states of AMX. */
#define XSTATE_BV	512
#define XSTATE_AMX	(UINT64_C(3) << 17)

static long (*host_ptrace)(enum __ptrace_request request, ...);
static unsigned char area[1 << 16];
static size_t area_size;

/* Before there are processes, whose stacks are small. */
__attribute__((constructor)) static void find_host_ptrace(void)
{
	host_ptrace = dlsym(RTLD_NEXT, "ptrace");
}

static long get_area(pid_t pid, struct iovec *part)
{
	struct iovec whole = { area, sizeof(area) };

	if (host_ptrace(PTRACE_GETREGSET, pid, NT_X86_XSTATE, &whole))
		return -1;
	area_size = whole.iov_len;
	if (part->iov_len > area_size)
		part->iov_len = area_size;
	memcpy(part->iov_base, area, part->iov_len);
	return 0;
}

static long set_area(pid_t pid, const struct iovec *part)
{
	struct iovec whole = { area, area_size };
	uint64_t states;

	memset(area, 0, area_size);
	memcpy(area, part->iov_base, part->iov_len < area_size ? part->iov_len : area_size);
	memcpy(&states, area + XSTATE_BV, sizeof(states));
	states &= ~XSTATE_AMX;
	memcpy(area + XSTATE_BV, &states, sizeof(states));
	return host_ptrace(PTRACE_SETREGSET, pid, NT_X86_XSTATE, &whole);
}

long ptrace(enum __ptrace_request request, ...)
{
	void *address, *data;
	va_list arguments;
	pid_t pid;

	va_start(arguments, request);
	pid = va_arg(arguments, pid_t);
	address = va_arg(arguments, void *);
	data = va_arg(arguments, void *);
	va_end(arguments);
	if (request == PTRACE_GETREGSET && (uintptr_t)address == NT_X86_XSTATE)
		return get_area(pid, data);
	if (request == PTRACE_SETREGSET && (uintptr_t)address == NT_X86_XSTATE && area_size)
		return set_area(pid, data);
	return host_ptrace(request, pid, address, data);
}
