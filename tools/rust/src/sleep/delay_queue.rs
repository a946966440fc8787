// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! A queue of values with deadlines: the types beside [`DelayQueue`].
//!
//! Each slot has a waker, which notes its index in `Fired` and wakes the task of the queue. So the
//! task is woken for entries that have fired only, and once for all that fire before it polls. A
//! poll moves the noted entries to `expired`, which has the order of deadlines.
//!
//! The reader may have taken the waker of an entry that is reset or removed. So a noted index is a
//! hint: the sleep in the slot says whether it has fired.

use std::collections::BTreeSet;
use std::future::Future;
use std::mem::{replace, swap};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

#[cfg(feature = "stream")]
use futures_core::Stream;

use super::timer::{Sleep, Timer};
use super::{later, Burst, PollFn};
use crate::error::Result;
use crate::time::{Deadline, Time};

/// Values that are yielded when their deadlines have passed, as tokio-util's.
///
/// ```
/// # let future = async {
/// use std::time::Duration;
/// use twheel::sleep::{DelayQueue, Timer};
///
/// let mut queue = DelayQueue::new(&Timer::open()?);
/// let session = queue.insert("session", Duration::from_secs(60))?;
/// queue.insert("token", Duration::from_millis(5))?;
/// queue.reset(&session, Duration::from_secs(90))?;
/// assert_eq!(queue.next().await.map(|expired| expired.into_inner()), Some("token"));
/// assert_eq!(queue.remove(&session).into_inner(), "session");
/// assert!(queue.next().await.is_none());
/// # twheel::Result::Ok(())
/// # };
/// ```
///
/// Each entry is a cell: [`insert`](DelayQueue::insert), [`reset`](DelayQueue::reset) and
/// [`remove`](DelayQueue::remove) take constant time, and an entry that is moved or removed wakes
/// no task. They take logarithmic time for an entry that has expired and was not yielded yet.
///
/// The stream ends when the queue is empty, and goes on after the next insertion. Of the entries
/// that have fired, the one with the earliest deadline comes first. The order of deadlines within
/// one tick is not kept. If a processor is late, its entries come late, after those of others.
///
/// # Errors
///
/// Functions that insert or move fail as [`Timer::sleep`] does. A value not inserted is dropped.
///
/// # Panics
///
/// A function that takes a key panics if no entry has it, except
/// [`try_remove`](DelayQueue::try_remove).
#[derive(Debug)]
pub struct DelayQueue<T> {
    timer: Timer,
    slots: Vec<Slot<T>>,
    /// Slots without an entry.
    free: Vec<usize>,
    /// Number of keys that were given out.
    keys: u64,
    /// Entries that have fired, and those that were due at once.
    expired: BTreeSet<(Instant, usize)>,
    fired: Arc<Fired>,
    /// Memory for what a poll takes out of `fired`.
    room: Vec<usize>,
    burst: Burst,
}

/// An entry of a [`DelayQueue`]. No other entry of the queue ever has the same key.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Key {
    index: usize,
    number: u64,
}

#[derive(Debug)]
struct Slot<T> {
    waker: Waker,
    entry: Option<Entry<T>>,
}

#[derive(Debug)]
struct Entry<T> {
    value: T,
    key: Key,
    deadline: Instant,
    sleep: Sleep,
}

impl<T> Slot<T> {
    /// The deadline, if it has passed. If not, the waker is called then.
    fn poll(&mut self) -> Option<Instant> {
        let entry = self.entry.as_mut()?;
        let mut cx = Context::from_waker(&self.waker);
        let is_ready = Pin::new(&mut entry.sleep).poll(&mut cx).is_ready();
        is_ready.then_some(entry.deadline)
    }
}

/// What the sleeps of a queue share with it.
#[derive(Debug, Default)]
struct Fired(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    indices: Vec<usize>,
    task: Option<Waker>,
}

