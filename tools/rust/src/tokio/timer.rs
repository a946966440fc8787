// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Sleeps. Each has a [`place`](super::place), which is a cell and room for a waker. It is kept for
//! a later sleep, so that a sleep that begins and ends costs no system call.
//!
//! The reader, a thread of the timer, reads the events of all cells and wakes the tasks. Wakers are
//! foreign code: they are cloned, dropped and woken without a lock, and may panic. The cookie of a
//! cell is the address of its place. So the context is the timer's alone: whoever could arm
//! timeouts on it could choose the address.
//!
//! Each thread has a magazine of free places, which it may share with other threads. A flag
//! protects it, and nobody waits: if a magazine is empty, full or in use, the thread tries the next
//! one. Together they hold half of all places, and SPARE. What is returned beyond that ends: a
//! burst that has passed leaves no more live timeouts. The kernel counts their memory, by the page,
//! against the limit of the user until the context is closed.
//!
//! A place has a reference to the core, which has the context and the magazines. So a sleep keeps
//! the timer, and needs no count of its own. The last handle ends the free places, and takes the
//! magazines away: later sleeps end theirs. The core goes with the last place. It stops the
//! context, which ends the reader. Nobody joins the reader: its wakers may wait for whoever drops
//! the core, or drop it themselves.
//!
//! A timer without the device has no core. Its sleeps are those of tokio.

use std::cell::{Cell as LocalCell, UnsafeCell};
use std::env;
use std::fmt;
use std::future::Future;
use std::io;
use std::mem::{forget, ManuallyDrop, MaybeUninit};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::*};
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use super::place::{Alarm, Place};
use super::timeout::Timeout;
use super::Burst;
use crate::cell::Cell;
use crate::context::{zero_of, Context};
use crate::error::{Error, Result};
use crate::event::Event;
use crate::op::Outcome;
use crate::setup::Setup;
use crate::state::Info;
use crate::time::{Clock, Deadline, Time};

/// Free places that may be there besides half of all: few for any limit.
const SPARE: usize = 16_384;
/// As many events are read at once.
const EVENTS: usize = 64;
/// tokio has a limit, too, but takes only instants.
pub(super) const FAR: Duration = Duration::from_secs(86_400 * 365 * 30);

/// Sleeps on a context of their own, or without the device on the timers of tokio.
///
/// ```no_run
/// # async fn example() -> twheel::Result<()> {
/// use std::time::Duration;
/// use twheel::tokio::Timer;
///
/// let timer = Timer::open()?;
/// timer.sleep(Duration::from_millis(50))?.await;
/// # Ok(())
/// # }
/// ```
///
/// A thread of the timer wakes the tasks. With the device a timer needs no runtime of tokio: its
/// sleeps can be used on any executor, on several at once, and in a static variable. They outlive
/// the runtime in which they were made. Without the device, a sleep must be made in a runtime whose
/// time is enabled, and ends with that.
///
/// A clone is another handle of the same timer. A sleep that has ended leaves its cell and its
/// memory for a later one, until the last handle and the last sleep are dropped.
///
/// A child after `fork()` has no reader, and shares the cells: a sleep or a timer that it drops
/// ends in the parent, too. It must call `exec()` or `_exit()`, or forget them.
#[derive(Clone)]
pub struct Timer {
    /// None: the sleeps are those of tokio.
    handle: Option<Arc<Handle>>,
}

