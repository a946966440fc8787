// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Errors of calls.

use std::path::{Path, PathBuf};
use std::{error, fmt, io, result};

/// Why a call failed. A failed call has no effect, unless its documentation names one.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The timeout does not exist, or its last event has been read (`ENOENT`).
    Gone,
    /// A limit is reached: of the context, of the user or in total (`EAGAIN`).
    Limit,
    /// Nothing can be armed any more: the context has been stopped (`ESHUTDOWN`).
    Stopped,
    /// No event came in time.
    TimedOut,
    /// The device is missing (`ENOENT`, `ENODEV`, `ENXIO`) or not permitted (`EACCES`, `EPERM`),
    /// or the environment variable `TWHEEL_BACKEND` is wrong (`EINVAL`). The text says what to do.
    #[non_exhaustive]
    Open {
        /// The path of the device.
        path: PathBuf,
        /// The error of the system.
        error: io::Error,
    },
    /// Any other error of the system. `EINVAL`: a combination that the kernel rejects. `EBADF`:
    /// the context is open for reading or for writing only. `ENOMEM`: no memory. `EINTR`: a
    /// signal handler ran.
    System(io::Error),
}

const DEVICE: &str = "/dev/twheel";

/// A result with the [`Error`] of this crate.
pub type Result<T> = result::Result<T, Error>;

impl Error {
    /// The error of an open.
    pub(crate) fn of_open(path: Option<&Path>, errno: i32) -> Error {
        let error = io::Error::from_raw_os_error(errno);
        match errno {
            libc::EINVAL if path.is_some() => Error::System(error),
            libc::ENOENT
            | libc::ENODEV
            | libc::ENXIO
            | libc::EISDIR
            | libc::EACCES
            | libc::EPERM
            | libc::EINVAL => {
                Error::Open { path: path.unwrap_or_else(|| Path::new(DEVICE)).into(), error }
            }
            _ => Error::System(error),
        }
    }

    /// The error of an operation on a timeout.
    pub(crate) fn of_errno(errno: i32) -> Error {
        match errno {
            libc::ENOENT => Error::Gone,
            libc::EAGAIN => Error::Limit,
            libc::ESHUTDOWN => Error::Stopped,
            _ => Error::System(io::Error::from_raw_os_error(errno)),
        }
    }
}

/// The result of a function that works on timeouts.
#[inline]
pub(crate) fn check(result: i32) -> Result<u32> {
    u32::try_from(result).map_err(|_| Error::of_errno(-result))
}

/// The result of another function, whose errors have no names here.
pub(crate) fn check_system(result: i32) -> Result<u32> {
    u32::try_from(result).map_err(|_| io::Error::from_raw_os_error(-result).into())
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Gone => f.write_str("the timeout does not exist"),
            Error::Limit => f.write_str("the limit of live timeouts is reached"),
            Error::Stopped => f.write_str("nothing can be armed any more"),
            Error::TimedOut => f.write_str("no event came in time"),
            Error::Open { path, error } => {
                let remedy = match error.kind() {
                    io::ErrorKind::PermissionDenied => "root and the group twheel have access",
                    io::ErrorKind::InvalidInput => "TWHEEL_BACKEND is 'kernel' or 'process'",
                    _ => "'modprobe twheel_dev' loads the module",
                };
                write!(f, "cannot open {}: {error}: {remedy}", path.display())
            }
            Error::System(error) => error.fmt(f),
        }
    }
}

impl error::Error for Error {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            // Its text is that of this error.
            Error::System(error) => error.source(),
            _ => None,
        }
    }
}

impl From<io::Error> for Error {
    fn from(error: io::Error) -> Error {
        Error::System(error)
    }
}

impl From<Error> for io::Error {
    fn from(error: Error) -> io::Error {
        match error {
            Error::Gone => io::ErrorKind::NotFound.into(),
            // Not EAGAIN: that kind means that a descriptor is not ready.
            Error::Limit => io::Error::new(io::ErrorKind::Other, error),
            Error::Stopped => io::Error::from_raw_os_error(libc::ESHUTDOWN),
            Error::TimedOut => io::ErrorKind::TimedOut.into(),
            Error::Open { error: ref cause, .. } => io::Error::new(cause.kind(), error.to_string()),
            Error::System(error) => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn error_of_an_open_names_the_device_and_a_remedy() {
        let cases = [
            (libc::ENOENT, "cannot open /dev/twheel: ", "modprobe twheel_dev"),
            (libc::EACCES, "cannot open /dev/twheel: ", "group twheel"),
            (libc::EINVAL, "cannot open /dev/twheel: ", "TWHEEL_BACKEND"),
            (libc::EMFILE, "", ""),
        ];
        for (errno, start, remedy) in cases {
            let kind = io::Error::from_raw_os_error(errno).kind();
            let error = Error::of_open(None, errno);
            assert_eq!(matches!(error, Error::Open { .. }), !remedy.is_empty());
            let text = error.to_string();
            assert!(text.starts_with(start) && text.contains(remedy), "{text}");
            let error = io::Error::from(error);
            assert_eq!((error.kind(), error.to_string()), (kind, text));
        }
    }
}
