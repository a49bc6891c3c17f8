//! A build from its request to its end. It runs in a task of the server; a server that ends takes its builds along.

use super::super::capacity::free_bytes;
use super::super::record::now_ms;
use super::super::request::{invalid, shorten};
use super::super::{Actor, Fleet, FleetError, Kind, blocking};
use super::{DEFAULT_TAG, ID, MOST_TEMPLATES, TemplateBody, check_tag};
use paddock_builds::{Build, BuildFile, Built, Log, Login, Parent, Recipe, Target, uploads};
use paddock_images::{Credentials, RegistryReach};
use paddock_model::api::{
    BuildFailure, BuildLog, BuildLogEntry, BuildMaker, BuildState, BuildTemplate, LogLevel, RegistryLogin,
    TemplateBuild,
};
use paddock_model::net::{NetLayer, NetSetting};
use paddock_model::{Network, NodeNumber, Policy, check_template_name};
use paddock_records::access::Need;
use paddock_records::store::{TemplateBuildRow, TemplateRow};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::AbortHandle;

/// Unfinished builds of one tenant.
const MOST_UNFINISHED: usize = 10;
/// Builds of a template whose state is kept, besides those with a tag.
const KEPT_BUILDS: usize = 10;
/// A build that was asked for and got no steps within this time is forgotten.
const UNDESCRIBED_MS: u64 = 3_600_000;
const MOST_LOG_ENTRIES: usize = 1000;
/// Bytes of a password for a registry.
const LONGEST_PASSWORD: usize = 16 << 10;
/// Every name and every public address: steps of strangers reach nothing else.
const PUBLIC: [&str; 3] = ["*:*", "0.0.0.0/0:*", "[::]/0:*"];

/// The request for a build whose steps come later.
#[derive(Debug, Clone, Default)]
pub struct NewBuild {
    /// `NAME` or `NAME:TAG`.
    pub name: String,
    pub tags: Vec<String>,
    pub cpus: Option<f64>,
    pub memory_bytes: Option<u64>,
    pub min_free_disk_bytes: Option<u64>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct BuildBody {
    state: BuildState,
    name: String,
    tags: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cpus: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    memory_bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    min_free_disk_bytes: Option<u64>,
    /// True once its steps are known.
    #[serde(default)]
    described: bool,
    /// True if steps came that could not be.
    #[serde(default)]
    refused: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    finished_ms: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    failure: Option<BuildFailure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    /// The settings of the finished template; none once its image was freed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settings: Option<Policy>,
}

/// A build that runs, or waits for its turn.
pub(in super::super) struct Running {
    log: Arc<Log>,
    task: Option<AbortHandle>,
}

/// A sandbox cannot write more than the disk below all of them has room for.
fn check_free_disk(state: &Path, wanted: Option<u64>) -> Result<(), FleetError> {
    let (Some(wanted), Some(free)) = (wanted, free_bytes(state)) else {
        return Ok(());
    };
    if wanted <= free {
        return Ok(());
    }
    let message =
        format!("min_free_disk_bytes: {wanted} are more than the {free} that this server's disk has free");
    Err(invalid(message).hint("ask for less, or for more room on the server"))
}

impl Fleet {
    /// Notes a build: its template is made if the tenant has none of that name. Its steps come with [`Fleet::start_build`].
    pub fn request_build(&self, actor: &Actor, new: NewBuild) -> Result<TemplateBuild, FleetError> {
        let (name, tag) = match new.name.split_once(':') {
            Some((name, tag)) => (name, Some(tag.to_string())),
            None => (new.name.as_str(), None),
        };
        check_template_name(name).map_err(|error| invalid(error.to_string()))?;
        if name.starts_with(ID) {
            return Err(invalid(format!("template name `{name}` looks like an id"))
                .hint(format!("choose another beginning than `{ID}`")));
        }
        let mut tags: Vec<String> = tag.into_iter().chain(new.tags).collect();
        tags.sort();
        tags.dedup();
        if tags.is_empty() {
            tags.push(DEFAULT_TAG.into());
        }
        tags.iter().try_for_each(|tag| check_tag(tag))?;
        check_free_disk(self.state_dir(), new.min_free_disk_bytes)?;
        let _guard = self.0.templates.changing();
        let template = self.template_or_new(actor, name)?;
        let body = BuildBody {
            state: BuildState::Waiting,
            name: name.into(),
            tags,
            cpus: new.cpus,
            memory_bytes: new.memory_bytes,
            min_free_disk_bytes: new.min_free_disk_bytes,
            described: false,
            refused: false,
            finished_ms: None,
            failure: None,
            bytes: None,
            settings: None,
        };
        let row = TemplateBuildRow {
            id: new_uuid(self.0.node.number())?,
            template,
            tenant: actor.tenant.clone(),
            finished: false,
            created_ms: now_ms(),
            body: to_json(&body)?,
        };
        if !self.0.store.insert_template_build(&row, MOST_UNFINISHED)? {
            self.forget_undescribed(&actor.tenant)?;
            if !self.0.store.insert_template_build(&row, MOST_UNFINISHED)? {
                let message = format!("tenant {} has {MOST_UNFINISHED} unfinished builds", actor.tenant);
                let kind = Kind::TooMany { retry_after_seconds: 5 };
                return Err(
                    FleetError::new(kind, "too_many_builds", message).hint("wait until one is finished")
                );
            }
        }
        Ok(shown(&row, &body))
    }

