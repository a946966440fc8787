// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Sleeps. Each has a cell, which is kept for a later sleep, so that a sleep that begins and ends
//! costs no system call.
//!
//! The reader, a task, reads the events of all cells and wakes the sleeping task. A sleep may be
//! reset, or its cell be given to another sleep, when the reader has read an event and not handled
//! it yet. The event names the deadline it was armed for: the reader ignores an event with another
//! deadline than the current one. If the deadlines are equal, it has passed for both.
//!
//! Cells that are free beyond half of all, and SPARE, end with the sleep that frees them: a burst
//! that has passed leaves no more live timeouts. The kernel counts their memory, by the page,
//! against the limit of the user until the context is closed.
//!
//! A timer without the device has no cells and no reader. Its sleeps are those of tokio.
//!
//! The reader ends with the context, after a failed read, with its runtime, or when the timer is
//! dropped. Then it marks all places as lost: a sleep that waits panics, and none begins.
//!
//! Locks: the reader locks `places`, then a sleeper. No other two are held at once. A waker is foreign code: it can make or drop
//! sleeps when it is cloned, dropped or woken. So that happens without a lock. It can panic, too:
//! the reader catches the panic of a wake, and goes on.

use std::env;
use std::fmt;
use std::future::Future;
use std::io;
use std::mem::swap;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use ::tokio::task::JoinHandle;
use ::tokio::time::Instant;

use super::expirations::Expirations;
use crate::cell::Cell;
use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::op::Id;
use crate::sys;
use crate::time::{Clock, Deadline, Time};

/// Free places that may be there besides half of all: few for any limit.
const SPARE: usize = 16_384;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

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
/// A clone is another handle of the same timer. A sleep that has ended leaves its cell and its
/// memory for a later one, until the last handle and the last sleep are dropped.
#[derive(Clone)]
pub struct Timer {
    /// None: the sleeps are those of tokio.
    shared: Option<Arc<Shared>>,
}

struct Shared {
    context: Context,
    places: Arc<Mutex<Places>>,
    free: Mutex<Free>,
    reader: JoinHandle<()>,
}

#[derive(Default)]
struct Places {
    /// By the index of the cell.
    all: Vec<Option<Arc<Place>>>,
    /// The reader has ended.
    lost: bool,
}

#[derive(Default)]
struct Free {
    places: Vec<Arc<Place>>,
    /// Number of all places, free or not.
    made: usize,
}

impl Free {
    /// Takes a place for good, if too many are free.
    fn surplus(&mut self) -> Option<Arc<Place>> {
        if self.places.len() <= self.made / 2 + SPARE {
            return None;
        }
        self.made -= 1;
        self.places.pop()
    }
}

/// A cell and its sleeper.
struct Place {
    cell: Cell,
    sleeper: Sleeper,
}

#[derive(Default)]
struct Sleeper {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    deadline: Time,
    over: bool,
    /// The reader has ended.
    lost: bool,
    waker: Option<Waker>,
}

impl State {
    /// Is it over? Panics if it never will be.
    fn check(&self) -> bool {
        assert!(self.over || !self.lost, "the reader of the timer has ended before the sleep");
        self.over
    }
}

impl Sleeper {
    fn begin(&self, deadline: Time) -> Result<()> {
        let mut state = lock(&self.state);
        if state.lost {
            return Err(Error::Stopped);
        }
        state.deadline = deadline;
        state.over = false;
        Ok(())
    }

    /// The waker to wake, unless the deadline is another one by now.
    fn end(&self, deadline: Time) -> Option<Waker> {
        let mut state = lock(&self.state);
        if deadline != state.deadline {
            return None;
        }
        state.over = true;
        state.waker.take()
    }

    /// The waker to wake, so that the next poll panics.
    fn lose(&self) -> Option<Waker> {
        let mut state = lock(&self.state);
        state.lost = true;
        state.waker.take()
    }

    fn deadline(&self) -> Time {
        lock(&self.state).deadline
    }

    fn is_over(&self) -> bool {
        lock(&self.state).over
    }

