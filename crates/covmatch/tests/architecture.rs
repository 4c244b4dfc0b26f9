//! The shape that `docs/architecture.md` gives the library: which room may use which, and how long a file may be.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const WORKSPACE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
/// The most lines of a file that the page does not name.
const LONGEST: usize = 400;

fn page() -> String {
    fs::read_to_string(Path::new(WORKSPACE).join("docs/architecture.md")).unwrap()
}

/// The lines of the page between the fences ```` ```KIND ```` and ```` ``` ````.
fn block(kind: &str) -> Vec<String> {
    let page = page();
    let begun = page.lines().skip_while(|line| *line != format!("```{kind}")).skip(1);
    let lines: Vec<String> = begun.take_while(|line| *line != "```").map(str::to_owned).collect();
    assert!(!lines.is_empty(), "docs/architecture.md has no block ```{kind}");
    lines
}

/// The rooms in the order of the page, each with those that it uses.
fn listed() -> Vec<(String, BTreeSet<String>)> {
    let room = |line: String| {
        let (name, uses) = line.split_once(':').unwrap();
        (name.trim().to_owned(), uses.split_whitespace().map(str::to_owned).collect())
    };
    block("rooms").into_iter().map(room).collect()
}

/// Every Rust file below `folder`.
fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        match path.is_dir() {
            true if path.ends_with("target") => {}
            true => found.extend(rust_files(&path)),
            false if path.extension().is_some_and(|ending| ending == "rs") => found.push(path),
            false => {}
        }
    }
    found
}

/// The rooms that the code of `text` uses: `crate::ROOM`, outside of comments and of its tests at the end.
fn used_rooms(text: &str) -> BTreeSet<String> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap().split("#[cfg(test)]\npub(").next().unwrap();
    let lines = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut found = BTreeSet::new();
    for line in lines {
        for after in line.split("crate::").skip(1) {
            found.insert(after.chars().take_while(|c| c.is_ascii_lowercase() || *c == '_').collect());
        }
    }
    found.remove("");
    found
}

/// The rooms that each room uses.
fn used() -> BTreeMap<String, BTreeSet<String>> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut used: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for file in rust_files(&source) {
        let place = file.strip_prefix(&source).unwrap().components().next().unwrap().as_os_str().to_string_lossy();
        let room = place.trim_end_matches(".rs").to_owned();
        if room != "lib" {
            used.entry(room.clone()).or_default().extend(used_rooms(&fs::read_to_string(&file).unwrap()));
            used.entry(room.clone()).or_default().remove(&room);
        }
    }
    used
}

#[test]
fn rooms_use_only_those_that_the_page_lists_for_them() {
    let listed: BTreeMap<String, BTreeSet<String>> = listed().into_iter().collect();
    for (room, uses) in used() {
        let allowed = listed.get(&room).unwrap_or_else(|| panic!("docs/architecture.md does not list the room {room}"));
        let stray: Vec<&String> = uses.difference(allowed).collect();
        assert!(stray.is_empty(), "{room} uses {stray:?}, which docs/architecture.md does not list for it");
        let idle: Vec<&String> = allowed.difference(&uses).collect();
        assert!(idle.is_empty(), "docs/architecture.md lists {idle:?} for {room}, which does not use them");
    }
}

#[test]
fn a_room_uses_rooms_that_stand_before_it() {
    let mut before = BTreeSet::new();
    for (room, uses) in listed() {
        assert!(uses.is_subset(&before), "{room} uses {:?}, which come later", uses.difference(&before));
        before.insert(room);
    }
}

#[test]
fn the_tests_of_a_file_and_comments_are_no_use() {
    let text = "//! crate::report\nuse crate::data::Dataset;\nlet x = crate::files::write;\n#[cfg(test)]\nmod tests {\n    use crate::model;\n}\n";
    let expected: BTreeSet<String> = ["data", "files"].map(str::to_owned).into();
    assert_eq!(used_rooms(text), expected);
}

#[test]
fn a_long_file_has_its_reason_on_the_page() {
    let named: BTreeSet<String> =
        block("long files").iter().map(|line| line.split_once(':').unwrap().0.trim().to_owned()).collect();
    let crates = Path::new(WORKSPACE).join("crates");
    let mut long = BTreeSet::new();
    for file in rust_files(&crates) {
        if fs::read_to_string(&file).unwrap().lines().count() > LONGEST {
            long.insert(file.strip_prefix(&crates).unwrap().display().to_string());
        }
    }
    assert_eq!(long, named, "files of more than {LONGEST} lines, and those that docs/architecture.md has a reason for");
}

/// Operations with kinks, and what fuses one to a convolution.
const KINKED: [&str; 6] = ["relu", "relu6", "max_pool2d", "max_pool2d_at", "hold", "Epilogue"];

/// The kinked operations that the code of `text` names, outside of comments and of its tests at the end, but for methods of
/// a `Kinks`, which goes by the name `kinks`.
fn stray_kinks(text: &str) -> Vec<&str> {
    let code = text.split("#[cfg(test)]\nmod tests").next().unwrap();
    let code = code.lines().filter(|line| !line.trim_start().starts_with("//"));
    let mut found = Vec::new();
    for line in code {
        for word in line.split_inclusive(|c: char| !c.is_alphanumeric() && c != '_') {
            let name = word.trim_end_matches(|c: char| !c.is_alphanumeric() && c != '_');
            let before = &line[..word.as_ptr() as usize - line.as_ptr() as usize];
            if KINKED.contains(&name) && !before.ends_with("kinks.") {
                found.push(name);
            }
        }
    }
    found
}

#[test]
fn encoders_leave_kinks_to_the_context_that_they_are_handed() {
    let encoders = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/encoders");
    for file in rust_files(&encoders).into_iter().filter(|file| !file.ends_with("encoders/kinks.rs")) {
        let text = fs::read_to_string(&file).unwrap();
        let stray = stray_kinks(&text);
        assert!(stray.is_empty(), "{} names {stray:?}: such layers are methods of Kinks", file.display());
    }
}

#[test]
fn kinked_operations_are_found_however_they_are_named() {
    assert_eq!(stray_kinks("let y = kernels::relu(x);"), ["relu"]);
    assert_eq!(stray_kinks("use covmatch_kernels::{Epilogue, Padding, max_pool2d};"), ["Epilogue", "max_pool2d"]);
    assert_eq!(stray_kinks("let y = burn::tensor::activation::relu(x);"), ["relu"]);
    let kept =
        "/// relu(x)\nlet y = kinks.relu(x);\nlet z = kinks.max_pool2d(y, 3, 2);\nconv(z, Rectifier::Relu6, kinks)";
    assert!(stray_kinks(kept).is_empty());
}