    /// Begins a build that was asked for.
    pub async fn start_build(
        &self,
        actor: &Actor,
        id: &str,
        mut request: BuildTemplate,
    ) -> Result<TemplateBuild, FleetError> {
        self.ready()?;
        self.unless_short_of_memory()?;
        let (row, mut body) = self.build_row(actor, id)?;
        if body.described {
            let message = format!("build {} has been started already", row.id);
            return Err(FleetError::new(Kind::Conflict, "wrong_state", message).hint("ask for another build"));
        }
        (request.cpus, request.memory_bytes) =
            (request.cpus.or(body.cpus), request.memory_bytes.or(body.memory_bytes));
        request.min_free_disk_bytes = request.min_free_disk_bytes.or(body.min_free_disk_bytes);
        check_free_disk(self.state_dir(), request.min_free_disk_bytes)?;
        let (parent, reach) = self.parent(actor, &request)?;
        let login = login(actor, &mut request)?;
        let uploads = uploads::directory(self.state_dir(), &actor.tenant);
        let recipe = Recipe { request: &request, parent, uploads: &uploads };
        let mut file = recipe.prepare().map_err(|error| invalid(super::super::request::chain(&error)))?;
        let quota = self.quota_of(&actor.tenant)?;
        if let Some(most) = quota.memory_bytes {
            file.limits.memory = file.limits.memory.min(most);
        }
        if let Some(most) = quota.cpus {
            file.limits.cpus = file.limits.cpus.min(most);
        }
        body.described = true;
        self.0.store.update_template_build(&row.id, false, &to_json(&body)?)?;
        let has_check = request.start.is_some() || request.ready.is_some();
        let log = Arc::new(Log::new(has_check));
        let queued = QueuedBuild {
            row: row.clone(),
            file,
            reach,
            login,
            use_cache: !request.no_cache,
            tenant: actor.tenant.clone(),
        };
        self.0.templates.running().insert(row.id.clone(), Running { log: log.clone(), task: None });
        let fleet = self.clone();
        let task = tokio::spawn(async move { fleet.run_build(queued, log).await });
        // The task may be over already; then there is nothing to end.
        if let Some(running) = self.0.templates.running().get_mut(&row.id) {
            running.task = Some(task.abort_handle());
        }
        Ok(shown(&row, &body))
    }

