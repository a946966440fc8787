// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Clocks, times on them, and deadlines.

use std::ops::{Add, Sub};
use std::time::{Duration, Instant};

const MAX_NS: u64 = i64::MAX as u64;

/// Nanoseconds of a duration; one above `i64::MAX` counts as that.
pub(crate) fn nanos(duration: Duration) -> u64 {
    duration.as_nanos().min(MAX_NS.into()) as u64
}

/// Microseconds of a duration, rounded down; one above `u32::MAX`, 71 minutes, counts as that.
pub(crate) fn micros(duration: Duration) -> u32 {
    duration.as_micros().min(u32::MAX.into()) as u32
}

/// The clock of a context.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Clock {
    /// Stands still while the machine is suspended. The default.
    Monotonic,
    /// Goes on while the machine is suspended.
    Boottime,
    /// The time of day, which may be set. It takes absolute deadlines only, also for cells and
    /// sleeps.
    Realtime,
}

impl Clock {
    pub(crate) fn id(self) -> libc::clockid_t {
        match self {
            Clock::Monotonic => libc::CLOCK_MONOTONIC,
            Clock::Boottime => libc::CLOCK_BOOTTIME,
            Clock::Realtime => libc::CLOCK_REALTIME,
        }
    }

    pub(crate) fn of_id(id: u32) -> Option<Clock> {
        [Clock::Monotonic, Clock::Boottime, Clock::Realtime]
            .into_iter()
            .find(|clock| clock.id() as u32 == id)
    }
}

/// A time on the clock of a context: nanoseconds since the zero of the clock, from 0 to
/// `i64::MAX`.
///
/// Sums and differences saturate: a sum above the range is [`Time::MAX`], and a later time
/// subtracted from an earlier one is zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Time(u64);

impl Time {
    /// The last time, 292 years after the zero of the clock. A timeout at this time never fires
    /// in practice.
    pub const MAX: Time = Time(MAX_NS);

    /// A time in nanoseconds. A value above `i64::MAX` counts as that.
    #[must_use]
    pub fn from_nanos(nanos: u64) -> Time {
        Time(nanos.min(MAX_NS))
    }

    /// Nanoseconds since the zero of the clock, at most `i64::MAX`.
    #[must_use]
    pub fn as_nanos(self) -> u64 {
        self.0
    }
}

impl Add<Duration> for Time {
    type Output = Time;

    fn add(self, duration: Duration) -> Time {
        Time::from_nanos(self.0 + nanos(duration))
    }
}

impl Sub for Time {
    type Output = Duration;

    fn sub(self, earlier: Time) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

/// When a timeout is due. Functions take a `Duration`, an `Instant` or a [`Time`] in its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Deadline {
    /// In that time from the call; zero is due at once. Above `i64::MAX` nanoseconds it counts as
    /// that. With [`Clock::Realtime`] the call fails with `EINVAL`.
    After(Duration),
    /// At that time on the clock of the context. A time in the past is due at once.
    At(Time),
    /// Like [`After`](Deadline::After) the time that is left until then, for an
    /// [`Op`](crate::Op) when it is made. On [`Clock::Monotonic`]
    /// the clock is that of `Instant`, and cells and sleeps do not read it.
    Until(Instant),
}

impl From<Duration> for Deadline {
    fn from(duration: Duration) -> Deadline {
        Deadline::After(duration)
    }
}

impl From<Time> for Deadline {
    fn from(time: Time) -> Deadline {
        Deadline::At(time)
    }
}

impl From<Instant> for Deadline {
    fn from(instant: Instant) -> Deadline {
        Deadline::Until(instant)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_saturate() {
        let cases = [
            (Duration::ZERO, 0, 0),
            (Duration::from_nanos(1999), 1999, 1),
            (Duration::from_micros(u32::MAX.into()), 4_294_967_295_000, u32::MAX),
            (Duration::from_secs(4295), 4_295_000_000_000, u32::MAX),
            (Duration::from_nanos(MAX_NS), MAX_NS, u32::MAX),
            (Duration::from_nanos(MAX_NS + 1), MAX_NS, u32::MAX),
            (Duration::MAX, MAX_NS, u32::MAX),
        ];
        for (duration, ns, us) in cases {
            assert_eq!((nanos(duration), micros(duration)), (ns, us), "{duration:?}");
        }
    }

    #[test]
    fn times_saturate() {
        let second = Duration::from_secs(1);
        assert_eq!(Time::MAX + second, Time::MAX);
        assert_eq!(Time::from_nanos(u64::MAX), Time::MAX);
        assert_eq!(Time::from_nanos(5) - Time::from_nanos(7), Duration::ZERO);
        assert_eq!(Time::from_nanos(5) + second - Time::from_nanos(5), second);
    }
}
