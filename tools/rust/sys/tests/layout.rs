// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! Compares the declarations with `<libtwheel.h>`: their text becomes C, which a compiler reads
//! after the header. Records of integers have the same layout in both languages.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, io::Write};

const SOURCE: &str = include_str!("../src/lib.rs");

/// `name: type` as a declaration.
fn declaration(text: &str) -> String {
    let (name, kind) = text.trim().split_once(": ").expect("a name and a type");
    match kind.trim_matches(|c| c == '[' || c == ']').split_once("; ") {
        Some((kind, length)) => format!("{} {name}[{length}]", c_type(kind)),
        None => format!("{} {name}", c_type(kind)),
    }
}

fn c_type(text: &str) -> String {
    if let Some(target) = text.strip_prefix("*mut ") {
        return format!("{} *", c_type(target));
    }
    if let Some(target) = text.strip_prefix("*const ") {
        return format!("const {} *", c_type(target));
    }
    match text {
        "c_int" => "int".into(),
        "c_uint" => "unsigned int".into(),
        "c_char" => "char".into(),
        "usize" => "size_t".into(),
        _ if text.starts_with("twheel_") => format!("struct {text}"),
        _ if text.starts_with('u') => format!("uint{}_t", &text[1..]),
        _ => format!("int{}_t", &text[1..]),
    }
}

/// `pub const NAME: TYPE = VALUE`
fn number(line: &str) -> Option<String> {
    let (name, rest) = line.strip_prefix("pub const ")?.split_once(": ")?;
    let value = rest.split_once("= ")?.1.replace("1 <<", "1U <<").replace("!0", "~0ULL");
    Some(format!("_Static_assert({name} == {} \"{name}\");\n", value.replace(';', ",")))
}

fn record(text: &str) -> Option<String> {
    let (name, fields) = text.trim().trim_end_matches(',').split_once(" {\n")?;
    let fields: Vec<&str> = fields.split(",\n").filter(|field| field.contains(": ")).collect();
    let members: String = fields.iter().map(|field| declaration(field) + ";\n").collect();
    let mut output = format!("struct rust_{name} {{ {members} }};\n");
    let mut compare = |what: String| {
        let (own, theirs) = (what.replace('@', "rust_"), what.replace('@', ""));
        output += &format!("_Static_assert({own} == {theirs}, \"{theirs}\");\n");
    };
    compare(format!("sizeof(struct @{name})"));
    for field in &fields {
        let field = field.trim().split_once(':')?.0;
        compare(format!("offsetof(struct @{name}, {field})"));
        compare(format!("sizeof(((struct @{name} *)0)->{field})"));
    }
    Some(output)
}

fn function(text: &str) -> Option<String> {
    let (name, rest) = text.trim().strip_prefix("pub fn ")?.split_once('(')?;
    let (arguments, result) = rest.split_once(')')?;
    let result = result.strip_prefix(" -> ").map_or("void".into(), c_type);
    let arguments = arguments.split(',').filter(|argument| argument.contains(": "));
    let arguments: Vec<String> = arguments.map(declaration).collect();
    Some(format!("{result} {name}({});\n", arguments.join(", ")))
}

/// What is between two texts.
fn part<'a>(begin: &str, end: &str) -> &'a str {
    SOURCE.split_once(begin).expect("the begin").1.split_once(end).expect("the end").0
}

#[test]
fn declarations_agree_with_the_header() {
    let numbers: Vec<String> = SOURCE.lines().filter_map(number).collect();
    let records: Vec<String> =
        part("records! {\n", "\n}").split("    }\n").filter_map(record).collect();
    let functions: Vec<String> =
        part("extern \"C\" {", "\n}").split(';').filter_map(function).collect();
    assert_eq!(functions.len(), SOURCE.matches("pub fn ").count());
    assert!(numbers.len() > 20 && records.len() == 7);
    let source = ["#include <stddef.h>\n#include <libtwheel.h>\n".to_string()];
    let source = [&source[..], &numbers, &records, &functions].concat().concat();

    let include = ["c/tools/lib", "../../lib"].into_iter().find(|path| Path::new(path).is_dir());
    let mut compiler = Command::new(env::var("CC").unwrap_or_else(|_| "cc".to_string()))
        .args(["-std=gnu11", "-fsyntax-only", "-x", "c", "-", "-I"])
        .arg(include.expect("the header"))
        .stdin(Stdio::piped())
        .spawn()
        .expect("a C compiler");
    compiler.stdin.take().expect("a pipe").write_all(source.as_bytes()).expect("a source");
    assert!(compiler.wait().expect("its end").success());
}
