// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Sleeps on the device, or on a wheel in the process, without a runtime.

use std::fs;
use std::future::{pending, ready, Future};
use std::iter::successors;
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::mpsc::{channel, sync_channel, Receiver, Sender, SyncSender};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Wake};
use std::thread;
use std::time::{Duration, Instant};

use twheel::sleep::{DelayQueue, Elapsed, Sleep, Timer};
use twheel::{Clock, Error, Setup, Time};

const HOUR: Duration = Duration::from_secs(3600);
/// No promise of the timer: only so that a lost event ends the test.
const PATIENCE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_millis(50);

/// The smallest executor.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);

    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }

    let (mut future, waker) = (Box::pin(future), Arc::new(Unpark(thread::current())).into());
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut task::Context::from_waker(&waker)) {
            return output;
        }
        thread::park();
    }
}

/// Sends when it is woken.
struct Rings(Mutex<Sender<()>>);

impl Wake for Rings {
    fn wake(self: Arc<Self>) {
        let _ = self.0.lock().unwrap().send(());
    }
}

fn rings() -> (Rings, Receiver<()>) {
    let (sender, receiver) = channel();
    (Rings(Mutex::new(sender)), receiver)
}

fn poll(sleep: &mut Sleep, waker: impl Wake + Send + Sync + 'static) -> Poll<()> {
    Pin::new(sleep).poll(&mut task::Context::from_waker(&Arc::new(waker).into()))
}

#[track_caller]
fn wait_until(mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < limit, "it never holds");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn sleep_ends_at_its_deadline_and_not_before() {
    block_on(async {
        let timer = Timer::open().unwrap();
        let mut sleep = timer.sleep(Duration::MAX).unwrap();
        assert!(poll(&mut sleep, rings().0).is_pending() && !sleep.is_elapsed());
        let now = Instant::now();
        // The last instant of all.
        let halves = successors(Some(Duration::MAX), |half| Some(*half / 2)).take(96);
        sleep.reset(halves.fold(now, |last, half| last.checked_add(half).unwrap_or(last))).unwrap();
        assert!(poll(&mut sleep, rings().0).is_pending() && sleep.deadline() > now + HOUR);
        for deadline in [now + SOON, now + 2 * SOON, now + 3 * SOON, now - SOON] {
            let mut other = timer.sleep(deadline).unwrap();
            sleep.reset(deadline).unwrap();
            (&mut other).await;
            (&mut sleep).await;
            assert!(Instant::now() >= deadline && sleep.is_elapsed() && other.is_elapsed());
            assert_eq!(deadline.max(now), sleep.deadline().max(now));
        }
        timer.sleep(Duration::ZERO).unwrap().await;
    });
}

#[test]
fn limit_ends_with_the_future_or_the_sleep() {
    block_on(async {
        let timer = Timer::open().unwrap();
        let mut sleep = timer.sleep(SOON).unwrap();
        assert_eq!(sleep.limit(ready(5)).await, Ok(5));
        assert_eq!(sleep.limit(pending::<()>()).await, Err(Elapsed));
    });
}

#[test]
fn queue_yields_values_without_a_runtime() {
    block_on(async {
        let mut queue = DelayQueue::new(&Timer::open().unwrap());
        for n in [3, 1, 2] {
            queue.insert(n, SOON * n).unwrap();
        }
        let mut values = Vec::new();
        while let Some(expired) = queue.next().await {
            assert!(Instant::now() >= expired.deadline());
            values.push(expired.into_inner());
        }
        values.sort_unstable(); // Of a reader that was late.
        assert_eq!(values, [1, 2, 3]);
    });
}

#[test]
fn manual_clock_ends_what_is_due_and_no_more() {
    let timer = Timer::with_setup(&Setup::new().manual()).unwrap();
    let (begin, (waker, woken)) = (timer.now(), rings());
    let mut sleep = timer.sleep(HOUR).unwrap();
    let mut limit = timer.interval(HOUR).unwrap();
    assert!(poll(&mut sleep, waker).is_pending());
    assert_eq!(block_on(limit.tick()), begin);
    for (minutes, is_over) in [(59, false), (60, true)] {
        timer.set_time(Time::default() + HOUR / 60 * minutes).unwrap();
        assert_eq!((sleep.is_elapsed(), woken.try_recv().is_ok()), (is_over, is_over));
    }
    assert_eq!((timer.now(), block_on(limit.tick())), (begin + HOUR, begin + HOUR));
    assert!(timer.sleep(Duration::ZERO).unwrap().is_elapsed());
    assert!(timer.sleep(begin).unwrap().is_elapsed());
    sleep.reset(begin).unwrap();
    assert!(sleep.is_elapsed() && sleep.deadline() == begin);
}

