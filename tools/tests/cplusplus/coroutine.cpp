// SPDX-License-Identifier: GPL-2.0
/* twheel.hpp in coroutines of C++20. */
#include <coroutine>
#include <optional>
#include <stdexcept>
#include <vector>

#include <twheel.hpp>

#include "ktap.h"

using namespace std::chrono_literals;

namespace {

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

unsigned int steps;

task sleep_twice(twheel::hub &hub)
{
	const auto begun = hub.now();

	co_await hub.sleep_for(5ms);
	steps += hub.now() >= begun + 5ms;
	co_await hub.sleep_until(begun + 10ms);
	steps += hub.now() >= begun + 10ms;
}

TEST(coroutine_sleeps_and_not_too_short)
{
	twheel::hub hub;
	const task one = sleep_twice(hub);

	CHECK_EQ(hub.armed(), 1);
	CHECK(!one.done());
	hub.run();
	CHECK(one.done());
	CHECK_EQ(steps, 2);
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
	CHECK_EQ(steps, 0);
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
		steps += error.code() == ec;
	}
}

TEST(coroutine_goes_on_after_an_error)
{
	twheel::hub hub;
	std::error_code ec;

	CHECK_EQ(twheel_stop(hub.ctx()), 0);
	CHECK(expect_error(hub, ec).done());
	CHECK_EQ(steps, 1);
}

} /* namespace */
