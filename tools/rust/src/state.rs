// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
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

    /// Requests that [`max_timeouts`](Info::max_timeouts) has refused to this context.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.raw.refused
    }

    /// Timeouts that fit into the memory of all contexts of the user who opened this one.
    #[must_use]
    pub fn user_timeouts(&self) -> u32 {
        self.raw.user_timeouts
    }

    /// Limit of [`user_timeouts`](Info::user_timeouts).
    #[must_use]
    pub fn max_user_timeouts(&self) -> u32 {
        self.raw.max_user_timeouts
    }

    /// Requests of the user that [`max_user_timeouts`](Info::max_user_timeouts) has refused.
    #[must_use]
    pub fn user_refused(&self) -> u64 {
        self.raw.user_refused
    }

    /// Requests of the user that the limit of all users' timeouts has refused.
    #[must_use]
    pub fn all_refused(&self) -> u64 {
        self.raw.all_refused
    }

    /// Memory of the private wheels of all contexts of the user.
    #[must_use]
    pub fn wheel_bytes(&self) -> u64 {
        self.raw.wheel_bytes
    }

    /// Limit of [`wheel_bytes`](Info::wheel_bytes).
    #[must_use]
    pub fn max_wheel_bytes(&self) -> u64 {
        self.raw.max_wheel_bytes
    }

    /// Requests of the user that [`max_wheel_bytes`](Info::max_wheel_bytes) has refused.
    #[must_use]
    pub fn wheel_refused(&self) -> u64 {
        self.raw.wheel_refused
    }
}
