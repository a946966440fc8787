// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! For tokio: expirations as a stream, and sleeps that are cells.
//!
//! [`Expirations`] is the stream of the events of a context. [`Timer`] makes [`Sleep`]s. The
//! runtime must have I/O enabled.

mod expirations;
mod place;
mod sync;
mod timer;

pub use expirations::Expirations;
pub use timer::{Elapsed, Sleep, Timer};
