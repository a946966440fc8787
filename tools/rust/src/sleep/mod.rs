// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Sleeps that are cells, for any executor.
//!
//! A [`Timer`] makes [`Sleep`]s, [`Timeout`]s and [`Interval`]s. A [`DelayQueue`] yields values when
//! their deadlines have passed. A thread of the timer wakes the tasks. So they need no runtime, and
//! one timer serves several executors.
//!
//! # Differences from `tokio::time` and `tokio_util::time`
//!
//! The tests run the same cases on both. Otherwise:
//!
//! * A timer is a value, not a part of the runtime. Its sleeps do not follow a clock that is paused
//!   by `tokio::time::pause()`; [`Setup::manual`](crate::Setup::manual) stops the clock of a timer.
//! * What arms a cell returns a [`Result`](crate::Result): the number of cells is limited. A
//!   deadline that is too far is decades away, and panics nowhere.
//! * Deadlines are of `std::time::Instant`, or of [`Time`](crate::Time).
//! * The granularity is the tick of the context, 1 ms by default.
//! * A [`Sleep`] is `Unpin`. It is armed when it is made, not at its first poll. It takes nothing
//!   from the budget of a task.
//! * [`Timer::timeout`] takes a future, not `IntoFuture`.
//! * An [`Interval`] and a [`DelayQueue`] yield after 128 values in a row, whatever the budget is.
//!   An interval becomes a stream by [`Interval::poll_tick`], not by `IntervalStream`.
//! * A [`DelayQueue`] has a timer, and no default value. Its deadlines are exact, not rounded to
//!   milliseconds. A [`Key`](delay_queue::Key) is never used for two entries.
//! * The order of entries within one tick is not kept. If a processor fires late, its entries come
//!   after those of others. [`DelayQueue::peek`] takes linear time while nothing has expired.
//! * [`DelayQueue::compact`] moves no entry, and is `shrink_to_fit()`, too.

/// `std::task::ready` is not in Rust 1.63.
macro_rules! ready {
    ($poll:expr) => {
        match $poll {
            Poll::Ready(value) => value,
            Poll::Pending => return Poll::Pending,
        }
    };
}
pub mod delay_queue;
mod interval;
mod place;
mod sync;
mod timeout;
mod timer;

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

pub use delay_queue::DelayQueue;
pub use interval::{Interval, MissedTickBehavior};
pub use timeout::Timeout;
pub use timer::{Elapsed, Sleep, Timer};

/// Decades away.
const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

fn later(instant: Instant, duration: Duration) -> Instant {
    instant.checked_add(duration).unwrap_or_else(|| instant + FAR)
}

/// Values in a row after which a task yields.
const BURST: u32 = 128;

/// Number of values in a row. A task that takes many has to yield, as with a budget of tokio.
#[derive(Debug, Default)]
struct Burst(u32);

impl Burst {
    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0 = (self.0 + 1) % (BURST + 1);
        if self.0 == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        Poll::Ready(())
    }
}

/// `std::future::PollFn` is not in Rust 1.63.
pub(crate) struct PollFn<F>(pub(crate) F);

impl<T, F: FnMut(&mut Context<'_>) -> Poll<T> + Unpin> Future for PollFn<F> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        (self.0)(cx)
    }
}
