//! The cases of the SDK's `tool_cases.json`: the same words for the same things.

use crate::arguments::Arguments;
use crate::definitions::definitions;
use crate::facts::{Facts, NetworkFacts};
use crate::files::{edited, of_file};
use crate::outputs::Outputs;
use crate::results::{failed, of_code, of_command};
use paddock_model::api::Exec;
use serde_json::{Value, json};

const CASES: &str = include_str!("../../../sdk/python/tests/tool_cases.json");

fn cases(group: &str) -> Vec<Value> {
    let all: Value = serde_json::from_str(CASES).unwrap();
    let cases = all[group].as_array().unwrap().clone();
    assert!(!cases.is_empty());
    cases
}

fn number(case: &Value, name: &str) -> Option<usize> {
    case[name].as_u64().map(|number| number as usize)
}

#[test]
fn bad_calls() {
    for case in cases("calls") {
        let error = Arguments::parse(case["tool"].as_str().unwrap(), &case["arguments"]).unwrap_err();
        assert_eq!(json!(error.0), case["bad"]);
    }
}

#[test]
fn commands_and_code() {
    for (group, told) in [("commands", of_command as fn(&Exec, &mut Outputs) -> String), ("code", of_code)] {
        for case in cases(group) {
            let exec: Exec = serde_json::from_value(case["exec"].clone()).unwrap();
            let text = told(&exec, &mut Outputs::new(400, 1 << 20));
            assert_eq!((json!(text), json!(failed(&exec))), (case["text"].clone(), case["failed"].clone()));
        }
    }
}

#[test]
fn files() {
    for case in cases("files") {
        let content = case["content"].as_str().unwrap().as_bytes();
        let (start, budget) = (number(&case, "start_line").unwrap(), number(&case, "budget").unwrap());
        match of_file(content, "f", start, number(&case, "lines"), budget) {
            Ok(text) => assert_eq!(json!(text), case["text"]),
            Err(error) => assert_eq!(json!(error.0), case["bad"]),
        }
    }
}

#[test]
fn edits() {
    for case in cases("edits") {
        let text = |name: &str| case[name].as_str().unwrap();
        match edited(text("content"), "f", text("old"), text("new"), case["all"] == json!(true)) {
            Ok((after, count)) => {
                assert_eq!((json!(after), json!(count)), (case["text"].clone(), case["count"].clone()))
            }
            Err(error) => assert_eq!(json!(error.0), case["bad"]),
        }
    }
}

#[test]
fn descriptions() {
    for case in cases("tools") {
        let network = match case["network"].as_str().unwrap() {
            "none" => NetworkFacts::None,
            "host" => NetworkFacts::Host,
            _ => NetworkFacts::Gate { allowed: Vec::new() },
        };
        let facts = Facts {
            network: Some(network),
            memory_bytes: case["memory"].as_u64(),
            cpus: case["cpus"].as_f64(),
            disk_bytes: case["disk"].as_u64(),
            timeout_seconds: case["timeout"].as_f64().unwrap(),
        };
        assert_eq!(json!(definitions(&facts, &[]).unwrap()), case["definitions"]);
    }
}
