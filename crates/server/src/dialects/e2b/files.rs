//! Whole files over HTTP: `GET /files` and `POST /files`, with an access token or a signature.

use super::errors::{Refusal, Result};
use super::inside::{Inside, User, basic_user};
use super::multipart::{Multipart, boundary};
use super::signature_search;
use super::signatures::{Operation, Wanted};
use super::{entries, packed, sandboxes};
use crate::app::App;
use crate::auth;
use crate::errors::shorten;
use crate::extract::Incoming;
use crate::revoked::{self, Leash};
use crate::stream;
use axum::Json;
use axum::extract::{FromRequest, Request, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use paddock_fleet::{Admitted, Upload, WriteOptions};
use paddock_model::api::FileEntry;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// Of one form.
const MOST_FILES: usize = 1000;

pub async fn read(inside: Inside, request: Request) -> Result<Response> {
    let wanted = Wanted::of(request.uri().query())?;
    let user = user(&inside, &wanted, request.headers())?;
    let path = user.path(wanted.path.as_deref().unwrap_or_default())?;
    let (fleet, id) = (inside.fleet(), inside.id());
    let opened = fleet.read_file(&inside.actor, id, &path, 0, None, user.name.as_deref()).await;
    let mut file = opened.map_err(|error| refused(id, error))?;
    file.look_ahead().await.map_err(|error| refused(id, error))?;
    let mut response = stream::download(&inside.app, file, stream::OCTETS);
    if packed::is_wanted(request.headers()) {
        response = packed::gzip(response);
    }
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("accept-encoding"));
    Ok(response)
}

pub async fn write(inside: Inside, request: Request) -> Result<Response> {
    let wanted = Wanted::of(request.uri().query())?;
    let user = user(&inside, &wanted, request.headers())?;
    let attributes = entries::attributes_of(request.headers())?;
    let kind = request.headers().get(header::CONTENT_TYPE).and_then(|kind| kind.to_str().ok());
    let kind = kind.unwrap_or_default().to_string();
    let encoding = Encoding::of(request.headers())?;
    let to = Destination { inside: &inside, user, path: wanted.path, attributes };
    let mut body = Incoming::from_request(request, &inside.app).await?;
    if encoding == Encoding::Gzip {
        body = body.gunzip();
    }
    let written = match boundary(&kind) {
        Some(boundary) => {
            let mut form = Multipart::new(body, &boundary);
            let written = to.form(&mut form).await;
            if written.is_err() {
                form.pass_over().await;
            }
            written?
        }
        None if kind.split(';').next().is_some_and(|kind| kind.trim() == stream::OCTETS) => {
            let written = to.octets(&mut body).await;
            if written.is_err() {
                body.pass_over().await;
            }
            vec![written?]
        }
        None => {
            return Err(Refusal::invalid(format!(
                "the content type {:?} is neither multipart/form-data with a boundary nor application/octet-stream",
                shorten(&kind)
            )));
        }
    };
    let written: Vec<Value> = written.iter().map(described).collect();
    Ok(Json(written).into_response())
}

fn described(entry: &FileEntry) -> Value {
    let metadata = entries::metadata(entry);
    json!({ "name": entries::name(&entry.path), "type": "file", "path": entry.path, "metadata": metadata })
}

pub async fn read_signed(State(app): State<App>, request: Request) -> Result<Response> {
    signed(app, request, Operation::Read).await
}

pub async fn write_signed(State(app): State<App>, request: Request) -> Result<Response> {
    signed(app, request, Operation::Write).await
}

/// A signature is valid until the API key that it was made for is revoked.
async fn signed(app: App, request: Request, operation: Operation) -> Result<Response> {
    let sought = Wanted::of(request.uri().query())?.sought(operation)?;
    let signed = signature_search::find(&app, sought).await?;
    let admitted = app.fleet().admit_token(&signed.key).await?;
    let Some(Admitted { actor, revoked }) = admitted else {
        return Err(Refusal::unauthorized("the API key that this address was signed for was revoked"));
    };
    auth::is_known(request.extensions());
    // Its role may have changed since it signed.
    if actor.only_reads() {
        return Err(auth::reads_only().into());
    }
    let leash = Leash::new(revoked, &request);
    let sandbox = sandboxes::find(&app, &actor, &signed.sandbox).await?;
    let sandbox = sandboxes::running(&app, &actor, sandbox).await?;
    let inside = Inside { app, actor, sandbox };
    let answering = async {
        let answered = match operation {
            Operation::Read => read(inside, request).await,
            Operation::Write => write(inside, request).await,
        };
        answered.unwrap_or_else(IntoResponse::into_response)
    };
    Ok(revoked::bounded(Some(leash), answering).await)
}

