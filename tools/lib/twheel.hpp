/* SPDX-License-Identifier: LGPL-2.1-or-later */
/*
 * Timeouts for C++17: a layer of twheel_hub.h and libtwheel.h, in this header alone.
 *
 *	twheel::hub hub;
 *	twheel::timer idle(hub, [&] { connection.close(); });
 *
 *	idle.arm(30s);
 *	hub.run();
 *
 * Ownership: an object closes or cancels its resource when it is destroyed. All classes can
 * be moved and not copied. A timer has its callable as a member, and nothing is allocated for
 * it. A timer that is moved stays armed.
 *
 * Time: durations and time points of std::chrono. A duration is rounded up to nanoseconds. A
 * negative one is 0, and one that is too long is the longest that there is. The clock of time
 * points is std::chrono::steady_clock, which is CLOCK_MONOTONIC.
 *
 * Errors: std::system_error, with the category std::generic_category() and the errno of the
 * C function. Member functions that are noexcept cannot fail.
 *
 * Threads: a hub and its timers belong to one thread at a time. A context has no such limit.
 *
 * Forks: parent and child share the cells. Each timer that is destroyed in the child is
 * cancelled in the parent. A return from main() and exit() destroy timers, too. So a child of
 * fork() ends with _exit() or exec(), or calls hub::abandon() first.
 */
#ifndef TWHEEL_HPP
#define TWHEEL_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

#include <libtwheel.h>
#include <twheel_hub.h>

namespace twheel {

namespace detail {

/* Throws for an error that a C function has returned. */
inline int check(int ret, const char *function)
{
	if (ret < 0)
		throw std::system_error(-ret, std::generic_category(), function);
	return ret;
}

/* For twheel_node_arm() and twheel_arm(). A duration that is not a number is 0. */
template <class Rep, class Period>
constexpr std::uint64_t nanoseconds(const std::chrono::duration<Rep, Period> &delay)
{
	using ns = std::chrono::nanoseconds;
	using given = std::chrono::duration<Rep, Period>;

	if (!(delay > given::zero()))
		return 0;
	if constexpr (std::chrono::treat_as_floating_point_v<Rep>) {
		if (delay >= given(ns::max()))
			return INT64_MAX;
	} else if constexpr (std::nano::den % Period::den == 0) {
		using wide = std::chrono::duration<std::common_type_t<Rep, ns::rep>, Period>;

		if (wide(delay) > std::chrono::duration_cast<wide>(ns::max()))
			return INT64_MAX;
	} else if constexpr (!std::ratio_less_v<Period, std::nano>) {
		/* Such as 1/1024 s. A cast multiplies first, so the whole seconds are apart. */
		using exact = std::chrono::duration<long double>;

		if (exact(delay) >= exact(ns::max()))
			return INT64_MAX;
		const auto whole = std::chrono::duration_cast<std::chrono::seconds>(delay);

		return static_cast<std::uint64_t>(ns(whole).count()) +
		       static_cast<std::uint64_t>(std::chrono::ceil<ns>(delay - whole).count());
	}
	return static_cast<std::uint64_t>(std::chrono::ceil<ns>(delay).count());
}

/* For twheel_hub_dispatch() and twheel_read(), which wait for ever if it is negative. */
template <class Rep, class Period>
constexpr std::int64_t wait_ns(const std::chrono::duration<Rep, Period> &time)
{
	return static_cast<std::int64_t>(nanoseconds(time));
}

/* A call of dispatch(), for its callbacks: the binding of the hub points to it. */
struct call {
	std::exception_ptr thrown;
	bool quit = false;
};

/* A node that is cancelled when it goes, and stays armed when it moves. */
class link {
public:
	link(twheel_hub *hub, void (*fn)(twheel_node *)) noexcept
	{
		twheel_node_init(&node_, hub, fn);
	}

	link(link &&from) noexcept
	{
		twheel_node_relocate(&node_, &from.node_);
	}

	link &operator=(link &&from) noexcept
	{
		if (this != &from) {
			twheel_node_cancel(&node_);
			twheel_node_relocate(&node_, &from.node_);
		}
		return *this;
	}

	~link()
	{
		twheel_node_cancel(&node_);
	}

	twheel_node *node() noexcept
	{
		return &node_;
	}

	const twheel_node *node() const noexcept
	{
		return &node_;
	}

	/* A node is the first member of a link. */
	static link &of(twheel_node *node) noexcept
	{
		static_assert(std::is_standard_layout_v<link>);
		return *reinterpret_cast<link *>(node);
	}

private:
	twheel_node node_;
};

} /* namespace detail */

/**
 * A context: an open /dev/twheel, with timeouts that have a number, the cookie.
 *
 * For programs that read events themselves. hub and timer have callbacks instead.
 */
class context {
public:
	/** Opens @path, or /dev/twheel if it is null. @flags: as in twheel_open(). */
	explicit context(const char *path = nullptr, unsigned int flags = 0)
	{
		detail::check(twheel_open(path, flags, &ctx_), "twheel_open");
	}

