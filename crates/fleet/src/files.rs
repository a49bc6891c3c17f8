//! Files and ports inside a sandbox, for its callers.

use super::awake::Awake;
use super::live::{Live, OpenStream};
use super::record::now_ms;
use super::request::{invalid, seconds, shorten};
use super::streams::{Download, Sink, Upload};
use super::{Actor, Fleet, FleetError, Kind, audit, has_ended};
pub use paddock_engine::PortStream;
use paddock_engine::{FileError, FileErrorKind, Files, files};
use paddock_model::User;
use paddock_model::api::{
    ChangeMode, FileEntry, FileEvent, FileEventKind, FilePage, MakeDirectory, MoveFile, ResolvedPath,
    SandboxState, SignPath, SignedUrl,
};
use paddock_protocol::MOST_ATTRIBUTE_BYTES;
use paddock_records::access::Revoked;
use paddock_records::signing::{Claim, Operation};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

const LONGEST_PATH: usize = 4095;
const LARGEST_PAGE: usize = 10_000;
const MODES: u32 = 0o7777;
/// The kernel takes 255 bytes with the namespace.
const LONGEST_ATTRIBUTE: usize = 200;
/// Attributes that begin so are the file system's own.
const OVERLAY: &str = "overlay.";
/// A signed URL is a right without a name: it ends within a week.
const LONGEST_SIGNED: Duration = Duration::from_secs(7 * 24 * 3600);
/// The wall clock may have been set back a little since.
const CLOCK_SLACK: Duration = Duration::from_secs(3600);

#[derive(Debug, Clone, Default)]
pub struct WriteOptions {
    pub mode: Option<u32>,
    pub parents: bool,
    pub user: Option<String>,
    /// Extended attributes of the user's namespace, by their names without `user.`.
    pub attributes: BTreeMap<String, String>,
    /// Through links, to a file that the user may write.
    pub follow_links: bool,
}

/// The right that a signed URL gives.
#[derive(Debug, Clone)]
pub struct SignedPath {
    /// The actor on whose behalf it was signed.
    pub actor: Actor,
    pub sandbox: String,
    pub path: String,
    /// True for reading, false for writing.
    pub read: bool,
    /// Ready when the token that signed it is revoked; the owner's socket cannot be.
    pub revoked: Option<Revoked>,
}

/// Changes of files as they happen; the first event says that the watch is set.
pub struct Watch {
    watch: files::Watch,
    first: Option<FileEvent>,
    _open: OpenStream,
}

impl Watch {
    /// Safe to cancel. `None` when the watched path does not exist any more.
    pub async fn next(&mut self) -> Option<Result<FileEvent, FleetError>> {
        if let Some(first) = self.first.take() {
            return Some(Ok(first));
        }
        self.watch.next().await.transpose().map(|event| event.map_err(FleetError::from))
    }
}

impl Fleet {
    pub async fn read_file(
        &self,
        actor: &Actor,
        id: &str,
        path: &str,
        offset: u64,
        length: Option<u64>,
        user: Option<&str>,
    ) -> Result<Download, FleetError> {
        let (live, files, awake) = self.place(actor, id, path, user).await?;
        let stream = files.read(path, offset, length).await?;
        Ok(Download::from_inside(stream, live.open_stream(), awake))
    }

    pub async fn write_file(
        &self,
        actor: &Actor,
        id: &str,
        path: &str,
        options: WriteOptions,
    ) -> Result<Upload<FileEntry>, FleetError> {
        check_mode(options.mode)?;
        check_attributes(&options.attributes)?;
        let (live, files, awake) = self.place_to_change(actor, id, path, options.user.as_deref()).await?;
        let WriteOptions { mode, parents, attributes, follow_links, .. } = options;
        let sink = Sink::File(files.write_with(path, mode, parents, &attributes, follow_links)?);
        let (fleet, actor, open) = (self.clone(), actor.clone(), live.open_stream());
        Ok(Upload::new(sink, open, awake, move |entry, digest| {
            let nothing = || FleetError::new(Kind::Internal, "internal", "the guest described nothing");
            let entry: FileEntry = entry.ok_or_else(nothing)?;
            let detail =
                serde_json::json!({ "path": entry.path, "bytes": digest.bytes, "sha256": digest.sha256 });
            audit::call(&fleet.0, &actor, &live, "file_written", detail);
            Ok(entry)
        }))
    }

    pub async fn stat(
        &self,
        actor: &Actor,
        id: &str,
        path: &str,
        user: Option<&str>,
    ) -> Result<FileEntry, FleetError> {
        let (_, files, _awake) = self.place(actor, id, path, user).await?;
        Ok(files.stat(path).await?)
    }