#[test]
fn sleeps_are_on_the_clock_of_the_context() {
    let boottime = Timer::with_setup(&Setup::new().clock(Clock::Boottime)).unwrap();
    let deadline = Instant::now() + SOON;
    let mut sleep = boottime.sleep(deadline).unwrap();
    wait_until(|| poll(&mut sleep, rings().0).is_ready());
    assert!(Instant::now() >= deadline);

    let setup = Setup::new().clock(Clock::Realtime);
    let (context, realtime) = (setup.open().unwrap(), Timer::with_setup(&setup).unwrap());
    assert!(matches!(realtime.sleep(SOON), Err(Error::System(_))));
    assert!(matches!(realtime.sleep(deadline), Err(Error::System(_))));
    assert!(matches!(realtime.interval(SOON), Err(Error::System(_))));
    assert!(matches!(DelayQueue::new(&realtime).insert(0, SOON), Err(Error::System(_))));
    let deadline = context.now() + SOON;
    let mut sleep = realtime.sleep(deadline).unwrap();
    wait_until(|| poll(&mut sleep, rings().0).is_ready());
    assert!(context.now() >= deadline);
    assert!(matches!(sleep.reset(SOON), Err(Error::System(_))) && sleep.is_elapsed());
}

#[test]
fn sleeps_of_a_burst_are_given_back() {
    let timer = Timer::open().unwrap();
    let live = || timer.info().unwrap().live();
    let sleeps: Vec<_> = (0..40_000).map(|_| timer.sleep(HOUR).unwrap()).collect();
    assert!((40_000..40_000 + 65).contains(&live()), "{}", live());
    drop(sleeps);
    wait_until(|| live() <= 16_384);
    assert_eq!(live(), 16_384);
    // Once more, with places that are there.
    drop((0..40_000).map(|_| timer.sleep(HOUR).unwrap()).collect::<Vec<_>>());
}

/// With few places, a thread finds those that another thread has returned, or is returning.
#[test]
fn limit_of_timeouts_is_exact() {
    let timer = Timer::with_setup(&Setup::new().max_timeouts(10)).unwrap();
    for _ in 0..4 {
        let timer = timer.clone();
        let body = move || {
            let sleeps: Vec<_> = (0..10).map(|_| timer.sleep(HOUR).unwrap()).collect();
            assert!(matches!(timer.sleep(HOUR), Err(Error::Limit)));
            drop(sleeps);
        };
        thread::spawn(body).join().unwrap();
    }
    thread::scope(|scope| {
        let body = || (0..100_000).for_each(|_| drop(timer.sleep(HOUR).unwrap()));
        (0..10).for_each(|_| _ = scope.spawn(body));
    });
}

#[test]
fn queue_returns_places_and_uses_no_key_twice() {
    let timer = Timer::with_setup(&Setup::new().max_timeouts(2)).unwrap();
    let mut queue = DelayQueue::new(&timer);
    let keys = [0, 1].map(|n| queue.insert(n, HOUR).unwrap());
    assert!(matches!(queue.insert(2, HOUR), Err(Error::Limit)));
    assert_eq!(queue.remove(&keys[0]).into_inner(), 0);
    let key = queue.insert(3, HOUR).unwrap();
    assert!(queue.try_remove(&keys[0]).is_none());
    assert_eq!((queue.len(), queue.remove(&key).into_inner()), (2, 3));
}

/// The last waker is woken, while the thread of the executor waits for it.
#[test]
fn sleep_ends_while_the_executor_is_blocked() {
    block_on(async {
        let (waker, woken) = rings();
        let mut sleep = Timer::open().unwrap().sleep(HOUR).unwrap();
        assert!(poll(&mut sleep, rings().0).is_pending());
        assert!(poll(&mut sleep, waker).is_pending());
        sleep.reset(SOON).unwrap();
        assert_eq!(woken.recv_timeout(PATIENCE), Ok(()));
        assert!(poll(&mut sleep, rings().0).is_ready());
    });
}

