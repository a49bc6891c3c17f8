//! All sandboxes of one state directory: their lives, their execs, their files. `paddock serve` serves it.
//!
//! - [`create`], [`request`]: from a request to a sandbox
//! - [`awake`]: the calls that use a sandbox, and its falling asleep
//! - [`lifecycle`], [`update`], [`reaper`], [`recover`]: pause, hibernate, wake, end; time to live and idleness;
//!   recovery after a killed server; [`lost`]: sandboxes that lose their processes with those that they nest in
//! - [`patience`]: guests that do not answer
//! - [`execs`]: execs, their journals and followers
//! - [`contexts`]: interpreters that remember, and the code that runs in them
//! - [`scan`]: the check of code before it runs; [`files`]: files inside; [`ports`]: ports inside without a token of the tenant
//! - [`audit_lines`]: a timeline for its callers, with a check that it is whole
//! - [`network`]: connections out of a sandbox; [`secrets`]: values that leave it and never enter
//! - [`metrics_history`]: what sandboxes used over the last minutes
//! - [`resources`]: typed values that are kept for scripts; [`kept_secrets`]: secrets under a name
//! - [`volumes`]: directories that outlive them
//! - [`pressure`]: load is shed while memory is short
//! - [`pools`]: sandboxes that are ready before a request comes
//! - [`live_fork`]: contexts that go along into forks
//! - [`archives`]: files of the host in which files of sandboxes are kept
//! - [`memory`]: the memory of a sandbox, if its backend keeps it besides the files
//! - [`snapshots`], [`forks`], [`fork_results`], [`changes`], [`patch`], [`merge`]: snapshots, forks, changes, and bringing them back
//! - [`snapshot_settings`]: the settings that a sandbox made from a snapshot has; [`kept_settings`]: those that the snapshot keeps
//! - [`templates`]: templates that tenants build
//! - [`node`]: this server as one of many behind a gateway
//! - [`access`]: tokens, tenants, quotas
//! - [`root_rights`]: whose sandboxes may have a root that installs packages
//! - [`readiness`]: the check that a sandbox could be created now
//! - [`hosted`]: parts for work that outlives its caller
//! - [`live`], [`record`]: one sandbox in memory, and in the store; [`roster`]: all that live, by id, name and age;
//!   [`list`]: pages of them
//! - [`broken_storage`]: the disks of sandboxes take no writes any more
//! - [`clock`]: lifetimes, independent of changes to the wall clock

mod access;
mod actor;
mod archives;
mod audit;
mod audit_lines;
mod audit_outputs;
mod audit_writer;
mod awake;
mod broken_storage;
pub mod capacity;
mod changed_secrets;
mod changes;
mod clock;
mod contexts;
mod copies;
mod create;
mod error;
mod events;
mod execs;
mod files;
mod fork_results;
mod forks;
mod hosted;
mod idempotency;
mod kept_secrets;
mod kept_settings;
mod lifecycle;
mod list;
mod live;
mod live_fork;
mod lost;
mod memory;
mod merge;
mod metrics_history;
mod network;
mod node;
mod patch;
mod patience;
mod pause;
mod pools;
mod ports;
mod prepared;
mod pressure;
mod readiness;
mod reaper;
mod recent;
mod record;
mod recover;
mod request;
mod resources;
mod root_rights;
mod roster;
mod scan;
mod secrets;
mod sleep_at_ttl;
mod snapshot_holder;
mod snapshot_settings;
mod snapshots;
mod stored_execs;
mod streams;
mod templates;
mod update;
mod vm_fork;
mod volumes;

