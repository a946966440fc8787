// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! The system calls. All access to the device goes through here.

use std::io;
use std::mem::{size_of, size_of_val};
use std::os::raw::{c_int, c_long};
use std::os::unix::io::{AsRawFd, BorrowedFd};
use std::ptr;
use std::time::Duration;

use crate::abi;
use crate::event::Event;

/// Flag of preadv2(): fail with EAGAIN rather than wait.
const RWF_NOWAIT: c_int = 0x8;

const NSEC_PER_SEC: u64 = 1_000_000_000;

fn check(result: c_long) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// # Safety
///
/// `argument` must point to what the kernel expects with `request`.
unsafe fn control<T>(fd: BorrowedFd<'_>, request: u32, argument: *mut T) -> io::Result<usize> {
    // SAFETY: by the contract of this function. The type of the number depends on the library.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, argument) }.into())
}

/// Carries out one operation. Returns its outcome.
pub(crate) fn operate(fd: BorrowedFd<'_>, op: &mut abi::Op) -> io::Result<usize> {
    // SAFETY: it takes an operation
    unsafe { control(fd, abi::IOC_OP, op) }
}

/// Carries out operations in order. Returns the number tried.
pub(crate) fn submit(fd: BorrowedFd<'_>, ops: &mut [abi::Op]) -> io::Result<usize> {
    let mut submit = abi::Submit {
        ops: ops.as_mut_ptr() as usize as u64,
        nr: u32::try_from(ops.len()).map_err(|_| io::Error::from_raw_os_error(libc::EINVAL))?,
        op_size: size_of::<abi::Op>() as u32,
        ..abi::Submit::default()
    };
    // SAFETY: the array is borrowed until the call returns
    unsafe { control(fd, abi::IOC_SUBMIT, &mut submit) }?;
    Ok(submit.done as usize)
}

/// The argument of an ioctl.
pub(crate) trait Argument: Default {
    const REQUEST: u32;
}

macro_rules! arguments {
    ($($type:ident: $request:ident,)*) => {
        $(impl Argument for abi::$type { const REQUEST: u32 = abi::$request; })*
    };
}

arguments! {
    Info: IOC_INFO, Stats: IOC_STATS, Setup: IOC_SETUP, CancelAll: IOC_CANCEL_ALL,
}

/// Passes an argument. Returns what the kernel has made of it.
pub(crate) fn pass<T: Argument>(fd: BorrowedFd<'_>, mut argument: T) -> io::Result<T> {
    // SAFETY: the types agree
    unsafe { control(fd, T::REQUEST, &mut argument) }?;
    Ok(argument)
}

pub(crate) fn get<T: Argument>(fd: BorrowedFd<'_>) -> io::Result<T> {
    pass(fd, T::default())
}

pub(crate) fn stop(fd: BorrowedFd<'_>) -> io::Result<()> {
    // SAFETY: it takes no argument
    unsafe { control::<u8>(fd, abi::IOC_STOP, ptr::null_mut()) }?;
    Ok(())
}

/// Fills in entries from the position `next` on. Returns their number.
pub(crate) fn list(
    fd: BorrowedFd<'_>,
    entries: &mut [abi::ListEntry],
    next: &mut u32,
) -> io::Result<usize> {
    let mut list = abi::List {
        entries: entries.as_mut_ptr() as usize as u64,
        nr: entries.len() as u32,
        next: *next,
        entry_size: size_of::<abi::ListEntry>() as u32,
        ..abi::List::default()
    };
    // SAFETY: the array is borrowed until the call returns
    let result = unsafe { control(fd, abi::IOC_LIST, &mut list) };
    // The kernel sets it after a failure too.
    *next = list.next;
    result.map(|_| list.done as usize)
}

/// Takes events out of the queue. Fails with EAGAIN if there are none, whatever the flags of the
/// open file, which other processes may share.
pub(crate) fn read_nowait(fd: BorrowedFd<'_>, room: &mut [Event]) -> io::Result<usize> {
    let iov = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: size_of_val(room) };
    // SAFETY: the room is borrowed until the call returns; any bytes are a valid event. C libraries
    // differ in whether they have the function. The position -1 takes two arguments on all
    // machines, of which 64-bit ones ignore the second.
    let bytes = unsafe {
        libc::syscall(
            libc::SYS_preadv2,
            fd.as_raw_fd(),
            &iov,
            1,
            -1 as c_long,
            -1 as c_long,
            RWF_NOWAIT,
        )
    };
    Ok(check(bytes)? / size_of::<Event>())
}

/// Waits until the descriptor is readable, at most for a time. Returns whether it is.
pub(crate) fn wait(fd: BorrowedFd<'_>, timeout: Option<Duration>) -> io::Result<bool> {
    let mut poll = libc::pollfd { fd: fd.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let limit = timeout.map(|timeout| libc::timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as _,
        tv_nsec: timeout.subsec_nanos() as _,
    });
    let limit = limit.as_ref().map_or(ptr::null(), |limit| limit as *const _);
    // SAFETY: both live until the call returns
    let found = unsafe { libc::ppoll(&mut poll, 1, limit, ptr::null()) };
    Ok(check(found.into())? != 0)
}

pub(crate) fn now(clock: libc::clockid_t) -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it lives until the call returns. The clocks of contexts exist on all kernels.
    unsafe { libc::clock_gettime(clock, &mut time) };
    time.tv_sec as u64 * NSEC_PER_SEC + time.tv_nsec as u64
}

/// Memory that is shared with the kernel.
#[cfg(target_has_atomic = "64")]
pub(crate) struct Mapping {
    address: ptr::NonNull<u8>,
    length: usize,
}

// SAFETY: the memory belongs to the mapping, and is accessed by atomic operations only
#[cfg(target_has_atomic = "64")]
unsafe impl Send for Mapping {}
// SAFETY: the same
#[cfg(target_has_atomic = "64")]
unsafe impl Sync for Mapping {}

#[cfg(target_has_atomic = "64")]
impl Mapping {
    pub(crate) fn new(fd: BorrowedFd<'_>, length: usize) -> io::Result<Mapping> {
        // After mlockall() a mapping with access would make all pages at once.
        let (none, access) = (libc::PROT_NONE, libc::PROT_READ | libc::PROT_WRITE);
        let null = ptr::null_mut();
        // SAFETY: a new mapping at an address that the kernel chooses
        let address =
            unsafe { libc::mmap(null, length, none, libc::MAP_SHARED, fd.as_raw_fd(), 0) };
        if address == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = Mapping {
            address: ptr::NonNull::new(address.cast()).expect("mmap() never returns NULL"),
            length,
        };
        // SAFETY: of a mapping that nobody has seen
        if unsafe { libc::mprotect(address, length, access) } != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok(mapping)
    }

    pub(crate) fn address(&self) -> ptr::NonNull<u8> {
        self.address
    }

    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

#[cfg(target_has_atomic = "64")]
impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: it is the mapping of new(), and no reference into it is left
        unsafe { libc::munmap(self.address.as_ptr().cast(), self.length) };
    }
}
