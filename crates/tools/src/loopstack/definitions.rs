//! The ten tools as a model is told of them, in MCP's shape.

use serde_json::{Map, Value, json};

/// Name, type, description, and the default; a parameter without a default is required.
type Parameter = (&'static str, &'static str, &'static str, Option<Value>);

const CONTAINER: &str = "The id of the container, as sandbox_init was given it";

struct Entry {
    name: &'static str,
    description: &'static str,
    parameters: Vec<Parameter>,
    only_reads: bool,
}

pub fn tool_names() -> impl Iterator<Item = &'static str> {
    tools().into_iter().map(|tool| tool.name)
}

pub fn definitions() -> Vec<Value> {
    tools().iter().map(rendered).collect()
}

fn rendered(tool: &Entry) -> Value {
    let container: Parameter = ("containerId", "string", CONTAINER, None);
    let parameters: Vec<&Parameter> = std::iter::once(&container).chain(&tool.parameters).collect();
    let required: Vec<&str> =
        parameters.iter().filter(|(.., default)| default.is_none()).map(|(name, ..)| *name).collect();
    let properties: Map<String, Value> =
        parameters.iter().map(|parameter| (parameter.0.to_string(), schema(parameter))).collect();
    json!({
        "name": tool.name, "description": tool.description, "annotations": {"readOnlyHint": tool.only_reads},
        "inputSchema": {"type": "object", "properties": properties, "required": required, "additionalProperties": false},
    })
}

fn schema((_, kind, description, default): &Parameter) -> Value {
    let mut schema = match *kind {
        "strings" => json!({"type": "array", "items": {"type": "string"}, "description": description}),
        "encoding" => json!({"type": "string", "enum": ["utf8", "base64"], "description": description}),
        kind => json!({"type": kind, "description": description}),
    };
    if let Some(default) = default.as_ref().filter(|default| !default.is_null()) {
        schema["default"] = default.clone();
    }
    schema
}

fn tools() -> Vec<Entry> {
    let text = |name, description| (name, "string", description, None);
    let flag = |name, description, default: bool| (name, "boolean", description, Some(json!(default)));
    let encoding = |description| ("encoding", "encoding", description, Some(json!("utf8")));
    let path = |description| ("path", "string", description, None);
    let entry =
        |name, description, parameters, only_reads| Entry { name, description, parameters, only_reads };
    vec![
        entry(
            "sandbox_init",
            "Initialize a sandbox container with the specified configuration",
            vec![
                text("imageName", "The image to use, or template:NAME"),
                text("containerName", "The name of the container; one that exists under it is used again"),
                text(
                    "projectOutPath",
                    "The host directory to mount, or an empty text for a directory of the sandbox's own",
                ),
                ("rootPath", "string", "Where in the container it is, below /", Some(json!("workspace"))),
            ],
            false,
        ),
        entry(
            "sandbox_command",
            "Execute a command in a sandbox container",
            vec![
                text("executable", "The executable to run"),
                ("args", "strings", "Arguments of the executable", Some(Value::Null)),
                ("workingDirectory", "string", "The directory to run it in", Some(json!("/"))),
                ("envVars", "strings", "Environment variables, each KEY=VALUE", Some(Value::Null)),
                ("timeout", "number", "Milliseconds after which it is killed", Some(json!(30_000))),
            ],
            false,
        ),
        entry(
            "sandbox_destroy",
            "Stop and optionally remove a sandbox container",
            vec![flag("removeContainer", "Whether it is removed too", true)],
            false,
        ),
        entry(
            "sandbox_read_file",
            "Read file content from a sandbox container",
            vec![path("The path of the file"), encoding("How the content comes back")],
            true,
        ),
        entry(
            "sandbox_write_file",
            "Write content to a file in a sandbox container",
            vec![
                path("The path of the file"),
                text("content", "What to write"),
                encoding("How the content is given"),
                flag("createParentDirs", "Whether missing directories are made", true),
            ],
            false,
        ),
        entry(
            "sandbox_list_directory",
            "List files and directories in a sandbox container",
            vec![
                path("The path of the directory"),
                flag("recursive", "Whether all that is below is listed", false),
            ],
            true,
        ),
        entry(
            "sandbox_create_directory",
            "Create a directory in a sandbox container",
            vec![
                path("The path of the directory"),
                flag("recursive", "Whether missing directories above it are made", true),
            ],
            false,
        ),
        entry(
            "sandbox_delete",
            "Delete a file or directory in a sandbox container",
            vec![
                path("The path of the file or directory"),
                flag("recursive", "A directory with all that is below it", false),
                flag("force", "Whether something that is missing is no error", false),
            ],
            false,
        ),
        entry(
            "sandbox_exists",
            "Check if a file or directory exists in a sandbox container",
            vec![path("The path to look for")],
            true,
        ),
        entry(
            "sandbox_file_info",
            "Get detailed information about a file or directory in a sandbox container",
            vec![path("The path of the file or directory")],
            true,
        ),
    ]
}
