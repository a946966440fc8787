/* SPDX-License-Identifier: MIT OR LGPL-2.1-or-later */
/*
 * Timeouts for C++17: a layer of twheel_hub.h and libtwheel.h, in this header alone.
 *
 *	twheel::hub hub;
 *	twheel::timer idle(hub, [&] { connection.close(); });
 *
 *	idle.arm(30s);
 *	hub.run();
 *
 * In a coroutine of C++20:
 *
 *	co_await hub.sleep_for(5ms);
 *
 * Ownership: an object closes or cancels its resource when it is destroyed. All classes but
 * kicks can be moved, and none can be copied. A timer has its callable as a member, and nothing
 * is allocated for it. A timer that is moved stays armed.
 *
 * Time: a deadline is a duration from now, or a time point of the clock. A duration is rounded
 * up to nanoseconds. A negative one is 0, and one that is too long is the longest that there is.
 * The class templates have the clock as a parameter: std::chrono::steady_clock is
 * CLOCK_MONOTONIC, boottime_clock is CLOCK_BOOTTIME, and std::chrono::system_clock is
 * CLOCK_REALTIME. The last one can be set, so it takes time points only.
 *
 * Errors: a function that can fail has two forms, as in std::filesystem. One takes a
 * std::error_code as the last argument, and clears it on success. The other one throws
 * std::system_error. Both have the category std::generic_category() and the errno of the C
 * function. what() names that function, or the device and what to do to open it. After an error of
 * a constructor, its object has no resource. A function that is noexcept and has no such argument
 * cannot fail. With -fno-exceptions the form that throws is missing; use that option for all
 * files of a program that include this header, or for none.
 *
 * Threads: a hub and its timers belong to one thread at a time. Contexts and cells have no such
 * limit.
 *
 * Forks: parent and child share the cells. Each timer that is destroyed in the child is
 * cancelled in the parent, and each cell ends there. A return from main() and exit() destroy
 * them, too. So a child of fork() ends with _exit() or exec(), or calls hub::abandon() first.
 */
#ifndef TWHEEL_HPP
#define TWHEEL_HPP

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <optional>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#ifdef __cpp_impl_coroutine
#include <coroutine>
#endif

#include <errno.h>
#include <time.h>

#include <libtwheel.h>
#include <twheel_hub.h>

namespace twheel {

/** CLOCK_BOOTTIME: it goes on while the machine is suspended. */
struct boottime_clock {
	using duration = std::chrono::nanoseconds;
	using rep = duration::rep;
	using period = duration::period;
	using time_point = std::chrono::time_point<boottime_clock>;
	static constexpr bool is_steady = true;

	static time_point now() noexcept
	{
		struct timespec ts;

		clock_gettime(CLOCK_BOOTTIME, &ts);
		return time_point(std::chrono::seconds(ts.tv_sec) + duration(ts.tv_nsec));
	}
};

namespace detail {

template <class Clock> inline constexpr int clock_id = -1;
template <> inline constexpr int clock_id<std::chrono::steady_clock> = CLOCK_MONOTONIC;
template <> inline constexpr int clock_id<boottime_clock> = CLOCK_BOOTTIME;
template <> inline constexpr int clock_id<std::chrono::system_clock> = CLOCK_REALTIME;

/* Returns what a C function has returned, but 0 for an error. */
inline int checked(int ret, std::error_code &ec) noexcept
{
	if (ret >= 0) {
		ec.clear();
		return ret;
	}
	ec.assign(-ret, std::generic_category());
	return 0;
}

#ifdef __cpp_exceptions
/* Calls @f with an error code, and throws for it. */
template <class F> auto throwing(const char *what, F f)
{
	std::error_code ec;

	if constexpr (std::is_void_v<decltype(f(ec))>) {
		f(ec);
		if (ec)
			throw std::system_error(ec, what);
	} else {
		auto value = f(ec);

		if (ec)
			throw std::system_error(ec, what);
		return value;
	}
}

/* The device, and what to do about an error of its open. */
inline std::string advice(const char *path, int error)
{
	const bool missing = error == ENOENT || error == ENODEV || error == ENXIO;
	const char *const given = std::getenv("TWHEEL_BACKEND");
	const std::string backend = given ? given : "";

	if (error == EINVAL && !path && !backend.empty() && backend != "kernel" && backend != "process")
		return "TWHEEL_BACKEND is neither 'kernel' nor 'process'";
	return std::string(path ? path : TWHEEL_DEVICE) +
	       (missing ? " ('modprobe twheel_dev' loads the module)" :
		error == EACCES ? " (root and the group twheel have access)" : "");
}
#endif

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

/* A maximum wait, for functions of C that wait for ever if it is negative. */
struct wait {
	template <class Rep, class Period>
	constexpr wait(const std::chrono::duration<Rep, Period> &time) noexcept
		: ns(static_cast<std::int64_t>(nanoseconds(time))) {}