pub use access::same_secret;
pub use actor::{Actor, Admitted};
pub use audit_lines::AuditLines;
pub use audit_outputs::AuditOutputs;
pub use changed_secrets::SecretGroup;
pub use error::{FleetError, Kind, REQUEST_UNDER_WAY, STATE_IN_USE};
pub use events::EventReader;
pub use execs::{ExecInput, OutputFrom, OutputReader, Program, RawPiece, RawReader};
pub use files::{PortStream, SignedPath, Watch, WriteOptions};
pub use list::{ListFilter, ShownTemplate};
pub use paddock_builds::FirstUseOptions;
pub use paddock_records::{access::Revoked, store::CreatePlaces};
/// A program for Node whose `strip(source)` makes JavaScript of TypeScript.
pub use paddock_scripts::NODE_TYPES;
pub use pools::{LentPool, ReadyOptions};
pub use ports::Visit;
pub use recent::CreatesInMinute;
pub use root_rights::RootMayInstall;
pub use snapshot_holder::Keeps;
pub use streams::{Download, Upload};
pub use templates::{FilesUpload, FoundTemplate, NewBuild, UploadGrant};
pub use update::OwnChanges;
pub use volumes::{VolumeUpload, VolumeView};

use awake::Awake;
use live::Live;
use paddock_engine::{Engine, FindBackends, backends_of_this_build};
use paddock_model::api::{Event, SandboxState};
use paddock_records::access::{Admission, AdmissionOptions, Revocations};
use paddock_records::store::{ServerLock, ServerPhase, Store};
use paddock_records::{signing::Signer, vault::Vault};
use paddock_storage::{Storage, volumes::VolumesOptions};
use record::{Record, now_ms};
use roster::Roster;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::broadcast;

/// Runs `work` on a thread that may block.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, FleetError> + Send + 'static,
) -> Result<T, FleetError> {
    tokio::task::spawn_blocking(work).await.map_err(|error| FleetError::internal(&error))?
}

/// The most looks, ten milliseconds apart, until the last tasks have ended.
const CLOSING_TRIES: u32 = 3000;
/// The events that a slow reader may be behind before it loses some.
const EVENTS: usize = 4096;
/// The most looks of a call at a sandbox that other calls pause, wake or hibernate meanwhile.
const LOOKS: u32 = 10;
/// A change of a sandbox's state takes less. Writing the memory of a large VM takes longest.
const UNTIL_CHANGED: Duration = Duration::from_secs(120);

/// The most adoptions at one time. Each may hold a thread for some seconds, and other tasks need the runtime's threads
/// too.
const ADOPTIONS: usize = 128;
/// The bytes of outputs in the audit, unless the owner sets another number.
const AUDIT_OUTPUTS: u64 = 1 << 30;

/// With some 40 KiB for each they take 4 GiB.
const KEEP_ENDED: u32 = 100_000;

#[derive(Debug, Clone)]
pub struct FleetOptions {
    pub state: PathBuf,
    /// The time to live of a sandbox whose creator names none.
    pub default_ttl: Duration,
    /// The most creates that wait for room, over all tenants.
    pub queue: usize,
    /// The registries that tenants may name, as host or host:port; empty: all that have a public address.
    pub registries: Vec<String>,
    /// The key that secrets are encrypted with; by default `secrets.key` of the state directory.
    pub secrets_key: Option<PathBuf>,
    /// Bytes that the outputs in the audit may take, of all sandboxes together; 0: none are kept.
    pub audit_outputs: u64,
    /// The store of volumes.
    pub volumes: VolumesOptions,
    /// The bounds of sandboxes that are kept ready for expected creates.
    pub ready: ReadyOptions,
    /// Bytes of memory that are kept free: below that, load is shed. `None`: a part of the total; 0: none is kept free.
    pub keep_free: Option<u64>,
    /// The most ended sandboxes that are remembered.
    pub keep_ended: u32,
    /// Templates that are built when a create names them first.
    pub first_use: FirstUseOptions,
    /// The tenants whose sandboxes may have a root that installs packages.
    pub root_may_install: RootMayInstall,
    /// True if callers may open ports of their sandboxes to everybody.
    pub public_ports: bool,
    pub backends: FindBackends,
    /// The number of this server among those behind one gateway.
    pub node: Option<paddock_model::NodeNumber>,
}