    fn poll(&self, waker: &Waker) -> Poll<()> {
        match &*lock(&self.state) {
            state if state.check() => return Poll::Ready(()),
            State { waker: Some(known), .. } if known.will_wake(waker) => return Poll::Pending,
            _ => {}
        }
        // Declared before the guard: what it holds at the end is dropped after the lock.
        let mut other = Some(waker.clone());
        let mut state = lock(&self.state);
        if state.check() {
            return Poll::Ready(());
        }
        swap(&mut state.waker, &mut other);
        Poll::Pending
    }

    fn forget(&self) {
        // Named, because a temporary is dropped before the guard.
        let _waker = lock(&self.state).waker.take();
    }
}

impl Timer {
    /// A timer on a new context with the default settings. If the device is missing or not
    /// permitted, its sleeps are those of [`tokio::time`](::tokio::time). The environment
    /// variable `TWHEEL_BACKEND` chooses: `kernel` is the device, or an error; `process` is tokio.
    ///
    /// # Errors
    ///
    /// As [`Context::open`], but not [`Error::Open`] without `TWHEEL_BACKEND=kernel`;
    /// [`Error::System`] for another value of it.
    ///
    /// # Panics
    ///
    /// With the device as [`Timer::new`].
    pub fn open() -> Result<Timer> {
        let backend = env::var_os("TWHEEL_BACKEND").unwrap_or_default();
        let fallback = match backend.to_str() {
            Some("process") => return Ok(Timer { shared: None }),
            Some("kernel") => false,
            Some("") => true,
            _ => {
                let text = "TWHEEL_BACKEND is neither 'kernel' nor 'process'";
                return Err(io::Error::new(io::ErrorKind::InvalidInput, text).into());
            }
        };
        match Context::open() {
            Err(Error::Open { .. }) if fallback => Ok(Timer { shared: None }),
            context => Timer::new(context?),
        }
    }

    /// A timer on a context that nothing else uses: [`Setup`](crate::Setup) chooses clock and
    /// slack. A task of the current runtime reads its events. When that runtime ends, the timer
    /// ends, too.
    ///
    /// # Errors
    ///
    /// As [`Expirations::new`].
    ///
    /// # Panics
    ///
    /// Outside of a runtime, and if its I/O is not enabled.
    pub fn new(context: Context) -> Result<Timer> {
        let places = Arc::<Mutex<Places>>::default();
        let expirations = Expirations::new(&context)?;
        let reader = ::tokio::spawn(wake(expirations, Reader(places.clone())));
        let free = Mutex::default();
        Ok(Timer { shared: Some(Arc::new(Shared { context, places, free, reader })) })
    }

    /// Read the clock of deadlines; [`Clock::Monotonic`] without a context.
    #[must_use]
    pub fn now(&self) -> Time {
        match &self.shared {
            Some(shared) => shared.context.now(),
            None => Time::from_nanos(sys::now(Clock::Monotonic.id())),
        }
    }

    /// The context of the timer, for its settings and statistics; `None` without the device.
    ///
    /// Use it for nothing else. [`Context::stop`] ends the timer. If another reader takes the
    /// events, no sleep ends. After [`Context::cancel_all`] a sleep may fail with
    /// [`Gone`](crate::Error::Gone), never end, or disturb a later one.
    #[must_use]
    pub fn context(&self) -> Option<&Context> {
        Some(&self.shared.as_ref()?.context)
    }

    /// Sleep until a deadline. It is armed at once, not at the first poll. It never ends early.
    ///
    /// # Errors
    ///
    /// As [`Cell::arm`]; as [`Context::cell`], if more sleep than ever before. [`Error::Stopped`]
    /// also if the timer has ended.
    ///
    /// # Panics
    ///
    /// Without the device: outside of a runtime, and if its time is not enabled.
    pub fn sleep(&self, deadline: impl Into<Deadline>) -> Result<Sleep> {
        let deadline = deadline.into();
        let shared = match &self.shared {
            Some(shared) => shared,
            None => return Ok(Sleep(Kind::Tokio(TokioSleep::new(self.time_of(deadline))))),
        };
        let free = lock(&shared.free).places.pop();
        let place = match free {
            Some(place) => place,
            None => shared.new_place()?,
        };
        let sleep = CellSleep { place, shared: shared.clone() };
        sleep.reset(deadline)?;
        Ok(Sleep(Kind::Cell(sleep)))
    }