	std::chrono::nanoseconds get() const noexcept { return std::chrono::nanoseconds(ns); }

	std::int64_t ns;
};

/* A call of dispatch(), for its callbacks: the binding of the hub points to it. */
struct call {
	std::exception_ptr thrown;
	bool quit = false;
};

/* Calls back. The node may be gone afterwards. */
template <class F> void invoke(twheel_hub *hub, F f) noexcept
{
#ifdef __cpp_exceptions
	try {
		f();
	} catch (...) {
		auto *const of = static_cast<call *>(twheel_hub_binding(hub));

		if (!of)
			std::terminate();
		if (!of->thrown)
			of->thrown = std::current_exception();
	}
#else
	(void)hub;
	f();
#endif
}

/* A node that is cancelled when it goes, and stays armed when it moves. */
class link {
public:
	link(twheel_hub *hub, void (*fn)(twheel_node *)) noexcept
	{
		twheel_node_init(&node_, hub, fn);
	}

	link(link &&from) noexcept { twheel_node_relocate(&node_, &from.node_); }

	link &operator=(link &&from) noexcept
	{
		if (this != &from) {
			twheel_node_cancel(&node_);
			twheel_node_relocate(&node_, &from.node_);
		}
		return *this;
	}

	~link() { twheel_node_cancel(&node_); }

	void arm(std::uint64_t ns, unsigned int flags, std::error_code &ec) noexcept
	{
		checked(flags ? twheel_node_arm_at(&node_, ns) : twheel_node_arm(&node_, ns), ec);
	}

