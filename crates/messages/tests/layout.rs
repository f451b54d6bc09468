//! The structures of libfabric are laid out as its headers say. Without the headers, or a C compiler,
//! there is nothing to compare with, and the test says so.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that meets an error has failed"
)]

use std::fmt::Write as _;
use std::process::{Command, Output};

use weft_messages::fi::abi::{Field, Layout, layouts};

const HEADERS: [&str; 10] = [
    "fabric.h",
    "fi_domain.h",
    "fi_endpoint.h",
    "fi_eq.h",
    "fi_cm.h",
    "fi_tagged.h",
    "fi_rma.h",
    "fi_atomic.h",
    "fi_errno.h",
    "providers/fi_prov.h",
];

/// A C program that prints the size of each structure and where each of its fields begins.
fn program() -> String {
    let mut text = String::from("#include <stddef.h>\n#include <stdio.h>\n");
    for header in HEADERS {
        writeln!(text, "#include <rdma/{header}>").unwrap();
    }
    text.push_str("int main(void) {\n");
    for Layout { name, fields, .. } in layouts() {
        writeln!(text, "printf(\"{name} %zu\\n\", sizeof(struct {name}));").unwrap();
        for field in fields {
            let field = field.name.trim_start_matches("r#");
            writeln!(text, "printf(\"{name}.{field} %zu\\n\", offsetof(struct {name}, {field}));")
                .unwrap();
        }
    }
    text + "return 0;\n}\n"
}

#[test]
fn structures_are_laid_out_as_the_headers_say() {
    let folder = std::env::temp_dir().join(format!("weft-layout-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (source, binary) = (folder.join("layout.c"), folder.join("layout"));
    std::fs::write(&source, program()).unwrap();
    let compiled = Command::new("cc").arg(&source).arg("-o").arg(&binary).output();
    let said = |it: &Output| String::from_utf8_lossy(&it.stderr).into_owned();
    let missing = |it: &Output| said(it).contains("rdma/") && said(it).contains("No such file");
    let Some(compiled) = compiled.ok().filter(|it| !missing(it)) else {
        std::fs::remove_dir_all(&folder).unwrap();
        println!("not compared: there is no C compiler, or no headers of libfabric");
        return;
    };
    assert!(compiled.status.success(), "{}", said(&compiled));
    let printed = Command::new(&binary).output().unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
    let mut printed = String::from_utf8(printed.stdout).unwrap();
    // The operations that a provider need not have come at the end, and their size says that they are missing.
    let shorter = ["fi_ops", "fi_ops_fabric", "fi_ops_domain", "fi_ops_av", "fi_mr_attr"];
    for Layout { name, size, fields } in layouts() {
        let theirs = line(&mut printed, name);
        let fits = if shorter.contains(&name) { size <= theirs } else { size == theirs };
        assert!(fits, "{name}: {size} bytes here, {theirs} in the headers");
        for Field { name: field, offset } in fields {
            let field = format!("{name}.{}", field.trim_start_matches("r#"));
            assert_eq!(offset, line(&mut printed, &field), "{field}");
        }
    }
    assert!(printed.is_empty(), "{printed}");
}

/// Takes the next line, which is about this, and returns its number.
fn line(printed: &mut String, about: &str) -> usize {
    let rest = printed.split_off(printed.find('\n').expect("a line is missing") + 1);
    let line = std::mem::replace(printed, rest);
    let (name, number) = line.trim().split_once(' ').unwrap();
    assert_eq!(name, about);
    number.parse().unwrap()
}
