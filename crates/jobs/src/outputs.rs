//! Files that are kept when a task has run. The sandbox only chooses the name of a file: bytes are counted as they
//! come, and lie in numbered files of the host.

use crate::inputs::{WORKSPACE, absolute};
use crate::refusals::{invalid, shown, wrong};
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use paddock_fleet::{Actor, Fleet, FleetError};
use paddock_model::api::{FileKind, JobArtifact, JobSpec};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, HashMap};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use tokio::io::AsyncWriteExt;

const MOST_PATTERNS: usize = 64;
const MOST_FILES: usize = 1000;
/// The most bytes of one task.
const MOST_BYTES: u64 = 256 << 20;
/// Entries that are looked at for all patterns of a task.
const MOST_LISTED: usize = 100_000;
const META: [char; 5] = ['*', '?', '[', '{', '\\'];

/// Why the outputs of a task are not kept.
#[derive(Debug, thiserror::Error)]
pub enum OutputsError {
    #[error("output `{0}` is not there")]
    Missing(String),
    #[error("the outputs are more than {MOST_FILES} files")]
    Files,
    #[error("the outputs are more than {} MiB", MOST_BYTES >> 20)]
    Bytes,
    #[error("the outputs of all jobs of tenant {tenant} are more than {most} bytes")]
    Tenant { tenant: String, most: u64 },
    #[error("there are more than {MOST_LISTED} files to look at for the outputs")]
    Listed,
    #[error("the name of output `{0}` is not UTF-8")]
    Name(String),
    #[error("output `{path}` cannot be read")]
    Read { path: String, source: FleetError },
    #[error("the outputs cannot be stored")]
    Store(#[source] std::io::Error),
}

/// The patterns of the files that a job keeps.
pub struct Patterns {
    patterns: Vec<Pattern>,
}

struct Pattern {
    text: String,
    /// The directory below which it looks, or the file itself.
    base: String,
    /// `None` for a path without anything to fill in.
    set: Option<GlobSet>,
}

impl Patterns {
    pub fn new(spec: &JobSpec) -> Result<Patterns, FleetError> {
        if spec.outputs.len() > MOST_PATTERNS {
            let hint = format!("at most {MOST_PATTERNS} patterns");
            return Err(wrong("outputs", &spec.outputs.len().to_string(), &hint));
        }
        let patterns = spec.outputs.iter().enumerate().map(|(number, text)| {
            let field = format!("outputs[{number}]");
            crate::inputs::check_path(&field, text)?;
            let whole = absolute(spec, text);
            if !whole.contains(META) {
                return Ok(Pattern { text: text.clone(), base: whole, set: None });
            }
            let glob = GlobBuilder::new(&whole).literal_separator(true).build();
            let glob = glob.map_err(|error| {
                invalid(format!("field `{field}`: `{}` is not a pattern: {}", shown(text), error.kind()))
                    .hint("`*` stands for a part of a name, `**` for directories, as in `out/**/*.csv`")
            })?;
            let set = GlobSetBuilder::new().add(glob).build();
            let set = set.map_err(|error| invalid(format!("field `{field}`: {}", error.kind())))?;
            let fixed: Vec<&str> = whole.split('/').take_while(|part| !part.contains(META)).collect();
            let base = if fixed.len() <= 1 { "/".to_string() } else { fixed.join("/") };
            Ok(Pattern { text: text.clone(), base, set: Some(set) })
        });
        Ok(Patterns { patterns: patterns.collect::<Result<_, FleetError>>()? })
    }
}

/// The bytes of each tenant's artifacts, within a bound.
pub struct Room {
    most: u64,
    used: Mutex<HashMap<String, u64>>,
}

impl Room {
    pub fn new(most: u64, used: impl IntoIterator<Item = (String, u64)>) -> Room {
        Room { most, used: Mutex::new(used.into_iter().collect()) }
    }

    pub fn take(&self, tenant: &str, bytes: u64) -> Result<(), OutputsError> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let own = used.entry(tenant.to_string()).or_default();
        if own.saturating_add(bytes) > self.most {
            return Err(OutputsError::Tenant { tenant: tenant.into(), most: self.most });
        }
        *own += bytes;
        Ok(())
    }

