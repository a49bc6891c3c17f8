use std::sync::Arc;
use std::time::Duration;

use reqwest::header::{ACCEPT, WWW_AUTHENTICATE};
use reqwest::redirect::Policy;
use reqwest::{RequestBuilder, Response, StatusCode, Url};
use serde::Deserialize;
use tokio::io::AsyncWriteExt;

use super::challenge::Challenge;
use super::credentials::Credentials;
use super::reach::{Refused, RegistryReach};
use crate::digest::{Digest, Hasher};
use crate::error::printable;
use crate::manifest::{DOCKER_INDEX, DOCKER_MANIFEST, Descriptor, OCI_INDEX, OCI_MANIFEST};
use crate::reference::{RegistryReference, is_this_machine};
use crate::store::Shared;
use crate::{ImageError, Progress, UnpackLimits};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(15);
/// Without a byte for this long, a transfer has failed.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
const MOST_REDIRECTS: usize = 5;
/// The most bytes of an answer that is not content: a token, or the description of an error.
const SMALL_ANSWER: u64 = 256 << 10;

/// One repository of one registry. Every answer is checked against its digest and kept in the store.
pub struct Client {
    http: reqwest::Client,
    reference: RegistryReference,
    reach: RegistryReach,
    shared: Arc<Shared>,
    credentials: Option<Credentials>,
    authorization: Authorization,
}

enum Authorization {
    None,
    Basic,
    Bearer(String),
}

#[derive(Deserialize)]
struct Token {
    #[serde(alias = "access_token")]
    token: String,
}

impl Client {
    pub fn new(
        reference: &RegistryReference,
        reach: &RegistryReach,
        login: Option<&Credentials>,
        shared: Arc<Shared>,
    ) -> Result<Self, ImageError> {
        let allowed = reach.clone();
        let redirects = Policy::custom(move |attempt| {
            let into_the_clear = attempt.previous().iter().any(|url| url.scheme() == "https")
                && attempt.url().scheme() != "https";
            if attempt.previous().len() > MOST_REDIRECTS || into_the_clear {
                attempt.stop()
            } else if !allowed.allows(attempt.url()) {
                let host = attempt.url().host_str().unwrap_or_default().to_string();
                attempt.error(Refused(host))
            } else {
                attempt.follow()
            }
        });
        // Other code of this process may have chosen a provider already; either choice is fine.
        let _ = rustls::crypto::ring::default_provider().install_default();
        let mut builder = reqwest::Client::builder();
        if reference.base_url().starts_with("http:") {
            builder = builder.no_proxy();
        }
        if let Some(resolver) = reach.resolver() {
            builder = builder.dns_resolver(resolver);
        }
        let http = builder
            .connect_timeout(CONNECT_TIMEOUT)
            .read_timeout(READ_TIMEOUT)
            .redirect(redirects)
            .user_agent(concat!("paddock/", env!("CARGO_PKG_VERSION")))
            .build()
            .map_err(|error| connection_failed(reference, error))?;
        let credentials = match login {
            Some(login) => Some(login.clone()),
            None => Credentials::find(&reference.registry)?,
        };
        let reference = reference.clone();
        let reach = reach.clone();
        Ok(Self { http, reference, reach, shared, credentials, authorization: Authorization::None })
    }

    pub fn limits(&self) -> &UnpackLimits {
        &self.shared.limits
    }

    /// The manifest that a tag stands for now: the registry is asked each time.
    pub async fn tagged_manifest(&mut self, tag: &str) -> Result<(Vec<u8>, Digest), ImageError> {
        let bytes = self.fetch_document(&format!("manifests/{tag}")).await?;
        let digest = Digest::of(&bytes);
        self.keep(&bytes, &digest).await?;
        Ok((bytes, digest))
    }

    pub async fn manifest(&mut self, digest: &Digest) -> Result<Vec<u8>, ImageError> {
        self.document(digest, &format!("manifests/{digest}"), "the manifest").await
    }

    pub async fn config(&mut self, descriptor: &Descriptor) -> Result<Vec<u8>, ImageError> {
        let path = format!("blobs/{}", descriptor.digest);
        let bytes = self.document(&descriptor.digest, &path, "the configuration").await?;
        descriptor.check(&bytes, "the configuration")?;
        Ok(bytes)
    }

