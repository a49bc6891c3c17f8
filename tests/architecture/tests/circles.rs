//! Modules of one crate do not import each other in circles: what stands below can be read, and changed, without what
//! stands above. Crates that have some already may have fewer, and none may have more.

#![allow(clippy::unwrap_used, reason = "a test: whatever is missing shall fail it")]

use paddock_architecture::modules::{circles, imports};
use std::path::Path;

/// The most modules that stand in circles, for crates that have any. A number here only falls; a crate that is not
/// named has none.
const IN_CIRCLES: &[(&str, usize)] = &[
    ("arguments", 2),
    ("builds", 3),
    ("cli", 8),
    ("fleet", 38),
    ("gate", 8),
    ("guest", 9),
    ("guest_tools", 6),
    ("images", 8),
    ("model", 4),
    ("records", 4),
    ("scan", 2),
    ("scripts", 9),
    // Each resource is one more: `app` has its routes, and its handlers take `App`.
    ("server", 46),
    ("settings", 3),
    ("verify", 8),
];

#[test]
fn no_circle_of_imports_grows() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().join("crates");
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(crates).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_string();
        let found = circles(&imports(&path.join("src")));
        let modules: usize = found.iter().map(Vec::len).sum();
        let most = IN_CIRCLES.iter().find(|(known, _)| *known == name).map_or(0, |(_, most)| *most);
        if modules > most {
            let shown: Vec<String> = found.iter().map(|circle| shown(circle)).collect();
            wrong.push(format!(
                "crates/{name}: {modules} modules stand in circles, {most} are the most: {shown:?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "break these, where the new import is:\n{}", wrong.join("\n"));
}

fn shown(circle: &[Vec<String>]) -> String {
    circle.iter().map(|module| module.join("::")).collect::<Vec<_>>().join(", ")
}
