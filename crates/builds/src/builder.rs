//! The order of a build: the base, the steps, the template. Finished layers come from the cache. If a step fails, the
//! layers made before it stay for the next build, and the template is unchanged.

use super::base::{self, Base, Login};
use super::client_step::{self, ClientStep, Unpack};
use super::copied::{self, Copied};
use super::error::BuildError;
use super::fetch::{self, Lent, Variables};
use super::file::{BuildFile, Step};
use super::records::{self, LayerRecord, Records, TemplateRecord};
use super::run::{self, Event, Failed, Ground, Watcher, Work};
use super::step::Key;
use super::{apt, debian, uploaded};
use paddock_engine::certificates::Trust;
use paddock_engine::{Engine, EngineError, FindBackends};
use paddock_images::digest::Digest;
use paddock_images::share::Sharing;
use paddock_images::{BUILT, ImageStore, RegistryReach, built};
use paddock_model::{Network, Policy, Root, User};
use paddock_settings::Surroundings;
use paddock_settings::templates::{self, TemplateError};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// The request for one build.
pub struct Build<'a> {
    pub state: &'a Path,
    pub file: &'a BuildFile,
    /// The build file's directory; `None` for a build file that comes with Paddock.
    pub directory: Option<&'a Path>,
    pub target: Target<'a>,
    pub use_cache: bool,
    /// `Some(true)`: steps that fetch get all certificates that this host trusts, and the build fails if they cannot be
    /// read. `None`: the template's own setting decides.
    pub host_certs: Option<bool>,
    /// The caller's variables; none for the build of a tenant, to whom the host's proxies and indexes are not lent.
    pub caller: Option<&'a Variables>,
    /// The network of steps that fetch.
    pub network: &'a Network,
    /// `Some`: the base is an image of a registry within this reach, and never a path of the host.
    pub reach: Option<&'a RegistryReach>,
    /// `Some`, within a reach alone: the registry of the base is asked with these credentials.
    pub login: Option<&'a Login>,
    /// The backends whose sandboxes the steps may run in.
    pub backends: FindBackends,
}

/// The place of the result.
#[derive(Debug, Clone, Copy)]
pub enum Target<'a> {
    /// A template of the state directory.
    ///
    /// `replace`: a template that was written by hand may be replaced. A template that was built is always replaced.
    Template { name: &'a str, replace: bool },
    /// The layers are kept under this id until [`super::free`]; the caller keeps the settings.
    Kept { id: &'a str },
}

#[derive(Debug, Clone)]
pub struct Built {
    /// The settings of the template, with its image.
    pub settings: Policy,
    pub image: String,
    pub layers: Vec<BuiltLayer>,
    /// The size of the whole image.
    pub bytes: u64,
    pub took: Duration,
}

#[derive(Debug, Clone)]
pub struct BuiltLayer {
    pub step: String,
    pub root: String,
    pub cached: bool,
    pub took: Duration,
    pub bytes: u64,
}

/// Dropping the future ends the running step and removes its unfinished layer.
pub async fn build(build: &Build<'_>, watcher: &dyn Watcher) -> Result<Built, BuildError> {
    let started = Instant::now();
    check(build)?;
    let engine = Engine::with_backends(build.state, build.backends);
    let store = ImageStore::open(&build.state.join("images"))?;
    let records = Records::open(build.state)?;
    let _guard = blocking(&store, |store| records::lock(store, None)).await?;
    let ground = Ground {
        engine: &engine,
        store: &store,
        limits: &build.file.limits,
        watcher,
        network: build.network,
        state: build.state,
    };
    let total = build.file.steps.len() + 1;
    let mut making = Making { build, ground, records, total, layers: Vec::new(), sources: String::new() };
    let (policy, lent) = making.base().await?;
    for (index, step) in build.file.steps.iter().enumerate() {
        making.step(index + 2, step, &policy.env, &lent).await?;
    }
    making.template(policy, started)
}

/// Finds every mistake that can be known before anything is done.
fn check(build: &Build<'_>) -> Result<(), BuildError> {
    let policy = &build.file.settings;
    paddock_settings::resolve(
        std::slice::from_ref(policy),
        Surroundings {
            state_dir: build.state,
            home: build.caller.and_then(|caller| caller.get("HOME")).map(Path::new),
            backends: build.backends,
        },
    )?;
    let copies = build.file.steps.iter().any(|step| matches!(step, Step::Copy { .. }));
    if copies && build.directory.is_none() {
        return Err(BuildError::CopyOfShipped);
    }
    let installs = build.file.steps.iter().any(|step| matches!(step, Step::Apt { .. }));
    if installs && !rustix::process::geteuid().is_root() {
        return Err(BuildError::NeedsRoot { what: "a step with `apt`" });
    }
    let (name, replace) = match build.target {
        Target::Template { name, replace } => (name, replace),
        Target::Kept { id } => {
            return Ok(paddock_model::check_template_name(id).map_err(TemplateError::from)?);
        }
    };
    let there = templates::list(build.state)?.into_iter().find(|t| t.name == name && !t.built_in);
    let image = there.as_ref().and_then(|there| there.settings.as_ref().ok()?.image.clone());
    match there {
        Some(_) if records::record_of(build.state, name, image.as_deref())?.is_some() => Ok(()),
        Some(_) if !replace => Err(TemplateError::Exists(name.into()).into()),
        _ => Ok(paddock_model::check_template_name(name).map_err(TemplateError::from)?),
    }
}

struct Making<'a> {
    build: &'a Build<'a>,
    ground: Ground<'a>,
    records: Records,
    total: usize,
    /// The layers so far, the base first.
    layers: Vec<(Digest, BuiltLayer)>,
    /// The list of package sources; empty if the base has its own.
    sources: String,
}