    pub async fn resolve(
        &self,
        actor: &Actor,
        id: &str,
        path: &str,
        user: Option<&str>,
    ) -> Result<ResolvedPath, FleetError> {
        let (_, files, _awake) = self.place(actor, id, path, user).await?;
        Ok(files.resolve(path).await?)
    }

    pub async fn exists(
        &self,
        actor: &Actor,
        id: &str,
        path: &str,
        user: Option<&str>,
    ) -> Result<bool, FleetError> {
        let (_, files, _awake) = self.place(actor, id, path, user).await?;
        Ok(files.exists(path).await?)
    }

    #[allow(clippy::too_many_arguments)]
    pub async fn list_files(
        &self,
        actor: &Actor,
        id: &str,
        path: &str,
        recursive: bool,
        limit: usize,
        cursor: Option<&str>,
        user: Option<&str>,
    ) -> Result<FilePage, FleetError> {
        let (_, files, _awake) = self.place(actor, id, path, user).await?;
        let limit = if limit == 0 { 1000 } else { limit.min(LARGEST_PAGE) };
        Ok(files.list(path, recursive, limit, cursor).await?)
    }

    pub async fn make_directory(
        &self,
        actor: &Actor,
        id: &str,
        request: MakeDirectory,
        user: Option<&str>,
    ) -> Result<FileEntry, FleetError> {
        check_mode(request.mode)?;
        let (live, files, _awake) = self.place_to_change(actor, id, &request.path, user).await?;
        let entry = files.make_directory(&request.path, request.mode, request.parents).await?;
        audit::call(&self.0, actor, &live, "directory_made", serde_json::json!({ "path": request.path }));
        Ok(entry)
    }

    pub async fn move_file(
        &self,
        actor: &Actor,
        id: &str,
        request: MoveFile,
        user: Option<&str>,
    ) -> Result<FileEntry, FleetError> {
        check_path(&request.to)?;
        let (live, files, _awake) = self.place_to_change(actor, id, &request.from, user).await?;
        let entry = files.rename(&request.from, &request.to, request.overwrite).await?;
        let detail = serde_json::json!({ "from": request.from, "to": request.to });
        audit::call(&self.0, actor, &live, "file_moved", detail);
        Ok(entry)
    }

    pub async fn remove_file(
        &self,
        actor: &Actor,
        id: &str,
        path: &str,
        recursive: bool,
        user: Option<&str>,
    ) -> Result<(), FleetError> {
        let (live, files, _awake) = self.place_to_change(actor, id, path, user).await?;
        files.remove(path, recursive).await?;
        let detail = serde_json::json!({ "path": path, "recursive": recursive });
        audit::call(&self.0, actor, &live, "file_removed", detail);
        Ok(())
    }

    pub async fn change_mode(
        &self,
        actor: &Actor,
        id: &str,
        request: ChangeMode,
        user: Option<&str>,
    ) -> Result<FileEntry, FleetError> {
        check_mode(Some(request.mode))?;
        let (live, files, _awake) = self.place_to_change(actor, id, &request.path, user).await?;
        let entry = files.change_mode(&request.path, request.mode).await?;
        let detail = serde_json::json!({ "path": request.path, "mode": request.mode });
        audit::call(&self.0, actor, &live, "mode_changed", detail);
        Ok(entry)
    }

    pub async fn watch(
        &self,
        actor: &Actor,
        id: &str,
        path: &str,
        recursive: bool,
        user: Option<&str>,
    ) -> Result<Watch, FleetError> {
        let (live, files, _awake) = self.place(actor, id, path, user).await?;
        let watch = files.watch(path, recursive).await?;
        let first = FileEvent { kind: FileEventKind::Watching, path: path.into() };
        Ok(Watch { watch, first: Some(first), _open: live.open_stream() })
    }

    pub async fn download_archive(
        &self,
        actor: &Actor,
        id: &str,
        path: &str,
        user: Option<&str>,
    ) -> Result<Download, FleetError> {
        let (live, files, awake) = self.place(actor, id, path, user).await?;
        Ok(Download::from_inside(files.pack(path).await?, live.open_stream(), awake))
    }

    pub async fn upload_archive(
        &self,
        actor: &Actor,
        id: &str,
        path: &str,
        user: Option<&str>,
    ) -> Result<Upload<()>, FleetError> {
        let (live, files, awake) = self.place_to_change(actor, id, path, user).await?;
        let sink = Sink::Archive(files.unpack(path)?);
        let (fleet, actor, path, open) = (self.clone(), actor.clone(), path.to_string(), live.open_stream());
        Ok(Upload::new(sink, open, awake, move |_, digest| {
            audit::file_written(&fleet.0, &actor, &live, &path, digest);
            Ok(())
        }))
    }

