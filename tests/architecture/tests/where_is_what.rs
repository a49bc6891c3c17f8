//! CONTRIBUTING.md names files that exist, above all its table "Where is what".

#![allow(clippy::unwrap_used, reason = "a test: whatever is missing shall fail it")]

use std::path::Path;

#[test]
fn every_file_that_contributing_names_exists() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let text = std::fs::read_to_string(root.join("CONTRIBUTING.md")).unwrap();
    let (_, section) = text.split_once("## Where is what").unwrap();
    let section = section.split("\n## ").next().unwrap();
    let named: Vec<&str> =
        section.split('`').filter(|word| word.starts_with("crates/") && word.ends_with(".rs")).collect();
    assert!(named.len() >= 12, "{named:?}");
    let everywhere = text.split('`').filter(|word| {
        let is_path =
            ["crates/", "tests/", "docs/", "spec/", "bench/"].iter().any(|top| word.starts_with(top));
        is_path && !word.contains(['*', ' ']) && !word.contains("NAME") && !word.contains("RESOURCE")
    });
    let missing: Vec<_> = everywhere.filter(|file| !root.join(file).exists()).collect();
    assert!(missing.is_empty(), "CONTRIBUTING.md names files that are not there: {missing:?}");
}
