//! The head of a volume: the one object that changes, always by a swap. An object that it does not name does not exist.

use crate::key::{Key, hex, random};
use crate::objects::{Objects, Seen, Swapped};
use crate::{VolumeError, check_name};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const FORMAT: u32 = 1;
/// Others may be faster so often before it is given up.
const TRIES: u32 = 60;
/// Each of them was tried again for half a minute by the client already.
const MOST_UNANSWERED: u32 = 3;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    format: u32,
    /// The id of this volume, which no other volume of the same name had or will have.
    pub id: String,
    pub name: String,
    pub tenant: String,
    pub created_at_ms: u64,
    pub removed: bool,
    /// Rises with every lease; the objects that a writer puts into the store have it in their names.
    pub generation: u64,
    pub lease: Option<Lease>,
    pub next_version: u64,
    /// The version that a sandbox gets.
    pub current: Option<u64>,
    pub versions: Vec<Version>,
    /// Not shown any more, and kept for their present readers.
    pub retired: Vec<Retired>,
    pub shared: BTreeMap<String, Share>,
    /// The id of the key that its content is encrypted with.
    pub key: Option<String>,
    /// A mark of the swap that wrote this. Its writer recognises it when the answer was lost.
    mark: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// In words, for people.
    pub holder: String,
    pub generation: u64,
    pub expires_at_ms: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Share {
    Ro,
    Rw,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// At the end of a sandbox, or by a call.
    Commit,
    /// While a sandbox ran.
    Checkpoint,
    /// After a failure: kept aside, and not given to the next sandbox.
    Kept,
    /// An earlier version again.
    Restore,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Version {
    pub number: u64,
    pub kind: Kind,
    pub at_ms: u64,
    pub by: String,
    /// The version that it was made from.
    pub from: Option<u64>,
    /// Its object, its length there, and the hash of that.
    pub manifest: String,
    pub manifest_bytes: u64,
    pub manifest_hash: String,
    pub files: u64,
    pub bytes: u64,
    /// The bytes that it added to the store.
    pub stored_bytes: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
    pub version: Version,
    pub at_ms: u64,
}

/// The form of a head in the store.
#[derive(Serialize, Deserialize)]
struct Envelope {
    head: String,
    mac: Option<String>,
}

impl Head {
    pub fn new(tenant: &str, name: &str, key: Option<&Key>) -> Result<Head, VolumeError> {
        Ok(Head {
            format: FORMAT,
            id: hex(&random::<16>()?),
            name: name.into(),
            tenant: tenant.into(),
            created_at_ms: now_ms(),
            removed: false,
            generation: 0,
            lease: None,
            next_version: 1,
            current: None,
            versions: Vec::new(),
            retired: Vec::new(),
            shared: BTreeMap::new(),
            key: key.map(Key::fingerprint),
            mark: String::new(),
        })
    }

    /// The current version if none is named; `None` for a volume that was never written to.
    pub fn version(&self, number: Option<u64>) -> Result<Option<&Version>, VolumeError> {
        let Some(number) = number.or(self.current) else { return Ok(None) };
        let found = self.versions.iter().find(|version| version.number == number);
        found.map(Some).ok_or_else(|| VolumeError::NoVersion { volume: self.name.clone(), version: number })
    }

    /// The lease that is held, with the time that is left.
    pub fn held(&self) -> Option<(&Lease, Duration)> {
        let lease = self.lease.as_ref()?;
        let left = lease.expires_at_ms.checked_sub(now_ms()).filter(|left| *left > 0)?;
        Some((lease, Duration::from_millis(left)))
    }

    pub fn check_lease(&self, generation: u64) -> Result<(), VolumeError> {
        match &self.lease {
            Some(lease) if lease.generation == generation => Ok(()),
            _ => Err(VolumeError::LeaseLost { volume: self.name.clone() }),
        }
    }

    /// The size of its versions, each byte of the store counted once.
    pub fn stored_bytes(&self) -> u64 {
        let all = self.versions.iter().chain(self.retired.iter().map(|retired| &retired.version));
        all.map(|version| version.stored_bytes).sum()
    }
}

fn place<'a>(tenant: &'a str, name: &'a str) -> [&'a str; 4] {
    ["heads", tenant, name, "head"]
}

/// Reads the head of an existing volume.
pub async fn read(
    objects: &Objects,
    key: Option<&Key>,
    tenant: &str,
    name: &str,
) -> Result<Head, VolumeError> {
    check_name(name)?;
    let (head, _) = look(objects, key, tenant, name).await?;
    head.filter(|head| !head.removed).ok_or_else(|| VolumeError::NotFound(name.into()))
}

