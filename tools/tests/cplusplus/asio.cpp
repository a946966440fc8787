// SPDX-License-Identifier: GPL-2.0
/* twheel_asio.hpp: sleeps with completion tokens, in coroutines and without. */
#include <sys/wait.h>
#include <unistd.h>

#include <optional>

#include <twheel_asio.hpp>
#ifdef TWHEEL_BOOST_ASIO
namespace asio = boost::asio;
#endif

#include "ktap.h"

using namespace std::chrono_literals;

namespace {

unsigned int steps;

TEST(handlers_run_in_order_and_end_the_loop)
{
	asio::io_context io;
	twheel::asio_hub hub(io);
	const auto begun = hub.now();

	hub.sleep_until(begun + 5ms, [](auto error) { steps = !error && steps == 0 ? 1 : 9; });
	hub.sleep_until(begun + 20ms, [](auto error) { steps = !error && steps == 1 ? 2 : 9; });
	io.run();
	CHECK_EQ(steps, 2);
	CHECK(hub.now() >= begun + 20ms);
	CHECK_EQ(hub.armed(), 0);
}

TEST(sleeps_of_a_hub_that_goes_are_aborted)
{
	asio::io_context io;
	std::optional<twheel::asio_hub> hub(std::in_place, io);

	for (int i = 0; i < 3; i++)
		hub->sleep_for(i * 1h, [](auto error) {
			steps += error == asio::error::operation_aborted;
		});
	hub.reset();
	CHECK_EQ(steps, 0);
	io.run();
	CHECK_EQ(steps, 3);
}

TEST(abandoned_hub_of_a_child_can_be_destroyed)
{
	asio::io_context io;
	std::optional<twheel::asio_hub> hub(std::in_place, io);
	int status;

	hub->sleep_for(10ms, [](auto error) { steps += !error; });
	io.notify_fork(asio::io_context::fork_prepare);
	const pid_t child = fork();

	CHECK(child >= 0);
	io.notify_fork(child ? asio::io_context::fork_parent : asio::io_context::fork_child);
	if (!child) {
		hub->abandon();
		hub.reset();
		_exit(0);
	}
	CHECK_EQ(waitpid(child, &status, 0), child);
	CHECK_EQ(status, 0);
	io.run();
	CHECK_EQ(steps, 1);
}

TEST(stop_in_a_handler_leaves_the_others_armed)
{
	asio::io_context io;
	twheel::asio_hub hub(io);

	for (int i = 0; i < 3; i++)
		hub.sleep_for(1ms, [&io](auto) {
			steps++;
			io.stop();
		});
	io.run();
	CHECK_EQ(steps, 1);
	CHECK_EQ(hub.armed(), 2);
}

#if defined(ASIO_HAS_CO_AWAIT) || defined(BOOST_ASIO_HAS_CO_AWAIT)
TEST(coroutines_sleep_and_not_too_short)
{
	asio::io_context io;
	twheel::asio_hub hub(io);
	const auto many = [&hub](auto begun) -> asio::awaitable<void> {
		co_await hub.sleep_for(5ms);
		steps += hub.now() >= begun + 5ms;
		co_await hub.sleep_until(begun + 10ms);
		steps += hub.now() >= begun + 10ms;
	};

	for (int i = 0; i < 1000; i++)
		asio::co_spawn(io, many(hub.now()), asio::detached);
	io.run();
	CHECK_EQ(steps, 2000);
}

#if TWHEEL_ASIO_VERSION >= 102000
TEST(sleep_is_cancelled_by_its_slot)
{
	asio::io_context io;
	twheel::asio_hub hub(io);
	asio::cancellation_signal signal;
	const auto sleep = [&hub]() -> asio::awaitable<void> { co_await hub.sleep_for(1h); };

	for (int i = 0; i < 2; i++) {
		asio::co_spawn(io, sleep(), asio::bind_cancellation_slot(signal.slot(),
			[](std::exception_ptr thrown) { steps += static_cast<bool>(thrown); }));
		asio::post(io, [&signal] {
			signal.emit(asio::cancellation_type::terminal);
			signal.emit(asio::cancellation_type::terminal);
		});
		io.run();
		io.restart();
	}
	CHECK_EQ(steps, 2);
	CHECK_EQ(hub.armed(), 0);
}
#endif
#endif

} /* namespace */
