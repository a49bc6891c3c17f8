//! Templates that come with Paddock, and that are built when a create names them first.
//!
//! The build runs in the background, for the owner of the host. A create waits for it as long as the owner says, and is
//! then told how far it is: minutes would be longer than clients wait. [`FirstUse::ensure`] gives no other template in its
//! place, so that sandboxes of one name never change under a program that runs. [`FirstUse::begin`] is for a caller that has
//! something else meanwhile. No program waits for such a build, so that it makes way: it wants room on the disk, and is
//! tried less and less often when it fails.
//!
//! ```text
//! builds/first-use/NAME.json  how far the build is, or why it failed
//! builds/first-use/NAME.lock  locked while it runs
//! ```

use super::builder::{self, Build, Target};
use super::error::{self, BuildError};
use super::fetch::Variables;
use super::file::{self, BuildFile, BuildFileError, Step};
use super::run::{Event, Watcher};
use paddock_engine::FindBackends;
use paddock_model::Network;
use paddock_model::api::{FirstBuild, FirstBuildState};
use paddock_settings::templates::{self, TemplateError};
use std::collections::{BTreeMap, HashMap};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};
use tokio::sync::{Semaphore, watch};
use tokio::task::AbortHandle;

/// A build that failed is not begun again within this time.
const UNTIL_AGAIN: Duration = Duration::from_secs(600);
/// A build that no create waits for: the time doubles with each failure, up to this.
const LONGEST_UNTIL_AGAIN: Duration = Duration::from_secs(6 * 3600);
/// Free bytes of the state directory's disk, without which Debian's packages are fetched for no program that can do without.
const ROOM_BYTES: u64 = 4 << 30;
/// Build files of the owner's are read whole.
const LARGEST_FILE: u64 = 1 << 20;
/// Characters of the last lines that a failed step printed, for the server's log.
const LOGGED_OUTPUT: usize = 4096;
/// Builds that run at one time: each may take gigabytes of memory.
const AT_ONE_TIME: usize = 1;

/// The choice of the owner of the host.
#[derive(Debug, Clone, Default)]
pub struct FirstUseOptions {
    /// The templates that are built so; none by default.
    pub names: Vec<String>,
    /// A directory whose `NAME.toml` takes the place of the build file that comes with Paddock.
    pub files: Option<PathBuf>,
    /// How long a create waits for the build.
    pub wait: Duration,
    /// The server's variables, of which a build reads proxies and package indexes.
    pub variables: Variables,
}

#[derive(Debug, Clone, thiserror::Error)]
pub enum FirstUseError {
    #[error("template `{name}` is being built for the first time: {}", shown(.build))]
    Building { name: String, build: FirstBuild },
    #[error("template `{name}` could not be built: {}", .build.failure.as_deref().unwrap_or("it is not known why"))]
    Failed { name: String, build: FirstBuild, again: Duration },
    #[error("there is no build file for `{0}`, which is to be built on first use")]
    NoFile(String),
    #[error("`{}` cannot be read for build files", .path.display())]
    Unreadable { path: PathBuf, source: Arc<io::Error> },
    #[error("the build file of `{name}` is not usable")]
    Unusable { name: String, source: Arc<BuildFileError> },
    #[error(transparent)]
    Template(Arc<TemplateError>),
}

impl FirstUseError {
    pub fn hint(&self) -> String {
        match self {
            FirstUseError::Building { .. } => {
                "ask again in a minute; `paddock template ls` and GET /v1/templates show how far it is".into()
            }
            FirstUseError::Failed { name, again, .. } => format!(
                "the owner of the host sees more with `paddock template build {name}`; it is tried again by a create {} minutes after it failed",
                again.as_secs() / 60
            ),
            FirstUseError::NoFile(_) => format!("known are {}", super::SHIPPED.join(", ")),
            FirstUseError::Unreadable { .. } | FirstUseError::Unusable { .. } => {
                "mend it, or start the server without --build-files".into()
            }
            FirstUseError::Template(error) => error.hint().unwrap_or_default(),
        }
    }
}

fn shown(build: &FirstBuild) -> String {
    match build.step {
        0 => "it waits for its turn".into(),
        step => format!("step {step} of {}, {}", build.steps, build.doing),
    }
}

/// The builds of one state directory.
pub struct FirstUse {
    state: PathBuf,
    options: FirstUseOptions,
    files: BTreeMap<String, BuildFile>,
    running: Mutex<HashMap<String, Running>>,
    slots: Semaphore,
    backends: FindBackends,
}

