//! A thing that a fence can do is asked as a capability. Nothing outside crates/backends asks for a backend's name, for
//! the kind of its boundary, or for a setting that is its own.

#![allow(clippy::unwrap_used, reason = "a test: whatever is missing shall fail it")]

use paddock_architecture::{modules::without_comments_and_tests, rust_files};
use std::path::Path;

const NAMES: [&str; 3] = ["process", "gvisor", "microvm"];

/// Files that may name one all the same: the file, the word, the reason.
const ALLOWED: &[(&str, &str, &str)] = &[
    ("model/src/guarantees.rs", "gvisor", "the names that a caller may write are words of the API"),
    ("model/src/guarantees.rs", "microvm", "the same"),
    ("model/src/guarantees.rs", "\"process\"", "the same"),
    ("model/src/guarantees.rs", "Boundary::", "a requirement of the caller's is about the boundary"),
    ("scripts/src/annotation.rs", "gvisor", "an example in a hint, which nothing decides by"),
    ("arguments/src/job.rs", "gvisor", "an example in a help text"),
    ("terminal/src/env_vars.rs", "microvm", "the help that lists every variable, with its purpose"),
    ("terminal/src/env_vars.rs", "gVisor", "the same"),
    ("terminal/src/env_vars.rs", "PADDOCK_", "the same"),
    ("fences/src/shared/root_rights.rs", "gVisor", "a refusal that a caller reads; the backend asks for it"),
    ("fences/src/held/git/values.rs", "\"process\"", "a setting of git's"),
    ("scan/src/javascript/tables.rs", "\"process\"", "a module of Node"),
    ("scan/src/javascript/modules.rs", "\"process\"", "the same"),
];

#[test]
fn nothing_outside_the_backends_asks_for_one_by_name() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let crates = root.join("crates");
    let variables = variables(&crates.join("backends/src"));
    assert!(variables.contains(&"PADDOCK_QEMU".to_string()), "{variables:?}");
    let mut words: Vec<String> = variables.clone();
    words.extend(["gvisor", "gVisor", "microvm", "\"process\"", "Boundary::"].map(String::from));
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(&crates).unwrap() {
        let source = entry.unwrap().path().join("src");
        if source.starts_with(crates.join("backends")) {
            continue;
        }
        for path in rust_files(&source) {
            let file = path.strip_prefix(&crates).unwrap().display().to_string();
            let is_test = path.iter().any(|part| part == "tests") || file.ends_with("tests.rs");
            let code = without_comments_and_tests(&std::fs::read_to_string(&path).unwrap());
            let found = words.iter().filter(|word| !is_test && code.contains(word.as_str()));
            wrong.extend(found.filter(|word| !is_allowed(&file, word)).map(|word| format!("{file}: {word}")));
        }
    }
    assert!(
        wrong.is_empty(),
        "ask for a capability (`Guarantees::can`), or write the reason into ALLOWED: {wrong:#?}"
    );
}

fn is_allowed(file: &str, word: &str) -> bool {
    ALLOWED.iter().any(|(known, start, _)| *known == file && word.starts_with(start))
}

#[test]
fn what_is_allowed_is_still_there() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("crates");
    for (file, word, _) in ALLOWED {
        assert!(std::fs::read_to_string(crates.join(file)).unwrap().contains(word), "{file}: {word}");
    }
    let select = std::fs::read_to_string(crates.join("backends/src/select.rs")).unwrap();
    assert_eq!(
        select.matches("Backend::NAME").count(),
        NAMES.len(),
        "a backend that this test does not know"
    );
}

/// The environment variables that the backends alone read.
fn variables(source: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for path in rust_files(source) {
        let code = without_comments_and_tests(&std::fs::read_to_string(path).unwrap());
        for literal in code.split('"').filter(|literal| literal.starts_with("PADDOCK_")) {
            let is_name = literal.bytes().all(|byte| byte.is_ascii_uppercase() || byte == b'_');
            // The state directory is everybody's; the guest's executable is of the build, and a test's own of that test.
            let is_own =
                !literal.contains("STATE_DIR") && !literal.contains("GUEST_") && !literal.contains("TEST_");
            if is_name && is_own && !found.contains(&literal.to_string()) {
                found.push(literal.to_string());
            }
        }
    }
    found
}