    /// The steps of a build were refused: it waits for others, and makes room where there is none.
    pub fn note_refused_build(&self, actor: &Actor, id: &str) -> Result<(), FleetError> {
        let (row, mut body) = self.build_row(actor, id)?;
        if !body.described && !row.finished {
            body.refused = true;
            self.0.store.update_template_build(&row.id, false, &to_json(&body)?)?;
        }
        Ok(())
    }

    /// Both at once.
    pub async fn build_template(
        &self,
        actor: &Actor,
        request: BuildTemplate,
    ) -> Result<TemplateBuild, FleetError> {
        let new = NewBuild { name: request.name.clone(), tags: request.tags.clone(), ..NewBuild::default() };
        let build = self.request_build(actor, new)?;
        match self.start_build(actor, &build.id, request).await {
            Ok(build) => Ok(build),
            Err(error) => {
                self.0.store.delete_template_build(&build.id)?;
                Err(error)
            }
        }
    }

    pub fn template_build(&self, actor: &Actor, id: &str) -> Result<TemplateBuild, FleetError> {
        match self.command_build(actor, id) {
            Some(build) => Ok(build),
            None => self.build_row(actor, id).map(|(row, body)| shown(&row, &body)),
        }
    }

    /// The entries of this level and above, from the offset on.
    pub async fn template_build_log(
        &self,
        actor: &Actor,
        id: &str,
        (offset, limit): (usize, usize),
        level: LogLevel,
    ) -> Result<BuildLog, FleetError> {
        if self.command_build(actor, id).is_none() {
            self.build_row(actor, id)?;
        }
        let limit = limit.min(MOST_LOG_ENTRIES);
        let running = self.0.templates.running().get(id).map(|running| running.log.clone());
        let entries = match running {
            Some(log) => log.entries(offset, limit, level),
            None => {
                let path = self.log_path(id);
                let read = move || Ok(paddock_builds::saved_entries(&path, offset, limit, level));
                blocking(read).await?
            }
        };
        Ok(BuildLog { entries })
    }

    /// The last entries of a build that failed.
    pub async fn last_log_entries(&self, actor: &Actor, id: &str) -> Result<Vec<BuildLogEntry>, FleetError> {
        let all = self.template_build_log(actor, id, (0, usize::MAX), LogLevel::Error).await?;
        Ok(all.entries)
    }

    /// Ends all builds: the server stops.
    pub(in super::super) fn abort_builds(&self) {
        let running = std::mem::take(&mut *self.0.templates.running());
        running.into_values().filter_map(|running| running.task).for_each(|task| task.abort());
    }

    /// Builds of an earlier server are over.
    pub(in super::super) fn recover_builds(&self) -> Result<(), FleetError> {
        for row in self.0.store.unfinished_template_builds()? {
            let mut body = parse(&row)?;
            if body.described {
                let message = "the server was stopped during the build";
                body.fail(BuildFailure { message: message.into(), step: None });
                self.0.store.update_template_build(&row.id, true, &to_json(&body)?)?;
            }
        }
        Ok(())
    }

    /// Frees the images of builds that are gone. A failure is logged: `paddock template prune` does it again.
    pub(super) async fn free_builds(&self, ids: Vec<String>) {
        let state = self.state_dir().to_path_buf();
        let logs: Vec<PathBuf> = ids.iter().map(|id| self.log_path(id)).collect();
        for id in &ids {
            let running = self.0.templates.running().remove(id);
            running.and_then(|running| running.task).into_iter().for_each(|task| task.abort());
        }
        let work = tokio::task::spawn_blocking(move || {
            for id in ids {
                if let Err(error) = paddock_builds::free(&state, &kept_name(&id)) {
                    tracing::warn!(build = id, %error, "the layers of a build stay");
                }
            }
            logs.iter().for_each(|log| drop(std::fs::remove_file(log)));
        });
        let _ = work.await;
    }

