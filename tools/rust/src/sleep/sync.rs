// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! What a place is made of. The model of places has its own version of this file.

use std::cell::UnsafeCell;
use std::mem::{ManuallyDrop, MaybeUninit};

pub(super) use std::sync::atomic::{AtomicU8, Ordering};

/// Room for a value. Nothing here knows whether it is there.
pub(super) struct Slot<T>(UnsafeCell<MaybeUninit<T>>);

impl<T> Slot<T> {
    pub(super) fn new() -> Slot<T> {
        Slot(UnsafeCell::new(MaybeUninit::uninit()))
    }

    /// # Safety
    ///
    /// Nobody else uses the slot. A value that is there is forgotten.
    pub(super) unsafe fn put(&self, value: T) {
        // SAFETY: by the contract of this function
        unsafe { self.0.get().write(MaybeUninit::new(value)) }
    }

    /// A copy of the value, which has one owner nonetheless.
    ///
    /// # Safety
    ///
    /// The value is there, and nobody puts another one meanwhile.
    pub(super) unsafe fn copy(&self) -> ManuallyDrop<T> {
        // SAFETY: by the contract of this function
        unsafe { ManuallyDrop::new(self.0.get().read().assume_init()) }
    }
}