/// The query names it, else the header.
fn user(inside: &Inside, wanted: &Wanted, headers: &HeaderMap) -> Result<User> {
    let named = match &wanted.username {
        Some(name) => Some(name.clone()),
        None => basic_user(headers)?,
    };
    Ok(inside.user(named.as_deref()))
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Encoding {
    Plain,
    Gzip,
}

impl Encoding {
    fn of(headers: &HeaderMap) -> Result<Encoding> {
        match headers.get(header::CONTENT_ENCODING).map(|value| value.to_str().unwrap_or_default()) {
            None | Some("" | "identity") => Ok(Encoding::Plain),
            Some("gzip") => Ok(Encoding::Gzip),
            Some(other) => {
                Err(Refusal::invalid(format!("the content encoding {:?} is not gzip", shorten(other))))
            }
        }
    }
}

/// Where files of one request go.
struct Destination<'a> {
    inside: &'a Inside,
    user: User,
    /// For the only file; else each names itself.
    path: Option<String>,
    /// Of each file.
    attributes: BTreeMap<String, String>,
}

impl Destination<'_> {
    async fn open(&self, path: &str) -> Result<Upload<FileEntry>> {
        let options = WriteOptions {
            mode: None,
            parents: true,
            user: self.user.name.clone(),
            attributes: self.attributes.clone(),
            ..WriteOptions::default()
        };
        let (fleet, id) = (self.inside.fleet(), self.inside.id());
        let path = self.user.path(path)?;
        fleet.write_file(&self.inside.actor, id, &path, options).await.map_err(|error| refused(id, error))
    }

    async fn finish(&self, upload: Upload<FileEntry>) -> Result<FileEntry> {
        upload.finish().await.map_err(|error| refused(self.inside.id(), error))
    }

    async fn octets(&self, body: &mut Incoming) -> Result<FileEntry> {
        let path = self.path.as_deref().ok_or_else(|| Refusal::invalid("the parameter path is missing"))?;
        let mut upload = self.open(path).await?;
        while let Some(bytes) = body.next().await? {
            upload.write(&bytes).await.map_err(|error| refused(self.inside.id(), error))?;
        }
        self.finish(upload).await
    }

    async fn form(&self, form: &mut Multipart) -> Result<Vec<FileEntry>> {
        let mut written = Vec::new();
        while let Some(part) = form.next().await? {
            if part.name != "file" {
                continue;
            }
            if written.len() == MOST_FILES {
                return Err(Refusal::invalid(format!("one request has more than {MOST_FILES} files")));
            }
            if self.path.is_some() && !written.is_empty() {
                return Err(Refusal::invalid("the parameter path names one file, and the form has more"));
            }
            let path = self.path.clone().or(part.file_name);
            let path = path.ok_or_else(|| Refusal::invalid("a file of the form has no name"))?;
            let mut upload = self.open(&path).await?;
            while let Some(piece) = form.piece().await? {
                upload.write(&piece).await.map_err(|error| refused(self.inside.id(), error))?;
            }
            written.push(self.finish(upload).await?);
        }
        match written.is_empty() {
            true => Err(Refusal::invalid("the form has no part named file")),
            false => Ok(written),
        }
    }
}

/// A path that is no file is the caller's mistake, whatever is there.
fn refused(id: &str, error: paddock_fleet::FleetError) -> Refusal {
    let mut refusal = Refusal::of(id, error);
    if matches!(refusal.failure.code, "not_a_file" | "not_a_directory" | "unknown_user") {
        refusal.failure.status = StatusCode::BAD_REQUEST;
    }
    refusal
}
