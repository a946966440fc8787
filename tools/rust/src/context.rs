// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! An open of the device.

use std::fmt;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::io::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::abi::{self, Stats};
#[cfg(target_has_atomic = "64")]
use crate::cell::{Cell, Cells};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::list::{Timeout, Timeouts};
use crate::op::{Id, Op, Outcome};
use crate::state::Info;
use crate::sys;
use crate::time::{Clock, Deadline, Time};

pub(crate) const DEVICE: &str = "/dev/twheel";

/// An open of `/dev/twheel`, with its own timeouts, queue of events and limits.
///
/// A clone is another handle of the same context. Pending timeouts are cancelled when the last
/// handle is dropped, a [`Cell`] included, unless another process shares the context.
///
/// For poll() and epoll: the descriptor is readable while an event is unread, and after
/// [`stop`](Context::stop).
#[derive(Clone)]
pub struct Context {
    file: Arc<File>,
}

struct File {
    fd: OwnedFd,
    clock: Clock,
    /// The zero of the clock, if it runs as `Instant` does.
    #[cfg(target_has_atomic = "64")]
    zero: Option<Instant>,
    #[cfg(target_has_atomic = "64")]
    cells: Cells,
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
    /// # Errors
    ///
    /// [`Error::Open`] if the module is not loaded, or without permission; [`Error::System`]:
    /// `EMFILE`, `ENFILE`, `ENOMEM`.
    pub fn open() -> Result<Context> {
        Context::open_path(DEVICE)
    }

    /// The same with another path of the device.
    ///
    /// # Errors
    ///
    /// As [`open`](Context::open); `ENOTTY` if it is not a twheel device.
    pub fn open_path(path: impl AsRef<Path>) -> Result<Context> {
        Context::from_file(path.as_ref(), |_| Ok(()))
    }

    /// Use a context that is open already, for example received over a socket. It must have its
    /// [`Setup`](crate::Setup) by then. In another time namespace than that of the opener, cells
    /// take only a [`Time`].
    ///
    /// # Errors
    ///
    /// [`Error::System`]: `ENOTTY` if it is not a twheel device.
    pub fn from_fd(fd: OwnedFd) -> Result<Context> {
        let clock = clock_of(&sys::get(fd.as_fd())?)?;
        let file = File {
            fd,
            clock,
            #[cfg(target_has_atomic = "64")]
            zero: (clock == Clock::Monotonic).then(|| zero_of(clock)),
            #[cfg(target_has_atomic = "64")]
            cells: Cells::default(),
        };
        Ok(Context { file: Arc::new(file) })
    }

    pub(crate) fn from_file(
        path: &Path,
        setup: impl FnOnce(BorrowedFd<'_>) -> io::Result<()>,
    ) -> Result<Context> {
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| Error::of_open(path, error))?;
        // A file in place of the device: 'exec 3<>/dev/twheel' of root leaves one.
        if file.metadata()?.is_file() {
            return Err(Error::of_open(path, io::Error::from_raw_os_error(libc::ENODEV)));
        }
        let fd = OwnedFd::from(file);
        setup(fd.as_fd())?;
        Context::from_fd(fd)
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.file.fd.as_fd()
    }

    #[cfg(target_has_atomic = "64")]
    pub(crate) fn cells(&self) -> &Cells {
        &self.file.cells
    }

    /// Read the clock of the context. Correct in the time namespace in which it was opened.
    #[must_use]
    pub fn now(&self) -> Time {
        Time::from_nanos(sys::now(self.file.clock.id()))
    }

    /// The time of a deadline of a cell. Refuses the deadlines that the kernel refuses.
    #[cfg(target_has_atomic = "64")]
    #[inline]
    pub(crate) fn time_of(&self, deadline: Deadline) -> Result<Time> {
        match deadline {
            Deadline::At(time) => Ok(time),
            _ if self.file.clock == Clock::Realtime => {
                Err(io::Error::from_raw_os_error(libc::EINVAL).into())
            }
            Deadline::After(duration) => Ok(self.now() + duration),
            Deadline::Until(instant) => {
                Ok(Time::default() + instant.saturating_duration_since(self.zero()))
            }
        }
    }

    /// The instant of a time. If `Instant` has another clock: as the clocks are now.
    #[cfg(all(feature = "tokio", target_has_atomic = "64"))]
    pub(crate) fn instant_of(&self, time: Time) -> Instant {
        self.zero() + (time - Time::default())
    }

    #[cfg(target_has_atomic = "64")]
    fn zero(&self) -> Instant {
        self.file.zero.unwrap_or_else(|| zero_of(self.file.clock))
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
        op.raw_mut().result = match sys::operate(self.fd(), op.raw_mut()) {
            Ok(outcome) => outcome as i32,
            Err(error) => -error.raw_os_error().unwrap_or(libc::EIO),
        };
        op.outcome()
    }

