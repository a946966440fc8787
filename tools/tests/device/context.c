// SPDX-License-Identifier: GPL-2.0
/*
 * An open file is a context. All holders of the file share it, nobody else has access, and
 * it ends with the last reference.
 */
#include <grp.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "device.h"
#include "memory.h"

#define MANY		scaled(100000)

/* Permission to open */

TEST(device_is_for_root_alone)
{
	struct stat st;

	CHECK_EQ(stat(DEVICE, &st), 0);
	CHECK(S_ISCHR(st.st_mode));
	CHECK_EQ(st.st_mode & 07777, 0600);
	CHECK_EQ(st.st_uid, 0);
	CHECK_EQ(st.st_gid, 0);
	CHECK_EQ(setgroups(0, NULL), 0);
	CHECK_EQ(setgid(65534), 0);
	CHECK_EQ(setuid(65534), 0);
	CHECK_EQ(open(DEVICE, O_RDWR), -1);
	CHECK_EQ(errno, EACCES);
	CHECK_EQ(open(DEVICE, O_RDONLY), -1);
	CHECK_EQ(errno, EACCES);
}

TEST(descriptor_works_after_privileges_are_dropped)
{
	int fd = device_open(O_RDWR);

	CHECK_EQ(setuid(65534), 0);
	arm(fd, 0, 7);
	CHECK_EQ(read_event(fd).cookie, 7);
}

TEST(module_in_use_cannot_be_unloaded)
{
	device_open(O_RDWR);
	CHECK_EQ(syscall(SYS_delete_module, "twheel_dev", O_NONBLOCK), -1);
	CHECK_EQ(errno, EWOULDBLOCK);
}

/* Ids */

/* With a limit of one, only one slot is used. */
TEST(id_is_stale_after_10000_reuses_of_its_slot)
{
	static __u64 ids[10000];
	int fd = device_open_limited(O_RDWR, 1);

	for (size_t i = 0; i < ARRAY_SIZE(ids); i++) {
		ids[i] = arm(fd, HOUR, i);
		CHECK(!i || ids[i] > ids[i - 1]);
		CHECK_EQ(cancel(fd, ids[i / 2]), i ? -ENOENT : 0);
		if (i)
			CHECK_EQ(cancel(fd, ids[i]), 0);
	}
	arm(fd, HOUR, 0);
	for (size_t i = 0; i < ARRAY_SIZE(ids); i++)
		CHECK_EQ(get(fd, ids[i]), -ENOENT);
}

/* Two files */

TEST(others_are_served_while_100000_expire)
{
	int busy = device_open(O_RDWR), fd = device_open(O_RDWR);

	arm_many(busy, MANY, 0, 0, 0, NULL);
	for (int i = 0; i < 20; i++) {
		__u64 before = now_ns();

		arm(fd, 0, i);
		CHECK_EQ(read_event(fd).cookie, i);
		CHECK(now_ns() - before < max_quick_call_ns());
	}
	wait_ready(busy, MANY);
}

/* One file, several descriptors and processes */

/* The process that has opened the file ends, and another one has taken the descriptor. */
TEST(descriptor_taken_from_a_process_shares_the_context)
{
	int pipes[2], pidfd, fd;
	pid_t pid;

	CHECK_EQ(pipe(pipes), 0);
	pid = fork_child();
	if (!pid) {
		fd = device_open(O_RDWR);
		arm(fd, 100 * NSEC_PER_MSEC, 7);
		CHECK_EQ(write(pipes[1], &fd, sizeof(fd)), sizeof(fd));
		pause();
	}
	CHECK_EQ(read(pipes[0], &fd, sizeof(fd)), sizeof(fd));
	pidfd = syscall(SYS_pidfd_open, pid, 0);
	fd = syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	CHECK(fd >= 0);
	kill(pid, SIGKILL);
	CHECK_EQ(waitpid(pid, NULL, 0), pid);
	CHECK_EQ(info(fd).live, 1);
	CHECK_EQ(read_event(fd).cookie, 7);
}

/* The end of a context */

static void check_close_takes_less(int fd, __u64 ns)
{
	__u64 before = now_ns();

	close(fd);
	CHECK(now_ns() - before < ns);
	fd = device_open(O_RDWR | O_NONBLOCK);
	CHECK_EQ(info(fd).live, 0);
	check_no_event(fd);
}

static void close_with_1000000_pending(void)
{
	int fd = device_open(O_RDWR);

	arm_many(fd, 10 * MANY, HOUR, NSEC_PER_MSEC, 0, NULL);
	CHECK_EQ(info(fd).live, 10 * MANY);
	check_close_takes_less(fd, 30 * NSEC_PER_SEC);
}

TEST(close_with_1000000_pending_is_quick)
{
	skip_if_slow();
	with_min_limits(10 * MANY, close_with_1000000_pending);
}

