//! One job: its commands, its sandbox, its number of tasks. The same in a file of TOML or JSON and in a request.

use super::best_of::BestOf;
use super::inside::{JobInput, JobPolicy};
use crate::api::{LimitsRequest, VolumeMount};
use serde::de::value::MapAccessDeserializer;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct JobSpec {
    /// For people: up to 200 characters.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The command: a line for `/bin/sh -c`, or a list of words. Exactly one of `command`, `code`, `script` and `best_of`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command: Option<JobCommand>,
    /// Source text, as for `run_code`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// Source text with a `main` and annotations, as for `paddock script run`; what it returns is the result.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub script: Option<String>,
    /// Several candidates from one state, of which a verifier chooses the best.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub best_of: Option<BestOf>,
    /// Of `code` and `script`; default `python`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub language: Option<String>,
    /// A list for `command` (for a line they are `$1`, `$2`, ...), names and values for `script`. `{index}` stands for the
    /// number of an array's task.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<JobArgs>,
    /// `{index}` as in `args`. PADDOCK_JOB_ID, PADDOCK_JOB_INDEX, PADDOCK_JOB_COUNT and PADDOCK_JOB_ATTEMPT are there always.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    /// `agent` (default), `root`, a name of the image, UID or UID:GID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Begin with the files of this snapshot.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Guarantees without which nothing runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<String>,
    /// Files that are there before it runs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub inputs: Vec<JobInput>,
    /// Files that are kept when it has run: paths or patterns such as `out/*.csv`, relative ones below its directory.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub outputs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<VolumeMount>,
    pub limits: LimitsRequest,
    pub policy: JobPolicy,
    /// Of one attempt; default 3600.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 604800.0))]
    pub timeout_seconds: Option<f64>,
    pub retries: JobRetries,
    /// So many tasks, or one for each item.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub array: Option<JobArray>,
    /// How many tasks of this job run at one time; default: as many as the server runs at all.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(minimum = 1))]
    pub parallelism: Option<u32>,
    /// -100 to 100; the highest of a tenant's own jobs goes first.
    #[cfg_attr(feature = "schema", schema(minimum = -100, maximum = 100))]
    pub priority: i32,
    pub on_failure: JobOnFailure,
    /// How long it is remembered after its end; default a day.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schema(exclusive_minimum = 0.0, maximum = 2592000.0))]
    pub keep_seconds: Option<f64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "a line for the shell as a string, or a list of words")]
pub enum JobCommand {
    Line(String),
    Words(Vec<String>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "a list, or a table of names and values")]
pub enum JobArgs {
    #[cfg_attr(feature = "schema", schema(value_type = Vec<Value>))]
    List(Vec<serde_json::Value>),
    #[cfg_attr(feature = "schema", schema(value_type = std::collections::HashMap<String, Value>))]
    Named(indexmap::IndexMap<String, serde_json::Value>),
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(untagged, expecting = "a number of tasks, or a list of items with `args` and `env`")]
pub enum JobArray {
    Count(u32),
    Items(#[serde(deserialize_with = "objects")] Vec<ArrayItem>),
}

/// serde takes a list for an object, its fields in their order; here each item has to be an object.
fn objects<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<ArrayItem>, D::Error> {
    #[derive(Deserialize)]
    #[serde(transparent)]
    struct Item(#[serde(deserialize_with = "object")] ArrayItem);

    fn object<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ArrayItem, D::Error> {
        struct Fields;
        impl<'de> Visitor<'de> for Fields {
            type Value = ArrayItem;

            fn expecting(&self, formatter: &mut std::fmt::Formatter) -> std::fmt::Result {
                formatter.write_str("an object with `args` and `env`")
            }

            fn visit_map<A: MapAccess<'de>>(self, entries: A) -> Result<ArrayItem, A::Error> {
                ArrayItem::deserialize(MapAccessDeserializer::new(entries))
            }
        }
        deserializer.deserialize_map(Fields)
    }
    Ok(Vec::<Item>::deserialize(deserializer)?.into_iter().map(|item| item.0).collect())
}

/// Settings of one task, beside those of all.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ArrayItem {
    /// A list is added to the job's; names replace the job's of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args: Option<JobArgs>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
}

/// A task that fails runs again, in a new sandbox.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(default, deny_unknown_fields)]
pub struct JobRetries {
    /// After the first attempt; default 0.
    #[cfg_attr(feature = "schema", schema(maximum = 100))]
    pub attempts: u32,
    /// Before the second attempt; each further wait is twice as long.
    #[cfg_attr(feature = "schema", schema(minimum = 0.0, maximum = 86400.0))]
    pub backoff_seconds: f64,
    #[cfg_attr(feature = "schema", schema(minimum = 0.0, maximum = 86400.0))]
    pub longest_backoff_seconds: f64,
    /// The ends after which it runs again.
    pub on: Vec<RetryOn>,
}

impl Default for JobRetries {
    fn default() -> JobRetries {
        let on = vec![RetryOn::Exit, RetryOn::Timeout, RetryOn::OutOfMemory, RetryOn::Lost];
        JobRetries { attempts: 0, backoff_seconds: 1.0, longest_backoff_seconds: 300.0, on }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RetryOn {
    /// An exit code other than 0, or an exception.
    Exit,
    Timeout,
    OutOfMemory,
    /// The sandbox has gone: its guest was lost, or the host restarted.
    Lost,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum JobOnFailure {
    /// The other tasks run.
    #[default]
    Continue,
    /// The other tasks are cancelled.
    Stop,
}

impl JobSpec {
    /// How many tasks it has.
    pub fn count(&self) -> u32 {
        match (&self.best_of, &self.array) {
            (Some(best_of), _) => best_of.candidates.len() as u32,
            (None, None) => 1,
            (None, Some(JobArray::Count(count))) => *count,
            (None, Some(JobArray::Items(items))) => items.len() as u32,
        }
    }
}
