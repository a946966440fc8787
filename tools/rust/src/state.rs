// SPDX-License-Identifier: LGPL-2.1-or-later
//! Settings, fill level and statistics of a context.

use std::time::Duration;

use crate::abi;
use crate::time::Clock;

/// Settings and fill level of a context, from [`Context::info`](crate::Context::info).
#[derive(Clone, Copy, Debug)]
pub struct Info {
    raw: abi::Info,
    clock: Clock,
}

impl Info {
    pub(crate) fn new(raw: abi::Info, clock: Clock) -> Info {
        Info { raw, clock }
    }

    /// The clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// Length of a tick.
    #[must_use]
    pub fn tick(&self) -> Duration {
        Duration::from_nanos(self.raw.tick_ns)
    }

    /// Number of slots per level.
    #[must_use]
    pub fn slots(&self) -> u32 {
        self.raw.slots
    }

    /// Number of levels.
    #[must_use]
    pub fn levels(&self) -> u32 {
        self.raw.levels
    }

    /// Limit of live timeouts.
    #[must_use]
    pub fn max_timeouts(&self) -> u32 {
        self.raw.max_timeouts
    }

    /// Live timeouts: pending, with an unread event, or cells.
    #[must_use]
    pub fn live(&self) -> u32 {
        self.raw.live
    }

    /// Unread events. A withdrawn event of a cell counts until a read meets it.
    #[must_use]
    pub fn ready(&self) -> u32 {
        self.raw.ready
    }

    /// Default slack of timeouts.
    #[must_use]
    pub fn slack(&self) -> Duration {
        Duration::from_micros(self.raw.slack_us.into())
    }

    /// Is the wheel private, so that no other context uses it?
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.raw.flags & abi::INFO_PRIVATE != 0
    }

    /// Has the context been stopped?
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.raw.flags & abi::INFO_STOPPED != 0
    }
}

/// Counts of operations and events since the context was opened, from
/// [`Context::stats`](crate::Context::stats).
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Successful arms.
    pub armed: u64,
    /// Successful modifications.
    pub moved: u64,
    /// Timeouts that were cancelled while pending.
    pub cancelled: u64,
    /// Timeouts that were cancelled with their event unread.
    pub withdrawn: u64,
    /// Timeouts whose last event was read, and cells that ended idle.
    pub ended: u64,
    /// Events of timeouts that fired.
    pub fired: u64,
    /// Looks at the word of a cell at a time that the kernel had published.
    pub looks: u64,
    /// Looks at the word of a cell for an arm that needed a system call.
    pub kicks: u64,
    /// Events of cells that were withdrawn through the word.
    pub dropped: u64,
    /// Events made by a stop.
    pub unprocessed: u64,
    /// Events read.
    pub read: u64,
    /// Live timeouts.
    pub live: u32,
    /// Unread events.
    pub ready: u32,
    /// Events by lateness. Bucket `n` counts events from 2^(n - 1) ns to less than 2^n ns after
    /// the deadline; bucket 0: on time; the last bucket: all later events.
    pub lateness: [u64; abi::LATENESS],
}

impl From<abi::Stats> for Stats {
    fn from(raw: abi::Stats) -> Stats {
        Stats {
            armed: raw.armed,
            moved: raw.moved,
            cancelled: raw.cancelled,
            withdrawn: raw.withdrawn,
            ended: raw.ended,
            fired: raw.fired,
            looks: raw.looks,
            kicks: raw.kicks,
            dropped: raw.dropped,
            unprocessed: raw.unprocessed,
            read: raw.read,
            live: raw.live,
            ready: raw.ready,
            lateness: raw.lateness,
        }
    }
}