    pub async fn connect_port(&self, actor: &Actor, id: &str, port: u16) -> Result<PortStream, FleetError> {
        let live = self.find(actor, id)?;
        FleetError::unless_descriptors_are_left()?;
        let inside = self.running(&live).await?;
        live.touch();
        inside.connect(port).await.map_err(|error| match error.kind {
            FileErrorKind::PortClosed => {
                let message = format!("nothing listens on port {port} of sandbox {}", live.id);
                FleetError::new(Kind::Unavailable, "port_closed", message)
                    .hint("start the server inside, on 127.0.0.1 or 0.0.0.0, and try again")
            }
            _ => error.into(),
        })
    }

    /// A URL that needs no token, for one path, one operation and a while.
    pub async fn sign_path(
        &self,
        actor: &Actor,
        id: &str,
        request: SignPath,
    ) -> Result<SignedUrl, FleetError> {
        let live = self.find(actor, id)?;
        check_path(&request.path)?;
        let lifetime = seconds("expires_seconds", request.expires_seconds)?;
        if lifetime > LONGEST_SIGNED {
            let message = format!("expires_seconds {} is more than a week", request.expires_seconds);
            return Err(invalid(message).hint(format!("at most {}", LONGEST_SIGNED.as_secs())));
        }
        let read = match request.operation.as_str() {
            "read" => true,
            "write" => false,
            other => {
                let shown: String = other.chars().take(40).collect();
                return Err(invalid(format!("operation `{}` is not known", shown.escape_debug()))
                    .hint("`read` or `write`"));
            }
        };
        let expires_at_ms = now_ms() + lifetime.as_millis() as u64;
        let operation = if read { Operation::Read } else { Operation::Write };
        let claim = Claim {
            sandbox: live.id.clone(),
            path: request.path,
            operation,
            user: None,
            expires_ms: expires_at_ms,
            token: actor.token.clone(),
        };
        let token = self.0.signer.sign(&claim);
        Ok(SignedUrl { url: format!("/v1/signed/{token}"), expires_at_ms })
    }

    /// `named`: the holder of the token that asked for it, where a gateway says so.
    pub async fn verify_signed(&self, token: &str, named: Option<&Actor>) -> Result<SignedPath, FleetError> {
        let refused = || {
            FleetError::new(
                Kind::Forbidden,
                "forbidden",
                "this URL is not signed by this server, has expired, or the token that signed it was revoked or only reads now",
            )
            .hint("ask for a new one")
        };
        let claim = self.0.signer.verify(token, now_ms()).map_err(|_| refused())?;
        // Older servers signed for longer.
        let latest = now_ms() + (LONGEST_SIGNED + CLOCK_SLACK).as_millis() as u64;
        if claim.expires_ms > latest {
            return Err(refused());
        }
        let live = self.find(&Actor::owner(), &claim.sandbox).map_err(|_| refused())?;
        // The rights that a token gave away end with it; the owner's socket cannot be revoked.
        let revoked = match claim.token == Actor::owner().token {
            true => None,
            // A token that only reads signs nothing: one that was made to is told so by what it had signed.
            false => {
                let signer =
                    self.admit_named(&claim.token, named).await?.filter(|signer| !signer.actor.only_reads());
                Some(signer.ok_or_else(refused)?.revoked)
            }
        };
        let actor = Actor {
            tenant: live.tenant.clone(),
            role: paddock_model::api::Role::User,
            owner: false,
            token: "signed-url".into(),
        };
        Ok(SignedPath {
            actor,
            sandbox: claim.sandbox,
            path: claim.path,
            read: claim.operation == Operation::Read,
            revoked,
        })
    }

    /// The processes of a sandbox that is running or paused; a hibernated one is woken.
    pub(super) async fn running_or_paused(&self, live: &Arc<Live>) -> Result<Awake, FleetError> {
        if live.record().state == SandboxState::Paused
            && let Some(awake) = live.stay_awake()
        {
            return Ok(awake);
        }
        self.running(live).await
    }

