// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Compares records and numbers with those of the C header, by a C program.

use std::fmt::Write as _;
use std::mem::size_of;
use std::path::Path;
use std::process::Command;
use std::{env, fs};

#[allow(dead_code)]
#[path = "../src/abi.rs"]
mod abi;
use abi::*;

type Facts = Vec<(String, u64)>;

macro_rules! record {
    ($facts:ident, $type:ident, $name:literal: $($field:ident)*) => {
        $facts.push((format!("sizeof(struct {})", $name), size_of::<$type>() as u64));
        let record = $type::default();
        let base = &record as *const $type as usize;
        $(
            let offset = &record.$field as *const _ as usize - base;
            let field = stringify!($field);
            $facts.push((format!("offsetof(struct {}, {field})", $name), offset as u64));
        )*
    };
}

macro_rules! numbers {
    ($facts:ident: $($name:ident)*) => {
        $($facts.push((concat!("TWHEEL_", stringify!($name)).to_string(), $name as u64));)*
    };
}

fn facts() -> Facts {
    let mut facts = Facts::new();
    record!(facts, Op, "twheel_op": opcode flags id expires_ns interval_ns cookie repeat
        slack_us result reserved);
    record!(facts, Event, "twheel_event": id cookie expires_ns fired_ns count flags reserved);
    record!(facts, Info, "twheel_info": opcodes op_flags tick_ns clock slots levels max_timeouts
        live ready flags slack_us setup_flags cells user_timeouts max_user_timeouts wheel_bytes
        max_wheel_bytes refused user_refused all_refused wheel_refused reserved);
    record!(facts, Setup, "twheel_setup": tick_ns clock slots levels max_timeouts flags slack_us
        reserved);
    record!(facts, Submit, "twheel_submit": ops nr done flags op_size);
    record!(facts, UringSubmit, "twheel_uring_submit": ops nr op_size flags);
    record!(facts, CancelAll, "twheel_cancel_all": cookie flags pending withdrawn reserved0
        reserved);
    record!(facts, ListEntry, "twheel_list_entry": id cookie remaining_ns interval_ns repeat
        slack_us state flags);
    record!(facts, List, "twheel_list": entries nr done next flags entry_size reserved0 reserved);
    record!(facts, Stats, "twheel_stats": armed moved cancelled withdrawn ended fired looks kicks
        dropped unprocessed read live ready lateness reserved);
    numbers!(facts: F_ABS F_FIXED_DELAY F_CELL F_EXACT WITHDRAWN IDLE CELL_FIRED CELL_IDLE EV_LAST
        EV_UNPROCESSED INFO_PRIVATE INFO_STOPPED INFO_URING SETUP_CLOCK CANCEL_COOKIE
        STATE_PENDING STATE_READY STATE_IDLE LATENESS IOC_MAGIC IOC_INFO IOC_SETUP IOC_OP
        IOC_SUBMIT IOC_CANCEL_ALL IOC_STOP IOC_LIST IOC_STATS URING_SUBMIT);
    facts
        .extend(OPERATIONS.iter().map(|(name, number)| (format!("TWHEEL_{name}"), *number as u64)));
    facts
}

fn include() -> String {
    env::var("TWHEEL_INCLUDE")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../../include/uapi").to_string())
}

#[test]
fn records_and_numbers_agree_with_the_header() {
    let facts = facts();
    let mut source = "#include <stddef.h>\n#include <stdio.h>\n".to_string();
    source += "#include <linux/twheel.h>\nint main(void)\n{\n";
    for (expression, _) in &facts {
        writeln!(source, "printf(\"%llu\\n\", (unsigned long long)({expression}));").unwrap();
    }
    source += "}\n";
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let (file, program) = (directory.join("layout.c"), directory.join("layout"));
    fs::write(&file, source).unwrap();
    let compiler = env::var("CC").unwrap_or_else(|_| "cc".to_string());
    let include = format!("-I{}", include());
    let status =
        Command::new(compiler).arg(include).arg("-o").arg(&program).arg(&file).status().unwrap();
    assert!(status.success());
    let output = Command::new(program).output().unwrap().stdout;
    let found: Facts = String::from_utf8(output)
        .unwrap()
        .lines()
        .zip(&facts)
        .map(|(line, (expression, _))| (expression.clone(), line.parse().unwrap()))
        .collect();
    assert_eq!(facts, found);
}

#[test]
fn every_number_of_the_header_is_compared() {
    let header = fs::read_to_string(include() + "/linux/twheel.h").unwrap();
    let facts = facts();
    let missing: Vec<&str> = header
        .lines()
        .filter_map(|line| line.strip_prefix("#define TWHEEL_")?.split_whitespace().next())
        .filter(|name| {
            !name.contains('(')
                && !facts.iter().any(|(fact, _)| fact.strip_prefix("TWHEEL_") == Some(name))
        })
        .collect();
    assert_eq!(missing, [""; 0]);
}
