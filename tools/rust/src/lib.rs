// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Timeouts by the million behind one file descriptor: `/dev/twheel` of Linux, or a wheel in the
//! process where the module is not loaded.
//!
//! A [`Context`] has its own timeouts, queue of events and limits. Arming a timeout returns its
//! [`Id`]. A timeout that fires makes an [`Event`], which is read from the same context. A
//! cancelled timeout makes none.
//!
//! ```
//! use std::time::Duration;
//! use twheel::{Context, Event};
//!
//! let context = Context::open()?;
//! context.arm(Duration::from_millis(500), 42)?;
//! let mut room = [Event::default(); 64];
//! for event in context.read(&mut room, None)? {
//!     assert_eq!(event.cookie(), 42);
//! }
//! # Ok::<(), twheel::Error>(())
//! ```
//!
//! # Batches and cells
//!
//! [`Context::submit`] carries out many operations with one call. A [`Cell`] is a timeout that is
//! armed, moved and cancelled by one atomic exchange in memory that the process shares with the
//! kernel.
//!
//! # Sleeps
//!
//! The module [`sleep`] has futures on cells for any executor: sleeps, timeouts, intervals and a
//! queue of delayed values.
//!
//! # Time
//!
//! A timeout never fires early: a deadline is rounded up to the next tick, 1 ms by default. A
//! [`Duration`](std::time::Duration) or a [`Time`] above `i64::MAX` nanoseconds, 292 years, counts
//! as that.
//!
//! # Threads
//!
//! All types can be sent and shared between threads. Each event goes to exactly one reader.
//!
//! # Features
//!
//! `vendored`, the default, builds the C library libtwheel from source. Without it, pkg-config finds
//! the installed one. `stream` makes [`sleep::DelayQueue`] a `Stream` of the crate futures-core.
#![deny(missing_docs)]
#![deny(unsafe_op_in_unsafe_fn)]
#![cfg(target_os = "linux")]

#[cfg(target_has_atomic = "64")]
mod cell;
mod context;
mod error;
mod event;
mod list;
mod op;
mod setup;
#[cfg(target_has_atomic = "64")]
pub mod sleep;
mod state;
mod time;

#[cfg(target_has_atomic = "64")]
pub use cell::Cell;
pub use context::{Context, Found};
pub use error::{Error, Result};
pub use event::Event;
pub use list::{State, Timeout, Timeouts};
pub use op::{Id, Op, Outcome};
pub use setup::{Backend, Setup};
pub use state::{Info, Stats};
pub use time::{Clock, Deadline, Time};
