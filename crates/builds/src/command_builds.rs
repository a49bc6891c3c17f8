//! The builds of `paddock template build`. Each leaves a record and a log, which the server lists beside the builds of its
//! tenants. The last hundred are kept.
//!
//! ```text
//! builds/command/ID.json  the build
//! builds/logs/ID.json     its log
//! ```
//!
//! The command holds a lock on the record while it builds. A record without an end that nothing locks is of a command that was
//! killed.

use super::error::BuildError;
use super::log::Log;
use super::run::{Event, Watcher};
use paddock_model::api::{BuildFailure, BuildMaker, BuildState, LogLevel, TemplateBuild};
use std::fs::{self, DirBuilder, File, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const MOST_COMMAND_BUILDS: usize = 100;
const RECORDS: &str = "builds/command";
const LOGS: &str = "builds/logs";
/// A record is some hundred bytes; a failure may quote a line of the build file.
const LARGEST_RECORD: u64 = 256 << 10;

/// A build under way. As a watcher it writes the log.
pub struct CommandBuild {
    state: PathBuf,
    told: TemplateBuild,
    log: Log,
    /// The lock lives as long as this file is open.
    _locked: File,
}

impl CommandBuild {
    /// Removes the oldest records where there are too many.
    pub fn begin(state: &Path, name: &str) -> Result<CommandBuild, BuildError> {
        for part in [RECORDS, LOGS] {
            let path = state.join(part);
            let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
            made.map_err(|source| BuildError::Io { path, source })?;
        }
        let told = TemplateBuild {
            id: new_uuid()?,
            template: name.into(),
            name: name.into(),
            made_by: BuildMaker::Command,
            tags: Vec::new(),
            state: BuildState::Building,
            created_at_ms: now_ms(),
            finished_at_ms: None,
            failure: None,
            size_bytes: None,
        };
        let path = record_path(state, &told.id);
        let locked = write(&path, &told).map_err(|source| BuildError::Io { path, source })?;
        for old in command_builds(state).into_iter().skip(MOST_COMMAND_BUILDS) {
            let _ = fs::remove_file(record_path(state, &old.id));
            let _ = fs::remove_file(log_path(state, &old.id));
        }
        Ok(CommandBuild { state: state.to_path_buf(), told, log: Log::of_command(), _locked: locked })
    }

    /// Notes the end: the size of the image, or the reason of the failure.
    pub fn end(mut self, outcome: Result<u64, String>) -> Result<(), BuildError> {
        self.told.finished_at_ms = Some(now_ms());
        match outcome {
            Ok(bytes) => (self.told.state, self.told.size_bytes) = (BuildState::Ready, Some(bytes)),
            Err(message) => {
                self.log.say(LogLevel::Error, message.clone());
                self.told.state = BuildState::Failed;
                self.told.failure = Some(BuildFailure { message, step: self.log.step() });
            }
        }
        let path = log_path(&self.state, &self.told.id);
        self.log.save(&path).map_err(|source| BuildError::Io { path, source })?;
        let path = record_path(&self.state, &self.told.id);
        write(&path, &self.told).map(drop).map_err(|source| BuildError::Io { path, source })
    }
}

impl Watcher for CommandBuild {
    fn event(&self, event: Event<'_>) {
        let ends_a_step = matches!(event, Event::Done { .. });
        self.log.event(event);
        if ends_a_step {
            // The end of the build saves it again, and tells of a failure.
            let _ = self.log.save(&log_path(&self.state, &self.told.id));
        }
    }
}

/// The newest first. A record that cannot be read is left out.
pub fn command_builds(state: &Path) -> Vec<TemplateBuild> {
    let entries = fs::read_dir(state.join(RECORDS)).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let ids = names.filter_map(|name| name.strip_suffix(".json").map(String::from));
    let mut builds: Vec<TemplateBuild> = ids.filter_map(|id| command_build(state, &id)).collect();
    builds.sort_by(|a, b| (b.created_at_ms, &b.id).cmp(&(a.created_at_ms, &a.id)));
    builds
}

/// `None`: no command of this id built anything.
pub fn command_build(state: &Path, id: &str) -> Option<TemplateBuild> {
    // The id becomes a part of a path.
    uuid::Uuid::try_parse(id).ok().filter(|parsed| parsed.to_string() == id)?;
    let file = File::open(record_path(state, id)).ok()?;
    let mut text = String::new();
    (&file).take(LARGEST_RECORD).read_to_string(&mut text).ok()?;
    let mut build: TemplateBuild = serde_json::from_str(&text).ok()?;
    let is_locked = || matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
    if build.state == BuildState::Building && !is_locked() {
        let message = "the command was ended during the build".to_string();
        build.state = BuildState::Failed;
        build.failure = Some(BuildFailure { message, step: None });
    }
    Some(build)
}

fn new_uuid() -> Result<String, BuildError> {
    let high = u128::from(paddock_engine::random()?);
    let bytes = (high << 64 | u128::from(paddock_engine::random()?)).to_be_bytes();
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
}

fn record_path(state: &Path, id: &str) -> PathBuf {
    state.join(RECORDS).join(format!("{id}.json"))
}

fn log_path(state: &Path, id: &str) -> PathBuf {
    state.join(LOGS).join(format!("{id}.json"))
}

/// The file is locked before it gets its name, so that no reader finds it without a lock.
fn write(path: &Path, build: &TemplateBuild) -> io::Result<File> {
    let directory = path.parent().unwrap_or(Path::new("/"));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.as_file().lock()?;
    file.write_all(&serde_json::to_vec(build)?)?;
    file.persist(path).map_err(|error| error.error)
}

fn now_ms() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| u64::try_from(elapsed.as_millis()).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::saved_entries;

    #[test]
    fn a_build_is_listed_while_it_runs_and_afterwards() {
        let state = tempfile::tempdir().unwrap();
        let build = CommandBuild::begin(state.path(), "mine").unwrap();
        let id = build.told.id.clone();
        build.event(Event::Step { number: 1, total: 2, what: "base /" });
        let running = command_build(state.path(), &id).unwrap();
        assert_eq!((running.state, running.name.as_str()), (BuildState::Building, "mine"));
        build.event(Event::Step { number: 2, total: 2, what: "run x" });
        build.event(Event::Output { bytes: b"hello\n" });
        build.end(Ok(7)).unwrap();
        let ended = command_build(state.path(), &id).unwrap();
        assert_eq!((ended.state, ended.size_bytes), (BuildState::Ready, Some(7)));
        let log = saved_entries(&log_path(state.path(), &id), 0, 10, LogLevel::Debug);
        let steps: Vec<_> = log.iter().map(|entry| (entry.message.as_str(), entry.step.as_deref())).collect();
        assert_eq!(steps, [("[1/2] base /", Some("base")), ("[2/2] run x", Some("1")), ("hello", Some("1"))]);
    }

    #[test]
    fn a_failure_is_kept_with_its_step() {
        let state = tempfile::tempdir().unwrap();
        let build = CommandBuild::begin(state.path(), "mine").unwrap();
        build.event(Event::Step { number: 3, total: 3, what: "run false" });
        build.end(Err("`false` ended with 1".into())).unwrap();
        let failure = command_builds(state.path()).remove(0).failure.unwrap();
        assert_eq!((failure.message.as_str(), failure.step.as_deref()), ("`false` ended with 1", Some("2")));
    }

    #[test]
    fn a_command_that_was_killed_builds_no_more() {
        let state = tempfile::tempdir().unwrap();
        // Dropped without an end, as the kernel does with the files of a killed process.
        drop(CommandBuild::begin(state.path(), "mine").unwrap());
        let build = command_builds(state.path()).remove(0);
        assert_eq!(build.state, BuildState::Failed);
        assert!(build.failure.unwrap().message.contains("was ended"));
    }

    #[test]
    fn a_hundred_are_kept_and_an_id_is_no_path() {
        let state = tempfile::tempdir().unwrap();
        for number in 0..MOST_COMMAND_BUILDS + 3 {
            CommandBuild::begin(state.path(), &format!("t{number}")).unwrap().end(Ok(0)).unwrap();
        }
        assert_eq!(command_builds(state.path()).len(), MOST_COMMAND_BUILDS);
        assert_eq!(fs::read_dir(state.path().join(LOGS)).unwrap().count(), MOST_COMMAND_BUILDS);
        fs::write(state.path().join("builds/x.json"), "{}").unwrap();
        for id in ["../x", "", "x", "{00000000-0000-4000-8000-000000000000}"] {
            assert!(command_build(state.path(), id).is_none(), "{id}");
        }
    }
}
