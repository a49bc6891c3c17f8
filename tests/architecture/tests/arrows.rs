//! Arrows between the crates point one way, as docs/architecture.md says. A dependency against them fails here.

#![allow(clippy::unwrap_used, reason = "a test: whatever is missing shall fail it")]

use serde_json::Value;
use std::collections::BTreeMap;
use std::process::Command;

/// The direct dependencies that each crate may have. A crate that is not named here may depend on nothing of ours.
const ARROWS: &[(&str, &[&str])] = &[
    ("paddock-model", &[]),
    ("paddock-protocol", &[]),
    ("paddock-guest-system", &[]),
    ("paddock-guest-tools", &["paddock-guest-system", "paddock-protocol"]),
    ("paddock-guest", &["paddock-guest-system", "paddock-guest-tools", "paddock-protocol"]),
    // The traits of a fence, and the parts that the fences of all backends share.
    ("paddock-fences", &["paddock-protocol", "paddock-model"]),
    ("paddock-backends", &["paddock-fences", "paddock-protocol", "paddock-model"]),
    ("paddock-gate", &["paddock-model"]),
    ("paddock-volumes", &[]),
    // The requests of a script, and how its main is called: plans, for a caller that has sandboxes.
    ("paddock-scripts", &["paddock-model", "paddock-volumes"]),
    // Pieces that know nothing of a running sandbox.
    ("paddock-images", &["paddock-model", "paddock-protocol"]),
    ("paddock-storage", &["paddock-fences", "paddock-model", "paddock-volumes"]),
    ("paddock-scan", &["paddock-backends", "paddock-model"]),
    ("paddock-records", &["paddock-fences", "paddock-model", "paddock-storage"]),
    ("paddock-settings", &["paddock-backends", "paddock-gate", "paddock-model", "paddock-protocol"]),
    // One sandbox: `paddock run` needs no more.
    (
        "paddock-engine",
        &[
            "paddock-backends",
            "paddock-gate",
            "paddock-images",
            "paddock-model",
            "paddock-protocol",
            "paddock-settings",
        ],
    ),
    (
        "paddock-builds",
        &[
            "paddock-engine",
            "paddock-images",
            "paddock-model",
            "paddock-protocol",
            "paddock-records",
            "paddock-settings",
        ],
    ),
    // Many sandboxes of one node.
    (
        "paddock-fleet",
        &[
            "paddock-backends",
            "paddock-builds",
            "paddock-engine",
            "paddock-gate",
            "paddock-images",
            "paddock-model",
            "paddock-protocol",
            "paddock-records",
            "paddock-scan",
            "paddock-scripts",
            "paddock-settings",
            "paddock-storage",
            "paddock-volumes",
        ],
    ),
    // Typed calls of the API, for every program that has no server in it.
    ("paddock-client", &["paddock-model"]),
    // Tools of a model: definitions and answers, in the words of the model crate; the caller hands the sandbox in.
    ("paddock-tools", &["paddock-model"]),
    ("paddock-mcp", &["paddock-tools", "paddock-model"]),
    // Work that outlives its caller: one description, sandboxes of the engine's.
    ("paddock-jobs", &["paddock-fleet", "paddock-model", "paddock-records", "paddock-scripts"]),
    (
        "paddock-server",
        &[
            "paddock-engine",
            "paddock-fleet",
            "paddock-jobs",
            "paddock-mcp",
            "paddock-model",
            "paddock-records",
            "paddock-tools",
        ],
    ),
    // A server with a room in front, which sends requests to other servers.
    (
        "paddock-gateway",
        &["paddock-client", "paddock-fleet", "paddock-jobs", "paddock-model", "paddock-server"],
    ),
    // The suite only starts the executable and looks at its output, in the words of the model.
    ("paddock-verify", &["paddock-model"]),
    // The loop knows tools and models, and no way to a server.
    ("paddock-agent", &["paddock-tools", "paddock-model"]),
    // The environment, the streams and the screen of one call of the command.
    (
        "paddock-terminal",
        &["paddock-builds", "paddock-client", "paddock-engine", "paddock-model", "paddock-settings"],
    ),
    ("paddock-arguments", &["paddock-fleet", "paddock-model", "paddock-terminal"]),
    (
        "paddock-remote",
        &["paddock-client", "paddock-model", "paddock-records", "paddock-terminal", "paddock-tools"],
    ),
    (
        "paddock",
        &[
            "paddock-agent",
            "paddock-arguments",
            "paddock-remote",
            "paddock-terminal",
            "paddock-client",
            "paddock-gateway",
            "paddock-jobs",
            "paddock-mcp",
            "paddock-tools",
            "paddock-server",
            "paddock-builds",
            "paddock-engine",
            "paddock-fleet",
            "paddock-images",
            "paddock-records",
            "paddock-scan",
            "paddock-scripts",
            "paddock-settings",
            "paddock-storage",
            "paddock-verify",
            "paddock-model",
        ],
    ),
    ("paddock-conformance", &["paddock-verify"]),
    // The template of a backend, in a command of its own. Nothing depends on it, so no other executable has it.
    (
        "paddock-minimal",
        &["paddock", "paddock-backends", "paddock-model", "paddock-protocol", "paddock-verify"],
    ),
];

