// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Settings of a new context.

use std::path::PathBuf;
use std::time::Duration;

use twheel_sys as sys;

use crate::context::Context;
#[cfg(target_has_atomic = "64")]
use crate::error::Error;
use crate::error::Result;
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
    raw: sys::twheel_setup,
    flags: u32,
    path: Option<PathBuf>,
}

/// The owner of the wheel of a context. [`Setup::backend`] chooses it, unless the environment
/// variable `TWHEEL_BACKEND` does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Backend {
    /// The kernel, behind `/dev/twheel`.
    Kernel,
    /// The process itself, which needs no module.
    Process,
}

impl Setup {
    /// All defaults.
    #[must_use]
    pub fn new() -> Setup {
        Setup::default()
    }

    /// Use the device or fail, or use a wheel in the process. By default, the latter replaces a
    /// device that is missing or not permitted.
    #[must_use]
    pub fn backend(mut self, backend: Backend) -> Setup {
        self.flags = match backend {
            Backend::Kernel => sys::TWHEEL_KERNEL,
            Backend::Process => sys::TWHEEL_PROCESS,
        };
        self
    }

    /// Use the device at a path, or fail.
    #[must_use]
    pub fn path(mut self, path: impl Into<PathBuf>) -> Setup {
        self.path = Some(path.into());
        self
    }

    /// Have a clock that starts at 0 and that only [`Context::set_time`] moves, for tests of
    /// programs: timeouts of minutes fire in microseconds. It needs a wheel in the process, which
    /// this chooses, too. Without [`tick`](Setup::tick) it has a tick of 1 ns.
    #[must_use]
    pub fn manual(mut self) -> Setup {
        self.raw.flags |= sys::TWHEEL_SETUP_MANUAL;
        self.backend(Backend::Process)
    }

    /// The clock; by default [`Clock::Monotonic`].
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Setup {
        self.raw.clock = clock.id() as u32;
        self.raw.flags |= sys::TWHEEL_SETUP_CLOCK;
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

    /// The same with a wheel in the process, if it may replace a device that has no cells.
    #[cfg(target_has_atomic = "64")]
    pub(crate) fn without_cells(&self, error: Error) -> Result<Setup> {
        match error {
            Error::System(error)
                if error.raw_os_error() == Some(libc::EOPNOTSUPP)
                    && self.flags == 0
                    && self.path.is_none() =>
            {
                Ok(self.clone().backend(Backend::Process))
            }
            error => Err(error),
        }
    }

    /// Open a context with these settings.
    ///
    /// # Errors
    ///
    /// As [`Context::open`]; [`Error::System`](crate::Error::System): `ENOTTY` if the path is not
    /// that of a twheel device; `EINVAL` for an invalid value; `EPERM` if the limit or the geometry needs `CAP_SYS_RESOURCE`; `EAGAIN` if the
    /// private wheels of the user take too much memory; `ENOMEM`.
    pub fn open(&self) -> Result<Context> {
        Context::with_setup(self.path.as_deref(), self.flags, &self.raw)
    }
}
