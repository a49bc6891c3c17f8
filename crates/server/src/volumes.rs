//! Directories that outlive sandboxes.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Incoming, Json, NoQuery, Query, Target};
use crate::files::octal;
use crate::stream;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use paddock_fleet::VolumeView;
use paddock_model::api::{
    ChangeMode, CreateVolume, MakeDirectory, MountedVolume, RestoreVolume, ShareVolume, Volume, VolumeFile,
    VolumeFiles, VolumeHistory, VolumeList, VolumeVersion,
};
use serde::Deserialize;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(create_volume, list_volumes))
        .routes(routes!(get_volume, remove_volume))
        .routes(routes!(volume_history))
        .routes(routes!(restore_volume))
        .routes(routes!(share_volume))
        .routes(routes!(volume_files, delete_volume_file))
        .routes(routes!(read_volume_file, write_volume_file))
        .routes(routes!(stat_volume_file))
        .routes(routes!(make_volume_directory))
        .routes(routes!(change_volume_mode))
        .routes(routes!(checkpoint_volume))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Whose {
    /// The tenant that shared it; default: one's own.
    #[serde(default)]
    tenant: Option<String>,
}

impl Whose {
    fn named(&self, volume: String) -> String {
        self.tenant.as_ref().map_or(volume.clone(), |tenant| format!("{tenant}/{volume}"))
    }
}

/// Make a volume
#[utoipa::path(post, path = "/v1/volumes", tag = "volumes", request_body = CreateVolume,
    responses((status = 201, body = Volume)))]
async fn create_volume(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
    Json(request): Json<CreateVolume>,
) -> Result<(StatusCode, Answer<Volume>), Failure> {
    Ok((StatusCode::CREATED, Answer(app.fleet().create_volume(&actor, &request.name).await?)))
}

/// List volumes
#[utoipa::path(get, path = "/v1/volumes", tag = "volumes", responses((status = 200, body = VolumeList)))]
async fn list_volumes(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
) -> Result<Answer<VolumeList>, Failure> {
    Ok(Answer(VolumeList { volumes: app.fleet().volumes(&actor).await? }))
}

/// One volume
#[utoipa::path(get, path = "/v1/volumes/{volume}", tag = "volumes",
    params(("volume" = String, Path, description = "Name"), Whose), responses((status = 200, body = Volume)))]
async fn get_volume(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(volume): Target,
    Query(whose): Query<Whose>,
) -> Result<Answer<Volume>, Failure> {
    Ok(Answer(app.fleet().volume(&actor, &whose.named(volume)).await?))
}

/// Remove a volume with all its versions
///
/// Refused while a sandbox writes to it.
#[utoipa::path(delete, path = "/v1/volumes/{volume}", tag = "volumes",
    params(("volume" = String, Path, description = "Name"), Whose), responses((status = 200, body = Volume)))]
async fn remove_volume(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(volume): Target,
    Query(whose): Query<Whose>,
) -> Result<Answer<Volume>, Failure> {
    Ok(Answer(app.fleet().remove_volume(&actor, &whose.named(volume)).await?))
}

/// Versions that are kept, the newest first
#[utoipa::path(get, path = "/v1/volumes/{volume}/history", tag = "volumes",
    params(("volume" = String, Path, description = "Name"), Whose),
    responses((status = 200, body = VolumeHistory)))]
async fn volume_history(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(volume): Target,
    Query(whose): Query<Whose>,
) -> Result<Answer<VolumeHistory>, Failure> {
    let versions = app.fleet().volume_history(&actor, &whose.named(volume)).await?;
    Ok(Answer(VolumeHistory { versions }))
}

/// Make an earlier version the current one again
///
/// As a new version: nothing that came after it is lost.
#[utoipa::path(post, path = "/v1/volumes/{volume}/restore", tag = "volumes",
    params(("volume" = String, Path, description = "Name"), Whose), request_body = RestoreVolume,
    responses((status = 200, body = VolumeVersion)))]