    /// The processes of a sandbox, for a caller that may only look, and wakes none.
    pub(super) async fn awake(&self, live: &Arc<Live>) -> Result<Awake, FleetError> {
        if let Some(awake) = live.stay_awake() {
            return Ok(awake);
        }
        // Another call may be changing its state, so this waits for that.
        self.changed(live).await?;
        if let Some(awake) = live.stay_awake() {
            return Ok(awake);
        }
        match live.record().state {
            SandboxState::Hibernated => {
                let message =
                    format!("sandbox {} is hibernated, and a read-only token does not wake it", live.id);
                Err(FleetError::new(Kind::Conflict, "wrong_state", message)
                    .hint("wake it first, with a token of the role user or admin: paddock wake"))
            }
            SandboxState::Ended => Err(has_ended(&live.id)),
            _ => Err(FleetError::new(
                Kind::Unavailable,
                "guest_lost",
                format!("the guest of sandbox {} does not answer", live.id),
            )
            .hint("try again in a moment")),
        }
    }

    /// A storage that takes no writes is named as the reason; the path is not called forbidden.
    async fn place_to_change(
        &self,
        actor: &Actor,
        id: &str,
        path: &str,
        user: Option<&str>,
    ) -> Result<(Arc<Live>, Files, Awake), FleetError> {
        let found = self.place(actor, id, path, user).await?;
        self.0.storage.check_writable().map_err(|error| FleetError::storage(&error))?;
        Ok(found)
    }

    async fn place(
        &self,
        actor: &Actor,
        id: &str,
        path: &str,
        user: Option<&str>,
    ) -> Result<(Arc<Live>, Files, Awake), FleetError> {
        check_path(path)?;
        let live = self.find(actor, id)?;
        FleetError::unless_descriptors_are_left()?;
        let (user, cwd) = {
            let record = live.record();
            let user = match user {
                Some(user) => user.parse::<User>().map_err(|error| invalid(error.to_string()))?,
                None => record.spec.user.clone(),
            };
            (user, record.cwd.clone())
        };
        let awake = match actor.only_reads() {
            true => self.awake(&live).await?,
            false => self.running_or_paused(&live).await?,
        };
        live.touch();
        Ok((live, awake.files(user, cwd.as_deref()), awake))
    }
}

fn check_path(path: &str) -> Result<(), FleetError> {
    let problem = match path {
        "" => "is empty",
        _ if path.contains('\0') => "holds a NUL",
        _ if path.len() > LONGEST_PATH => "is longer than 4095 bytes",
        _ => return Ok(()),
    };
    let shown: String = path.chars().take(80).collect();
    Err(FleetError::new(Kind::Invalid, "invalid_path", format!("path `{}` {problem}", shown.escape_debug())))
}

fn check_mode(mode: Option<u32>) -> Result<(), FleetError> {
    match mode {
        Some(mode) if mode > MODES => Err(invalid(format!("mode {mode} is not one of permission bits"))
            .hint("write 0 to 4095, which is 0o7777")),
        _ => Ok(()),
    }
}

/// As many as every file system takes, and as one answer tells.
fn check_attributes(attributes: &BTreeMap<String, String>) -> Result<(), FleetError> {
    let is_bad = |name: &String| {
        name.is_empty() || name.len() > LONGEST_ATTRIBUTE || name.contains('\0') || name.starts_with(OVERLAY)
    };
    if let Some(name) = attributes.keys().find(|name| is_bad(name)) {
        return Err(invalid(format!("{:?} is not the name of an attribute", shorten(name))).hint(format!(
            "write 1 to {LONGEST_ATTRIBUTE} bytes without NUL, not beginning with `{OVERLAY}`"
        )));
    }
    let bytes: usize = attributes.iter().map(|(name, value)| name.len() + value.len()).sum();
    if bytes > MOST_ATTRIBUTE_BYTES {
        return Err(invalid(format!("the attributes have {bytes} bytes, more than {MOST_ATTRIBUTE_BYTES}"))
            .hint("write long values into a file of their own"));
    }
    Ok(())
}

impl From<FileError> for FleetError {
    fn from(error: FileError) -> FleetError {
        let kind = match error.kind {
            FileErrorKind::NotFound => Kind::NotFound,
            FileErrorKind::NotAFile
            | FileErrorKind::NotADirectory
            | FileErrorKind::NotEmpty
            | FileErrorKind::Exists
            | FileErrorKind::Unsupported => Kind::Conflict,
            FileErrorKind::Denied => Kind::Forbidden,
            FileErrorKind::Full => Kind::Conflict,
            FileErrorKind::Invalid | FileErrorKind::NoUser | FileErrorKind::Other => Kind::Invalid,
            FileErrorKind::TooLarge => Kind::TooLarge,
            FileErrorKind::PortClosed
            | FileErrorKind::Lost
            | FileErrorKind::Silent
            | FileErrorKind::Broken => Kind::Unavailable,
        };
        FleetError::new(kind, error.code(), error.to_string())
    }
}
