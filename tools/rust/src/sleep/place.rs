// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! A cell and the waker of its sleep.
//!
//! Two threads use a place, without a lock. The owner has the sleep: it arms and cancels the cell,
//! and registers wakers. The reader reads the events of all cells, at most one for each arming.
//!
//!
//! # The word of the cell
//!
//! The kernel replaces the deadline by FIRED, and the read of the event replaces FIRED by an idle
//! value. So a sleep is over when its word holds no deadline, whether the reader has run or not.
//!
//! The owner cancels by an exchange. If it returns the deadline or FIRED, no event of that arming
//! is ever read: the owner has the place for itself. For nearly every sleep, this exchange is all
//! synchronization at its end. If it returns an idle value, the reader has the event or had it.
//!
//!
//! # States
//!
//! ```text
//! EMPTY     no waker
//! WAITING   the waker is in the slot
//! WAKING    the reader copies the waker
//! OVER      the reader has handled the event, and does not touch the place any more
//! LEFT      the sleep has gone, and the reader has the place
//!
//! EMPTY <-> WAITING           owner: poll, another waker, the end of the sleep
//! EMPTY, WAITING -> WAKING    reader: an event
//! WAKING -> OVER              reader
//! OVER -> EMPTY               owner: a new arming
//! EMPTY, WAKING -> LEFT       owner: the end of a sleep whose event has been read
//! LEFT -> EMPTY               reader: the place is free
//! ```
//!
//! Between the read of an event and OVER the owner does not arm the cell: the event would be taken
//! for one of the new arming. It does not wait either, but leaves the place and takes another.
//!
//!
//! # Races
//!
//! Changes that both may make are read-modify-write operations, so one of them comes first:
//!
//! ```text
//! A, poll against the event: the waker is woken, or the poll is ready
//!
//!     owner                               reader
//!     put the waker
//!     EMPTY -> WAITING, release           exchange WAKING, acquire and release
//!
//! If the reader is first, the owner acquires WAKING, and an idle word. Otherwise the reader
//! acquires the waker.
//!
//! B, another waker against the event: the slot has one user
//!
//!     WAITING -> EMPTY                    exchange WAKING
//!     put the waker                       copy the waker
//!
//! If the reader is first, the owner does not put. Otherwise the reader finds EMPTY, and does not
//! copy. The owner may compare its waker with that in the slot meanwhile: both only read.
//!
//! C, the end of a sleep against the event: one of them frees the place
//!
//!     exchange LEFT, acquire and release  WAKING -> OVER, release, or acquire LEFT
//!
//! If the reader is first, the owner finds OVER, and frees the place. Otherwise the reader finds
//! LEFT. The owner has taken the waker before, as in B.
//! ```
//!
//! Relaxed accesses are those of an owner that has the place for itself. The exchange that arms the
//! cell comes after its stores, and before the read of the event.
//!
//! The crate in the directory `model` includes this file, and tries these races in all orders.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::task::{Poll, Waker};

use super::sync::{AtomicU8, Ordering::*, Slot};

const EMPTY: u8 = 0;
const WAITING: u8 = 1;
const WAKING: u8 = 2;
const OVER: u8 = 3;
const LEFT: u8 = 4;

/// A cell.
pub(super) trait Alarm {
    /// Whether its word holds a deadline.
    fn is_armed(&self) -> bool;

    /// Cancels. Returns true if no event of the arming is read.
    fn cancel(&self) -> bool;
}

pub(super) struct Place<A> {
    pub(super) alarm: A,
    state: AtomicU8,
    waker: Slot<Waker>,
}

// SAFETY: the slot has one user at a time, or several that only read
unsafe impl<A: Sync> Sync for Place<A> {}

impl<A: Alarm> Place<A> {
    pub(super) fn new(alarm: A) -> Place<A> {
        Place { alarm, state: AtomicU8::new(EMPTY), waker: Slot::new() }
    }

    pub(super) fn is_over(&self) -> bool {
        !self.alarm.is_armed()
    }