impl FleetOptions {
    pub fn new(state: PathBuf) -> FleetOptions {
        FleetOptions {
            state,
            default_ttl: Duration::from_secs(3600),
            queue: 1000,
            registries: Vec::new(),
            secrets_key: None,
            audit_outputs: AUDIT_OUTPUTS,
            volumes: VolumesOptions::default(),
            ready: ReadyOptions::OFF,
            keep_free: Some(0),
            keep_ended: KEEP_ENDED,
            first_use: FirstUseOptions::default(),
            root_may_install: RootMayInstall::default(),
            public_ports: false,
            backends: backends_of_this_build,
            node: None,
        }
    }
}

#[derive(Clone)]
pub struct Fleet(Arc<Inner>);

struct Inner {
    options: FleetOptions,
    engine: Arc<Engine>,
    node: Arc<node::Node>,
    store: Store,
    storage: Storage,
    audit_writer: audit_writer::AuditWriter,
    admission: Admission,
    revocations: Revocations,
    signer: Signer,
    vault: Arc<Vault>,
    live: Roster,
    events: broadcast::Sender<(String, Event)>,
    counters: Counters,
    /// Held during the check that no sandbox needs the files that others began with.
    letting_go: Mutex<()>,
    closing: AtomicBool,
    steady: clock::Steady,
    pools: pools::Pools,
    shelters: pools::Shelters,
    volumes: paddock_volumes::Volumes,
    /// Held while a version of a volume is written out.
    writing_out: tokio::sync::Mutex<()>,
    /// Calls that change one volume wait for each other.
    volume_turns: volumes::Turns,
    readiness: readiness::Readiness,
    pressure: pressure::Pressure,
    /// Bounds the guests that are asked at one time for a sign of life.
    adoptions: tokio::sync::Semaphore,
    /// True once the breakage has been logged.
    storage_is_broken: AtomicBool,
    begin_anew: tokio::sync::Notify,
    templates: templates::Templates,
    first_use: Arc<paddock_builds::FirstUse>,
}

#[derive(Default)]
struct Counters {
    created: AtomicU64,
    create_failed: AtomicU64,
    execs: AtomicU64,
    output_bytes: AtomicU64,
    recent: recent::Recent,
}

impl Counters {
    fn count_create(&self, succeeded: bool) {
        let total = if succeeded { &self.created } else { &self.create_failed };
        total.fetch_add(1, Ordering::Relaxed);
        self.recent.count(record::now_ms(), succeeded);
    }
}

/// Numbers for /metrics.
#[derive(Debug, Clone, Default)]
pub struct Metrics {
    pub creating: u64,
    pub running: u64,
    pub paused: u64,
    pub hibernated: u64,
    pub created_total: u64,
    pub create_failed_total: u64,
    pub execs_total: u64,
    pub output_bytes_total: u64,
    pub waiting_creates: u64,
    /// Sandboxes that were hibernated for lack of memory.
    pub shed_total: u64,
    pub memory: Option<MemoryMetrics>,
}

/// The memory part of `Metrics`.
#[derive(Debug, Clone)]
pub struct MemoryMetrics {
    pub available_bytes: u64,
    /// Below this many available bytes load is shed; 0: never.
    pub keep_free_bytes: u64,
}

impl Fleet {
    /// Finds the sandboxes of an earlier server, and goes on with them.
    pub async fn open(options: FleetOptions) -> Result<Fleet, FleetError> {
        let store = Store::open(&options.state)?;
        Fleet::open_over(options, store).await
    }

    /// The same for a caller that has the state directory's lock already.
    pub async fn open_locked(options: FleetOptions, lock: ServerLock) -> Result<Fleet, FleetError> {
        let store = Store::open_locked(&options.state, lock)?;
        Fleet::open_over(options, store).await
    }

