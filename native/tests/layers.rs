//! A module of the library imports of those below it alone, as the table in `src/lib.rs` lists
//! them; what only its unit tests import is free.

use std::fs;
use std::path::{Path, PathBuf};

/// From below upwards; modules of one layer know nothing of each other.
const LAYERS: [&[&str]; 9] = [
    &["words", "memory"],
    &["kernel"],
    &["record"],
    &["linear"],
    &["search"],
    &["methods"],
    &["glm"],
    &["arrived"],
    &["hosts"],
];
/// The module of the crate that tests alone have.
const OF_TESTS: &str = "testing";

#[test]
fn imports_point_downwards() {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut wrong = Vec::new();
    for path in files(&src) {
        let place: Vec<String> = path
            .strip_prefix(&src)
            .unwrap()
            .with_extension("")
            .iter()
            .map(|part| part.to_string_lossy().into_owned())
            .collect();
        let own = &place[0];
        if own == "lib" || own == OF_TESTS {
            continue;
        }
        let is_folder = place.last().is_some_and(|name| name == "mod");
        let depth = place.len() - usize::from(is_folder);
        let layer = layer_of(own).unwrap_or_else(|| panic!("no layer has module '{own}'"));
        for other in imports(&code_of(&fs::read_to_string(&path).unwrap()), depth) {
            if other != *own && layer_of(&other).is_none_or(|below| below >= layer) {
                let path = path.strip_prefix(&src).unwrap().display();
                wrong.push(format!("{path} imports crate::{other}"));
            }
        }
    }
    let order: Vec<String> = LAYERS.iter().map(|names| names.join(", ")).collect();
    assert!(wrong.is_empty(), "allowed: {}\n{}", order.join(" < "), wrong.join("\n"));
}

#[test]
fn imports_are_found_in_every_form() {
    let code = "use crate::kernel::chunk;\nuse crate::{linear::{a, b}, record, self as c};\n\
                fn f() { crate::search::g(super::super::hosts::h) }\n// crate::glm\n\
                #[cfg(test)]\nmod tests { use crate::methods::m; }\n";
    let mut found = imports(&code_of(code), 2);
    found.sort();
    assert_eq!(found, ["hosts", "kernel", "linear", "record", "search", "self"]);
    assert_eq!(imports("use super::kernel; use super::super::x;", 1), ["kernel"]);
}

fn layer_of(module: &str) -> Option<usize> {
    LAYERS.iter().position(|names| names.contains(&module))
}

/// All files below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let below = |path: PathBuf| if path.is_dir() { files(&path) } else { vec![path] };
    entries.flat_map(below).filter(|path| path.extension().is_some_and(|it| it == "rs")).collect()
}

/// The text of a file without comments, and without the unit tests at its end.
fn code_of(text: &str) -> String {
    let text = text.split("\n#[cfg(test)]\nmod tests").next().unwrap_or_default();
    text.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The top modules that code names by a path, in a module so far below the crate.
fn imports(code: &str, depth: usize) -> Vec<String> {
    let climb = "super::".repeat(depth);
    let above = code.match_indices(&climb).filter(|(at, _)| {
        // No part of a longer climb, which ends elsewhere.
        !code[..*at].ends_with("super::") && !code[at + climb.len()..].starts_with("super::")
    });
    let starts = code.match_indices("crate::").chain(above).map(|(at, path)| at + path.len());
    starts.flat_map(|at| heads(&code[at..])).collect()
}

/// The first names of a path, or of each path of a list in braces.
fn heads(path: &str) -> Vec<String> {
    let word = |text: &str| -> String {
        text.trim_start().chars().take_while(|c| c.is_alphanumeric() || *c == '_').collect()
    };
    let Some(list) = path.strip_prefix('{') else { return vec![word(path)] };
    let mut found = vec![word(list)];
    let mut depth = 0;
    for (at, letter) in list.char_indices() {
        match letter {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => found.push(word(&list[at + 1..])),
            _ => {}
        }
    }
    found.retain(|name| !name.is_empty());
    found
}