TEST(close_while_100000_expire_is_quick)
{
	static const struct {
		const char *name;
		__u64 step;
		bool unread;
	} rows[] = { { "all are unread", 0, true }, { "some are pending", NSEC_PER_USEC, false } };

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		int fd = device_open(O_RDWR);

		ktap_note("%s", rows[i].name);
		arm_many(fd, MANY, 0, rows[i].step, 0, NULL);
		if (rows[i].unread)
			wait_ready(fd, MANY);
		check_close_takes_less(fd, max_quick_call_ns());
	}
}

/* The last descriptor is closed while a call waits for a page of its memory */

/* A page that is missing until supply_page(). Access to it waits. */
struct missing_page {
	void *page;
	int userfault;
};

static struct missing_page map_missing(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct missing_page m = { .page = map_pages(1) };
	struct uffdio_register range = {
		.range = { .start = (uintptr_t)m.page, .len = page_size() },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};

	m.userfault = syscall(SYS_userfaultfd, O_CLOEXEC);
	if (m.userfault < 0)
		ktap_skip("no userfaultfd");
	CHECK_EQ(ioctl(m.userfault, UFFDIO_API, &api), 0);
	CHECK_EQ(ioctl(m.userfault, UFFDIO_REGISTER, &range), 0);
	return m;
}

/* A thread has touched the page. */
static void wait_touched(struct missing_page *m)
{
	struct uffd_msg message;

	CHECK_EQ(read(m->userfault, &message, sizeof(message)), sizeof(message));
	CHECK_EQ(message.event, UFFD_EVENT_PAGEFAULT);
}

static void supply_page(struct missing_page *m, const void *content, size_t size)
{
	void *page = map_pages(1);
	struct uffdio_copy copy = {
		.dst = (uintptr_t)m->page, .src = (uintptr_t)page, .len = page_size(),
	};

	if (size)
		memcpy(page, content, size);
	CHECK_EQ(ioctl(m->userfault, UFFDIO_COPY, &copy), 0);
}

static unsigned int open_files(void)
{
	char text[16] = "";
	int fd = open("/sys/module/twheel_dev/refcnt", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	CHECK(read(fd, text, sizeof(text) - 1) > 0);
	close(fd);
	return atoi(text);
}

/* A call with the missing page, in a thread of its own. */
struct call {
	struct missing_page memory;
	pthread_t thread;
	int fd;
	int ret;
	__u32 done;
};

/* Closes the last descriptor during the call. The context stays until the call returns. */
static void close_during(struct call *call, void *(*body)(void *), const void *content,
			 size_t size)
{
	unsigned int before = open_files();

	CHECK(!pthread_create(&call->thread, NULL, body, call));
	wait_touched(&call->memory);
	CHECK_EQ(close(call->fd), 0);
	CHECK_EQ(open_files(), before);
	supply_page(&call->memory, content, size);
	CHECK_EQ(pthread_join(call->thread, NULL), 0);
	CHECK_EQ(open_files(), before - 1);
}

static void *read_into_it(void *arg)
{
	struct call *call = arg;

	call->ret = read_events(call->fd, call->memory.page, 3);
	return NULL;
}

TEST(close_amid_a_fault_of_read_leaves_its_events)
{
	struct call call = { .memory = map_missing(), .fd = device_open(O_RDWR) };
	struct twheel_event *events = call.memory.page;

	arm(call.fd, HOUR, 7);
	for (int i = 0; i < 3; i++)
		arm_fired(call.fd, i);
	close_during(&call, read_into_it, NULL, 0);
	CHECK_EQ(call.ret, 3);
	for (int i = 0; i < 3; i++) {
		check_event(&events[i]);
		CHECK_EQ(events[i].cookie, i);
	}
}

static void *submit_from_it(void *arg)
{
	struct call *call = arg;

	call->ret = try_submit(call->fd, call->memory.page, 3, &call->done);
	return NULL;
}

TEST(close_amid_a_fault_of_submit_leaves_its_results)
{
	struct call call = { .memory = map_missing(), .fd = device_open(O_RDWR) };
	const struct twheel_op ops[] = { op_arm(HOUR, 0, 1), op_cancel(1), op_arm(0, 0, 2) };
	struct twheel_op *out = call.memory.page;

	arm(call.fd, HOUR, 7);
	close_during(&call, submit_from_it, ops, sizeof(ops));
	CHECK_EQ(call.ret, 0);
	CHECK_EQ(call.done, 3);
	CHECK_EQ(out[0].result, 0);
	CHECK_EQ(out[1].result, -ENOENT);
	CHECK_EQ(out[2].result, 0);
	CHECK(out[0].id && out[2].id && out[0].id != out[2].id);
}
