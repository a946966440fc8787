// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! For tokio: the events of a context as a stream.

use std::fmt;
use std::pin::Pin;
use std::task::Poll;
use std::time::Duration;

use ::tokio::io::unix::AsyncFd;
use ::tokio::io::Interest;
use futures_core::{ready, Stream};

use crate::context::Context;
use crate::error::{Error, Result};
use crate::event::Event;
use crate::sleep::PollFn;

const ROOM: usize = 64;

/// The events of a context, several per read. The stream ends when the context has been
/// [stopped](Context::stop) and all events are read.
///
/// An event leaves the queue of the context up to 63 events before the stream yields it. Events of
/// timeouts that are cancelled meanwhile are still yielded. A runtime takes one stream per context.
///
/// ```no_run
/// # async fn example() -> twheel::Result<()> {
/// let context = twheel::Context::open()?;
/// let mut expirations = twheel::tokio::Expirations::new(&context)?;
/// while let Some(event) = expirations.next().await {
///     println!("{}", event?.cookie());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Expirations {
    fd: AsyncFd<Context>,
    room: Box<[Event; ROOM]>,
    position: usize,
    end: usize,
}

impl Expirations {
    /// A stream of the events of a context.
    ///
    /// # Errors
    ///
    /// [`Error::System`]: `EEXIST` if the runtime has a stream of the
    /// context; `ENOMEM`.
    ///
    /// # Panics
    ///
    /// Outside of a runtime, and if its I/O is not enabled.
    pub fn new(context: &Context) -> Result<Expirations> {
        // Its replacement is not in tokio 1.24. A context keeps its descriptor.
        #[allow(deprecated)]
        let fd = AsyncFd::with_interest(context.clone(), Interest::READABLE)?;
        Ok(Expirations { fd, room: Box::new([Event::default(); ROOM]), position: 0, end: 0 })
    }

    /// The next event; `None` at the end. Dropping the future loses no event.
    ///
    /// # Errors
    ///
    /// [`Error::System`]: `EBADF` if the context is open for writing only.
    pub async fn next(&mut self) -> Option<Result<Event>> {
        PollFn(|cx: &mut std::task::Context<'_>| Pin::new(&mut *self).poll_next(cx)).await
    }

    /// Reads until there are events, or the end. The readiness is cleared when a read finds none,
    /// as epoll reports edges.
    fn fill(&mut self, cx: &mut std::task::Context<'_>) -> Poll<Result<()>> {
        while self.position == self.end {
            let mut guard = ready!(self.fd.poll_read_ready(cx))?;
            match self.fd.get_ref().read(&mut self.room[..], Some(Duration::ZERO)) {
                Ok([]) => break,
                Ok(found) => {
                    self.end = found.len();
                    self.position = 0;
                }
                Err(Error::TimedOut) => guard.clear_ready(),
                Err(error) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl Stream for Expirations {
    type Item = Result<Event>;

    fn poll_next(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> Poll<Option<Result<Event>>> {
        if let Err(error) = ready!(self.fill(cx)) {
            return Poll::Ready(Some(Err(error)));
        }
        if self.position == self.end {
            return Poll::Ready(None);
        }
        self.position += 1;
        Poll::Ready(Some(Ok(self.room[self.position - 1])))
    }
}

impl fmt::Debug for Expirations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Expirations").field("context", self.fd.get_ref()).finish_non_exhaustive()
    }
}
