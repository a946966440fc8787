// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
/*
 * The native methods of org.twheel.Native, on libtwheel. Each is one call of the library:
 * records are in direct buffers, whose addresses Java passes.
 *
 * A method that fails throws TwheelException with the errno, and its return value is
 * meaningless. read() returns -EAGAIN and -EINTR, and kick() any error: their callers handle
 * these.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jni.h>
#include <libtwheel.h>

#include "org_twheel_Native.h"

static void *pointer(jlong address)
{
	return (void *)(uintptr_t)address;
}

static void throw_errno(JNIEnv *env, const char *call, int error)
{
	char message[192];
	jclass type = (*env)->FindClass(env, "org/twheel/TwheelException");
	jmethodID make = type ? (*env)->GetMethodID(env, type, "<init>",
						    "(ILjava/lang/String;)V") : NULL;
	jstring text;
	jobject exception;

	snprintf(message, sizeof(message), "%s: %s", call, strerror(error));
	text = make ? (*env)->NewStringUTF(env, message) : NULL;
	exception = text ? (*env)->NewObject(env, type, make, error, text) : NULL;
	/* Otherwise another exception, such as OutOfMemoryError, is pending. */
	if (exception)
		(*env)->Throw(env, exception);
}

/* Returns @ret, or throws if it is negative. */
static int checked(JNIEnv *env, const char *call, int ret)
{
	if (ret < 0)
		throw_errno(env, call, -ret);
	return ret;
}

JNIEXPORT jlong JNICALL Java_org_twheel_Native_open(JNIEnv *env, jclass type, jint backend)
{
	struct twheel_ctx *ctx = NULL;
	int ret = twheel_open(NULL, backend, &ctx);

	(void)type;
	if (ret == -EINVAL)
		throw_errno(env, "open: TWHEEL_BACKEND is neither 'kernel' nor 'process'", -ret);
	else if (ret == -ENOENT || ret == -ENODEV || ret == -ENXIO)
		throw_errno(env, "open " TWHEEL_DEVICE " (modprobe twheel_dev loads the module; "
			    "Backend.ANY and PROCESS need none)", -ret);
	else if (ret == -EACCES || ret == -EPERM)
		throw_errno(env, "open " TWHEEL_DEVICE " (root and the group twheel have access; "
			    "Backend.ANY and PROCESS need none)", -ret);
	else
		checked(env, "open " TWHEEL_DEVICE, ret);
	return (uintptr_t)ctx;
}

JNIEXPORT void JNICALL Java_org_twheel_Native_close(JNIEnv *env, jclass type, jlong ctx)
{
	(void)env;
	(void)type;
	/* A mapping of cells may outlive the descriptor: the timeouts end here. */
	twheel_cancel_timeouts(pointer(ctx), NULL);
	twheel_close(pointer(ctx));
}

JNIEXPORT jint JNICALL Java_org_twheel_Native_fd(JNIEnv *env, jclass type, jlong ctx)
{
	(void)env;
	(void)type;
	return twheel_fd(pointer(ctx));
}

JNIEXPORT jlong JNICALL Java_org_twheel_Native_now(JNIEnv *env, jclass type, jlong ctx)
{
	uint64_t now = 0;

	(void)type;
	checked(env, "now", twheel_now(pointer(ctx), &now));
	return now;
}

JNIEXPORT void JNICALL Java_org_twheel_Native_setup(JNIEnv *env, jclass type, jlong ctx,
						    jlong setup)
{
	(void)type;
	checked(env, "setup", twheel_configure(pointer(ctx), pointer(setup)));
}

JNIEXPORT void JNICALL Java_org_twheel_Native_info(JNIEnv *env, jclass type, jlong ctx,
						   jlong info)
{
	(void)type;
	checked(env, "info", twheel_get_info(pointer(ctx), pointer(info)));
}

JNIEXPORT void JNICALL Java_org_twheel_Native_stats(JNIEnv *env, jclass type, jlong ctx,
						    jlong stats)
{
	(void)type;
	checked(env, "stats", twheel_get_stats(pointer(ctx), pointer(stats)));
}

JNIEXPORT jlong JNICALL Java_org_twheel_Native_arm(JNIEnv *env, jclass type, jlong ctx,
						   jlong expires_ns, jint flags, jlong cookie)
{
	uint64_t id = 0;

	(void)type;
	checked(env, "arm", twheel_arm(pointer(ctx), expires_ns, flags, cookie, &id));
	return id;
}