	/* A node is the first member of a link. */
	static link &of(twheel_node *node) noexcept
	{
		static_assert(std::is_standard_layout_v<link>);
		return *reinterpret_cast<link *>(node);
	}

protected:
	twheel_node node_;
};

} /* namespace detail */

/**
 * When a timeout is due: a duration from now, or a time point of Clock. The functions that arm
 * take it, and both convert to it. A time point that is past is due at once.
 */
template <class Clock> struct deadline {
	template <class Rep, class Period>
	constexpr deadline(const std::chrono::duration<Rep, Period> &delay) noexcept
		: ns(detail::nanoseconds(delay)), flags(0)
	{
		static_assert(Clock::is_steady, "a clock that can be set takes time points only");
	}

	template <class Duration>
	constexpr deadline(const std::chrono::time_point<Clock, Duration> &when) noexcept
		: ns(detail::nanoseconds(when.time_since_epoch())), flags(TWHEEL_F_ABS) {}

	/* For cells, which take absolute times alone. */
	std::uint64_t on_clock_of(twheel_ctx *ctx) const noexcept
	{
		std::uint64_t now = 0;

		if (!flags)
			twheel_now(ctx, &now);
		return ns < INT64_MAX - now ? now + ns : INT64_MAX;
	}

	std::uint64_t ns;	/* for functions of libtwheel.h */
	unsigned int flags;	/* the same: TWHEEL_F_ABS for a time point, or else 0 */
};

/** The state that an arm or a cancel has found a cell in. */
enum class outcome {
	pending = 0,			/* it was armed */
	withdrawn = TWHEEL_WITHDRAWN,	/* its event was unread, and will not be read */
	idle = TWHEEL_IDLE,		/* it was not armed */
};

/** The common part of contexts and hubs. */
template <class Clock> class device {
	static_assert(detail::clock_id<Clock> >= 0, "twheel has no such clock");

public:
	using clock = Clock;
	using time_point = std::chrono::time_point<Clock, std::chrono::nanoseconds>;

	/** For the functions of libtwheel.h. Null after an error in the constructor, or a move. */
	twheel_ctx *ctx() const noexcept { return ctx_; }

	/** The descriptor: readable when an event is unread, or a timer is due. */
	int fd() const noexcept { return twheel_fd(ctx_); }

	/** Reads the clock: once for many calls that arm. */
	time_point now() const noexcept
	{
		std::uint64_t ns = 0;

		twheel_now(ctx_, &ns);
		return time_point(std::chrono::nanoseconds(ns));
	}

	/** Settings and fill level. */
	struct twheel_info info(std::error_code &ec) const noexcept
	{
		struct twheel_info info = {};

		detail::checked(twheel_get_info(ctx_, &info), ec);
		return info;
	}

	/** Counts of operations and events, and the lateness of events. */
	struct twheel_stats stats(std::error_code &ec) const noexcept
	{
		struct twheel_stats stats = {};

		detail::checked(twheel_get_stats(ctx_, &stats), ec);
		return stats;
	}

#ifdef __cpp_exceptions
	struct twheel_info info() const
	{
		return detail::throwing("twheel_get_info", [&](auto &ec) { return info(ec); });
	}

	struct twheel_stats stats() const
	{
		return detail::throwing("twheel_get_stats", [&](auto &ec) { return stats(ec); });
	}
#endif

protected:
	explicit device(twheel_ctx *ctx) noexcept : ctx_(ctx) {}

	~device() = default;

	twheel_ctx *ctx_;
};

/**
 * A context: timeouts that have a number, the cookie. It is an open /dev/twheel, or a wheel in
 * the process.
 *
 * For programs that read events themselves. hub and timer have callbacks instead.
 */
template <class Clock> class basic_context : public device<Clock> {
	using device<Clock>::ctx_;

public:
	/**
	 * Opens @path, or /dev/twheel if it is null. @flags: as in twheel_open(). @setup: as in
	 * twheel_configure(), but the clock is Clock.
	 */
	basic_context(const char *path, unsigned int flags, struct twheel_setup setup,
		      std::error_code &ec) noexcept : device<Clock>(nullptr)
	{
		setup.flags |= TWHEEL_SETUP_CLOCK;
		setup.clock = detail::clock_id<Clock>;
		detail::checked(twheel_open(path, flags, &ctx_), ec);
		if (!ec)
			detail::checked(twheel_configure(ctx_, &setup), ec);
		if (ec)
			twheel_close(release());
	}

	explicit basic_context(std::error_code &ec) noexcept : basic_context(nullptr, 0, {}, ec) {}

#ifdef __cpp_exceptions
	explicit basic_context(const char *path = nullptr, unsigned int flags = 0,
			       const struct twheel_setup &setup = {})
		: device<Clock>(nullptr)
	{
		std::error_code ec;
		basic_context made(path, flags, setup, ec);

		if (ec)
			throw std::system_error(ec, detail::advice(path, ec.value()));
		ctx_ = made.release();
	}

	explicit basic_context(const struct twheel_setup &setup)
		: basic_context(nullptr, 0, setup) {}
#endif

	basic_context(basic_context &&from) noexcept : device<Clock>(from.release()) {}

	basic_context &operator=(basic_context &&from) noexcept
	{
		std::swap(ctx_, from.ctx_);
		return *this;
	}

	~basic_context() { twheel_close(ctx_); }

	/** Gives up the context: the caller closes it. */
	twheel_ctx *release() noexcept { return std::exchange(ctx_, nullptr); }

	/** Arms a timeout. Returns its id. */
	std::uint64_t arm(deadline<Clock> when, std::uint64_t cookie, std::error_code &ec) noexcept
	{
		std::uint64_t id = 0;

		detail::checked(twheel_arm(ctx_, when.ns, when.flags, cookie, &id), ec);
		return id;
	}

	/** Cancels a timeout. False: it does not exist, or its event was read. */
	bool cancel(std::uint64_t id, std::error_code &ec) noexcept
	{
		const int ret = twheel_cancel(ctx_, id);

		detail::checked(ret == -ENOENT ? 0 : ret, ec);
		return ret >= 0;
	}

	/**
	 * Reads events into an array or a container, and waits for the first one. Returns their
	 * number. nullopt: there was none in @time, or a signal handler ran. 0: no event can
	 * follow after twheel_stop().
	 */
	template <class Events>
	[[nodiscard]] std::optional<std::size_t>
	read(Events &&events, detail::wait time, std::error_code &ec) noexcept
	{
		const auto room = static_cast<unsigned int>(std::size(events));
		const int ret = twheel_read(ctx_, std::data(events), room, time.ns);
		const bool none = ret == -ETIMEDOUT || ret == -EAGAIN || ret == -EINTR;
		const int nr = detail::checked(none ? 0 : ret, ec);

		return ret < 0 ? std::nullopt : std::optional(static_cast<std::size_t>(nr));
	}

	/** An operation for submit(). Others: twheel_prep_*() of libtwheel.h. */
	static twheel_op prep_arm(deadline<Clock> when, std::uint64_t cookie = 0) noexcept
	{
		twheel_op op;

		twheel_prep_arm(&op, when.ns, when.flags, cookie);
		return op;
	}

	/**
	 * Carries out the operations of an array or a container with one system call. Returns how
	 * many were tried. Each of these has its result. One that fails is not an error here.
	 */
	template <class Ops> std::size_t submit(Ops &&ops, std::error_code &ec) noexcept
	{
		const auto nr = static_cast<unsigned int>(std::size(ops));
		const int ret = twheel_submit_ops(ctx_, std::data(ops), nr);

		return static_cast<std::size_t>(detail::checked(ret, ec));
	}

#ifdef __cpp_exceptions
	std::uint64_t arm(deadline<Clock> when, std::uint64_t cookie = 0)
	{
		return detail::throwing("twheel_arm",
					[&](auto &ec) { return arm(when, cookie, ec); });
	}

	bool cancel(std::uint64_t id)
	{
		return detail::throwing("twheel_cancel", [&](auto &ec) { return cancel(id, ec); });
	}

	template <class Events>
	[[nodiscard]] std::optional<std::size_t> read(Events &&events, detail::wait time)
	{
		return detail::throwing("twheel_read",
					[&](auto &ec) { return read(events, time, ec); });
	}

	template <class Ops> std::size_t submit(Ops &&ops)
	{
		return detail::throwing("twheel_submit_ops",
					[&](auto &ec) { return submit(ops, ec); });
	}
#endif
};

#ifdef TWHEEL_HAS_CELLS

/**
 * A cell: a timeout that is armed, moved and cancelled by one atomic exchange, any number of
 * times. Its events are read from the context. It ends when it is destroyed, before its context.
 */
template <class Clock> class basic_cell {
public:
	basic_cell(const basic_context<Clock> &of, std::uint64_t cookie,
		   std::error_code &ec) noexcept : ctx_(of.ctx())
	{
		detail::checked(twheel_cell_create(ctx_, cookie, &id_, &cell_), ec);
	}

#ifdef __cpp_exceptions
	explicit basic_cell(const basic_context<Clock> &of, std::uint64_t cookie = 0)
		: basic_cell(detail::throwing("twheel_cell_create", [&](auto &ec) {
			  return basic_cell(of, cookie, ec);
		  })) {}
#endif

	basic_cell(basic_cell &&from) noexcept
		: ctx_(from.ctx_), cell_(std::exchange(from.cell_, nullptr)), id_(from.id_) {}

	basic_cell &operator=(basic_cell &&from) noexcept
	{
		basic_cell other(std::move(from));

		std::swap(ctx_, other.ctx_);
		std::swap(cell_, other.cell_);
		std::swap(id_, other.id_);
		return *this;
	}

	~basic_cell()
	{
		if (cell_)
			twheel_cancel(ctx_, id_);
	}

	/** For the functions of libtwheel.h. Null after an error in the constructor, or a move. */
	struct twheel_cell *get() const noexcept { return cell_; }

	/** The id of its events. */
	std::uint64_t id() const noexcept { return id_; }

	/** Arms the cell, or moves it. After an error it is idle. */
	outcome arm(deadline<Clock> when, std::error_code &ec) noexcept
	{
		const std::uint64_t ns = when.on_clock_of(ctx_);
		const int ret = detail::checked(twheel_cell_arm(ctx_, cell_, id_, ns), ec);

		return ec ? outcome::idle : static_cast<outcome>(ret);
	}

#ifdef __cpp_exceptions
	outcome arm(deadline<Clock> when)
	{
		return detail::throwing("twheel_cell_arm", [&](auto &ec) { return arm(when, ec); });
	}
#endif

	/** After success no event of the arming is read. idle: it may have been read before. */
	outcome cancel() noexcept { return static_cast<outcome>(twheel_cell_cancel(cell_)); }

private:
	twheel_ctx *ctx_;
	struct twheel_cell *cell_ = nullptr;
	std::uint64_t id_ = 0;
};

/**
 * A batch of armings of cells of one context: one system call for all that need one. They count
 * from kick(), which the destructor calls, too. It belongs to one thread.
 */
template <class Clock> class basic_kicks {
public:
	explicit basic_kicks(const basic_context<Clock> &of) noexcept { kicks_.ctx = of.ctx(); }

	basic_kicks(const basic_kicks &) = delete;
	basic_kicks &operator=(const basic_kicks &) = delete;

	~basic_kicks() { twheel_kick_all(&kicks_); }

	/** As cell::arm(). std::errc::resource_unavailable_try_again, if full, changes nothing. */
	outcome arm(basic_cell<Clock> &cell, deadline<Clock> when, std::error_code &ec) noexcept
	{
		const std::uint64_t ns = when.on_clock_of(kicks_.ctx);
		const int ret = twheel_cell_arm_later(&kicks_, cell.get(), cell.id(), ns);

		return static_cast<outcome>(detail::checked(ret, ec));
	}

	/** Fails with the error of the first arming that has failed. The others are armed. */
	void kick(std::error_code &ec) noexcept { detail::checked(twheel_kick_all(&kicks_), ec); }

#ifdef __cpp_exceptions
	outcome arm(basic_cell<Clock> &cell, deadline<Clock> when)
	{
		return detail::throwing("twheel_cell_arm_later",
					[&](auto &ec) { return arm(cell, when, ec); });
	}

	void kick() { detail::throwing("twheel_kick_all", [&](auto &ec) { kick(ec); }); }
#endif

private:
	struct twheel_kicks kicks_ = {};
};

#endif /* TWHEEL_HAS_CELLS */

#ifdef __cpp_impl_coroutine

/** What co_await takes. It is a part of the coroutine, and cancels the timeout when it goes. */
class [[nodiscard]] sleep_awaiter : private detail::link {
public:
	template <class Clock>
	sleep_awaiter(twheel_hub *hub, const deadline<Clock> &when, std::error_code *ec) noexcept
		: link(hub, fire), ns_(when.ns), flags_(when.flags), ec_(ec) {}

