// SPDX-License-Identifier: GPL-2.0
/*
 * Peers that send heartbeats, and are dropped when they have been silent for a while.
 *
 *	heartbeat [PEERS [MS]]		1000 peers, silent for 200 ms
 *
 * Each peer has two timers: `beat` sends, and `silent` ends it. Three things to copy:
 *
 * - A timer is a member of its object. The object may be freed in a callback of its own, and
 *   nothing has to be cancelled by hand.
 * - A callback with `this` alone needs no memory beside the object.
 * - A callback reads the clock once for all timers that it arms.
 */
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include <twheel.hpp>

using namespace std::chrono_literals;

namespace {

using milliseconds = std::chrono::milliseconds;

class peer;

struct cluster {
	twheel::hub hub;
	std::vector<std::unique_ptr<peer>> peers;
	milliseconds silence;
	unsigned long heard = 0, dropped = 0, early = 0;
};

class peer {
public:
	peer(cluster &all, std::size_t place)
		: all_(all), place_(place), beats_(place % 5), beat_(all.hub, send{this}),
		  silent_(all.hub, drop{this})
	{
		listen();
		beat_.arm(last_ + all.silence / 10);
	}

private:
	struct send {
		peer *self;

		void operator()() const
		{
			self->heard();
		}
	};

	struct drop {
		peer *self;

		void operator()() const
		{
			cluster &all = self->all_;

			all.dropped++;
			all.early += twheel::hub::clock::now() < self->last_ + all.silence;
			all.peers[self->place_].reset();
		}
	};

	void listen()
	{
		last_ = all_.hub.now();
		silent_.arm(last_ + all_.silence);
	}

	/* After some beats, a peer falls silent. */
	void heard()
	{
		all_.heard++;
		listen();
		if (beats_--)
			beat_.arm(last_ + all_.silence / 10);
	}

	cluster &all_;
	std::size_t place_;
	std::size_t beats_;
	twheel::hub::time_point last_;
	twheel::timer<send> beat_;
	twheel::timer<drop> silent_;
};

unsigned long number(const char *text, unsigned long most)
{
	char *rest;
	const unsigned long value = std::strtoul(text, &rest, 10);

	if (!*text || *rest || !value || value > most) {
		std::fprintf(stderr, "'%s' is no number from 1 to %lu\n", text, most);
		std::exit(64);
	}
	return value;
}

int run(unsigned long nr, milliseconds silence)
{
	cluster all{twheel::hub(), {}, silence};
	unsigned long expected = 0;

	for (std::size_t i = 0; i < nr; i++) {
		all.peers.push_back(std::make_unique<peer>(all, i));
		expected += i % 5 + 1;
	}
	all.hub.run();
	std::printf("%lu heartbeats, %lu peers dropped, %lu early\n", all.heard, all.dropped,
		    all.early);
	/* A machine that stands still for as long as the silence drops a peer that beats. */
	return all.dropped == nr && !all.early && all.heard <= expected ? 0 : 1;
}

} /* namespace */

int main(int argc, char **argv)
{
	const unsigned long nr = argc > 1 ? number(argv[1], 500000) : 1000;
	const unsigned long ms = argc > 2 ? number(argv[2], 3600000) : 200;

	try {
		return run(nr, milliseconds(ms));
	} catch (const std::exception &error) {
		std::fprintf(stderr, "heartbeat: %s\n", error.what());
		return 1;
	}
}
