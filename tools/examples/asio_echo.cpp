// SPDX-License-Identifier: GPL-2.0
/*
 * An echo server on asio that drops idle connections, with 100 clients in the same process.
 *
 * Each message of a connection moves its timer. twheel_asio.hpp has the hub; with C++20, a coroutine
 * could also send its messages: co_await hub.sleep_for(idle / 10).
 */
#include <cstdio>
#include <exception>
#include <memory>
#include <vector>

#include <twheel_asio.hpp>

using namespace std::chrono_literals;

namespace {

constexpr auto idle = 100ms;

/* Both ends of a connection. The client sends some messages and then falls silent. */
class connection {
public:
	connection(asio::io_context &io, twheel::asio_hub &hub, unsigned int messages)
		: hub_(hub), left_(messages), server_(io), client_(io), drop_(hub, drop{this})
	{
		asio::local::connect_pair(server_, client_);
		send();
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

	void send()
	{
		hub_.sleep_for(idle / 10, [this](auto error) {
			asio::write(client_, asio::buffer("x", 1), error);
			if (--left_)
				send();
		});
	}

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

	twheel::asio_hub &hub_;
	unsigned int left_;
	asio::local::stream_protocol::socket server_, client_;
	twheel::hub::time_point heard_;
	twheel::timer<drop> drop_;
	char in_[16], back_[16];
};

} /* namespace */

int main()
{
	try {
		asio::io_context io;
		twheel::asio_hub hub(io);
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