JNIEXPORT jint JNICALL Java_org_twheel_Native_mod(JNIEnv *env, jclass type, jlong ctx, jlong id,
						  jlong expires_ns, jint flags, jlong cookie)
{
	int ret = twheel_mod(pointer(ctx), id, expires_ns, flags, cookie);

	(void)type;
	return ret == -ENOENT ? ret : checked(env, "mod", ret);
}

JNIEXPORT jint JNICALL Java_org_twheel_Native_cancel(JNIEnv *env, jclass type, jlong ctx,
						     jlong id)
{
	int ret = twheel_cancel(pointer(ctx), id);

	(void)type;
	return ret == -ENOENT ? ret : checked(env, "cancel", ret);
}

JNIEXPORT jint JNICALL Java_org_twheel_Native_submit(JNIEnv *env, jclass type, jlong ctx,
						     jlong ops, jint nr)
{
	(void)type;
	return checked(env, "submit", twheel_submit_ops(pointer(ctx), pointer(ops), nr));
}

JNIEXPORT jlong JNICALL Java_org_twheel_Native_cancelAll(JNIEnv *env, jclass type, jlong ctx,
							 jboolean has_cookie, jlong cookie)
{
	struct twheel_cancel_all done = { 0 };

	(void)type;
	checked(env, "cancel_all", has_cookie ?
		twheel_cancel_cookie(pointer(ctx), cookie, &done) :
		twheel_cancel_timeouts(pointer(ctx), &done));
	return (uint64_t)done.pending + done.withdrawn;
}

JNIEXPORT void JNICALL Java_org_twheel_Native_setTime(JNIEnv *env, jclass type, jlong ctx,
						      jlong now_ns)
{
	(void)type;
	checked(env, "set_time", twheel_set_time(pointer(ctx), now_ns));
}

JNIEXPORT jint JNICALL Java_org_twheel_Native_list(JNIEnv *env, jclass type, jlong ctx,
						   jlong memory, jint nr)
{
	struct twheel_list_entry *entries = pointer(memory);
	uint32_t *next = (uint32_t *)(entries + nr);

	(void)type;
	return checked(env, "list", twheel_list_timeouts(pointer(ctx), entries, nr, next));
}

JNIEXPORT void JNICALL Java_org_twheel_Native_stop(JNIEnv *env, jclass type, jlong ctx)
{
	(void)type;
	checked(env, "stop", twheel_stop(pointer(ctx)));
}

JNIEXPORT jint JNICALL Java_org_twheel_Native_read(JNIEnv *env, jclass type, jlong ctx,
						   jlong events, jint nr, jboolean wait)
{
	int ret = twheel_read(pointer(ctx), pointer(events), nr,
			      wait ? TWHEEL_FOREVER : TWHEEL_NO_WAIT);

	(void)type;
	return ret == -EAGAIN || ret == -EINTR ? ret : checked(env, "read", ret);
}

/* Not twheel_wait(), since that waits for one descriptor. The caller reads before each wait. */
JNIEXPORT void JNICALL Java_org_twheel_Native_await(JNIEnv *env, jclass type, jlong ctx,
						    jint waker, jlong timeout_ns)
{
	struct pollfd fds[] = { { .fd = twheel_fd(pointer(ctx)), .events = POLLIN },
				{ .fd = waker, .events = POLLIN } };
	struct timespec timeout = { .tv_sec = timeout_ns / 1000000000,
				    .tv_nsec = timeout_ns % 1000000000 };

	(void)type;
	if (ppoll(fds, 2, timeout_ns < 0 ? NULL : &timeout, NULL) < 0 && errno != EINTR)
		throw_errno(env, "poll", errno);
}

JNIEXPORT jint JNICALL Java_org_twheel_Native_newWaker(JNIEnv *env, jclass type)
{
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	(void)type;
	return checked(env, "eventfd", fd < 0 ? -errno : fd);
}

JNIEXPORT void JNICALL Java_org_twheel_Native_wake(JNIEnv *env, jclass type, jint waker)
{
	(void)env;
	(void)type;
	eventfd_write(waker, 1);
}

JNIEXPORT void JNICALL Java_org_twheel_Native_closeWaker(JNIEnv *env, jclass type, jint waker)
{
	(void)env;
	(void)type;
	close(waker);
}

