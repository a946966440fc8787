// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Builds libtwheel, or finds the installed one.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "vendored")]
    build();
    #[cfg(not(feature = "vendored"))]
    if let Err(error) = pkg_config::Config::new().atleast_version("0.1.0").probe("libtwheel") {
        eprintln!("{error}\nThe feature 'vendored' builds libtwheel from source.");
        std::process::exit(1);
    }
}

/// The package has the sources in the directory `c`, and the project at its top.
#[cfg(feature = "vendored")]
fn build() {
    let top = ["c", "../../.."].iter().find(|top| std::path::Path::new(top).join("tools").is_dir());
    let top = top.expect("the sources of libtwheel: see prepare.sh");
    let lib = format!("{top}/tools/lib");
    for directory in [&lib, &format!("{top}/include")] {
        println!("cargo:rerun-if-changed={directory}");
    }
    cc::Build::new()
        .files(["libtwheel.c", "process.c"].iter().map(|file| format!("{lib}/{file}")))
        .include(&lib)
        .flag("-std=gnu11")
        .opt_level(2)
        .compile("twheel");
}