    /// Carry out many operations with one system call, in order. One that fails does not stop
    /// the others: see the [outcome](Op::outcome) of each.
    ///
    /// # Errors
    ///
    /// [`Error::System`]: `EINVAL` above `u32::MAX` operations; `EBADF` if the context is open
    /// for reading only. Then none was tried.
    pub fn submit(&self, ops: &mut [Op]) -> Result<()> {
        sys::submit(self.fd(), Op::raw_slice(ops))?;
        Ok(())
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
    /// This ends cells too: drop each [`Cell`] before. A later cell reuses the memory of one that
    /// has ended, so that arming a handle that is left would arm the later cell.
    ///
    /// # Errors
    ///
    /// [`Error::System`]: `EBADF` if the context is open for reading only.
    pub fn cancel_all(&self) -> Result<Found> {
        self.cancel_found(abi::CancelAll::default())
    }

    /// The same for the timeouts with one cookie. The cost grows with the number of all
    /// timeouts of the context.
    ///
    /// # Errors
    ///
    /// As [`cancel_all`](Context::cancel_all).
    pub fn cancel_cookie(&self, cookie: u64) -> Result<Found> {
        self.cancel_found(abi::CancelAll {
            cookie,
            flags: abi::CANCEL_COOKIE,
            ..abi::CancelAll::default()
        })
    }

    fn cancel_found(&self, request: abi::CancelAll) -> Result<Found> {
        let abi::CancelAll { pending, withdrawn, .. } = sys::pass(self.fd(), request)?;
        Ok(Found { pending, withdrawn })
    }

    /// Stop all timeouts for good. Nothing can be armed any more. Each pending timeout makes an
    /// [unprocessed](Event::is_unprocessed) event, in no order. After the last event has been
    /// read, [`read`](Context::read) returns an empty slice. A second call changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::System`]: `EBADF` if the context is open for reading only.
    pub fn stop(&self) -> Result<()> {
        Ok(sys::stop(self.fd())?)
    }

    /// The live timeouts, in no particular order. A timeout that is armed or ends meanwhile may
    /// or may not be listed.
    #[must_use]
    pub fn timeouts(&self) -> Timeouts<'_> {
        Timeouts::new(self)
    }

    /// Get settings and fill level.
    ///
    /// # Errors
    ///
    /// None for a context that is open.
    pub fn info(&self) -> Result<Info> {
        Ok(Info::new(sys::get(self.fd())?, self.file.clock))
    }

    /// Get statistics.
    ///
    /// # Errors
    ///
    /// None for a context that is open.
    pub fn stats(&self) -> Result<Stats> {
        Ok(sys::get(self.fd())?)
    }

    /// Wait until an event can be read, or until none can follow after [`stop`](Context::stop).
    /// Returns false after the timeout; `None`: no limit. A later read may find no event: another
    /// thread may have read it, or a cell withdrawn it.
    ///
    /// # Errors
    ///
    /// [`Error::System`]: `EINTR` if a signal handler ran.
    pub fn wait(&self, timeout: Option<Duration>) -> Result<bool> {
        Ok(sys::wait(self.fd(), timeout)?)
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
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let found = self.read_until(room, end)?;
        Ok(&room[..found])
    }

    /// `None` if no event is unread. A read without room returns 0 without reaching the driver,
    /// which would look like the end.
    pub(crate) fn read_nowait(&self, room: &mut [Event]) -> Result<Option<usize>> {
        match sys::read_nowait(self.fd(), room) {
            Ok(_) if room.is_empty() => Err(io::Error::from_raw_os_error(libc::EINVAL).into()),
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Waits in ppoll(), which a signal handler ends with `SA_RESTART`, too. Other threads may read
    /// or withdraw each event first. Without `end` it is out of range.
    fn read_until(&self, room: &mut [Event], end: Option<Instant>) -> Result<usize> {
        loop {
            let left = end.map(|end| end.saturating_duration_since(Instant::now()));
            if let Some(found) = self.read_nowait(room)? {
                return Ok(found);
            }
            if left == Some(Duration::ZERO) {
                return Err(Error::TimedOut);
            }
            self.wait(left)?;
        }
    }
}

/// The zero of a clock as an `Instant`, which is read first: it is never too late. The later of
/// several is the better one, since the thread may have been preempted between two readings.
#[cfg(target_has_atomic = "64")]
pub(crate) fn zero_of(clock: Clock) -> Instant {
    let read = |_| Instant::now() - Duration::from_nanos(sys::now(clock.id()));
    (0..3).map(read).max().expect("three readings")
}

/// A kernel may have clocks that this crate does not know.
fn clock_of(info: &abi::Info) -> Result<Clock> {
    let unknown = || io::Error::from_raw_os_error(libc::EOPNOTSUPP);
    Ok(Clock::of_id(info.clock).ok_or_else(unknown)?)
}

impl AsFd for Context {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }
}

impl AsRawFd for Context {
    fn as_raw_fd(&self) -> RawFd {
        self.file.fd.as_raw_fd()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context")
            .field("fd", &self.file.fd)
            .field("clock", &self.file.clock)
            .finish()
    }
}
