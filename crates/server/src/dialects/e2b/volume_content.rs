//! The files of one volume, for who holds its token: `/volumecontent/{volume}/path`, `/dir` and `/file`.
//!
//! While a sandbox has the volume, its present state is seen and changed; a read-only key sees the last version alone.

use super::errors::{Refusal, Result, written};
use super::json::Json;
use super::listing::parsed;
use super::timestamps::rfc3339;
use super::{grants, volumes};
use crate::app::App;
use crate::auth::{self, bearer};
use crate::errors::shorten;
use crate::extract::Incoming;
use crate::revoked::{self, Leash};
use crate::stream;
use axum::Json as Answer;
use axum::Router;
use axum::extract::{Extension, Path, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, Uri};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use paddock_fleet::{Actor, Admitted, VolumeView};
use paddock_model::api::{ChangeMode, MakeDirectory, VolumeFile};
use serde::Deserialize;
use serde_json::{Value, json};

/// The only owner that files of a volume have: the user of a sandbox. A version keeps no owners.
const OWNER: u32 = 1000;
/// Levels that a list shows where none are asked for.
const DEPTH: usize = 1;
const LONGEST_TOKEN: usize = 512;

super::routes::table!(FILES, files {
    "/volumecontent/{volume}/path" => { get stat, patch update, delete remove }
    "/volumecontent/{volume}/dir" => { get list, post make_directory }
    "/volumecontent/{volume}/file" => { get read, put write }
});

pub fn routes(app: &App) -> Router<App> {
    files()
        .method_not_allowed_fallback(super::unsupported::refuse)
        .route_layer(from_fn_with_state(app.clone(), require))
}

/// A volume that its token opened.
#[derive(Clone)]
struct Opened {
    actor: Actor,
    volume: String,
}

impl Opened {
    fn may_change(&self) -> bool {
        !self.actor.only_reads()
    }

    fn view(&self) -> VolumeView {
        VolumeView { version: None, live: self.may_change() }
    }
}

/// Lets through who holds the token of the volume that the path names.
async fn require(
    State(app): State<App>,
    Path(volume): Path<String>,
    mut request: Request,
    next: Next,
) -> Response {
    let (headers, method) = (request.headers(), request.method());
    match enter(&app, &volume, headers, method).await {
        Err(refusal) => told(refusal),
        Ok(Admitted { actor, revoked }) => {
            tracing::Span::current().record("tenant", actor.tenant.as_str());
            auth::is_known(request.extensions());
            let leash = Leash::new(revoked, &request);
            request.extensions_mut().insert(Opened { actor, volume });
            revoked::bounded(Some(leash), next.run(request)).await
        }
    }
}

async fn enter(app: &App, volume: &str, headers: &HeaderMap, method: &Method) -> Result<Admitted> {
    let wrong = || Refusal::unauthorized("the volume token is missing, or is not one for this volume");
    let token = bearer(headers)?.filter(|token| token.len() <= LONGEST_TOKEN).ok_or_else(wrong)?;
    let (admitted, id) = grants::admit_to_volume(app, volume, token).await?.ok_or_else(wrong)?;
    if admitted.actor.only_reads() && *method != Method::GET {
        return Err(auth::reads_only().into());
    }
    match volumes::find(app, &admitted.actor, volume).await? {
        found if found.id == id => Ok(admitted),
        // The token was for one that was removed; this is another of the same name.
        _ => Err(volumes::not_found(volume)),
    }
}

/// Refusals of the content API have a word as their code.
fn told(refusal: Refusal) -> Response {
    let body = json!({ "code": refusal.failure.code, "message": refusal.message() });
    written(refusal.failure, &body)
}

type Told<T> = std::result::Result<T, ContentRefusal>;

/// A refusal that is written as this part of the API does.
struct ContentRefusal(Refusal);

impl<T: Into<Refusal>> From<T> for ContentRefusal {
    fn from(refusal: T) -> ContentRefusal {
        ContentRefusal(refusal.into())
    }
}

impl IntoResponse for ContentRefusal {
    fn into_response(self) -> Response {
        told(self.0)
    }
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Wanted {
    path: Option<String>,
    depth: Option<usize>,
    uid: Option<u32>,
    gid: Option<u32>,
    mode: Option<u32>,
    force: Option<bool>,
}

impl Wanted {
    pub fn of(uri: &Uri) -> Result<Wanted> {
        let wanted: Wanted = parsed(uri)?;
        check_owner(wanted.uid, wanted.gid)?;
        Ok(wanted)
    }