impl Timer {
    /// A timer on a new context with the default settings. If the device is missing, not permitted
    /// or without cells, its sleeps are those of [`tokio::time`](::tokio::time). The environment
    /// variable `TWHEEL_BACKEND` chooses: `kernel` is the device, or an error; `process` is tokio.
    ///
    /// # Errors
    ///
    /// As [`with_setup`](Timer::with_setup), but not those that a timer without the device avoids.
    /// [`Error::System`] for another value of `TWHEEL_BACKEND`.
    pub fn open() -> Result<Timer> {
        let backend = env::var_os("TWHEEL_BACKEND").unwrap_or_default();
        let fallback = match backend.to_str() {
            Some("process") => return Ok(Timer { handle: None }),
            Some("kernel") => false,
            Some("") => true,
            _ => {
                let text = "TWHEEL_BACKEND is neither 'kernel' nor 'process'";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text).into());
            }
        };
        match Timer::with_setup(&Setup::new()) {
            Err(Error::Open { .. }) if fallback => Ok(Timer { handle: None }),
            // Kernels of 32 bits have no cells.
            Err(Error::System(error))
                if fallback && error.raw_os_error() == Some(libc::EOPNOTSUPP) =>
            {
                Ok(Timer { handle: None })
            }
            timer => timer,
        }
    }

    /// A timer on a new context with settings such as the clock and the slack.
    ///
    /// # Errors
    ///
    /// As [`Setup::open`]; [`Error::System`]: `EOPNOTSUPP` if the kernel has no cells, `ENOMEM`
    /// without address space for them, `EAGAIN` if no thread can be made.
    pub fn with_setup(setup: &Setup) -> Result<Timer> {
        let context = setup.open()?;
        context.cells().map(&context)?;
        let events = context.clone();
        thread::Builder::new().name("twheel".into()).spawn(move || read_events(&events))?;
        Ok(Timer { handle: Some(Arc::new(Handle { core: Arc::new(Core::new(context)) })) })
    }

    pub(super) fn now(&self) -> Instant {
        self.handle.as_ref().map_or_else(tokio_now, |_| Instant::now())
    }

    /// Settings and fill level of the context; `None` without the device.
    #[must_use]
    pub fn info(&self) -> Option<Info> {
        self.handle.as_ref()?.core.context.info().ok()
    }

    /// Sleep for a `Duration`, until an `Instant`, or until a [`Time`] on the clock of the context.
    /// The sleep begins at once, not at the first poll. It never ends early.
    ///
    /// # Errors
    ///
    /// As [`Context::cell`], if more sleep than ever before. A sleep that has ended counts until
    /// the thread of the timer has handled its event. [`Error::System`]: `EINVAL` on
    /// [`Clock::Realtime`], unless the deadline is a [`Time`].
    ///
    /// # Panics
    ///
    /// Without the device: outside of a runtime, and if its time is not enabled.
    #[inline]
    pub fn sleep(&self, deadline: impl Into<Deadline>) -> Result<Sleep> {
        let deadline = deadline.into();
        Ok(Sleep(match &self.handle {
            Some(handle) => Kind::Cell(CellSleep::new(&handle.core, deadline)?),
            None => Kind::Tokio(Box::pin(::tokio::time::sleep_until(tokio_instant(deadline)))),
        }))
    }

    /// Sleep until an instant, as [`sleep`](Timer::sleep) does.
    ///
    /// # Errors
    ///
    /// As [`sleep`](Timer::sleep), which panics, too.
    #[inline]
    pub fn sleep_until(&self, deadline: Instant) -> Result<Sleep> {
        self.sleep(deadline)
    }
}

/// The time of tokio, which may be paused.
fn tokio_now() -> Instant {
    ::tokio::time::Instant::now().into_std()
}

fn tokio_instant(deadline: Deadline) -> ::tokio::time::Instant {
    let now = ::tokio::time::Instant::now();
    let instant = match deadline {
        Deadline::After(duration) => return now + duration.min(FAR),
        Deadline::Until(instant) => instant,
        Deadline::At(time) => zero_of(Clock::Monotonic) + (time - Time::default()),
    };
    ::tokio::time::Instant::from_std(instant).min(now + FAR)
}

/// Its drop is the end of the last handle.
struct Handle {
    core: Arc<Core>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.core.magazines.iter().for_each(|magazine| drop(magazine.wait(Option::take)));
    }
}

struct Core {
    context: Context,
    magazines: Box<[Magazine]>,
    /// Number of all places, free or not.
    made: AtomicUsize,
}

/// Free places, in cache lines of its own.
#[repr(align(128))]
struct Magazine {
    is_used: AtomicBool,
    /// None: no handle is left.
    places: UnsafeCell<Option<Vec<Free>>>,
}

// SAFETY: one thread at a time uses the places
unsafe impl Sync for Magazine {}

impl Magazine {
    fn new() -> Magazine {
        Magazine { is_used: AtomicBool::new(false), places: UnsafeCell::new(Some(Vec::new())) }
    }

