// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Contexts and cells, on the device and in the process. `TWHEEL_BACKEND` chooses.

use std::fs::File;
use std::os::unix::io::AsRawFd;
use std::thread;
use std::time::Duration;

use twheel::{Backend, Cell, Clock, Context, Error, Event, Op, Outcome, Setup, State, Time};

const HOUR: Duration = Duration::from_secs(3600);
/// No promise: only so that a lost event ends the test.
const PATIENCE: Option<Duration> = Some(Duration::from_secs(20));
const SOON: Duration = Duration::from_millis(50);

fn open() -> Context {
    Context::open().expect("a context")
}

fn take(context: &Context) -> Event {
    let mut room = [Event::default()];
    let events = context.read(&mut room, PATIENCE).expect("an event");
    events[0]
}

fn assert_nothing_to_read(context: &Context) {
    let mut room = [Event::default()];
    let found = context.read(&mut room, Some(Duration::ZERO));
    assert!(matches!(found, Err(Error::TimedOut)), "{found:?}");
}

#[test]
fn relative_timeout_fires_once_and_not_early() {
    let context = open();
    let begin = context.now();
    let id = context.arm(SOON, u64::MAX).unwrap();
    let event = take(&context);
    assert!(context.now() >= begin + SOON);
    assert!(event.expires() >= begin + SOON && event.fired() >= event.expires());
    assert_eq!((event.id(), event.cookie(), event.count()), (id, u64::MAX, 1));
    assert!(event.is_last() && !event.is_unprocessed());
    assert_nothing_to_read(&context);
}

#[test]
fn cancel_tells_whether_it_was_pending() {
    let context = open();
    let id = context.arm(HOUR, 0).unwrap();
    assert_eq!(context.cancel(id).unwrap(), Outcome::Pending);
    assert!(matches!(context.cancel(id), Err(Error::Gone)));
    let id = context.arm(Duration::ZERO, 0).unwrap();
    assert!(context.wait(PATIENCE).unwrap());
    assert_eq!(context.cancel(id).unwrap(), Outcome::Withdrawn);
    assert_nothing_to_read(&context);
}

#[test]
fn modify_replaces_deadline_and_cookie() {
    let context = open();
    let id = context.arm(HOUR, 1).unwrap();
    assert_eq!(context.modify(id, SOON, 2).unwrap(), Outcome::Pending);
    let event = take(&context);
    assert_eq!((event.id(), event.cookie()), (id, 2));
}

#[test]
fn periodic_timeout_ends_after_its_count() {
    let context = open();
    let mut op = Op::arm(HOUR, 3).every(SOON).times(2);
    context.operate(&mut op).unwrap();
    let timeout = context.get(op.id().unwrap()).unwrap();
    assert_eq!((timeout.interval, timeout.repeat), (Some(SOON), 2));
    context.operate(&mut Op::arm(SOON, 3).every(SOON).times(2)).unwrap();
    let mut count = 0;
    loop {
        let event = take(&context);
        count += event.count();
        if event.is_last() {
            break;
        }
    }
    assert_eq!(count, 2);
}

#[test]
fn batch_has_a_result_for_each_operation() {
    let context = open();
    let id = context.arm(HOUR, 7).unwrap();
    let mut ops = [
        Op::get(id),
        Op::arm(HOUR, 8),
        Op::cancel(id),
        Op::cancel(id),
        Op::arm(HOUR, 9).times(2),
        Op::arm(HOUR, 10),
        Op::get(id),
    ];
    context.submit(&mut ops).unwrap();
    assert_eq!(ops[0].timeout().unwrap().cookie, 7);
    assert!(matches!(ops[1].timeout(), Err(Error::System(_))));
    assert_eq!(ops[2].outcome().unwrap(), Outcome::Pending);
    assert!(matches!(ops[3].outcome(), Err(Error::Gone)));
    assert!(matches!(ops[4].outcome(), Err(Error::System(_))));
    assert_ne!(ops[1].id().unwrap(), ops[5].id().unwrap());
    assert!(matches!(ops[6].timeout(), Err(Error::Gone)));
    assert_eq!(context.info().unwrap().live(), 2);
}

#[test]
fn timeouts_lists_each_once() {
    let context = open();
    let mut ops: Vec<Op> = (0..1000).map(|cookie| Op::arm(HOUR, cookie)).collect();
    context.submit(&mut ops).unwrap();
    let mut cookies: Vec<u64> = context.timeouts().map(|found| found.unwrap().cookie).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (0..1000).collect::<Vec<u64>>());
    let found = context.cancel_all().unwrap();
    assert_eq!((found.pending, found.withdrawn), (1000, 0));
    assert!(context.timeouts().next().is_none());
}

