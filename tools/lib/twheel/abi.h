/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/* Installed, this is the file itself. */
#include "../../../include/uapi/linux/twheel.h"
