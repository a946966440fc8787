// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Bindings of libtwheel, by hand: what the crate `twheel` uses. The names, records and contracts
//! are those of `<libtwheel.h>`, with which a test compares them.
#![allow(non_camel_case_types)]
#![cfg(target_os = "linux")]

use std::cell::UnsafeCell;
use std::os::raw::{c_char, c_int, c_uint};

pub const TWHEEL_OP_ARM: u32 = 1;
pub const TWHEEL_OP_MOD: u32 = 2;
pub const TWHEEL_OP_CANCEL: u32 = 3;
pub const TWHEEL_OP_GET: u32 = 4;
pub const TWHEEL_F_ABS: u32 = 1 << 0;
pub const TWHEEL_F_FIXED_DELAY: u32 = 1 << 1;
pub const TWHEEL_F_CELL: u32 = 1 << 2;
pub const TWHEEL_F_EXACT: u32 = 1 << 3;
pub const TWHEEL_WITHDRAWN: u32 = 1;
pub const TWHEEL_IDLE: u32 = 2;
pub const TWHEEL_CELL_FIRED: u64 = !0 - 1;
pub const TWHEEL_CELL_IDLE: u64 = !0;
pub const TWHEEL_EV_LAST: u32 = 1 << 0;
pub const TWHEEL_EV_UNPROCESSED: u32 = 1 << 1;
pub const TWHEEL_INFO_PRIVATE: u32 = 1 << 0;
pub const TWHEEL_INFO_STOPPED: u32 = 1 << 1;
pub const TWHEEL_INFO_PROCESS: u32 = 1 << 31;
pub const TWHEEL_SETUP_CLOCK: u32 = 1 << 0;
pub const TWHEEL_SETUP_MANUAL: u32 = 1 << 31;
pub const TWHEEL_STATE_READY: u32 = 2;
pub const TWHEEL_STATE_IDLE: u32 = 3;
pub const TWHEEL_LATENESS: usize = 40;
pub const TWHEEL_KERNEL: u32 = 0x4;
pub const TWHEEL_PROCESS: u32 = 0x8;

/// Defines records of plain integers.
macro_rules! records {
    ($($name:ident { $($field:ident: $type:ty,)* })*) => {
        $(
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name {
                $(pub $field: $type,)*
            }

            impl Default for $name {
                fn default() -> $name {
                    // SAFETY: zeros are valid values of integers
                    unsafe { std::mem::zeroed() }
                }
            }
        )*
    };
}

records! {
    twheel_op {
        opcode: u32,
        flags: u32,
        id: u64,
        expires_ns: u64,
        interval_ns: u64,
        cookie: u64,
        repeat: u32,
        slack_us: u32,
        result: i32,
        reserved: u32,
    }

    twheel_event {
        id: u64,
        cookie: u64,
        expires_ns: u64,
        fired_ns: u64,
        count: u64,
        flags: u32,
        reserved: u32,
    }

    twheel_info {
        opcodes: u32,
        op_flags: u32,
        tick_ns: u64,
        clock: u32,
        slots: u32,
        levels: u32,
        max_timeouts: u32,
        live: u32,
        ready: u32,
        flags: u32,
        slack_us: u32,
        setup_flags: u32,
        cells: u32,
        user_timeouts: u32,
        max_user_timeouts: u32,
        wheel_bytes: u64,
        max_wheel_bytes: u64,
        refused: u64,
        user_refused: u64,
        all_refused: u64,
        wheel_refused: u64,
        reserved: [u64; 10],
    }

    twheel_setup {
        tick_ns: u64,
        clock: u32,
        slots: u32,
        levels: u32,
        max_timeouts: u32,
        flags: u32,
        slack_us: u32,
        reserved: [u64; 3],
    }

    twheel_cancel_all {
        cookie: u64,
        flags: u32,
        pending: u32,
        withdrawn: u32,
        reserved0: u32,
        reserved: [u64; 2],
    }

    twheel_list_entry {
        id: u64,
        cookie: u64,
        remaining_ns: u64,
        interval_ns: u64,
        repeat: u32,
        slack_us: u32,
        state: u32,
        flags: u32,
    }

    twheel_stats {
        armed: u64,
        moved: u64,
        cancelled: u64,
        withdrawn: u64,
        ended: u64,
        fired: u64,
        looks: u64,
        kicks: u64,
        dropped: u64,
        unprocessed: u64,
        read: u64,
        live: u32,
        ready: u32,
        lateness: [u64; TWHEEL_LATENESS],
        reserved: [u64; 6],
    }
}

/// Both words are shared with the kernel, or with other threads: all accesses are atomic.
#[repr(C, align(8))]
pub struct twheel_cell {
    pub word: UnsafeCell<u64>,
    pub look: UnsafeCell<u64>,
}

/// A context. Its functions may run in several threads, except the first two and the last.
#[repr(C)]
pub struct twheel_ctx {
    _private: [u8; 0],
}

extern "C" {
    pub fn twheel_open(path: *const c_char, flags: c_uint, ctx: *mut *mut twheel_ctx) -> c_int;
    pub fn twheel_configure(ctx: *mut twheel_ctx, setup: *const twheel_setup) -> c_int;
    pub fn twheel_open_fd(fd: c_int, ctx: *mut *mut twheel_ctx) -> c_int;
    pub fn twheel_fd(ctx: *const twheel_ctx) -> c_int;
    pub fn twheel_get_info(ctx: *mut twheel_ctx, info: *mut twheel_info) -> c_int;
    pub fn twheel_get_stats(ctx: *mut twheel_ctx, stats: *mut twheel_stats) -> c_int;
    pub fn twheel_now(ctx: *mut twheel_ctx, now_ns: *mut u64) -> c_int;
    pub fn twheel_set_time(ctx: *mut twheel_ctx, now_ns: u64) -> c_int;
    pub fn twheel_operate(ctx: *mut twheel_ctx, op: *mut twheel_op) -> c_int;
    pub fn twheel_submit_ops(ctx: *mut twheel_ctx, ops: *mut twheel_op, nr: c_uint) -> c_int;
    pub fn twheel_cancel_timeouts(ctx: *mut twheel_ctx, done: *mut twheel_cancel_all) -> c_int;
    pub fn twheel_cancel_cookie(
        ctx: *mut twheel_ctx,
        cookie: u64,
        done: *mut twheel_cancel_all,
    ) -> c_int;
    pub fn twheel_stop(ctx: *mut twheel_ctx) -> c_int;
    pub fn twheel_list_timeouts(
        ctx: *mut twheel_ctx,
        entries: *mut twheel_list_entry,
        nr: c_uint,
        next: *mut u32,
    ) -> c_int;
    pub fn twheel_wait(ctx: *mut twheel_ctx, timeout_ns: i64) -> c_int;
    pub fn twheel_read(
        ctx: *mut twheel_ctx,
        events: *mut twheel_event,
        nr: c_uint,
        timeout_ns: i64,
    ) -> c_int;
    pub fn twheel_cell_create(
        ctx: *mut twheel_ctx,
        cookie: u64,
        id: *mut u64,
        cell: *mut *mut twheel_cell,
    ) -> c_int;
    pub fn twheel_cell_find(ctx: *mut twheel_ctx, id: u64, cell: *mut *mut twheel_cell) -> c_int;
    pub fn twheel_cell_kick(
        ctx: *mut twheel_ctx,
        cell: *mut twheel_cell,
        id: u64,
        expires_ns: u64,
    ) -> c_int;
    pub fn twheel_close(ctx: *mut twheel_ctx);
}
