//! The arguments of each tool. Unknown keys are refused, as Loopstack's schemas do.

use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Init {
    pub container_id: String,
    pub image_name: String,
    pub container_name: String,
    pub project_out_path: String,
    #[serde(default = "workspace")]
    pub root_path: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Command {
    pub container_id: String,
    pub executable: String,
    #[serde(default)]
    pub args: Vec<String>,
    #[serde(default = "root")]
    pub working_directory: String,
    #[serde(default)]
    pub env_vars: Vec<String>,
    /// Milliseconds.
    #[serde(default = "half_a_minute")]
    pub timeout: f64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Destroy {
    pub container_id: String,
    #[serde(default = "yes")]
    pub remove_container: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Encoding {
    #[default]
    Utf8,
    Base64,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReadFile {
    pub container_id: String,
    pub path: String,
    #[serde(default)]
    pub encoding: Encoding,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WriteFile {
    pub container_id: String,
    pub path: String,
    pub content: String,
    #[serde(default)]
    pub encoding: Encoding,
    #[serde(default = "yes")]
    pub create_parent_dirs: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ListDirectory {
    pub container_id: String,
    pub path: String,
    #[serde(default)]
    pub recursive: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateDirectory {
    pub container_id: String,
    pub path: String,
    #[serde(default = "yes")]
    pub recursive: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Delete {
    pub container_id: String,
    pub path: String,
    #[serde(default)]
    pub recursive: bool,
    #[serde(default)]
    pub force: bool,
}

/// The arguments of `sandbox_exists` and `sandbox_file_info`.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct At {
    pub container_id: String,
    pub path: String,
}

fn workspace() -> String {
    "workspace".into()
}

fn root() -> String {
    "/".into()
}

fn half_a_minute() -> f64 {
    30_000.0
}

fn yes() -> bool {
    true
}