impl Fired {
    /// A waker is foreign code, so it is woken without the lock.
    fn wake(&self) {
        let task = self.0.lock().unwrap().task.take();
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// The waker of a slot.
struct Note {
    index: usize,
    fired: Arc<Fired>,
}

impl Wake for Note {
    fn wake(self: Arc<Self>) {
        self.fired.0.lock().unwrap().indices.push(self.index);
        self.fired.wake();
    }
}

/// A value that is due needs no event.
fn alarm(deadline: Instant, is_due: bool) -> Deadline {
    if is_due {
        Time::MAX.into()
    } else {
        deadline.into()
    }
}

impl<T> DelayQueue<T> {
    /// An empty queue.
    pub fn new(timer: &Timer) -> DelayQueue<T> {
        DelayQueue::with_capacity(timer, 0)
    }

    /// An empty queue with memory for that many entries. Their cells are made when they are
    /// inserted.
    pub fn with_capacity(timer: &Timer, capacity: usize) -> DelayQueue<T> {
        DelayQueue {
            timer: timer.clone(),
            slots: Vec::with_capacity(capacity),
            free: Vec::new(),
            keys: 0,
            expired: BTreeSet::new(),
            fired: Arc::default(),
            room: Vec::new(),
            burst: Burst::default(),
        }
    }

    /// Insert a value that is yielded in that time from now; zero: at once.
    pub fn insert(&mut self, value: T, timeout: Duration) -> Result<Key> {
        self.add(value, later(self.timer.now(), timeout), timeout.is_zero())
    }

    /// Insert a value that is yielded at that time; at once, if it has passed.
    pub fn insert_at(&mut self, value: T, when: Instant) -> Result<Key> {
        self.add(value, when, when <= self.timer.now())
    }

    fn add(&mut self, value: T, deadline: Instant, is_due: bool) -> Result<Key> {
        let sleep = self.timer.sleep(alarm(deadline, is_due))?;
        let index = self.free.pop().unwrap_or_else(|| {
            let (index, fired) = (self.slots.len(), self.fired.clone());
            self.slots.push(Slot { waker: Arc::new(Note { index, fired }).into(), entry: None });
            index
        });
        let key = Key { index, number: self.keys };
        self.keys += 1;
        self.slots[index].entry = Some(Entry { value, key, deadline, sleep });
        self.check(index, deadline, is_due);
        Ok(key)
    }

    /// Is an entry that was placed due?
    fn check(&mut self, index: usize, deadline: Instant, is_due: bool) {
        if is_due || self.slots[index].poll().is_some() {
            self.expired.insert((deadline, index));
            self.fired.wake();
        }
    }

    fn entry(&self, key: &Key) -> Option<&Entry<T>> {
        self.slots.get(key.index)?.entry.as_ref().filter(|entry| entry.key == *key)
    }

    /// Move an entry, expired or not: it is yielded in that time from now; zero: at once.
    pub fn reset(&mut self, key: &Key, timeout: Duration) -> Result<()> {
        self.place(key, later(self.timer.now(), timeout), timeout.is_zero())
    }

    /// The same with a time; at once, if it has passed.
    pub fn reset_at(&mut self, key: &Key, when: Instant) -> Result<()> {
        self.place(key, when, when <= self.timer.now())
    }

    fn place(&mut self, key: &Key, deadline: Instant, is_due: bool) -> Result<()> {
        self.entry(key).expect("no entry of that key");
        let entry = self.slots[key.index].entry.as_mut().expect("an entry");
        entry.sleep.reset(alarm(deadline, is_due))?;
        self.expired.remove(&(replace(&mut entry.deadline, deadline), key.index));
        self.check(key.index, deadline, is_due);
        Ok(())
    }

    /// Remove an entry, expired or not.
    pub fn remove(&mut self, key: &Key) -> Expired<T> {
        self.try_remove(key).expect("no entry of that key")
    }

    /// Remove an entry, expired or not; `None` if there is none of that key.
    pub fn try_remove(&mut self, key: &Key) -> Option<Expired<T>> {
        self.entry(key)?;
        let removed = self.take(key.index);
        if self.is_empty() {
            self.fired.wake();
        }
        removed
    }

    fn take(&mut self, index: usize) -> Option<Expired<T>> {
        let Entry { value, key, deadline, .. } = self.slots[index].entry.take()?;
        self.free.push(index);
        self.expired.remove(&(deadline, index));
        Some(Expired { value, deadline, key })
    }

    /// The deadline of an entry.
    pub fn deadline(&self, key: &Key) -> Instant {
        self.entry(key).expect("no entry of that key").deadline
    }

    /// The entry that is yielded next, unless one that is late fires before. If none has fired,
    /// the cost grows with the number of entries.
    pub fn peek(&self) -> Option<Key> {
        let first = |indices: &mut dyn Iterator<Item = usize>, all| {
            let entries = indices.filter_map(|index| self.slots.get(index)?.entry.as_ref());
            let fired = entries.filter(|entry| all || entry.sleep.is_elapsed());
            fired.map(|entry| (entry.deadline, entry.key.index)).min()
        };
        let fired = first(&mut self.fired.0.lock().unwrap().indices.iter().copied(), false);
        let expired = fired.into_iter().chain(self.expired.iter().next().copied()).min();
        let (_, index) = expired.or_else(|| first(&mut (0..self.slots.len()), true))?;
        Some(self.slots[index].entry.as_ref()?.key)
    }

    /// Take an entry that has expired; `Ready(None)` if the queue is empty. The last task that has
    /// polled is woken when an entry expires, or when the last one is removed.
    pub fn poll_expired(&mut self, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        // The other waker is dropped after the lock.
        let mut task = Some(cx.waker().clone());
        let mut state = self.fired.0.lock().unwrap();
        swap(&mut state.task, &mut task);
        swap(&mut state.indices, &mut self.room);
        drop(state);
        for index in self.room.drain(..) {
            let deadline = self.slots.get_mut(index).and_then(Slot::poll);
            self.expired.extend(deadline.map(|deadline| (deadline, index)));
        }
        match self.expired.iter().next().copied() {
            None if !self.is_empty() => {
                self.burst = Burst::default();
                Poll::Pending
            }
            first => {
                ready!(self.burst.poll(cx));
                Poll::Ready(first.and_then(|(_, index)| self.take(index)))
            }
        }
    }

    /// The next entry that expires; `None` if the queue is empty.
    pub async fn next(&mut self) -> Option<Expired<T>> {
        PollFn(|cx: &mut Context<'_>| self.poll_expired(cx)).await
    }

    /// Remove all entries. The memory is kept.
    pub fn clear(&mut self) {
        self.free.clear();
        self.expired.clear();
        self.fired.wake();
        // The drop of a value may panic.
        self.slots.clear();
    }

    /// Number of entries, expired or not.
    pub fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Is there no entry?
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Number of entries for which there is memory.
    pub fn capacity(&self) -> usize {
        self.slots.capacity()
    }

    /// Get memory for that many further entries.
    pub fn reserve(&mut self, additional: usize) {
        self.slots.reserve(additional.saturating_sub(self.free.len()));
    }

    /// Return memory behind the last entry. Entries do not move.
    pub fn compact(&mut self) {
        let last = self.slots.iter().rposition(|slot| slot.entry.is_some());
        let end = last.map_or(0, |last| last + 1);
        self.slots.truncate(end);
        self.slots.shrink_to_fit();
        self.free.retain(|index| *index < end);
    }
}

// A value is never pinned.
impl<T> Unpin for DelayQueue<T> {}

#[cfg(feature = "stream")]
impl<T> Stream for DelayQueue<T> {
    type Item = Expired<T>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Expired<T>>> {
        self.poll_expired(cx)
    }
}

/// An entry that a [`DelayQueue`] has yielded, or that was removed.
#[derive(Debug)]
pub struct Expired<T> {
    value: T,
    deadline: Instant,
    key: Key,
}

impl<T> Expired<T> {
    /// The value.
    pub fn get_ref(&self) -> &T {
        &self.value
    }

    /// The value.
    pub fn get_mut(&mut self) -> &mut T {
        &mut self.value
    }

    /// The value, without the rest.
    pub fn into_inner(self) -> T {
        self.value
    }

    /// Its deadline.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// Its key, which is not valid any more.
    pub fn key(&self) -> Key {
        self.key
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::forget;
    use std::panic::{catch_unwind, AssertUnwindSafe};

    struct Panics;

    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("a value of the test");
        }
    }

    #[test]
    fn queue_is_empty_after_the_drop_of_a_value_has_panicked() {
        let mut queue = DelayQueue::new(&Timer::open().unwrap());
        let keys = [0, 1].map(|_| queue.insert(Panics, Duration::MAX).unwrap());
        forget(queue.remove(&keys[0]));
        assert!(catch_unwind(AssertUnwindSafe(|| queue.clear())).is_err());
        assert!(queue.is_empty());
    }
}
