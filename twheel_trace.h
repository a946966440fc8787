/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Tracepoints of the timing wheel, in the group twheel. The address identifies a
 * timeout. Ticks and levels refer to its wheel.
 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM twheel

#if !defined(_TWHEEL_TRACE_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TWHEEL_TRACE_H

#include <linux/tracepoint.h>

#include "twheel.h"

DECLARE_EVENT_CLASS(twheel_timeout,
	TP_PROTO(const char *wheel, const struct twheel_timeout *t),
	TP_ARGS(wheel, t),
	TP_STRUCT__entry(
		__string(wheel, wheel)
		__field(const void *, timeout)
		__field(u64, expires)
		__field(u64, tick)
	),
	TP_fast_assign(
		twheel_assign_str(wheel, wheel);
		__entry->timeout = t;
		__entry->expires = t->expires;
		__entry->tick = t->tick;
	),
	TP_printk("wheel=%s timeout=%p expires=%llu tick=%llu", __get_str(wheel),
		  __entry->timeout, __entry->expires, __entry->tick)
);

DEFINE_EVENT(twheel_timeout, twheel_arm,
	TP_PROTO(const char *wheel, const struct twheel_timeout *t),
	TP_ARGS(wheel, t)
);

DEFINE_EVENT(twheel_timeout, twheel_cancel,
	TP_PROTO(const char *wheel, const struct twheel_timeout *t),
	TP_ARGS(wheel, t)
);

TRACE_EVENT(twheel_expire,
	TP_PROTO(const char *wheel, const struct twheel_timeout *t, u64 now_ns),
	TP_ARGS(wheel, t, now_ns),
	TP_STRUCT__entry(
		__string(wheel, wheel)
		__field(const void *, timeout)
		__field(u64, expires)
		__field(u64, now_ns)
	),
	TP_fast_assign(
		twheel_assign_str(wheel, wheel);
		__entry->timeout = t;
		__entry->expires = t->expires;
		__entry->now_ns = now_ns;
	),
	TP_printk("wheel=%s timeout=%p expires=%llu now=%llu late=%lld", __get_str(wheel),
		  __entry->timeout, __entry->expires, __entry->now_ns,
		  (s64)(__entry->now_ns - __entry->expires))
);

TRACE_EVENT(twheel_cascade,
	TP_PROTO(const char *wheel, const struct twheel_timeout *t, u32 from),
	TP_ARGS(wheel, t, from),
	TP_STRUCT__entry(
		__string(wheel, wheel)
		__field(const void *, timeout)
		__field(u64, tick)
		__field(u32, from)
		__field(u32, to)
	),
	TP_fast_assign(
		twheel_assign_str(wheel, wheel);
		__entry->timeout = t;
		__entry->tick = t->tick;
		__entry->from = from;
		__entry->to = t->level;
	),
	TP_printk("wheel=%s timeout=%p tick=%llu level=%u->%u", __get_str(wheel),
		  __entry->timeout, __entry->tick, __entry->from, __entry->to)
);

TRACE_EVENT(twheel_wakeup,
	TP_PROTO(const char *wheel, unsigned int shard, pid_t pid),
	TP_ARGS(wheel, shard, pid),
	TP_STRUCT__entry(
		__string(wheel, wheel)
		__field(unsigned int, shard)
		__field(pid_t, pid)
	),
	TP_fast_assign(
		twheel_assign_str(wheel, wheel);
		__entry->shard = shard;
		__entry->pid = pid;
	),
	TP_printk("wheel=%s shard=%u pid=%d", __get_str(wheel), __entry->shard,
		  __entry->pid)
);

#endif /* _TWHEEL_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE twheel_trace
#include <trace/define_trace.h>