#[test]
fn timeouts_ends_after_an_error() {
    let context = open();
    if context.info().unwrap().backend() == Backend::Process {
        return; // Nothing reads its descriptor.
    }
    let other = File::open("/dev/null").unwrap();
    assert!(unsafe { libc::dup2(other.as_raw_fd(), context.as_raw_fd()) } >= 0);
    let mut timeouts = context.timeouts();
    assert!(matches!(timeouts.next(), Some(Err(Error::System(_)))));
    assert!(timeouts.next().is_none());
}

#[test]
fn stopped_context_yields_unprocessed_and_then_ends() {
    let context = open();
    context.arm(HOUR, 5).unwrap();
    context.stop().unwrap();
    assert!(matches!(context.arm(HOUR, 6), Err(Error::Stopped)));
    let event = take(&context);
    assert!(event.is_unprocessed() && event.is_last());
    assert_eq!((event.cookie(), event.count()), (5, 0));
    assert!(context.read(&mut [Event::default()], PATIENCE).unwrap().is_empty());
}

#[test]
fn read_without_room_is_invalid() {
    let found = open().read(&mut [], PATIENCE).map(<[Event]>::len);
    assert!(matches!(found, Err(Error::System(_))), "{found:?}");
}

#[test]
fn setup_chooses_clock_and_limit() {
    let context = Setup::new().clock(Clock::Realtime).max_timeouts(1).open().unwrap();
    let info = context.info().unwrap();
    assert_eq!((info.clock(), info.max_timeouts()), (Clock::Realtime, 1));
    assert!(matches!(context.arm(HOUR, 0), Err(Error::System(_))));
    context.arm(context.now() + HOUR, 0).unwrap();
    assert!(matches!(context.arm(context.now() + HOUR, 1), Err(Error::Limit)));
    let info = context.info().unwrap();
    assert_eq!((info.refused(), info.user_refused(), info.all_refused()), (1, 0, 0));
    assert!(0 < info.user_timeouts() && info.user_timeouts() <= info.max_user_timeouts());
    assert_eq!(info.wheel_refused(), 0);
    assert!(info.wheel_bytes() < info.max_wheel_bytes());
}

#[test]
fn cell_outcomes_follow_its_states() {
    let context = open();
    let cell = context.cell(4).unwrap();
    assert_eq!(cell.cancel(), Outcome::Idle);
    assert_eq!(cell.arm(HOUR).unwrap(), Outcome::Idle);
    assert!(matches!(context.get(cell.id()).unwrap().state, State::Pending(_)));
    assert_eq!(cell.arm(HOUR).unwrap(), Outcome::Pending);
    assert_eq!(cell.cancel(), Outcome::Pending);
    assert_eq!(cell.deadline(), None);
    cell.arm(Duration::ZERO).unwrap();
    assert!(context.wait(PATIENCE).unwrap());
    assert_eq!(cell.cancel(), Outcome::Withdrawn);
    assert_nothing_to_read(&context);
}

#[test]
fn armed_cell_fires_with_its_deadline() {
    let context = open();
    let cell = context.cell(4).unwrap();
    for _ in 0..3 {
        let deadline = context.now() + SOON;
        cell.arm(deadline).unwrap();
        let event = take(&context);
        assert!(context.now() >= deadline);
        assert_eq!((event.id(), event.cookie(), event.expires()), (cell.id(), 4, deadline));
        assert!(!event.is_last());
    }
}

#[test]
fn cell_on_realtime_takes_absolute_times_only() {
    let context = Setup::new().clock(Clock::Realtime).open().unwrap();
    let cell = context.cell(0).unwrap();
    let deadline = context.now() + HOUR;
    cell.arm(deadline).unwrap();
    match cell.arm(HOUR) {
        Err(Error::System(error)) => assert_eq!(error.raw_os_error(), Some(libc::EINVAL)),
        other => panic!("{other:?}"),
    }
    assert_eq!(cell.deadline(), Some(deadline));
}

#[test]
fn event_of_a_cell_is_the_last_only_after_the_stop() {
    let context = open();
    let [fired, pending, idle] = [1, 2, 3].map(|cookie| context.cell(cookie).unwrap());
    fired.arm(Duration::ZERO).unwrap();
    assert!(!take(&context).is_last());
    fired.arm(Duration::ZERO).unwrap();
    pending.arm(HOUR).unwrap();
    assert!(context.wait(PATIENCE).unwrap());
    context.stop().unwrap();
    assert!(matches!(idle.arm(HOUR), Err(Error::Stopped | Error::Gone)));
    assert_eq!(idle.deadline(), None);
    for (cookie, unprocessed) in [(1, false), (2, true)] {
        let event = take(&context);
        assert!(event.is_last());
        assert_eq!((event.cookie(), event.is_unprocessed()), (cookie, unprocessed));
    }
}

