// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! The owner of a place against an event, in all orders that the memory model allows. loom also
//! reports a slot that both use at once.
#![cfg(test)]

#[path = "../src/sleep/place.rs"]
mod place;

mod sync {
    pub(super) use loom::sync::atomic::{AtomicU8, Ordering};
    use std::mem::{ManuallyDrop, MaybeUninit};

    pub(super) struct Slot<T>(pub(super) loom::cell::UnsafeCell<MaybeUninit<T>>);

    impl<T> Slot<T> {
        pub(super) fn new() -> Slot<T> {
            Slot(loom::cell::UnsafeCell::new(MaybeUninit::uninit()))
        }

        pub(super) unsafe fn put(&self, value: T) {
            self.0.with_mut(|slot| unsafe { slot.write(MaybeUninit::new(value)) });
        }

        pub(super) unsafe fn copy(&self) -> ManuallyDrop<T> {
            self.0.with(|slot| ManuallyDrop::new(unsafe { slot.read().assume_init() }))
        }
    }
}

use place::{Alarm, Place};
use std::ptr::NonNull;
use std::sync::{atomic::AtomicUsize, Arc};
use std::task::{Wake, Waker};
use sync::{AtomicU8, Ordering::*, Slot};

const ARMED: u8 = 0;
const FIRED: u8 = 1;
const IDLE: u8 = 2;

/// The word, and what stands for the memory of the place: using it copies, freeing it puts.
struct Word(loom::sync::Arc<AtomicU8>, Slot<()>);

impl Word {
    fn exchange(&self, from: u8, to: u8) -> bool {
        self.0.compare_exchange(from, to, SeqCst, SeqCst).is_ok()
    }
}

impl Alarm for Word {
    fn is_armed(&self) -> bool {
        self.0.load(SeqCst) == ARMED
    }

    fn cancel(&self) -> bool {
        unsafe { self.1.copy() };
        self.0.swap(IDLE, SeqCst) != IDLE
    }
}

#[derive(Clone, Copy)]
struct Pointer(NonNull<Place<Word>>);

unsafe impl Send for Pointer {}

impl Pointer {
    fn free(self) -> bool {
        unsafe { Box::from_raw(self.0.as_ptr()).alarm.1.put(()) };
        true
    }

    /// The kernel and the reader. Returns whether the place was left to it.
    fn fire(self, word: &AtomicU8) -> bool {
        let exchange = |from, to| word.compare_exchange(from, to, SeqCst, SeqCst).is_ok();
        if !exchange(ARMED, FIRED) || !exchange(FIRED, IDLE) {
            return false;
        }
        unsafe { self.0.as_ref().alarm.1.copy() };
        let (waker, is_left) = unsafe { Place::end(self.0) };
        waker.into_iter().for_each(Waker::wake);
        is_left && self.free()
    }
}

#[derive(Default)]
struct Count(AtomicUsize);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Relaxed);
    }
}

/// The sleep is polled with some wakers. Then it ends, after a reset or not.
fn owner_against_event(polls: usize, resets: bool) {
    let word = loom::sync::Arc::new(AtomicU8::new(ARMED));
    let alarm = Word(word.clone(), Slot::new());
    let pointer = Pointer(NonNull::from(Box::leak(Box::new(Place::new(alarm)))));
    let reader = loom::thread::spawn(move || pointer.fire(&word) || pointer.fire(&word));

    let place = unsafe { pointer.0.as_ref() };
    let counts: Vec<_> = (0..polls).map(|_| Arc::new(Count::default())).collect();
    let mut is_pending = false;
    for count in &counts {
        is_pending = unsafe { place.poll(&count.clone().into()) }.is_pending();
        assert!(is_pending || place.is_over());
    }
    let mut moved = None;
    let mut must_be_woken = false;
    if resets && unsafe { place.reuse() } {
        must_be_woken = is_pending;
        place.alarm.0.store(ARMED, SeqCst);
        let _ = unsafe { place.poll(Waker::noop()) };
    } else if resets && !place.alarm.exchange(ARMED, ARMED) && !place.alarm.exchange(FIRED, ARMED) {
        moved = unsafe { place.take_waker() };
        must_be_woken = is_pending && moved.is_none();
    }
    let is_free = unsafe { Place::leave(pointer.0) } && pointer.free();
    assert!(is_free != reader.join().unwrap());
    drop(moved);
    assert!(counts.last().map_or(0, |count| count.0.load(Relaxed)) >= must_be_woken.into());
    assert!(counts.iter().all(|count| Arc::strong_count(count) == 1));
}

#[test]
fn owner_and_reader_agree_in_all_orders() {
    for (polls, resets) in [(0, false), (1, false), (2, false), (0, true), (1, true), (2, true)] {
        let mut model = loom::model::Builder::new();
        model.preemption_bound = Some(3);
        model.check(move || owner_against_event(polls, resets));
    }
}