    /// Calls a function that does not panic. `None`: another thread uses the places.
    #[inline]
    fn with<T>(&self, body: impl FnOnce(&mut Option<Vec<Free>>) -> T) -> Option<T> {
        if self.is_used.swap(true, Acquire) {
            return None;
        }
        // SAFETY: the flag was clear
        let result = body(unsafe { &mut *self.places.get() });
        self.is_used.store(false, Release);
        Some(result)
    }

    /// The same, which waits for another thread. That thread was preempted.
    fn wait<T>(&self, mut body: impl FnMut(&mut Option<Vec<Free>>) -> T) -> T {
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
        first.wait(|places| Magazine::search(others).or_else(|| pop(places)))
    }
}

#[inline]
fn pop(places: &mut Option<Vec<Free>>) -> Option<Free> {
    places.as_mut()?.pop()
}

impl Core {
    fn new(context: Context) -> Core {
        let threads = thread::available_parallelism().map_or(1, usize::from);
        let magazines = (0..threads).map(|_| Magazine::new()).collect();
        Core { context, magazines, made: AtomicUsize::new(0) }
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
    fn take(self: &Arc<Core>) -> Result<Free> {
        match self.magazines().find_map(|magazine| magazine.with(pop)?) {
            Some(free) => Ok(free),
            None => self.make().or_else(|error| Magazine::search(&self.magazines).ok_or(error)),
        }
    }

    #[cold]
    fn make(self: &Arc<Core>) -> Result<Free> {
        let room = Box::into_raw(Box::new(MaybeUninit::<CellPlace>::uninit()));
        let cell = self.context.cell(room as usize as u64).map_err(|error| {
            // SAFETY: it is still the box
            drop(unsafe { Box::from_raw(room) });
            error
        })?;
        self.made.fetch_add(1, Relaxed);
        let place = NonNull::new(room.cast::<CellPlace>()).expect("a box");
        // SAFETY: the same, and no event refers to it yet. The reader has the same pointer, so this
        // must not be a reference.
        unsafe { place.as_ptr().write(Place::new(Bell { cell, core: self.clone() })) };
        Ok(Free(place))
    }

    /// Leaves a place for a later sleep. It ends if there is no room. So does another one, which
    /// had room while there were more places.
    #[inline]
    fn put(free: Free) {
        // SAFETY: it lives until another thread gets the place, from the last magazine tried
        let core = unsafe { &*Arc::as_ptr(&free.place().alarm.core) };
        let limit = core.made.load(Relaxed) / 2 + SPARE;
        let (mut free, mut surplus) = (Some(free), None);
        for magazine in core.magazines() {
            magazine.with(|places| match places {
                Some(places) if places.len() * core.magazines.len() < limit => {
                    places.extend(free.take());
                }
                Some(places) if places.len() * core.magazines.len() > limit => {
                    surplus = surplus.take().or_else(|| places.pop());
                }
                _ => {}
            });
            if free.is_none() {
                break;
            }
        }
        let ended = usize::from(free.is_some()) + usize::from(surplus.is_some());
        if ended > 0 {
            // They keep the core.
            core.made.fetch_sub(ended, Relaxed);
        }
    }
}

impl Drop for Core {
    fn drop(&mut self) {
        let _ = self.context.stop();
    }
}

type CellPlace = Place<Bell>;

/// What rings for a sleep.
struct Bell {
    cell: Cell,
    core: Arc<Core>,
}

impl Alarm for Bell {
    #[inline]
    fn is_armed(&self) -> bool {
        self.cell.deadline().is_some()
    }