    /// Fetches the missing blobs.
    pub async fn download(
        &mut self,
        blobs: &[Descriptor],
        progress: &dyn Progress,
    ) -> Result<(), ImageError> {
        let missing: Vec<_> = blobs.iter().filter(|blob| !self.has(blob)).collect();
        if missing.is_empty() {
            return Ok(());
        }
        progress.start("downloading", Some(missing.iter().map(|blob| blob.size).sum()));
        for blob in missing {
            let shared = self.shared.clone();
            let name = format!("blob-{}", blob.digest.hex());
            let waiting = tokio::task::spawn_blocking(move || shared.directories.lock(&name));
            let _lock = waiting.await.map_err(|_| ImageError::Cancelled)??;
            // Another process may have fetched it while we waited.
            if self.has(blob) {
                progress.advance(blob.size);
            } else {
                self.download_blob(blob, progress).await?;
            }
        }
        progress.done();
        Ok(())
    }

    async fn download_blob(&mut self, blob: &Descriptor, progress: &dyn Progress) -> Result<(), ImageError> {
        let mut response = self.get(&format!("blobs/{}", blob.digest)).await?;
        let work = self.shared.directories.temporary()?;
        let path = work.path.join("blob");
        let failed = |error| ImageError::io("write", &path, error);
        let mut file = tokio::fs::File::create(&path).await.map_err(failed)?;
        let mut hasher = Hasher::default();
        let mut received = 0;
        while let Some(chunk) = self.chunk(&mut response).await? {
            let chunk = chunk.as_ref();
            received += chunk.len() as u64;
            if received > blob.size {
                break;
            }
            hasher.update(chunk);
            file.write_all(chunk).await.map_err(failed)?;
            progress.advance(chunk.len() as u64);
        }
        if received != blob.size {
            let what = "a layer".to_owned();
            return Err(ImageError::SizeMismatch { what, expected: blob.size, found: received });
        }
        blob.digest.expect(&hasher.finish(), "a layer")?;
        file.sync_all().await.map_err(failed)?;
        std::fs::rename(&path, self.shared.directories.blob(&blob.digest)).map_err(failed)
    }

    fn has(&self, blob: &Descriptor) -> bool {
        let metadata = std::fs::metadata(self.shared.directories.blob(&blob.digest));
        metadata.is_ok_and(|metadata| metadata.len() == blob.size)
    }

    async fn document(&mut self, digest: &Digest, path: &str, what: &str) -> Result<Vec<u8>, ImageError> {
        let kept = self.shared.directories.blob(digest);
        let small_enough =
            std::fs::metadata(&kept).is_ok_and(|file| file.len() <= self.limits().document_bytes);
        if small_enough
            && let Ok(bytes) = tokio::fs::read(&kept).await
            && Digest::of(&bytes) == *digest
        {
            return Ok(bytes);
        }
        let bytes = self.fetch_document(path).await?;
        digest.expect(&Digest::of(&bytes), what)?;
        self.keep(&bytes, digest).await?;
        Ok(bytes)
    }

    async fn keep(&self, bytes: &[u8], digest: &Digest) -> Result<(), ImageError> {
        let work = self.shared.directories.temporary()?;
        let path = work.path.join("document");
        let failed = |error| ImageError::io("write", &path, error);
        tokio::fs::write(&path, bytes).await.map_err(failed)?;
        std::fs::rename(&path, self.shared.directories.blob(digest)).map_err(failed)
    }

    async fn fetch_document(&mut self, path: &str) -> Result<Vec<u8>, ImageError> {
        let response = self.get(path).await?;
        let allowed = self.limits().document_bytes;
        let exceeded = ImageError::LimitExceeded { what: "bytes in a document", allowed };
        self.body(response, allowed).await?.ok_or(exceeded)
    }

    /// A successful answer; if the registry asks for a token, it is fetched on the way.
    async fn get(&mut self, path: &str) -> Result<Response, ImageError> {
        let mut response = self.send(path).await?;
        if response.status() == StatusCode::UNAUTHORIZED {
            self.authorize(&response).await?;
            response = self.send(path).await?;
        }
        if response.status() == StatusCode::OK {
            return Ok(response);
        }
        Err(self.refused(response, path).await)
    }

    async fn send(&self, path: &str) -> Result<Response, ImageError> {
        let url = format!("{}/v2/{}/{path}", self.reference.base_url(), self.reference.repository);
        let mut request = self.http.get(url);
        if path.starts_with("manifests/") {
            request =
                request.header(ACCEPT, [OCI_INDEX, OCI_MANIFEST, DOCKER_INDEX, DOCKER_MANIFEST].join(", "));
        }
        let request = match &self.authorization {
            Authorization::None => request,
            Authorization::Basic => self.with_credentials(request),
            Authorization::Bearer(token) => request.bearer_auth(token),
        };
        request.send().await.map_err(|error| connection_failed(&self.reference, error))
    }