struct Running {
    /// `None`: the template is there.
    seen: watch::Receiver<Option<FirstBuild>>,
    /// Since it failed.
    failed: Option<Instant>,
    /// How often it failed, one time after the other.
    failures: u32,
    /// A create waits for it, or has been refused for its sake: it does not make way.
    awaited: bool,
    /// It made way, as it does only while none waits.
    made_way: bool,
    task: Option<AbortHandle>,
}

impl Running {
    fn fail(&mut self) {
        self.failed = Some(Instant::now());
        self.failures = self.failures.saturating_add(1);
    }
}

/// Whether a create can do without the template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Need {
    /// It is refused until the template is there.
    Awaited,
    /// It goes on with something else.
    Replaced,
}

impl Need {
    fn until_again(self, failures: u32) -> Duration {
        match self {
            Need::Awaited => UNTIL_AGAIN,
            Need::Replaced => {
                let doubled = 2_u32.saturating_pow(failures.saturating_sub(1));
                UNTIL_AGAIN.saturating_mul(doubled).min(LONGEST_UNTIL_AGAIN)
            }
        }
    }
}

impl FirstUse {
    /// Reads all build files now, so that a mistake in one is found before a create needs it.
    pub fn open(
        state: &Path,
        mut options: FirstUseOptions,
        backends: FindBackends,
    ) -> Result<Arc<FirstUse>, FirstUseError> {
        if let Some(path) = options.files.take() {
            let found = fs::canonicalize(&path);
            let unreadable = |source| FirstUseError::Unreadable { path, source: Arc::new(source) };
            options.files = Some(found.map_err(unreadable)?);
        }
        let mut files = BTreeMap::new();
        for name in &options.names {
            let text = text_of(options.files.as_deref(), name)?;
            let unusable = |source| FirstUseError::Unusable { name: name.clone(), source: Arc::new(source) };
            let file = file::parse(&text).map_err(unusable)?;
            if rustix::process::geteuid().is_root() || !needs_root(&file) {
                files.insert(name.clone(), file);
            } else {
                tracing::info!(template = name, "is not built on first use: its packages need root");
            }
        }
        let running = Mutex::default();
        let slots = Semaphore::new(AT_ONE_TIME);
        Ok(Arc::new(FirstUse { state: state.to_path_buf(), options, files, running, slots, backends }))
    }

    /// True if a create that names this template begins its build.
    pub fn has(&self, name: &str) -> bool {
        self.files.contains_key(name)
    }

    /// Ready when a create may go on: the template is there, or is none of those that are built so.
    pub async fn ensure(self: &Arc<Self>, name: &str) -> Result<(), FirstUseError> {
        if !self.has(name) || is_there(&self.state, name)? {
            return Ok(());
        }
        let mut seen = self.join(name, Need::Awaited);
        let is_over =
            |seen: &Option<FirstBuild>| seen.as_ref().is_none_or(|b| b.state == FirstBuildState::Failed);
        // Dropped by a server that ends: the last state is told.
        let _ = tokio::time::timeout(self.options.wait, seen.wait_for(is_over)).await;
        let build = seen.borrow().clone();
        build.map_or(Ok(()), |build| Err(self.told(name, build, Need::Awaited)))
    }

    /// For a create that goes on without the template: what is to be told of its build, which begins now if none runs.
    /// `None`: the template is there, or is none of those that are built so.
    pub fn begin(self: &Arc<Self>, name: &str) -> Result<Option<FirstUseError>, FirstUseError> {
        if !self.has(name) || is_there(&self.state, name)? {
            return Ok(None);
        }
        let build = self.join(name, Need::Replaced).borrow().clone();
        Ok(build.map(|build| self.told(name, build, Need::Replaced)))
    }

    fn told(&self, name: &str, build: FirstBuild, need: Need) -> FirstUseError {
        let failures = self.running().get(name).map_or(1, |running| running.failures);
        let (again, name) = (need.until_again(failures), name.to_string());
        match build.state {
            FirstBuildState::Failed => FirstUseError::Failed { name, build, again },
            FirstBuildState::Building => FirstUseError::Building { name, build },
        }
    }

    /// Ends the builds: the server stops. Their finished steps are kept.
    pub fn abort(&self) {
        let running = std::mem::take(&mut *self.running());
        running.into_values().filter_map(|running| running.task).for_each(|task| task.abort());
    }