async fn restore_volume(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(volume): Target,
    Query(whose): Query<Whose>,
    Json(request): Json<RestoreVolume>,
) -> Result<Answer<VolumeVersion>, Failure> {
    Ok(Answer(app.fleet().restore_volume(&actor, &whose.named(volume), request.version).await?))
}

/// Let another tenant have a volume too, or no longer
#[utoipa::path(post, path = "/v1/volumes/{volume}/share", tag = "volumes",
    params(("volume" = String, Path, description = "Name"), Whose), request_body = ShareVolume,
    responses((status = 200, body = Volume)))]
async fn share_volume(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(volume): Target,
    Query(whose): Query<Whose>,
    Json(request): Json<ShareVolume>,
) -> Result<Answer<Volume>, Failure> {
    let volume = whose.named(volume);
    Ok(Answer(app.fleet().share_volume(&actor, &volume, &request.tenant, request.mode).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Listing {
    /// Only what is at or below this path.
    #[serde(default)]
    path: Option<String>,
    /// Default: the current one.
    #[serde(default)]
    version: Option<u64>,
    /// Levels below the path; default: all.
    #[serde(default)]
    depth: Option<usize>,
    /// As the sandbox that has it to write has it now: a version of that is made first.
    #[serde(default)]
    live: bool,
    /// The tenant that shared it; default: one's own.
    #[serde(default)]
    tenant: Option<String>,
}

/// Files of a volume; at most 10,000 entries
#[utoipa::path(get, path = "/v1/volumes/{volume}/files", tag = "volumes",
    params(("volume" = String, Path, description = "Name"), Listing),
    responses((status = 200, body = VolumeFiles)))]
async fn volume_files(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(volume): Target,
    Query(listing): Query<Listing>,
) -> Result<Answer<VolumeFiles>, Failure> {
    let volume = Whose { tenant: listing.tenant }.named(volume);
    let view = VolumeView { version: listing.version, live: listing.live };
    let (path, depth) = (listing.path.as_deref(), listing.depth);
    Ok(Answer(app.fleet().volume_files(&actor, &volume, view, path, depth).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct At {
    path: String,
    /// Through the sandbox that has it to write, if there is one; without this such a volume is refused.
    #[serde(default)]
    live: bool,
    /// The tenant that shared it; default: one's own.
    #[serde(default)]
    tenant: Option<String>,
}

/// Remove a file, or a directory with what is in it
#[utoipa::path(delete, path = "/v1/volumes/{volume}/files", tag = "volumes",
    params(("volume" = String, Path, description = "Name"), At),
    responses((status = 200, body = VolumeVersion)))]
async fn delete_volume_file(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(volume): Target,
    Query(at): Query<At>,
) -> Result<Answer<VolumeVersion>, Failure> {
    let volume = Whose { tenant: at.tenant }.named(volume);
    Ok(Answer(app.fleet().delete_volume_file(&actor, &volume, &at.path, at.live).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Reading {
    path: String,
    /// Default: the current one.
    #[serde(default)]
    version: Option<u64>,
    /// As the sandbox that has it to write has it now: a version of that is made first.
    #[serde(default)]
    live: bool,
    /// The tenant that shared it; default: one's own.
    #[serde(default)]
    tenant: Option<String>,
}

/// Read a file of a volume
#[utoipa::path(get, path = "/v1/volumes/{volume}/files/content", tag = "volumes",
    params(("volume" = String, Path, description = "Name"), Reading),
    responses((status = 200, content_type = "application/octet-stream", body = [u8])))]
async fn read_volume_file(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(volume): Target,
    Query(read): Query<Reading>,
) -> Result<Response, Failure> {
    let volume = Whose { tenant: read.tenant }.named(volume);
    let view = VolumeView { version: read.version, live: read.live };
    let file = app.fleet().read_volume_file(&actor, &volume, view, &read.path).await?;
    Ok(stream::download(&app, file, stream::OCTETS))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Writing {
    path: String,
    /// Permission bits in octal, such as 644.
    #[serde(default)]
    #[param(pattern = "^[0-7]{1,4}$")]
    mode: Option<String>,
    /// Through the sandbox that has it to write, if there is one; without this such a volume is refused.
    #[serde(default)]
    live: bool,
    /// The tenant that shared it; default: one's own.
    #[serde(default)]
    tenant: Option<String>,
}

/// Put a file into a volume, as a new version
#[utoipa::path(put, path = "/v1/volumes/{volume}/files/content", tag = "volumes",
    params(("volume" = String, Path, description = "Name"), Writing),
    request_body(content = [u8], content_type = "application/octet-stream"),
    responses((status = 200, body = VolumeVersion)))]
async fn write_volume_file(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(volume): Target,
    Query(write): Query<Writing>,
    mut body: Incoming,
) -> Result<Answer<VolumeVersion>, Failure> {
    let mode = write.mode.as_deref().map(octal).transpose()?;
    let volume = Whose { tenant: write.tenant }.named(volume);
    let mut upload = app.fleet().write_volume_file(&actor, &volume, &write.path, mode, write.live).await?;
    while let Some(bytes) = body.next().await? {
        upload.write(&bytes).await?;
    }
    Ok(Answer(upload.finish().await?))
}

/// One path of a volume
///
/// The empty path is the volume itself. Links are not followed.
#[utoipa::path(get, path = "/v1/volumes/{volume}/files/stat", tag = "volumes",
    params(("volume" = String, Path, description = "Name"), Reading),
    responses((status = 200, body = VolumeFile)))]