    #[inline]
    fn cancel(&self) -> bool {
        self.cell.cancel() != Outcome::Idle
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
        // SAFETY: it was a box. No event refers to it, and none will: the cell ends before the
        // memory.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
    }
}

/// The reader. Its context is stopped in the end, when there are no cells.
fn read_events(context: &Context) {
    let mut room = [Event::default(); EVENTS];
    loop {
        match context.read(&mut room, None) {
            Ok([]) => return,
            Ok(events) => events.iter().for_each(end_sleep),
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

thread_local! {
    /// Sleeps of tokio that were over before tokio noticed.
    static BURST: LocalCell<Burst> = LocalCell::default();
}

/// A future that is ready after its deadline, from [`Timer::sleep`]. Dropping it cancels it.
#[must_use = "a sleep that is dropped is cancelled"]
pub struct Sleep(Kind);

enum Kind {
    Cell(CellSleep),
    Tokio(Pin<Box<::tokio::time::Sleep>>),
}

struct CellSleep {
    place: NonNull<CellPlace>,
    deadline: Time,
}

// SAFETY: a place is shared between threads
unsafe impl Send for CellSleep {}
// SAFETY: a shared sleep only reads the word of the cell
unsafe impl Sync for CellSleep {}

impl CellSleep {
    #[inline]
    fn new(core: &Arc<Core>, deadline: Deadline) -> Result<CellSleep> {
        let deadline = core.context.time_of(deadline)?;
        CellSleep::begin(core.take()?, deadline)
    }

    #[inline]
    fn begin(free: Free, deadline: Time) -> Result<CellSleep> {
        free.place().alarm.cell.arm(deadline)?;
        let place = ManuallyDrop::new(free).0;
        Ok(CellSleep { place, deadline })
    }

    #[inline]
    fn place(&self) -> &CellPlace {
        // SAFETY: the place lives at least as long as the sleep that owns it
        unsafe { self.place.as_ref() }
    }

    #[inline]
    fn reset(&mut self, deadline: Deadline) -> Result<()> {
        let Bell { cell, core } = &self.place().alarm;
        let deadline = core.context.time_of(deadline)?;
        // SAFETY: this is the owner
        if unsafe { self.place().reuse() } {
            cell.arm(deadline)?;
        } else if !cell.rearm(self.deadline, deadline)? {
            return self.replace(deadline);
        }
        self.deadline = deadline;
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
        *self = CellSleep::begin(free, deadline)?;
        Ok(())
    }
}

impl Drop for CellSleep {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: this is the owner
        if unsafe { Place::leave(self.place) } {
            Core::put(Free(self.place));
        }
    }
}

impl Sleep {
    pub(super) fn now(&self) -> Instant {
        if let Kind::Tokio(_) = self.0 {
            tokio_now()
        } else {
            Instant::now()
        }
    }

    /// Begin anew, with another deadline, whether it was over or not. One exchange in memory. The
    /// task that polled it last is woken at the new deadline.
    ///
    /// # Errors
    ///
    /// As [`Timer::sleep_until`].
    #[inline]
    pub fn reset(&mut self, deadline: impl Into<Deadline>) -> Result<()> {
        let deadline = deadline.into();
        match &mut self.0 {
            Kind::Cell(sleep) => sleep.reset(deadline)?,
            Kind::Tokio(sleep) => sleep.as_mut().reset(tokio_instant(deadline)),
        }
        Ok(())
    }

    /// Its deadline. If the clock of the context is not that of `Instant`: as the clocks are now.
    #[must_use]
    pub fn deadline(&self) -> Instant {
        match &self.0 {
            Kind::Cell(sleep) => sleep.place().alarm.core.context.instant_of(sleep.deadline),
            Kind::Tokio(sleep) => sleep.deadline().into_std(),
        }
    }

    /// Is it over?
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        match &self.0 {
            Kind::Cell(sleep) => sleep.place().is_over(),
            Kind::Tokio(sleep) => sleep.deadline() <= ::tokio::time::Instant::now(),
        }
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

impl Future for Sleep {
    type Output = ();

    /// Ready when the deadline has passed and the cell has fired, whether the reader and the
    /// runtime have had a turn or not.
    #[inline]
    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<()> {
        match &mut self.0 {
            // SAFETY: this is the owner
            Kind::Cell(sleep) => unsafe { sleep.place().poll(cx.waker()) },
            Kind::Tokio(sleep) => match sleep.as_mut().poll(cx) {
                // It waits for the driver, or its task has used up its budget.
                Poll::Pending if sleep.deadline() <= ::tokio::time::Instant::now() => {
                    BURST.with(|cell| {
                        let mut burst = cell.take();
                        let poll = burst.poll(cx);
                        cell.set(burst);
                        poll
                    })
                }
                poll => poll,
            },
        }
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
        let context = self.handle.as_ref().map(|handle| &handle.core.context);
        f.debug_struct("Timer").field("context", &context).finish_non_exhaustive()
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline()).finish_non_exhaustive()
    }
}
