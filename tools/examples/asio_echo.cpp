// SPDX-License-Identifier: GPL-2.0
/*
 * An echo server on asio that drops idle connections, with 100 clients in the same process.
 *
 * asio_hub is to be copied: a hub whose timers an io_context calls.
 *
 * - It waits for the descriptor only while a timer is armed, so that run() can end.
 * - It waits again before it dispatches: an exception of a timer leaves run(), as one of a
 *   handler does, and the program may call run() again.
 * - After io_context::stop() in a timer no other one is called, as with handlers.
 * - To move the timeout of a connection is an exchange in memory. asio::steady_timer makes
 *   a new operation for it, and calls the handler of the old one.
 */
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include <asio.hpp>
#include <twheel.hpp>

using namespace std::chrono_literals;

namespace {

constexpr auto idle = 100ms;

class asio_hub : public twheel::hub {
public:
	explicit asio_hub(asio::io_context &io) : fd_(io, fd())
	{
		twheel_hub_watch(get(), watch, this);
		twheel_hub_break_if(get(), is_over, &io);
	}

	/* The hub closes the descriptor. */
	~asio_hub()
	{
		twheel_hub_watch(get(), nullptr, nullptr);
		fd_.release();
	}

private:
	static bool is_over(void *io) { return static_cast<asio::io_context *>(io)->stopped(); }

	static void watch(void *data, bool on)
	{
		auto &self = *static_cast<asio_hub *>(data);

		if (on)
			self.wait();
		else
			self.fd_.cancel();
	}

	/* A wait may be cancelled when its handler is already queued. Only the last one counts. */
	void wait()
	{
		waits_++;
		fd_.async_wait(fd_.wait_read, [this](auto error) {
			if (--waits_ || error || !armed())
				return;
			wait();
			dispatch();
		});
	}

	asio::posix::stream_descriptor fd_;
	unsigned int waits_ = 0;
};

/* Both ends of a connection. The client sends some messages and then falls silent. */
class connection {
public:
	connection(asio::io_context &io, asio_hub &hub, unsigned int messages)
		: left_(messages), server_(io), client_(io), drop_(hub, drop{this}),
		  send_(hub, send{this})
	{
		asio::local::connect_pair(server_, client_);
		send_.arm(idle / 10);
		echo();
		receive();
	}

	bool dropped = false, early = false;

private:
	struct drop {
		connection *self;

		void operator()() const
		{
			self->early = twheel::hub::clock::now() < self->heard_ + idle;
			self->server_.close();
		}
	};

	struct send {
		connection *self;

		void operator()() const
		{
			std::error_code error;

			asio::write(self->client_, asio::buffer("x", 1), error);
			if (--self->left_)
				self->send_.arm(idle / 10);
		}
	};

	void echo()
	{
		heard_ = twheel::hub::clock::now();
		drop_.arm(heard_ + idle);
		server_.async_read_some(asio::buffer(in_), [this](auto error, auto nr) {
			if (error)
				return;
			asio::write(server_, asio::buffer(in_, nr));
			echo();
		});
	}

	void receive()
	{
		client_.async_read_some(asio::buffer(back_), [this](auto error, auto) {
			dropped = static_cast<bool>(error);
			if (!dropped)
				receive();
		});
	}

	unsigned int left_;
	asio::local::stream_protocol::socket server_, client_;
	twheel::hub::time_point heard_;
	twheel::timer<drop> drop_;
	twheel::timer<send> send_;
	char in_[16], back_[16];
};

} /* namespace */

int main()
{
	try {
		asio::io_context io;
		asio_hub hub(io);
		std::vector<std::unique_ptr<connection>> all;
		unsigned int dropped = 0, early = 0;

		for (unsigned int i = 0; i < 100; i++)
			all.push_back(std::make_unique<connection>(io, hub, i % 5 + 1));
		io.run();
		for (const auto &one : all) {
			dropped += one->dropped;
			early += one->early;
		}
		std::printf("%u connections dropped, %u early\n", dropped, early);
		return dropped == 100 && !early ? 0 : 1;
	} catch (const std::exception &error) {
		std::fprintf(stderr, "asio_echo: %s\n", error.what());
		return 1;
	}
}
