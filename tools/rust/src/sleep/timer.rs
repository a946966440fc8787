// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Sleeps. Each has a [`place`](super::place), which is a cell and room for a waker. It is kept for
//! a later sleep, so that a sleep that begins and ends costs no system call.
//!
//! The reader, a thread of the timer, reads the events of all cells and wakes the tasks. Wakers are
//! foreign code: they are cloned, dropped and woken without a lock, and may panic. The cookie of a
//! cell is the address of its place. So the context is the timer's alone: whoever could arm
//! timeouts on it could choose the address. A timer with a manual clock has no reader: who sets the
//! clock reads the events.
//!
//! Each thread has a magazine of free places, which it may share with other threads. A flag
//! protects it, and nobody waits: if a magazine is empty or in use, the thread tries the next one.
//! If all are empty, a thread makes places, more of them the more there are, with one call. It has
//! a lock until the others can find them, so that a limit is met only if no place is free.
//!
//! While there are more places than SPARE, a timeout of the context, whose cookie is 0, has the
//! reader look at the magazines after each quiet time. Places that nobody took since its last look
//! end, in batches. The kernel counts their memory, by the page, against the limit of the user
//! until the context is closed.
//!
//! A place has a reference to the core, which has the context and the magazines. So a sleep keeps
//! the timer, and needs no count of its own. The last handle ends the free places, and takes the
//! magazines away: later sleeps end theirs. The core goes with the last place. It stops the
//! context, which ends the reader. Nobody joins the reader: its wakers may wait for whoever drops
//! the core, or drop it themselves.

use std::cell::UnsafeCell;
use std::fmt;
use std::future::Future;
use std::io;
use std::mem::{forget, ManuallyDrop, MaybeUninit};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use super::place::{Alarm, Place};
use super::timeout::Timeout;
use crate::cell::Word;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::op::{Op, Outcome};
use crate::setup::Setup;
use crate::state::Info;
use crate::time::{Deadline, Time};

/// Free places that stay.
const SPARE: usize = 16_384;
/// Places that nobody takes for as long are not needed.
const QUIET: Duration = Duration::from_secs(1);
/// Places that one call makes or ends, at most.
const BATCH: usize = 64;
/// As many events are read at once.
const EVENTS: usize = 64;

/// Sleeps on a context of their own.
///
/// ```
/// # let future = async {
/// use std::time::Duration;
/// use twheel::sleep::Timer;
///
/// let timer = Timer::open()?;
/// timer.sleep(Duration::from_millis(50))?.await;
/// # twheel::Result::Ok(())
/// # };
/// ```
///
/// A thread of the timer wakes the tasks. So a timer needs no runtime: its sleeps can be used on
/// any executor, on several at once, and in a static variable.
///
/// A clone is another handle of the same timer. A sleep that has ended leaves its cell and its
/// memory for a later one, until the last handle and the last sleep are dropped. Of those that
/// nobody needs, 16,384 stay after a second or two.
///
/// A child after `fork()` has no such thread, and shares the cells of the device: a sleep or a timer
/// that it drops ends in the parent, too. It must call `exec()` or `_exit()`, or forget them.
#[derive(Clone)]
pub struct Timer {
    handle: Arc<Handle>,
}

impl Timer {
    /// A timer on a new context with the default settings.
    ///
    /// # Errors
    ///
    /// As [`with_setup`](Timer::with_setup).
    pub fn open() -> Result<Timer> {
        Timer::with_setup(&Setup::new())
    }

    /// A timer on a new context with settings such as the clock and the slack. A wheel in the
    /// process also replaces a device without cells, that of a 32-bit kernel, if it may.
    ///
    /// # Errors
    ///
    /// As [`Setup::open`]; [`Error::System`]: `EOPNOTSUPP` if the kernel has no cells, `ENOMEM`
    /// without address space for them, `EAGAIN` if no thread can be made.
    pub fn with_setup(setup: &Setup) -> Result<Timer> {
        let mut context = setup.open()?;
        if let Err(error) = context.cell(0) {
            context = setup.without_cells(error)?.open()?;
            drop(context.cell(0)?);
        }
        let core = Arc::new(Core::new(context.clone()));
        if !context.is_manual() {
            let weak = Arc::downgrade(&core);
            let reader = move || read_events(&context, &weak);
            thread::Builder::new().name("twheel".into()).spawn(reader)?;
        }
        Ok(Timer { handle: Arc::new(Handle { core }) })
    }

