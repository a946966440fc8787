// SPDX-License-Identifier: LGPL-2.1-or-later
/*
 * An event that is read was not withdrawn, and its cell is idle. The cell is spare from
 * then on. Until the turn of the event has come, node and event point to each other, so
 * that either can be taken back.
 */
#include <errno.h>
#include <stdlib.h>

#include "twheel_hub.h"

static void count(struct twheel_hub *hub, int change)
{
	bool was = hub->armed;

	hub->armed += change;
	if (was != !!hub->armed)
		hub->watch(hub, !was);
}

static void forget_event(struct twheel_node *node)
{
	if (node->event)
		node->event->cookie = 0;
	node->event = NULL;
}

/* Cells */

static unsigned int log2_of(uint64_t delay_ns)
{
	return delay_ns ? 63 - __builtin_clzll(delay_ns) : 0;
}

static int make_cell(struct twheel_hub *hub, struct twheel_hub_cell **made)
{
	struct twheel_hub_cell *c = calloc(1, sizeof(*c));
	int ret;

	if (!c)
		return -ENOMEM;
	ret = twheel_cell_create(hub->ctx, (uintptr_t)c, &c->id, &c->cell);
	if (ret) {
		free(c);
		return ret;
	}
	c->next = hub->cells;
	hub->cells = c;
	hub->nr_cells++;
	*made = c;
	return 0;
}

static struct twheel_hub_cell *take_spare(struct twheel_hub *hub, unsigned int delay)
{
	struct twheel_hub_cell *c = hub->spare[delay];

	if (c)
		hub->spare[delay] = c->next_spare;
	return c;
}

/* Any other delay only if there can be no more cells: the kernel would look too late. */
static int take_cell(struct twheel_hub *hub, unsigned int delay, struct twheel_hub_cell **taken)
{
	int ret = 0;

	*taken = take_spare(hub, delay);
	if (!*taken)
		ret = make_cell(hub, taken);
	for (unsigned int i = 0; ret && i < TWHEEL_HUB_DELAYS; i++) {
		*taken = take_spare(hub, i);
		if (*taken)
			ret = 0;
	}
	return ret;
}

/* The node does without its cell, which is idle. */
static void give_back_cell(struct twheel_hub *hub, struct twheel_node *node)
{
	struct twheel_hub_cell *c = node->cell;

	node->cell = NULL;
	c->node = NULL;
	c->next_spare = hub->spare[c->delay];
	hub->spare[c->delay] = c;
}

/* Hubs */

int twheel_hub_open(struct twheel_hub *hub, void (*watch)(struct twheel_hub *hub, bool on))
{
	struct twheel_info info;
	int ret;

	*hub = (struct twheel_hub) { .watch = watch };
	ret = twheel_open(NULL, TWHEEL_NONBLOCK, &hub->ctx);
	if (ret)
		return ret;
	ret = twheel_info(hub->ctx, &info);
	if (!ret && !(info.op_flags & TWHEEL_F_CELL))
		ret = -EOPNOTSUPP;
	if (ret)
		twheel_close(hub->ctx);
	return ret;
}

void twheel_hub_close(struct twheel_hub *hub)
{
	struct twheel_hub_cell *c;

	count(hub, -(int)hub->armed);
	twheel_close(hub->ctx);
	hub->ctx = NULL;
	while ((c = hub->cells)) {
		hub->cells = c->next;
		free(c);
	}
}

/* Nodes */

void twheel_node_init(struct twheel_node *node, void (*fn)(struct twheel_node *node))
{
	*node = (struct twheel_node) { .fn = fn };
}

int twheel_node_arm(struct twheel_hub *hub, struct twheel_node *node, uint64_t delay_ns)
{
	bool armed = twheel_node_armed(node);
	struct twheel_hub_cell *c = node->cell;
	uint64_t now_ns;
	int ret;

	if (delay_ns > INT64_MAX)
		return -EINVAL;
	if (!c) {
		ret = take_cell(hub, log2_of(delay_ns), &c);
		if (ret)
			return ret;
		c->node = node;
		node->cell = c;
	}
	c->delay = log2_of(delay_ns);
	twheel_now(hub->ctx, &now_ns);
	if (delay_ns > INT64_MAX - now_ns)
		delay_ns = INT64_MAX - now_ns;

	/* The cell lives and the time is valid: only a context that was stopped refuses it. */
	ret = twheel_cell_arm(hub->ctx, c->cell, c->id, now_ns + delay_ns);
	if (ret < 0)
		give_back_cell(hub, node);
	forget_event(node);
	if (armed != twheel_node_armed(node))
		count(hub, armed ? -1 : 1);
	return ret < 0 ? ret : 0;
}

bool twheel_node_cancel(struct twheel_hub *hub, struct twheel_node *node)
{
	if (!twheel_node_armed(node))
		return false;
	forget_event(node);
	if (!hub->ctx) {
		node->cell = NULL;
		return false;
	}
	if (node->cell) {
		twheel_cell_cancel(node->cell->cell);
		give_back_cell(hub, node);
	}
	count(hub, -1);
	return true;
}

void twheel_hub_dispatch(struct twheel_hub *hub)
{
	int nr = twheel_read(hub->ctx, hub->events, TWHEEL_HUB_BATCH, TWHEEL_NO_WAIT);

	/* All of them before the first callback, which may arm and cancel any node. */
	for (int i = 0; i < nr; i++) {
		struct twheel_event *event = &hub->events[i];
		struct twheel_hub_cell *c = (struct twheel_hub_cell *)(uintptr_t)event->cookie;

		event->cookie = (uintptr_t)c->node;
		c->node->event = event;
		give_back_cell(hub, c->node);
	}
	for (int i = 0; i < nr; i++) {
		struct twheel_node *node = (struct twheel_node *)(uintptr_t)hub->events[i].cookie;

		if (!node)
			continue;
		node->event = NULL;
		count(hub, -1);
		node->fn(node);
	}
}