    pub fn give_back(&self, tenant: &str, bytes: u64) {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = used.get_mut(tenant) {
            *own = own.saturating_sub(bytes);
        }
    }
}

/// One task's outputs on their way out.
pub struct Collect<'a> {
    pub fleet: &'a Fleet,
    pub actor: &'a Actor,
    pub sandbox: &'a str,
    pub spec: &'a JobSpec,
    pub task: u32,
    pub directory: PathBuf,
    pub room: &'a Room,
    /// True if a missing path is a failure.
    pub demand: bool,
}

impl Collect<'_> {
    /// If one of them fails, none is kept.
    pub async fn all(&self) -> Result<Vec<JobArtifact>, OutputsError> {
        let patterns = Patterns::new(self.spec)
            .map_err(|source| OutputsError::Read { path: "outputs".into(), source })?;
        if patterns.patterns.is_empty() {
            return Ok(Vec::new());
        }
        let mut kept = Vec::new();
        let done = self.keep(&patterns, &mut kept).await;
        if done.is_err() {
            let _ = std::fs::remove_dir_all(&self.directory);
            self.room.give_back(&self.actor.tenant, kept.iter().map(|artifact| artifact.bytes).sum());
        }
        done.map(|()| kept)
    }

    async fn keep(&self, patterns: &Patterns, kept: &mut Vec<JobArtifact>) -> Result<(), OutputsError> {
        let found = self.find(patterns).await?;
        if found.len() > MOST_FILES {
            return Err(OutputsError::Files);
        }
        make_directory(&self.directory).map_err(OutputsError::Store)?;
        let mut left = MOST_BYTES;
        for path in found {
            let artifact = self.one(&path, kept.len(), left).await?;
            left -= artifact.bytes;
            kept.push(artifact);
        }
        Ok(())
    }

    async fn find(&self, patterns: &Patterns) -> Result<Vec<String>, OutputsError> {
        let mut found = BTreeMap::new();
        let mut listed = 0;
        for pattern in &patterns.patterns {
            let read = |source| OutputsError::Read { path: pattern.text.clone(), source };
            let Some(set) = &pattern.set else {
                match self.fleet.stat(self.actor, self.sandbox, &pattern.base, None).await {
                    Ok(entry) if entry.kind == FileKind::File => {
                        found.insert(pattern.base.clone(), ());
                    }
                    Ok(_) => return Err(OutputsError::Missing(pattern.text.clone())),
                    Err(error) if error.code == "file_not_found" && self.demand => {
                        return Err(OutputsError::Missing(pattern.text.clone()));
                    }
                    Err(error) if error.code == "file_not_found" => {}
                    Err(error) => return Err(read(error)),
                }
                continue;
            };
            let mut cursor: Option<String> = None;
            loop {
                let page = self.fleet.list_files(
                    self.actor,
                    self.sandbox,
                    &pattern.base,
                    true,
                    10_000,
                    cursor.as_deref(),
                    None,
                );
                let page = match page.await {
                    Ok(page) => page,
                    // A directory that does not exist has no entries.
                    Err(error) if error.code == "file_not_found" => break,
                    Err(error) => return Err(read(error)),
                };
                listed += page.entries.len();
                if listed > MOST_LISTED {
                    return Err(OutputsError::Listed);
                }
                for entry in page.entries.iter().filter(|entry| entry.kind == FileKind::File) {
                    let path = whole(&pattern.base, &entry.path);
                    if set.is_match(&path) {
                        if entry.path_base64.is_some() {
                            return Err(OutputsError::Name(shown(&path)));
                        }
                        found.insert(path, ());
                    }
                }
                match page.next_cursor {
                    Some(next) if cursor.as_ref() != Some(&next) => cursor = Some(next),
                    _ => break,
                }
            }
        }
        Ok(found.into_keys().collect())
    }

    async fn one(&self, path: &str, number: usize, left: u64) -> Result<JobArtifact, OutputsError> {
        let read = |source| OutputsError::Read { path: shown(path), source };
        let mut download =
            self.fleet.read_file(self.actor, self.sandbox, path, 0, None, None).await.map_err(read)?;
        let mut options = tokio::fs::OpenOptions::new();
        let file = options.write(true).create_new(true).mode(0o600);
        let mut file =
            file.open(self.directory.join(number.to_string())).await.map_err(OutputsError::Store)?;
        let (mut bytes, mut digest) = (0, Sha256::new());
        while let Some(piece) = download.next().await {
            let piece = match piece {
                Ok(piece) => piece,
                Err(error) => {
                    self.room.give_back(&self.actor.tenant, bytes);
                    return Err(read(error));
                }
            };
            let more = piece.len() as u64;
            let room = if bytes + more > left {
                Err(OutputsError::Bytes)
            } else {
                self.room.take(&self.actor.tenant, more)
            };
            if let Err(error) = room {
                self.room.give_back(&self.actor.tenant, bytes);
                return Err(error);
            }
            bytes += more;
            digest.update(&piece);
            file.write_all(&piece).await.map_err(OutputsError::Store)?;
        }
        file.flush().await.map_err(OutputsError::Store)?;
        let sha256 = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(JobArtifact { task: self.task, path: self.told(path), bytes, sha256 })
    }

    /// Relative to the job's directory where it is below it.
    fn told(&self, path: &str) -> String {
        let cwd = self.spec.cwd.as_deref().unwrap_or(WORKSPACE).trim_end_matches('/');
        path.strip_prefix(cwd).and_then(|rest| rest.strip_prefix('/')).unwrap_or(path).to_string()
    }
}