    /// The time, for deadlines: of a [manual](Setup::manual) clock, the instant at which it began
    /// and what it has advanced; otherwise now.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.handle.core.context.instant()
    }

    /// Set the [manual](Setup::manual) clock of the timer. When the call returns, the sleeps that are
    /// due are over, and their tasks are woken.
    ///
    /// ```
    /// use std::time::Duration;
    /// use twheel::{sleep::Timer, Setup, Time};
    ///
    /// let timer = Timer::with_setup(&Setup::new().manual())?;
    /// let sleep = timer.sleep(Duration::from_secs(3600))?;
    /// timer.set_time(Time::default() + Duration::from_secs(3600))?;
    /// assert!(sleep.is_elapsed());
    /// # Ok::<(), twheel::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Context::set_time`].
    pub fn set_time(&self, time: Time) -> Result<()> {
        self.handle.core.context.set_time(time)?;
        self.handle.core.turn();
        Ok(())
    }

    /// Settings and fill level of the context.
    pub fn info(&self) -> Result<Info> {
        self.handle.core.context.info()
    }

    /// Sleep for a `Duration`, until an `Instant`, or until a [`Time`] on the clock of the context.
    /// The sleep begins at once, not at the first poll. It never ends early.
    ///
    /// # Errors
    ///
    /// As [`Context::cell`], if more sleep than before. A sleep that has ended counts until the
    /// thread of the timer has handled its event. [`Error::System`]: `EINVAL` on
    /// [`Clock::Realtime`](crate::Clock::Realtime), unless the deadline is a [`Time`].
    #[inline]
    pub fn sleep(&self, deadline: impl Into<Deadline>) -> Result<Sleep> {
        let core = &self.handle.core;
        let deadline = core.context.time_of(deadline.into())?;
        Sleep::begin(core.take()?, deadline)
    }
}

/// Its drop is the end of the last handle.
struct Handle {
    core: Arc<Core>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        for magazine in self.core.magazines.iter() {
            let places = magazine.wait(Option::take);
            self.core.end(places.map(|places| places.free).unwrap_or_default());
        }
    }
}

struct Core {
    context: Context,
    magazines: Box<[Magazine]>,
    /// Number of all places, free or not.
    made: AtomicUsize,
    /// Of the thread that makes places.
    making: Mutex<()>,
    /// The timeout that ends places is armed.
    is_watched: AtomicBool,
}

/// Free places, in cache lines of its own.
#[repr(align(128))]
struct Magazine {
    is_used: AtomicBool,
    /// None: no handle is left.
    places: UnsafeCell<Option<Places>>,
}

#[derive(Default)]
struct Places {
    free: Vec<Free>,
    /// As many were free at all times since the last look.
    unused: usize,
}

impl Places {
    #[inline]
    fn pop(&mut self) -> Option<Free> {
        let free = self.free.pop();
        self.unused = self.unused.min(self.free.len());
        free
    }
}

// SAFETY: one thread at a time uses the places
unsafe impl Sync for Magazine {}

impl Magazine {
    fn new() -> Magazine {
        let places = UnsafeCell::new(Some(Places::default()));
        Magazine { is_used: AtomicBool::new(false), places }
    }

    /// Calls a function that does not panic. `None`: another thread uses the places.
    #[inline]
    fn with<T>(&self, body: impl FnOnce(&mut Option<Places>) -> T) -> Option<T> {
        if self.is_used.swap(true, Acquire) {
            return None;
        }
        // SAFETY: the flag was clear
        let result = body(unsafe { &mut *self.places.get() });
        self.is_used.store(false, Release);
        Some(result)
    }

    /// The same, which waits for another thread. That thread was preempted.
    fn wait<T>(&self, mut body: impl FnMut(&mut Option<Places>) -> T) -> T {
        loop {
            if let Some(result) = self.with(&mut body) {
                return result;
            }
            thread::sleep(Duration::from_micros(50));
        }
    }

