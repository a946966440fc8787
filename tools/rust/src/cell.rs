// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Timeouts in memory that is shared with the kernel, or with the wheel in the process.
//!
//! The wheel and the users of a cell meet in its word: the first change wins. All accesses are
//! sequentially consistent, as the contract requires. An arm exchanges the word and then loads the
//! time of the next look. The wheel stores the time of its look and then loads the word. With a
//! weaker load both could miss the other's store, and the arming would be lost.
//!
//! Functions that end timeouts by id, by cookie or all at once also end cells, whose handles stay.
//! A later cell gets the same memory, and an exchange through an old handle would change that. So
//! `Handles` knows which indices have a handle. A new cell at such an index is kept aside, for
//! nobody, until the old handle is dropped, and another one is made. This costs an arm nothing.

use std::collections::HashMap;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, PoisonError};

use twheel_sys as sys;

use crate::context::Context;
use crate::error::{check, Result};
use crate::op::{Id, Op, Outcome};
use crate::time::{Deadline, Time};

/// The indices of a context that have handles.
#[derive(Default)]
pub(crate) struct Handles(Mutex<Used>);

#[derive(Default)]
struct Used {
    /// A bit for each index.
    map: Vec<u64>,
    /// Cells that were kept aside, by index.
    aside: HashMap<u32, Id>,
}

impl Handles {
    fn lock(&self) -> MutexGuard<'_, Used> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Has the new cell its memory for itself? Otherwise it is kept aside.
    fn add(&self, id: Id) -> bool {
        let (index, mut used) = (id.index(), self.lock());
        let (at, bit) = (index as usize / 64, 1 << (index % 64));
        if used.map.len() <= at {
            used.map.resize(at + 1, 0);
        }
        let is_free = used.map[at] & bit == 0;
        used.map[at] |= bit;
        if !is_free {
            used.aside.insert(index, id);
        }
        is_free
    }

    /// Returns the cell that was kept aside.
    fn remove(&self, id: Id) -> Option<Id> {
        let (index, mut used) = (id.index(), self.lock());
        used.map[index as usize / 64] &= !(1 << (index % 64));
        used.aside.remove(&index)
    }
}

/// Decodes the old word.
fn outcome(word: u64) -> Outcome {
    match word {
        sys::TWHEEL_CELL_FIRED => Outcome::Withdrawn,
        _ if word > Time::MAX.as_nanos() => Outcome::Idle,
        _ => Outcome::Pending,
    }
}

/// A cell, for a holder that keeps the context and ends it.
pub(crate) struct Word {
    pub(crate) id: Id,
    cell: NonNull<sys::twheel_cell>,
}

// SAFETY: all accesses to the cell are atomic
unsafe impl Send for Word {}
// SAFETY: the same
unsafe impl Sync for Word {}

impl Word {
    fn new(context: &Context, cookie: u64) -> Result<Word> {
        let (mut id, mut cell) = (0, ptr::null_mut());
        // SAFETY: of raw()
        check(unsafe { sys::twheel_cell_create(context.raw(), cookie, &mut id, &mut cell) })?;
        Ok(Word { id: Id::from_raw(id), cell: NonNull::new(cell).expect("a cell") })
    }

    /// Makes cells with one call. There is a result for each cookie, in order.
    pub(crate) fn many(context: &Context, cookies: &[u64]) -> Vec<Result<Word>> {
        let mut ops: Vec<Op> = cookies.iter().map(|cookie| Op::cell(*cookie)).collect();
        let (first, nr) = (Op::raw_slice(&mut ops), cookies.len() as u32);
        // SAFETY: of raw(); the array is borrowed until the call returns
        let tried = unsafe { sys::twheel_submit_ops(context.raw(), first, nr) };
        if tried < 0 {
            ops.iter_mut().for_each(|op| op.raw.result = tried);
        }
        ops.iter().map(|op| Word::find(context, op.id()?)).collect()
    }

    fn find(context: &Context, id: Id) -> Result<Word> {
        let mut cell = ptr::null_mut();
        // SAFETY: of raw()
        let found = check(unsafe { sys::twheel_cell_find(context.raw(), id.as_raw(), &mut cell) });
        if let Err(error) = found {
            let _ = context.cancel(id);
            return Err(error);
        }
        Ok(Word { id, cell: NonNull::new(cell).expect("a cell") })
    }

    #[inline]
    fn word(&self) -> &AtomicU64 {
        // SAFETY: the cell stays as long as the context, and all accesses are atomic
        unsafe { &*self.cell.as_ref().word.get().cast() }
    }

    #[inline]
    pub(crate) fn arm(&self, context: &Context, time: Time) -> Result<Outcome> {
        let old = self.word().swap(time.as_nanos(), SeqCst);
        self.look_at(context, time)?;
        Ok(outcome(old))
    }

