//! Code contexts: interpreters inside a sandbox that remember the code that ran in them.

use super::execs::ExecCause;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct CreateContext {
    /// A name of the caller's own, unique in the sandbox: letters, digits, `-`, `_` and `.`. One is made up without it.
    pub id: Option<String>,
    /// `python` (default), `javascript`, `typescript`, `bash`, or one for which the template has a runner.
    pub language: Option<String>,
    /// Where it begins; the sandbox's own without it.
    pub cwd: Option<String>,
    /// Added to the sandbox's, for as long as the context lives.
    pub env: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum ContextState {
    /// Ready for the next call.
    Idle,
    /// A call runs, and perhaps others wait for it.
    Busy,
    /// Its interpreter has gone, and what it remembered with it. A restart begins anew.
    Ended,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Context {
    pub id: String,
    pub sandbox: String,
    pub language: String,
    /// Made by itself at the first call that named no context; such a one begins anew by itself, too.
    pub default: bool,
    pub state: ContextState,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// The exec that is its interpreter. What is printed between calls is that exec's output.
    pub exec: u32,
    /// When this interpreter began.
    pub started_at_ms: u64,
    /// How it ended.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cause: Option<ExecCause>,
    /// Calls that wait for their turn.
    pub waiting: u32,
}

/// One value in several representations. All but `json`, `data` and `chart` are text; `png`, `jpeg` and `pdf` are base64.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct CodeResult {
    /// The value of the code's last expression, rather than something that it displayed.
    pub main: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub html: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub markdown: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub svg: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub png: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jpeg: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pdf: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latex: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub json: Option<serde_json::Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub javascript: Option<String>,
    /// A table: `columns`, `rows` (the first of them) and `total_rows`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub data: Option<serde_json::Value>,
    /// Content of a figure: `type`, `title`, axes and `elements`, so that a client can draw it itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(value_type = Option<Object>))]
    pub chart: Option<serde_json::Value>,
    /// Other representations, by their media type; base64 where they are not text.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub extra: BTreeMap<String, String>,
    /// Representations that were left out or cut because they were too large.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cut: Vec<String>,
}

/// Why code did not come to its end: an exception of its own, or the end of its interpreter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct CodeError {
    /// The exception's name; `ContextDied` where the interpreter itself has gone.
    pub name: String,
    pub value: String,
    pub traceback: String,
}
