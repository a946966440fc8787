// SPDX-License-Identifier: GPL-2.0
/*
 * The holders of contexts, found in a directory that looks like /proc. Descriptors are those
 * of this process, of /dev/null in place of the device. Needs no device.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "holders.h"
#include "ktap.h"

#define FDINFO								\
	"pos:\t0\nclockid:\t7\ntick_ns:\t1000000\nslots:\t256\nlevels:\t4\n"	\
	"max_timeouts:\t99\nslack_us:\t0\nlive:\t12\nready:\t3\ncells:\t4\n"

static char proc[64];

static void __attribute((format(printf, 2, 3)))
write_text(const char *text, const char *format, ...)
{
	char path[128];
	va_list args;
	FILE *file;

	va_start(args, format);
	vsnprintf(path, sizeof(path), format, args);
	va_end(args);
	file = fopen(path, "w");
	CHECK(file);
	fputs(text, file);
	fclose(file);
}

/* A process of the directory; 0 is this one. */
static pid_t add_process(pid_t pid, const char *command)
{
	char path[128];

	if (!pid)
		pid = getpid();
	snprintf(path, sizeof(path), "%s/%d", proc, pid);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%d/fd", proc, pid);
	mkdir(path, 0755);
	snprintf(path, sizeof(path), "%s/%d/fdinfo", proc, pid);
	mkdir(path, 0755);
	write_text(command, "%s/%d/comm", proc, pid);
	write_text("command", "%s/%d/cmdline", proc, pid);
	return pid;
}

static void add_descriptor(pid_t pid, int fd, const char *target, const char *fdinfo)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%d/fd/%d", proc, pid, fd);
	CHECK_EQ(symlink(target, path), 0);
	write_text(fdinfo, "%s/%d/fdinfo/%d", proc, pid, fd);
}

static void begin(void)
{
	strcpy(proc, "/tmp/twheel-holders.XXXXXX");
	CHECK(mkdtemp(proc));
}

static void end(void)
{
	char command[80];

	snprintf(command, sizeof(command), "rm -r %s", proc);
	CHECK_EQ(system(command), 0);
}

static struct holders found(pid_t self)
{
	struct holders holders;

	CHECK_EQ(holders_find(&holders, proc, "/dev/null", self), 0);
	return holders;
}

TEST(descriptor_has_values_of_fdinfo)
{
	struct holders holders;
	pid_t pid;

	begin();
	pid = add_process(0, "a\tb\xff\"c\n");
	add_descriptor(pid, 5, "/dev/null", FDINFO);
	holders = found(0);
	CHECK_EQ(holders.nr, 1);
	CHECK_EQ(holders.holder[0].pid, pid);
	CHECK_EQ(holders.holder[0].fd, 5);
	CHECK_EQ(holders.holder[0].context, 1);
	CHECK(!strcmp(holders.holder[0].command, "a?b?\"c"));
	CHECK_EQ(holders.holder[0].value[HOLDER_CLOCKID], 7);
	CHECK_EQ(holders.holder[0].value[HOLDER_LIVE], 12);
	CHECK_EQ(holders.holder[0].value[HOLDER_CELLS], 4);
	holders_free(&holders);
	end();
}

/* Another device, a file, and a descriptor without a context: of O_PATH, say. */
TEST(other_descriptors_are_left_out)
{
	struct holders holders;
	pid_t pid;

	begin();
	pid = add_process(0, "test\n");
	add_descriptor(pid, 3, "/dev/zero", FDINFO);
	add_descriptor(pid, 4, "/etc/passwd", FDINFO);
	add_descriptor(pid, 5, "/dev/null", "pos:\t0\nclockid:\t1\n");
	add_descriptor(pid, 6, "/no/such/file", FDINFO);
	write_text("", "%s/meminfo", proc);
	holders = found(0);
	CHECK_EQ(holders.nr, 0);
	holders_free(&holders);
	end();
}

TEST(own_process_is_left_out)
{
	struct holders holders;

	begin();
	add_descriptor(add_process(0, "test\n"), 5, "/dev/null", FDINFO);
	holders = found(getpid());
	CHECK_EQ(holders.nr, 0);
	holders_free(&holders);
	end();
}

TEST(duplicates_share_a_context)
{
	int fds[12];
	struct holders holders;
	pid_t pid;

	begin();
	pid = add_process(0, "test\n");
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++) {
		fds[i] = i % 3 ? dup(fds[i - 1]) : open("/dev/null", O_RDONLY);
		add_descriptor(pid, fds[i], "/dev/null", FDINFO);
	}
	holders = found(0);
	CHECK_EQ(holders.nr, ARRAY_SIZE(fds));
	if (holders.ambiguous) {
		CHECK_EQ(holders.nr_contexts, ARRAY_SIZE(fds));
	} else {
		CHECK_EQ(holders.nr_contexts, ARRAY_SIZE(fds) / 3);
		for (size_t i = 0; i < holders.nr; i++)
			CHECK_EQ(holders.holder[i].context, i / 3 + 1);
	}
	for (size_t i = 0; i < ARRAY_SIZE(fds); i++)
		close(fds[i]);
	holders_free(&holders);
	end();
}

/* A process that ended during the search. */
TEST(descriptors_that_cannot_be_compared_differ)
{
	struct holders holders;

	begin();
	add_descriptor(add_process(INT32_MAX, "gone\n"), 5, "/dev/null", FDINFO);
	add_descriptor(add_process(INT32_MAX - 1, "gone\n"), 5, "/dev/null", FDINFO);
	holders = found(0);
	CHECK_EQ(holders.nr, 2);
	CHECK_EQ(holders.nr_contexts, 2);
	CHECK(holders.holder[0].context != holders.holder[1].context);
	holders_free(&holders);
	end();
}

TEST(missing_directory_and_device_are_errors)
{
	struct holders holders;

	CHECK_EQ(holders_find(&holders, "/no/such/directory", "/dev/null", 0), -ENOENT);
	holders_free(&holders);
	CHECK_EQ(holders_find(&holders, "/proc", "/dev/no-such-device", 0), -ENOENT);
	holders_free(&holders);
}