    /// Moves the arming with a deadline, if its event has not been read.
    #[inline]
    pub(crate) fn rearm(&self, context: &Context, from: Time, to: Time) -> Result<bool> {
        let exchange =
            |old| self.word().compare_exchange(old, to.as_nanos(), SeqCst, SeqCst).is_ok();
        let is_armed = exchange(from.as_nanos()) || exchange(sys::TWHEEL_CELL_FIRED);
        if is_armed {
            self.look_at(context, to)?;
        }
        Ok(is_armed)
    }

    /// Kicks the cell if the wheel would look at the new word too late.
    #[inline]
    fn look_at(&self, context: &Context, time: Time) -> Result<()> {
        // SAFETY: as in word()
        let look: &AtomicU64 = unsafe { &*self.cell.as_ref().look.get().cast() };
        if look.load(SeqCst) > time.as_nanos() {
            self.kick(context, time)?;
        }
        Ok(())
    }

    #[cold]
    fn kick(&self, context: &Context, time: Time) -> Result<()> {
        let (cell, id, time) = (self.cell.as_ptr(), self.id.as_raw(), time.as_nanos());
        // SAFETY: of raw(); the cell is of that context
        check(unsafe { sys::twheel_cell_kick(context.raw(), cell, id, time) }).map(drop)
    }

    #[inline]
    pub(crate) fn cancel(&self) -> Outcome {
        outcome(self.word().swap(sys::TWHEEL_CELL_IDLE, SeqCst))
    }

    #[inline]
    pub(crate) fn deadline(&self) -> Option<Time> {
        let word = self.word().load(SeqCst);
        (outcome(word) == Outcome::Pending).then(|| Time::from_nanos(word))
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
/// Dropping the cell ends it, with a system call of the device. Then no event of it is read. Until
/// then it counts as one live timeout. Cells that different threads use should be in different
/// cache lines: 64 bytes hold four cells that were made in a row.
///
/// A child after `fork()` has the same cells of the device, not copies, and cannot use a wheel in
/// the process. A cell that the child drops ends in the parent, too. A child that does not call
/// `exec()` soon can prevent this with [`std::mem::forget`], or end with `_exit()`.
#[must_use = "a cell that is dropped ends"]
pub struct Cell {
    context: Context,
    word: Word,
}

impl Cell {
    pub(crate) fn new(context: &Context, cookie: u64) -> Result<Cell> {
        loop {
            let word = Word::new(context, cookie)?;
            if context.handles().add(word.id) {
                return Ok(Cell { context: context.clone(), word });
            }
        }
    }

    /// The cell in events.
    #[must_use]
    pub fn id(&self) -> Id {
        self.word.id
    }

    /// Arm or move the cell. Returns its state before. A `Duration` costs a reading of the clock:
    /// with many cells, read [`Context::now`] once. A deadline in the past is due at once.
    ///
    /// It is a call of the wheel only if that would look too late. A cell in regular use, with
    /// about the same delay each time, needs none. After success no event of an earlier arming
    /// is read.
    ///
    /// # Errors
    ///
    /// `Stopped`; `Gone` after [`Context::cancel_all`] and other calls that end timeouts. Then the
    /// cell is idle. `System`: `EINVAL` for a relative deadline on
    /// [`Clock::Realtime`](crate::Clock::Realtime), without effect.
    #[inline]
    pub fn arm(&self, deadline: impl Into<Deadline>) -> Result<Outcome> {
        let time = self.context.time_of(deadline.into())?;
        self.word.arm(&self.context, time)
    }

    /// Cancel the current arming; the cell stays live. Never a system call. After
    /// [`Outcome::Pending`] and [`Outcome::Withdrawn`] no event of that arming is read. With
    /// [`Outcome::Idle`] it was not armed, or its event was read before.
    #[inline]
    pub fn cancel(&self) -> Outcome {
        self.word.cancel()
    }

    /// Cancel the arming with that deadline, and no later one: for a cell that another thread may
    /// arm anew meanwhile. Two armings with the same deadline are one. Returns false if it was
    /// moved, cancelled or has fired; then its event may still be read.
    pub fn cancel_at(&self, time: Time) -> bool {
        let (old, idle) = (time.as_nanos(), sys::TWHEEL_CELL_IDLE);
        self.word.word().compare_exchange(old, idle, SeqCst, SeqCst).is_ok()
    }

    /// The deadline, if it is armed and has not fired.
    #[must_use]
    pub fn deadline(&self) -> Option<Time> {
        self.word.deadline()
    }
}

impl Drop for Cell {
    fn drop(&mut self) {
        // It may have ended by cancel_all() or stop().
        let _ = self.context.cancel(self.word.id);
        if let Some(aside) = self.context.handles().remove(self.word.id) {
            let _ = self.context.cancel(aside);
        }
    }
}

impl fmt::Debug for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cell")
            .field("id", &self.word.id)
            .field("deadline", &self.deadline())
            .finish()
    }
}