    async fn open_over(options: FleetOptions, store: Store) -> Result<Fleet, FleetError> {
        let state = options.state.clone();
        let first_use = paddock_builds::FirstUse::open(&state, options.first_use.clone(), options.backends)?;
        let storage = broken_storage::open_storage(&state, &store, options.backends)?;
        let signer = Signer::open(&store).map_err(|error| FleetError::storage(&error))?;
        let key = options.secrets_key.clone().unwrap_or_else(|| state.join("secrets.key"));
        let vault = Arc::new(Vault::open(&key).map_err(|error| FleetError::storage(&error))?);
        let audit =
            paddock_records::audit::Audit::open(&state).map_err(|error| FleetError::storage(&error))?;
        let outputs = paddock_records::audit::Outputs::open(&state, vault.clone(), options.audit_outputs)
            .map_err(|error| FleetError::storage(&error))?;
        let audit_writer = audit_writer::AuditWriter::start(state.clone(), audit, outputs)
            .map_err(|error| FleetError::internal(&error))?;
        let volumes = paddock_storage::volumes::open(&state, &options.volumes)?;
        let steady = clock::Steady::open(&store);
        let node = Arc::new(node::Node::open(options.node, &store)?);
        let inner = Arc::new(Inner {
            engine: Arc::new(Engine::with_backends(&state, options.backends)),
            node,
            admission: Admission::new(AdmissionOptions {
                waiting: options.queue,
                ..AdmissionOptions::default()
            }),
            revocations: Revocations::default(),
            options,
            store,
            storage,
            audit_writer,
            signer,
            vault,
            live: Roster::default(),
            events: broadcast::channel(EVENTS).0,
            counters: Counters::default(),
            letting_go: Mutex::default(),
            closing: false.into(),
            steady,
            pools: pools::Pools::default(),
            shelters: pools::Shelters::default(),
            volumes,
            writing_out: tokio::sync::Mutex::default(),
            volume_turns: volumes::Turns::default(),
            readiness: readiness::Readiness::default(),
            pressure: pressure::Pressure::default(),
            adoptions: tokio::sync::Semaphore::new(ADOPTIONS),
            storage_is_broken: false.into(),
            begin_anew: tokio::sync::Notify::new(),
            templates: templates::Templates::default(),
            first_use,
        });
        let fleet = Fleet(inner);
        let recovered = fleet.recover().await;
        let recovered = recovered.and_then(|()| fleet.recover_builds()).and_then(|()| fleet.restore_pools());
        if let Err(error) = recovered {
            // Sandboxes that were taken over run on, and the storage is released.
            fleet.close().await;
            return Err(error);
        }
        reaper::start(&fleet);
        pressure::start(&fleet);
        volumes::start_upkeep(&fleet);
        metrics_history::start(&fleet);
        Ok(fleet)
    }