#[test]
fn cancel_at_spares_a_later_arming() {
    let context = open();
    let cell = context.cell(0).unwrap();
    let (first, second) = (context.now() + HOUR, context.now() + 2 * HOUR);
    cell.arm(first).unwrap();
    cell.arm(second).unwrap();
    assert!(!cell.cancel_at(first));
    assert_eq!(cell.deadline(), Some(second));
    assert!(cell.cancel_at(second));
}

/// A later cell has the memory of the one that has ended, but for the handle.
#[test]
fn handle_of_an_ended_cell_changes_no_other() {
    let context = open();
    let ends: [&dyn Fn(&Cell); 4] = [
        &|_| _ = context.cancel_all().unwrap(),
        &|_| _ = context.cancel_cookie(7).unwrap(),
        &|cell| _ = context.cancel(cell.id()).unwrap(),
        &|cell| context.submit(&mut [Op::cancel(cell.id())]).unwrap(),
    ];
    for end in ends {
        let stale = context.cell(7).unwrap();
        stale.arm(HOUR).unwrap();
        end(&stale);
        let others: Vec<_> = (0..100).map(|cookie| context.cell(cookie).unwrap()).collect();
        let deadline = context.now() + HOUR;
        others.iter().for_each(|cell| _ = cell.arm(deadline).unwrap());
        assert!(matches!(stale.arm(Duration::ZERO), Err(Error::Gone)));
        assert!(matches!(stale.arm(2 * HOUR), Err(Error::Gone)));
        assert_eq!((stale.cancel(), stale.deadline()), (Outcome::Idle, None));
        assert!(!stale.cancel_at(deadline));
        drop(stale);
        assert!(others.iter().all(|cell| cell.deadline() == Some(deadline)));
        // Nothing is left of the one that was kept aside.
        assert_eq!(context.info().unwrap().live(), 100);
    }
    assert_nothing_to_read(&context);
}

/// The memory of a cell serves later ones when its handle is dropped.
#[test]
fn stale_handles_hold_back_cells_until_they_are_dropped() {
    let context = Setup::new().max_timeouts(10).open().unwrap();
    let cells = |number| (0..number).map(|_| context.cell(0)).collect::<Result<Vec<_>, _>>();
    for _ in 0..3 {
        let stale = cells(4).unwrap();
        context.cancel_all().unwrap();
        assert!(matches!(cells(7), Err(Error::Limit)));
        let others = cells(6).unwrap();
        drop(stale);
        drop((cells(4).unwrap(), others));
    }
    assert_eq!(context.info().unwrap().live(), 0);
}

#[test]
fn stale_handles_race_with_new_cells() {
    let context = open();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..2_000 {
                    let (stale, deadline) = (context.cell(1).unwrap(), context.now() + HOUR);
                    context.cancel(stale.id()).unwrap();
                    let cell = context.cell(2).unwrap();
                    cell.arm(deadline).unwrap();
                    // It may also have been armed until another thread made a cell.
                    assert!(matches!(stale.arm(2 * HOUR), Ok(_) | Err(Error::Gone)));
                    stale.cancel();
                    assert_eq!(cell.deadline(), Some(deadline));
                }
            });
        }
    });
    assert_eq!(context.info().unwrap().live(), 0);
}

#[test]
fn backend_is_chosen() {
    let process = Setup::new().backend(Backend::Process).open();
    match std::env::var("TWHEEL_BACKEND").as_deref() {
        Ok("kernel") => assert_eq!(process.unwrap().info().unwrap().backend(), Backend::Kernel),
        _ => assert_eq!(process.unwrap().info().unwrap().backend(), Backend::Process),
    }
    let found = Setup::new().path("/dev/null").open();
    assert!(
        matches!(found, Err(Error::System(error)) if error.raw_os_error() == Some(libc::ENOTTY))
    );
    assert!(matches!(Setup::new().path("/no/device").open(), Err(Error::Open { .. })));
}

#[test]
fn manual_clock_is_set() {
    let context = Setup::new().manual().open().unwrap();
    context.arm(HOUR, 1).unwrap();
    assert_nothing_to_read(&context);
    context.set_time(Time::default() + HOUR).unwrap();
    assert_eq!(take(&context).fired(), context.now());
    assert!(open().set_time(Time::MAX).is_err());
}

#[test]
fn regular_cell_needs_no_system_call() {
    let context = open();
    let cell = context.cell(0).unwrap();
    for _ in 0..1000 {
        cell.arm(HOUR).unwrap();
        cell.cancel();
    }
    assert_eq!(context.stats().unwrap().kicks(), 1);
}

#[test]
fn last_time_never_fires() {
    let context = open();
    let id = context.arm(Time::MAX, 0).unwrap();
    assert!(matches!(context.get(id).unwrap().state, State::Pending(left) if left > HOUR));
    assert_nothing_to_read(&context);
}