    /// The build that runs or failed lately, else a new one.
    fn join(self: &Arc<Self>, name: &str, need: Need) -> watch::Receiver<Option<FirstBuild>> {
        let mut running = self.running();
        let (mut failures, awaited) = (0, need == Need::Awaited);
        if let Some(known) = running.get_mut(name) {
            failures = known.failures;
            let wait = need.until_again(failures);
            let is_over = known.seen.borrow().is_none() || known.failed.is_some_and(|at| at.elapsed() > wait);
            if !(is_over || awaited && known.made_way) {
                known.awaited |= awaited;
                return known.seen.clone();
            }
        }
        let (progress, seen) = Progress::new(&self.state, name);
        let (first_use, own) = (self.clone(), name.to_string());
        let task = tokio::spawn(async move { first_use.run(&own, progress).await });
        let task = Some(task.abort_handle());
        let known = Running { seen: seen.clone(), failed: None, failures, awaited, made_way: false, task };
        running.insert(name.to_string(), known);
        seen
    }

    /// Unless a create waits for it. It has failed then, in the same moment, so that a create that comes next begins another.
    fn makes_way(&self, name: &str) -> bool {
        let mut running = self.running();
        let Some(known) = running.get_mut(name).filter(|known| !known.awaited) else { return false };
        known.fail();
        known.made_way = true;
        true
    }

    async fn run(&self, name: &str, progress: Progress) {
        let attempt = Attempt { first_use: self, name, progress };
        let progress = &attempt.progress;
        let Ok(_slot) = self.slots.acquire().await else { return };
        let Some(file) = self.files.get(name) else { return };
        if needs_root(file) && !has_room(&self.state) && self.makes_way(name) {
            tracing::warn!(
                template = name,
                wanted_bytes = ROOM_BYTES,
                "the disk has too little room to build the template"
            );
            return progress.failed("the server's disk has too little room for it".into());
        }
        let build = Build {
            state: &self.state,
            file,
            directory: self.options.files.as_deref(),
            target: Target::Template { name, replace: false },
            use_cache: true,
            host_certs: None,
            caller: Some(&self.options.variables),
            network: &Network::Host,
            reach: None,
            login: None,
            backends: self.backends,
        };
        match builder::build(&build, progress).await {
            Ok(built) => {
                tracing::info!(template = name, seconds = built.took.as_secs(), "the template is built");
                progress.done();
            }
            // A command of the owner's was first.
            Err(BuildError::Template(TemplateError::Exists(_))) => progress.done(),
            Err(error) => {
                if let BuildError::Step { output, .. } = &error {
                    let text = output.to_text();
                    let from = text.floor_char_boundary(text.len().saturating_sub(LOGGED_OUTPUT));
                    tracing::warn!(template = name, output = &text[from..], "the step that failed said");
                }
                let words = error::chain(&error);
                tracing::warn!(template = name, error = words, "the template could not be built");
                // The directory of the build files is the host's.
                let is_base = matches!(error, BuildError::Base { .. });
                let why = if is_base { error.to_string() } else { error::told(&error) };
                self.note_failure(name, progress, why);
            }
        }
    }

    fn note_failure(&self, name: &str, progress: &Progress, why: String) {
        if let Some(running) = self.running().get_mut(name) {
            running.fail();
        }
        progress.failed(why);
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One run of a build, which has failed too if it panics.
struct Attempt<'a> {
    first_use: &'a FirstUse,
    name: &'a str,
    progress: Progress,
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            tracing::error!(template = self.name, "the build of the template panicked");
            let why = "the server failed while it built; its log says more".into();
            self.first_use.note_failure(self.name, &self.progress, why);
        }
    }
}

/// The builds that run, and those that failed last, by the names of their templates.
pub fn first_builds(state: &Path) -> BTreeMap<String, FirstBuild> {
    let entries = fs::read_dir(directory(state)).into_iter().flatten().flatten();
    let names =
        entries.filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".json")?.to_string()));
    let read = |name: String| {
        let build: FirstBuild = serde_json::from_slice(&fs::read(place(state, &name, "json")).ok()?).ok()?;
        // A server that was killed could not say that its build is over.
        let runs = || {
            let lock = File::open(place(state, &name, "lock")).ok()?;
            Some(matches!(lock.try_lock_shared(), Err(fs::TryLockError::WouldBlock)))
        };
        let is_told = build.state == FirstBuildState::Failed || runs() == Some(true);
        // The owner may have built it since.
        let is_missing = matches!(is_there(state, &name), Ok(false));
        (is_told && is_missing).then_some((name, build))
    };
    names.filter_map(read).collect()
}

/// One build, for creates that wait, for `paddock template ls` and for the server's log.
struct Progress {
    state: PathBuf,
    name: String,
    seen: watch::Sender<Option<FirstBuild>>,
    _lock: Option<File>,
}