    /// The last of free places. Places move between magazines, so this takes all of them first.
    fn search(magazines: &[Magazine]) -> Option<Free> {
        let (first, others) = magazines.split_first()?;
        first.wait(|places| Magazine::search(others).or_else(|| places.as_mut()?.pop()))
    }
}

impl Core {
    fn new(context: Context) -> Core {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        Core {
            context,
            magazines: (0..threads).map(|_| Magazine::new()).collect(),
            made: AtomicUsize::new(0),
            making: Mutex::new(()),
            is_watched: AtomicBool::new(false),
        }
    }

    /// All magazines, that of this thread first.
    #[inline]
    fn magazines(&self) -> impl Iterator<Item = &Magazine> {
        static THREADS: AtomicUsize = AtomicUsize::new(0);
        thread_local! {
            static NUMBER: usize = THREADS.fetch_add(1, Relaxed);
        }
        let first = NUMBER.with(|number| *number) % self.magazines.len();
        self.magazines[first..].iter().chain(&self.magazines[..first])
    }

    #[inline]
    fn pop(&self) -> Option<Free> {
        self.magazines().find_map(|magazine| magazine.with(|places| places.as_mut()?.pop())?)
    }

    #[inline]
    fn take(self: &Arc<Core>) -> Result<Free> {
        self.pop().map_or_else(|| self.make(), Ok)
    }

    /// Makes places and takes one of them.
    #[cold]
    fn make(self: &Arc<Core>) -> Result<Free> {
        let _making = self.making.lock().unwrap_or_else(PoisonError::into_inner);
        // Another thread has made some meanwhile.
        if let Some(free) = self.pop() {
            return Ok(free);
        }
        let number = 1 + (self.made.load(Relaxed) / 4).min(BATCH - 1);
        let rooms: Vec<*mut CellPlace> = (0..number)
            .map(|_| Box::into_raw(Box::new(MaybeUninit::<CellPlace>::uninit())).cast())
            .collect();
        let cookies: Vec<u64> = rooms.iter().map(|room| *room as usize as u64).collect();
        let (mut places, mut error) = (Vec::with_capacity(number), Error::Limit);
        for (room, word) in rooms.into_iter().zip(Word::many(&self.context, &cookies)) {
            match word {
                Ok(word) => {
                    let place = Place::new(Bell { word, core: self.clone() });
                    // SAFETY: it is the box, and no event refers to it yet. The reader has the same
                    // pointer, so this must not be a reference.
                    unsafe { room.write(place) };
                    places.push(Free(NonNull::new(room).expect("a box")));
                }
                Err(other) => {
                    // SAFETY: it is still the box
                    drop(unsafe { Box::from_raw(room.cast::<MaybeUninit<CellPlace>>()) });
                    error = other;
                }
            }
        }
        self.made.fetch_add(places.len(), SeqCst);
        self.watch();
        let free = places.pop().or_else(|| Magazine::search(&self.magazines)).ok_or(error)?;
        let first = self.magazines().next().expect("a magazine");
        first.wait(|all| all.iter_mut().for_each(|all| all.free.append(&mut places)));
        Ok(free)
    }

    /// Leaves a place for a later sleep. It ends if no handle is left.
    #[inline]
    fn put(free: Free) {
        // SAFETY: it lives until another thread gets the place, from the last magazine tried
        let core = unsafe { &*Arc::as_ptr(&free.place().alarm.core) };
        let mut free = Some(free);
        let mut put = |places: &mut Option<Places>| {
            if let Some(places) = places {
                places.free.extend(free.take());
            }
            free.is_none()
        };
        if core.magazines().any(|magazine| magazine.with(&mut put) == Some(true)) {
            return;
        }
        // A place that ended here, since all magazines are in use, would be missed at a limit.
        if !core.magazines[0].wait(&mut put) {
            // The place keeps the core.
            core.made.fetch_sub(1, SeqCst);
        }
    }

