// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! The feature `tokio`: on the device, or without it the sleeps alone, which are those of tokio.
//! The cases that are ignored need the device, and no runtime of tokio, but for the stream.

use std::fs;
use std::future::{pending, ready, Future};
use std::iter::successors;
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::mpsc::{channel, Receiver, Sender};
use std::sync::{Arc, Mutex};
use std::task::{self, Poll, Wake};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Runtime};
use twheel::tokio::{DelayQueue, Elapsed, Expirations, Sleep, Timer};
use twheel::{Clock, Context, Error, Setup};

const HOUR: Duration = Duration::from_secs(3600);
/// No promise of the timer: only so that a lost event ends the test.
const PATIENCE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_millis(50);

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().expect("a runtime")
}

fn block_on<F: Future>(future: F) -> F::Output {
    runtime().block_on(future)
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

/// Polls again and again, and lets no task and no driver of the runtime run meanwhile.
fn poll_until_over(sleep: &mut Sleep) {
    let limit = Instant::now() + PATIENCE;
    while poll(sleep, rings().0).is_pending() {
        assert!(Instant::now() < limit, "still pending");
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
            let mut other = timer.sleep_until(deadline).unwrap();
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
fn many_sleeps_all_end() {
    block_on(async {
        let timer = Timer::open().unwrap();
        let tasks: Vec<_> = (0..1000)
            .map(|n| tokio::spawn(timer.sleep(Duration::from_micros(n * 37)).unwrap()))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert!(timer.info().map_or(true, |info| info.live() == 1000));
    });
}

/// In a new thread: without cells, a thread yields once in many polls after the deadline.
#[test]
fn polls_after_the_deadline_are_ready() {
    let polls = thread::spawn(|| {
        block_on(async {
            let timer = Timer::open().unwrap();
            let mut sleep = timer.sleep(SOON).unwrap();
            poll_until_over(&mut sleep);
            sleep.reset(SOON).unwrap();
            poll_until_over(&mut sleep);
            let (mut first, limit) = (timer.sleep(SOON).unwrap(), Instant::now() + PATIENCE);
            while !first.is_elapsed() && Instant::now() < limit {
                thread::sleep(SOON);
            }
            assert!(poll(&mut first, rings().0).is_ready());
        });
    });
    polls.join().unwrap();
}

#[test]
fn timer_serves_several_runtimes_and_outlives_them() {
    static TIMER: Mutex<Option<Timer>> = Mutex::new(None);
    let timer = || TIMER.lock().unwrap().get_or_insert_with(|| Timer::open().unwrap()).clone();
    for _ in 0..3 {
        block_on(async { timer().sleep(SOON).unwrap().await });
    }
    *TIMER.lock().unwrap() = None;
    let (first, second) = (runtime(), runtime());
    let timer = first.block_on(async { Timer::open().unwrap() });
    second.block_on(async {
        let mut sleep = timer.sleep(4 * SOON).unwrap();
        assert!(poll(&mut sleep, rings().0).is_pending());
        first.shutdown_background();
        sleep.await;
    });
}

#[test]
#[ignore = "needs the device"]
fn stream_ends_after_the_last_event() {
    block_on(async {
        let context = Context::open().unwrap();
        let mut expirations = Expirations::new(&context).unwrap();
        for cookie in 0..200 {
            context.arm(Duration::from_micros(cookie), cookie).unwrap();
        }
        let mut sum = 0;
        for _ in 0..200 {
            sum += expirations.next().await.unwrap().unwrap().cookie();
        }
        assert_eq!(sum, 199 * 200 / 2);
        context.arm(HOUR, 7).unwrap();
        context.stop().unwrap();
        assert!(expirations.next().await.unwrap().unwrap().is_unprocessed());
        assert!(expirations.next().await.is_none());
    });
}

#[test]
#[ignore = "needs the device"]
fn sleeps_are_on_the_clock_of_the_context() {
    let boottime = Timer::with_setup(&Setup::new().clock(Clock::Boottime)).unwrap();
    let deadline = Instant::now() + SOON;
    poll_until_over(&mut boottime.sleep_until(deadline).unwrap());
    assert!(Instant::now() >= deadline);

    let setup = Setup::new().clock(Clock::Realtime);
    let (context, realtime) = (setup.open().unwrap(), Timer::with_setup(&setup).unwrap());
    assert!(matches!(realtime.sleep(SOON), Err(Error::System(_))));
    assert!(matches!(realtime.sleep_until(deadline), Err(Error::System(_))));
    assert!(matches!(realtime.interval(SOON), Err(Error::System(_))));
    assert!(matches!(DelayQueue::new(&realtime).insert(0, SOON), Err(Error::System(_))));
    let deadline = context.now() + SOON;
    let mut sleep = realtime.sleep(deadline).unwrap();
    poll_until_over(&mut sleep);
    assert!(context.now() >= deadline);
    assert!(matches!(sleep.reset(SOON), Err(Error::System(_))) && sleep.is_elapsed());
}

#[test]
#[ignore = "needs the device"]
fn sleeps_of_a_burst_are_given_back() {
    let timer = Timer::open().unwrap();
    let live = || timer.info().unwrap().live();
    let sleeps: Vec<_> = (0..40_000).map(|_| timer.sleep(HOUR).unwrap()).collect();
    assert_eq!(live(), 40_000);
    drop(sleeps);
    // What is in a magazine counts for neither half.
    assert!((32_768..=32_768 + 256).contains(&live()), "{}", live());
}

/// With few places, a thread finds those that another thread has returned, or is returning.
#[test]
#[ignore = "needs the device"]
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
#[ignore = "needs the device"]
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

/// The only thread of the runtime waits for the waker, so no task and no driver can call it. The
/// last waker is woken.
#[test]
#[ignore = "needs the device"]
fn sleep_ends_while_the_runtime_is_blocked() {
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
    ended: Sender<bool>,
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
#[ignore = "needs the device"]
fn sleeps_end_while_a_waker_is_dropped() {
    let timer = Timer::open().unwrap();
    let (ended, results) = channel();
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
#[ignore = "needs the device"]
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
#[ignore = "needs the device"]
fn sleep_keeps_the_timer_and_the_last_one_ends_it() {
    let timer = Timer::open().unwrap();
    let (waker, woken) = rings();
    let mut sleep = timer.sleep(SOON).unwrap();
    drop((timer.sleep(HOUR).unwrap(), timer.clone(), timer));
    assert!(poll(&mut sleep, waker).is_pending());
    assert_eq!(woken.recv_timeout(PATIENCE), Ok(()));
    sleep.reset(SOON).unwrap();
    poll_until_over(&mut sleep);
    assert!(readers() > 0);
    drop(sleep);
    let limit = Instant::now() + PATIENCE;
    while readers() > 0 {
        assert!(Instant::now() < limit, "the reader goes on");
        thread::sleep(Duration::from_millis(1));
    }
}

/// Sleeps of about a tick are made, moved, polled and dropped while they fire, and by other threads
/// than those that made them. None is early, and each that is waited for ends.
#[test]
#[ignore = "needs the device"]
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