    fn path(&self) -> Result<&str> {
        self.path.as_deref().ok_or_else(|| Refusal::invalid("the parameter path is missing"))
    }
}

#[derive(Debug, Deserialize)]
pub struct Metadata {
    #[serde(default)]
    uid: Option<u32>,
    #[serde(default)]
    gid: Option<u32>,
    #[serde(default)]
    mode: Option<u32>,
}

async fn stat(State(app): State<App>, Extension(opened): Extension<Opened>, uri: Uri) -> Told<Answer<Value>> {
    let wanted = Wanted::of(&uri)?;
    described(&app, &opened, wanted.path()?).await
}

async fn update(
    State(app): State<App>,
    Extension(opened): Extension<Opened>,
    uri: Uri,
    metadata: std::result::Result<Json<Metadata>, Refusal>,
) -> Told<Answer<Value>> {
    let (wanted, Json(metadata)) = (Wanted::of(&uri)?, metadata?);
    check_owner(metadata.uid, metadata.gid)?;
    let path = wanted.path()?.to_string();
    if let Some(mode) = metadata.mode {
        let request = ChangeMode { path: path.clone(), mode };
        app.fleet().change_volume_mode(&opened.actor, &opened.volume, request, true).await?;
    }
    described(&app, &opened, &path).await
}

async fn remove(State(app): State<App>, Extension(opened): Extension<Opened>, uri: Uri) -> Told<StatusCode> {
    let wanted = Wanted::of(&uri)?;
    app.fleet().delete_volume_file(&opened.actor, &opened.volume, wanted.path()?, true).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn list(
    State(app): State<App>,
    Extension(opened): Extension<Opened>,
    uri: Uri,
) -> Told<Answer<Vec<Value>>> {
    let wanted = Wanted::of(&uri)?;
    let (path, depth) = (wanted.path()?, wanted.depth.unwrap_or(DEPTH));
    if depth == 0 {
        return Err(Refusal::invalid("depth: 0 is not 1 or more").into());
    }
    let (fleet, Opened { actor, volume }) = (app.fleet(), &opened);
    let found = fleet.volume_files(actor, volume, opened.view(), Some(path), Some(depth)).await?;
    if found.truncated {
        let message = format!(
            "{:?} has more than {} entries at this depth; list its directories one by one",
            shorten(path),
            found.files.len()
        );
        return Err(Refusal::invalid(message).into());
    }
    let itself = path.trim_matches('/');
    if let Some(file) = found.files.iter().find(|file| file.path == itself && file.kind != "directory") {
        return Err(
            Refusal::invalid(format!("{:?} is a {}, and no directory", shorten(path), file.kind)).into()
        );
    }
    Ok(Answer(found.files.iter().filter(|file| file.path != itself).map(entry).collect()))
}

async fn make_directory(
    State(app): State<App>,
    Extension(opened): Extension<Opened>,
    uri: Uri,
) -> Told<(StatusCode, Answer<Value>)> {
    let wanted = Wanted::of(&uri)?;
    let path = wanted.path()?.to_string();
    let parents = wanted.force.unwrap_or(false);
    let request = MakeDirectory { path: path.clone(), mode: wanted.mode, parents };
    app.fleet().make_volume_directory(&opened.actor, &opened.volume, request, true).await?;
    Ok((StatusCode::CREATED, described(&app, &opened, &path).await?))
}

async fn read(State(app): State<App>, Extension(opened): Extension<Opened>, uri: Uri) -> Told<Response> {
    let wanted = Wanted::of(&uri)?;
    let (fleet, Opened { actor, volume }) = (app.fleet(), &opened);
    let mut file = fleet.read_volume_file(actor, volume, opened.view(), wanted.path()?).await?;
    file.look_ahead().await?;
    Ok(stream::download(&app, file, stream::OCTETS))
}

/// A file that is there already is replaced, and directories above it are made, with `force` and without.
async fn write(
    State(app): State<App>,
    Extension(opened): Extension<Opened>,
    uri: Uri,
    body: std::result::Result<Incoming, crate::errors::Failure>,
) -> Told<(StatusCode, Answer<Value>)> {
    let (wanted, mut body) = (Wanted::of(&uri)?, body?);
    let path = wanted.path()?;
    let (fleet, Opened { actor, volume }) = (app.fleet(), &opened);
    let mut upload = fleet.write_volume_file(actor, volume, path, wanted.mode, true).await?;
    while let Some(bytes) = body.next().await? {
        upload.write(&bytes).await?;
    }
    upload.finish().await?;
    Ok((StatusCode::CREATED, described(&app, &opened, path).await?))
}

async fn described(app: &App, opened: &Opened, path: &str) -> Told<Answer<Value>> {
    let found = app.fleet().volume_file(&opened.actor, &opened.volume, opened.view(), path).await?;
    Ok(Answer(entry(&found)))
}

/// A version knows one time of an entry, the last change of its content.
fn entry(file: &VolumeFile) -> Value {
    let at = rfc3339(file.modified_at_ms);
    let name = file.path.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or("/");
    let mut view = json!({
        "name": name,
        "type": file.kind,
        "path": format!("/{}", file.path),
        "size": file.size,
        "mode": file.mode,
        "uid": OWNER,
        "gid": OWNER,
        "atime": at,
        "mtime": at,
        "ctime": at,
    });
    if let Some(target) = &file.target {
        view["target"] = json!(target);
    }
    view
}

fn check_owner(uid: Option<u32>, gid: Option<u32>) -> Result<()> {
    for (what, id) in [("uid", uid), ("gid", gid)] {
        if let Some(id) = id.filter(|id| *id != OWNER) {
            return Err(Refusal::invalid(format!(
                "{what} {id}: files of a volume belong to the user of the sandbox, {OWNER}; volumes keep no other owners"
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_described_as_the_sdks_read_it() {
        let file = VolumeFile {
            path: "a/b.txt".into(),
            kind: "file".into(),
            size: 3,
            mode: 0o644,
            modified_at_ms: 0,
            target: None,
        };
        let view = entry(&file);
        assert_eq!(
            (&view["name"], &view["path"], &view["mode"]),
            (&json!("b.txt"), &json!("/a/b.txt"), &json!(420))
        );
        assert_eq!(view["mtime"], "1970-01-01T00:00:00.000Z");
        let root = VolumeFile { path: String::new(), kind: "directory".into(), ..file };
        assert_eq!((&entry(&root)["name"], &entry(&root)["path"]), (&json!("/"), &json!("/")));
    }

    #[test]
    fn other_owners_are_refused_by_name() {
        check_owner(Some(1000), Some(1000)).expect("the sandbox's own");
        assert!(check_owner(Some(0), None).expect_err("root").message().contains("uid 0"));
        assert!(check_owner(None, Some(33)).expect_err("another").message().contains("gid 33"));
    }
}