async fn look(
    objects: &Objects,
    key: Option<&Key>,
    tenant: &str,
    name: &str,
) -> Result<(Option<Head>, Seen), VolumeError> {
    let (bytes, seen) = objects.read_head(&place(tenant, name)).await?;
    let head = bytes.map(|bytes| decode(key, tenant, name, &bytes)).transpose()?;
    Ok((head, seen))
}

/// Changes a head, even if others change it at the same time: `change` is then called again with their head.
pub async fn update<T>(
    objects: &Objects,
    key: Option<&Key>,
    tenant: &str,
    name: &str,
    mut change: impl FnMut(Option<Head>) -> Result<(Head, T), VolumeError>,
) -> Result<(Head, T), VolumeError> {
    check_name(name)?;
    let mut wrote: Option<(Head, T)> = None;
    let mut failure = VolumeError::NotFound(name.into());
    let mut unanswered = 0;
    for attempt in 0..TRIES {
        let (found, seen) = look(objects, key, tenant, name).await?;
        let mark = found.as_ref().map(|head| head.mark.as_str());
        if let Some(wrote) = wrote.take_if(|(head, _)| mark == Some(head.mark.as_str())) {
            return Ok(wrote);
        }
        if unanswered == MOST_UNANSWERED {
            break;
        }
        let (mut head, value) = change(found)?;
        head.mark = hex(&random::<16>()?);
        let bytes = encode(key, &head)?;
        failure = match objects.swap_head(&place(tenant, name), seen, bytes).await? {
            Swapped::Done => return Ok((head, value)),
            Swapped::Overtaken => {
                let source = std::io::Error::other("others changed it each time");
                VolumeError::io(format!("write the head of volume `{name}`"), source)
            }
            Swapped::Unanswered(error) => {
                tracing::warn!(%error, volume = name, "a conditional write was not answered");
                unanswered += 1;
                error
            }
        };
        wrote = Some((head, value));
        let pause = u64::from(random::<1>()?[0]) + 10 * u64::from(attempt);
        tokio::time::sleep(Duration::from_millis(pause / 4)).await;
    }
    Err(failure)
}

fn encode(key: Option<&Key>, head: &Head) -> Result<Bytes, VolumeError> {
    let failed = |error: serde_json::Error| VolumeError::io("write a head", error);
    let head = serde_json::to_string(head).map_err(failed)?;
    let mac = key.map(|key| key.authenticate(head.as_bytes()));
    serde_json::to_vec(&Envelope { head, mac }).map(Bytes::from).map_err(failed)
}

fn decode(key: Option<&Key>, tenant: &str, name: &str, bytes: &[u8]) -> Result<Head, VolumeError> {
    let damaged = |reason: String| VolumeError::Corrupt {
        volume: name.into(),
        what: format!("the head heads/{tenant}/{name}/head"),
        reason,
    };
    let refuse = |reason| VolumeError::Key { volume: name.into(), reason };
    let envelope: Envelope = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    match (key, &envelope.mac) {
        (None, None) => {}
        (None, Some(_)) => return Err(refuse("it is encrypted, and no key is set")),
        (Some(_), None) => return Err(refuse("it was written without one")),
        (Some(key), Some(mac)) => {
            let right = blake3::Hash::from_hex(key.authenticate(envelope.head.as_bytes()));
            if blake3::Hash::from_hex(mac).ok() != right.ok() {
                return Err(refuse("it was written with another one, or changed without it"));
            }
        }
    }
    let head: Head = serde_json::from_str(&envelope.head).map_err(|error| damaged(error.to_string()))?;
    if head.format != FORMAT {
        return Err(damaged(format!("it has the format {}, and {FORMAT} is known", head.format)));
    }
    // Heads that changed places would lend one tenant another's volume.
    if head.name != name || head.tenant != tenant {
        return Err(damaged("it is another volume's".into()));
    }
    let plain = |text: &str| !text.is_empty() && text.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
    let versions = head.versions.iter().chain(head.retired.iter().map(|retired| &retired.version));
    if !plain(&head.id) || !versions.map(|version| &version.manifest).all(|manifest| plain(manifest)) {
        return Err(damaged("it names objects that are not a volume's".into()));
    }
    Ok(head)
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_millis() as u64)
}