	bool await_ready() const noexcept { return false; }

	bool await_suspend(std::coroutine_handle<> coroutine)
	{
		std::error_code ec;

		coroutine_ = coroutine;
		arm(ns_, flags_, ec);
		if (ec_)
			*ec_ = ec;
#ifdef __cpp_exceptions
		else if (ec)
			throw std::system_error(ec, "twheel_node_arm");
#endif
		return !ec;
	}

	void await_resume() const noexcept {}

private:
	static void fire(twheel_node *node) noexcept
	{
		detail::invoke(node->hub, static_cast<sleep_awaiter &>(of(node)).coroutine_);
	}

	std::coroutine_handle<> coroutine_;
	std::uint64_t ns_;
	unsigned int flags_;
	std::error_code *ec_;
};

#endif /* __cpp_impl_coroutine */

/**
 * A hub: calls the timers that are due. See twheel_hub.h.
 *
 * A hub that was moved from can only be destroyed and assigned to. If the hub is destroyed
 * first, its timers are no longer armed, and may only be destroyed. Coroutines that sleep then
 * are not resumed, nor are they after twheel_stop().
 */
template <class Clock> class basic_hub : public device<Clock> {
	using device<Clock>::ctx_;

public:
	using typename device<Clock>::time_point;

	/** Takes over a context without timeouts. @flags: 0 or TWHEEL_HUB_NO_CELLS. */
	basic_hub(basic_context<Clock> &&from, unsigned int flags, std::error_code &ec) noexcept
		: device<Clock>(nullptr)
	{
		if (!from.ctx())
			return;		/* @ec says why */
		detail::checked(twheel_hub_open(from.ctx(), flags, &hub_), ec);
		if (!ec)
			ctx_ = from.release();
	}

	/** Opens /dev/twheel, or makes a wheel in the process. */
	explicit basic_hub(std::error_code &ec) noexcept
		: basic_hub(basic_context<Clock>(nullptr, TWHEEL_NONBLOCK, {}, ec), 0, ec) {}

#ifdef __cpp_exceptions
	explicit basic_hub(basic_context<Clock> &&from, unsigned int flags = 0)
		: basic_hub(detail::throwing("twheel_hub_open", [&](auto &ec) {
			  return basic_hub(std::move(from), flags, ec);
		  })) {}

	explicit basic_hub(unsigned int flags = 0)
		: basic_hub(basic_context<Clock>(nullptr, TWHEEL_NONBLOCK), flags) {}
#endif

	basic_hub(basic_hub &&from) noexcept
		: device<Clock>(std::exchange(from.ctx_, nullptr)),
		  hub_(std::exchange(from.hub_, nullptr)) {}

	basic_hub &operator=(basic_hub &&from) noexcept
	{
		std::swap(ctx_, from.ctx_);
		std::swap(hub_, from.hub_);
		return *this;
	}

	~basic_hub() { twheel_hub_close(hub_); }

	/**
	 * Closes the hub of a forked child. The timers stay armed in the parent, and are no longer
	 * armed in the child. Afterwards the hub and its timers may only be destroyed.
	 *
	 * Not allowed in a callback: a child that was forked there calls _exit() or exec().
	 */
	void abandon() noexcept
	{
		ctx_ = nullptr;
		twheel_hub_close(std::exchange(hub_, nullptr));
	}

	/** For the functions of twheel_hub.h. */
	twheel_hub *get() const noexcept { return hub_; }

	/** Number of timers that are armed, and of coroutines that sleep. */
	std::size_t armed() const noexcept { return twheel_hub_armed(hub_); }

	/** False: ordinary timeouts do the work of cells. */
	bool has_cells() const noexcept { return !(twheel_hub_flags(hub_) & TWHEEL_HUB_NO_CELLS); }

	/** Reads the clock: once for many calls of timer::arm(). */
	time_point now() noexcept
	{
		return time_point(std::chrono::nanoseconds(twheel_hub_now(hub_)));
	}

	/** Up to @nr timers can be armed at a time without an error. */
	void reserve(unsigned int nr, std::error_code &ec) noexcept
	{
		detail::checked(twheel_hub_reserve(hub_, nr), ec);
	}

	/**
	 * Waits for the first timer up to @time, and calls the timers that are due. Returns the
	 * number of events that were read: 0 if there are no more, or if a signal handler ran.
	 *
	 * If callbacks throw, the others that are due are called nevertheless. Then the first
	 * exception leaves this function. Those of the same dispatch that follow are dropped. An
	 * exception in a call of twheel_hub_dispatch(), as of an adapter in C, ends the program.
	 */
	std::size_t dispatch(detail::wait time, std::error_code &ec)
	{
		detail::call call;

		return dispatch(time.ns, call, ec);
	}

	/**
	 * Waits and calls until no timer is armed, or until quit() is called. A signal handler does
	 * not end it: a program that waits for signals calls dispatch() in a loop. An exception
	 * leaves it as dispatch().
	 */
	void run(std::error_code &ec)
	{
		detail::call call;

		ec.clear();
		while (armed() && !call.quit && !ec)
			dispatch(TWHEEL_FOREVER, call, ec);
	}

#ifdef __cpp_exceptions
	void reserve(unsigned int nr)
	{
		detail::throwing("twheel_hub_reserve", [&](auto &ec) { reserve(nr, ec); });
	}

	std::size_t dispatch(detail::wait time = std::chrono::seconds(0))
	{
		return detail::throwing("twheel_hub_dispatch",
					[&](auto &ec) { return dispatch(time, ec); });
	}

	void run() { detail::throwing("twheel_hub_dispatch", [&](auto &ec) { run(ec); }); }
#endif

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

#ifdef __cpp_impl_coroutine
	/** For co_await. The coroutine is resumed in dispatch(), as a timer is called. */
	sleep_awaiter sleep_for(detail::wait time, std::error_code &ec) noexcept
	{
		return sleep_awaiter(hub_, deadline<Clock>(time.get()), &ec);
	}

	sleep_awaiter sleep_until(time_point when, std::error_code &ec) noexcept
	{
		return sleep_awaiter(hub_, deadline<Clock>(when), &ec);
	}

#ifdef __cpp_exceptions
	sleep_awaiter sleep_for(detail::wait time) noexcept
	{
		return sleep_awaiter(hub_, deadline<Clock>(time.get()), nullptr);
	}

	sleep_awaiter sleep_until(time_point when) noexcept
	{
		return sleep_awaiter(hub_, deadline<Clock>(when), nullptr);
	}
#endif
#endif /* __cpp_impl_coroutine */

private:
	std::size_t dispatch(std::int64_t time, detail::call &call, std::error_code &ec)
	{
		twheel_hub *const inner = hub_;
		void *const outer = twheel_hub_binding(inner);

		twheel_hub_bind(inner, &call);
		const int ret = twheel_hub_dispatch(inner, time);

		twheel_hub_bind(inner, outer);
#ifdef __cpp_exceptions
		if (call.thrown)
			std::rethrow_exception(call.thrown);
#endif
		return static_cast<std::size_t>(detail::checked(ret == -EINTR ? 0 : ret, ec));
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
template <class F, class Clock = std::chrono::steady_clock> class timer : private detail::link {
public:
	/** A timer that is not armed. The hub itself may be moved later. */
	timer(const basic_hub<Clock> &of, F f) noexcept(std::is_nothrow_move_constructible_v<F>)
		: link(of.get(), fire), f_(std::move(f)) {}

	/** Arms the timer, or moves it if it is armed. A time point does not read the clock. */
	void arm(deadline<Clock> when, std::error_code &ec) noexcept
	{
		link::arm(when.ns, when.flags, ec);
	}

#ifdef __cpp_exceptions
	void arm(deadline<Clock> when)
	{
		detail::throwing("twheel_node_arm", [&](auto &ec) { arm(when, ec); });
	}
#endif

	/** Returns true if it was armed: it is not called. */
	bool cancel() noexcept { return twheel_node_cancel(&node_); }

	/** Will it be called? */
	bool armed() const noexcept { return twheel_node_armed(&node_); }

private:
	static void fire(twheel_node *node) noexcept
	{
		static_assert(std::is_invocable_v<F &, timer &> || std::is_invocable_v<F &>,
			      "a timer calls f() or f(timer &)");
		auto &self = static_cast<timer &>(link::of(node));

		detail::invoke(node->hub, [&self] {
			if constexpr (std::is_invocable_v<F &, timer &>)
				self.f_(self);
			else
				self.f_();
		});
	}

	F f_;
};

using context = basic_context<std::chrono::steady_clock>;
using hub = basic_hub<std::chrono::steady_clock>;
#ifdef TWHEEL_HAS_CELLS
using cell = basic_cell<std::chrono::steady_clock>;
using kicks = basic_kicks<std::chrono::steady_clock>;
#endif

} /* namespace twheel */

#endif /* TWHEEL_HPP */
