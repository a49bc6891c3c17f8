//! Templates that tenants build through the server.
//!
//! - here: names, tags, and the settings that a create gets from such a template
//! - [`builds`]: a build from its request to its end
//! - [`list`]: all builds, those of the command line among them
//! - [`files`]: archives that clients upload for their builds
//!
//! A template of this kind belongs to its tenant; the files in the state directory's `templates` are the owner's, for all. The
//! work itself is done by [`paddock_builds`], as for `paddock template build`.

mod builds;
mod files;
mod list;

pub use builds::NewBuild;
pub use files::{FilesUpload, UploadGrant};

use super::record::now_ms;
use super::request::{invalid, shorten};
use super::{Actor, Fleet, FleetError, Kind};
use builds::BuildBody;
use paddock_model::api::{Template, TemplateTag};
use paddock_model::{Policy, check_template_name};
use paddock_records::store::TemplateRow;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Semaphore;

/// The tag of a build for which no other is named.
const DEFAULT_TAG: &str = "default";
const MOST_TEMPLATES: usize = 200;
const MOST_TAGS: usize = 100;
/// The prefix of the ids of templates.
const ID: &str = "tp-";
/// Builds that run at one time, of all tenants: each may take gigabytes of memory.
const AT_ONE_TIME: usize = 2;

/// The builds that run, and the lock of changes to templates.
pub(super) struct Templates {
    changes: Mutex<()>,
    running: Mutex<HashMap<String, builds::Running>>,
    slots: Arc<Semaphore>,
}

impl Default for Templates {
    fn default() -> Templates {
        let slots = Arc::new(Semaphore::new(AT_ONE_TIME));
        Templates { changes: Mutex::default(), running: Mutex::default(), slots }
    }
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct TemplateBody {
    tags: BTreeMap<String, TagBody>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct TagBody {
    build: String,
    created_ms: u64,
}

/// A template of a tenant's own, as a create uses it.
#[derive(Debug, Clone)]
pub struct OwnTemplate {
    /// `NAME:TAG`, which no template of the owner's is called.
    pub name: String,
    pub settings: Policy,
}

/// A template by its name, the tenant's own or the owner's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundTemplate {
    /// The user that its sandboxes have.
    pub user: Option<String>,
    /// False: its sandboxes show the host's own programs.
    pub has_image: bool,
}

impl Fleet {
    /// Ready when a create may name this template: one that is built on first use is there, or the caller is told of its build.
    pub async fn ensure_template(&self, actor: &Actor, name: &str) -> Result<(), FleetError> {
        match self.0.first_use.has(name) && self.0.store.template_named(&actor.tenant, name)?.is_none() {
            true => Ok(self.0.first_use.ensure(name).await?),
            false => Ok(()),
        }
    }

    /// For a create that goes on without the template until it is there: what is to be told of its build, which begins now if none
    /// runs. `None`: the template is there, is the tenant's own, or is none of those that are built on first use.
    pub fn begin_template(&self, actor: &Actor, name: &str) -> Result<Option<FleetError>, FleetError> {
        match self.0.first_use.has(name) && self.0.store.template_named(&actor.tenant, name)?.is_none() {
            true => Ok(self.0.first_use.begin(name)?.map(FleetError::from)),
            false => Ok(None),
        }
    }

