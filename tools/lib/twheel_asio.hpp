/* SPDX-License-Identifier: MIT OR LGPL-2.1-or-later */
/*
 * A hub whose timers and sleeps an asio::io_context runs, in this header alone.
 *
 *	asio::io_context io;
 *	twheel::asio_hub hub(io);
 *
 *	hub.sleep_for(30s, [](std::error_code ec) { ... });
 *	co_await hub.sleep_for(5ms);			in an asio::awaitable
 *
 * It is a twheel::hub: io.run() calls each twheel::timer on it. To move such a timer is an exchange
 * in memory. asio::steady_timer makes a new operation for it, and calls the handler of the old one.
 *
 * - Sleeps take any completion token for void(asio::error_code). From C++20 on, the default is
 *   asio::use_awaitable. A sleep that is cancelled, or whose hub is destroyed, completes with
 *   asio::error::operation_aborted.
 * - The hub waits for its descriptor only while a timer is armed, so that run() can end.
 * - An exception of a timer leaves run(), as one of a handler does, and the program may call run()
 *   again. After io.stop() in a timer no other one is called.
 * - The io_context lives longer than the hub, and one thread at a time runs it.
 * - The hub outlives the call of a handler, or the turn of a coroutine, that a sleep has resumed:
 *   such code destroys it in a function that it gives to asio::post().
 * - After abandon(), destroy the hub before the child opens descriptors: asio knows them by number.
 *
 * With TWHEEL_BOOST_ASIO defined, asio is boost::asio. Sleeps can be cancelled from asio 1.20 on,
 * which is that of Boost 1.77.
 */
#ifndef TWHEEL_ASIO_HPP
#define TWHEEL_ASIO_HPP

#include <memory>

#include <twheel.hpp>
#ifdef TWHEEL_BOOST_ASIO
#include <boost/asio.hpp>
#define TWHEEL_ASIO_VERSION BOOST_ASIO_VERSION
#else
#include <asio.hpp>
#define TWHEEL_ASIO_VERSION ASIO_VERSION
#endif

namespace twheel {

#ifdef TWHEEL_BOOST_ASIO
namespace net = boost::asio;
using net_error = boost::system::error_code;
#else
namespace net = asio;
using net_error = asio::error_code;
#endif

class asio_hub : public hub {
#if defined(ASIO_HAS_CO_AWAIT) || defined(BOOST_ASIO_HAS_CO_AWAIT)
	using default_token = net::use_awaitable_t<>;
#else
	using default_token = void;
#endif

public:
	/** @from: a hub without timers, for other settings. */
	explicit asio_hub(net::io_context &io, hub &&from = hub())
		: hub(std::move(from)), io_(io), fd_(io, fd())
	{
		twheel_hub_watch(get(), watch, this);
		twheel_hub_break_if(get(), is_over, &io);
	}

	asio_hub(asio_hub &&) = delete;

	/* The hub closes the descriptor. */
	~asio_hub()
	{
		while (first_)
			first_->abort();
		if (get())	/* not after abandon() */
			twheel_hub_watch(get(), nullptr, nullptr);
		++*waits_;
		fd_.release();
	}

	/** A coroutine sleeps from its co_await on. */
	template <class Token = default_token>
	auto sleep_for(detail::wait time, Token &&token = Token())
	{
		return sleep<Token>(deadline<clock>(time.get()), token);
	}

	template <class Token = default_token>
	auto sleep_until(time_point when, Token &&token = Token())
	{
		return sleep<Token>(deadline<clock>(when), token);
	}

private:
	/* A sleep that is armed, in the list of its hub. */
	struct any_sleep : detail::link {
		any_sleep(asio_hub &of, void (*fn)(twheel_node *)) noexcept
			: link(of.get(), fn), next_(of.first_), at_(&of.first_)
		{
			if (next_)
				next_->at_ = &next_;
			*at_ = this;
		}

		virtual ~any_sleep()
		{
			*at_ = next_;
			if (next_)
				next_->at_ = at_;
		}

		virtual void abort() = 0;

		any_sleep *next_, **at_;
	};

	template <class Handler> class sleeper final : any_sleep {
	public:
		static void start(asio_hub &of, deadline<clock> when, Handler &&handler)
		{
			auto *const self = new sleeper(of, std::move(handler));
			std::error_code ec;

			self->arm(when.ns, when.flags, ec);
			if (ec)
				self->end(net_error(ec.value(), net::error::get_system_category()));
		}

	private:
		sleeper(asio_hub &of, Handler &&handler)
			: any_sleep(of, fire), work_(net::make_work_guard(handler, of.io_)),
			  handler_(std::move(handler))
		{
#if TWHEEL_ASIO_VERSION >= 102000
			auto slot = net::get_associated_cancellation_slot(handler_);

			if (slot.is_connected())
				slot.assign([this](net::cancellation_type) { abort(); });
#endif
		}

		static void fire(twheel_node *node) noexcept
		{
			auto &self = static_cast<sleeper &>(link::of(node));

			detail::invoke(node->hub, [&self] { self.end(net_error(), true); });
		}

		void abort() override { end(net::error::operation_aborted); }

		/* The memory goes first: the handler may use it for the next sleep. */
		void end(net_error error, bool is_due = false)
		{
			auto work(std::move(work_));
#if TWHEEL_ASIO_VERSION >= 102000
			net::get_associated_cancellation_slot(handler_).clear();
#endif
			auto call = [handler = std::move(handler_), error]() mutable {
				std::move(handler)(error);
			};

			delete this;
			if (is_due)
				net::dispatch(work.get_executor(), std::move(call));
			else
				net::post(work.get_executor(), std::move(call));
		}

		net::executor_work_guard<net::associated_executor_t<
			Handler, net::io_context::executor_type>> work_;
		Handler handler_;
	};

	template <class Token> auto sleep(deadline<clock> when, Token &token)
	{
		return net::async_initiate<Token, void(net_error)>(
			[this, when](auto &&handler) {
				using type = std::decay_t<decltype(handler)>;

				sleeper<type>::start(*this, when, std::move(handler));
			}, token);
	}

	static bool is_over(void *io) { return static_cast<net::io_context *>(io)->stopped(); }

	static void watch(void *data, bool on)
	{
		auto &self = *static_cast<asio_hub *>(data);

		if (on)
			self.wait();
		else
			self.fd_.cancel();
	}

	/*
	 * A wait may be cancelled, and the hub destroyed, when its handler is already queued. Only
	 * the last one counts. It waits again first, so that an exception leaves a hub that works.
	 */
	void wait()
	{
		++*waits_;
		fd_.async_wait(fd_.wait_read, [this, waits = waits_](auto error) {
			if (--*waits || error || !armed())
				return;
			wait();
			dispatch();
		});
	}

	net::io_context &io_;
	net::posix::stream_descriptor fd_;
	any_sleep *first_ = nullptr;
	std::shared_ptr<unsigned int> waits_ = std::make_shared<unsigned int>(0);
};

} /* namespace twheel */

#endif /* TWHEEL_ASIO_HPP */