    /// # Safety
    ///
    /// The caller is the owner, as in the next functions.
    pub(super) unsafe fn poll(&self, waker: &Waker) -> Poll<()> {
        if self.is_over() {
            return Poll::Ready(());
        }
        // SAFETY: only the owner puts
        if self.state.load(Relaxed) == WAITING && unsafe { self.waker.copy() }.will_wake(waker) {
            return Poll::Pending;
        }
        // Wakers are foreign code: clones and drops may panic, or use other sleeps.
        let new = waker.clone();
        // SAFETY: of the owner, and the slot is empty then
        let (_old, registered) = unsafe { (self.take_waker(), self.register(new)) };
        registered.map_or(Poll::Ready(()), |()| Poll::Pending)
    }

    /// Registers a waker, or returns it if the event has been read.
    ///
    /// # Safety
    ///
    /// The owner has taken the waker that was there.
    pub(super) unsafe fn register(&self, waker: Waker) -> Result<(), Waker> {
        if self.state.load(Acquire) != EMPTY {
            return Err(waker);
        }
        // SAFETY: in EMPTY the reader does not use the slot
        unsafe { self.waker.put(waker) };
        match self.state.compare_exchange(EMPTY, WAITING, AcqRel, Acquire) {
            Ok(_) => Ok(()),
            // SAFETY: the reader did not find it
            Err(_) => Err(ManuallyDrop::into_inner(unsafe { self.waker.copy() })),
        }
    }

    /// Takes the waker, unless the reader does.
    ///
    /// # Safety
    ///
    /// The caller is the owner.
    pub(super) unsafe fn take_waker(&self) -> Option<Waker> {
        if self.state.load(Relaxed) != WAITING {
            return None;
        }
        self.state.compare_exchange(WAITING, EMPTY, Relaxed, Relaxed).ok()?;
        // SAFETY: only the owner puts
        Some(ManuallyDrop::into_inner(unsafe { self.waker.copy() }))
    }

    /// Makes the place ready for an arming of its idle cell, if the reader has handled the event.
    ///
    /// # Safety
    ///
    /// The caller is the owner.
    pub(super) unsafe fn reuse(&self) -> bool {
        let is_over = self.state.load(Acquire) == OVER;
        if is_over {
            self.state.store(EMPTY, Relaxed);
        }
        is_over
    }

    /// Ends the sleep. Returns false if the reader has the place now.
    ///
    /// # Safety
    ///
    /// The caller is the owner, and is not if the function returns false.
    pub(super) unsafe fn leave(place: NonNull<Place<A>>) -> bool {
        let place = place.as_ptr();
        // SAFETY: the owner uses the place up to LEFT. No reference is kept beyond: the reader may
        // free the memory.
        unsafe {
            if (*place).alarm.cancel() {
                let is_waiting = (*place).state.load(Relaxed) == WAITING;
                (*place).state.store(EMPTY, Relaxed);
                drop(is_waiting.then(|| ManuallyDrop::into_inner((*place).waker.copy())));
                return true;
            }
            let _waker = (*place).take_waker();
            let is_over = (*place).state.swap(LEFT, AcqRel) == OVER;
            if is_over {
                (*place).state.store(EMPTY, Relaxed);
            }
            is_over
        }
    }

    /// Handles an event. Returns the waker to wake, and whether the place is free and the caller's.
    ///
    /// # Safety
    ///
    /// An event of the place has been read, for which this is the only call.
    pub(super) unsafe fn end(place: NonNull<Place<A>>) -> (Option<Waker>, bool) {
        let place = place.as_ptr();
        // SAFETY: the reader uses the place up to OVER, and from LEFT on
        unsafe {
            let old = (*place).state.swap(WAKING, AcqRel);
            let waker = (old == WAITING).then(|| ManuallyDrop::into_inner((*place).waker.copy()));
            let is_left = old == LEFT
                || (*place).state.compare_exchange(WAKING, OVER, AcqRel, Acquire).is_err();
            if is_left {
                (*place).state.store(EMPTY, Relaxed);
            }
            (waker, is_left)
        }
    }
}
