// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
/* A program of musl that arms a timeout with the native library: Debian has no Java for it. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <jni.h>

/* They are those of <libtwheel.h>, which needs the headers of the kernel. */
#define TWHEEL_PROCESS 8
#define COOKIE 1
#define EVENT_WORDS 6

#define NATIVE(name) dlsym(library, "Java_org_twheel_Native_" name)

static jlong (*open)(JNIEnv *, jclass, jint);
static jlong (*arm)(JNIEnv *, jclass, jlong, jlong, jint, jlong);
static jint (*read)(JNIEnv *, jclass, jlong, jlong, jint, jboolean);

int main(int argc, char **argv)
{
	void *library = argc == 2 ? dlopen(argv[1], RTLD_NOW) : NULL;
	uint64_t event[EVENT_WORDS] = { 0 };
	jlong ctx;

	if (!library) {
		puts(dlerror());
		return 1;
	}
	open = NATIVE("open");
	arm = NATIVE("arm");
	read = NATIVE("read");
	ctx = open(NULL, NULL, TWHEEL_PROCESS);
	arm(NULL, NULL, ctx, 1000000, 0, 42);
	return read(NULL, NULL, ctx, (uintptr_t)event, 1, JNI_TRUE) != 1 || event[COOKIE] != 42;
}
