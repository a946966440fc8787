// SPDX-License-Identifier: GPL-2.0
/* echo PORT [SECONDS]: the echo server as a program. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "echo.h"
#include "libtwheel.h"

static int listen_on(unsigned int port)
{
	struct sockaddr_in6 address = { .sin6_family = AF_INET6, .sin6_port = htons(port) };
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &(int){ 1 }, sizeof(int));
	if (fd < 0 || bind(fd, (void *)&address, sizeof(address)) || listen(fd, SOMAXCONN))
		return -1;
	return fd;
}

/* Returns 0 unless the text is a number from 1 to @max. */
static unsigned int take_number(const char *text, unsigned int max)
{
	char *rest;
	unsigned long value = strtoul(text, &rest, 10);

	return *rest || value > max ? 0 : value;
}

int main(int argc, char **argv)
{
	unsigned int port = argc > 1 ? take_number(argv[1], 65535) : 0;
	unsigned int seconds = argc > 2 ? take_number(argv[2], 86400) : 60;
	int listener;

	if (argc > 3 || !port || !seconds) {
		fprintf(stderr, "Usage: %s PORT [SECONDS]\n", argv[0]);
		return 64;
	}
	listener = listen_on(port);
	if (listener < 0) {
		perror("listen");
		return 1;
	}
	return echo_serve(listener, seconds * TWHEEL_SEC);
}
