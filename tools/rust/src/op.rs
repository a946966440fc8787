// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Operations on timeouts, for single calls and for batches.

use std::io;
use std::time::{Duration, Instant};

use twheel_sys as sys;

use crate::error::{check, Result};
use crate::list::Timeout;
use crate::time::{micros, nanos, Deadline};

/// Names a timeout in its context. It is never 0 and never used again.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(transparent)]
pub struct Id(u64);

impl Id {
    /// An id that came from [`Id::as_raw`], perhaps in another process that shares the context.
    #[must_use]
    pub fn from_raw(raw: u64) -> Id {
        Id(raw)
    }

    /// Its place in its context, which later timeouts have, too.
    #[cfg(target_has_atomic = "64")]
    pub(crate) fn index(self) -> u32 {
        self.0 as u32
    }

    /// The number that the kernel uses.
    #[must_use]
    pub fn as_raw(self) -> u64 {
        self.0
    }
}

/// What a timeout was before an operation changed it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum Outcome {
    /// It was pending: that arming will not fire. Also the outcome of a successful arm.
    Pending,
    /// It had fired: its event was unread, and will not be read.
    Withdrawn,
    /// It was an idle cell.
    Idle,
}

impl Outcome {
    fn of_result(result: u32) -> Outcome {
        match result {
            sys::TWHEEL_WITHDRAWN => Outcome::Withdrawn,
            sys::TWHEEL_IDLE => Outcome::Idle,
            _ => Outcome::Pending,
        }
    }
}

/// One operation, for [`Context::operate`](crate::Context::operate) and
/// [`Context::submit`](crate::Context::submit).
///
/// ```no_run
/// use std::time::Duration;
/// use twheel::{Context, Op};
///
/// let context = Context::open()?;
/// let second = Duration::from_secs(1);
/// let mut ops: Vec<Op> = (0..1000).map(|cookie| Op::arm(second, cookie)).collect();
/// ops.push(Op::arm(second, 1000).every(second).slack(second / 8));
/// context.submit(&mut ops)?;
/// for op in &ops {
///     println!("{:?}", op.id()?);
/// }
/// # Ok::<(), twheel::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct Op {
    pub(crate) raw: sys::twheel_op,
}

impl Op {
    fn new(opcode: u32, id: u64) -> Op {
        // until it is carried out
        let result = -libc::ECANCELED;
        Op { raw: sys::twheel_op { opcode, id, result, ..sys::twheel_op::default() } }
    }

    fn due(mut self, deadline: Deadline, cookie: u64) -> Op {
        match deadline {
            Deadline::After(duration) => self.raw.expires_ns = nanos(duration),
            Deadline::Until(instant) => {
                self.raw.expires_ns = nanos(instant.saturating_duration_since(Instant::now()));
            }
            Deadline::At(time) => {
                self.raw.expires_ns = time.as_nanos();
                self.raw.flags |= sys::TWHEEL_F_ABS;
            }
        }
        self.raw.cookie = cookie;
        self
    }

    /// Arm a new timeout. The cookie is returned in its event.
    #[must_use]
    pub fn arm(deadline: impl Into<Deadline>, cookie: u64) -> Op {
        Op::new(sys::TWHEEL_OP_ARM, 0).due(deadline.into(), cookie)
    }

    /// Arm a timeout anew, as [`Context::modify`](crate::Context::modify).
    #[must_use]
    pub fn modify(id: Id, deadline: impl Into<Deadline>, cookie: u64) -> Op {
        Op::new(sys::TWHEEL_OP_MOD, id.0).due(deadline.into(), cookie)
    }

    /// End a timeout without an event.
    #[must_use]
    pub fn cancel(id: Id) -> Op {
        Op::new(sys::TWHEEL_OP_CANCEL, id.0)
    }

    /// Get the state of a timeout, which [`timeout`](Op::timeout) returns.
    #[must_use]
    pub fn get(id: Id) -> Op {
        Op::new(sys::TWHEEL_OP_GET, id.0)
    }

    /// The state that [`get`](Op::get) has found.
    ///
    /// # Errors
    ///
    /// As [`outcome`](Op::outcome); `EINVAL` for another operation.
    pub fn timeout(&self) -> Result<Timeout> {
        if self.raw.opcode != sys::TWHEEL_OP_GET {
            return Err(io::Error::from_raw_os_error(libc::EINVAL).into());
        }
        self.outcome().map(|_| Timeout::of_op(&self.raw))
    }

    /// Makes an idle cell. The real-time clock takes absolute times only, also this one.
    #[cfg(target_has_atomic = "64")]
    pub(crate) fn cell(cookie: u64) -> Op {
        let mut op = Op::new(sys::TWHEEL_OP_ARM, 0);
        op.raw.expires_ns = sys::TWHEEL_CELL_IDLE;
        op.raw.flags = sys::TWHEEL_F_CELL | sys::TWHEEL_F_ABS;
        op.raw.cookie = cookie;
        op
    }

    /// Make an arm or modification periodic: from one deadline to the next, without end. The
    /// event counts the deadlines that pass while it is unread. Zero: one-shot.
    #[must_use]
    pub fn every(mut self, interval: Duration) -> Op {
        self.raw.interval_ns = nanos(interval);
        self
    }

    /// Limit the deadlines of a periodic timeout to that number; 0: no end. Without an interval
    /// the operation fails with `EINVAL`.
    #[must_use]
    pub fn times(mut self, count: u32) -> Op {
        self.raw.repeat = count;
        self
    }

    /// Start each interval when the event is read. Without an interval the operation fails with
    /// `EINVAL`.
    #[must_use]
    pub fn fixed_delay(mut self) -> Op {
        self.raw.flags |= sys::TWHEEL_F_FIXED_DELAY;
        self
    }

    /// Let an arm or modification share the wakeup of others: maximum added delay. It is
    /// rounded down to microseconds and limited to `u32::MAX` of them, 71 minutes. Less than a
    /// microsecond selects the slack of the context.
    #[must_use]
    pub fn slack(mut self, slack: Duration) -> Op {
        self.raw.slack_us = micros(slack);
        self
    }

    /// No slack, even if the context has slack. Together with [`slack`](Op::slack) the operation
    /// fails with `EINVAL`.
    #[must_use]
    pub fn exact(mut self) -> Op {
        self.raw.flags |= sys::TWHEEL_F_EXACT;
        self
    }

    /// The outcome after the operation was carried out; of [`arm`](Op::arm) and [`get`](Op::get)
    /// always [`Outcome::Pending`].
    ///
    /// # Errors
    ///
    /// [`Gone`](crate::Error::Gone) if the timeout does not exist or its last event was read; `Limit` and
    /// `Stopped` of [`arm`](Op::arm); `Stopped` of [`modify`](Op::modify). `System`: `EINVAL`,
    /// `ENOMEM`, `EBADF`; `ECANCELED` if it was not tried.
    pub fn outcome(&self) -> Result<Outcome> {
        check(self.raw.result).map(Outcome::of_result)
    }

    /// The timeout: of [`arm`](Op::arm) the new one.
    ///
    /// # Errors
    ///
    /// As [`outcome`](Op::outcome).
    pub fn id(&self) -> Result<Id> {
        self.outcome().map(|_| Id(self.raw.id))
    }

    pub(crate) fn raw_slice(ops: &mut [Op]) -> *mut sys::twheel_op {
        // The structure is transparent, and has no invariants.
        ops.as_mut_ptr().cast()
    }
}
