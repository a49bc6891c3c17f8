//! The templates that sandboxes can be made from, and those that tenants build.

use crate::app::App;
use crate::auth::Caller;
use crate::errors::Failure;
use crate::extract::{Incoming, Json, NoQuery, Query, Target};
use crate::sandboxes::page_limit;
use axum::Json as Answer;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use paddock_fleet::Actor;
use paddock_model::api::{
    ApiError, BuildLog, BuildTemplate, LogLevel, SetTag, Template, TemplateBuild, TemplateBuildPage,
    TemplateFiles,
};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

const PAGE: usize = 100;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new()
        .routes(routes!(list_templates))
        .routes(routes!(get_template, delete_template))
        .routes(routes!(set_template_tag, remove_template_tag))
        .routes(routes!(list_template_builds, build_template))
        .routes(routes!(get_template_build))
        .routes(routes!(template_build_log))
        .routes(routes!(upload_template_files))
}

#[derive(Serialize, utoipa::ToSchema)]
struct TemplateList {
    templates: Vec<Template>,
}

/// List templates
#[utoipa::path(get, path = "/v1/templates", tag = "templates", responses((status = 200, body = TemplateList)))]
async fn list_templates(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
) -> Result<Answer<TemplateList>, Failure> {
    Ok(Answer(TemplateList { templates: app.fleet().templates(&actor).await? }))
}

/// One template of the tenant's own
#[utoipa::path(get, path = "/v1/templates/{template}", tag = "templates",
    params(("template" = String, Path, description = "Id or name")),
    responses((status = 200, body = Template), (status = 404, body = ApiError)))]
async fn get_template(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(template): Target,
    _: NoQuery,
) -> Result<Answer<Template>, Failure> {
    Ok(Answer(app.fleet().own_template(&actor, &template)?))
}

/// Delete a template of the tenant's own
#[utoipa::path(delete, path = "/v1/templates/{template}", tag = "templates",
    params(("template" = String, Path, description = "Id or name")),
    responses((status = 204), (status = 404, body = ApiError)))]
async fn delete_template(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(template): Target,
    _: NoQuery,
) -> Result<StatusCode, Failure> {
    app.fleet().delete_template(&actor, &template).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Tag a build
///
/// A tag of this name moves from the build that has it.
#[utoipa::path(put, path = "/v1/templates/{template}/tags/{tag}", tag = "templates", request_body = SetTag,
    params(("template" = String, Path, description = "Id or name"), ("tag" = String, Path, description = "Tag")),
    responses((status = 200, body = Template), (status = 404, body = ApiError)))]
async fn set_template_tag(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((template, tag)): Target<(String, String)>,
    _: NoQuery,
    Json(request): Json<SetTag>,
) -> Result<Answer<Template>, Failure> {
    Ok(Answer(app.fleet().tag_template(&actor, &template, &request.build, &[tag])?))
}

/// Remove a tag
#[utoipa::path(delete, path = "/v1/templates/{template}/tags/{tag}", tag = "templates",
    params(("template" = String, Path, description = "Id or name"), ("tag" = String, Path, description = "Tag")),
    responses((status = 204), (status = 404, body = ApiError)))]
async fn remove_template_tag(
    State(app): State<App>,
    Caller(actor): Caller,
    Target((template, tag)): Target<(String, String)>,
    _: NoQuery,
) -> Result<StatusCode, Failure> {
    app.fleet().untag_template(&actor, &template, &[tag])?;
    Ok(StatusCode::NO_CONTENT)
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Listing {
    /// At most 1000; default 100.
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// `next_cursor` of the page before.
    #[serde(default)]
    cursor: Option<String>,
}

/// List the builds of the tenant, the newest first
///
/// The owner by the unix socket, and an admin token of the owner's tenant, see those of `paddock template build` too.
#[utoipa::path(get, path = "/v1/template-builds", tag = "templates", params(Listing),
    responses((status = 200, body = TemplateBuildPage), (status = 400, body = ApiError)))]
