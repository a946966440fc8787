// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! A context of the library: an open device, or a wheel in the process.

use std::ffi::CString;
use std::fmt;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::io::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;
use std::time::{Duration, Instant};

use twheel_sys as sys;

#[cfg(target_has_atomic = "64")]
use crate::cell::{Cell, Handles};
use crate::error::{check_system, Error, Result};
use crate::event::Event;
use crate::list::{Timeout, Timeouts};
use crate::op::{Id, Op, Outcome};
use crate::setup::Setup;
use crate::state::{Info, Stats};
use crate::time::{nanos, Clock, Deadline, Time};

/// An open `/dev/twheel`, or a wheel in the process, with its own timeouts, queue of events and
/// limits.
///
/// A clone is another handle of the same context. Pending timeouts are cancelled when the last
/// handle is dropped, a [`Cell`] included, unless another process shares the context.
///
/// For poll(), epoll and tokio's `AsyncFd`: the descriptor is readable while an event is unread, and
/// after [`stop`](Context::stop). That of a wheel in the process may also be readable without an
/// event; then a read that does not wait sets it right.
#[derive(Clone)]
pub struct Context {
    inner: Arc<Inner>,
}

struct Inner {
    ctx: NonNull<sys::twheel_ctx>,
    clock: Clock,
    is_manual: bool,
    /// The zero of the clock, if it runs as `Instant` does, or is manual.
    #[cfg(target_has_atomic = "64")]
    zero: Option<Instant>,
    #[cfg(target_has_atomic = "64")]
    handles: Handles,
    /// Of a context that was open before. The library does not close it.
    _fd: Option<OwnedFd>,
}

// SAFETY: the library allows all calls in any thread
unsafe impl Send for Inner {}
// SAFETY: and at the same time, but for twheel_configure() and twheel_close(), for which there is
// one owner
unsafe impl Sync for Inner {}

impl Drop for Inner {
    fn drop(&mut self) {
        // SAFETY: nobody else has it
        unsafe { sys::twheel_close(self.ctx.as_ptr()) };
    }
}

/// Timeouts that [`Context::cancel_all`] or [`Context::cancel_cookie`] has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Found {
    /// Number of timeouts that were pending and will not fire.
    pub pending: u32,
    /// Number of timeouts whose event was unread and will not be read.
    pub withdrawn: u32,
}