    fn template_or_new(&self, actor: &Actor, name: &str) -> Result<String, FleetError> {
        if let Some(row) = self.0.store.template_named(&actor.tenant, name)? {
            return Ok(row.id);
        }
        let row = TemplateRow {
            id: format!("{ID}{:016x}", self.random_for_id()?),
            tenant: actor.tenant.clone(),
            name: name.into(),
            created_ms: now_ms(),
            body: to_json(&TemplateBody::default())?,
        };
        match self.0.store.insert_template(&row, MOST_TEMPLATES)? {
            true => Ok(row.id),
            false => {
                let message =
                    format!("tenant {} has {MOST_TEMPLATES} templates, which are the most", actor.tenant);
                Err(FleetError::new(Kind::Forbidden, "quota_exceeded", message)
                    .hint("delete templates that are not needed"))
            }
        }
    }

    fn forget_undescribed(&self, tenant: &str) -> Result<(), FleetError> {
        let old = now_ms().saturating_sub(UNDESCRIBED_MS);
        for row in self.0.store.unfinished_template_builds()? {
            let body = parse(&row)?;
            if row.tenant == tenant && !body.described && (body.refused || row.created_ms < old) {
                self.0.store.delete_template_build(&row.id)?;
            }
        }
        Ok(())
    }

    /// The beginning of a build. An image of a tenant comes from a registry that tenants may reach.
    fn parent(
        &self,
        actor: &Actor,
        request: &BuildTemplate,
    ) -> Result<(Parent, Option<RegistryReach>), FleetError> {
        match (&request.image, &request.template) {
            (Some(image), None) => Ok((Parent::Image(image.clone()), Some(self.reach_of_tenants()))),
            (None, Some(template)) => {
                let settings = match self.own_template_settings(actor, template)? {
                    Some(own) => own.settings,
                    None => super::super::request::template(self.state_dir(), template)?,
                };
                let image = settings.image.clone().ok_or_else(|| {
                    invalid(format!(
                        "template `{}` has no image: it shows the host's own programs, which a build cannot begin with",
                        shorten(template)
                    ))
                    .hint("begin with an image, or let the owner of the host build the template")
                })?;
                Ok((Parent::Built { image, settings: Box::new(settings) }, None))
            }
            _ => Err(invalid("a build begins with either `image` or `template`")),
        }
    }

    async fn run_build(self, queued: QueuedBuild, log: Arc<Log>) {
        let id = queued.row.id.clone();
        let outcome = self.build_in_turn(&queued, &log).await;
        let outcome = outcome
            .and_then(|built| self.note_built(&queued.row, &built).map_err(|error| (error.message, true)));
        if let Err((message, in_step)) = outcome {
            let step = log.step().filter(|_| in_step);
            log.say(LogLevel::Error, message.clone());
            self.note_failed(&queued.row, BuildFailure { message, step });
        } else {
            log.say(LogLevel::Info, "the template is ready");
        }
        let path = self.log_path(&id);
        let (kept, state) = (log.clone(), path.clone());
        let saved = tokio::task::spawn_blocking(move || {
            std::fs::create_dir_all(state.parent().unwrap_or(&state))?;
            kept.save(&state)
        });
        if let Ok(Err(error)) = saved.await {
            tracing::warn!(build = id, %error, "the log of a build is not kept");
        }
        self.finish(&queued.row);
        self.0.templates.running().remove(&id);
        self.free_untagged(&queued.row.template).await;
    }

    /// Waits for its turn and for room in the quota, and builds. An error: words for the client, and true if a step failed.
    async fn build_in_turn(&self, queued: &QueuedBuild, log: &Log) -> Result<Built, (String, bool)> {
        let plain = |error: FleetError| (error.message, false);
        let slots = self.0.templates.slots.clone();
        let _slot = slots.acquire_owned().await.map_err(|error| (error.to_string(), false))?;
        let quota = self.quota_of(&queued.tenant).map_err(plain)?;
        let limits = &queued.file.limits;
        let need = Need { cpus: limits.cpus, memory_bytes: limits.memory, create: false };
        let permit = self.0.admission.acquire(&queued.tenant, need, &quota).await;
        let _permit = permit.map_err(|error| plain(error.into()))?;
        self.note_state(&queued.row, BuildState::Building).map_err(plain)?;
        let layer = NetLayer { allow_public: PUBLIC.map(String::from).into(), ..NetLayer::default() };
        let network =
            paddock_settings::resolve_network(Some(&NetSetting::Rules(layer)), &[], self.state_dir());
        let network = network.unwrap_or(Network::None);
        let kept = kept_name(&queued.row.id);
        let build = Build {
            state: self.state_dir(),
            file: &queued.file,
            directory: None,
            target: Target::Kept { id: &kept },
            use_cache: queued.use_cache,
            host_certs: None,
            caller: None,
            network: &network,
            reach: queued.reach.as_ref(),
            login: queued.login.as_ref(),
            backends: self.0.options.backends,
        };
        paddock_builds::build(&build, log).await.map_err(|error| (paddock_builds::told(&error), true))
    }

