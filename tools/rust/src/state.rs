// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Settings, fill level and statistics of a context.

use std::time::Duration;

use twheel_sys as sys;

use crate::setup::Backend;
use crate::time::Clock;

/// Settings and fill level of a context, from [`Context::info`](crate::Context::info).
#[derive(Clone, Copy, Debug)]
pub struct Info {
    pub(crate) raw: sys::twheel_info,
    pub(crate) clock: Clock,
}

impl Info {
    /// The owner of the wheel.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match self.raw.flags & sys::TWHEEL_INFO_PROCESS {
            0 => Backend::Kernel,
            _ => Backend::Process,
        }
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

    /// Default slack of timeouts.
    #[must_use]
    pub fn slack(&self) -> Duration {
        Duration::from_micros(self.raw.slack_us.into())
    }

    /// Is the wheel private, so that no other context uses it?
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.raw.flags & sys::TWHEEL_INFO_PRIVATE != 0
    }

    /// Has the context been stopped?
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.raw.flags & sys::TWHEEL_INFO_STOPPED != 0
    }
}

/// Counts of operations and events since the context was opened, from
/// [`Context::stats`](crate::Context::stats).
#[derive(Clone, Copy, Debug)]
pub struct Stats {
    pub(crate) raw: sys::twheel_stats,
}

impl Stats {
    /// Events by lateness. Number `n` counts events from 2^(n - 1) ns to less than 2^n ns after
    /// the deadline; number 0: on time; the last one: all later events.
    #[must_use]
    pub fn lateness(&self) -> &[u64] {
        &self.raw.lateness
    }
}

/// Functions that return a field.
macro_rules! numbers {
    ($of:ident: $($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        impl $of {
            $(
                $(#[$doc])*
                #[must_use]
                pub fn $name(&self) -> $type {
                    self.raw.$name
                }
            )*
        }
    };
}

numbers! { Info:
    /// Number of slots of the first level.
    slots: u32,
    /// Number of levels.
    levels: u32,
    /// Limit of live timeouts.
    max_timeouts: u32,
    /// Live timeouts: pending, with an unread event, or cells.
    live: u32,
    /// Unread events. A withdrawn event of a cell counts until a read meets it.
    ready: u32,
    /// Requests that [`max_timeouts`](Info::max_timeouts) has refused to this context.
    refused: u64,
    /// Timeouts that fit into the memory of all contexts of the user who opened this one.
    user_timeouts: u32,
    /// Limit of [`user_timeouts`](Info::user_timeouts).
    max_user_timeouts: u32,
    /// Requests of the user that [`max_user_timeouts`](Info::max_user_timeouts) has refused.
    user_refused: u64,
    /// Requests of the user that the limit of all users' timeouts has refused.
    all_refused: u64,
    /// Memory of the private wheels of all contexts of the user.
    wheel_bytes: u64,
    /// Limit of [`wheel_bytes`](Info::wheel_bytes).
    max_wheel_bytes: u64,
    /// Requests of the user that [`max_wheel_bytes`](Info::max_wheel_bytes) has refused.
    wheel_refused: u64,
}

numbers! { Stats:
    /// Successful arms.
    armed: u64,
    /// Successful modifications.
    moved: u64,
    /// Timeouts that were cancelled while pending.
    cancelled: u64,
    /// Timeouts that were cancelled with their event unread.
    withdrawn: u64,
    /// Timeouts whose last event was read, and cells that ended idle.
    ended: u64,
    /// Events of timeouts that fired.
    fired: u64,
    /// Looks at the word of a cell at a time that was published.
    looks: u64,
    /// Looks at the word of a cell for an arm.
    kicks: u64,
    /// Events of cells that were withdrawn through the word.
    dropped: u64,
    /// Events made by [`stop`](crate::Context::stop).
    unprocessed: u64,
    /// Events read.
    read: u64,
    /// Live timeouts.
    live: u32,
    /// Unread events.
    ready: u32,
}