    fn time_of(&self, deadline: Deadline) -> Time {
        match deadline {
            Deadline::After(duration) => self.now() + duration,
            Deadline::At(time) => time,
        }
    }
}

impl Shared {
    fn new_place(&self) -> Result<Arc<Place>> {
        let mut places = lock(&self.places);
        if places.lost {
            return Err(Error::Stopped);
        }
        let cell = self.context.cell(0)?;
        let index = index_of(cell.id());
        let place = Arc::new(Place { cell, sleeper: Sleeper::default() });
        if index >= places.all.len() {
            places.all.resize(index + 1, None);
        }
        places.all[index] = Some(place.clone());
        drop(places);
        lock(&self.free).made += 1;
        Ok(place)
    }

    /// Leaves a place for a later sleep. Too many free ones are forgotten first, because the index
    /// of a cell that has ended may be used again.
    fn put(&self, place: Arc<Place>) {
        let mut free = lock(&self.free);
        free.places.push(place);
        while let Some(surplus) = free.surplus() {
            drop(free);
            lock(&self.places).all[index_of(surplus.cell.id())] = None;
            drop(surplus);
            free = lock(&self.free);
        }
    }
}

/// The kernel numbers the cells of a context from 0, in the low half of the id.
fn index_of(id: Id) -> usize {
    id.as_raw() as u32 as usize
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

/// The places, for the task that reads the events. Its drop is the end of the reader, whatever the
/// reason is.
struct Reader(Arc<Mutex<Places>>);

impl Drop for Reader {
    fn drop(&mut self) {
        let mut places = lock(&self.0);
        places.lost = true;
        let mut wakers =
            places.all.iter().flatten().filter_map(|place| place.sleeper.lose()).collect();
        drop(places);
        wake_all(&mut wakers);
    }
}

async fn wake(mut expirations: Expirations, reader: Reader) {
    let mut wakers = Vec::new();
    loop {
        match expirations.batch().await {
            Ok(events) if !events.is_empty() => {
                let places = lock(&reader.0);
                wakers.extend(events.iter().filter_map(|event| end_sleep(&places.all, event)));
            }
            _ => return,
        }
        wake_all(&mut wakers);
    }
}

/// A waker may run anything, so the caller holds no lock. A panic is reported by its hook, and must
/// not keep the others from being woken.
fn wake_all(wakers: &mut Vec<Waker>) {
    for waker in wakers.drain(..) {
        let _ = catch_unwind(AssertUnwindSafe(|| waker.wake()));
    }
}

fn end_sleep(places: &[Option<Arc<Place>>], event: &Event) -> Option<Waker> {
    let place = places.get(index_of(event.id()))?.as_ref()?;
    if event.is_unprocessed() {
        return None;
    }
    place.sleeper.end(event.expires())
}

/// A future that is ready after its deadline, from [`Timer::sleep`]. Dropping it cancels it.
///
/// # Panics
///
/// A poll panics if the timer ended before the sleep. A timer ends when its context is
/// [stopped](Context::stop), when its events cannot be read, and with the runtime of
/// [`Timer::new`].
pub struct Sleep(Kind);

enum Kind {
    Cell(CellSleep),
    Tokio(TokioSleep),
}

struct CellSleep {
    place: Arc<Place>,
    shared: Arc<Shared>,
}

impl CellSleep {
    fn reset(&self, deadline: Deadline) -> Result<()> {
        let time = self.shared.context.time_of(deadline)?;
        self.place.sleeper.begin(time)?;
        self.place.cell.arm(time)?;
        Ok(())
    }
}

struct TokioSleep {
    sleep: Pin<Box<::tokio::time::Sleep>>,
    deadline: Time,
}

impl TokioSleep {
    fn new(deadline: Time) -> TokioSleep {
        TokioSleep { sleep: Box::pin(::tokio::time::sleep_until(instant(deadline))), deadline }
    }

    fn reset(&mut self, deadline: Time) {
        self.sleep.as_mut().reset(instant(deadline));
        self.deadline = deadline;
    }
}

/// The clock is read before that of tokio: a sleep is never early.
fn instant(deadline: Time) -> Instant {
    let now = Time::from_nanos(sys::now(Clock::Monotonic.id()));
    Instant::now() + (deadline - now)
}

impl Sleep {
    /// Begin anew, with another deadline, whether it was over or not. One exchange in memory.
    ///
    /// # Errors
    ///
    /// As [`Cell::arm`]. [`Error::Stopped`] also if the timer has ended.
    pub fn reset(&mut self, deadline: impl Into<Deadline>) -> Result<()> {
        let deadline = deadline.into();
        match &mut self.0 {
            Kind::Cell(sleep) => sleep.reset(deadline)?,
            Kind::Tokio(sleep) => sleep.reset(Timer { shared: None }.time_of(deadline)),
        }
        Ok(())
    }

    /// Its deadline, on the clock of [`Timer::now`].
    #[must_use]
    pub fn deadline(&self) -> Time {
        match &self.0 {
            Kind::Cell(sleep) => sleep.place.sleeper.deadline(),
            Kind::Tokio(sleep) => sleep.deadline,
        }
    }

    /// Is it over?
    #[must_use]
    pub fn is_elapsed(&self) -> bool {
        match &self.0 {
            Kind::Cell(sleep) => sleep.place.sleeper.is_over(),
            Kind::Tokio(sleep) => sleep.sleep.is_elapsed(),
        }
    }

    /// Wait for a future, at most until the sleep is over. The sleep can be reset and used again
    /// afterwards.
    ///
    /// # Errors
    ///
    /// [`Elapsed`] if the sleep was over first; the future is dropped.
    pub async fn limit<F: Future>(&mut self, future: F) -> std::result::Result<F::Output, Elapsed> {
        ::tokio::pin!(future);
        Limit { sleep: self, future }.await
    }
}

impl Future for Sleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<()> {
        match &mut self.0 {
            Kind::Cell(sleep) => sleep.place.sleeper.poll(cx.waker()),
            Kind::Tokio(sleep) => sleep.sleep.as_mut().poll(cx),
        }
    }
}