/// The guest returns paths in the form of the request: below the listed directory, or whole.
fn whole(base: &str, path: &str) -> String {
    match path.starts_with('/') {
        true => path.to_string(),
        false => format!("{}/{path}", base.trim_end_matches('/')),
    }
}

pub fn make_directory(path: &Path) -> std::io::Result<()> {
    // The remains of an attempt that was cut off are not this one's.
    match std::fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// An artifact that was made here.
pub fn of_text(task: u32, path: &str, text: &str) -> JobArtifact {
    let sha256 = Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect();
    JobArtifact { task, path: path.into(), bytes: text.len() as u64, sha256 }
}

/// Where a job's artifacts lie.
pub fn job_directory(fleet: &Fleet, job: &str) -> PathBuf {
    fleet.state_directory().join("jobs").join(job)
}

pub fn task_directory(fleet: &Fleet, job: &str, task: u32, attempt: u32) -> PathBuf {
    job_directory(fleet, job).join(format!("{task}-{attempt}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(outputs: &[&str]) -> JobSpec {
        JobSpec { outputs: outputs.iter().map(|text| text.to_string()).collect(), ..JobSpec::default() }
    }

    #[test]
    fn a_pattern_looks_below_its_fixed_part() {
        let patterns = Patterns::new(&spec(&["out/*.csv", "/tmp/a", "**/x", "/*/y", "a/b[12]/c"])).unwrap();
        let bases: Vec<&str> = patterns.patterns.iter().map(|pattern| pattern.base.as_str()).collect();
        assert_eq!(bases, ["/workspace/out", "/tmp/a", "/workspace", "/", "/workspace/a"]);
        let set = patterns.patterns[0].set.as_ref().unwrap();
        assert!(set.is_match("/workspace/out/a.csv") && !set.is_match("/workspace/out/b/a.csv"));
        assert!(patterns.patterns[1].set.is_none());
    }

    #[test]
    fn what_is_no_pattern_is_refused_with_its_field() {
        for (outputs, words) in [
            (vec!["ok", "[x"], "`outputs[1]`: `[x`"),
            (vec!["../x"], "`outputs[0]`: `../x`"),
            (vec![""], "`outputs[0]`"),
            (vec!["x"; 65], "`outputs`: `65`"),
        ] {
            let error = Patterns::new(&spec(&outputs)).err().unwrap();
            assert!(error.message.contains(words) && error.hint.is_some(), "{error:?}");
        }
    }

    #[test]
    fn a_tenant_has_only_so_much_room() {
        let room = Room::new(10, [("a".to_string(), 4)]);
        room.take("a", 6).unwrap();
        assert!(matches!(room.take("a", 1), Err(OutputsError::Tenant { most: 10, .. })));
        room.take("b", 10).unwrap();
        room.give_back("a", 3);
        room.take("a", 3).unwrap();
    }
}
