// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! What the documentation of `tokio::time` and of tokio-util's DelayQueue promises: the same cases
//! run on their types and on those of the crate. Its module `sleep` names the differences.
//!
//! A late wake-up fails no case: bounds are readings of the clock in the same run, and a round that
//! was too late to show anything is repeated.

// tokio-util needs Rust 1.85, and its resets return nothing.
#![allow(clippy::incompatible_msrv, clippy::unit_arg)]

use std::future::{pending, poll_fn, ready, Future};
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use tokio::runtime::Builder;

const HOUR: Duration = Duration::from_secs(3600);
const TICK: Duration = Duration::from_millis(10);
const ZERO: Duration = Duration::ZERO;
/// Only so that a lost wake-up ends the test.
const PATIENCE: Duration = Duration::from_secs(120);

mod peer {
    pub use std::convert::identity as sure;
    pub use tokio::time::{
        interval, interval_at, sleep, sleep_until, timeout, timeout_at, Instant,
    };
    pub use tokio_util::time::DelayQueue;

    pub fn queue<T>(capacity: usize) -> DelayQueue<T> {
        DelayQueue::with_capacity(capacity)
    }
}

mod own {
    pub use std::time::{Duration, Instant};
    use twheel::sleep::{DelayQueue, Interval, Sleep, Timeout, Timer};

    macro_rules! forward {
        ($($name:ident: $of:ident $(<$f:ident>)? ($($arg:ident: $type:ty),*) -> $output:ty;)*) => {
            $(pub fn $name $(<$f: super::Future>)? ($($arg: $type),*) -> $output {
                sure(sure(Timer::open()).$of($($arg),*))
            })*
        };
    }

    forward! {
        sleep: sleep(duration: Duration) -> Sleep;
        sleep_until: sleep(deadline: Instant) -> Sleep;
        timeout: timeout<F>(duration: Duration, future: F) -> Timeout<F>;
        timeout_at: timeout<F>(deadline: Instant, future: F) -> Timeout<F>;
        interval: interval(period: Duration) -> Interval;
        interval_at: interval_at(start: Instant, period: Duration) -> Interval;
    }

    pub fn queue<T>(capacity: usize) -> DelayQueue<T> {
        DelayQueue::with_capacity(&sure(Timer::open()), capacity)
    }

    /// What is a result in the crate only.
    pub fn sure<T>(result: twheel::Result<T>) -> T {
        result.unwrap()
    }
}

/// Counts wake-ups.
#[derive(Default)]
struct Count(AtomicU32);

impl Wake for Count {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

impl Count {
    fn new() -> (Arc<Count>, Waker) {
        let count = Arc::new(Count::default());
        (count.clone(), count.into())
    }

    fn get(&self) -> u32 {
        self.0.load(SeqCst)
    }

    async fn reaches(&self, times: u32) {
        while self.get() < times {
            tokio::time::sleep(TICK / 10).await;
        }
    }
}

fn poll<T>(waker: &Waker, poll: impl FnOnce(&mut Context<'_>) -> Poll<T>) -> Poll<T> {
    poll(&mut Context::from_waker(waker))
}

fn block_on(future: impl Future<Output = ()>) {
    let runtime = Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(PATIENCE, future).await.expect("the end") });
}

fn panics<T>(call: impl FnOnce() -> T) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

/// The next value of a queue.
macro_rules! next {
    ($queue:expr) => {
        poll_fn(|cx| $queue.poll_expired(cx)).await.map(|expired| expired.into_inner())
    };
}