impl Making<'_> {
    /// Makes the base. Returns the base's own settings below those of the file, and the loans for steps that fetch.
    async fn base(&mut self) -> Result<(Policy, Lent), BuildError> {
        let what = format!("base {}", self.build.file.base);
        self.ground.watcher.event(Event::Step { number: 1, total: self.total, what: &what });
        let (file, started) = (self.build.file, Instant::now());
        let found = match (self.build.login, self.build.reach) {
            (Some(login), Some(reach)) => {
                base::find_with_login(&self.ground, &file.base, reach, login).await?
            }
            (_, reach) => base::find(&self.ground, &file.base, self.build.directory, reach).await?,
        };
        let origins = match &found {
            Base::Debian { suite } => apt::origins(suite, file.mirror.as_deref()),
            Base::Image { .. } => Vec::new(),
        };
        if let Base::Debian { .. } = found {
            debian::check_host(&file.base, &origins)?;
        }
        self.sources = apt::list(&origins, Path::new(fetch::LENT));
        let work = self.ground.store.shared().directories.temporary()?;
        let lent = fetch::lend(work, &origins, self.build.caller, self.certificates()?)?;
        let mut settings = Policy::default();
        match found {
            Base::Debian { suite } => {
                let key = debian::key(&suite, &self.sources);
                let records = self.records.clone();
                self.layer(1, &what, (key, false), started, async |ground, root| {
                    debian::make(ground, &records, &suite, &lent, root).await
                })
                .await?;
            }
            Base::Image { image, key, sharing, private } => {
                settings = Policy {
                    env: image.environment.clone(),
                    user: image.user.clone(),
                    cwd: image.cwd.clone(),
                    command: match self.build.target {
                        Target::Template { .. } => image.command.clone(),
                        // Only the start command of a client's build is started in its sandboxes.
                        Target::Kept { .. } => Vec::new(),
                    },
                    ..Default::default()
                };
                self.layer(1, &what, (key, false), started, async |ground, root| {
                    run::adopt(ground.store, root, &image.root, sharing).await?;
                    Ok(0)
                })
                .await?;
                // An image has many files, whose removal would hold up this thread's other work.
                let _ = tokio::task::spawn_blocking(move || drop(private)).await;
            }
        }
        Ok((settings.overlaid_by(file.settings.clone()), lent))
    }

    /// The host's certificates, if the caller or the build file asked for them.
    fn certificates(&self) -> Result<Option<Vec<u8>>, BuildError> {
        let asked = self.build.host_certs.or(self.build.file.settings.host_certs);
        let trust = Trust { state: self.build.state, host_certs: true };
        let bundle = asked.unwrap_or(false).then(|| trust.bundle(None)).transpose();
        Ok(bundle.map_err(EngineError::from)?)
    }

    async fn step(
        &mut self,
        number: usize,
        step: &Step,
        env: &BTreeMap<String, String>,
        lent: &Lent,
    ) -> Result<(), BuildError> {
        let (what, started) = (step.shown(), Instant::now());
        self.ground.watcher.event(Event::Step { number, total: self.total, what: &what });
        if let Step::Client(ClientStep::Setting { .. }) = step {
            return Ok(());
        }
        let below = self.top()?;
        let path = self.path(&below)?;
        let (copied, given_away) = self.copied(step, &path).await?;
        let digest = copied.as_ref().map(|copied| copied.digest.clone());
        let key = step.key(&below, env, digest.as_ref(), &self.sources);
        let mut programs = step.programs();
        if let Step::Client(ClientStep::Unpack(Unpack { owner: Some(owner), .. })) = step {
            programs.extend(client_step::owning(owner, &given_away));
        }
        let own = match step {
            Step::Client(step) => step.surroundings(),
            _ => None,
        };
        let mut env = env.clone();
        env.extend(own.map(|own| own.env.clone()).unwrap_or_default());
        let work = Work {
            root: Root::Directory { path: path.clone() },
            programs,
            env: &env,
            lent: step.fetches().then_some(lent),
            scratch: step.scratch(),
            copied,
            user: own.map_or(User::Installer, |own| own.user.user()),
            cwd: own.map_or("/", |own| &own.cwd),
        };
        if let Step::Client(ClientStep::Check(_)) = step {
            let done = self.ground.perform(work).await;
            return done.map(drop).map_err(|failed| self.told(number, &what, failed));
        }
        let force = matches!(step, Step::Client(step) if step.force());
        self.layer(number, &what, (key, force), started, async move |ground, root| {
            let done = ground.perform(work).await?;
            Ok(done.publish(ground, root, Some((path, Sharing::Links))).await?)
        })
        .await
    }

    /// The files that a step copies over this root, and the paths inside that get the owner which the step names.
    async fn copied(&self, step: &Step, root: &Path) -> Result<(Option<Copied>, Vec<String>), BuildError> {
        let packed = match step {
            Step::Copy { from, to } => {
                let directory = self.build.directory.ok_or(BuildError::CopyOfShipped)?.to_path_buf();
                let (from, to) = (from.clone(), to.clone());
                let pack = move || copied::pack(&directory, &from, &to).map(|copied| (copied, Vec::new()));
                tokio::task::spawn_blocking(pack).await
            }
            Step::Client(ClientStep::Unpack(unpack)) => {
                let Unpack { archive, from, to, mode, .. } = unpack.clone();
                let there = base::has_directory(root, &to);
                let lay = move || uploaded::lay(&archive, &from, &to, there, mode);
                tokio::task::spawn_blocking(lay).await.map(|laid| laid.map(|laid| (laid.copied, laid.paths)))
            }
            _ => return Ok((None, Vec::new())),
        };
        let (copied, paths) = packed.unwrap_or_else(|error| Err(lost(error)))?;
        Ok((Some(copied), paths))
    }

    /// Takes a layer from the cache, or makes it now. A second build that wants the same layer waits here for the
    /// first.
    async fn layer(
        &mut self,
        number: usize,
        what: &str,
        (key, force): (Digest, bool),
        started: Instant,
        make: impl AsyncFnOnce(&Ground<'_>, &Digest) -> Result<u64, Failed>,
    ) -> Result<(), BuildError> {
        let name = format!("build-{}", key.hex());
        let _lock =
            blocking(self.ground.store, move |store| Ok(store.shared().directories.lock(&name)?)).await?;
        let known = if self.build.use_cache && !force { self.cached(&key)? } else { None };
        let (cached, root, bytes) = match known {
            Some((root, bytes)) => (true, root, bytes),
            None => {
                let root = self.fresh(&key)?;
                // The record comes first: if the build is killed from here on, it leaves no root without a record.
                let mut record = LayerRecord { step: what.into(), made_ms: now(), bytes: 0 };
                self.records.note_layer(&root, &record)?;
                record.bytes = match make(&self.ground, &root).await {
                    Ok(bytes) => bytes,
                    Err(failed) => {
                        built::remove(self.ground.store.shared(), &root)?;
                        self.records.forget_layer(&root)?;
                        return Err(self.told(number, what, failed));
                    }
                };
                self.records.note_layer(&root, &record)?;
                self.records.note_root(&key, &root)?;
                (false, root, record.bytes)
            }
        };
        let took = started.elapsed();
        let milliseconds = took.as_millis() as u64;
        let total = self.total;
        self.ground.watcher.event(Event::Done { number, total, what, cached, milliseconds, bytes });
        let layer = BuiltLayer { step: what.into(), root: root.hex().into(), cached, took, bytes };
        self.layers.push((root, layer));
        Ok(())
    }

    fn told(&self, number: usize, what: &str, failed: Failed) -> BuildError {
        match failed {
            Failed::Build(error) => error,
            Failed::Step(why, output) => {
                BuildError::Step { number, total: self.total, what: what.into(), why, output }
            }
        }
    }

    fn cached(&self, key: &Digest) -> Result<Option<(Digest, u64)>, BuildError> {
        let Some(root) = self.records.root_of(key)? else { return Ok(None) };
        let there = self.ground.store.shared().directories.root(&root)?.is_some();
        let record = self.records.layer(&root)?.filter(|_| there);
        Ok(record.map(|record| (root, record.bytes)))
    }

    /// A name that no root has: the key's own, or a random one if the root of that name must not be used any more.
    fn fresh(&self, key: &Digest) -> Result<Digest, BuildError> {
        let directories = &self.ground.store.shared().directories;
        if directories.root(key)?.is_none() {
            return Ok(key.clone());
        }
        let mut another = Key::new("again");
        another.add(key.hex()).add(&paddock_engine::random()?.to_string());
        Ok(another.finish())
    }

    fn top(&self) -> Result<Digest, BuildError> {
        let last = self.layers.last().map(|(root, _)| root.clone());
        last.ok_or_else(|| lost("there is no base"))
    }

    fn path(&self, root: &Digest) -> Result<PathBuf, BuildError> {
        let found = self.ground.store.shared().directories.root(root)?;
        found.map(|root| root.path).ok_or_else(|| lost("a layer has gone"))
    }

    fn template(self, mut policy: Policy, started: Instant) -> Result<Built, BuildError> {
        let top = self.top()?;
        let image = format!("{BUILT}{}", top.hex());
        policy.image = Some(image.clone());
        let bytes = size(&self.path(&top)?).unwrap_or(0);
        let (roots, layers): (Vec<_>, Vec<_>) = self.layers.into_iter().unzip();
        let name = match self.build.target {
            Target::Template { name, .. } => {
                templates::save(self.build.state, name, &policy, true)?;
                name
            }
            Target::Kept { id } => id,
        };
        let record = TemplateRecord { built_ms: now(), bytes, image: image.clone(), layers: roots };
        self.records.note_template(name, &record)?;
        Ok(Built { settings: policy, image, layers, bytes, took: started.elapsed() })
    }
}

/// The bytes of a root on the disk; a file with several names counts once.
fn size(root: &Path) -> std::io::Result<u64> {
    use std::os::unix::fs::MetadataExt;
    let (mut bytes, mut seen, mut left) = (0, std::collections::HashSet::new(), vec![root.to_path_buf()]);
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory)? {
            let entry = entry?;
            let found = entry.metadata()?;
            if found.is_dir() {
                left.push(entry.path());
            } else if !seen.insert(found.ino()) {
                continue;
            }
            bytes += found.blocks() * 512;
        }
    }
    Ok(bytes)
}

async fn blocking<T: Send + 'static>(
    store: &ImageStore,
    work: impl FnOnce(&ImageStore) -> Result<T, BuildError> + Send + 'static,
) -> Result<T, BuildError> {
    let store = store.clone();
    tokio::task::spawn_blocking(move || work(&store)).await.unwrap_or_else(|error| Err(lost(error)))
}

fn lost(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> BuildError {
    BuildError::Io { path: "the build".into(), source: std::io::Error::other(error) }
}

fn now() -> u64 {
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |elapsed| elapsed.as_millis() as u64)
}