impl Progress {
    fn new(state: &Path, name: &str) -> (Progress, watch::Receiver<Option<FirstBuild>>) {
        let started_at_ms = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64);
        let building = FirstBuildState::Building;
        let first = FirstBuild {
            state: building,
            step: 0,
            steps: 0,
            doing: String::new(),
            started_at_ms,
            failure: None,
        };
        let (sender, receiver) = watch::channel(Some(first.clone()));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(directory(state));
        let lock = made.and_then(|()| {
            let lock =
                File::options().write(true).create(true).truncate(false).open(place(state, name, "lock"))?;
            // A reader holds it for a moment only.
            lock.lock()?;
            Ok(lock)
        });
        let lock = lock.inspect_err(
            |error| tracing::warn!(template = name, %error, "`paddock template ls` will not show the build"),
        );
        let progress =
            Progress { state: state.to_path_buf(), name: name.into(), seen: sender, _lock: lock.ok() };
        progress.write(&first);
        tracing::info!(template = name, "a create named it first: it is built");
        (progress, receiver)
    }

    fn tell(&self, change: impl FnOnce(&mut FirstBuild)) {
        let mut told = None;
        self.seen.send_modify(|seen| {
            if let Some(build) = seen {
                change(build);
                told = Some(build.clone());
            }
        });
        told.iter().for_each(|build| self.write(build));
    }

    fn failed(&self, why: String) {
        self.tell(|build| (build.state, build.failure) = (FirstBuildState::Failed, Some(why)));
    }

    fn done(&self) {
        let _ = fs::remove_file(place(&self.state, &self.name, "json"));
        self.seen.send_replace(None);
    }

    /// A reader sees the old state or the new one, never a part.
    fn write(&self, build: &FirstBuild) {
        let written = || -> io::Result<()> {
            let mut file = tempfile::NamedTempFile::new_in(directory(&self.state))?;
            file.write_all(&serde_json::to_vec(build)?)?;
            file.persist(place(&self.state, &self.name, "json")).map(drop).map_err(|error| error.error)
        };
        if let Err(error) = written() {
            tracing::warn!(template = self.name, %error, "the state of the build is not written");
        }
    }
}

impl Watcher for Progress {
    fn event(&self, event: Event<'_>) {
        match event {
            Event::Step { number, total, what } => {
                tracing::info!(
                    template = self.name,
                    step = number,
                    of = total,
                    what,
                    "the template is being built"
                );
                self.tell(|build| (build.step, build.steps, build.doing) = (number, total, what.to_string()));
            }
            Event::Note { .. } | Event::Output { .. } | Event::Done { .. } => {}
        }
    }
}

fn text_of(files: Option<&Path>, name: &str) -> Result<String, FirstUseError> {
    if let Some(path) = files.map(|directory| directory.join(format!("{name}.toml"))) {
        let mut text = String::new();
        let read = File::open(&path).and_then(|file| file.take(LARGEST_FILE).read_to_string(&mut text));
        match read {
            Ok(_) => return Ok(text),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(source) => return Err(FirstUseError::Unreadable { path, source: Arc::new(source) }),
        }
    }
    super::shipped(name)
        .map(String::from)
        .ok_or_else(|| FirstUseError::NoFile(name.chars().take(80).collect()))
}

fn is_there(state: &Path, name: &str) -> Result<bool, FirstUseError> {
    match templates::load(state, name) {
        Err(TemplateError::Missing(_)) => Ok(false),
        // The built-in one has no file.
        Ok(policy) => Ok(name != templates::BUILT_IN || policy.image.is_some()),
        Err(error) => Err(FirstUseError::Template(Arc::new(error))),
    }
}

/// Packages of Debian belong to more users than an ordinary user has ids for.
fn needs_root(file: &BuildFile) -> bool {
    file.base.starts_with("debian:") || file.steps.iter().any(|step| matches!(step, Step::Apt { .. }))
}

/// A disk that cannot be asked is tried.
fn has_room(state: &Path) -> bool {
    rustix::fs::statvfs(state).map_or(true, |disk| disk.f_bavail.saturating_mul(disk.f_frsize) >= ROOM_BYTES)
}

fn directory(state: &Path) -> PathBuf {
    state.join("builds/first-use")
}

fn place(state: &Path, name: &str, kind: &str) -> PathBuf {
    directory(state).join(format!("{name}.{kind}"))
}

#[cfg(test)]
#[path = "first_use_tests.rs"]
mod tests;
