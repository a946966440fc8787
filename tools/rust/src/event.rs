// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Expirations, as they are read.

use twheel_sys as sys;

use crate::op::Id;
use crate::time::Time;

/// One or more expirations of a timeout.
///
/// The default value is room for an event.
#[derive(Clone, Copy, Debug, Default)]
#[repr(transparent)]
pub struct Event {
    raw: sys::twheel_event,
}

impl Event {
    /// The timeout.
    #[must_use]
    pub fn id(&self) -> Id {
        Id::from_raw(self.raw.id)
    }

    /// The cookie of the last arm or modification.
    #[must_use]
    pub fn cookie(&self) -> u64 {
        self.raw.cookie
    }

    /// The deadline, on the clock of the context; the last one if [`count`](Event::count) is
    /// above 1. Of a cell: the time it was armed for.
    #[must_use]
    pub fn expires(&self) -> Time {
        Time::from_nanos(self.raw.expires_ns)
    }

    /// Time when the timeout fired, not before its first deadline. Of an unprocessed event: time
    /// of the stop.
    #[must_use]
    pub fn fired(&self) -> Time {
        Time::from_nanos(self.raw.fired_ns)
    }

    /// Number of deadlines that had passed when the event was read; 0 if it is unprocessed.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.raw.count
    }

    /// Is it the last event, after which the id is no longer valid?
    #[must_use]
    pub fn is_last(&self) -> bool {
        self.raw.flags & sys::TWHEEL_EV_LAST != 0
    }

    /// Was the context stopped before the timeout fired?
    #[must_use]
    pub fn is_unprocessed(&self) -> bool {
        self.raw.flags & sys::TWHEEL_EV_UNPROCESSED != 0
    }
}
