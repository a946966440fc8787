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

TRACE_EVENT(twheel_arm,
	TP_PROTO(const struct twheel_shard *s, const struct twheel_timeout *t, u64 tick),
	TP_ARGS(s, t, tick),
	TP_STRUCT__entry(
		__string(wheel, s->wheel->name)
		__field(const void *, timeout)
		__field(u64, expires)
		__field(u64, tick)
	),
	TP_fast_assign(
		twheel_assign_str(wheel, s->wheel->name);
		__entry->timeout = t;
		__entry->expires = t->expires;
		__entry->tick = tick;
	),
	TP_printk("wheel=%s timeout=%p expires=%llu tick=%llu", __get_str(wheel),
		  __entry->timeout, __entry->expires, __entry->tick)
);

TRACE_EVENT(twheel_cancel,
	TP_PROTO(const struct twheel_shard *s, const struct twheel_timeout *t),
	TP_ARGS(s, t),
	TP_STRUCT__entry(
		__string(wheel, s->wheel->name)
		__field(const void *, timeout)
		__field(u64, expires)
	),
	TP_fast_assign(
		twheel_assign_str(wheel, s->wheel->name);
		__entry->timeout = t;
		__entry->expires = t->expires;
	),
	TP_printk("wheel=%s timeout=%p expires=%llu", __get_str(wheel), __entry->timeout,
		  __entry->expires)
);

TRACE_EVENT(twheel_expire,
	TP_PROTO(const struct twheel_shard *s, const struct twheel_timeout *t, u64 now_ns),
	TP_ARGS(s, t, now_ns),
	TP_STRUCT__entry(
		__string(wheel, s->wheel->name)
		__field(const void *, timeout)
		__field(u64, expires)
		__field(u64, now_ns)
		__field(u64, late)
	),
	TP_fast_assign(
		twheel_assign_str(wheel, s->wheel->name);
		__entry->timeout = t;
		__entry->expires = t->expires;
		__entry->now_ns = now_ns;
		__entry->late = now_ns > t->expires ? now_ns - t->expires : 0;
	),
	TP_printk("wheel=%s timeout=%p expires=%llu now=%llu late=%llu", __get_str(wheel),
		  __entry->timeout, __entry->expires, __entry->now_ns, __entry->late)
);

TRACE_EVENT(twheel_cascade,
	TP_PROTO(const struct twheel_shard *s, const struct twheel_timeout *t, u32 from),
	TP_ARGS(s, t, from),
	TP_STRUCT__entry(
		__string(wheel, s->wheel->name)
		__field(const void *, timeout)
		__field(u64, tick)
		__field(u32, from)
		__field(u32, to)
	),
	TP_fast_assign(
		twheel_assign_str(wheel, s->wheel->name);
		__entry->timeout = t;
		__entry->tick = t->tick;
		__entry->from = from;
		__entry->to = t->level;
	),
	TP_printk("wheel=%s timeout=%p tick=%llu level=%u->%u", __get_str(wheel),
		  __entry->timeout, __entry->tick, __entry->from, __entry->to)
);

#endif /* _TWHEEL_TRACE_H */

#undef TRACE_INCLUDE_PATH
#define TRACE_INCLUDE_PATH .
#undef TRACE_INCLUDE_FILE
#define TRACE_INCLUDE_FILE twheel_trace
#include <trace/define_trace.h>
