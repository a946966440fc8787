// SPDX-License-Identifier: GPL-2.0
/* twheel.hpp with error codes, compiled without exceptions: contexts, cells, batches, clocks. */
#include <vector>

#include <twheel.hpp>

#include "ktap.h"

#ifdef __cpp_exceptions
#error "this file is about programs without exceptions"
#endif

using namespace std::chrono_literals;
using outcome = twheel::outcome;

namespace {

std::error_code ec;

constexpr struct twheel_setup limit(unsigned int nr)
{
	struct twheel_setup setup = {};

	setup.max_timeouts = nr;
	return setup;
}

template <class Clock> void fires_on()
{
	twheel::basic_context<Clock> context(ec);
	twheel::basic_hub<Clock> hub(std::move(context), 0, ec);
	unsigned int calls = 0;
	twheel::timer one(hub, [&calls] { calls++; });

	CHECK(!ec);
	CHECK_EQ(hub.info(ec).clock, twheel::detail::clock_id<Clock>);
	const auto when = Clock::now() + 20ms;

	one.arm(when, ec);
	CHECK(!ec);
	hub.run(ec);
	CHECK(!ec);
	CHECK(hub.now() >= when);
	CHECK_EQ(calls, 1);
	one.arm(typename Clock::time_point(), ec);
	hub.run(ec);
	CHECK_EQ(calls, 2);
	if constexpr (Clock::is_steady) {
		const auto begun = Clock::now();

		one.arm(20ms, ec);
		hub.run(ec);
		CHECK(!ec && Clock::now() >= begun + 20ms);
	}
}

TEST(hub_is_on_each_clock)
{
	fires_on<std::chrono::steady_clock>();
	fires_on<twheel::boottime_clock>();
	fires_on<std::chrono::system_clock>();
}

TEST(errors_are_returned_and_cleared)
{
	twheel::context none("/dev/null", 0, {}, ec);

	CHECK(ec == std::errc::inappropriate_io_control_operation);
	CHECK(!none.ctx());

	twheel::context context(nullptr, 0, limit(1), ec);

	CHECK(!ec);
	CHECK_EQ(context.info(ec).max_timeouts, 1);
	twheel::hub hub(std::move(context), 0x80, ec);
	CHECK(ec == std::errc::invalid_argument);
	CHECK(!hub.get() && context.ctx());
	hub = twheel::hub(std::move(context), 0, ec);
	CHECK(!ec && hub.get() && !context.ctx());

	const auto nothing = [] {};
	twheel::timer a(hub, nothing), b(hub, nothing);

	a.arm(1h, ec);
	CHECK(!ec);
	b.arm(1h, ec);
	CHECK(ec == std::errc::resource_unavailable_try_again);
	CHECK(!b.armed());
	CHECK_EQ(hub.dispatch(0s, ec), 0);
	CHECK(!ec);
	CHECK_EQ(twheel_stop(hub.ctx()), 0);
	hub.run(ec);
	CHECK(!ec && !a.armed());
	a.arm(0s, ec);
	CHECK(ec == std::errc(ESHUTDOWN));
}

TEST(hub_that_cannot_open_a_context_is_empty)
{
	setenv("TWHEEL_BACKEND", "none", 1);
	CHECK(!twheel::hub(ec).get());
	CHECK(ec == std::errc::invalid_argument);
}

TEST(context_counts)
{
	twheel::context context(ec);
	std::vector<twheel_event> events(4);
	const auto id = context.arm(context.now() + 1h, 7, ec);

	context.arm(0s, 8, ec);
	CHECK(context.read(events, 20s, ec) == 1U);
	CHECK_EQ(events[0].cookie, 8);
	CHECK(context.cancel(id, ec));
	CHECK(!context.cancel(id, ec));
	CHECK(!ec);
	CHECK(context.read(events, 0s, ec) == std::nullopt);
	CHECK(!ec);
	events.clear();
	CHECK(context.read(events, 0s, ec) == std::nullopt);
	CHECK(ec == std::errc::invalid_argument);
	CHECK_EQ(context.stats(ec).armed, 2);
	CHECK_EQ(context.stats(ec).cancelled, 1);
	CHECK(!ec);
}

TEST(batch_has_a_result_for_each_operation)
{
	twheel::context context(nullptr, 0, limit(2), ec);
	std::vector<twheel_op> ops;

	for (unsigned int i = 0; i < 3; i++)
		ops.push_back(context.prep_arm(1h, i));
	ops.emplace_back();
	twheel_prep_cancel(&ops[3], 12345);
	CHECK_EQ(context.submit(ops, ec), 4);
	CHECK(!ec);
	CHECK_EQ(ops[0].result, 0);
	CHECK_EQ(ops[1].result, 0);
	CHECK_EQ(ops[2].result, -EAGAIN);
	CHECK_EQ(ops[3].result, -ENOENT);
}

#ifdef TWHEEL_HAS_CELLS

#define NEED_CELLS(context) do { if (!(context).info(ec).cells) ktap_skip("no cells"); } while (0)

TEST(cell_tells_what_it_has_met)
{
	twheel::context context(ec);
	twheel_event events[2];

	NEED_CELLS(context);
	twheel::cell cell(context, 7, ec);
	CHECK(!ec);
	CHECK(cell.cancel() == outcome::idle);
	CHECK(cell.arm(1h, ec) == outcome::idle);
	CHECK(cell.arm(context.now() + 1h, ec) == outcome::pending);
	CHECK(cell.cancel() == outcome::pending);
	CHECK(cell.arm(0s, ec) == outcome::idle);
	CHECK_EQ(twheel_wait(context.ctx(), 20 * INT64_C(1000000000)), 1);
	CHECK(cell.arm(0s, ec) == outcome::withdrawn);
	CHECK(context.read(events, 20s, ec) == 1U);
	CHECK_EQ(events[0].id, cell.id());
	CHECK_EQ(events[0].cookie, 7);
	CHECK(cell.cancel() == outcome::idle);
	CHECK(!ec);
}

TEST(cell_moves_and_ends_with_its_object)
{
	twheel::context context(nullptr, 0, limit(2), ec);

	NEED_CELLS(context);
	twheel::cell one(context, 1, ec), other(context, 2, ec), third(context, 3, ec);
	CHECK(ec == std::errc::resource_unavailable_try_again);
	CHECK(!third.get());
	one.arm(1h, ec);
	third = std::move(one);
	CHECK(!one.get() && third.get());
	CHECK(third.arm(1h, ec) == outcome::pending);
	CHECK_EQ(context.info(ec).live, 2);
	third = std::move(other);
	CHECK_EQ(context.info(ec).live, 1);
	{
		const twheel::cell last(std::move(third));
	}
	CHECK_EQ(context.info(ec).live, 0);
	CHECK(!ec);
}

TEST(kicks_take_a_full_batch_and_the_destructor_kicks)
{
	twheel::context context(ec);
	std::vector<twheel::cell> cells;
	std::vector<twheel_event> events(TWHEEL_MAX_KICKS + 1);
	std::size_t nr = 0;

	NEED_CELLS(context);
	for (unsigned int i = 0; i <= TWHEEL_MAX_KICKS; i++)
		cells.emplace_back(context, i, ec);
	CHECK(!ec);
	{
		twheel::kicks kicks(context);

		for (unsigned int i = 0; i < TWHEEL_MAX_KICKS; i++)
			CHECK(kicks.arm(cells[i], 0s, ec) == outcome::idle && !ec);
		kicks.arm(cells[TWHEEL_MAX_KICKS], 0s, ec);
		CHECK(ec == std::errc::resource_unavailable_try_again);
		kicks.kick(ec);
		CHECK(!ec);
		kicks.arm(cells[TWHEEL_MAX_KICKS], 0s, ec);
		CHECK(!ec);
	}
	while (nr < cells.size()) {
		const auto more = context.read(events, 20s, ec);

		CHECK(more && *more);
		nr += *more;
	}
}

#endif

/* Hours of timeouts in an instant. */
TEST(manual_clock_moves_when_the_program_says)
{
	struct twheel_setup setup = {};

	setup.flags = TWHEEL_SETUP_MANUAL;
	twheel::hub hub(twheel::context(nullptr, TWHEEL_PROCESS, setup, ec), 0, ec);
	if (ec == std::errc::invalid_argument)
		ktap_skip("the device has no manual clock");
	CHECK(!ec);
	unsigned int calls = 0;
	twheel::timer one(hub, [&calls] { calls++; });

	one.arm(1h, ec);
	CHECK_EQ(twheel_set_time(hub.ctx(), TWHEEL_HOUR - 1), 0);
	hub.dispatch(0s, ec);
	CHECK_EQ(calls, 0);
	CHECK_EQ(twheel_set_time(hub.ctx(), 2 * TWHEEL_HOUR), 0);
	hub.dispatch(0s, ec);
	CHECK_EQ(calls, 1);
	CHECK(hub.now() == twheel::hub::time_point(2h));
}

TEST(hub_quits_without_exceptions)
{
	twheel::hub hub(ec);
	unsigned int calls = 0;
	twheel::timer one(hub, [&](auto &self) {
		calls++;
		self.arm(0s, ec);
		hub.quit();
	});

	hub.reserve(1, ec);
	CHECK(!ec);
	one.arm(0s, ec);
	hub.run(ec);
	CHECK(!ec);
	CHECK_EQ(calls, 1);
	CHECK(one.armed());
}

using system_context = twheel::basic_context<std::chrono::system_clock>;
using std::chrono::hours, std::chrono::steady_clock, std::chrono::system_clock;

template <class Clock, class When>
constexpr bool takes = std::is_convertible_v<When, twheel::deadline<Clock>>;

static_assert(takes<steady_clock, steady_clock::time_point> && takes<steady_clock, hours>);
static_assert(takes<system_clock, system_clock::time_point>);
static_assert(!takes<steady_clock, system_clock::time_point>);
static_assert(!takes<system_clock, steady_clock::time_point>);
static_assert(!std::is_constructible_v<twheel::hub, system_context, unsigned, std::error_code &>);
static_assert(!std::is_default_constructible_v<twheel::hub>);
#ifdef TWHEEL_HAS_CELLS
static_assert(!std::is_copy_constructible_v<twheel::cell>);
static_assert(!std::is_move_constructible_v<twheel::kicks>);
static_assert(std::is_nothrow_move_constructible_v<twheel::cell>);
static_assert(std::is_nothrow_move_assignable_v<twheel::cell>);
#endif

} /* namespace */
