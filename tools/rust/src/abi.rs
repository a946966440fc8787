// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! The records and numbers of `<twheel/abi.h>`, as the kernel defines them.
//!
//! The names are those of the C header without `TWHEEL_`. The header describes the fields. Times
//! are nanoseconds, at most `i64::MAX`.

use std::mem::size_of;

/// Defines the number of each operation.
macro_rules! operations {
    ($($opcode:ident = $code:literal: $what:literal;)*) => {
        $(
            #[doc = concat!("[`Op::opcode`]: ", $what, ".")]
            pub const $opcode: u32 = $code;
        )*

        /// Names and numbers, for a test.
        pub const OPERATIONS: &[(&str, u32)] = &[$((stringify!($opcode), $opcode)),*];
    };
}

operations! {
    OP_ARM = 1: "arm a new timeout";
    OP_MOD = 2: "arm a timeout anew";
    OP_CANCEL = 3: "end a timeout without an event";
    OP_GET = 4: "get the state of a timeout";
    OP_KICK = 5: "look at the word of a cell";
}

/// [`Op::flags`]: the deadline is absolute.
pub const F_ABS: u32 = 1 << 0;
/// [`Op::flags`]: the interval starts when the event is read.
pub const F_FIXED_DELAY: u32 = 1 << 1;
/// [`Op::flags`]: ARM makes a cell; MOD requires it for a cell.
pub const F_CELL: u32 = 1 << 2;
/// [`Op::flags`]: no slack, even if the context has slack.
pub const F_EXACT: u32 = 1 << 3;

/// Outcome of CANCEL and MOD: it had fired; its event will not be read.
pub const WITHDRAWN: u32 = 1;
/// Outcome of CANCEL and MOD: it was an idle cell.
pub const IDLE: u32 = 2;

/// Word of a cell: fired; the event is unread.
pub const CELL_FIRED: u64 = !0 - 1;
/// Word of a cell: idle. All other values above `i64::MAX` also mean idle, but [`CELL_FIRED`].
pub const CELL_IDLE: u64 = !0;

/// [`Event::flags`]: the last event; the id is no longer valid.
pub const EV_LAST: u32 = 1 << 0;
/// [`Event::flags`]: stopped before it fired.
pub const EV_UNPROCESSED: u32 = 1 << 1;

/// [`Info::flags`]: no other context uses the wheel.
pub const INFO_PRIVATE: u32 = 1 << 0;
/// [`Info::flags`]: the context has been stopped.
pub const INFO_STOPPED: u32 = 1 << 1;
/// [`Info::flags`]: io_uring has the command [`URING_SUBMIT`].
pub const INFO_URING: u32 = 1 << 2;

/// [`Setup::flags`]: use the clock field.
pub const SETUP_CLOCK: u32 = 1 << 0;

/// [`CancelAll::flags`]: only timeouts with this cookie.
pub const CANCEL_COOKIE: u32 = 1 << 0;

/// [`ListEntry::state`]: will fire.
pub const STATE_PENDING: u32 = 1;
/// [`ListEntry::state`]: has fired or was stopped; its event is unread.
pub const STATE_READY: u32 = 2;
/// [`ListEntry::state`]: a cell that is not armed.
pub const STATE_IDLE: u32 = 3;

/// Number of buckets of [`Stats::lateness`].
pub const LATENESS: usize = 40;

/// One operation on a timeout: `struct twheel_op`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Op {
    pub opcode: u32,
    pub flags: u32,
    pub id: u64,
    pub expires_ns: u64,
    pub interval_ns: u64,
    pub cookie: u64,
    pub repeat: u32,
    pub slack_us: u32,
    pub result: i32,
    pub reserved: u32,
}

/// One or more expirations, as `read()` returns them: `struct twheel_event`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Event {
    pub id: u64,
    pub cookie: u64,
    pub expires_ns: u64,
    pub fired_ns: u64,
    pub count: u64,
    pub flags: u32,
    pub reserved: u32,
}

/// Argument of [`IOC_INFO`]: `struct twheel_info`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Info {
    pub opcodes: u32,
    pub op_flags: u32,
    pub tick_ns: u64,
    pub clock: u32,
    pub slots: u32,
    pub levels: u32,
    pub max_timeouts: u32,
    pub live: u32,
    pub ready: u32,
    pub flags: u32,
    pub slack_us: u32,
    pub setup_flags: u32,
    pub cells: u32,
    pub user_timeouts: u32,
    pub max_user_timeouts: u32,
    pub wheel_bytes: u64,
    pub max_wheel_bytes: u64,
    pub refused: u64,
    pub user_refused: u64,
    pub all_refused: u64,
    pub wheel_refused: u64,
    pub reserved: [u64; 2],
}

/// Argument of [`IOC_SETUP`]: `struct twheel_setup`. 0 selects the default.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Setup {
    pub tick_ns: u64,
    pub clock: u32,
    pub slots: u32,
    pub levels: u32,
    pub max_timeouts: u32,
    pub flags: u32,
    pub slack_us: u32,
    pub reserved: [u64; 3],
}