    /// Closes the fleet: no more requests come. Sandboxes keep running, for the next server to find.
    ///
    /// Precondition: no other clone of this fleet is held any more; a held one keeps the storage mounted.
    pub async fn close(self) {
        self.0.closing.store(true, Ordering::Relaxed);
        self.abort_builds();
        self.0.first_use.abort();
        self.close_pools().await;
        let mut used = false;
        for live in self.0.all() {
            let _guard = live.transition.lock().await;
            // Its processes exist, though no connection has reached them.
            used |= live.is_silent();
            if let Some(inside) = live.set_running(None) {
                self.note_traffic_now(&live);
                inside.leave();
                used = true;
            }
        }
        if used {
            return tracing::info!("sandboxes live: the storage stays mounted");
        }
        let mut inner = self.0;
        for _ in 0..CLOSING_TRIES {
            inner = match Arc::try_unwrap(inner) {
                Ok(inner) => {
                    match inner.storage.close() {
                        Ok(true) => {}
                        Ok(false) => tracing::warn!("somebody uses the storage: it stays mounted"),
                        Err(error) => tracing::warn!(%error, "the storage stays mounted"),
                    }
                    return;
                }
                Err(inner) => inner,
            };
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tracing::warn!("something is still under way: the storage stays mounted");
    }

    /// Writes a note beside the lock of the state directory, for clients and for the next server.
    pub fn note_phase(&self, phase: ServerPhase, addresses: &[String]) {
        self.0.store.note_phase(phase, addresses);
    }

    /// Returns when everything that happened until now is in its timeline.
    pub async fn written(&self) {
        self.0.audit_writer.written().await;
    }

    /// Checks that the fleet takes requests, and that its database answers. [`Fleet::can_create`] looks closer.
    pub fn ready(&self) -> Result<(), FleetError> {
        if self.0.closing.load(Ordering::Relaxed) {
            return Err(FleetError::new(Kind::Unavailable, "unavailable", "the server is stopping"));
        }
        self.0.store.check_in_place()?;
        self.0.storage.check_writable().map_err(|error| FleetError::storage(&error))?;
        self.0.store.setting("ready").map(drop).map_err(FleetError::from)
    }

    pub fn state_dir(&self) -> &std::path::Path {
        &self.0.options.state
    }

    /// The number of living sandboxes.
    pub fn live_count(&self) -> usize {
        self.0.live.len()
    }

    pub fn metrics(&self) -> Metrics {
        let counters = &self.0.counters;
        let in_state = |state| self.0.live.in_state(state);
        Metrics {
            creating: in_state(SandboxState::Creating),
            running: in_state(SandboxState::Running),
            paused: in_state(SandboxState::Paused),
            hibernated: in_state(SandboxState::Hibernated),
            created_total: counters.created.load(Ordering::Relaxed),
            create_failed_total: counters.create_failed.load(Ordering::Relaxed),
            execs_total: counters.execs.load(Ordering::Relaxed),
            output_bytes_total: counters.output_bytes.load(Ordering::Relaxed),
            waiting_creates: u64::from(self.0.admission.waiting()),
            shed_total: self.0.pressure.hibernated_total(),
            memory: pressure::Memory::now().map(|memory| MemoryMetrics {
                available_bytes: memory.available,
                keep_free_bytes: memory.mark(self.0.options.keep_free),
            }),
        }
    }

    /// The creates of the last hour, minute by minute.
    pub fn recent_creates(&self) -> Vec<CreatesInMinute> {
        self.0.counters.recent.read(record::now_ms())
    }

    /// A living sandbox of the actor's, by id or name. Every other case looks the same to the caller: not found.
    fn find(&self, actor: &Actor, id: &str) -> Result<Arc<Live>, FleetError> {
        if let Some(live) = self.living(actor, id) {
            return Ok(live);
        }
        if let Some(record) = self.ended(actor, id)? {
            return Err(has_ended(record.id.as_str()));
        }
        let shown: String = id.chars().take(80).collect();
        let message = format!("there is no sandbox `{}`", shown.escape_debug());
        Err(FleetError::new(Kind::NotFound, "sandbox_not_found", message)
            .hint("`paddock ps` lists those there are"))
    }

    fn living(&self, actor: &Actor, id: &str) -> Option<Arc<Live>> {
        let visible = |live: &Arc<Live>| {
            (actor.owner || live.tenant == actor.tenant) && live.record().stands_for.is_none()
        };
        if let Some(live) = self.0.live.get(id).filter(visible) {
            return Some(live);
        }
        if id.starts_with("sb-") {
            return None;
        }
        self.0.live.named(&actor.tenant, id).filter(visible)
    }

    /// Its processes. A hibernated sandbox is woken, and one that the fleet itself paused is resumed. If it just falls
    /// asleep, this waits for that first.
    async fn running(&self, live: &Arc<Live>) -> Result<Awake, FleetError> {
        for _ in 0..LOOKS {
            let (state, by_itself) = live.record().awaits_use();
            let changed = match state {
                SandboxState::Running => match live.stay_awake() {
                    Some(awake) => return Ok(awake),
                    None if live.is_silent() => self.until_it_answers(live).await,
                    // Another task puts it to sleep, ends it, or restores its lost connection.
                    None => self.changed(live).await,
                },
                SandboxState::Hibernated => self.rouse(live).await,
                SandboxState::Paused if by_itself => self.rouse(live).await,
                SandboxState::Paused => {
                    return Err(FleetError::new(
                        Kind::Conflict,
                        "wrong_state",
                        format!("sandbox {} is paused", live.id),
                    )
                    .hint("resume it first"));
                }
                SandboxState::Creating => self.changed(live).await,
                SandboxState::Ended => return Err(has_ended(&live.id)),
            };
            // Another call may have changed its state in between: the present state decides.
            if let Err(error) = changed
                && live.record().state == state
            {
                return Err(error);
            }
        }
        let message = format!("the guest of sandbox {} does not answer", live.id);
        Err(FleetError::new(Kind::Unavailable, "guest_lost", message).hint("try again in a moment"))
    }

    /// Waits until no task changes its state any more.
    async fn changed(&self, live: &Live) -> Result<(), FleetError> {
        let changed = tokio::time::timeout(UNTIL_CHANGED, live.transition.lock()).await;
        changed.map(drop).map_err(|_| {
            let seconds = UNTIL_CHANGED.as_secs();
            let message = format!("the state of sandbox {} has been changing for {seconds} s", live.id);
            FleetError::new(Kind::Unavailable, "unavailable", message).hint("try again in a moment")
        })
    }
}

fn has_ended(id: &str) -> FleetError {
    FleetError::new(Kind::Gone, "sandbox_ended", format!("sandbox {id} has ended"))
        .hint("GET of the sandbox says how and why, for a day")
}

impl Inner {
    /// All living sandboxes. Not for the path of a request: there may be 20,000.
    fn all(&self) -> Vec<Arc<Live>> {
        self.live.all()
    }

