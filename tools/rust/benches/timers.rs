// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Arms and cancels of tokio's own timer, of `twheel::sleep::Timer`, and of cells, with one thread
//! and with two. Prints the tables of README.md.
//!
//! A pair is what a request with a timeout needs. For tokio and `Timer`: a sleep is made, polled
//! once, so that it is registered, and dropped. For a reset, a sleep that is kept is moved and
//! polled. For a cell: armed and cancelled. 10,000 sleeps of other requests are pending. The best
//! of several rounds counts.
//!
//! A wave is as many requests at once: all sleeps are made and polled, and then all are dropped.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Barrier};
use std::task::{Context as Task, Wake};
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::{Builder, Handle};
use twheel::sleep::{Sleep, Timer};
use twheel::Context;

const PENDING: u32 = 10_000;
const PAIRS: u32 = 100_000;
const ROUNDS: u32 = 7;
const TIMEOUT: Duration = Duration::from_secs(5);

/// Wakes nobody.
struct Nobody;

impl Wake for Nobody {
    fn wake(self: Arc<Self>) {}
}

fn poll_once(future: Pin<&mut impl Future>, task: &mut Task<'_>) {
    assert!(future.poll(task).is_pending(), "a timeout was over too soon");
}

/// Each thread runs what `make` returns for its number. Prints the best time per pair, in ns, with
/// one thread and with two.
fn pairs<F: FnMut(&mut Task<'_>)>(name: &str, make: impl Fn(usize) -> F + Sync) {
    print!("| {name} |");
    for threads in [1, 2] {
        let (barrier, runtime) = (Barrier::new(threads), Handle::current());
        let work = &|number| {
            let _guard = runtime.enter();
            let waker = Arc::new(Nobody).into();
            let (mut task, mut pair) = (Task::from_waker(&waker), make(number));
            let mut run = |times| (0..times).for_each(|_| pair(&mut task));
            run(PAIRS / 10);
            barrier.wait();
            let begin = Instant::now();
            run(PAIRS);
            begin.elapsed()
        };
        let round = |_| {
            thread::scope(|scope| {
                let workers: Vec<_> = (0..threads).map(|n| scope.spawn(move || work(n))).collect();
                workers.into_iter().map(|worker| worker.join().unwrap()).max().unwrap()
            })
        };
        let best = (0..ROUNDS).map(round).min().unwrap();
        print!(" {:.0} |", best.as_nanos() as f64 / f64::from(PAIRS));
    }
    println!();
}

/// Of this thread, without those that take its processor.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it lives until the call returns
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// All sleeps of a wave at once. Prints the best time per sleep, in ns.
fn waves<S>(name: &str, make: impl Fn(&mut Task<'_>) -> S) {
    let waker = Arc::new(Nobody).into();
    let mut task = Task::from_waker(&waker);
    print!("| {name} |");
    for length in [1_000, 10_000, 50_000, 200_000] {
        let mut round = |_| {
            let begin = cpu_time();
            drop((0..length).map(|_| make(&mut task)).collect::<Vec<_>>());
            cpu_time() - begin
        };
        let best = (0..ROUNDS).map(&mut round).min().unwrap();
        print!(" {:.0} |", best.as_nanos() as f64 / f64::from(length));
    }
    println!();
}

fn tokio_sleep(timeout: Duration, task: &mut Task<'_>) -> Pin<Box<tokio::time::Sleep>> {
    let mut sleep = Box::pin(tokio::time::sleep(timeout));
    poll_once(sleep.as_mut(), task);
    sleep
}

fn timer_sleep(timer: &Timer, timeout: Duration, task: &mut Task<'_>) -> Sleep {
    let mut sleep = timer.sleep(timeout).expect("a sleep");
    poll_once(Pin::new(&mut sleep), task);
    sleep
}

/// Sleeps of other requests, on both timers.
fn pend() -> impl Sized {
    let waker = Arc::new(Nobody).into();
    let mut task = Task::from_waker(&waker);
    let timer = Timer::open().expect("a timer");
    let pend = |n| {
        let timeout = TIMEOUT * 100 + Duration::from_micros(u64::from(n) * 97);
        (tokio_sleep(timeout, &mut task), timer.sleep(timeout).expect("a sleep"))
    };
    let sleeps: Vec<_> = (0..PENDING).map(pend).collect();
    (timer, sleeps)
}

fn main() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let _guard = runtime.enter();
    let others = pend();
    let (timer, context) = (Timer::open().expect("a timer"), Context::open().expect("a context"));
    println!("| ns for each thread | 1 thread | 2 threads |\n|---|--:|--:|");
    pairs("tokio: sleep made, polled, dropped", |_| {
        |task: &mut Task<'_>| {
            let sleep = tokio::time::sleep(TIMEOUT);
            tokio::pin!(sleep);
            poll_once(sleep, task);
        }
    });
    pairs("twheel: sleep made, polled, dropped", |_| {
        |task: &mut Task<'_>| drop(timer_sleep(&timer, TIMEOUT, task))
    });
    pairs("tokio: sleep reset, polled", |_| {
        let mut sleep = Box::pin(tokio::time::sleep(TIMEOUT));
        move |task: &mut Task<'_>| {
            sleep.as_mut().reset(tokio::time::Instant::now() + TIMEOUT);
            poll_once(sleep.as_mut(), task);
        }
    });
    pairs("twheel: sleep reset, polled", |_| {
        let mut sleep = timer.sleep(TIMEOUT).expect("a sleep");
        move |task: &mut Task<'_>| {
            sleep.reset(TIMEOUT).expect("a reset");
            poll_once(Pin::new(&mut sleep), task);
        }
    });
    // A cache line has four: each thread has one for itself.
    let cells = [0; 8].map(|cookie| context.cell(cookie).expect("a cell"));
    pairs("twheel: cell armed, cancelled", |number| {
        let cell = &cells[4 * number];
        move |_: &mut Task<'_>| {
            cell.arm(TIMEOUT).expect("an arming");
            cell.cancel();
        }
    });
    drop((others, timer));
    println!("\n| ns for each sleep of a wave | 1,000 | 10,000 | 50,000 | 200,000 |");
    println!("|---|--:|--:|--:|--:|");
    waves("tokio", |task| tokio_sleep(TIMEOUT * 6, task));
    let timer = Timer::open().expect("a timer");
    waves("twheel", |task| timer_sleep(&timer, TIMEOUT * 6, task));
}