/// Argument of [`IOC_SUBMIT`]: `struct twheel_submit`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct Submit {
    pub ops: u64,
    pub nr: u32,
    pub done: u32,
    pub flags: u32,
    pub op_size: u32,
}

/// Argument of [`URING_SUBMIT`]: `struct twheel_uring_submit`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct UringSubmit {
    pub ops: u64,
    pub nr: u32,
    pub op_size: u16,
    pub flags: u16,
}

/// Argument of [`IOC_CANCEL_ALL`]: `struct twheel_cancel_all`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct CancelAll {
    pub cookie: u64,
    pub flags: u32,
    pub pending: u32,
    pub withdrawn: u32,
    pub reserved0: u32,
    pub reserved: [u64; 2],
}

/// One timeout in the output of [`IOC_LIST`]: `struct twheel_list_entry`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct ListEntry {
    pub id: u64,
    pub cookie: u64,
    pub remaining_ns: u64,
    pub interval_ns: u64,
    pub repeat: u32,
    pub slack_us: u32,
    pub state: u32,
    pub flags: u32,
}

/// Argument of [`IOC_LIST`]: `struct twheel_list`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct List {
    pub entries: u64,
    pub nr: u32,
    pub done: u32,
    pub next: u32,
    pub flags: u32,
    pub entry_size: u32,
    pub reserved0: u32,
    pub reserved: [u64; 2],
}

/// Counts of operations and events since the context was opened, from
/// [`Context::stats`](crate::Context::stats).
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Successful ARMs.
    pub armed: u64,
    /// Successful MODs.
    pub moved: u64,
    /// Timeouts that were cancelled while pending.
    pub cancelled: u64,
    /// Timeouts that were cancelled with their event unread.
    pub withdrawn: u64,
    /// Timeouts whose last event was read, and cells that ended idle.
    pub ended: u64,
    /// Events of timeouts that fired.
    pub fired: u64,
    /// Looks at the word of a cell at a time that the kernel had published.
    pub looks: u64,
    /// Looks at the word of a cell for a KICK.
    pub kicks: u64,
    /// Events of cells that were withdrawn through the word.
    pub dropped: u64,
    /// Events made by STOP.
    pub unprocessed: u64,
    /// Events read.
    pub read: u64,
    /// Live timeouts.
    pub live: u32,
    /// Unread events.
    pub ready: u32,
    /// Events by lateness. Bucket `n` counts events from 2^(n - 1) ns to less than 2^n ns after
    /// the deadline; bucket 0: on time; the last bucket: all later events.
    pub lateness: [u64; LATENESS],
    /// 0.
    pub reserved: [u64; 6],
}

// Arrays above 32 elements have no default.
impl Default for Stats {
    fn default() -> Self {
        // SAFETY: zeros are valid values of integers
        unsafe { std::mem::zeroed() }
    }
}

/// These have other directions, and fewer bits for the size, in the number of an ioctl.
const OLD: bool = cfg!(any(
    target_arch = "mips",
    target_arch = "mips64",
    target_arch = "powerpc",
    target_arch = "powerpc64",
    target_arch = "sparc64"
));
const NONE: u32 = if OLD { 1 } else { 0 };
const WRITE: u32 = if OLD { 4 } else { 1 };
const READ: u32 = 2;
const SIZE_BITS: u32 = if OLD { 13 } else { 14 };

/// Type of the ioctls.
pub const IOC_MAGIC: u32 = 0xF7;

const fn ioc(direction: u32, number: u32, size: usize) -> u32 {
    direction << (16 + SIZE_BITS) | (size as u32) << 16 | IOC_MAGIC << 8 | number
}

const READ_WRITE: u32 = READ | WRITE;

/// Get settings and fill level, with [`Info`].
pub const IOC_INFO: u32 = ioc(READ, 0x00, size_of::<Info>());
/// Choose settings, with [`Setup`].
pub const IOC_SETUP: u32 = ioc(WRITE, 0x01, size_of::<Setup>());
/// Carry out one operation, with [`Op`].
pub const IOC_OP: u32 = ioc(READ_WRITE, 0x02, size_of::<Op>());
/// Carry out many operations, with [`Submit`].
pub const IOC_SUBMIT: u32 = ioc(READ_WRITE, 0x03, size_of::<Submit>());
/// End all timeouts, with [`CancelAll`].
pub const IOC_CANCEL_ALL: u32 = ioc(READ_WRITE, 0x04, size_of::<CancelAll>());
/// Stop all timeouts for good.
pub const IOC_STOP: u32 = ioc(NONE, 0x05, 0);
/// Page through the timeouts, with [`List`].
pub const IOC_LIST: u32 = ioc(READ_WRITE, 0x06, size_of::<List>());
/// Get statistics, with [`Stats`].
pub const IOC_STATS: u32 = ioc(READ, 0x07, size_of::<Stats>());

/// Carry out many operations by a command of an io_uring, with [`UringSubmit`].
pub const URING_SUBMIT: u32 = ioc(WRITE, 0x80, size_of::<UringSubmit>());