    fn note_state(&self, row: &TemplateBuildRow, state: BuildState) -> Result<(), FleetError> {
        let Some(mut body) = self.build_body(&row.id)? else { return Ok(()) };
        body.state = state;
        self.0.store.update_template_build(&row.id, false, &to_json(&body)?)?;
        Ok(())
    }

    /// Tags the finished build. Its state is told when the log is complete.
    fn note_built(&self, row: &TemplateBuildRow, built: &Built) -> Result<(), FleetError> {
        let _guard = self.0.templates.changing();
        let gone =
            || FleetError::new(Kind::NotFound, "template_not_found", "the template was deleted meanwhile");
        let template = self.0.store.template(&row.template)?.ok_or_else(gone)?;
        let mut body = self.build_body(&row.id)?.ok_or_else(gone)?;
        (body.bytes, body.settings) = (Some(built.bytes), Some(built.settings.clone()));
        self.0.store.update_template_build(&row.id, false, &to_json(&body)?)?;
        self.put_tags(&template, &row.id, &body.tags)
    }

    fn note_failed(&self, row: &TemplateBuildRow, failure: BuildFailure) {
        let noted = self.build_body(&row.id).and_then(|body| {
            let Some(mut body) = body else { return Ok(()) };
            (body.failure, body.settings) = (Some(failure), None);
            self.0.store.update_template_build(&row.id, false, &to_json(&body)?)?;
            Ok(())
        });
        if let Err(error) = noted {
            tracing::warn!(build = row.id, %error, "the failure of a build is not recorded");
        }
    }

    fn finish(&self, row: &TemplateBuildRow) {
        let finished = self.build_body(&row.id).and_then(|body| {
            let Some(mut body) = body else { return Ok(()) };
            match body.failure.take() {
                Some(failure) => body.fail(failure),
                None => (body.state, body.finished_ms) = (BuildState::Ready, Some(now_ms())),
            }
            self.0.store.update_template_build(&row.id, true, &to_json(&body)?)?;
            Ok(())
        });
        if let Err(error) = finished {
            tracing::warn!(build = row.id, %error, "the end of a build is not recorded");
        }
    }

    /// Frees the images of builds that no tag names any more, and forgets the oldest of them.
    async fn free_untagged(&self, template: &str) {
        let untagged = || -> Result<Vec<String>, FleetError> {
            let _guard = self.0.templates.changing();
            let Some(row) = self.0.store.template(template)? else { return Ok(Vec::new()) };
            let tags = super::body_of(&row)?.tags;
            let builds = self.0.store.template_builds(template)?;
            let others = builds.into_iter().filter(|row| row.finished);
            let mut freed = Vec::new();
            for (index, row) in others.filter(|row| tags.values().all(|tag| tag.build != row.id)).enumerate()
            {
                let mut body = parse(&row)?;
                if index >= KEPT_BUILDS {
                    self.0.store.delete_template_build(&row.id)?;
                    freed.push(row.id);
                } else if body.settings.take().is_some() {
                    self.0.store.update_template_build(&row.id, true, &to_json(&body)?)?;
                    freed.push(row.id);
                }
            }
            Ok(freed)
        };
        match untagged() {
            Ok(ids) => {
                let state = self.state_dir().to_path_buf();
                let free = move || {
                    ids.iter().try_for_each(|id| paddock_builds::free(&state, &kept_name(id)).map(drop))
                };
                if let Ok(Err(error)) = tokio::task::spawn_blocking(free).await {
                    tracing::warn!(template, %error, "the layers of older builds stay");
                }
            }
            Err(error) => tracing::warn!(template, %error, "older builds stay"),
        }
    }

