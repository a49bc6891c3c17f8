//! Refusals before any sandbox is asked.

use super::*;
use serde_json::json;

#[test]
fn ten_tools_of_which_each_is_strict() {
    let all = definitions();
    assert_eq!(all.len(), 10);
    for tool in &all {
        assert_eq!(tool["inputSchema"]["additionalProperties"], json!(false));
        assert!(
            tool["inputSchema"]["required"].as_array().unwrap().contains(&json!("containerId")),
            "{tool}"
        );
    }
    let command = &all[1]["inputSchema"];
    assert_eq!(command["required"], json!(["containerId", "executable"]));
    assert_eq!(command["properties"]["timeout"]["default"], json!(30_000));
    assert_eq!(all[6]["inputSchema"]["properties"]["recursive"]["default"], json!(true));
}

#[test]
fn defaults_and_strictness_of_arguments() {
    let object = |value: Value| value.as_object().unwrap().clone();
    let command: arguments::Command =
        read("sandbox_command", &object(json!({"containerId": "c", "executable": "ls"}))).unwrap();
    assert_eq!((command.timeout, command.working_directory.as_str()), (30_000.0, "/"));
    let made: arguments::CreateDirectory =
        read("sandbox_create_directory", &object(json!({"containerId": "c", "path": "/a"}))).unwrap();
    assert!(made.recursive);
    for (given, said) in [
        (json!({"containerId": "c"}), "missing field `path`"),
        (json!({"containerId": "c", "path": "/a", "mode": 1}), "unknown field `mode`"),
        (json!({"containerId": "c", "path": 7}), "invalid type: integer"),
        (json!({"containerId": "c", "path": "/a", "encoding": "hex"}), "unknown variant `hex`"),
    ] {
        let error = read::<arguments::ReadFile>("sandbox_read_file", &object(given)).unwrap_err().to_string();
        assert!(
            error.starts_with("the arguments of sandbox_read_file are wrong: ") && error.contains(said),
            "{error}"
        );
    }
}