    /// `None`: a create could not name it.
    pub fn find_template(&self, actor: &Actor, name: &str) -> Result<Option<FoundTemplate>, FleetError> {
        let found =
            |settings: Policy| FoundTemplate { has_image: settings.image.is_some(), user: settings.user };
        match self.own_template_settings(actor, name) {
            Ok(Some(own)) => return Ok(Some(found(own.settings))),
            Ok(None) => {}
            Err(error) if error.kind == Kind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        }
        match super::request::template(self.state_dir(), name) {
            Ok(settings) => Ok(Some(found(settings))),
            Err(error) if matches!(error.kind, Kind::NotFound | Kind::Invalid) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The names that `template` of a create may have: the owner's templates, and the tenant's own.
    pub async fn templates(&self, actor: &Actor) -> Result<Vec<Template>, FleetError> {
        let listed = paddock_settings::templates::list(&self.0.options.state);
        let listed = listed.map_err(|error| FleetError::storage(&error))?;
        let mut all: Vec<Template> =
            listed.into_iter().map(|template| Template::of_owner(template.name, None)).collect();
        let building = paddock_builds::first_builds(&self.0.options.state).into_iter();
        all.extend(building.map(|(name, build)| Template::of_owner(name, Some(build))));
        for row in self.0.store.templates_of(&actor.tenant)? {
            all.push(shown(&row)?);
        }
        Ok(all)
    }

    /// A template of the tenant's own, by id or name.
    pub fn own_template(&self, actor: &Actor, name: &str) -> Result<Template, FleetError> {
        shown(&self.template_row(actor, name)?)
    }

    /// The settings for a create. `None`: the tenant has no such template of its own, and the owner may have one.
    pub fn own_template_settings(
        &self,
        actor: &Actor,
        name: &str,
    ) -> Result<Option<OwnTemplate>, FleetError> {
        let (name, tag) = name.split_once(':').unwrap_or((name, DEFAULT_TAG));
        let row = match self.template_row(actor, name) {
            Ok(row) => row,
            Err(error) if error.kind == Kind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some(tagged) = body_of(&row)?.tags.remove(tag) else {
            let message = format!("template `{}` has no build with the tag `{}`", row.name, shorten(tag));
            return Err(FleetError::new(Kind::NotFound, "template_not_found", message));
        };
        let build = self.build_body(&tagged.build)?;
        match build.and_then(|build| build.settings) {
            Some(settings) => Ok(Some(OwnTemplate { name: format!("{}:{tag}", row.name), settings })),
            None => Err(not_found(name)),
        }
    }

    /// Removes a template with its builds. Layers that a sandbox or a snapshot uses stay until `paddock template prune`.
    pub async fn delete_template(&self, actor: &Actor, name: &str) -> Result<(), FleetError> {
        let builds = {
            let _guard = self.0.templates.changing();
            let row = self.template_row(actor, name)?;
            self.0.store.delete_template(&row.id)?.ok_or_else(|| not_found(name))?
        };
        self.free_builds(builds).await;
        Ok(())
    }

    /// Tags a build of the template that is ready; a tag of this name moves.
    pub fn tag_template(
        &self,
        actor: &Actor,
        name: &str,
        build: &str,
        tags: &[String],
    ) -> Result<Template, FleetError> {
        let _guard = self.0.templates.changing();
        let row = self.template_row(actor, name)?;
        let known = self.0.store.template_build(build)?.filter(|known| known.template == row.id);
        let ready = known.is_some() && self.build_body(build)?.is_some_and(|body| body.settings.is_some());
        if !ready {
            let message = format!("template `{}` has no build `{}` that is ready", row.name, shorten(build));
            return Err(FleetError::new(Kind::NotFound, "build_not_found", message));
        }
        self.put_tags(&row, build, tags)?;
        shown(&self.template_row(actor, &row.id)?)
    }

    /// Takes tags away. A build without any is removed with the next build of its template.
    pub fn untag_template(&self, actor: &Actor, name: &str, tags: &[String]) -> Result<(), FleetError> {
        let _guard = self.0.templates.changing();
        let row = self.template_row(actor, name)?;
        let mut body = body_of(&row)?;
        if let Some(missing) = tags.iter().find(|tag| !body.tags.contains_key(*tag)) {
            let message = format!("template `{}` has no tag `{}`", row.name, shorten(missing));
            return Err(FleetError::new(Kind::NotFound, "tag_not_found", message));
        }
        body.tags.retain(|tag, _| !tags.contains(tag));
        self.save_template(&row.id, &body)
    }

    /// Precondition: the lock of changes is held.
    fn put_tags(&self, row: &TemplateRow, build: &str, tags: &[String]) -> Result<(), FleetError> {
        tags.iter().try_for_each(|tag| check_tag(tag))?;
        let mut body = body_of(row)?;
        let tagged = TagBody { build: build.into(), created_ms: now_ms() };
        body.tags.extend(tags.iter().map(|tag| (tag.clone(), tagged.clone())));
        if body.tags.len() > MOST_TAGS {
            let message = format!("template `{}` would have more than {MOST_TAGS} tags", row.name);
            return Err(FleetError::new(Kind::Forbidden, "quota_exceeded", message)
                .hint("remove tags that are not needed"));
        }
        self.save_template(&row.id, &body)
    }

    fn save_template(&self, id: &str, body: &TemplateBody) -> Result<(), FleetError> {
        let body = serde_json::to_string(body).map_err(|error| FleetError::internal(&error))?;
        self.0.store.update_template(id, &body)?;
        Ok(())
    }

    /// Another tenant's template is as if it were not there.
    fn template_row(&self, actor: &Actor, name: &str) -> Result<TemplateRow, FleetError> {
        let row = match name.starts_with(ID) {
            true => self.0.store.template(name)?.filter(|row| row.tenant == actor.tenant),
            false => self.0.store.template_named(&actor.tenant, name)?,
        };
        row.ok_or_else(|| not_found(name))
    }

    fn build_body(&self, id: &str) -> Result<Option<BuildBody>, FleetError> {
        let row = self.0.store.template_build(id)?;
        row.map(|row| serde_json::from_str(&row.body).map_err(|error| FleetError::internal(&error)))
            .transpose()
    }
}

impl Templates {
    fn changing(&self) -> MutexGuard<'_, ()> {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> MutexGuard<'_, HashMap<String, builds::Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn body_of(row: &TemplateRow) -> Result<TemplateBody, FleetError> {
    serde_json::from_str(&row.body).map_err(|error| FleetError::internal(&error))
}

fn shown(row: &TemplateRow) -> Result<Template, FleetError> {
    let tags = body_of(row)?.tags.into_iter();
    let tag = |(tag, body): (String, TagBody)| TemplateTag {
        tag,
        build: body.build,
        created_at_ms: body.created_ms,
    };
    let (id, name) = (Some(row.id.clone()), row.name.clone());
    Ok(Template { name, id, tags: tags.map(tag).collect(), first_build: None })
}

fn check_tag(tag: &str) -> Result<(), FleetError> {
    check_template_name(tag).map_err(|_| {
        invalid(format!("tag `{}` is not allowed", shorten(tag)))
            .hint("use 1 to 64 of a-z, 0-9, `-`, `_` and `.`, beginning with a letter or digit")
    })
}

fn not_found(name: &str) -> FleetError {
    let message = format!("template `{}` was not found", shorten(name));
    FleetError::new(Kind::NotFound, "template_not_found", message)
}