/// Waits for its sleep when it is dropped, and sends whether that has ended.
struct Patient {
    sleep: Sleep,
    ended: SyncSender<bool>,
}

impl Wake for Patient {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Patient {
    fn drop(&mut self) {
        let limit = Instant::now() + PATIENCE;
        while !self.sleep.is_elapsed() && Instant::now() < limit {
            thread::sleep(Duration::from_millis(1));
        }
        self.ended.send(self.sleep.is_elapsed()).unwrap();
    }
}

/// Drops of wakers use sleeps: when another waker replaces it, and when its sleep is dropped.
#[test]
fn sleeps_end_while_a_waker_is_dropped() {
    let timer = Timer::open().unwrap();
    let (ended, results) = sync_channel(4);
    let patient = || Patient { sleep: timer.sleep(SOON).unwrap(), ended: ended.clone() };
    let mut sleep = timer.sleep(HOUR).unwrap();
    assert!(poll(&mut sleep, patient()).is_pending());
    assert!(poll(&mut sleep, patient()).is_pending());
    assert_eq!(results.recv(), Ok(true));
    drop(sleep);
    assert_eq!(results.recv(), Ok(true));
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic_any(Panics);
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        assert!(thread::panicking(), "a payload of the test");
    }
}

#[test]
fn sleeps_end_after_a_waker_has_panicked() {
    let timer = Timer::open().unwrap();
    let mut first = timer.sleep(SOON).unwrap();
    assert!(poll(&mut first, Panics).is_pending());
    let (waker, woken) = rings();
    let mut second = timer.sleep(2 * SOON).unwrap();
    assert!(poll(&mut second, waker).is_pending());
    assert_eq!(woken.recv_timeout(PATIENCE), Ok(()));
    assert!(first.is_elapsed());
}

/// Threads of timers.
fn readers() -> usize {
    let is_reader = |path: &fs::DirEntry| {
        fs::read_to_string(path.path().join("comm")).map_or(false, |name| name == "twheel\n")
    };
    fs::read_dir("/proc/self/task").unwrap().flatten().filter(is_reader).count()
}

#[test]
fn sleep_keeps_the_timer_and_the_last_one_ends_it() {
    let timer = Timer::open().unwrap();
    let (waker, woken) = rings();
    let mut sleep = timer.sleep(SOON).unwrap();
    drop((timer.sleep(HOUR).unwrap(), timer.clone(), timer));
    assert!(poll(&mut sleep, waker).is_pending());
    assert_eq!(woken.recv_timeout(PATIENCE), Ok(()));
    sleep.reset(SOON).unwrap();
    wait_until(|| poll(&mut sleep, rings().0).is_ready());
    assert!(readers() > 0);
    drop(sleep);
    wait_until(|| readers() == 0);
}

/// Sleeps of about a tick are made, moved, polled and dropped while they fire, and by other threads
/// than those that made them. None is early, and each that is waited for ends.
#[test]
fn sleeps_race_with_their_events() {
    const ROUNDS: u32 = 2_000;
    let timer = Timer::open().unwrap();
    let (sender, receiver) = channel::<(Sleep, Receiver<()>)>();
    let mut workers = Vec::new();
    for number in 0..4 {
        let (timer, sender) = (timer.clone(), sender.clone());
        workers.push(thread::spawn(move || {
            for round in 0..ROUNDS {
                let delay = Duration::from_micros(u64::from(round * 7 + number * 131) % 2_500);
                let (waker, woken) = rings();
                let mut sleep = timer.sleep(delay).unwrap();
                let is_over = poll(&mut sleep, waker).is_ready();
                assert!(!is_over || Instant::now() >= sleep.deadline());
                match round % 4 {
                    0 => sleep.reset(delay).unwrap(),
                    1 => thread::sleep(delay),
                    2 => drop(poll(&mut sleep, rings().0)),
                    _ => sender.send((sleep, woken)).unwrap(),
                }
            }
        }));
    }
    drop(sender);
    for (mut sleep, woken) in receiver {
        if !sleep.is_elapsed() {
            assert_eq!(woken.recv_timeout(PATIENCE), Ok(()));
        }
        assert!(Instant::now() >= sleep.deadline() && poll(&mut sleep, rings().0).is_ready());
    }
    for worker in workers {
        worker.join().unwrap();
    }
}
