// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * The cookie of a timeout is the address of its node. That is safe as long as the event
 * is in the kernel: none is read after a cancel. From the read until its turn has come
 * node and event point to each other, so that either can be taken back.
 *
 * What a touch came too late for is armed anew before the first callback of a batch: a
 * callback may free the node.
 */
#include <errno.h>

#include "twheel_hub.h"

#define FLAGS	(TWHEEL_F_ABS | TWHEEL_F_TOUCH)

static void count(struct twheel_hub *hub, int change)
{
	bool was = hub->armed;

	hub->armed += change;
	if (was != !!hub->armed)
		hub->watch(hub, !was);
}

static uint64_t cookie_of(const struct twheel_node *node)
{
	return (uintptr_t)node;
}

static struct twheel_node *node_of(uint64_t cookie)
{
	return (struct twheel_node *)(uintptr_t)cookie;
}

static void forget_event(struct twheel_node *node)
{
	if (node->event)
		node->event->cookie = 0;
	node->event = NULL;
}

int twheel_hub_open(struct twheel_hub *hub, void (*watch)(struct twheel_hub *hub, bool on))
{
	*hub = (struct twheel_hub) { .watch = watch };
	return twheel_open(NULL, TWHEEL_NONBLOCK, &hub->ctx);
}

void twheel_hub_close(struct twheel_hub *hub)
{
	count(hub, -(int)hub->armed);
	twheel_close(hub->ctx);
	hub->ctx = NULL;
}

void twheel_node_init(struct twheel_node *node, void (*fn)(struct twheel_node *node))
{
	*node = (struct twheel_node) { .fn = fn };
}

/* The deadline of a timeout in the kernel can be moved, and moved back only by a call. */
static int place(struct twheel_hub *hub, struct twheel_node *node, uint64_t deadline_ns)
{
	if (!node->id)
		return twheel_arm(hub->ctx, deadline_ns, FLAGS, cookie_of(node), &node->id);
	if (deadline_ns >= node->deadline_ns)
		return twheel_touch(hub->ctx, node->id, deadline_ns);
	return twheel_mod(hub->ctx, node->id, deadline_ns, FLAGS, cookie_of(node));
}

int twheel_node_arm(struct twheel_hub *hub, struct twheel_node *node, uint64_t delay_ns)
{
	bool armed = twheel_node_armed(node);
	uint64_t now_ns;
	int ret;

	if (delay_ns > INT64_MAX)
		return -EINVAL;
	twheel_now(hub->ctx, &now_ns);
	if (delay_ns > INT64_MAX - now_ns)
		delay_ns = INT64_MAX - now_ns;

	ret = place(hub, node, now_ns + delay_ns);
	if (ret < 0)
		return ret;
	node->deadline_ns = now_ns + delay_ns;
	forget_event(node);
	if (!armed)
		count(hub, 1);
	return 0;
}

bool twheel_node_cancel(struct twheel_hub *hub, struct twheel_node *node)
{
	if (!twheel_node_armed(node))
		return false;
	if (hub->ctx && node->id)
		twheel_cancel(hub->ctx, node->id);
	node->id = 0;
	forget_event(node);
	if (hub->ctx)
		count(hub, -1);
	return hub->ctx;
}

/* Those whose event comes in spite of a later deadline: how many, in @ops. */
static unsigned int sort_events(struct twheel_hub *hub, struct twheel_op *ops, int nr)
{
	unsigned int late = 0;
	uint64_t now_ns;

	twheel_now(hub->ctx, &now_ns);
	for (int i = 0; i < nr; i++) {
		struct twheel_event *event = &hub->events[i];
		struct twheel_node *node = node_of(event->cookie);

		node->id = 0;
		if (node->deadline_ns <= now_ns) {
			node->event = event;
			continue;
		}
		twheel_prep_arm(&ops[late++], node->deadline_ns, FLAGS, event->cookie);
		event->cookie = 0;
	}
	return late;
}

/* They take places that have just become free: it fails only in a context that ends. */
static void arm_anew(struct twheel_hub *hub, struct twheel_op *ops, unsigned int nr)
{
	twheel_submit(hub->ctx, ops, nr);
	for (unsigned int i = 0; i < nr; i++) {
		node_of(ops[i].cookie)->id = ops[i].id;
		if (!ops[i].id)
			count(hub, -1);
	}
}

void twheel_hub_dispatch(struct twheel_hub *hub)
{
	struct twheel_op ops[TWHEEL_HUB_BATCH];
	int nr;

	nr = twheel_read(hub->ctx, hub->events, TWHEEL_HUB_BATCH, TWHEEL_NO_WAIT);
	if (nr <= 0)
		return;
	arm_anew(hub, ops, sort_events(hub, ops, nr));

	for (int i = 0; i < nr; i++) {
		struct twheel_node *node = node_of(hub->events[i].cookie);

		if (!node)
			continue;
		node->event = NULL;
		count(hub, -1);
		node->fn(node);
	}
}
