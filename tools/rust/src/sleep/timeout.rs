// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Futures with a time limit.

use std::borrow::BorrowMut;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use super::timer::{Elapsed, Sleep, Timer};
use crate::error::Result;
use crate::time::Deadline;

impl Timer {
    /// Limit a future to a `Duration` from now, to an `Instant` or to a [`Time`](crate::Time).
    ///
    /// ```
    /// # let future = async {
    /// use std::future::pending;
    /// use std::time::Duration;
    ///
    /// let timer = twheel::sleep::Timer::open()?;
    /// assert_eq!(timer.timeout(Duration::from_secs(60), async { 5 })?.await, Ok(5));
    /// let reply = timer.timeout(Duration::from_millis(5), pending::<()>())?;
    /// assert!(reply.await.is_err());
    /// # twheel::Result::Ok(())
    /// # };
    /// ```
    ///
    /// # Errors
    ///
    /// As [`Timer::sleep`]. The future is dropped.
    pub fn timeout<F: Future>(
        &self,
        deadline: impl Into<Deadline>,
        future: F,
    ) -> Result<Timeout<F>> {
        Ok(Timeout { future, sleep: self.sleep(deadline)? })
    }
}

/// A future with a time limit, from [`Timer::timeout`]. Dropping it cancels both.
///
/// The future is polled first: if it is ready, its output is returned, however late it is.
#[derive(Debug)]
#[must_use = "futures do nothing unless they are polled"]
pub struct Timeout<F, S = Sleep> {
    pub(super) future: F,
    pub(super) sleep: S,
}

impl<F> Timeout<F> {
    /// The future.
    pub fn get_ref(&self) -> &F {
        &self.future
    }

    /// The future.
    pub fn get_mut(&mut self) -> &mut F {
        &mut self.future
    }

    /// The future, without the limit.
    pub fn into_inner(self) -> F {
        self.future
    }
}

impl<F: Future, S: BorrowMut<Sleep>> Future for Timeout<F, S> {
    type Output = std::result::Result<F::Output, Elapsed>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        // SAFETY: nothing moves the future out of a pinned timeout, which has no Drop
        let (future, sleep) = unsafe {
            let this = self.get_unchecked_mut();
            (Pin::new_unchecked(&mut this.future), this.sleep.borrow_mut())
        };
        match future.poll(cx) {
            Poll::Ready(output) => Poll::Ready(Ok(output)),
            Poll::Pending => Pin::new(sleep).poll(cx).map(|()| Err(Elapsed)),
        }
    }
}
