// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Timeouts in memory that is shared with the kernel.
//!
//! The kernel and the users of a cell meet in its word: the first change wins. All accesses are
//! sequentially consistent, as the contract of the device requires. An arm exchanges the word and
//! then loads the time of the next look. The kernel stores the time of its look and then loads
//! the word. With a weaker load both could miss the other's store, and the arming would be lost.

use std::fmt;
use std::io;
use std::mem::size_of;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, PoisonError};

use crate::abi;
use crate::context::Context;
use crate::error::Result;
use crate::op::{Id, Op, Outcome};
use crate::sys::{self, Mapping};
use crate::time::{Deadline, Time};

/// `struct twheel_cell`.
#[repr(C, align(8))]
struct Record {
    word: AtomicU64,
    look: AtomicU64,
}

/// The cells of a context, mapped when the first one is made. The kernel makes the pages when
/// they are used.
#[derive(Default)]
pub(crate) struct Cells {
    mapping: Mutex<Option<Arc<Mapping>>>,
}

impl Cells {
    pub(crate) fn map(&self, context: &Context) -> Result<Arc<Mapping>> {
        let mut mapping = self.mapping.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(mapping) = &*mapping {
            return Ok(mapping.clone());
        }
        let new = Arc::new(map(context)?);
        *mapping = Some(new.clone());
        Ok(new)
    }
}

fn map(context: &Context) -> Result<Mapping> {
    let info: abi::Info = sys::get(context.fd())?;
    if info.op_flags & abi::F_CELL == 0 {
        return Err(io::Error::from_raw_os_error(libc::EOPNOTSUPP).into());
    }
    let bytes = u64::from(info.cells) * size_of::<Record>() as u64;
    let length = usize::try_from(bytes).map_err(|_| io::Error::from_raw_os_error(libc::ENOMEM))?;
    Ok(Mapping::new(context.fd(), length)?)
}

/// Decodes the old word.
fn outcome(word: u64) -> Outcome {
    match word {
        abi::CELL_FIRED => Outcome::Withdrawn,
        _ if word > Time::MAX.as_nanos() => Outcome::Idle,
        _ => Outcome::Pending,
    }
}

/// A timeout that is armed, moved and cancelled by one atomic exchange in memory.
///
/// Cells suit timeouts that are nearly always cancelled or moved: one for each request, or one
/// for each connection. [`Context::cell`] makes one.
///
/// ```no_run
/// use std::time::Duration;
/// use twheel::Context;
///
/// let context = Context::open()?;
/// let cell = context.cell(42)?; // once
/// cell.arm(Duration::from_secs(5))?; // the request is sent
/// cell.cancel(); // the answer has come
/// # Ok::<(), twheel::Error>(())
/// ```
///
/// A cell can be armed any number of times, by one thread or several. Its event has its id, its
/// cookie and the deadline it was armed for. The event is the [last](crate::Event::is_last) only
/// after [`Context::stop`].
///
/// Dropping the cell ends it with a system call. Then no event of it is read. Until then it counts
/// as one live timeout. Cells that different threads use should be in different cache lines: 64
/// bytes hold four cells that were made in a row.
///
/// A child after `fork()` has the same cells, not copies. A cell that the child drops ends in the
/// parent, too. A child that does not call `exec()` soon can prevent this with
/// [`std::mem::forget`], or end with `_exit()`.
#[must_use = "a cell that is dropped ends"]
pub struct Cell {
    context: Context,
    id: Id,
    record: NonNull<Record>,
    /// Keeps the record.
    _mapping: Arc<Mapping>,
}

// SAFETY: the record consists of atomics
unsafe impl Send for Cell {}
// SAFETY: the same
unsafe impl Sync for Cell {}

impl Cell {
    pub(crate) fn new(context: &Context, cookie: u64) -> Result<Cell> {
        let mapping = context.cells().map(context)?;
        let mut op = Op::cell(cookie);
        context.operate(&mut op)?;
        let id = op.id()?;
        let offset = id.as_raw() as u32 as usize * size_of::<Record>();
        if offset >= mapping.length() {
            // Another process raised the limit between INFO and the mapping.
            let _ = context.cancel(id);
            return Err(io::Error::from_raw_os_error(libc::EINVAL).into());
        }
        // SAFETY: the offset is below the length, a multiple of the size
        let record = unsafe { mapping.address().as_ptr().add(offset) };
        let record = NonNull::new(record.cast()).expect("in a mapping");
        Ok(Cell { context: context.clone(), id, record, _mapping: mapping })
    }

