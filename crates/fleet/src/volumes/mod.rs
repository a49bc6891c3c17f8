//! Volumes of sandboxes, and as resources of their own.
//!
//! - [`request`]: the volumes that a caller asks for
//! - [`mount`]: leases and directories, before the fence goes up
//! - [`settle`]: from a directory to a version, when the sandbox has ended
//! - [`upkeep`]: renews leases, makes checkpoints, stores again
//! - [`resources`]: make, list, restore, share, remove
//! - [`content`], [`upload`]: look into a volume and change a file of it from outside; [`mounted`]: the same where a sandbox has it

mod content;
mod mount;
mod mounted;
mod request;
mod resources;
mod settle;
mod turns;
mod upkeep;
mod upload;

pub use content::VolumeView;
pub use request::Wanted;
pub use turns::Turns;
pub use upkeep::start as start_upkeep;
pub use upload::VolumeUpload;

use super::{Actor, Fleet, FleetError, Kind};
use paddock_model::api::{MountedVolume, OnFailure, VolumeMode};
use paddock_storage::volumes::Places;
use paddock_volumes::{Head, Limits, Share, Token, VolumeError};
use serde::{Deserialize, Serialize};

/// The most bytes of one volume, if no quota is lower.
const MOST_BYTES: u64 = 64 << 30;

/// The holder of a sandbox's lease is this and the id of the sandbox.
const SANDBOX_HOLDER: &str = "sandbox ";

/// A volume of a sandbox, in its record.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct VolumeRecord {
    pub tenant: String,
    pub name: String,
    pub path: String,
    pub mode: VolumeMode,
    pub on_failure: OnFailure,
    pub checkpoint_seconds: Option<f64>,
    pub version: Option<u64>,
    /// Its directory, by the name in the storage.
    pub place: String,
    /// The writer's token.
    pub token: Option<Token>,
    #[serde(default)]
    pub outcome: Option<String>,
}

impl VolumeRecord {
    pub fn to_api(&self, tenant: &str) -> MountedVolume {
        let own = self.tenant == tenant;
        MountedVolume {
            name: if own { self.name.clone() } else { format!("{}/{}", self.tenant, self.name) },
            path: self.path.clone(),
            mode: self.mode,
            on_failure: self.on_failure,
            version: self.version,
            outcome: self.outcome.clone(),
        }
    }
}

impl Fleet {
    pub(super) fn places(&self) -> Places<'_> {
        Places::new(&self.0.options.state, &self.0.storage)
    }

    /// A volume that the actor may look at, or write to: its own, or TENANT/NAME that was shared with it.
    async fn visible_volume(&self, actor: &Actor, name: &str, mode: VolumeMode) -> Result<Head, FleetError> {
        let (tenant, name) = split(actor, name);
        let head = self.0.volumes.head(tenant, name).await?;
        if actor.owner || tenant == actor.tenant {
            return Ok(head);
        }
        match (head.shared.get(&actor.tenant), mode) {
            (Some(Share::Rw), _) | (Some(Share::Ro), VolumeMode::Ro) => Ok(head),
            (Some(Share::Ro), VolumeMode::Rw) => {
                let message = format!("volume `{tenant}/{name}` is shared with you to read, not to write");
                Err(FleetError::new(Kind::Forbidden, "forbidden", message).hint("mount it with mode `ro`"))
            }
            // A volume that is not shared looks as if it did not exist.
            (None, _) => Err(VolumeError::NotFound(format!("{tenant}/{name}")).into()),
        }
    }

    /// The limits that this volume may grow to.
    async fn volume_limits(&self, tenant: &str, name: &str) -> Result<Limits, FleetError> {
        let defaults = Limits { bytes: MOST_BYTES, ..Limits::default() };
        let Some(most) = self.quota_of(tenant)?.volume_bytes else { return Ok(defaults) };
        let mut others = 0;
        for head in self.0.volumes.list(tenant).await?.iter().filter(|head| head.name != name) {
            others += head.version(None).ok().flatten().map_or(0, |version| version.bytes);
        }
        Ok(Limits { bytes: most.saturating_sub(others).min(MOST_BYTES), ..defaults })
    }

    /// Checks that one more may be made.
    async fn check_volume_count(&self, tenant: &str) -> Result<(), FleetError> {
        let Some(most) = self.quota_of(tenant)?.volumes else { return Ok(()) };
        let have = self.0.volumes.list(tenant).await?.len();
        if have < most as usize {
            return Ok(());
        }
        let message = format!("tenant {tenant} has {have} volumes, and {most} are allowed");
        Err(FleetError::new(Kind::Forbidden, "quota_exceeded", message)
            .hint("remove volumes that are not needed, or have the quota raised"))
    }
}

/// The tenant and the name of a volume.
fn split<'a>(actor: &'a Actor, name: &'a str) -> (&'a str, &'a str) {
    name.split_once('/').unwrap_or((&actor.tenant, name))
}

impl From<VolumeError> for FleetError {
    fn from(error: VolumeError) -> FleetError {
        let kind = match &error {
            VolumeError::Name(_)
            | VolumeError::Target { .. }
            | VolumeError::Path { .. }
            | VolumeError::NotAFile { .. }
            | VolumeError::Unkept { .. } => Kind::Invalid,
            VolumeError::NotFound(_) | VolumeError::NoVersion { .. } | VolumeError::NoFile { .. } => {
                Kind::NotFound
            }
            VolumeError::Exists(_) | VolumeError::Busy { .. } | VolumeError::LeaseLost { .. } => {
                Kind::Conflict
            }
            VolumeError::Quota { .. } => Kind::Forbidden,
            VolumeError::Corrupt { .. }
            | VolumeError::Key { .. }
            | VolumeError::KeyFile(_)
            | VolumeError::Location { .. }
            | VolumeError::Full { .. }
            | VolumeError::Denied { .. }
            | VolumeError::Store { .. }
            | VolumeError::Io { .. } => Kind::Unavailable,
        };
        let failed = FleetError::new(kind, error.code(), super::request::chain(&error));
        match error.hint() {
            Some(hint) => failed.hint(hint),
            None => failed,
        }
    }
}