    async fn authorize(&mut self, response: &Response) -> Result<(), ImageError> {
        let header = response.headers().get(WWW_AUTHENTICATE).and_then(|value| value.to_str().ok());
        self.authorization = match header.and_then(Challenge::parse) {
            Some(Challenge::Basic) if self.credentials.is_some() => Authorization::Basic,
            Some(Challenge::Bearer { realm, service }) => {
                Authorization::Bearer(self.fetch_token(&realm, service.as_deref()).await?)
            }
            _ => return Err(self.unauthorized()),
        };
        Ok(())
    }

    async fn fetch_token(&self, realm: &str, service: Option<&str>) -> Result<String, ImageError> {
        let realm = Url::parse(realm).map_err(|_| ImageError::malformed("realm of the registry", realm))?;
        // Credentials and tokens are sent in the clear to this host only.
        let is_safe = realm.scheme() == "https"
            || (realm.host_str().is_some_and(is_this_machine)
                && self.reference.base_url().starts_with("http:"));
        if !is_safe {
            return Err(ImageError::malformed("realm of the registry", realm.as_str()));
        }
        if !self.reach.allows(&realm) {
            return Err(refused_elsewhere(&self.reference));
        }
        let scope = format!("repository:{}:pull", self.reference.repository);
        let request = self.http.get(realm).query(&[("scope", scope.as_str())]);
        let request = match service {
            Some(service) => request.query(&[("service", service)]),
            None => request,
        };
        let response = self.with_credentials(request).send().await;
        let response = response.map_err(|error| connection_failed(&self.reference, error))?;
        if response.status() != StatusCode::OK {
            return Err(self.refused(response, "token").await);
        }
        let body = self.body(response, SMALL_ANSWER).await?.unwrap_or_default();
        // The cause is left out: it might quote the token.
        let malformed = |_| ImageError::malformed("token of the registry", "it is not the expected JSON");
        Ok(serde_json::from_slice::<Token>(&body).map_err(malformed)?.token)
    }

    fn with_credentials(&self, request: RequestBuilder) -> RequestBuilder {
        match &self.credentials {
            Some(Credentials { user, password }) => request.basic_auth(user, Some(password)),
            None => request,
        }
    }

    async fn refused(&self, response: Response, path: &str) -> ImageError {
        let registry = self.reference.registry.clone();
        match response.status() {
            StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => self.unauthorized(),
            StatusCode::NOT_FOUND => {
                let repository = &self.reference.repository;
                let what = match path.strip_prefix("manifests/") {
                    Some(tag) if !tag.contains(':') => format!("{repository}:{tag}"),
                    Some(digest) => format!("{repository}@{digest}"),
                    None => format!("{path} in {repository}"),
                };
                ImageError::NotInRegistry { registry, what }
            }
            StatusCode::TOO_MANY_REQUESTS => ImageError::TooManyRequests { registry },
            status => {
                let body = self.body(response, SMALL_ANSWER).await.ok().flatten().unwrap_or_default();
                ImageError::RegistryAnswer { registry, status: status.as_u16(), detail: printable(&body) }
            }
        }
    }

    fn unauthorized(&self) -> ImageError {
        let RegistryReference { registry, repository, .. } = self.reference.clone();
        ImageError::Unauthorized { registry, repository }
    }

    /// `None` if there are more than `limit` bytes.
    async fn body(&self, mut response: Response, limit: u64) -> Result<Option<Vec<u8>>, ImageError> {
        let mut body = Vec::new();
        while let Some(chunk) = self.chunk(&mut response).await? {
            let chunk = chunk.as_ref();
            body.extend_from_slice(chunk);
            if body.len() as u64 > limit {
                return Ok(None);
            }
        }
        Ok(Some(body))
    }

    async fn chunk(&self, response: &mut Response) -> Result<Option<impl AsRef<[u8]> + use<>>, ImageError> {
        response.chunk().await.map_err(|error| connection_failed(&self.reference, error))
    }
}

fn refused_elsewhere(reference: &RegistryReference) -> ImageError {
    let why = "it sends us on to a host that is not at a public address";
    ImageError::RegistryRefused { registry: reference.registry.clone(), why }
}

fn connection_failed(reference: &RegistryReference, error: reqwest::Error) -> ImageError {
    let first: &(dyn std::error::Error + 'static) = &error;
    if std::iter::successors(Some(first), |error| error.source()).any(|error| error.is::<Refused>()) {
        return refused_elsewhere(reference);
    }
    // The registry is in our own message, and the address of a redirect may hold a secret.
    ImageError::Unreachable { registry: reference.registry.clone(), source: error.without_url().into() }
}