    /// Another tenant's build is as if it were not there.
    fn build_row(&self, actor: &Actor, id: &str) -> Result<(TemplateBuildRow, BuildBody), FleetError> {
        let row = self.0.store.template_build(id)?.filter(|row| row.tenant == actor.tenant);
        let row = row.ok_or_else(|| {
            let message = format!("build `{}` was not found", shorten(id));
            FleetError::new(Kind::NotFound, "build_not_found", message)
        })?;
        let body = parse(&row)?;
        Ok((row, body))
    }

    fn log_path(&self, id: &str) -> PathBuf {
        self.state_dir().join("builds/logs").join(format!("{id}.json"))
    }
}

struct QueuedBuild {
    row: TemplateBuildRow,
    file: BuildFile,
    reach: Option<RegistryReach>,
    login: Option<Login>,
    use_cache: bool,
    tenant: String,
}

impl BuildBody {
    fn fail(&mut self, failure: BuildFailure) {
        (self.state, self.finished_ms) = (BuildState::Failed, Some(now_ms()));
        (self.failure, self.settings) = (Some(failure), None);
    }
}

/// The credentials for the registry of the image, out of the request: nothing that is kept has them.
fn login(actor: &Actor, request: &mut BuildTemplate) -> Result<Option<Login>, FleetError> {
    let Some(RegistryLogin { username, password }) = request.registry.take() else { return Ok(None) };
    if request.image.is_none() {
        return Err(invalid("registry: a login goes with `image`, and this build begins with a template"));
    }
    let has_odd = username.chars().any(|character| character == ':' || character.is_control());
    // A password may be a document with lines: the key of a service account.
    if !(1..=255).contains(&username.len()) || has_odd || !(1..=LONGEST_PASSWORD).contains(&password.len()) {
        return Err(invalid(format!(
            "registry: the username has 1 to 255 bytes without `:` and control characters, the password 1 to {LONGEST_PASSWORD} bytes"
        )));
    }
    let credentials = Credentials { user: username, password };
    Ok(Some(Login { credentials, tenant: actor.tenant.clone() }))
}

/// The name under which the layers of a build are kept.
fn kept_name(id: &str) -> String {
    format!("client-{id}")
}

pub(super) fn shown(row: &TemplateBuildRow, body: &BuildBody) -> TemplateBuild {
    TemplateBuild {
        id: row.id.clone(),
        template: row.template.clone(),
        name: body.name.clone(),
        made_by: BuildMaker::Tenant,
        tags: body.tags.clone(),
        state: body.state,
        created_at_ms: row.created_ms,
        finished_at_ms: body.finished_ms,
        failure: body.failure.clone().filter(|_| body.state == BuildState::Failed),
        size_bytes: body.bytes,
    }
}

pub(super) fn parse(row: &TemplateBuildRow) -> Result<BuildBody, FleetError> {
    serde_json::from_str(&row.body).map_err(|error| FleetError::internal(&error))
}

fn to_json(value: &impl Serialize) -> Result<String, FleetError> {
    serde_json::to_string(value).map_err(|error| FleetError::internal(&error))
}

fn new_uuid(node: Option<NodeNumber>) -> Result<String, FleetError> {
    let high = u128::from(paddock_engine::random()?);
    let random = high << 64 | u128::from(paddock_engine::random()?);
    let bytes = node.map_or(random, |node| node.mark_uuid(random)).to_be_bytes();
    Ok(uuid::Builder::from_random_bytes(bytes).into_uuid().to_string())
}