macro_rules! contract {
    ($($name:ident $body:block)*) => {
        contract!(tokio_time peer $($name $body)*);
        contract!(twheel_tokio own $($name $body)*);
    };
    ($module:ident $api:ident $($name:ident $body:block)*) => {
        mod $module {
            use super::*;
            use super::$api as api;
            use api::Instant;

            $(#[test] fn $name() { block_on(async $body) })*
        }
    };
}

contract! {
    sleep_is_reset_before_and_after_its_end {
        let (count, waker) = Count::new();
        let mut sleep = Box::pin(api::sleep(Duration::MAX));
        for times in 1..4 {
            assert!(poll(&waker, |cx| sleep.as_mut().poll(cx)).is_pending());
            let deadline = Instant::now() + TICK;
            api::sure(sleep.as_mut().reset(deadline));
            count.reaches(times).await;
            assert!(Instant::now() >= deadline);
            assert!(poll(&waker, |cx| sleep.as_mut().poll(cx)).is_ready());
            api::sure(sleep.as_mut().reset(deadline + HOUR));
            assert!(!sleep.is_elapsed());
        }
    }

    dropped_sleep_and_timeout_wake_no_task {
        let (mut in_time, (count, waker)) = (false, Count::new());
        while !in_time {
            let (deadline, before) = (Instant::now() + TICK, count.get());
            let mut sleep = Box::pin(api::sleep_until(deadline));
            let mut timeout = Box::pin(api::timeout_at(deadline, pending::<()>()));
            let is_pending = poll(&waker, |cx| sleep.as_mut().poll(cx)).is_pending()
                && poll(&waker, |cx| timeout.as_mut().poll(cx)).is_pending();
            drop((sleep, timeout));
            in_time = Instant::now() < deadline;
            api::sleep(2 * TICK).await;
            assert!((is_pending && count.get() == before) || !in_time);
        }
    }

    timeout_returns_the_output_or_an_error {
        assert_eq!(api::timeout(HOUR, api::sleep(TICK)).await, Ok(()));
        assert_eq!(api::timeout(Duration::MAX, api::sleep(TICK)).await, Ok(()));
        let begin = Instant::now();
        assert_eq!(api::timeout_at(begin + HOUR, api::sleep(TICK)).await, Ok(()));
        let error = api::timeout(4 * TICK, pending::<()>()).await.unwrap_err();
        assert!(Instant::now() >= begin + 4 * TICK);
        assert!(api::timeout_at(begin + 6 * TICK, pending::<()>()).await.is_err());
        assert!(Instant::now() >= begin + 6 * TICK);
        assert_eq!(error.to_string(), "deadline has elapsed");
        assert_eq!(std::io::Error::from(error).kind(), std::io::ErrorKind::TimedOut);
    }

    timeout_polls_the_future_first {
        let past = Instant::now();
        assert_eq!(api::timeout(ZERO, ready(1)).await, Ok(1));
        assert_eq!(api::timeout_at(past, ready(2)).await, Ok(2));
        assert_eq!(api::timeout(TICK, async { thread::sleep(3 * TICK) }).await, Ok(()));
    }

    timeout_drops_the_future_or_gives_it_back {
        let value = Arc::new(());
        let hold = |value: Arc<()>| async move { (pending::<()>().await, value).0 };
        assert!(api::timeout(TICK, hold(value.clone())).await.is_err());
        drop(api::timeout(HOUR, hold(value.clone())));
        assert_eq!(Arc::strong_count(&value), 1);
        let mut timeout = api::timeout(TICK, ready(5));
        assert_eq!(timeout.get_ref().clone().await, 5);
        *timeout.get_mut() = ready(6);
        assert_eq!(timeout.into_inner().await, 6);
    }

    timeout_ends_a_future_that_uses_up_the_budget {
        let greedy = async { loop { tokio::task::consume_budget().await } };
        assert!(tokio::spawn(api::timeout(TICK, greedy)).await.unwrap().is_err());
    }

    interval_ticks_not_early_and_needs_a_period {
        let start = Instant::now() + TICK;
        let mut interval = api::interval_at(start, TICK);
        for n in 0..3 {
            assert_eq!(interval.tick().await, start + n * TICK);
            assert!(Instant::now() >= start + n * TICK);
        }
        assert!(panics(|| api::interval(ZERO)) && panics(|| api::interval_at(start, ZERO)));
    }

    interval_loses_no_tick_with_the_future {
        let mut interval = api::interval_at(Instant::now() + HOUR, TICK);
        assert!(api::timeout(TICK, interval.tick()).await.is_err());
        let start = Instant::now() + TICK;
        interval.reset_at(start);
        let tick = api::timeout(TICK / 2, interval.tick()).await;
        assert_eq!(if let Ok(tick) = tick { tick } else { interval.tick().await }, start);
    }

    interval_wakes_the_task_that_polled_last {
        let ((first, other), (last, waker)) = (Count::new(), Count::new());
        let mut interval = api::interval_at(Instant::now() + HOUR, HOUR);
        assert!(poll(&other, |cx| interval.poll_tick(cx)).is_pending());
        assert!(poll(&waker, |cx| interval.poll_tick(cx)).is_pending());
        let deadline = Instant::now() + TICK;
        interval.reset_at(deadline);
        last.reaches(1).await;
        assert!(Instant::now() >= deadline && first.get() == 0);
        assert_eq!(poll(&waker, |cx| interval.poll_tick(cx)), Poll::Ready(deadline));
    }

    queue_yields_what_is_due_at_once {
        let (count, waker) = Count::new();
        let (past, mut queue) = (Instant::now(), api::queue(0));
        let (far, moved) = (api::sure(queue.insert(3, HOUR)), api::sure(queue.insert(2, HOUR)));
        for n in 0..4 {
            assert!(poll(&waker, |cx| queue.poll_expired(cx)).is_pending());
            let before = count.get();
            match n {
                0 => _ = api::sure(queue.insert(0, ZERO)),
                1 => _ = api::sure(queue.insert_at(1, past)),
                2 => api::sure(queue.reset(&moved, ZERO)),
                _ => api::sure(queue.reset_at(&far, past)),
            }
            count.reaches(before + 1).await;
            assert_eq!(next!(queue), Some(n));
        }
    }

    queue_ends_when_empty_and_goes_on {
        let mut queue = api::queue(0);
        for n in 0..3 {
            assert_eq!(next!(queue), None);
            api::sure(queue.insert(n, n * TICK));
            assert!(!queue.is_empty());
            // Dropping the future loses no entry.
            while api::timeout(TICK / 2, async { next!(queue) }).await != Ok(Some(n)) {}
        }
    }

    queue_has_a_capacity {
        let mut queue = api::queue(10);
        let capacity = queue.capacity();
        let mut keys: Vec<_> = (0..10).map(|n| api::sure(queue.insert(n, HOUR))).collect();
        assert_eq!((queue.len(), queue.capacity()), (10, capacity));
        queue.reserve(200);
        assert!(queue.capacity() >= 210);
        keys.drain(2..).for_each(|key| _ = queue.remove(&key));
        queue.compact();
        assert_eq!(queue.capacity(), 2);
        // The keys of before and after are valid, and different.
        keys.extend((10..20).map(|n| api::sure(queue.insert(n, HOUR))));
        for (key, value) in keys.iter().zip((0..2).chain(10..)) {
            assert_eq!(queue.remove(key).into_inner(), value);
        }
        assert!(queue.is_empty());
    }

    queue_is_cleared {
        let (count, waker) = Count::new();
        let mut queue = api::queue(0);
        (0..50).for_each(|n| _ = api::sure(queue.insert(n, n % 2 * HOUR)));
        while poll(&waker, |cx| queue.poll_expired(cx)).is_ready() {}
        let (before, capacity) = (count.get(), queue.capacity());
        queue.clear();
        count.reaches(before + 1).await;
        assert!(queue.is_empty() && queue.peek().is_none());
        assert_eq!(queue.len(), 0);
        assert!(next!(queue).is_none() && queue.capacity() >= capacity);
        api::sure(queue.insert(0, ZERO));
        queue.clear();
        assert!(next!(queue).is_none());
    }

    queue_wakes_the_task_that_polled_last {
        let ((first, other), (last, waker)) = (Count::new(), Count::new());
        let mut queue = api::queue(0);
        let far = api::sure(queue.insert(0, HOUR));
        assert!(poll(&other, |cx| queue.poll_expired(cx)).is_pending());
        assert!(poll(&waker, |cx| queue.poll_expired(cx)).is_pending());
        api::sure(queue.insert(1, TICK));
        last.reaches(1).await;
        assert_eq!(next!(queue), Some(1));
        assert!(poll(&waker, |cx| queue.poll_expired(cx)).is_pending());
        let before = last.get();
        queue.remove(&far);
        last.reaches(before + 1).await;
        assert_eq!(first.get(), 0);
    }

    queue_wakes_no_task_for_moved_entries {
        let (mut in_time, mut ticks) = (false, 2);
        while !in_time {
            ticks *= 2;
            let ((count, waker), mut queue) = (Count::new(), api::queue(0));
            let deadline = Instant::now() + ticks * TICK;
            let keys: Vec<_> = (0..300).map(|n| api::sure(queue.insert_at(n, deadline))).collect();
            let is_pending = poll(&waker, |cx| queue.poll_expired(cx)).is_pending();
            queue.try_remove(&keys[0]);
            let moved = if is_pending { &keys[1..] } else { &[] };
            moved.iter().for_each(|key| api::sure(queue.reset(key, HOUR)));
            in_time = Instant::now() < deadline;
            api::sleep_until(deadline + TICK).await;
            if in_time {
                assert!(is_pending && count.get() == 0);
                // All that fire before a poll wake it once.
                moved.iter().for_each(|key| api::sure(queue.reset(key, TICK)));
                count.reaches(1).await;
                api::sleep(2 * TICK).await;
                assert_eq!(count.get(), 1);
            }
        }
    }

    due_values_let_other_tasks_run {
        let (past, mut queue) = (Instant::now(), api::queue(0));
        let mut interval = api::interval_at(past, Duration::from_nanos(1));
        (0..400).for_each(|n| _ = api::sure(queue.insert(n, ZERO)));
        for kind in 0..3 {
            let other = tokio::spawn(ready(()));
            for _ in 0..400 {
                match kind {
                    0 => _ = next!(queue),
                    1 => _ = interval.tick().await,
                    _ => api::sleep_until(past).await,
                }
            }
            assert!(other.is_finished(), "{kind}");
        }
    }
}

/// Random programs have the same results on both types. The clock of tokio is paused, and the other
/// one is manual.
mod programs {
    use super::peer::Instant;
    use super::*;
    use std::collections::BTreeMap;
    use tokio::time::{advance, MissedTickBehavior as Policy};
    use twheel::sleep::{DelayQueue, MissedTickBehavior, Timer};
    use twheel::{Setup, Time};

    /// When both clocks began.
    struct Clocks {
        peer: Instant,
        own: std::time::Instant,
        timer: Timer,
    }

    impl Clocks {
        fn new() -> Clocks {
            let timer = Timer::with_setup(&Setup::new().manual()).unwrap();
            Clocks { peer: Instant::now(), own: timer.now(), timer }
        }

        /// A time of tokio on the other clock.
        fn at(&self, time: Instant) -> std::time::Instant {
            self.own + (time - self.peer)
        }

        fn follow(&self) {
            self.timer.set_time(Time::default() + (Instant::now() - self.peer)).unwrap();
        }

        async fn advance(&self, duration: Duration) {
            advance(duration).await;
            self.follow();
        }
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, limit: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (self.0 >> 33) % limit
        }

        fn delay(&mut self) -> Duration {
            let limit = [1, 7, 100, 4_000_000][self.below(4) as usize];
            Duration::from_millis(self.below(limit))
        }
    }

    /// Calls a method of both.
    macro_rules! both {
        ($peer:ident, $own:ident, $name:ident $(, $argument:expr)*) => {
            ($peer.$name($($argument),*), $own.$name($($argument),*))
        };
    }

    async fn intervals(random: &mut Random, clocks: &Clocks) {
        let period = Duration::from_millis(1 + random.below(40));
        let (mut peer, mut own) = (peer::interval(period), clocks.timer.interval(period).unwrap());
        for _ in 0..50 {
            let delay = random.delay();
            let time = Instant::now() + delay - TICK;
            match random.below(9) {
                0 => {
                    let n = random.below(3) as usize;
                    let peers = [Policy::Burst, Policy::Delay, Policy::Skip];
                    peer.set_missed_tick_behavior(peers[n]);
                    use MissedTickBehavior::{Burst, Delay, Skip};
                    own.set_missed_tick_behavior([Burst, Delay, Skip][n]);
                }
                1 => _ = both!(peer, own, reset),
                2 => _ = both!(peer, own, reset_immediately),
                3 => _ = both!(peer, own, reset_after, delay),
                4 => _ = (peer.reset_at(time), own.reset_at(clocks.at(time))),
                5 | 6 => clocks.advance(delay.min(HOUR)).await,
                7 => {
                    let cx = &mut Context::from_waker(Waker::noop());
                    let (peer, own) = both!(peer, own, poll_tick, cx);
                    assert_eq!(peer.map(|time| clocks.at(time)), own);
                }
                _ => {
                    let tick = peer.tick().await;
                    clocks.follow();
                    assert_eq!(clocks.at(tick), own.tick().await);
                }
            }
        }
    }

    async fn queues(random: &mut Random, clocks: &Clocks) {
        let (mut peer, mut own, mut keys) =
            (peer::queue(0), DelayQueue::new(&clocks.timer), BTreeMap::new());
        for n in 0..100 {
            let delay = random.delay();
            let time = Instant::now() + delay;
            let known = keys.keys().nth(random.below(keys.len() as u64 + 1) as usize).copied();
            let call = random.below(9);
            match (call, known.map(|known| (known, keys[&known]))) {
                (0 | 1, _) => {
                    _ = keys.insert(n, (peer.insert(n, delay), own.insert(n, delay).unwrap()))
                }
                (2, _) => {
                    let own = own.insert_at(n, clocks.at(time)).unwrap();
                    keys.insert(n, (peer.insert_at(n, time), own));
                }
                (3, Some((_, of))) => {
                    _ = (peer.reset(&of.0, delay), own.reset(&of.1, delay).unwrap())
                }
                (4, Some((_, of))) => {
                    peer.reset_at(&of.0, time);
                    own.reset_at(&of.1, clocks.at(time)).unwrap();
                }
                (5, Some((n, of))) => {
                    let removed = (peer.remove(&of.0), own.remove(&of.1));
                    assert_eq!(clocks.at(removed.0.deadline()), removed.1.deadline());
                    assert!(removed.0.key() == of.0 && removed.1.key() == of.1);
                    assert_eq!((*removed.0.get_ref(), removed.1.into_inner()), (n, n));
                    keys.remove(&n);
                    assert!(peer.try_remove(&of.0).is_none() && own.try_remove(&of.1).is_none());
                    assert!(panics(|| own.remove(&of.1)) && panics(|| own.deadline(&of.1)));
                    assert!(panics(|| own.reset(&of.1, delay)));
                    assert!(panics(|| own.reset_at(&of.1, clocks.at(time))));
                }
                (6, Some(_)) if delay.is_zero() => {
                    _ = both!(peer, own, clear);
                    keys.clear();
                }
                (7, _) => clocks.advance(delay.min(HOUR)).await,
                (8, _) => {
                    let cx = &mut Context::from_waker(Waker::noop());
                    let mut yielded = [Vec::new(), Vec::new()];
                    while let Poll::Ready(Some(expired)) = peer.poll_expired(cx) {
                        yielded[0].push((clocks.at(expired.deadline()), *expired.get_ref()));
                    }
                    let first = own.peek();
                    while let Poll::Ready(Some(mut expired)) = own.poll_expired(cx) {
                        assert!(!yielded[1].is_empty() || first == Some(expired.key()));
                        assert_eq!(expired.key(), keys[expired.get_ref()].1);
                        yielded[1].push((expired.deadline(), *expired.get_mut()));
                    }
                    // The order of equal deadlines is not defined.
                    yielded[0].sort_by_key(|(deadline, n)| (*deadline, *n));
                    assert!(yielded[1].windows(2).all(|pair| pair[0].0 <= pair[1].0));
                    yielded[1].sort_unstable();
                    assert_eq!(yielded[0], yielded[1]);
                    keys.retain(|key, _| yielded[1].iter().all(|(_, n)| n != key));
                    let first = keys.values().map(|of| own.deadline(&of.1)).min();
                    assert_eq!(own.peek().map(|key| own.deadline(&key)), first);
                }
                _ => {}
            }
            assert_eq!(both!(peer, own, len), (keys.len(), keys.len()));
            assert!(keys.values().all(|of| clocks.at(peer.deadline(&of.0)) == own.deadline(&of.1)));
        }
    }

    #[test]
    fn agree() {
        for seed in 0..200 {
            let runtime = Builder::new_current_thread().enable_all().start_paused(true).build();
            let program = async {
                let (mut random, clocks) = (Random(seed), Clocks::new());
                clocks.advance(HOUR * (1 + random.below(3) as u32)).await;
                intervals(&mut random, &clocks).await;
                queues(&mut random, &clocks).await;
            };
            assert!(!panics(|| runtime.unwrap().block_on(program)), "seed {seed}");
        }
    }
}
