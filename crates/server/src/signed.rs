//! Signed URLs: the token in the path is all the permission that there is.

use crate::app::App;
use crate::errors::Failure;
use crate::extract::{Incoming, NoQuery, Target};
use crate::revoked::{self, Leash};
use crate::{auth, files, gateway, stream};
use axum::Json as Answer;
use axum::extract::{FromRequest, Request, State};
use axum::http::Extensions;
use axum::response::{IntoResponse, Response};
use paddock_fleet::{SignedPath, WriteOptions};
use paddock_model::api::{ApiError, FileEntry};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

pub fn routes() -> OpenApiRouter<App> {
    OpenApiRouter::new().routes(routes!(read_signed, write_signed))
}

/// Read the file that a URL was signed for
#[utoipa::path(get, path = "/v1/signed/{token}", tag = "files", security(()),
    params(("token" = String, Path, description = "From POST .../files/sign")),
    responses((status = 200, content_type = "application/octet-stream", body = [u8]),
        (status = 404, body = ApiError), (status = 409, body = ApiError), (status = 410, body = ApiError),
        (status = 422, body = ApiError), (status = 429, body = ApiError)))]
async fn read_signed(
    State(app): State<App>,
    Target(token): Target,
    _: NoQuery,
    request: Request,
) -> Result<Response, Failure> {
    let signed = allowed(&app, request.extensions(), &token, true).await?;
    auth::is_known(request.extensions());
    let leash = signed.revoked.clone().map(|revoked| Leash::new(revoked, &request));
    let read = async {
        let file = app.fleet().read_file(&signed.actor, &signed.sandbox, &signed.path, 0, None, None).await;
        match file {
            Ok(file) => stream::download(&app, file, stream::OCTETS),
            Err(error) => Failure::from(error).into_response(),
        }
    };
    Ok(revoked::bounded(leash, read).await)
}

/// Write the file that a URL was signed for
#[utoipa::path(put, path = "/v1/signed/{token}", tag = "files", security(()),
    params(("token" = String, Path, description = "From POST .../files/sign")),
    request_body(content = [u8], content_type = "application/octet-stream"),
    responses((status = 200, body = FileEntry), (status = 404, body = ApiError), (status = 409, body = ApiError),
        (status = 410, body = ApiError), (status = 422, body = ApiError), (status = 429, body = ApiError),
        (status = 507, body = ApiError)))]
async fn write_signed(
    State(app): State<App>,
    Target(token): Target,
    _: NoQuery,
    request: Request,
) -> Result<Response, Failure> {
    let signed = allowed(&app, request.extensions(), &token, false).await?;
    auth::is_known(request.extensions());
    let leash = signed.revoked.clone().map(|revoked| Leash::new(revoked, &request));
    let body = Incoming::from_request(request, &app).await?;
    let write = async {
        let options = WriteOptions { mode: None, parents: true, user: None, ..WriteOptions::default() };
        let upload = app.fleet().write_file(&signed.actor, &signed.sandbox, &signed.path, options).await?;
        files::fill(upload, body).await
    };
    let written = async { write.await.map(Answer).into_response() };
    Ok(revoked::bounded(leash, written).await)
}

async fn allowed(app: &App, extensions: &Extensions, token: &str, read: bool) -> Result<SignedPath, Failure> {
    let signed = app.fleet().verify_signed(token, gateway::holder(extensions)).await?;
    match signed.read == read {
        true => Ok(signed),
        false => {
            let operation = if signed.read { "reading" } else { "writing" };
            Err(Failure::forbidden(format!("this URL was signed for {operation}")))
        }
    }
}
