//! Builds of templates: E2B's steps as the server's own, the state and the log of a build, and the files that steps copy.

use super::errors::{Refusal, Result};
use super::json::Json;
use super::listing::parsed;
use super::templates::not_found;
use super::timestamps::rfc3339_unsigned;
use crate::app::App;
use crate::auth::{self, Caller};
use crate::errors::shorten;
use crate::peer::Peer;
use crate::revoked::{self, Leash};
use crate::templates::receive_files;
use axum::Extension;
use axum::Json as Answer;
use axum::extract::{Path, Request, State};
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use paddock_fleet::Actor;
use paddock_model::api::{
    BuildLogEntry, BuildState, BuildStep, BuildTemplate, LogLevel, RegistryLogin, TemplateBuild,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// The address of uploads; the right to one is in the path.
pub const UPLOADS: &str = "/e2b/uploads/{grant}";
/// E2B's own images, which are templates of this server.
const IMAGES: [(&str, &str); 2] =
    [("e2bdev/base", "base"), ("e2bdev/code-interpreter", "code-interpreter-v1")];
const PAGE: usize = 100;

/// The address of an upload, where the archive is not kept already.
pub async fn files(
    State(app): State<App>,
    Caller(actor): Caller,
    Path((template, hash)): Path<(String, String)>,
    Extension(peer): Extension<Peer>,
    headers: HeaderMap,
) -> Result<(StatusCode, Answer<Value>)> {
    app.fleet().own_template(&actor, &template)?;
    let present = app.fleet().has_template_files(&actor, &hash).await?;
    let grant = app.fleet().grant_upload(&actor, &hash)?;
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    let host = host.ok_or_else(|| Refusal::invalid("the request has no Host header"))?;
    // The client reached the server at this address, so that it can upload to it.
    let url = format!("{}://{host}{}", peer.scheme_outside(&headers), UPLOADS.replace("{grant}", &grant));
    Ok((StatusCode::CREATED, Answer(json!({ "present": present, "url": url }))))
}

/// The right is in the address alone; there is no API key.
pub async fn upload(State(app): State<App>, Path(grant): Path<String>, request: Request) -> Result<Response> {
    let grant = app.fleet().verify_upload(&grant).await?;
    auth::is_known(request.extensions());
    if grant.admitted.actor.only_reads() {
        return Err(auth::reads_only().into());
    }
    let leash = Leash::new(grant.admitted.revoked, &request);
    let actor = grant.admitted.actor;
    let receiving = async {
        match receive_files(&app, &actor, &grant.hash, request).await {
            Ok(_) => StatusCode::OK.into_response(),
            Err(failure) => Refusal::from(failure).into_response(),
        }
    };
    Ok(revoked::bounded(Some(leash), receiving).await)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Description {
    #[serde(default)]
    from_image: Option<String>,
    #[serde(default)]
    from_template: Option<String>,
    #[serde(default)]
    from_image_registry: Option<Registry>,
    #[serde(default)]
    steps: Vec<Step>,
    #[serde(default)]
    start_cmd: Option<String>,
    #[serde(default)]
    ready_cmd: Option<String>,
    #[serde(default)]
    force: Option<bool>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum Registry {
    #[serde(rename = "registry")]
    Plain {
        username: String,
        password: String,
    },
    #[serde(rename_all = "camelCase")]
    Gcp {
        service_account_json: String,
    },
    Aws {},
}

/// Keeps passwords out of logs.
impl std::fmt::Debug for Registry {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Registry").finish_non_exhaustive()
    }
}

impl Registry {
    fn login(self) -> Result<RegistryLogin> {
        match self {
            Registry::Plain { username, password } => Ok(RegistryLogin { username, password }),
            // Google's registries take the key of a service account as the password of this user.
            Registry::Gcp { service_account_json } => {
                Ok(RegistryLogin { username: "_json_key".into(), password: service_account_json })
            }
            Registry::Aws {} => Err(Refusal::invalid(
                "fromImageRegistry: this server does not ask AWS for a password; use from_image with username \"AWS\" and the \
                 password that `aws ecr get-login-password` prints",
            )),
        }
    }
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Step {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    args: Vec<String>,
    #[serde(default)]
    files_hash: Option<String>,
    #[serde(default)]
    force: Option<bool>,
}

pub async fn start(
    State(app): State<App>,
    Caller(actor): Caller,
    Path((template, build)): Path<(String, String)>,
    Json(wanted): Json<Description>,
) -> Result<StatusCode> {
    let build = find(&app, &actor, &template, &build)?;
    let begun = begin(&app, &actor, &build.id, wanted).await;
    if begun.is_err() {
        app.fleet().note_refused_build(&actor, &build.id)?;
    }
    begun.map(|()| StatusCode::ACCEPTED)
}

async fn begin(app: &App, actor: &Actor, build: &str, wanted: Description) -> Result<()> {
    let request = wanted.request()?;
    check_parent(app, actor, &request).await?;
    app.fleet().start_build(actor, build, request).await?;
    Ok(())
}

/// E2B's own templates are there only if somebody built them.
async fn check_parent(app: &App, actor: &Actor, request: &BuildTemplate) -> Result<()> {
    let Some(name) = &request.template else { return Ok(()) };
    if app.fleet().find_template(actor, name)?.is_some_and(|found| found.has_image) {
        return Ok(());
    }
    // One that is built on first use is begun by this, too.
    app.fleet().ensure_template(actor, name).await?;
    if app.fleet().find_template(actor, name)?.is_some_and(|found| found.has_image) {
        return Ok(());
    }
    match IMAGES.iter().any(|(_, own)| own == name) {
        true => Err(Refusal::new(
            StatusCode::NOT_FOUND,
            "template_not_found",
            format!(
                "template {name:?} was not built on this server yet: its owner does it with `paddock template build {name}`; begin with an image of a registry until then"
            ),
        )),
        false => Err(not_found(name)),
    }
}

impl Description {
    pub fn request(self) -> Result<BuildTemplate> {
        let registry = self.from_image_registry.map(Registry::login).transpose()?;
        let (image, template) = match (self.from_image, self.from_template) {
            (Some(image), None) => match own_image(&image) {
                Some(template) => (None, Some(template.to_string())),
                None => (Some(image), None),
            },
            (None, Some(template)) => (None, Some(template)),
            _ => return Err(Refusal::invalid("a build begins with either fromImage or fromTemplate")),
        };
        let steps = self.steps.into_iter().enumerate();
        let steps: Result<Vec<BuildStep>> = steps.map(|(index, step)| step.read(index + 1)).collect();
        Ok(BuildTemplate {
            image,
            registry,
            template,
            steps: steps?,
            start: self.start_cmd,
            ready: self.ready_cmd,
            no_cache: self.force == Some(true),
            ..BuildTemplate::default()
        })
    }
}

fn own_image(image: &str) -> Option<&'static str> {
    let name = image.split_once(':').map_or(image, |(name, _)| name);
    let name = name.strip_prefix("docker.io/").unwrap_or(name);
    IMAGES.iter().find(|(known, _)| *known == name).map(|(_, template)| *template)
}

impl Step {
    fn read(self, number: usize) -> Result<BuildStep> {
        let force = self.force == Some(true);
        let wrong = |reason: &str| Refusal::invalid(format!("steps: step {number}, {reason}"));
        let argument = |index: usize| self.args.get(index).filter(|text| !text.is_empty()).cloned();
        let needed =
            |index: usize, what: &str| argument(index).ok_or_else(|| wrong(&format!("{what} is missing")));
        match self.kind.as_str() {
            "RUN" => Ok(BuildStep::Run { command: needed(0, "the command")?, user: argument(1), force }),
            "COPY" => Ok(BuildStep::Copy {
                files: self.files_hash.clone().ok_or_else(|| wrong("filesHash is missing"))?,
                from: needed(0, "the source")?,
                to: needed(1, "the destination")?,
                user: argument(2),
                mode: argument(3),
                force,
            }),
            "ENV" => match self.args.len() % 2 {
                0 => {
                    let pairs = self.args.chunks_exact(2).map(|pair| (pair[0].clone(), pair[1].clone()));
                    Ok(BuildStep::Env { variables: pairs.collect() })
                }
                _ => Err(wrong("a variable has no value")),
            },
            "WORKDIR" => Ok(BuildStep::Workdir { path: needed(0, "the directory")?, force }),
            "USER" => Ok(BuildStep::User { name: needed(0, "the user")? }),
            other => {
                Err(wrong(&format!("type {:?} is none of RUN, COPY, ENV, WORKDIR and USER", shorten(other))))
            }
        }
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Wanted {
    logs_offset: Option<usize>,
    limit: Option<usize>,
    level: Option<String>,
}

pub async fn status(
    State(app): State<App>,
    Caller(actor): Caller,
    Path((template, build)): Path<(String, String)>,
    uri: Uri,
) -> Result<Answer<Value>> {
    let wanted: Wanted = parsed(&uri)?;
    let level = match wanted.level.as_deref() {
        None | Some("debug") => LogLevel::Debug,
        Some("info") => LogLevel::Info,
        Some("warn") => LogLevel::Warn,
        Some("error") => LogLevel::Error,
        Some(other) => {
            let message = format!("level: {:?} is none of debug, info, warn and error", shorten(other));
            return Err(Refusal::invalid(message));
        }
    };
    // The state first: a build that is over by then has its whole log.
    let build = find(&app, &actor, &template, &build)?;
    let part = (wanted.logs_offset.unwrap_or(0), wanted.limit.unwrap_or(PAGE).clamp(1, PAGE));
    let log = app.fleet().template_build_log(&actor, &build.id, part, level).await?;
    let mut view = json!({
        "templateID": build.template,
        "buildID": build.id,
        "status": state(build.state),
        "logs": [],
        "logEntries": log.entries.iter().map(entry).collect::<Vec<_>>(),
    });
    if let Some(failure) = &build.failure {
        let entries = app.fleet().last_log_entries(&actor, &build.id).await?;
        let entries: Vec<Value> = entries.iter().map(entry).collect();
        view["reason"] = json!({ "message": failure.message, "logEntries": entries });
        if let Some(step) = &failure.step {
            view["reason"]["step"] = json!(step);
        }
    }
    Ok(Answer(view))
}

fn state(state: BuildState) -> &'static str {
    match state {
        BuildState::Waiting => "waiting",
        BuildState::Building => "building",
        BuildState::Ready => "ready",
        BuildState::Failed => "error",
    }
}

fn entry(entry: &BuildLogEntry) -> Value {
    let mut view = json!({
        "timestamp": rfc3339_unsigned(entry.at_ms),
        "message": entry.message,
        "level": entry.level,
    });
    if let Some(step) = &entry.step {
        view["step"] = json!(step);
    }
    view
}

/// A build of another template is not this one's, whoever it belongs to.
fn find(app: &App, actor: &Actor, template: &str, build: &str) -> Result<TemplateBuild> {
    let template = app.fleet().own_template(actor, template)?;
    let build = app.fleet().template_build(actor, build)?;
    match template.id.as_ref() == Some(&build.template) {
        true => Ok(build),
        false => Err(not_found(&template.name)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::from_value;

    fn read(body: Value) -> std::result::Result<BuildTemplate, String> {
        let description: Description = from_value(body).map_err(|error| error.to_string())?;
        description.request().map_err(|refusal| refusal.message())
    }

    #[test]
    fn what_the_sdks_send_becomes_a_build() {
        let build = read(json!({
            "fromImage": "python:3", "force": false, "startCmd": "serve", "readyCmd": "true",
            "steps": [
                { "type": "COPY", "args": ["a", "/a", "", ""], "filesHash": "00", "force": false },
                { "type": "RUN", "args": ["pip install x", "root"], "force": true },
                { "type": "ENV", "args": ["A", "1", "B", ""], "force": null },
                { "type": "WORKDIR", "args": ["/srv"] },
                { "type": "USER", "args": ["root"] },
            ],
        }))
        .expect("a build");
        assert_eq!((build.image.as_deref(), build.no_cache), (Some("python:3"), false));
        assert_eq!((build.start.as_deref(), build.ready.as_deref()), (Some("serve"), Some("true")));
        assert_eq!(build.steps.len(), 5);
        let run = BuildStep::Run { command: "pip install x".into(), user: Some("root".into()), force: true };
        assert_eq!(build.steps[1], run);
        assert!(matches!(&build.steps[2], BuildStep::Env { variables } if variables["B"].is_empty()));
    }

    #[test]
    fn credentials_become_a_login_that_no_log_shows() {
        let login = |registry: Value| {
            read(json!({ "fromImage": "gcr.io/p/i", "fromImageRegistry": registry }))
                .map(|build| build.registry)
        };
        let given = json!({ "type": "registry", "username": "ann", "password": "hush-hush" });
        let build = login(given.clone()).expect("a build").expect("a login");
        assert_eq!((build.username.as_str(), build.password.as_str()), ("ann", "hush-hush"));
        assert!(!format!("{build:?}").contains("hush"));
        let raw: Description = from_value(json!({ "fromImageRegistry": given })).expect("a description");
        assert!(!format!("{raw:?}").contains("hush"));
        let google = login(json!({ "type": "gcp", "serviceAccountJson": "{}" })).expect("a build");
        let google = google.expect("a login");
        assert_eq!((google.username.as_str(), google.password.as_str()), ("_json_key", "{}"));
        assert_eq!(login(Value::Null), Ok(None));
    }

    #[test]
    fn images_of_e2b_are_templates_here() {
        for (image, template) in [
            ("e2bdev/base", Some("base")),
            ("e2bdev/base:latest", Some("base")),
            ("docker.io/e2bdev/code-interpreter:latest", Some("code-interpreter-v1")),
            ("e2bdev/base2", None),
            ("debian:bookworm", None),
        ] {
            assert_eq!(own_image(image), template, "{image}");
        }
    }

    #[test]
    fn mistakes_are_named() {
        for (body, words) in [
            (json!({ "steps": [] }), "either fromImage or fromTemplate"),
            (json!({ "fromImage": "a", "fromTemplate": "b" }), "either fromImage or fromTemplate"),
            (
                json!({ "fromImage": "a", "fromImageRegistry": { "type": "aws", "awsRegion": "x" } }),
                "aws ecr get-login-password",
            ),
            (json!({ "fromImage": "a", "fromImageRegistry": { "type": "other" } }), "other"),
            (
                json!({ "fromImage": "a", "fromImageRegistry": { "type": "registry", "username": "u" } }),
                "password",
            ),
            (json!({ "fromImage": "a", "steps": [{ "type": "EXPOSE", "args": ["80"] }] }), "EXPOSE"),
            (
                json!({ "fromImage": "a", "steps": [{ "type": "RUN", "args": [] }] }),
                "step 1, the command is missing",
            ),
            (json!({ "fromImage": "a", "steps": [{ "type": "ENV", "args": ["A"] }] }), "has no value"),
            (json!({ "fromImage": "a", "steps": [{ "type": "COPY", "args": ["a", "b"] }] }), "filesHash"),
        ] {
            let message = read(body).expect_err(words);
            assert!(message.contains(words), "{words:?} is not in {message:?}");
        }
    }
}
