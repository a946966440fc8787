// SPDX-License-Identifier: GPL-2.0
/*
 * Prints the costs of twheel::timer beside those of asio::steady_timer, as the table of
 * doc/howto.md. Each cost is CPU time, the median of some rounds, in which as many timers are
 * armed, moved and then cancelled as the column says. With asio, the handlers of timers that were
 * moved or cancelled run, which is part of the cost.
 */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <vector>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <asio.hpp>
#include <twheel.hpp>

using namespace std::chrono_literals;

static constexpr int sizes[] = { 1000, 10000, 50000, 200000 };
static constexpr int rounds = 15;

struct nothing {
	template <class... Arguments> void operator()(Arguments &&...) const {}
};

struct wheel {
	twheel::hub hub;
	std::deque<twheel::timer<nothing>> timers;

	void make() { timers.emplace_back(hub, nothing()); }
	static void arm(twheel::timer<nothing> &timer) { timer.arm(1h); }
	void end_turn() {}
};

struct peer {
	asio::io_context hub;
	std::deque<asio::steady_timer> timers;

	void make() { timers.emplace_back(hub); }
	static void arm(asio::steady_timer &timer)
	{
		timer.expires_after(1h);
		timer.async_wait(nothing());
	}
	void end_turn() { hub.poll(); }
};

static double cpu_ns()
{
	timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

static long resident()
{
	long all, pages;

	std::ifstream("/proc/self/statm") >> all >> pages;
	return pages * sysconf(_SC_PAGESIZE);
}

template <class F> static void time_all(std::vector<double> &costs, int nr, F work)
{
	const double begin = cpu_ns();

	work();
	costs.push_back((cpu_ns() - begin) / nr);
}

/* In a child, whose memory is nobody else's. */
template <class Subject> static void rows(const char *name)
{
	std::fflush(stdout);
	if (fork()) {
		wait(nullptr);
		return;
	}
	static const char *const what[] = { "arm", "move", "cancel" };
	std::vector<double> costs[3][std::size(sizes)];
	long bytes = 0;

	/* The largest first, before there is memory to use again. */
	for (std::size_t size = std::size(sizes); size-- > 0; ) {
		const int nr = sizes[size];
		const long before = resident();
		Subject subject;

		for (int i = 0; i < nr; i++)
			subject.make();
		const auto arm_all = [&] {
			for (auto &timer : subject.timers)
				subject.arm(timer);
			subject.end_turn();
		};
		for (int round = 0; round < rounds; round++) {
			time_all(costs[0][size], nr, arm_all);
			if (!bytes)
				bytes = (resident() - before) / nr;
			time_all(costs[1][size], nr, arm_all);
			time_all(costs[2][size], nr, [&] {
				for (auto &timer : subject.timers)
					timer.cancel();
				subject.end_turn();
			});
		}
	}
	for (int i = 0; i < 3; i++) {
		std::printf("| `%s`, %s |", name, what[i]);
		for (auto &cost : costs[i]) {
			std::nth_element(cost.begin(), cost.begin() + rounds / 2, cost.end());
			std::printf(" %.0f |", cost[rounds / 2]);
		}
		std::printf(i ? " |\n" : " %ld |\n", bytes);
	}
	std::exit(0);
}

int main()
{
	std::printf("| ns | 1,000 | 10,000 | 50,000 | 200,000 | bytes of each |\n"
		    "|---|--:|--:|--:|--:|--:|\n");
	rows<wheel>("twheel::timer");
	rows<peer>("asio::steady_timer");
}