impl Context {
    /// Open a new context with the default settings; [`Setup`](crate::Setup) has others. The
    /// descriptor is closed in exec().
    ///
    /// If the device is missing or not permitted, the context is a wheel in the process. The
    /// environment variable `TWHEEL_BACKEND` chooses, too: `kernel` or `process`.
    ///
    /// # Errors
    ///
    /// [`Error::Open`] for another value of `TWHEEL_BACKEND`, and if a device that must be used
    /// cannot be opened; [`Error::System`]: `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn open() -> Result<Context> {
        Setup::new().open()
    }

    /// Use an open device, for example received over a socket. It must have its
    /// [`Setup`](crate::Setup) by then. In another time namespace than that of the opener, cells
    /// take only a [`Time`].
    ///
    /// # Errors
    ///
    /// [`Error::System`]: `ENOTTY` if it is not a twheel device; `EOPNOTSUPP` if it is of a wheel
    /// in a process.
    pub fn from_fd(fd: OwnedFd) -> Result<Context> {
        let mut ctx = ptr::null_mut();
        // SAFETY: the descriptor lives as long as the context
        check_system(unsafe { sys::twheel_open_fd(fd.as_raw_fd(), &mut ctx) })?;
        Context::new(ctx, None, Some(fd))
    }

    pub(crate) fn with_setup(
        path: Option<&Path>,
        flags: u32,
        setup: &sys::twheel_setup,
    ) -> Result<Context> {
        let name = path.map(|path| CString::new(path.as_os_str().as_bytes())).transpose();
        let name = name.map_err(io::Error::from)?;
        let (name, mut ctx) = (name.as_ref().map_or(ptr::null(), |n| n.as_ptr()), ptr::null_mut());
        // SAFETY: the path ends with a 0
        match unsafe { sys::twheel_open(name, flags, &mut ctx) } {
            0 => Context::new(ctx, Some(setup), None),
            error => Err(Error::of_open(path, -error)),
        }
    }

    fn new(
        ctx: *mut sys::twheel_ctx,
        setup: Option<&sys::twheel_setup>,
        fd: Option<OwnedFd>,
    ) -> Result<Context> {
        let mut inner = Inner {
            ctx: NonNull::new(ctx).expect("a context"),
            clock: Clock::Monotonic,
            is_manual: setup.map_or(false, |setup| setup.flags & sys::TWHEEL_SETUP_MANUAL != 0),
            #[cfg(target_has_atomic = "64")]
            zero: None,
            #[cfg(target_has_atomic = "64")]
            handles: Handles::default(),
            _fd: fd,
        };
        if let Some(setup) = setup {
            // SAFETY: it is the first call, and the only one
            check_system(unsafe { sys::twheel_configure(ctx, setup) })?;
        }
        let mut info = sys::twheel_info::default();
        // SAFETY: the context is open
        check_system(unsafe { sys::twheel_get_info(ctx, &mut info) })?;
        // A kernel may have clocks that this crate does not know.
        let unknown = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
        inner.clock = Clock::of_id(info.clock).ok_or_else(unknown)?;
        #[cfg(target_has_atomic = "64")]
        if inner.is_manual || inner.clock == Clock::Monotonic {
            inner.zero = Some(inner.zero());
        }
        Ok(Context { inner: Arc::new(inner) })
    }

    /// For calls of the library, which is safe while the context lives.
    #[inline]
    pub(crate) fn raw(&self) -> *mut sys::twheel_ctx {
        self.inner.ctx.as_ptr()
    }

    #[cfg(target_has_atomic = "64")]
    pub(crate) fn handles(&self) -> &Handles {
        &self.inner.handles
    }

    #[cfg(target_has_atomic = "64")]
    pub(crate) fn is_manual(&self) -> bool {
        self.inner.is_manual
    }

    /// Read the clock of the context. Correct in the time namespace in which it was opened.
    #[must_use]
    pub fn now(&self) -> Time {
        self.inner.now()
    }

    /// Set the clock of a context with [`Setup::manual`](crate::Setup::manual). Timeouts that are
    /// due are unread events when the call returns. A time before the current one fires nothing.
    ///
    /// # Errors
    ///
    /// [`Error::System`]: `EINVAL` if the clock is not manual; `EOPNOTSUPP` of the device.
    pub fn set_time(&self, time: Time) -> Result<()> {
        // SAFETY: of raw()
        check_system(unsafe { sys::twheel_set_time(self.raw(), time.as_nanos()) }).map(drop)
    }

    /// The time of a deadline of a cell. Refuses the deadlines that the kernel refuses.
    #[cfg(target_has_atomic = "64")]
    #[inline]
    pub(crate) fn time_of(&self, deadline: Deadline) -> Result<Time> {
        match deadline {
            Deadline::At(time) => Ok(time),
            _ if self.inner.clock == Clock::Realtime => {
                Err(io::Error::from_raw_os_error(libc::EINVAL).into())
            }
            Deadline::After(duration) => Ok(self.now() + duration),
            Deadline::Until(instant) => {
                Ok(Time::default() + instant.saturating_duration_since(self.inner.zero()))
            }
        }
    }

    /// The instant of a time. If `Instant` has another clock: as the clocks are now.
    #[cfg(target_has_atomic = "64")]
    pub(crate) fn instant_of(&self, time: Time) -> Instant {
        self.inner.zero() + (time - Time::default())
    }

    /// The current instant, which a manual clock has its own of.
    #[cfg(target_has_atomic = "64")]
    #[inline]
    pub(crate) fn instant(&self) -> Instant {
        if self.inner.is_manual {
            self.instant_of(self.now())
        } else {
            Instant::now()
        }
    }

    /// Arm a new timeout. Its event has the cookie. Another thread may read the event before this
    /// call returns. [`Op`] has intervals and slack.
    ///
    /// # Errors
    ///
    /// [`Error::Limit`]; [`Error::Stopped`]; [`Error::System`]: `ENOMEM`, `EBADF`, and `EINVAL`
    /// for a relative deadline on [`Clock::Realtime`].
    pub fn arm(&self, deadline: impl Into<Deadline>, cookie: u64) -> Result<Id> {
        let mut op = Op::arm(deadline, cookie);
        self.operate(&mut op)?;
        op.id()
    }

    /// Arm a timeout anew. It replaces all of the earlier arming, including cookie, interval and
    /// slack. After success no event of the earlier arming is read. Not for cells.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`]; [`Error::Stopped`]; [`Error::System`]: `EINVAL` for a cell and as
    /// [`arm`](Context::arm).
    pub fn modify(&self, id: Id, deadline: impl Into<Deadline>, cookie: u64) -> Result<Outcome> {
        self.operate(&mut Op::modify(id, deadline, cookie))
    }

    /// End a timeout. After success no event of it is read. Cells end when they are dropped: do
    /// not end them here.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`]; [`Error::System`]: `EBADF` if the context is open for reading only.
    pub fn cancel(&self, id: Id) -> Result<Outcome> {
        self.operate(&mut Op::cancel(id))
    }

    /// Get the state of a timeout.
    ///
    /// # Errors
    ///
    /// [`Error::Gone`].
    pub fn get(&self, id: Id) -> Result<Timeout> {
        let mut op = Op::get(id);
        self.operate(&mut op)?;
        op.timeout()
    }

    /// Carry out one operation. Its output is in `op`.
    ///
    /// # Errors
    ///
    /// As [`Op::outcome`].
    pub fn operate(&self, op: &mut Op) -> Result<Outcome> {
        // SAFETY: of raw()
        op.raw.result = unsafe { sys::twheel_operate(self.raw(), &mut op.raw) };
        op.outcome()
    }

    /// Carry out many operations with one system call, in order. One that fails does not stop
    /// the others: see the [outcome](Op::outcome) of each.
    ///
    /// # Errors
    ///
    /// [`Error::System`]: `EINVAL` above `i32::MAX` operations; `EBADF` if the context is open
    /// for reading only. Then none was tried.
    pub fn submit(&self, ops: &mut [Op]) -> Result<()> {
        let nr = u32::try_from(ops.len()).unwrap_or(u32::MAX);
        // SAFETY: the array is borrowed until the call returns. If there are more, none is tried.
        check_system(unsafe { sys::twheel_submit_ops(self.raw(), Op::raw_slice(ops), nr) })
            .map(drop)
    }

    /// Make a cell, which is idle. Its events have the cookie.
    ///
    /// # Errors
    ///
    /// [`Error::Limit`]; [`Error::Stopped`]; [`Error::System`]: `EOPNOTSUPP` if the kernel has no
    /// cells; `EACCES` if the context is not open for reading and writing; `ENOMEM`, also without
    /// address space for 16 bytes per timeout of the limit.
    #[cfg(target_has_atomic = "64")]
    pub fn cell(&self, cookie: u64) -> Result<Cell> {
        Cell::new(self, cookie)
    }

    /// End all timeouts without an event. Unread events are withdrawn. Timeouts that are armed
    /// meanwhile may or may not be cancelled.
    ///
    /// This ends cells, too. A [`Cell`] that is left cannot be armed any more. While it is there,
    /// its memory serves no other cell, and may hold back one of the limit.
    ///
    /// # Errors
    ///
    /// [`Error::System`]: `EBADF` if the context is open for reading only.
    pub fn cancel_all(&self) -> Result<Found> {
        let mut found = sys::twheel_cancel_all::default();
        // SAFETY: of raw()
        check_system(unsafe { sys::twheel_cancel_timeouts(self.raw(), &mut found) })?;
        Ok(Found { pending: found.pending, withdrawn: found.withdrawn })
    }

    /// The same for the timeouts with one cookie. The cost grows with the number of all
    /// timeouts of the context.
    ///
    /// # Errors
    ///
    /// As [`cancel_all`](Context::cancel_all).
    pub fn cancel_cookie(&self, cookie: u64) -> Result<Found> {
        let mut found = sys::twheel_cancel_all::default();
        // SAFETY: of raw()
        check_system(unsafe { sys::twheel_cancel_cookie(self.raw(), cookie, &mut found) })?;
        Ok(Found { pending: found.pending, withdrawn: found.withdrawn })
    }

    /// Stop all timeouts for good. Nothing can be armed any more. Each pending timeout makes an
    /// [unprocessed](Event::is_unprocessed) event, in no order. After the last event has been
    /// read, [`read`](Context::read) returns an empty slice. A second call changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::System`]: `EBADF` if the context is open for reading only.
    pub fn stop(&self) -> Result<()> {
        // SAFETY: of raw()
        check_system(unsafe { sys::twheel_stop(self.raw()) }).map(drop)
    }

    /// The live timeouts, in no particular order. A timeout that is armed or ends meanwhile may
    /// or may not be listed.
    #[must_use]
    pub fn timeouts(&self) -> Timeouts<'_> {
        Timeouts::new(self)
    }

    /// Get settings and fill level.
    pub fn info(&self) -> Result<Info> {
        let mut raw = sys::twheel_info::default();
        // SAFETY: of raw()
        check_system(unsafe { sys::twheel_get_info(self.raw(), &mut raw) })?;
        Ok(Info { raw, clock: self.inner.clock })
    }

    /// Get statistics.
    pub fn stats(&self) -> Result<Stats> {
        let mut raw = sys::twheel_stats::default();
        // SAFETY: of raw()
        check_system(unsafe { sys::twheel_get_stats(self.raw(), &mut raw) })?;
        Ok(Stats { raw })
    }

    /// Wait until an event can be read, or until none can follow after [`stop`](Context::stop).
    /// Returns false after the timeout; `None`: no limit. A later read may find no event: another
    /// thread may have read it, or a cell withdrawn it.
    ///
    /// # Errors
    ///
    /// [`Error::System`]: `EINTR` if a signal handler ran.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        // SAFETY: of raw()
        Ok(check_system(unsafe { sys::twheel_wait(self.raw(), wait_ns(timeout)) })? != 0)
    }

    /// Take events out of the queue, at least one, in the order in which they fired. Waits for the
    /// first one, at most for the timeout; `None`: no limit. Returns an empty slice if no event
    /// can follow after [`stop`](Context::stop).
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`]; [`Error::System`]: `EINTR` if a signal handler ran; `EINVAL` without
    /// room; `EBADF` if the context is open for writing only.
    pub fn read<'a>(
        &self,
        room: &'a mut [Event],
        timeout: Option<Duration>,
    ) -> Result<&'a [Event]> {
        let nr = u32::try_from(room.len()).unwrap_or(u32::MAX);
        let events = room.as_mut_ptr().cast();
        // SAFETY: the room is borrowed until the call returns; an event is transparent
        match unsafe { sys::twheel_read(self.raw(), events, nr, wait_ns(timeout)) } {
            found if found >= 0 => Ok(&room[..found as usize]),
            error if -error == libc::EAGAIN || -error == libc::ETIMEDOUT => Err(Error::TimedOut),
            error => Err(io::Error::from_raw_os_error(-error).into()),
        }
    }
}

/// Of a time that the library waits for.
fn wait_ns(timeout: Option<Duration>) -> i64 {
    timeout.map_or(-1, |timeout| nanos(timeout) as i64)
}

impl Inner {
    fn now(&self) -> Time {
        let mut now = 0;
        // SAFETY: the context is open. The call does not fail.
        unsafe { sys::twheel_now(self.ctx.as_ptr(), &mut now) };
        Time::from_nanos(now)
    }

    /// The zero of the clock as an `Instant`, which is read first: it is never too late. The later
    /// of several is the better one, since the thread may have been preempted between two readings.
    #[cfg(target_has_atomic = "64")]
    fn zero(&self) -> Instant {
        let read = |_| Instant::now() - (self.now() - Time::default());
        self.zero.unwrap_or_else(|| (0..3).map(read).max().expect("three readings"))
    }
}

impl AsFd for Context {
    fn as_fd(&self) -> BorrowedFd<'_> {
        // SAFETY: it is open as long as the context
        unsafe { BorrowedFd::borrow_raw(self.as_raw_fd()) }
    }
}

impl AsRawFd for Context {
    fn as_raw_fd(&self) -> RawFd {
        // SAFETY: of raw()
        unsafe { sys::twheel_fd(self.raw()) }
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("fd", &self.as_raw_fd())
            .field("clock", &self.inner.clock)
            .finish()
    }
}
