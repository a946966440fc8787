// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Ticks at regular times.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use super::timer::{Sleep, Timer};
use super::{later, Burst, PollFn};
use crate::error::Result;

/// A tick that is later than this is a missed one, as in tokio.
const TOLERANCE: Duration = Duration::from_millis(5);

/// The ticks that follow a missed one, as in tokio.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum MissedTickBehavior {
    /// The ticks that were missed come at once, one after the other.
    #[default]
    Burst,
    /// The next tick comes one period after the late one.
    Delay,
    /// The next tick comes at the next multiple of the period.
    Skip,
}

impl Timer {
    /// Tick now, and then once in each period.
    ///
    /// ```
    /// # let future = async {
    /// use std::time::Duration;
    ///
    /// let period = Duration::from_millis(10);
    /// let mut interval = twheel::sleep::Timer::open()?.interval(period)?;
    /// let start = interval.tick().await; // at once
    /// assert_eq!(interval.tick().await, start + period);
    /// # twheel::Result::Ok(())
    /// # };
    /// ```
    ///
    /// # Errors
    ///
    /// As [`interval_at`](Timer::interval_at).
    #[track_caller]
    pub fn interval(&self, period: Duration) -> Result<Interval> {
        self.interval_at(self.now(), period)
    }

    /// Tick at `start`, and then once in each period.
    ///
    /// # Errors
    ///
    /// As [`Timer::sleep`]. A period of zero panics.
    #[track_caller]
    pub fn interval_at(&self, start: Instant, period: Duration) -> Result<Interval> {
        assert!(!period.is_zero(), "an interval needs a period");
        Ok(Interval {
            sleep: self.sleep(start)?,
            is_armed: true,
            next: start,
            period,
            policy: MissedTickBehavior::default(),
            burst: Burst::default(),
        })
    }
}

/// Ticks at regular times, without end, from [`Timer::interval`]. Dropping it ends them.
///
/// The time between two calls of [`tick`](Interval::tick) counts. A tick is missed if it is taken
/// more than 5 ms after its time: [`MissedTickBehavior`] says what follows.
///
/// # Panics
///
/// What waits or resets may panic if the timer needs another cell and has reached the limit.
#[derive(Debug)]
pub struct Interval {
    sleep: Sleep,
    /// The sleep is armed for `next`. A tick arms it only when it has to wait.
    is_armed: bool,
    next: Instant,
    period: Duration,
    policy: MissedTickBehavior,
    burst: Burst,
}

impl Interval {
    /// Wait for the next tick. Returns the time for which it was planned. Dropping the future
    /// loses no tick.
    pub async fn tick(&mut self) -> Instant {
        PollFn(|cx: &mut Context<'_>| self.poll_tick(cx)).await
    }

    /// The same as a poll. The last task that has polled is woken.
    pub fn poll_tick(&mut self, cx: &mut Context<'_>) -> Poll<Instant> {
        let mut now = self.sleep.now();
        if now < self.next {
            self.burst = Burst::default();
            self.arm();
            ready!(Pin::new(&mut self.sleep).poll(cx));
            now = self.sleep.now();
        }
        ready!(self.burst.poll(cx));
        let tick = self.next;
        let late = now.saturating_duration_since(tick);
        self.next = match self.policy {
            MissedTickBehavior::Delay if late > TOLERANCE => later(now, self.period),
            MissedTickBehavior::Skip if late > TOLERANCE => {
                let since = late.as_nanos() % self.period.as_nanos();
                later(now, self.period - Duration::from_nanos(since as u64))
            }
            _ => later(tick, self.period),
        };
        self.is_armed = false;
        Poll::Ready(tick)
    }

    fn arm(&mut self) {
        if !self.is_armed {
            self.sleep.reset(self.next).expect("the timer of an interval");
            self.is_armed = true;
        }
    }

    /// Have the next tick one period from now, whatever was missed.
    pub fn reset(&mut self) {
        self.reset_after(self.period);
    }

    /// Have the next tick now, whatever was missed.
    pub fn reset_immediately(&mut self) {
        self.reset_at(self.sleep.now());
    }

    /// Have the next tick in that time from now, whatever was missed.
    pub fn reset_after(&mut self, after: Duration) {
        self.reset_at(later(self.sleep.now(), after));
    }

    /// Have the next tick at that time, and forget those that were missed before. A time in the
    /// past is a missed tick itself. A task that waits is woken then.
    pub fn reset_at(&mut self, deadline: Instant) {
        self.next = deadline;
        self.is_armed = false;
        self.arm();
    }

    /// What follows a missed tick.
    pub fn missed_tick_behavior(&self) -> MissedTickBehavior {
        self.policy
    }

    /// Choose what follows a missed tick.
    pub fn set_missed_tick_behavior(&mut self, behavior: MissedTickBehavior) {
        self.policy = behavior;
    }

    /// The period.
    pub fn period(&self) -> Duration {
        self.period
    }
}
