// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The native methods that a benchmark needs, without a kernel: cells are plain memory at which
 * nothing ever looks, and which asks for no kick. With it the arms and cancels of Java are
 * timed on a machine that has no twheel module. The kernel's own work is not part of that: it
 * looks at a cell about twice for 1,000 pairs of an arm and a cancel.
 */
#include <semaphore.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <jni.h>
#include <libtwheel.h>

#include "org_twheel_Native.h"

#define MAX_CELLS	1048576

/**
 * struct context - in place of a file
 * @nr: number of cells that there are
 * @stopped: posted by stop, which ends a read
 */
struct context {
	uint32_t	nr;
	sem_t		stopped;
};

static void *pointer(jlong address)
{
	return (void *)(uintptr_t)address;
}

JNIEXPORT jlong JNICALL Java_org_twheel_Native_open(JNIEnv *env, jclass type)
{
	struct context *ctx = calloc(1, sizeof(*ctx));

	(void)env;
	(void)type;
	if (!ctx)
		abort();
	sem_init(&ctx->stopped, 0, 0);
	return (uintptr_t)ctx;
}

JNIEXPORT void JNICALL Java_org_twheel_Native_close(JNIEnv *env, jclass type, jlong ctx)
{
	(void)env;
	(void)type;
	free(pointer(ctx));
}

JNIEXPORT void JNICALL Java_org_twheel_Native_info(JNIEnv *env, jclass type, jlong ctx,
						   jlong info)
{
	(void)env;
	(void)type;
	(void)ctx;
	*(struct twheel_info *)pointer(info) = (struct twheel_info){
		.cells = MAX_CELLS,
	};
}

JNIEXPORT jlong JNICALL Java_org_twheel_Native_now(JNIEnv *env, jclass type, jlong ctx)
{
	struct timespec ts;

	(void)env;
	(void)type;
	(void)ctx;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	return ts.tv_sec * 1000000000LL + ts.tv_nsec;
}

/* All operations make a cell. */
JNIEXPORT jint JNICALL Java_org_twheel_Native_submit(JNIEnv *env, jclass type, jlong ctx,
						     jlong ops, jint nr)
{
	struct context *context = pointer(ctx);
	struct twheel_op *op = pointer(ops);

	(void)env;
	(void)type;
	for (jint i = 0; i < nr; i++)
		op[i].id = 1ULL << 32 | __atomic_fetch_add(&context->nr, 1, __ATOMIC_RELAXED);
	return nr;
}

JNIEXPORT jint JNICALL Java_org_twheel_Native_pageSize(JNIEnv *env, jclass type)
{
	(void)env;
	(void)type;
	return sysconf(_SC_PAGESIZE);
}

JNIEXPORT jobject JNICALL Java_org_twheel_Native_map(JNIEnv *env, jclass type, jlong ctx,
						     jlong size)
{
	void *cells = calloc(1, size);

	(void)type;
	(void)ctx;
	if (!cells)
		abort();
	return (*env)->NewDirectByteBuffer(env, cells, size);
}

JNIEXPORT void JNICALL Java_org_twheel_Native_unmap(JNIEnv *env, jclass type, jlong cells,
						    jlong size)
{
	(void)env;
	(void)type;
	(void)size;
	free(pointer(cells));
}

JNIEXPORT jint JNICALL Java_org_twheel_Native_read(JNIEnv *env, jclass type, jlong ctx,
						   jlong events, jint nr, jlong timeout_ns)
{
	struct context *context = pointer(ctx);

	(void)env;
	(void)type;
	(void)events;
	(void)nr;
	(void)timeout_ns;
	while (sem_wait(&context->stopped))
		;
	return 0;
}

JNIEXPORT void JNICALL Java_org_twheel_Native_stop(JNIEnv *env, jclass type, jlong ctx)
{
	struct context *context = pointer(ctx);

	(void)env;
	(void)type;
	sem_post(&context->stopped);
}

JNIEXPORT jlong JNICALL Java_org_twheel_Native_address(JNIEnv *env, jclass type, jobject buffer)
{
	(void)type;
	return (uintptr_t)(*env)->GetDirectBufferAddress(env, buffer);
}