    /// Ends places with one call for each batch.
    fn end(&self, places: Vec<Free>) {
        for batch in places.chunks(BATCH) {
            let ids = batch.iter().map(|free| free.place().alarm.word.id);
            let _ = self.context.submit(&mut ids.map(Op::cancel).collect::<Vec<_>>());
        }
        self.made.fetch_sub(places.len(), SeqCst);
        for free in places {
            let place = ManuallyDrop::new(free).0;
            // SAFETY: as in the drop
            drop(unsafe { Box::from_raw(place.as_ptr()) });
        }
    }

    /// Has the reader look after a quiet time, unless there are few places. At a limit, the next
    /// thread that makes places tries again.
    fn watch(&self) {
        if self.made.load(SeqCst) > SPARE && !self.is_watched.swap(true, SeqCst) {
            let is_armed = self.context.arm(self.context.now() + QUIET, 0).is_ok();
            self.is_watched.store(is_armed, SeqCst);
        }
    }

    /// Ends places that were free since the last look, down to SPARE.
    #[cold]
    fn look(&self) {
        let mut surplus = self.made.load(SeqCst).saturating_sub(SPARE);
        for magazine in self.magazines.iter() {
            let places = magazine.wait(|places| {
                let Places { free, unused } = places.as_mut()?;
                let places = free.split_off(free.len() - surplus.min(*unused));
                *unused = free.len();
                Some(places)
            });
            surplus -= places.as_ref().map_or(0, Vec::len);
            self.end(places.unwrap_or_default());
        }
        self.is_watched.store(false, SeqCst);
        self.watch();
    }

    /// Handles the events of a manual clock.
    #[cold]
    fn turn(&self) {
        let mut room = [Event::default(); EVENTS];
        while let Ok(events @ [_, ..]) = self.context.read(&mut room, Some(Duration::ZERO)) {
            events.iter().for_each(|event| match event.cookie() {
                0 => self.look(),
                _ => end_sleep(event),
            });
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let _ = self.context.stop();
    }
}

type CellPlace = Place<Bell>;

/// The cell of a sleep, and the timer to which it belongs.
struct Bell {
    word: Word,
    core: Arc<Core>,
}

impl Alarm for Bell {
    #[inline]
    fn is_armed(&self) -> bool {
        self.word.deadline().is_some()
    }