async fn list_template_builds(
    State(app): State<App>,
    Caller(actor): Caller,
    Query(listing): Query<Listing>,
) -> Result<Answer<TemplateBuildPage>, Failure> {
    let limit = page_limit(listing.limit)?;
    Ok(Answer(app.fleet().template_builds(&actor, limit, listing.cursor.as_deref()).await?))
}

/// Build a template
///
/// Each step runs in a sandbox of its own; steps that are kept from earlier builds are not done again. The template belongs to
/// the tenant.
#[utoipa::path(post, path = "/v1/template-builds", tag = "templates", request_body = BuildTemplate,
    responses((status = 202, body = TemplateBuild), (status = 404, body = ApiError), (status = 429, body = ApiError)))]
async fn build_template(
    State(app): State<App>,
    Caller(actor): Caller,
    _: NoQuery,
    Json(request): Json<BuildTemplate>,
) -> Result<(StatusCode, Answer<TemplateBuild>), Failure> {
    Ok((StatusCode::ACCEPTED, Answer(app.fleet().build_template(&actor, request).await?)))
}

/// A build of a template
#[utoipa::path(get, path = "/v1/template-builds/{build}", tag = "templates",
    params(("build" = String, Path, description = "Id")),
    responses((status = 200, body = TemplateBuild), (status = 404, body = ApiError)))]
async fn get_template_build(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(build): Target,
    _: NoQuery,
) -> Result<Answer<TemplateBuild>, Failure> {
    Ok(Answer(app.fleet().template_build(&actor, &build)?))
}

#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Entries {
    /// The number of entries to leave out.
    #[serde(default)]
    offset: usize,
    /// At most 1000; default 100.
    #[serde(default)]
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<usize>,
    /// Only entries of this level and above; default: all.
    #[serde(default)]
    level: Option<LogLevel>,
}

/// The log of a build
#[utoipa::path(get, path = "/v1/template-builds/{build}/log", tag = "templates",
    params(("build" = String, Path, description = "Id"), Entries),
    responses((status = 200, body = BuildLog), (status = 404, body = ApiError)))]
async fn template_build_log(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(build): Target,
    Query(entries): Query<Entries>,
) -> Result<Answer<BuildLog>, Failure> {
    let part = (entries.offset, entries.limit.unwrap_or(PAGE));
    let level = entries.level.unwrap_or(LogLevel::Debug);
    Ok(Answer(app.fleet().template_build_log(&actor, &build, part, level).await?))
}

/// Upload files for a step that copies
///
/// A tar archive, plain or compressed, of at most 1 GiB. It is kept for a week after its last use.
#[utoipa::path(put, path = "/v1/template-files/{hash}", tag = "templates",
    params(("hash" = String, Path, description = "64 hexadecimal digits by which steps name the files")),
    request_body(content = [u8], content_type = "application/octet-stream"),
    responses((status = 200, body = TemplateFiles), (status = 413, body = ApiError)))]
async fn upload_template_files(
    State(app): State<App>,
    Caller(actor): Caller,
    Target(hash): Target,
    _: NoQuery,
    request: Request,
) -> Result<Answer<TemplateFiles>, Failure> {
    Ok(Answer(receive_files(&app, &actor, &hash, request).await?))
}

/// Keeps the body of the request as an archive of the tenant's.
pub async fn receive_files(
    app: &App,
    actor: &Actor,
    hash: &str,
    request: Request,
) -> Result<TemplateFiles, Failure> {
    let announced = announced_length(request.headers());
    let mut upload = app.fleet().upload_template_files(actor, hash, announced).await?;
    let mut body = Incoming::from_request(request, app).await?;
    let mut received = 0;
    while let Some(bytes) = body.next().await? {
        received += bytes.len() as u64;
        upload.write(&bytes)?;
    }
    if announced.is_some_and(|announced| announced != received) {
        return Err(Failure::invalid("the body is not as long as its Content-Length"));
    }
    Ok(upload.finish().await?)
}

fn announced_length(headers: &HeaderMap) -> Option<u64> {
    headers.get(header::CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}
