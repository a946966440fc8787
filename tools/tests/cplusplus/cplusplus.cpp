// SPDX-License-Identifier: GPL-2.0
/*
 * twheel.hpp: its additions to the hub, whose functions have tests of their own. C++20 also has
 * coroutines.
 */
#include <array>
#include <memory>
#include <optional>
#include <stdexcept>
#include <vector>

#include <twheel.hpp>

#include "ktap.h"

using namespace std::chrono_literals;

namespace {

unsigned int calls;

/* All that are due are in one batch. */
void wait_due(const twheel::hub &hub, unsigned int nr)
{
	while (hub.info().ready < nr)
		;
}

template <class Function>
bool fails_with(std::errc error, Function function, const std::string &text = "")
{
	try {
		function();
	} catch (const std::system_error &thrown) {
		return thrown.code() == error && std::string(thrown.what()).rfind(text, 0) == 0;
	}
	return false;
}

TEST(timer_calls_a_lambda_and_not_early)
{
	const auto begun = twheel::hub::clock::now();
	twheel::hub hub;
	unsigned int own = 0;
	twheel::timer one(hub, [&own] { own++; });

	CHECK(!one.armed());
	one.arm(30ms);
	CHECK(one.armed());
	CHECK_EQ(hub.armed(), 1);
	hub.run();
	CHECK_EQ(own, 1);
	CHECK(!one.armed());
	CHECK(twheel::hub::clock::now() >= begun + 30ms);
}

TEST(callback_that_takes_a_timer_arms_it_again)
{
	twheel::hub hub;
	twheel::timer beat(hub, [n = 0](auto &self) mutable {
		calls++;
		if (++n < 5)
			self.arm(1ms);
	});

	beat.arm(1ms);
	hub.run();
	CHECK_EQ(calls, 5);
}

TEST(timer_that_is_cancelled_or_destroyed_is_not_called)
{
	twheel::hub hub;
	twheel::timer one(hub, [] { calls++; });

	{
		twheel::timer other(hub, [] { calls++; });

		one.arm(0s);
		other.arm(0s);
		wait_due(hub, 2);
	}
	CHECK(one.cancel());
	CHECK(!one.cancel());
	CHECK_EQ(hub.armed(), 0);
	CHECK_EQ(hub.dispatch(30ms), 0);
	CHECK_EQ(calls, 0);
}

TEST(timer_may_destroy_itself)
{
	using timer = twheel::timer<void (*)()>;
	static std::unique_ptr<timer> one;
	twheel::hub hub;

	one = std::make_unique<timer>(hub, [] {
		calls++;
		one.reset();
	});
	one->arm(0s);
	hub.run();
	CHECK(!one);
	CHECK_EQ(calls, 1);
}

TEST(timer_stays_armed_when_it_moves)
{
	twheel::hub hub;
	const auto count = [] { calls++; };
	std::vector<twheel::timer<decltype(count)>> timers;

	for (unsigned int i = 0; i < 1000; i++) {
		timers.emplace_back(hub, count);
		timers.back().arm(20ms);
	}
	CHECK_EQ(hub.armed(), 1000);
	while (hub.armed())
		hub.dispatch(1s);
	CHECK_EQ(calls, 1000);
}

TEST(assignment_cancels_and_takes_over)
{
	using function = void (*)();
	twheel::hub hub;
	twheel::timer<function> one(hub, [] { calls += 1; }), other(hub, [] { calls += 10; });

	one.arm(1h);
	other.arm(1ms);
	one = std::move(other);
	CHECK_EQ(hub.armed(), 1);
	CHECK(one.armed());
	hub.run();
	CHECK_EQ(calls, 10);
}

TEST(hub_can_be_moved_with_armed_timers)
{
	twheel::hub hub;
	twheel::timer one(hub, [] { calls++; });
	twheel::hub other(std::move(hub)), third;

	one.arm(1ms);
	third = std::move(other);
	third.run();
	CHECK_EQ(calls, 1);
}

TEST(timer_may_outlive_its_hub)
{
	auto hub = std::make_unique<twheel::hub>();
	twheel::timer one(*hub, [] { calls++; });

	one.arm(1h);
	hub.reset();
	CHECK(!one.armed());
	CHECK(!one.cancel());
}

/* The destructors of static objects run in the child, timers first. */
TEST(abandoned_hub_of_a_child_leaves_the_timers_of_its_parent)
{
	static twheel::hub hub;
	static twheel::timer one(hub, [] { calls++; });
	int status;

	one.arm(50ms);
	const pid_t child = fork();

	CHECK(child >= 0);
	if (!child) {
		hub.abandon();
		CHECK(!one.armed());
		CHECK(!one.cancel());
		std::exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	hub.run();
	CHECK_EQ(calls, 1);
}

TEST(callback_may_quit_run_or_dispatch)
{
	twheel::hub hub;
	const auto last = [&hub] {
		calls++;
		hub.quit();
	};
	twheel::timer a(hub, last), b(hub, last), c(hub, last), far(hub, last);

	hub.quit();
	far.arm(1h);
	a.arm(0s);
	b.arm(0s);
	c.arm(0s);
	wait_due(hub, 3);
	hub.run();
	CHECK_EQ(calls, 1);
	CHECK_EQ(hub.armed(), 3);
	wait_due(hub, 2);
	hub.dispatch();
	CHECK_EQ(calls, 2);
	hub.run();
	CHECK_EQ(calls, 3);
	CHECK(far.armed());
}

TEST(quit_leaves_the_innermost_run)
{
	twheel::hub hub;
	twheel::timer inner(hub, [&hub] { hub.quit(); });
	twheel::timer far(hub, [] { calls++; });
	twheel::timer outer(hub, [&] {
		inner.arm(0s);
		hub.run();
		CHECK(far.armed());
		far.arm(0s);
	});

	far.arm(1h);
	outer.arm(0s);
	hub.run();
	CHECK_EQ(calls, 1);
}

/* No timer is lost. The later exceptions of a batch are dropped. */
TEST(exception_leaves_run_after_the_batch)
{
	twheel::hub hub;
	const auto fail = [] { throw ++calls; };
	std::vector<twheel::timer<decltype(fail)>> timers;
	unsigned int caught = 0;

	for (unsigned int i = 0; i < 5; i++)
		timers.emplace_back(hub, fail);
	twheel::timer later(hub, [] { calls++; });

	later.arm(1h);
	for (auto &timer : timers)
		timer.arm(0s);
	wait_due(hub, 5);
	try {
		hub.run();
	} catch (unsigned int call) {
		CHECK_EQ(call, 1);
		caught++;
	}
	CHECK_EQ(caught, 1);
	CHECK_EQ(calls, 5);
	CHECK(later.armed());
	later.arm(0s);
	hub.run();
	CHECK_EQ(calls, 6);
}

TEST(callback_may_dispatch_and_catch)
{
	twheel::hub hub;
	twheel::timer inner(hub, [] { throw 7; });
	twheel::timer outer(hub, [&] {
		inner.arm(0s);
		wait_due(hub, 1);
		try {
			hub.dispatch();
			CHECK(false);
		} catch (int number) {
			CHECK_EQ(number, 7);
			calls++;
		}
	});

	outer.arm(0s);
	hub.run();
	CHECK_EQ(calls, 1);
}

TEST(error_is_a_system_error_that_names_what_failed)
{
	const auto invalid = std::errc::invalid_argument;

	CHECK(fails_with(std::errc::no_such_file_or_directory,
			 [] { twheel::context context("/dev/none"); },
			 "/dev/none ('modprobe twheel_dev' loads"));
	CHECK(fails_with(std::errc::inappropriate_io_control_operation,
			 [] { twheel::context context("/dev/null"); }, "/dev/null: "));
	CHECK(fails_with(invalid, [] { twheel::context context(nullptr, 0x80); }, "/dev/twheel: "));
	CHECK(fails_with(invalid, [] { twheel::hub hub(0x80); }, "twheel_hub_open: "));
	setenv("TWHEEL_BACKEND", "none", 1);
	CHECK(fails_with(invalid, [] { twheel::hub hub; }, "TWHEEL_BACKEND is neither"));
}

TEST(limit_is_an_error_and_a_reserve_prevents_it)
{
	struct twheel_setup setup = {};

	setup.max_timeouts = 2;
	twheel::hub hub{twheel::context(setup)};
	const auto count = [] { calls++; };
	twheel::timer a(hub, count), b(hub, count), c(hub, count);

	hub.reserve(2);
	a.arm(0s);
	b.arm(0s);
	CHECK(fails_with(std::errc::resource_unavailable_try_again, [&c] { c.arm(0s); }));
	CHECK(!c.armed());
	hub.run();
	CHECK_EQ(calls, 2);
}

TEST(hub_works_without_cells)
{
	twheel::hub hub(TWHEEL_HUB_NO_CELLS);
	twheel::timer one(hub, [](auto &self) {
		if (++calls < 3)
			self.arm(1ms);
	});

	CHECK(!hub.has_cells());
	one.arm(1h);
	one.arm(1ms);
	hub.run();
	CHECK_EQ(calls, 3);
}

TEST(functions_of_a_context_throw)
{
	twheel::context opened, context;
	std::array<twheel_op, 2> ops = {context.prep_arm(1h), context.prep_arm(2h)};

	CHECK_EQ(opened.submit(ops), 2);
	context = std::move(opened);
	CHECK_EQ(context.info().live, 2);
	CHECK_EQ(context.stats().armed, 2);
	CHECK(context.cancel(ops[0].id));
	CHECK(!context.cancel(ops[0].id));
	CHECK_EQ(twheel_stop(context.ctx()), 0);
	CHECK(fails_with(std::errc(ESHUTDOWN), [&] { context.arm(1h); }));
#ifdef TWHEEL_HAS_CELLS
	if (context.info().cells)
		CHECK(fails_with(std::errc(ESHUTDOWN), [&] { twheel::cell cell(context); }));
#endif
}

TEST(read_tells_the_end_from_no_event_in_time)
{
	twheel::context context;
	twheel_event events[4];

	context.arm(1h);
	CHECK(context.read(events, 1ms) == std::nullopt);
	CHECK_EQ(twheel_stop(context.ctx()), 0);
	CHECK(context.read(events, 20s) == 1U);
	CHECK(events[0].flags & TWHEEL_EV_UNPROCESSED);
	CHECK(context.read(events, 20s) == 0U);
	CHECK(context.read(events, 0s) == 0U);
}

#ifdef __cpp_impl_coroutine

/* A coroutine that begins at once, and is destroyed with its object. */
class task {
public:
	struct promise_type {
		task get_return_object() noexcept { return task(handle::from_promise(*this)); }
		std::suspend_never initial_suspend() noexcept { return {}; }
		std::suspend_always final_suspend() noexcept { return {}; }
		void return_void() noexcept {}
		void unhandled_exception() { throw; }
	};

	using handle = std::coroutine_handle<promise_type>;

	explicit task(handle of) noexcept : handle_(of) {}
	task(task &&from) noexcept : handle_(std::exchange(from.handle_, nullptr)) {}

	~task()
	{
		if (handle_)
			handle_.destroy();
	}

	bool done() const noexcept { return handle_.done(); }

private:
	handle handle_;
};

task sleep_twice(twheel::hub &hub)
{
	const auto begun = hub.now();

	co_await hub.sleep_for(5ms);
	calls += hub.now() >= begun + 5ms;
	co_await hub.sleep_until(begun + 10ms);
	calls += hub.now() >= begun + 10ms;
}

TEST(coroutine_sleeps_and_not_too_short)
{
	twheel::hub hub;
	const task one = sleep_twice(hub);

	CHECK_EQ(hub.armed(), 1);
	CHECK(!one.done());
	hub.run();
	CHECK(one.done());
	CHECK_EQ(calls, 2);
}

TEST(destroyed_coroutine_is_not_resumed)
{
	twheel::hub hub;

	{
		std::vector<task> many;

		for (unsigned int i = 0; i < 1000; i++)
			many.push_back(sleep_twice(hub));
		CHECK_EQ(hub.armed(), 1000);
	}
	CHECK_EQ(hub.armed(), 0);
	CHECK_EQ(hub.dispatch(30ms), 0);
	CHECK_EQ(calls, 0);
}

TEST(coroutine_may_outlive_its_hub)
{
	std::optional<twheel::hub> hub(std::in_place);
	const task one = sleep_twice(*hub);

	hub.reset();
	CHECK(!one.done());
}

TEST(timer_may_destroy_a_coroutine_that_is_due)
{
	twheel::hub hub;
	std::optional<task> one;
	twheel::timer destroy(hub, [&one] { one.reset(); });

	destroy.arm(1ms);
	one.emplace(sleep_twice(hub));
	hub.run();
	CHECK(!one);
	CHECK_EQ(hub.armed(), 0);
}

task fail_later(twheel::hub &hub)
{
	co_await hub.sleep_for(0s);
	throw std::runtime_error("expected");
}

TEST(exception_of_a_coroutine_leaves_run)
{
	twheel::hub hub;
	const task failing = fail_later(hub), sleeping = sleep_twice(hub);
	bool caught = false;

	try {
		hub.run();
	} catch (const std::runtime_error &) {
		caught = true;
	}
	CHECK(caught);
	CHECK(failing.done());
	hub.run();
	CHECK(sleeping.done());
}

task expect_error(twheel::hub &hub, std::error_code &ec)
{
	co_await hub.sleep_for(1h, ec);
	CHECK(ec == std::errc(ESHUTDOWN));
	try {
		co_await hub.sleep_for(1h);
	} catch (const std::system_error &error) {
		calls += error.code() == ec;
	}
}

TEST(coroutine_goes_on_after_an_error)
{
	twheel::hub hub;
	std::error_code ec;

	CHECK_EQ(twheel_stop(hub.ctx()), 0);
	CHECK(expect_error(hub, ec).done());
	CHECK_EQ(calls, 1);
}

#endif

/* Durations: rounded up, and never out of range. */
template <class Duration>
constexpr bool gives(Duration duration, std::uint64_t ns)
{
	return twheel::detail::nanoseconds(duration) == ns;
}

constexpr std::uint64_t most = INT64_MAX;
using picoseconds = std::chrono::duration<std::int64_t, std::pico>;
using days = std::chrono::duration<std::int32_t, std::ratio<86400>>;
template <std::intmax_t rate>
using ticks = std::chrono::duration<std::int64_t, std::ratio<1, rate>>;
using float_seconds = std::chrono::duration<float>;
using double_seconds = std::chrono::duration<double>;

static_assert(gives(0s, 0) && gives(-1s, 0) && gives(1s, 1000000000) && gives(1500us, 1500000));
static_assert(gives(picoseconds(1), 1) && gives(picoseconds(1000), 1) && gives(picoseconds(1001), 2));
static_assert(gives(picoseconds::max(), INT64_MAX / 1000 + 1));
static_assert(gives(std::chrono::nanoseconds::max(), most));
static_assert(gives(std::chrono::duration<std::uint64_t, std::nano>(UINT64_MAX), most));
static_assert(gives(std::chrono::nanoseconds::min(), 0));
static_assert(gives(ticks<1024>(1), 976563) && gives(ticks<32768>(32768), 1000000000));
static_assert(gives(ticks<44100>(1323000000000), 30000000000000000) && gives(ticks<60>::max(), most));
static_assert(gives(std::chrono::hours::max(), most) && gives(days::max(), most));
static_assert(gives(9223372036s, 9223372036000000000) && gives(9223372037s, most));
static_assert(gives(double_seconds(1.5), 1500000000) && gives(double_seconds(1e300), most));
static_assert(gives(double_seconds(1e-12), 1) && gives(float_seconds(0.5F), 500000000));
static_assert(gives(double_seconds(-1e300), 0) && gives(double_seconds(__builtin_nan("")), 0));
static_assert(gives(double_seconds(__builtin_inf()), most) && gives(float_seconds(1e30F), most));

/* Nothing but the node and the callable. */
struct large {
	std::array<char, 400> bytes;

	void operator()() const {}
};

static_assert(sizeof(twheel::timer<void (*)()>) == 5 * sizeof(void *));
static_assert(sizeof(twheel::timer<large>) == 4 * sizeof(void *) + sizeof(large));
static_assert(!std::is_copy_constructible_v<twheel::hub> && !std::is_copy_assignable_v<twheel::hub>);
static_assert(!std::is_copy_constructible_v<twheel::context>);
static_assert(!std::is_copy_constructible_v<twheel::timer<large>>);
static_assert(std::is_nothrow_move_constructible_v<twheel::hub>);
static_assert(std::is_nothrow_move_constructible_v<twheel::context>);
static_assert(std::is_nothrow_move_constructible_v<twheel::timer<large>>);
static_assert(std::is_nothrow_move_assignable_v<twheel::timer<large>>);

} /* namespace */