impl Drop for CellSleep {
    fn drop(&mut self) {
        self.place.cell.cancel();
        self.place.sleeper.forget();
        self.shared.put(self.place.clone());
    }
}

struct Limit<'a, F> {
    sleep: &'a mut Sleep,
    future: Pin<&'a mut F>,
}

impl<F: Future> Future for Limit<'_, F> {
    type Output = std::result::Result<F::Output, Elapsed>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut std::task::Context<'_>) -> Poll<Self::Output> {
        if let Poll::Ready(output) = self.future.as_mut().poll(cx) {
            return Poll::Ready(Ok(output));
        }
        Pin::new(&mut *self.sleep).poll(cx).map(|()| Err(Elapsed))
    }
}

/// The sleep was over before the future was ready: [`Sleep::limit`].
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
        f.debug_struct("Timer").field("context", &self.context()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Sleep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sleep").field("deadline", &self.deadline()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
    use std::sync::mpsc::channel;
    use std::task::{RawWaker, RawWakerVTable, Wake};
    use std::thread;
    use std::time::Duration;

    /// A waker that locks the sleeper when it is cloned and dropped.
    static FOREIGN: RawWakerVTable =
        RawWakerVTable::new(clone_foreign, use_sleeper, use_sleeper, use_sleeper);

    fn foreign(sleeper: &'static Sleeper) -> Waker {
        let data: &'static &'static Sleeper = Box::leak(Box::new(sleeper));
        // SAFETY: the data is what the functions expect, and is never freed
        unsafe { Waker::from_raw(RawWaker::new((data as *const &Sleeper).cast(), &FOREIGN)) }
    }

    unsafe fn clone_foreign(data: *const ()) -> RawWaker {
        // SAFETY: it is the data of a foreign waker
        unsafe { use_sleeper(data) };
        RawWaker::new(data, &FOREIGN)
    }

    unsafe fn use_sleeper(data: *const ()) {
        // SAFETY: foreign() made it, and it is never freed
        unsafe { *data.cast::<&Sleeper>() }.deadline();
    }

    /// Fails if the calls do not come to an end.
    fn ends(calls: fn(&'static Sleeper)) {
        let (done, wait) = channel();
        thread::spawn(move || {
            calls(Box::leak(Box::default()));
            done.send(())
        });
        wait.recv_timeout(Duration::from_secs(20)).expect("the end of the calls");
    }

    #[test]
    fn replaced_waker_may_use_the_sleeper() {
        ends(|sleeper| {
            assert!(sleeper.poll(&foreign(sleeper)).is_pending());
            assert!(sleeper.poll(&foreign(sleeper)).is_pending());
        });
    }

    #[test]
    fn forgotten_waker_may_use_the_sleeper() {
        ends(|sleeper| {
            assert!(sleeper.poll(&foreign(sleeper)).is_pending());
            sleeper.forget();
        });
    }

    #[test]
    fn known_waker_is_kept_until_the_end() {
        ends(|sleeper| {
            let waker = foreign(sleeper);
            assert!(sleeper.poll(&waker).is_pending());
            assert!(sleeper.poll(&waker).is_pending());
            assert!(sleeper.end(sleeper.deadline()).map_or(false, |known| known.will_wake(&waker)));
            assert!(sleeper.poll(&waker).is_ready());
        });
    }

    fn block_on(future: impl Future<Output = ()>) {
        let runtime = ::tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(future);
    }

    #[test]
    fn timer_has_a_context_if_there_is_a_device() {
        block_on(async {
            let is_there = std::path::Path::new(crate::context::DEVICE).exists();
            assert_eq!(Timer::open().unwrap().context().is_some(), is_there);
        });
    }

    #[test]
    fn timer_without_the_device_sleeps_by_tokio() {
        block_on(async {
            let timer = Timer { shared: None };
            assert!(timer.context().is_none());
            let (start, second) = (timer.now(), Duration::from_secs(1));
            let mut sleep = timer.sleep(start + second / 100).unwrap();
            assert_eq!(sleep.deadline(), start + second / 100);
            (&mut sleep).await;
            assert!(timer.now() >= sleep.deadline() && sleep.is_elapsed());
            sleep.reset(second * 3600).unwrap();
            assert!(!sleep.is_elapsed() && sleep.deadline() >= start + second * 3600);
            let mut short = timer.sleep(second / 100).unwrap();
            assert_eq!(short.limit(sleep).await, Err(Elapsed));
        });
    }

    /// A waker that counts, and then panics.
    #[derive(Default)]
    struct Panics(AtomicU32);

    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, SeqCst);
            panic!("a waker of the test");
        }
    }

    #[test]
    fn waker_that_panics_leaves_the_others() {
        let panics = Arc::new(Panics::default());
        let mut wakers = vec![panics.clone().into(), panics.clone().into()];
        wake_all(&mut wakers);
        assert!(wakers.is_empty());
        assert_eq!(panics.0.load(SeqCst), 2);
    }

    fn poll_panics(sleeper: &Sleeper, waker: &Waker) -> bool {
        catch_unwind(AssertUnwindSafe(|| sleeper.poll(waker))).is_err()
    }

    #[test]
    fn lost_sleeper_is_woken_and_panics() {
        let (sleeper, waker) = (Sleeper::default(), Arc::new(Panics::default()).into());
        assert!(sleeper.poll(&waker).is_pending());
        assert!(sleeper.lose().map_or(false, |known| known.will_wake(&waker)));
        assert!(poll_panics(&sleeper, &waker));
        assert!(poll_panics(&sleeper, &waker));
        assert!(!sleeper.is_over());
    }

    #[test]
    fn sleeper_that_is_over_before_it_is_lost_stays_over() {
        let (sleeper, waker) = (Sleeper::default(), Arc::new(Panics::default()).into());
        assert!(sleeper.end(sleeper.deadline()).is_none());
        assert!(sleeper.lose().is_none());
        assert!(sleeper.poll(&waker).is_ready());
        assert!(matches!(sleeper.begin(Time::MAX), Err(Error::Stopped)));
        assert!(sleeper.poll(&waker).is_ready());
    }
}
