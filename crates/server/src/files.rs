//! Files inside. The guest resolves every path; the server passes it on as it came.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Incoming, Json, Query, Target};
use crate::sandboxes::page_limit;
use crate::stream;
use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use paddock_fleet::{Upload, WriteOptions};
use paddock_model::api::{
    ChangeMode, FileEntry, FileEvent, FilePage, MakeDirectory, MoveFile, ResolvedPath, SignPath, SignedUrl,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(read_file, write_file))
        .routes(routes!(list_files, delete_file))
        .routes(routes!(stat_file))
        .routes(routes!(file_exists))
        .routes(routes!(resolve_path))
        .routes(routes!(make_directory))
        .routes(routes!(move_file))
        .routes(routes!(change_mode))
        .routes(routes!(watch_files))
        .routes(routes!(download_archive, upload_archive))
        .routes(routes!(sign_path))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct At {
    path: String,
    /// User inside; default: the sandbox's own user.
    #[serde(default)]
    user: Option<String>,
}

/// For operations whose paths are in the body.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct As {
    /// User inside; default: the sandbox's own user.
    #[serde(default)]
    user: Option<String>,
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Reading {
    path: String,
    #[serde(default)]
    offset: u64,
    /// Default: to the end.
    #[serde(default)]
    length: Option<u64>,
    #[serde(default)]
    user: Option<String>,
}

/// Read a file, or a part of it
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files/content", tag = "files",
    params(("id" = String, Path, description = "Id or name"), Reading),
    responses((status = 200, content_type = "application/octet-stream", body = [u8])))]
async fn read_file(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(read): Query<Reading>,
) -> Result<Response, Failure> {
    let mut file = app
        .fleet()
        .read_file(&actor, &id, &read.path, read.offset, read.length, read.user.as_deref())
        .await?;
    file.look_ahead().await?;
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
    /// Make the directories above it that are missing.
    #[serde(default)]
    parents: bool,
    #[serde(default)]
    user: Option<String>,
    /// Extended attributes of the user's namespace, as a JSON object of texts by their names without `user.`.
    #[serde(default)]
    attributes: Option<String>,
    /// Write the file that a link at the path leads to, as an editor does, and refuse a file that the user may not write.
    /// Else a link or file is replaced, for which the right to its directory is enough.
    #[serde(default)]
    follow_links: bool,
}

/// Write a file
///
/// Atomic: until all of the body has arrived, the old file stays as it is.
#[utoipa::path(put, path = "/v1/sandboxes/{id}/files/content", tag = "files",
    params(("id" = String, Path, description = "Id or name"), Writing),
    request_body(content = [u8], content_type = "application/octet-stream"),
    responses((status = 200, body = FileEntry)))]
async fn write_file(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(write): Query<Writing>,
    body: Incoming,
) -> Result<Answer<FileEntry>, Failure> {
    let mode = write.mode.as_deref().map(octal).transpose()?;
    let attributes = write.attributes.as_deref().map(attributes).transpose()?.unwrap_or_default();
    let options = WriteOptions {
        mode,
        parents: write.parents,
        user: write.user,
        attributes,
        follow_links: write.follow_links,
    };
    let upload = app.fleet().write_file(&actor, &id, &write.path, options).await?;
    Ok(Answer(fill(upload, body).await?))
}

/// An error drops the upload, and nothing has happened inside.
pub async fn fill<T>(mut upload: Upload<T>, mut body: Incoming) -> Result<T, Failure> {
    while let Some(bytes) = body.next().await? {
        upload.write(&bytes).await?;
    }
    Ok(upload.finish().await?)
}

fn attributes(text: &str) -> Result<BTreeMap<String, String>, Failure> {
    serde_json::from_str(text).map_err(|error| {
        let shown = crate::errors::shorten(text);
        Failure::invalid(format!("parameter `attributes`: {shown:?} is not a JSON object of texts: {error}"))
    })
}

pub fn octal(text: &str) -> Result<u32, Failure> {
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    u32::from_str_radix(text, 8).ok().filter(|_| digits).ok_or_else(|| {
        Failure::invalid(format!(
            "parameter `mode`: {:?} is not 1 to 4 octal digits",
            crate::errors::shorten(text)
        ))
    })
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Listing {
    path: String,
    #[serde(default)]
    recursive: bool,
    /// 1 to 1000; default 100.
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
    #[serde(default)]
    user: Option<String>,
}

/// List a directory
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files", tag = "files",
    params(("id" = String, Path, description = "Id or name"), Listing), responses((status = 200, body = FilePage)))]
async fn list_files(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(list): Query<Listing>,
) -> Result<Answer<FilePage>, Failure> {
    let limit = page_limit(list.limit)?;
    let (cursor, user) = (list.cursor.as_deref(), list.user.as_deref());
    Ok(Answer(app.fleet().list_files(&actor, &id, &list.path, list.recursive, limit, cursor, user).await?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Below {
    path: String,
    /// A directory with everything below it.
    #[serde(default)]
    recursive: bool,
    #[serde(default)]
    user: Option<String>,
}

/// Delete a file or a directory
#[utoipa::path(delete, path = "/v1/sandboxes/{id}/files", tag = "files",
    params(("id" = String, Path, description = "Id or name"), Below), responses((status = 204)))]
async fn delete_file(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(below): Query<Below>,
) -> Result<StatusCode, Failure> {
    app.fleet().remove_file(&actor, &id, &below.path, below.recursive, below.user.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Kind, size and owner of a path
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files/stat", tag = "files",
    params(("id" = String, Path, description = "Id or name"), At), responses((status = 200, body = FileEntry)))]
async fn stat_file(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(at): Query<At>,
) -> Result<Answer<FileEntry>, Failure> {
    Ok(Answer(app.fleet().stat(&actor, &id, &at.path, at.user.as_deref()).await?))
}

/// Where a path leads, through all links
///
/// Nothing has to be there: parts that are missing stay as they are written.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files/resolve", tag = "files",
    params(("id" = String, Path, description = "Id or name"), At), responses((status = 200, body = ResolvedPath)))]
