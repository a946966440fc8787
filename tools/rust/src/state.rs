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

/// Functions that return a field.
macro_rules! numbers {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        impl Info {
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

numbers! {
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