	context(context &&from) noexcept : ctx_(std::exchange(from.ctx_, nullptr))
	{
	}

	context &operator=(context &&from) noexcept
	{
		std::swap(ctx_, from.ctx_);
		return *this;
	}

	~context()
	{
		twheel_close(ctx_);
	}

	/** For the functions of libtwheel.h. */
	twheel_ctx *get() const noexcept
	{
		return ctx_;
	}

	/** Gives up the context: the caller closes it. */
	twheel_ctx *release() noexcept
	{
		return std::exchange(ctx_, nullptr);
	}

	/** The descriptor, for poll() and epoll. */
	int fd() const noexcept
	{
		return twheel_fd(ctx_);
	}

	/** Arms a timeout. Returns its id. */
	template <class Rep, class Period>
	std::uint64_t arm(const std::chrono::duration<Rep, Period> &delay, std::uint64_t cookie = 0)
	{
		std::uint64_t id = 0;

		detail::check(twheel_arm(ctx_, detail::nanoseconds(delay), 0, cookie, &id),
			      "twheel_arm");
		return id;
	}

	/** Cancels a timeout. False: it does not exist, or its event was read. */
	bool cancel(std::uint64_t id)
	{
		int ret = twheel_cancel(ctx_, id);

		return ret != -ENOENT && detail::check(ret, "twheel_cancel") >= 0;
	}

	/**
	 * Reads up to N events into an array, and waits for the first one. Returns their number.
	 * nullopt: there was none in @time, or a signal handler ran. 0: no event can follow after
	 * twheel_stop().
	 */
	template <std::size_t N, class Rep, class Period>
	[[nodiscard]] std::optional<std::size_t>
	read(twheel_event (&events)[N], const std::chrono::duration<Rep, Period> &time)
	{
		int ret = twheel_read(ctx_, events, N, detail::wait_ns(time));

		if (ret == -ETIMEDOUT || ret == -EINTR)
			return std::nullopt;
		return static_cast<std::size_t>(detail::check(ret, "twheel_read"));
	}

private:
	twheel_ctx *ctx_ = nullptr;
};

/**
 * A hub: calls the timers that are due. See twheel_hub.h.
 *
 * A hub that was moved from can only be destroyed and assigned to. If the hub is destroyed
 * first, its timers are no longer armed, and may only be destroyed.
 */
class hub {
public:
	using clock = std::chrono::steady_clock;

	/** Opens /dev/twheel. @flags: 0 or TWHEEL_HUB_NO_CELLS. */
	explicit hub(unsigned int flags = 0)
	{
		detail::check(twheel_hub_open(nullptr, flags, &hub_), "twheel_hub_open");
	}

	/** Takes over a context without timeouts, whose clock is CLOCK_MONOTONIC. */
	explicit hub(context &&from, unsigned int flags = 0)
	{
		struct twheel_info info;

		detail::check(twheel_info(from.get(), &info), "twheel_info");
		if (info.clock != CLOCK_MONOTONIC)
			detail::check(-EINVAL, "twheel::hub");
		detail::check(twheel_hub_open(from.get(), flags, &hub_), "twheel_hub_open");
		from.release();
	}

	hub(hub &&from) noexcept : hub_(std::exchange(from.hub_, nullptr))
	{
	}

	hub &operator=(hub &&from) noexcept
	{
		std::swap(hub_, from.hub_);
		return *this;
	}

	~hub()
	{
		twheel_hub_close(hub_);
	}

	/**
	 * Closes the hub of a forked child. The timers stay armed in the parent, and are no longer
	 * armed in the child. Afterwards the hub and its timers may only be destroyed.
	 *
	 * Not allowed in a callback: a child that was forked there calls _exit() or exec().
	 */
	void abandon() noexcept
	{
		twheel_hub_close(std::exchange(hub_, nullptr));
	}

	/** For the functions of twheel_hub.h. */
	twheel_hub *get() const noexcept
	{
		return hub_;
	}

	/** The descriptor: it is readable when a timer is due. */
	int fd() const noexcept
	{
		return twheel_fd(twheel_hub_ctx(hub_));
	}

	/** Number of timers that are armed. */
	std::size_t armed() const noexcept
	{
		return twheel_hub_armed(hub_);
	}

	/** False: ordinary timeouts do the work of cells. */
	bool has_cells() const noexcept
	{
		return !(twheel_hub_flags(hub_) & TWHEEL_HUB_NO_CELLS);
	}

