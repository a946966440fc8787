// SPDX-License-Identifier: LGPL-2.1-or-later
//! Settings and fill level of a context.

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

    /// Number of slots of the first level.
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
