//! Every attack, behind every backend that the host has, as root and rootless, as an ordinary user and as root inside.
//! The suite itself is `crates/verify`, which `paddock verify` runs too.
//!
//! PADDOCK_BIN names the executable (else the one built beside this test), PADDOCK_BACKENDS and PADDOCK_ENGINES a
//! choice of the backends and engines, PADDOCK_ATTACKS beginnings of ids; PADDOCK_VERBOSE prints every finding.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test: whatever is missing shall fail it")]

use paddock_verify::expectations::Expectations;
use paddock_verify::{Engine, Options, Step, ids, operations, verify};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[test]
fn every_attack_has_an_expectation() {
    Expectations::load().unwrap().match_with(ids()).unwrap();
}

/// The lines of the groups D, E and G of the catalogue, whose attacks are not all this suite's own.
const LINES: [&str; 42] = [
    "D1", "D2", "D3", "D4", "D5", "D7", "D8", "D9", "D11", "D12", "D13", "D14", "D16", "D18", "D19", "D20",
    "D22", "E1", "E2", "E4", "E5", "E7", "E8", "E9", "E10", "E11", "E12", "E14", "G1", "G3", "G4", "G5",
    "G7", "G9", "G10", "G11", "G12", "G14", "G16", "G18", "G21", "G23",
];

#[test]
fn every_line_of_d_e_and_g_is_tried_or_has_a_reason() {
    let expectations = Expectations::load().unwrap();
    expectations.complete(&LINES).unwrap();
    expectations.complete(&["A21", "B14", "F7"]).unwrap();
    expectations.found_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    // A missing line would be noticed.
    assert!(expectations.complete(&["E99"]).is_err());
}

/// An untested operation may differ from backend to backend.
#[test]
fn every_operation_of_the_api_is_tried() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../spec/openapi.json");
    let description: serde_json::Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let routes =
        description["paths"].as_object().unwrap().iter().filter(|(path, _)| path.starts_with("/v1/"));
    let described: BTreeSet<&str> = routes
        .flat_map(|(_, methods)| methods.as_object().unwrap().values())
        .filter_map(|operation| operation["operationId"].as_str())
        .collect();
    let tried: BTreeSet<&str> = operations().collect();
    assert!(described.len() > 60, "{described:?}");
    assert_eq!(described, tried);
}

#[test]
fn the_specification_counts_what_is_tried() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../SPECIFICATION.md");
    let text = std::fs::read_to_string(path).unwrap();
    let (attacks, operations) = (ids().count(), operations().count());
    for counted in [
        format!("| attacks that the fence stands | {attacks}, "),
        format!(
            "| operations of the API that behave the same on every backend | all {operations} under `/v1` |"
        ),
    ] {
        assert!(text.contains(&counted), "not there: {counted}");
    }
}

#[test]
fn the_fence_stands() {
    let options = Options {
        executable: executable(),
        backends: list("PADDOCK_BACKENDS"),
        only: list("PADDOCK_ATTACKS"),
        engines: list("PADDOCK_ENGINES").iter().map(|name| engine(name)).collect(),
        verbose: std::env::var_os("PADDOCK_VERBOSE").is_some(),
        environment: Vec::new(),
    };
    let report = verify(&options, &mut |step| {
        if let Step::Row { name, number, of } = step {
            println!("{number}/{of} {name}");
        }
    })
    .unwrap();
    println!("{}", report.text(false));
    for (line, tests) in &report.elsewhere {
        println!("  {line} is tried by {}", tests.join(", "));
    }
    for lack in &report.not_run {
        println!("SKIP {} {}: {}", lack.backend, lack.engine, lack.reason);
    }
    assert!(report.held, "{} attacks were not held", report.failures().len());
}

fn list(variable: &str) -> Vec<String> {
    let value = std::env::var(variable).unwrap_or_default();
    value.split(',').filter(|word| !word.is_empty()).map(str::to_string).collect()
}

fn engine(name: &str) -> Engine {
    match name {
        "root" => Engine::Root,
        "rootless" => Engine::Rootless,
        other => panic!("PADDOCK_ENGINES: no engine `{other}`"),
    }
}

fn executable() -> PathBuf {
    let beside = || std::env::current_exe().unwrap().parent().unwrap().with_file_name("paddock");
    std::env::var_os("PADDOCK_BIN").map_or_else(beside, PathBuf::from)
}
