// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! The feature `tokio` on the device.

mod ktap;

use std::future::{pending, ready, Future};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::mpsc::{channel, Sender};
use std::sync::Arc;
use std::task::{self, Poll, Wake};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use twheel::tokio::{Elapsed, Expirations, Sleep, Timer};
use twheel::{Clock, Context, Error, Setup};

const HOUR: Duration = Duration::from_secs(3600);
/// No promise of the timer: only so that a lost event ends the test.
const PATIENCE: Duration = Duration::from_secs(20);
const SOON: Duration = Duration::from_millis(50);

fn block_on<F: Future>(future: F) -> F::Output {
    Builder::new_current_thread().enable_io().build().expect("a runtime").block_on(future)
}

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

fn sleep_does_not_end_early() {
    block_on(async {
        let timer = Timer::open().unwrap();
        for _ in 0..3 {
            let begin = timer.now();
            timer.sleep(SOON).unwrap().await;
            assert!(timer.now() >= begin + SOON);
        }
        assert_eq!(timer.context().unwrap().info().unwrap().live(), 1);
    });
}

fn reset_sleep_ends_at_the_new_deadline() {
    block_on(async {
        let timer = Timer::open().unwrap();
        let mut sleep = timer.sleep(Duration::ZERO).unwrap();
        (&mut sleep).await;
        assert!(sleep.is_elapsed());
        let deadline = timer.now() + SOON;
        sleep.reset(deadline).unwrap();
        assert!(!sleep.is_elapsed());
        sleep.await;
        assert!(timer.now() >= deadline);
    });
}

fn limit_ends_with_the_future_or_the_sleep() {
    block_on(async {
        let timer = Timer::open().unwrap();
        let mut sleep = timer.sleep(SOON).unwrap();
        assert_eq!(sleep.limit(ready(5)).await, Ok(5));
        assert_eq!(sleep.limit(pending::<()>()).await, Err(Elapsed));
    });
}

fn sleep_on_realtime_takes_absolute_times_only() {
    block_on(async {
        let timer = Timer::new(Setup::new().clock(Clock::Realtime).open().unwrap()).unwrap();
        assert!(matches!(timer.sleep(SOON), Err(Error::System(_))));
        let mut sleep = timer.sleep(timer.now() + SOON).unwrap();
        (&mut sleep).await;
        assert!(matches!(sleep.reset(SOON), Err(Error::System(_))));
        assert!(sleep.is_elapsed());
    });
}

fn many_sleeps_all_end() {
    block_on(async {
        let timer = Timer::open().unwrap();
        let tasks: Vec<_> = (0..1000)
            .map(|n| tokio::spawn(timer.sleep(Duration::from_micros(n * 37)).unwrap()))
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(timer.context().unwrap().info().unwrap().live(), 1000);
    });
}

fn sleeps_of_a_burst_are_given_back() {
    block_on(async {
        let timer = Timer::open().unwrap();
        let live = || timer.context().unwrap().info().unwrap().live();
        let sleeps: Vec<_> = (0..40_000).map(|_| timer.sleep(HOUR).unwrap()).collect();
        assert_eq!(live(), 40_000);
        drop(sleeps);
        assert_eq!(live(), 32_768);
    });
}

struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

/// Waits for its sleep when it is dropped. Sends before and after whether the sleep has ended.
struct Patient {
    sleep: Sleep,
    ended: Sender<bool>,
}

impl Wake for Patient {
    fn wake(self: Arc<Self>) {}
}

impl Drop for Patient {
    fn drop(&mut self) {
        self.ended.send(self.sleep.is_elapsed()).unwrap();
        let limit = Instant::now() + PATIENCE;
        while !self.sleep.is_elapsed() && Instant::now() < limit {
            thread::sleep(Duration::from_millis(1));
        }
        self.ended.send(self.sleep.is_elapsed()).unwrap();
    }
}

fn poll(sleep: &mut Sleep, waker: impl Wake + Send + Sync + 'static) -> Poll<()> {
    Pin::new(sleep).poll(&mut task::Context::from_waker(&Arc::new(waker).into()))
}

/// The sleep whose waker is dropped ends before the one that the drop waits for.
fn sleeps_end_while_a_waker_is_dropped() {
    block_on(async {
        let timer = Timer::open().unwrap();
        let mut first = timer.sleep(4 * SOON).unwrap();
        let sleep = timer.sleep(5 * SOON).unwrap();
        let (ended, results) = channel();
        let polls = thread::spawn(move || {
            assert!(poll(&mut first, Patient { sleep, ended }).is_pending());
            assert!(poll(&mut first, Nobody).is_pending());
        });
        // The reader runs in an await only, so no sleep ends before the drop begins.
        assert_eq!(results.recv(), Ok(false));
        while !polls.is_finished() {
            timer.sleep(SOON).unwrap().await;
        }
        polls.join().unwrap();
        assert_eq!(results.recv(), Ok(true));
    });
}

struct Panics;

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        panic!("a waker of the test");
    }
}

fn sleeps_end_after_a_waker_has_panicked() {
    block_on(async {
        let (timer, other) = (Timer::open().unwrap(), Timer::open().unwrap());
        let mut first = timer.sleep(SOON).unwrap();
        assert!(poll(&mut first, Panics).is_pending());
        let second = timer.sleep(2 * SOON).unwrap();
        assert_eq!(other.sleep(PATIENCE).unwrap().limit(second).await, Ok(()));
        assert!(first.is_elapsed());
    });
}

fn sleep_panics_after_the_stop() {
    block_on(async {
        let (timer, other) = (Timer::open().unwrap(), Timer::open().unwrap());
        let task = tokio::spawn(timer.sleep(HOUR).unwrap());
        other.sleep(SOON).unwrap().await;
        timer.context().unwrap().stop().unwrap();
        let result = other.sleep(PATIENCE).unwrap().limit(task).await.unwrap();
        assert!(result.unwrap_err().is_panic());
        assert!(matches!(timer.sleep(SOON), Err(Error::Stopped)));
    });
}

fn sleep_panics_after_the_end_of_the_runtime() {
    let runtime = Builder::new_current_thread().enable_io().build().unwrap();
    let timer = runtime.block_on(async { Timer::open().unwrap() });
    let mut sleep = timer.sleep(HOUR).unwrap();
    assert!(poll(&mut sleep, Nobody).is_pending());
    drop(runtime);
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut sleep, Nobody))).is_err());
    assert!(matches!(sleep.reset(SOON), Err(Error::Stopped)));
    assert!(matches!(timer.sleep(SOON), Err(Error::Stopped)));
}

fn main() -> ExitCode {
    ktap::run(cases![
        stream_ends_after_the_last_event,
        sleep_does_not_end_early,
        reset_sleep_ends_at_the_new_deadline,
        limit_ends_with_the_future_or_the_sleep,
        sleep_on_realtime_takes_absolute_times_only,
        many_sleeps_all_end,
        sleeps_of_a_burst_are_given_back,
        sleeps_end_while_a_waker_is_dropped,
        sleeps_end_after_a_waker_has_panicked,
        sleep_panics_after_the_stop,
        sleep_panics_after_the_end_of_the_runtime,
    ])
}
