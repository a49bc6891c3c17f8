//! The tools that a model may call, in the shapes of the providers.

use crate::facts::Facts;
use indexmap::IndexMap;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::sync::OnceLock;

/// The one source of the texts, for this crate and for the SDK.
const TOOLS: &str = include_str!("../../../sdk/python/src/paddock/_tools.json");

/// One tool as the file has it, its texts with words in braces still to be filled in.
#[derive(Debug, Deserialize)]
pub struct Tool {
    pub description: String,
    pub parameters: IndexMap<String, Parameter>,
    pub required: Vec<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Parameter {
    #[serde(rename = "type")]
    pub kind: Kind,
    #[serde(rename = "enum", default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub minimum: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maximum: Option<u64>,
    pub description: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    String,
    Boolean,
    Integer,
    Number,
}

impl Kind {
    pub fn name(self) -> &'static str {
        match self {
            Kind::String => "string",
            Kind::Boolean => "boolean",
            Kind::Integer => "integer",
            Kind::Number => "number",
        }
    }
}

pub fn known() -> &'static IndexMap<String, Tool> {
    static KNOWN: OnceLock<IndexMap<String, Tool>> = OnceLock::new();
    // A file of our own, which a test parses.
    KNOWN.get_or_init(|| serde_json::from_str(TOOLS).unwrap_or_default())
}

/// In their order.
pub fn tool_names() -> impl Iterator<Item = &'static str> {
    known().keys().map(String::as_str)
}

/// Name, description and JSON schema of one tool, telling what one very sandbox allows.
#[derive(Debug, Clone, Serialize)]
pub struct Definition {
    pub name: String,
    pub description: String,
    pub parameters: Schema,
}

#[derive(Debug, Clone, Serialize)]
pub struct Schema {
    #[serde(rename = "type")]
    kind: &'static str,
    pub properties: IndexMap<String, Parameter>,
    pub required: Vec<String>,
    #[serde(rename = "additionalProperties")]
    additional: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("there is no tool '{name}'; the tools are {}", tool_names().collect::<Vec<_>>().join(", "))]
pub struct UnknownTool {
    pub name: String,
}

/// The tools named in `only`, in the order of the file; all if it is empty.
pub fn definitions(facts: &Facts, only: &[String]) -> Result<Vec<Definition>, UnknownTool> {
    if let Some(name) = only.iter().find(|name| !known().contains_key(name.as_str())) {
        return Err(UnknownTool { name: name.escape_debug().to_string() });
    }
    let wanted = known().iter().filter(|(name, _)| only.is_empty() || only.contains(name));
    Ok(wanted.map(|(name, tool)| definition(name, tool, facts)).collect())
}

fn definition(name: &str, tool: &Tool, facts: &Facts) -> Definition {
    let filled = |parameter: &Parameter| Parameter {
        description: facts.fill(&parameter.description),
        ..parameter.clone()
    };
    Definition {
        name: name.to_string(),
        description: facts.fill(&tool.description),
        parameters: Schema {
            kind: "object",
            properties: tool.parameters.iter().map(|(name, of)| (name.clone(), filled(of))).collect(),
            required: tool.required.clone(),
            additional: false,
        },
    }
}

/// In whose shape definitions are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Anthropic,
    /// The format of chat completions.
    OpenAi,
    OpenAiResponses,
    Mcp,
    /// Name, description and `parameters`, for any other client.
    JsonSchema,
}

pub fn render(definition: &Definition, format: Format) -> Value {
    let Definition { name, description, parameters } = definition;
    match format {
        Format::Anthropic => json!({"name": name, "description": description, "input_schema": parameters}),
        Format::OpenAi => json!({"type": "function", "function": definition}),
        // Not strict: that would make every parameter a required one.
        Format::OpenAiResponses => json!({
            "type": "function", "name": name, "description": description, "parameters": parameters, "strict": false,
        }),
        Format::Mcp => json!({
            "name": name, "description": description, "inputSchema": parameters,
            "annotations": {"readOnlyHint": only_reads(name)},
        }),
        Format::JsonSchema => json!(definition),
    }
}

fn only_reads(name: &str) -> bool {
    matches!(name, "read_file" | "list_files" | "read_output")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::NetworkFacts;

    fn facts() -> Facts {
        let network = Some(NetworkFacts::None);
        Facts {
            network,
            memory_bytes: Some(512 << 20),
            cpus: Some(1.5),
            disk_bytes: Some(2 << 30),
            timeout_seconds: 60.0,
        }
    }

    #[test]
    fn the_file_is_sound_and_in_its_order() {
        let names: Vec<&str> = tool_names().collect();
        assert_eq!(
            names,
            ["run_code", "run_shell", "read_file", "write_file", "edit_file", "list_files", "read_output"]
        );
        assert!(serde_json::from_str::<IndexMap<String, Tool>>(TOOLS).is_ok());
        for tool in known().values() {
            assert!(tool.required.iter().all(|name| tool.parameters.contains_key(name)));
        }
    }

    #[test]
    fn descriptions_tell_what_this_sandbox_allows() {
        let all = definitions(&facts(), &[]).unwrap();
        let run_code = &all[0];
        assert!(run_code.description.contains("There is no network"), "{}", run_code.description);
        assert!(run_code.description.contains("512 MiB of memory, 1.5 processors, 2 GiB of disk"));
        assert!(run_code.parameters.properties["timeout_seconds"].description.ends_with("Default: 60."));
        assert!(all.iter().all(|tool| !tool.description.contains('{')));
        let some = definitions(&facts(), &["read_file".into(), "run_code".into()]).unwrap();
        assert_eq!(some.iter().map(|tool| tool.name.as_str()).collect::<Vec<_>>(), ["run_code", "read_file"]);
        let error = definitions(&facts(), &["rm".into()]).unwrap_err();
        assert!(error.to_string().starts_with("there is no tool 'rm'; the tools are run_code, run_shell"));
    }

    #[test]
    fn the_shapes_of_the_providers() {
        let tool = definitions(&facts(), &["run_code".into()]).unwrap().remove(0);
        let anthropic = render(&tool, Format::Anthropic);
        assert_eq!(anthropic["input_schema"]["required"], json!(["code"]));
        assert_eq!(anthropic["input_schema"]["additionalProperties"], json!(false));
        let openai = render(&tool, Format::OpenAi);
        assert_eq!((&openai["type"], &openai["function"]["name"]), (&json!("function"), &json!("run_code")));
        let responses = render(&tool, Format::OpenAiResponses);
        assert_eq!((&responses["name"], &responses["strict"]), (&json!("run_code"), &json!(false)));
        assert_eq!(render(&tool, Format::Mcp)["inputSchema"]["type"], json!("object"));
        let language = &render(&tool, Format::JsonSchema)["parameters"]["properties"]["language"];
        assert_eq!(language["enum"], json!(["python", "javascript", "bash"]));
    }
}