const FORBIDDEN_NAMES: [&str; 3] = ["core", "common", "utils"];

#[test]
fn no_dependency_points_the_other_way() {
    let mut wrong = Vec::new();
    for (name, dependencies) in workspace() {
        let allowed =
            ARROWS.iter().find(|(known, _)| *known == name).map_or(&[][..], |(_, allowed)| *allowed);
        let against = dependencies.iter().filter(|d| !allowed.contains(&d.as_str()));
        wrong.extend(against.map(|dependency| format!("{name} -> {dependency}")));
    }
    assert!(wrong.is_empty(), "these dependencies are not in the list: {wrong:?}");
}

#[test]
fn no_crate_has_a_name_that_means_nothing() {
    for name in workspace().keys() {
        assert!(!FORBIDDEN_NAMES.iter().any(|bad| name.ends_with(bad)), "{name}");
    }
}

#[test]
fn the_table_names_only_crates_that_exist() {
    let crates = workspace();
    for (name, _) in ARROWS {
        assert!(crates.contains_key(*name), "{name} is no crate of this workspace");
    }
}

/// A build whose layers can be taken away is asked for by name, in one test, and by nothing else.
#[test]
fn nothing_turns_the_weakening_of_layers_on() {
    let names =
        |list: &Value| list.as_array().unwrap().iter().any(|name| name.as_str().unwrap().contains("weaken"));
    for package in metadata()["packages"].as_array().unwrap() {
        let default = &package["features"]["default"];
        assert!(default.is_null() || !names(default), "on by default in {}", package["name"]);
        for dependency in package["dependencies"].as_array().unwrap() {
            assert!(!names(&dependency["features"]), "{} turns it on", package["name"]);
        }
    }
}

/// `doctest = false` saves a minute of every `make test`; a crate that has it may not have examples that nothing runs.
#[test]
fn no_example_stands_where_none_is_run() {
    for package in metadata()["packages"].as_array().unwrap() {
        for target in package["targets"].as_array().unwrap() {
            if target["kind"] != serde_json::json!(["lib"]) || target["doctest"] == true {
                continue;
            }
            let source = std::path::Path::new(target["src_path"].as_str().unwrap()).parent().unwrap();
            let found: Vec<String> = paddock_architecture::rust_files(source)
                .iter()
                .filter(|path| has_example(&std::fs::read_to_string(path).unwrap()))
                .map(|path| path.display().to_string())
                .collect();
            assert!(found.is_empty(), "examples that nothing runs: {found:?}");
        }
    }
}

/// A fence of a comment that opens without a language, or with one of rustdoc's words.
fn has_example(source: &str) -> bool {
    let mut open = false;
    source.lines().map(str::trim_start).filter(|line| line.starts_with("//")).any(|line| {
        let Some(language) = line.trim_start_matches(['/', '!', ' ']).strip_prefix("```") else {
            return false;
        };
        open = !open;
        open && matches!(language, "" | "rust" | "no_run" | "should_panic" | "compile_fail" | "ignore")
    })
}

/// Every crate of the workspace, with those of ours that it depends on.
fn workspace() -> BTreeMap<String, Vec<String>> {
    let metadata = metadata();
    let text = |value: &Value| value.as_str().unwrap().to_string();
    let packages = metadata["packages"].as_array().unwrap();
    let names: Vec<String> = packages.iter().map(|p| text(&p["name"])).collect();
    packages
        .iter()
        .map(|package| {
            let dependencies = package["dependencies"].as_array().unwrap();
            let ours = dependencies.iter().map(|d| text(&d["name"])).filter(|d| names.contains(d)).collect();
            (text(&package["name"]), ours)
        })
        .collect()
}

fn metadata() -> Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}