	/** Reads the clock: once for many calls of timer::arm_at(). */
	clock::time_point now() noexcept
	{
		return clock::time_point(std::chrono::nanoseconds(twheel_hub_now(hub_)));
	}

	/** Up to @nr timers can be armed at a time without an error. */
	void reserve(unsigned int nr)
	{
		detail::check(twheel_hub_reserve(hub_, nr), "twheel_hub_reserve");
	}

	/**
	 * Calls the timers that are due, without waiting. Returns the number of events that were
	 * read: 0 if there are no more.
	 *
	 * An exception in a callback leaves this function. The other timers that are due stay armed.
	 */
	std::size_t dispatch()
	{
		detail::call call;

		return dispatch_ns(TWHEEL_NO_WAIT, call);
	}

	/** Waits for the first timer up to @time. 0 also if a signal handler ran. */
	template <class Rep, class Period>
	std::size_t dispatch(const std::chrono::duration<Rep, Period> &time)
	{
		detail::call call;

		return dispatch_ns(detail::wait_ns(time), call);
	}

	/**
	 * Waits and calls until no timer is armed, or until quit() is called. A signal handler does
	 * not end it: a program that waits for signals calls dispatch() in a loop.
	 */
	void run()
	{
		detail::call call;

		while (twheel_hub_armed(hub_) && !call.quit)
			dispatch_ns(TWHEEL_FOREVER, call);
	}

	/**
	 * For callbacks: the innermost run() or dispatch() returns after this callback. The other
	 * timers that are due stay armed. Outside of a callback it has no effect. It must not be
	 * called in another thread or in a signal handler.
	 */
	void quit() noexcept
	{
		if (auto *call = static_cast<detail::call *>(twheel_hub_binding(hub_)))
			call->quit = true;
		twheel_hub_break(hub_);
	}

private:
	std::size_t dispatch_ns(std::int64_t time, detail::call &call)
	{
		twheel_hub *const inner = hub_;
		void *const outer = twheel_hub_binding(inner);

		twheel_hub_bind(inner, &call);
		const int ret = twheel_hub_dispatch(inner, time);

		twheel_hub_bind(inner, outer);
		if (call.thrown)
			std::rethrow_exception(call.thrown);
		if (ret == -EINTR)
			return 0;
		return static_cast<std::size_t>(detail::check(ret, "twheel_hub_dispatch"));
	}

	twheel_hub *hub_ = nullptr;
};

/**
 * A timer: calls F when it is due.
 *
 * F is called with the timer, if it takes a timer &, and without an argument otherwise. The
 * callback may arm, cancel, move and destroy any timer. After it has destroyed its own, it must
 * not use the data of F.
 *
 * A timer can be assigned to if F can be. Its size is that of four pointers and F.
 */
template <class F>
class timer : private detail::link {
public:
	/** A timer that is not armed. The hub itself may be moved later. */
	timer(const hub &of, F f) noexcept(std::is_nothrow_move_constructible_v<F>)
		: link(of.get(), fire), f_(std::move(f))
	{
	}

	/** Arms the timer, or moves it if it is armed. */
	template <class Rep, class Period>
	void arm(const std::chrono::duration<Rep, Period> &delay)
	{
		detail::check(twheel_node_arm(node(), detail::nanoseconds(delay)),
			      "twheel_node_arm");
	}

	/** As arm(), for a point in time. It does not read the clock. */
	template <class Duration>
	void arm_at(const std::chrono::time_point<hub::clock, Duration> &when)
	{
		detail::check(twheel_node_arm_at(node(),
						 detail::nanoseconds(when.time_since_epoch())),
			      "twheel_node_arm_at");
	}

	/** Returns true if it was armed: it is not called. */
	bool cancel() noexcept
	{
		return twheel_node_cancel(node());
	}

	/** Will it be called? */
	bool armed() const noexcept
	{
		return twheel_node_armed(node());
	}

private:
	static void fire(twheel_node *node) noexcept
	{
		static_assert(std::is_invocable_v<F &, timer &> || std::is_invocable_v<F &>,
			      "a timer calls f() or f(timer &)");
		auto &self = static_cast<timer &>(link::of(node));
		twheel_hub *const hub = node->hub;

		try {
			if constexpr (std::is_invocable_v<F &, timer &>)
				self.f_(self);
			else
				self.f_();
		} catch (...) {
			keep(hub);
		}
	}

	/* One exception at a time can leave dispatch(), as with destructors. */
	static void keep(twheel_hub *hub) noexcept
	{
		auto *call = static_cast<detail::call *>(twheel_hub_binding(hub));

		if (!call || call->thrown)
			std::terminate();
		call->thrown = std::current_exception();
		twheel_hub_break(hub);
	}

	F f_;
};

} /* namespace twheel */

#endif /* TWHEEL_HPP */
