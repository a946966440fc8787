// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Runs test cases and reports them as KTAP.

use std::panic::catch_unwind;
use std::process::ExitCode;

pub type Case = (&'static str, fn());

/// The cases by their names.
#[macro_export]
macro_rules! cases {
    ($($case:ident),* $(,)?) => { &[$((stringify!($case), $case as fn())),*] };
}

/// A case fails if it panics. The message goes before its result.
pub fn run(cases: &[Case]) -> ExitCode {
    let mut failed = false;
    println!("KTAP version 1\n1..{}", cases.len());
    std::panic::set_hook(Box::new(|panic| {
        println!("# {}", panic.to_string().replace('\n', "\n# "));
    }));
    for (index, (name, case)) in cases.iter().enumerate() {
        let passed = catch_unwind(case).is_ok();
        println!("{}ok {} {name}", if passed { "" } else { "not " }, index + 1);
        failed |= !passed;
    }
    ExitCode::from(u8::from(failed))
}
