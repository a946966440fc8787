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
use twheel::sleep::Timer;
use twheel::{Cell, Context};

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

fn tokio_sleeps(pairs: u32, task: &mut Task<'_>) {
    for _ in 0..pairs {
        let sleep = tokio::time::sleep(TIMEOUT);
        tokio::pin!(sleep);
        poll_once(sleep, task);
    }
}

fn tokio_resets(pairs: u32, task: &mut Task<'_>) {
    let sleep = tokio::time::sleep(TIMEOUT);
    tokio::pin!(sleep);
    for _ in 0..pairs {
        sleep.as_mut().reset(tokio::time::Instant::now() + TIMEOUT);
        poll_once(sleep.as_mut(), task);
    }
}

fn timer_sleeps(timer: &Timer, pairs: u32, task: &mut Task<'_>) {
    for _ in 0..pairs {
        poll_once(Pin::new(&mut timer.sleep(TIMEOUT).expect("a sleep")), task);
    }
}

fn timer_resets(timer: &Timer, pairs: u32, task: &mut Task<'_>) {
    let mut sleep = timer.sleep(TIMEOUT).expect("a sleep");
    for _ in 0..pairs {
        sleep.reset(TIMEOUT).expect("a reset");
        poll_once(Pin::new(&mut sleep), task);
    }
}

fn cell_pairs(cell: &Cell, pairs: u32) {
    for _ in 0..pairs {
        cell.arm(TIMEOUT).expect("an arming");
        cell.cancel();
    }
}

/// Each thread runs `body` with its number. Returns the best time per pair, in ns.
fn pair(threads: usize, body: impl Fn(usize, u32, &mut Task<'_>) + Sync) -> f64 {
    let (barrier, runtime) = (Barrier::new(threads), Handle::current());
    let work = &|number| {
        let _guard = runtime.enter();
        let waker = Arc::new(Nobody).into();
        let mut task = Task::from_waker(&waker);
        body(number, PAIRS / 10, &mut task);
        barrier.wait();
        let begin = Instant::now();
        body(number, PAIRS, &mut task);
        begin.elapsed()
    };
    let round = |_| {
        thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|n| scope.spawn(move || work(n))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).max().unwrap()
        })
    };
    let best = (0..ROUNDS).map(round).min().unwrap();
    best.as_nanos() as f64 / f64::from(PAIRS)
}

fn compare(threads: usize) -> [f64; 5] {
    let timer = Timer::open().expect("a timer");
    let context = Context::open().expect("a context");
    let cells: Vec<Vec<Cell>> =
        (0..threads).map(|_| (0..4).map(|_| context.cell(0).expect("a cell")).collect()).collect();
    [
        pair(threads, |_, pairs, task| tokio_sleeps(pairs, task)),
        pair(threads, |_, pairs, task| timer_sleeps(&timer, pairs, task)),
        pair(threads, |_, pairs, task| tokio_resets(pairs, task)),
        pair(threads, |_, pairs, task| timer_resets(&timer, pairs, task)),
        // The first cell of each thread is in a cache line that no other thread uses.
        pair(threads, |n, pairs, _| cell_pairs(&cells[n][0], pairs)),
    ]
}

/// Of this thread, without those that take its processor.
fn cpu_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it lives until the call returns
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// All sleeps of a wave at once. Prints the best time per sleep, in ns.
fn wave<S>(length: u32, make: impl Fn(&mut Task<'_>) -> S) {
    let waker = Arc::new(Nobody).into();
    let mut task = Task::from_waker(&waker);
    let mut round = |_| {
        let begin = cpu_time();
        drop((0..length).map(|_| make(&mut task)).collect::<Vec<_>>());
        cpu_time() - begin
    };
    let best = (0..ROUNDS).map(&mut round).min().unwrap();
    print!(" {:.0} |", best.as_nanos() as f64 / f64::from(length));
}

fn waves() {
    const LENGTHS: [u32; 4] = [1_000, 10_000, 50_000, 200_000];
    println!("\n| ns for each sleep of a wave | 1,000 | 10,000 | 50,000 | 200,000 |");
    print!("|---|--:|--:|--:|--:|\n| tokio |");
    for length in LENGTHS {
        wave(length, |task| {
            let mut sleep = Box::pin(tokio::time::sleep(TIMEOUT * 6));
            poll_once(sleep.as_mut(), task);
            sleep
        });
    }
    print!("\n| twheel |");
    let timer = Timer::open().expect("a timer");
    for length in LENGTHS {
        wave(length, |task| {
            let mut sleep = timer.sleep(TIMEOUT * 6).expect("a sleep");
            poll_once(Pin::new(&mut sleep), task);
            sleep
        });
    }
    println!();
}

/// Sleeps of other requests, on both timers.
fn pend() -> impl Sized {
    let waker = Arc::new(Nobody).into();
    let mut task = Task::from_waker(&waker);
    let timer = Timer::open().expect("a timer");
    let sleeps: Vec<_> = (0..PENDING)
        .map(|n| {
            let timeout = TIMEOUT * 100 + Duration::from_micros(u64::from(n) * 97);
            let mut sleep = Box::pin(tokio::time::sleep(timeout));
            poll_once(sleep.as_mut(), &mut task);
            (sleep, timer.sleep(timeout).expect("a sleep"))
        })
        .collect();
    (timer, sleeps)
}

fn main() {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let runtime = runtime.expect("a runtime");
    let _guard = runtime.enter();
    let others = pend();
    println!("| ns for each thread | 1 thread | 2 threads |\n|---|--:|--:|");
    let rows = [
        "tokio: sleep made, polled, dropped",
        "twheel: sleep made, polled, dropped",
        "tokio: sleep reset, polled",
        "twheel: sleep reset, polled",
        "twheel: cell armed, cancelled",
    ];
    for ((row, one), two) in rows.iter().zip(compare(1)).zip(compare(2)) {
        println!("| {row} | {one:.0} | {two:.0} |");
    }
    drop(others);
    waves();
}
