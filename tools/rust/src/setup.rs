// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Settings of a new context.

use std::path::Path;
use std::time::Duration;

use crate::abi;
use crate::context::{Context, DEVICE};
use crate::error::Result;
use crate::sys;
use crate::time::{micros, nanos, Clock};

/// Settings for a new context. Unset fields have their defaults.
///
/// ```no_run
/// use std::time::Duration;
/// use twheel::{Clock, Setup};
///
/// let context = Setup::new().clock(Clock::Boottime).slack(Duration::from_millis(50)).open()?;
/// # Ok::<(), twheel::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Setup {
    raw: abi::Setup,
}

impl Setup {
    /// All defaults.
    #[must_use]
    pub fn new() -> Setup {
        Setup::default()
    }

    /// The clock; by default [`Clock::Monotonic`].
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Setup {
        self.raw.clock = clock.id() as u32;
        self.raw.flags |= abi::SETUP_CLOCK;
        self
    }

    /// Length of a tick; zero: the default. Another tick makes a private wheel. Below 100 us it
    /// needs `CAP_SYS_RESOURCE`.
    #[must_use]
    pub fn tick(mut self, tick: Duration) -> Setup {
        self.raw.tick_ns = nanos(tick);
        self
    }

    /// Number of slots of the first level, rounded up to a power of two; 0: the default. It is
    /// advice: [`Context::info`] returns the actual number.
    #[must_use]
    pub fn slots(mut self, slots: u32) -> Setup {
        self.raw.slots = slots;
        self
    }

    /// 1: a hashed wheel, which needs CAP_SYS_RESOURCE; any other number: a hierarchy.
    #[must_use]
    pub fn levels(mut self, levels: u32) -> Setup {
        self.raw.levels = levels;
        self
    }

    /// Limit of live timeouts; 0: the default. A limit above the default needs
    /// `CAP_SYS_RESOURCE`.
    #[must_use]
    pub fn max_timeouts(mut self, limit: u32) -> Setup {
        self.raw.max_timeouts = limit;
        self
    }

    /// Default slack of timeouts and cells, rounded down to microseconds, at most `u32::MAX` of
    /// them.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Setup {
        self.raw.slack_us = micros(slack);
        self
    }

    /// Open a context with these settings.
    ///
    /// # Errors
    ///
    /// As [`Context::open`]; [`Error::System`](crate::Error::System): `EINVAL` for an invalid
    /// value; `EPERM` if the limit or the geometry needs `CAP_SYS_RESOURCE`; `EAGAIN` if the
    /// private wheels of the user take too much memory; `ENOMEM`.
    pub fn open(&self) -> Result<Context> {
        self.open_path(DEVICE)
    }

    /// The same with another path of the device.
    ///
    /// # Errors
    ///
    /// As [`open`](Setup::open).
    pub fn open_path(&self, path: impl AsRef<Path>) -> Result<Context> {
        Context::from_file(path.as_ref(), |fd| sys::pass(fd, self.raw).map(drop))
    }
}
