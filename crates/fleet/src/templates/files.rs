//! Archives that clients upload for the steps of their builds that copy files.

use super::super::access::same_secret;
use super::super::record::now_ms;
use super::super::request::{invalid, shorten};
use super::super::{Actor, Admitted, Fleet, FleetError, Kind, blocking};
use paddock_builds::uploads::{self, LARGEST_UPLOAD, Upload, UploadError};
use paddock_model::api::TemplateFiles;

/// The time in which an upload that was allowed has to begin.
const GRANTED_MS: u64 = 3_600_000;
const PURPOSE: &str = "template files upload";

/// The right to upload one archive without a token.
pub struct UploadGrant {
    pub admitted: Admitted,
    pub hash: String,
}

/// An archive on its way. Dropping it leaves nothing.
pub struct FilesUpload {
    upload: Upload,
    hash: String,
}

impl Fleet {
    /// True if the tenant's archive is kept.
    pub async fn has_template_files(&self, actor: &Actor, hash: &str) -> Result<bool, FleetError> {
        check_hash(hash)?;
        let (directory, hash) = (uploads::directory(self.state_dir(), &actor.tenant), hash.to_string());
        blocking(move || Ok(uploads::is_there(&directory, &hash))).await
    }

    /// `announced`: the size that the client names beforehand.
    pub async fn upload_template_files(
        &self,
        actor: &Actor,
        hash: &str,
        announced: Option<u64>,
    ) -> Result<FilesUpload, FleetError> {
        check_hash(hash)?;
        if announced.is_some_and(|bytes| bytes > LARGEST_UPLOAD) {
            return Err(refused(UploadError::TooLarge));
        }
        let (directory, hash) = (uploads::directory(self.state_dir(), &actor.tenant), hash.to_string());
        blocking(move || {
            let upload = Upload::begin(&directory, &hash).map_err(|error| FleetError::storage(&error))?;
            Ok(FilesUpload { upload, hash })
        })
        .await
    }

    /// A text that allows the upload of one archive for an hour, as long as the caller's token is valid.
    pub fn grant_upload(&self, actor: &Actor, hash: &str) -> Result<String, FleetError> {
        check_hash(hash)?;
        let expires = (now_ms() + GRANTED_MS).to_string();
        let seal = self.derived_secret(PURPOSE, &[hash, &expires, &actor.token]);
        Ok(format!("{hash}.{expires}.{}.{seal}", actor.token))
    }

    pub async fn verify_upload(&self, grant: &str) -> Result<UploadGrant, FleetError> {
        let refuse = || {
            let message =
                "this upload URL is not signed by this server, has expired, or its API key was revoked";
            FleetError::new(Kind::Forbidden, "forbidden", message)
        };
        let mut parts = grant.splitn(4, '.');
        let (Some(hash), Some(expires), Some(token), Some(seal)) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(refuse());
        };
        let wanted = self.derived_secret(PURPOSE, &[hash, expires, token]);
        if !same_secret(seal, &wanted) || expires.parse().map_or(true, |expires: u64| expires < now_ms()) {
            return Err(refuse());
        }
        let admitted = self.admit_token(token).await?.ok_or_else(refuse)?;
        Ok(UploadGrant { admitted, hash: hash.into() })
    }
}

impl FilesUpload {
    /// A piece is small: it is written where it is received.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), FleetError> {
        self.upload.write(bytes).map_err(refused)
    }

    pub async fn finish(self) -> Result<TemplateFiles, FleetError> {
        blocking(move || {
            let bytes = self.upload.finish().map_err(refused)?;
            Ok(TemplateFiles { hash: self.hash, bytes })
        })
        .await
    }
}

fn check_hash(hash: &str) -> Result<(), FleetError> {
    match paddock_builds::hash_problem(hash) {
        Some(problem) => Err(invalid(format!("hash `{}`: {problem}", shorten(hash)))),
        None => Ok(()),
    }
}

fn refused(error: UploadError) -> FleetError {
    match error {
        UploadError::TooLarge => FleetError::new(Kind::TooLarge, "too_large", error.to_string())
            .hint("copy less, or let a command of the build fetch it"),
        UploadError::Io(error) => FleetError::storage(&error),
    }
}