    fn add(&self, live: Arc<Live>) {
        self.live.add(live);
    }

    fn remove(&self, id: &str) {
        self.live.remove(id);
    }

    /// Reports a change of its state, in its timeline and to the event readers.
    fn announce(&self, live: &Live, change: &str) {
        self.announce_because(live, change, None);
    }

    fn announce_because(&self, live: &Live, change: &str, reason: Option<&str>) {
        audit::lifecycle(self, &live.id, change, reason);
        self.tell(live, change, reason.map(String::from));
    }

    fn tell(&self, live: &Live, kind: &str, detail: Option<String>) {
        if self.events.receiver_count() > 0 {
            let event = Event { at_ms: now_ms(), sandbox: live.id.clone(), kind: kind.into(), detail };
            let _ = self.events.send((live.tenant.clone(), event));
        }
    }

    fn save_exec(&self, sandbox: &str, record: &execs::ExecRecord) -> Result<(), FleetError> {
        let body = serde_json::to_string(record).map_err(|error| FleetError::internal(&error))?;
        Ok(self.store.put_exec(sandbox, record.number, &body)?)
    }

    /// Writes a record as it is now.
    fn save(&self, record: &Record) -> Result<(), FleetError> {
        let body = self.save_for_a_moment(record)?;
        self.audit_writer.copy(record, body);
        Ok(())
    }

    /// The same for a record that is changed again at once: the copy stays as it was.
    fn save_for_a_moment(&self, record: &Record) -> Result<String, FleetError> {
        let body = serde_json::to_string(record).map_err(|error| FleetError::internal(&error))?;
        let ended = record.end.as_ref().map(|end| end.at_ms);
        self.store.update_sandbox(record.id.as_str(), record.state, ended, &body)?;
        Ok(body)
    }
}
