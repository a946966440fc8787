// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! The live timeouts of a context.

use std::iter::FusedIterator;
use std::time::Duration;

use twheel_sys as sys;

use crate::context::Context;
use crate::error::{check_system, Result};
use crate::op::Id;

const PAGE: usize = 256;

/// Where a timeout stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum State {
    /// It will fire in that time.
    Pending(Duration),
    /// It has fired or was stopped, and its event is unread.
    Ready,
    /// It is a cell that is not armed.
    Idle,
}

/// A live timeout, from [`Context::get`] or [`Context::timeouts`].
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Timeout {
    /// The timeout.
    pub id: Id,
    /// The cookie of the last arm or modification.
    pub cookie: u64,
    /// Where it stands.
    pub state: State,
    /// From one deadline to the next; `None`: one-shot.
    pub interval: Option<Duration>,
    /// Number of deadlines not read yet; 0: no end, or no interval.
    pub repeat: u32,
}

impl Timeout {
    fn new(id: u64, cookie: u64, state: State, interval: u64, repeat: u32) -> Timeout {
        let interval = (interval != 0).then(|| Duration::from_nanos(interval));
        Timeout { id: Id::from_raw(id), cookie, state, interval, repeat }
    }

    /// Of GET, whose time left also tells the state.
    pub(crate) fn of_op(op: &sys::twheel_op) -> Timeout {
        let state = match op.expires_ns {
            0 => State::Ready,
            sys::TWHEEL_CELL_IDLE => State::Idle,
            nanos => State::Pending(Duration::from_nanos(nanos)),
        };
        Timeout::new(op.id, op.cookie, state, op.interval_ns, op.repeat)
    }

    fn of_entry(entry: &sys::twheel_list_entry) -> Timeout {
        let state = match entry.state {
            sys::TWHEEL_STATE_READY => State::Ready,
            sys::TWHEEL_STATE_IDLE => State::Idle,
            _ => State::Pending(Duration::from_nanos(entry.remaining_ns)),
        };
        Timeout::new(entry.id, entry.cookie, state, entry.interval_ns, entry.repeat)
    }
}

/// An iterator over the live timeouts of a context, from [`Context::timeouts`]. It ends after an
/// error.
#[derive(Debug)]
pub struct Timeouts<'a> {
    context: &'a Context,
    entries: Vec<sys::twheel_list_entry>,
    position: usize,
    next: u32,
    is_at_end: bool,
}

impl<'a> Timeouts<'a> {
    pub(crate) fn new(context: &'a Context) -> Timeouts<'a> {
        Timeouts { context, entries: Vec::new(), position: 0, next: 0, is_at_end: false }
    }

    fn fill(&mut self) -> Result<()> {
        self.entries.resize(PAGE, sys::twheel_list_entry::default());
        self.position = 0;
        let (entries, next) = (self.entries.as_mut_ptr(), &mut self.next);
        // SAFETY: of raw(), with room for a page
        let found =
            unsafe { sys::twheel_list_timeouts(self.context.raw(), entries, PAGE as u32, next) };
        self.entries.truncate(found.max(0) as usize);
        self.is_at_end = self.entries.is_empty();
        check_system(found).map(drop)
    }
}

impl Iterator for Timeouts<'_> {
    type Item = Result<Timeout>;

    fn next(&mut self) -> Option<Result<Timeout>> {
        if self.position == self.entries.len() && !self.is_at_end {
            if let Err(error) = self.fill() {
                return Some(Err(error));
            }
        }
        let entry = self.entries.get(self.position)?;
        self.position += 1;
        Some(Ok(Timeout::of_entry(entry)))
    }
}

impl FusedIterator for Timeouts<'_> {}