JNIEXPORT jint JNICALL Java_org_twheel_Native_pageSize(JNIEnv *env, jclass type)
{
	(void)env;
	(void)type;
	return sysconf(_SC_PAGESIZE);
}

/*
 * The mapping is Java's own: it lives until detach(), or until no cell can be reached any more.
 * Pages are made when they are used, also after mlockall(), which the library's mapping explains.
 */
JNIEXPORT jobject JNICALL Java_org_twheel_Native_map(JNIEnv *env, jclass type, jlong ctx,
						     jlong size)
{
	jobject buffer;
	void *cells;

	(void)type;
	cells = mmap(NULL, size, PROT_NONE, MAP_SHARED, twheel_fd(pointer(ctx)), 0);
	if (cells == MAP_FAILED) {
		throw_errno(env, "mmap", errno);
		return NULL;
	}
	if (mprotect(cells, size, PROT_READ | PROT_WRITE)) {
		throw_errno(env, "mprotect", errno);
		munmap(cells, size);
		return NULL;
	}
	buffer = (*env)->NewDirectByteBuffer(env, cells, size);
	if (!buffer)
		munmap(cells, size);
	return buffer;
}

JNIEXPORT void JNICALL Java_org_twheel_Native_unmap(JNIEnv *env, jclass type, jlong cells,
						    jlong size)
{
	(void)env;
	(void)type;
	munmap(pointer(cells), size);
}

/*
 * A mapping keeps the records of the context. Cells can still be reached, so the memory that takes
 * its place comes at once, with all bits set: idle words that any arming has to kick. Without
 * memory, the mapping stays.
 */
JNIEXPORT void JNICALL Java_org_twheel_Native_detach(JNIEnv *env, jclass type, jlong cells,
						     jlong size, jlong used)
{
	void *idle = mmap(NULL, size, PROT_READ | PROT_WRITE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	(void)env;
	(void)type;
	if (idle == MAP_FAILED)
		return;
	memset(idle, 0xff, used);
	if (mremap(idle, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, pointer(cells)) == MAP_FAILED)
		munmap(idle, size);
}

/* The last address is a check: in a block, an index determines the place. */
JNIEXPORT jobject JNICALL Java_org_twheel_Native_cells(JNIEnv *env, jclass type, jlong ctx,
						       jlong id, jint nr)
{
	struct twheel_cell *first, *last;

	(void)type;
	if (checked(env, "cell", twheel_cell_find(pointer(ctx), id, &first)) < 0 ||
	    checked(env, "cell", twheel_cell_find(pointer(ctx), id + nr - 1, &last)) < 0)
		return NULL;
	if (last - first != nr - 1) {
		throw_errno(env, "cell", EOPNOTSUPP);
		return NULL;
	}
	return (*env)->NewDirectByteBuffer(env, first, nr * sizeof(*first));
}

/* Does not throw: if the allocation of the exception failed, the arming would seem to count. */
JNIEXPORT jint JNICALL Java_org_twheel_Native_kick(JNIEnv *env, jclass type, jlong ctx,
						   jlong cell, jlong id, jlong expires_ns)
{
	(void)env;
	(void)type;
	return twheel_cell_kick(pointer(ctx), pointer(cell), id, expires_ns);
}

JNIEXPORT jlong JNICALL Java_org_twheel_Native_address(JNIEnv *env, jclass type, jobject buffer)
{
	(void)type;
	return (uintptr_t)(*env)->GetDirectBufferAddress(env, buffer);
}

/* The sizes of the records, for a test that compares them with the offsets in Java. */
JNIEXPORT jintArray JNICALL Java_org_twheel_Native_sizes(JNIEnv *env, jclass type)
{
	const jint sizes[] = { sizeof(struct twheel_op), sizeof(struct twheel_event),
			       sizeof(struct twheel_info), sizeof(struct twheel_setup),
			       sizeof(struct twheel_cell), sizeof(struct twheel_stats),
			       sizeof(struct twheel_list_entry) };
	const jsize nr = sizeof(sizes) / sizeof(*sizes);
	jintArray array = (*env)->NewIntArray(env, nr);

	(void)type;
	if (array)
		(*env)->SetIntArrayRegion(env, array, 0, nr, sizes);
	return array;
}
