//! Templates that tenants build through the server.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct BuildTemplate {
    /// The template's name among the tenant's own; `NAME:TAG` names a tag too.
    pub name: String,
    /// The tags that the build gets when it is done; without any, `default`.
    pub tags: Vec<String>,
    /// An image of a registry that the build begins with.
    pub image: Option<String>,
    /// The name and the password for the registry of `image`. They are used for this build, and not kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry: Option<RegistryLogin>,
    /// The template that the build begins with, in the place of an image.
    pub template: Option<String>,
    pub steps: Vec<BuildStep>,
    /// A line for the shell that is started in every sandbox of the template.
    pub start: Option<String>,
    /// A line for the shell that succeeds when the start command is ready. The build tries both; a create waits for it.
    pub ready: Option<String>,
    pub cpus: Option<f64>,
    pub memory_bytes: Option<u64>,
    /// What each of its sandboxes can write at least. Their disk has this limit, where that of the default or of the template that the
    /// build begins with is smaller; more than the server's disk has free is refused.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_free_disk_bytes: Option<u64>,
    /// True: every step is done again.
    pub no_cache: bool,
}

#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RegistryLogin {
    pub username: String,
    pub password: String,
}

/// Keeps the password out of logs.
impl fmt::Debug for RegistryLogin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("RegistryLogin").field("username", &self.username).finish_non_exhaustive()
    }
}

/// One step of a build. `force`: it is done again, whatever is kept of an earlier build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum BuildStep {
    /// A line for the shell. `user`: the one that `user` set before, or `user`.
    Run {
        command: String,
        #[serde(default)]
        user: Option<String>,
        #[serde(default)]
        force: bool,
    },
    /// Files that were uploaded under `files`. `from`: their path in the archive.
    Copy {
        files: String,
        from: String,
        to: String,
        /// The owner, as `user` or `user:group`.
        #[serde(default)]
        user: Option<String>,
        /// Permissions in octal digits, as in `0755`.
        #[serde(default)]
        mode: Option<String>,
        #[serde(default)]
        force: bool,
    },
    /// Variables of later steps and of the template's sandboxes.
    Env { variables: BTreeMap<String, String> },
    /// The directory of later steps and of the template's sandboxes. It is made if there is none.
    Workdir {
        path: String,
        #[serde(default)]
        force: bool,
    },
    /// The user of later steps and of the template's sandboxes.
    User { name: String },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BuildState {
    /// Asked for; its steps are not known yet, or other builds are before it.
    Waiting,
    Building,
    Ready,
    Failed,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TemplateBuild {
    /// A UUID.
    pub id: String,
    /// The id of the template: `tp-` and 16 hexadecimal digits. Of a build of the command line: its name.
    pub template: String,
    pub name: String,
    #[serde(default)]
    pub made_by: BuildMaker,
    /// The tags that it gets, or got, when it was done.
    pub tags: Vec<String>,
    pub state: BuildState,
    pub created_at_ms: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at_ms: Option<u64>,
    /// Of a build that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<BuildFailure>,
    /// Of the finished image.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub size_bytes: Option<u64>,
}

/// Builds, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TemplateBuildPage {
    pub builds: Vec<TemplateBuild>,
    /// For the next page; absent on the last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_cursor: Option<String>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum BuildMaker {
    /// A tenant, through the server.
    #[default]
    Tenant,
    /// The owner of the host, with `paddock template build`.
    Command,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuildFailure {
    pub message: String,
    /// `base`, the number of the step from 1 on, or `finalize` for the start and the ready command.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum LogLevel {
    Debug,
    Info,
    Warn,
    Error,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuildLogEntry {
    pub at_ms: u64,
    pub level: LogLevel,
    pub message: String,
    /// As in a failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BuildLog {
    pub entries: Vec<BuildLogEntry>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct Template {
    pub name: String,
    /// Of a template that the tenant built through the server; others are those of the owner of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The builds of its tags.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tags: Vec<TemplateTag>,
    /// Of a template that comes with Paddock and is not there yet, because a create named it first: its build.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_build: Option<FirstBuild>,
}

impl Template {
    /// One of the owner's, or one that is to be.
    pub fn of_owner(name: String, first_build: Option<FirstBuild>) -> Template {
        Template { name, first_build, ..Template::default() }
    }
}

/// The build of a template that comes with Paddock, which the first create that named it began.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct FirstBuild {
    pub state: FirstBuildState,
    /// The step that runs, or that failed, from 1 on; 0 before the first.
    pub step: usize,
    /// All steps; 0 until they are known.
    pub steps: usize,
    /// The words of that step.
    pub doing: String,
    pub started_at_ms: u64,
    /// Of a build that failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum FirstBuildState {
    Building,
    /// A create that names the template begins it again, ten minutes later at the earliest.
    Failed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TemplateTag {
    pub tag: String,
    pub build: String,
    pub created_at_ms: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetTag {
    /// The id of a build of the same template that is ready.
    pub build: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct TemplateFiles {
    pub hash: String,
    pub bytes: u64,
}