    #[inline]
    fn cancel(&self) -> bool {
        self.word.cancel() != Outcome::Idle
    }
}

/// A place that is nobody else's. Its drop ends the cell.
struct Free(NonNull<CellPlace>);

// SAFETY: a place is shared between threads
unsafe impl Send for Free {}

impl Free {
    #[inline]
    fn place(&self) -> &CellPlace {
        // SAFETY: it lives until the drop
        unsafe { self.0.as_ref() }
    }
}

impl Drop for Free {
    fn drop(&mut self) {
        let Bell { word, core } = &self.place().alarm;
        let _ = core.context.cancel(word.id);
        // SAFETY: it was a box. No event refers to it, and none will: the cell has ended.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The reader. Its context is stopped in the end, when there are no cells.
fn read_events(context: &Context, core: &Weak<Core>) {
    let mut room = [Event::default(); EVENTS];
    loop {
        match context.read(&mut room, None) {
            Ok([]) => return,
            Ok(events) => events.iter().for_each(|event| match event.cookie() {
                0 => drop(core.upgrade().map(|core| core.look())),
                _ => end_sleep(event),
            }),
            Err(Error::System(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => panic!("a timer cannot read its events: {error}"),
        }
    }
}

fn end_sleep(event: &Event) {
    let place = NonNull::new(event.cookie() as usize as *mut CellPlace).expect("an address");
    // SAFETY: the cookie of each cell is its place, which stays until its event is handled
    let (waker, is_left) = unsafe { Place::end(place) };
    if is_left {
        Core::put(Free(place));
    }
    // The hook reports a panic, which must not keep others from being woken. Nor must the drop of
    // its payload.
    let result = catch_unwind(AssertUnwindSafe(|| waker.map(Waker::wake)));
    result.map_or_else(forget, drop);
}

/// A future that is ready after its deadline, from [`Timer::sleep`]. Dropping it cancels it.
#[must_use = "a sleep that is dropped is cancelled"]
pub struct Sleep {
    place: NonNull<CellPlace>,
    deadline: Time,
}

// SAFETY: a place is shared between threads
unsafe impl Send for Sleep {}
// SAFETY: a shared sleep only reads the word of the cell
unsafe impl Sync for Sleep {}

impl Sleep {
    #[inline]
    fn begin(free: Free, deadline: Time) -> Result<Sleep> {
        let Bell { word, core } = &free.place().alarm;
        word.arm(&core.context, deadline)?;
        let sleep = Sleep { place: ManuallyDrop::new(free).0, deadline };
        sleep.fire_if_due();
        Ok(sleep)
    }

    /// Nobody reads the events of a manual clock until it is set.
    #[inline]
    fn fire_if_due(&self) {
        let core = &self.place().alarm.core;
        if core.context.is_manual() && self.deadline <= core.context.now() {
            core.turn();
        }
    }

    #[inline]
    fn place(&self) -> &CellPlace {
        // SAFETY: the place lives at least as long as the sleep that owns it
        unsafe { self.place.as_ref() }
    }

    pub(crate) fn now(&self) -> Instant {
        self.place().alarm.core.context.instant()
    }

    /// Begin anew, with another deadline, whether it was over or not. One exchange in memory. The
    /// task that polled it last is woken at the new deadline.
    ///
    /// # Errors
    ///
    /// As [`Timer::sleep`].
    #[inline]
    pub fn reset(&mut self, deadline: impl Into<Deadline>) -> Result<()> {
        let Bell { word, core } = &self.place().alarm;
        let deadline = core.context.time_of(deadline.into())?;
        // SAFETY: this is the owner
        if unsafe { self.place().reuse() } {
            word.arm(&core.context, deadline)?;
        } else if !word.rearm(&core.context, self.deadline, deadline)? {
            return self.replace(deadline);
        }
        self.deadline = deadline;
        self.fire_if_due();
        Ok(())
    }

    /// Begins anew in another place: the reader has an event of this one. A waker that it has not
    /// taken is not woken, and moves.
    #[cold]
    fn replace(&mut self, deadline: Time) -> Result<()> {
        let free = self.place().alarm.core.take()?;
        // SAFETY: this is the owner of both
        unsafe {
            if let Some(waker) = self.place().take_waker() {
                drop(free.place().register(waker));
            }
        }
        *self = Sleep::begin(free, deadline)?;
        Ok(())
    }

    /// Its deadline. If the clock of the context is not that of `Instant`: as the clocks are now.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        self.place().alarm.core.context.instant_of(self.deadline)
    }

    /// Is it over?
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        self.place().is_over()
    }

    /// Wait for a future, at most until the sleep is over. The sleep can be reset and used again
    /// afterwards.
    ///
    /// # Errors
    ///
    /// [`Elapsed`] if the sleep was over first; the future is dropped.
    pub async fn limit<F: Future>(&mut self, future: F) -> std::result::Result<F::Output, Elapsed> {
        Timeout { future, sleep: self }.await
    }
}

impl Drop for Sleep {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is the owner
        if unsafe { Place::leave(self.place) } {
            Core::put(Free(self.place));
        }
    }
}

impl Future for Sleep {
    type Output = ();

    /// Ready when the deadline has passed and the cell has fired, whether the reader and the
    /// executor have had a turn or not.
    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<()> {
        // SAFETY: this is the owner
        unsafe { self.place().poll(cx.waker()) }
    }
}

/// The sleep was over before the future was ready: [`Sleep::limit`], [`Timer::timeout`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Elapsed;

impl fmt::Display for Elapsed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("deadline has elapsed")
    }
}

impl std::error::Error for Elapsed {}

impl From<Elapsed> for io::Error {
    fn from(_: Elapsed) -> io::Error {
        io::ErrorKind::TimedOut.into()
    }
}

impl fmt::Debug for Timer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Timer").field("context", &self.handle.core.context).finish_non_exhaustive()
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline()).finish_non_exhaustive()
    }
}