    fn record(&self) -> &Record {
        // SAFETY: the mapping lives as long as the cell, and the kernel's accesses are atomic
        unsafe { self.record.as_ref() }
    }

    /// The cell in events.
    #[must_use]
    pub fn id(&self) -> Id {
        self.id
    }

    /// Arm or move the cell. Returns its state before. A `Duration` costs a reading of the clock:
    /// with many cells, read [`Context::now`] once. A deadline in the past is due at once.
    ///
    /// It is a system call only if the kernel would look too late. A cell in regular use, with
    /// about the same delay each time, needs none. After success no event of an earlier arming
    /// is read.
    ///
    /// # Errors
    ///
    /// `Stopped`; `Gone` after [`Context::cancel_all`]. Then the cell is idle. `System`: `EINVAL`
    /// for a relative deadline on [`Clock::Realtime`](crate::Clock::Realtime), without effect.
    #[inline]
    pub fn arm(&self, deadline: impl Into<Deadline>) -> Result<Outcome> {
        let time = self.context.time_of(deadline.into())?;
        let old = self.record().word.swap(time.as_nanos(), SeqCst);
        self.look_at(time)?;
        Ok(outcome(old))
    }

    /// Moves the arming with a deadline, if its event has not been read.
    #[cfg(feature = "tokio")]
    #[inline]
    pub(crate) fn rearm(&self, from: Time, to: Time) -> Result<bool> {
        let word = &self.record().word;
        let exchange = |old| word.compare_exchange(old, to.as_nanos(), SeqCst, SeqCst).is_ok();
        let is_armed = exchange(from.as_nanos()) || exchange(abi::CELL_FIRED);
        if is_armed {
            self.look_at(to)?;
        }
        Ok(is_armed)
    }

    /// Kicks the cell if the kernel would look at the new word too late.
    #[inline]
    fn look_at(&self, time: Time) -> Result<()> {
        if self.record().look.load(SeqCst) > time.as_nanos() {
            self.kick(time)?;
        }
        Ok(())
    }

    /// Has the kernel look at the word. The arming counts if the kernel had seen it before it
    /// refused the kick.
    #[cold]
    fn kick(&self, time: Time) -> Result<()> {
        match self.context.operate(&mut Op::kick(self.id)) {
            Err(error) if self.cancel_at(time) => Err(error),
            _ => Ok(()),
        }
    }

    /// Cancel the current arming; the cell stays live. Never a system call. After
    /// [`Outcome::Pending`] and [`Outcome::Withdrawn`] no event of that arming is read. With
    /// [`Outcome::Idle`] it was not armed, or its event was read before.
    #[inline]
    pub fn cancel(&self) -> Outcome {
        outcome(self.record().word.swap(abi::CELL_IDLE, SeqCst))
    }

    /// Cancel the arming with that deadline, and no later one: for a cell that another thread may
    /// arm anew meanwhile. Two armings with the same deadline are one. Returns false if it was
    /// moved, cancelled or has fired; then its event may still be read.
    pub fn cancel_at(&self, time: Time) -> bool {
        self.record().word.compare_exchange(time.as_nanos(), abi::CELL_IDLE, SeqCst, SeqCst).is_ok()
    }

    /// The deadline, if it is armed and has not fired.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        let word = self.record().word.load(SeqCst);
        (outcome(word) == Outcome::Pending).then(|| Time::from_nanos(word))
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        // It may have ended by cancel_all() or stop().
        let _ = self.context.cancel(self.id);
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell").field("id", &self.id).field("deadline", &self.deadline()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_word_tells_the_outcome() {
        let cases = [
            (0, Outcome::Pending),
            (Time::MAX.as_nanos(), Outcome::Pending),
            (Time::MAX.as_nanos() + 1, Outcome::Idle),
            (abi::CELL_FIRED - 1, Outcome::Idle),
            (abi::CELL_FIRED, Outcome::Withdrawn),
            (abi::CELL_IDLE, Outcome::Idle),
        ];
        for (word, expected) in cases {
            assert_eq!(outcome(word), expected, "{word:#x}");
        }
    }

    #[test]
    fn record_has_the_layout_of_the_kernel() {
        assert_eq!(size_of::<Record>(), 16);
        let record = Record { word: AtomicU64::new(1), look: AtomicU64::new(2) };
        // SAFETY: two integers
        let words: [u64; 2] = unsafe { std::mem::transmute(record) };
        assert_eq!(words, [1, 2]);
    }
}