async fn resolve_path(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(at): Query<At>,
) -> Result<Answer<ResolvedPath>, Failure> {
    Ok(Answer(app.fleet().resolve(&actor, &id, &at.path, at.user.as_deref()).await?))
}

#[derive(Serialize, utoipa::ToSchema)]
struct Existence {
    exists: bool,
}

/// Look if a path exists
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files/exists", tag = "files",
    params(("id" = String, Path, description = "Id or name"), At), responses((status = 200, body = Existence)))]
async fn file_exists(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(at): Query<At>,
) -> Result<Answer<Existence>, Failure> {
    Ok(Answer(Existence { exists: app.fleet().exists(&actor, &id, &at.path, at.user.as_deref()).await? }))
}

/// Make a directory
#[utoipa::path(post, path = "/v1/sandboxes/{id}/files/directory", tag = "files",
    params(("id" = String, Path, description = "Id or name"), As), request_body = MakeDirectory,
    responses((status = 201, body = FileEntry)))]
async fn make_directory(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(who): Query<As>,
    Json(request): Json<MakeDirectory>,
) -> Result<(StatusCode, Answer<FileEntry>), Failure> {
    let entry = app.fleet().make_directory(&actor, &id, request, who.user.as_deref()).await?;
    Ok((StatusCode::CREATED, Answer(entry)))
}

/// Move or rename
#[utoipa::path(post, path = "/v1/sandboxes/{id}/files/move", tag = "files",
    params(("id" = String, Path, description = "Id or name"), As), request_body = MoveFile,
    responses((status = 200, body = FileEntry)))]
async fn move_file(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(who): Query<As>,
    Json(request): Json<MoveFile>,
) -> Result<Answer<FileEntry>, Failure> {
    Ok(Answer(app.fleet().move_file(&actor, &id, request, who.user.as_deref()).await?))
}

/// Change permission bits
#[utoipa::path(post, path = "/v1/sandboxes/{id}/files/mode", tag = "files",
    params(("id" = String, Path, description = "Id or name"), As), request_body = ChangeMode,
    responses((status = 200, body = FileEntry)))]
async fn change_mode(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(who): Query<As>,
    Json(request): Json<ChangeMode>,
) -> Result<Answer<FileEntry>, Failure> {
    Ok(Answer(app.fleet().change_mode(&actor, &id, request, who.user.as_deref()).await?))
}

/// See what happens to files, as lines of JSON
///
/// The first line says `watching`: what happens from there on is seen. While nothing happens, a line says `alive` as often as the header
/// `x-paddock-alive-seconds` says. Servers before that one send neither the header nor the line.
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files/watch", tag = "files",
    params(("id" = String, Path, description = "Id or name"), Below),
    responses((status = 200, description = "One FileEvent per line", content_type = "application/x-ndjson", body = FileEvent)))]
async fn watch_files(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(below): Query<Below>,
) -> Result<Response, Failure> {
    let watch = app.fleet().watch(&actor, &id, &below.path, below.recursive, below.user.as_deref()).await?;
    Ok(stream::watch(&app, below.path, watch))
}

/// A directory as a tar archive
#[utoipa::path(get, path = "/v1/sandboxes/{id}/files/archive", tag = "files",
    params(("id" = String, Path, description = "Id or name"), At),
    responses((status = 200, content_type = "application/x-tar", body = [u8])))]
async fn download_archive(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(at): Query<At>,
) -> Result<Response, Failure> {
    let archive = app.fleet().download_archive(&actor, &id, &at.path, at.user.as_deref()).await?;
    Ok(stream::download(&app, archive, stream::TAR))
}

/// Unpack a tar archive into a directory
#[utoipa::path(put, path = "/v1/sandboxes/{id}/files/archive", tag = "files",
    params(("id" = String, Path, description = "Id or name"), At),
    request_body(content = [u8], content_type = "application/x-tar"), responses((status = 204)))]
async fn upload_archive(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    Query(at): Query<At>,
    body: Incoming,
) -> Result<StatusCode, Failure> {
    let upload = app.fleet().upload_archive(&actor, &id, &at.path, at.user.as_deref()).await?;
    fill(upload, body).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// A URL for one path, which needs no token until it expires
#[utoipa::path(post, path = "/v1/sandboxes/{id}/files/sign", tag = "files",
    params(("id" = String, Path, description = "Id or name")), request_body = SignPath,
    responses((status = 200, body = SignedUrl)))]
async fn sign_path(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(id): Target,
    _: crate::extract::NoQuery,
    Json(request): Json<SignPath>,
) -> Result<Answer<SignedUrl>, Failure> {
    Ok(Answer(app.fleet().sign_path(&actor, &id, request).await?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_octal() {
        assert_eq!(octal("644").expect("valid"), 0o644);
        assert_eq!(octal("0755").expect("valid"), 0o755);
        for bad in ["", "8", "rwx", "-1", "+7", "77777", "0o644"] {
            assert!(octal(bad).is_err(), "{bad}");
        }
    }
}
