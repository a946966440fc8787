/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Drop the privileges with which the tests start.
 */
#ifndef TWHEEL_TESTS_PRIVILEGE_H
#define TWHEEL_TESTS_PRIVILEGE_H

#include <sys/syscall.h>
#include <linux/capability.h>

#include "device.h"

#define CAP(name)	(1ULL << CAP_##name)

static inline void set_capabilities(__u64 capabilities)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	for (int i = 0; i < 2; i++) {
		data[i].permitted = capabilities >> (32 * i);
		data[i].effective = data[i].permitted;
	}
	CHECK_EQ(syscall(SYS_capset, &header, data), 0);
}

/* Continue as that user, with only the capability to open the device. */
static inline void become_user(uid_t uid)
{
	CHECK_EQ(prctl(PR_SET_KEEPCAPS, 1), 0);
	CHECK_EQ(setuid(uid), 0);
	set_capabilities(CAP(DAC_OVERRIDE));
	/* A change of the user clears this: the tests must end with their parent. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
}

/* Open a file of that user. The caller keeps the privileges of root. */
static inline int device_open_for(uid_t uid)
{
	int fd;

	CHECK_EQ(setreuid(uid, 0), 0);
	fd = device_open(O_RDWR);
	CHECK_EQ(setreuid(0, 0), 0);
	return fd;
}

#endif /* TWHEEL_TESTS_PRIVILEGE_H */