async fn stat_volume_file(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(volume): Target,
    Query(read): Query<Reading>,
) -> Result<Answer<VolumeFile>, Failure> {
    let volume = Whose { tenant: read.tenant }.named(volume);
    let view = VolumeView { version: read.version, live: read.live };
    Ok(Answer(app.fleet().volume_file(&actor, &volume, view, &read.path).await?))
}

/// For changes whose path is in the body.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Changing {
    /// Through the sandbox that has it to write, if there is one; without this such a volume is refused.
    #[serde(default)]
    live: bool,
    /// The tenant that shared it; default: one's own.
    #[serde(default)]
    tenant: Option<String>,
}

/// Make a directory in a volume, as a new version
#[utoipa::path(post, path = "/v1/volumes/{volume}/files/directory", tag = "volumes",
    params(("volume" = String, Path, description = "Name"), Changing), request_body = MakeDirectory,
    responses((status = 201, body = VolumeVersion)))]
async fn make_volume_directory(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(volume): Target,
    Query(changing): Query<Changing>,
    Json(request): Json<MakeDirectory>,
) -> Result<(StatusCode, Answer<VolumeVersion>), Failure> {
    let volume = Whose { tenant: changing.tenant }.named(volume);
    let made = app.fleet().make_volume_directory(&actor, &volume, request, changing.live).await?;
    Ok((StatusCode::CREATED, Answer(made)))
}

/// Change permission bits in a volume, as a new version
#[utoipa::path(post, path = "/v1/volumes/{volume}/files/mode", tag = "volumes",
    params(("volume" = String, Path, description = "Name"), Changing), request_body = ChangeMode,
    responses((status = 200, body = VolumeVersion)))]
async fn change_volume_mode(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(volume): Target,
    Query(changing): Query<Changing>,
    Json(request): Json<ChangeMode>,
) -> Result<Answer<VolumeVersion>, Failure> {
    let volume = Whose { tenant: changing.tenant }.named(volume);
    Ok(Answer(app.fleet().change_volume_mode(&actor, &volume, request, changing.live).await?))
}

/// Make a version of a volume while its sandbox runs
#[utoipa::path(post, path = "/v1/sandboxes/{id}/volumes/{volume}/checkpoint", tag = "volumes",
    params(("id" = String, Path, description = "Id or name"),
        ("volume" = String, Path, description = "Its name, as the sandbox has it")),
    responses((status = 200, body = MountedVolume)))]
async fn checkpoint_volume(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((id, volume)): Target<(String, String)>,
    _: NoQuery,
) -> Result<Answer<MountedVolume>, Failure> {
    Ok(Answer(app.fleet().checkpoint_volume(&actor, &id, &volume).await?))
}
