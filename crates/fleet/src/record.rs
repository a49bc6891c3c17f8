//! The record of a sandbox in the store: enough for a new engine to find it, and for a caller to read why it ended.

use super::Actor;
use super::clock::{BootInstant, JUMP_MS};
use super::ports::Ports;
use super::sleep_at_ttl::{AskedSleep, SleepAtTtl};
use super::volumes::VolumeRecord;
use paddock_model::api::{End, EndCause, Idle, Sandbox, SandboxState, UnderPressure};
use paddock_model::net::Rule;
use paddock_model::{Guarantees, NodeNumber, SandboxId, SnapshotKind, Spec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Record {
    pub id: SandboxId,
    /// The number of the server that made it, if that had one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeNumber>,
    pub name: Option<String>,
    pub tenant: String,
    pub state: SandboxState,
    pub template: Option<String>,
    pub image: Option<String>,
    /// As its image names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image_user: Option<String>,
    /// True if a tenant named the image, and not the owner or a template of the owner's.
    #[serde(default)]
    pub image_of_tenant: bool,
    pub snapshot: Option<String>,
    /// The template whose pool it came out of.
    #[serde(default)]
    pub pool: Option<String>,
    pub parent: Option<String>,
    /// The token that made it, if that is known.
    #[serde(default)]
    pub made_by: Option<String>,
    pub created_at_ms: u64,
    /// For people, by the wall clock at the time at which it was set.
    pub expires_at_ms: Option<u64>,
    /// The same instant, by the clock that decides.
    #[serde(default)]
    pub expires_boot: Option<BootInstant>,
    /// Its sleep at the end of its time to live; `None`: it ends.
    #[serde(default)]
    pub sleep_at_ttl: Option<SleepAtTtl>,
    pub idle: Option<Idle>,
    pub persistent: bool,
    /// The owner's setting for hibernation while memory is short.
    #[serde(default)]
    pub under_pressure: Option<UnderPressure>,
    pub metadata: BTreeMap<String, String>,
    /// The variables of every exec, before its own.
    pub env: BTreeMap<String, String>,
    /// Those of them that its template sets, which a snapshot keeps.
    #[serde(default)]
    pub template_env: BTreeMap<String, String>,
    pub cwd: Option<String>,
    #[serde(default)]
    pub secrets: SecretsRecord,
    /// True if the variables of its execs name the host's certificates, which are put into it whenever it is made or
    /// wakes.
    #[serde(default)]
    pub host_certs: bool,
    /// Its ports, as requests from outside reach them.
    #[serde(default, skip_serializing_if = "Ports::is_default")]
    pub ports: Ports,
    #[serde(default)]
    pub volumes: Vec<VolumeRecord>,
    /// Bytes that were sent and received through its gate, if they are limited.
    #[serde(default)]
    pub moved: (u64, u64),
    pub spec: Spec,
    pub backend: Option<String>,
    pub guarantees: Guarantees,
    /// The sandboxes whose namespaces it nests in: its processes end with them.
    #[serde(default)]
    pub within: Option<SandboxId>,
    /// The sandboxes that it was forked from with its interpreters, and nests in; the innermost first.
    #[serde(default)]
    pub around: Vec<SandboxId>,
    /// The snapshot whose interpreters wait in it. No caller may use it.
    #[serde(default)]
    pub stands_for: Option<String>,
    /// The boot of the host in which its processes run.
    pub boot: String,
    /// The time at which its inside was built, on the clock of its files: later changes are its own.
    pub ready_at_ns: i64,
    /// The times in which the guest itself wrote to the disk, from and to: while it built the inside, and again at
    /// every waking.
    #[serde(default)]
    pub built_ns: Vec<(i64, i64)>,
    /// The name of the kept files that it began with: its snapshot, or its parent at the time of the fork.
    #[serde(default)]
    pub base: Option<String>,
    /// The list of paths that existed at its start, if it did not start empty.
    pub baseline: Option<String>,
    /// True if the fleet paused it, not a caller: the next request resumes it.
    #[serde(default)]
    pub paused_when_idle: bool,
    /// While it sleeps because a call asked for that.
    #[serde(default)]
    pub asked_sleep: Option<AskedSleep>,
    /// True if the audit keeps the output of its execs.
    #[serde(default = "kept")]
    pub audit_outputs: bool,
    /// The change that is under way; a new engine finishes it.
    #[serde(default)]
    pub intent: Option<Intent>,
    pub end: Option<End>,
}

fn kept() -> bool {
    true
}

/// Values that never enter the sandbox.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SecretsRecord {
    /// The variables, and the hosts that each value is sent to.
    pub hosts: BTreeMap<String, Vec<Rule>>,
    /// The values, encrypted; removed when the sandbox has ended.
    pub sealed: Option<String>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    /// Its files are safe; its processes are being ended.
    Hibernate,
    End(EndCause),
}

impl SecretsRecord {
    fn shown(&self) -> BTreeMap<String, Vec<String>> {
        let texts = |rules: &[Rule]| rules.iter().map(ToString::to_string).collect();
        self.hosts.iter().map(|(name, rules)| (name.clone(), texts(rules))).collect()
    }
}

impl Record {
    /// All sandboxes whose namespaces it nests in: its processes end with theirs.
    pub fn nests_in(&self) -> impl Iterator<Item = &SandboxId> {
        self.around.iter().chain(&self.within)
    }

    /// Makes it nest in the sandbox that it is forked from with its interpreters.
    pub fn nest_in(&mut self, source: &Record) {
        self.around = std::iter::once(&source.id).chain(source.nests_in()).cloned().collect();
    }

    pub fn to_api(&self, running_execs: u32) -> Sandbox {
        Sandbox {
            id: self.id.to_string(),
            node: self.node.map(NodeNumber::get),
            name: self.name.clone(),
            state: self.state,
            tenant: self.tenant.clone(),
            template: self.template.clone(),
            image: self.image.clone(),
            image_user: self.image_user.clone(),
            snapshot: self.snapshot.clone(),
            parent: self.parent.clone(),
            workspace: self.spec.workspace.as_ref().map(|w| w.directory.display().to_string()),
            created_at_ms: self.created_at_ms,
            expires_at_ms: self.expires_at_shown(),
            ttl_action: self.sleep_at_ttl.map(|sleep| sleep.action).unwrap_or_default(),
            idle: self.idle,
            persistent: self.persistent,
            under_pressure: self.under_pressure,
            metadata: self.metadata.clone(),
            limits: self.spec.limits.clone(),
            guarantees: self.guarantees_now(),
            scan: self.spec.scan.clone(),
            secrets: self.secrets.shown(),
            host_certs: self.host_certs,
            ports: self.ports.settings.clone(),
            volumes: self.volumes.iter().map(|volume| volume.to_api(&self.tenant)).collect(),
            running_execs,
            end: self.end.clone(),
        }
    }

    /// Those of its fence, with what its public ports take away.
    fn guarantees_now(&self) -> Guarantees {
        let mut guarantees = self.guarantees.clone();
        guarantees.weaknesses.extend(self.ports.settings.weakness());
        guarantees
    }

    /// True if another token than the caller's made it.
    pub fn is_of_another(&self, actor: &Actor) -> bool {
        self.made_by.as_ref().is_some_and(|token| *token != actor.token)
    }

    /// Removes the volumes, which a child does not get: the lease belongs to the sandbox that writes.
    pub fn leave_volumes(&mut self) {
        let volumes = std::mem::take(&mut self.volumes);
        let of_volume = |target: &std::path::Path| {
            volumes.iter().any(|volume| std::path::Path::new(&volume.path) == target)
        };
        self.spec.mounts.retain(|mount| !of_volume(&mount.target));
    }

    /// Sets the time that it lives from now on; `None`: for ever.
    pub fn set_time_to_live(&mut self, left: Option<Duration>) {
        self.expires_at_ms = left.map(|left| now_ms() + left.as_millis() as u64);
        self.expires_boot = left.map(BootInstant::after);
    }

    /// The rest of its time to live. After a restart of the host only the wall clock can tell.
    pub fn time_to_live(&self) -> Option<Duration> {
        let left = self.expires_boot.as_ref().and_then(BootInstant::left);
        let by_wall = |at: u64| Duration::from_millis(at.saturating_sub(now_ms()));
        left.or(self.expires_at_ms.map(by_wall)).map(|left| left.max(Duration::from_millis(1)))
    }

    /// The end by the present wall clock, if that was set since.
    fn expires_at_shown(&self) -> Option<u64> {
        let stored = self.expires_at_ms?;
        let left = self.expires_boot.as_ref().and_then(BootInstant::left).filter(|_| self.lives());
        let now = left.map(|left| now_ms() + left.as_millis() as u64);
        now.filter(|now| now.abs_diff(stored) > JUMP_MS && left > Some(Duration::ZERO)).or(Some(stored))
    }

    /// True if it sleeps with its memory.
    pub fn keeps_memory(&self) -> bool {
        self.guarantees.snapshot == SnapshotKind::Memory
    }

    pub fn lives(&self) -> bool {
        self.state != SandboxState::Ended
    }
}

pub fn now_ms() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_millis() as u64)
}

pub fn now_ns() -> i64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_nanos()).unwrap_or(i64::MAX))
}

/// The cause in words, for people.
pub fn reason(cause: &EndCause) -> String {
    match cause {
        EndCause::Killed => "killed by a call".into(),
        EndCause::Failed => "ended by a call, as failed".into(),
        EndCause::TimeToLive => "its time to live was over".into(),
        EndCause::Idle => "it was idle for as long as it was allowed to be".into(),
        EndCause::OutOfMemory => "it ran out of memory".into(),
        EndCause::Limit { limit } => format!("it passed its limit of {limit}"),
        EndCause::Policy { rule } => format!("it broke the rule {rule}"),
        EndCause::GuestLost { detail } => format!("its guest agent was lost: {detail}"),
        EndCause::HostRestarted => "the host was restarted".into(),
        EndCause::WorkFailed { detail } => format!("what it was made for failed: {detail}"),
        EndCause::CreateFailed { detail } => format!("it could not be created: {detail}"),
    }
}

pub fn sha256(bytes: &[u8]) -> String {
    use sha2::{Digest, Sha256};
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use paddock_settings::Surroundings;

    const DAY: u64 = 86_400_000;

    pub fn record(ttl: Option<Duration>) -> Record {
        let state = tempfile::tempdir().unwrap();
        let surroundings =
            Surroundings { state_dir: state.path(), home: None, backends: paddock_backends::all };
        let spec = paddock_settings::resolve(&[], surroundings).unwrap().spec;
        let guarantees = paddock_engine::Engine::new(state.path()).guarantees(None, &spec).unwrap();
        let mut record: Record = serde_json::from_value(serde_json::json!({
            "id": "sb-0123456789abcdef", "tenant": "owner", "state": "running", "created_at_ms": now_ms(),
            "persistent": false, "metadata": {}, "env": {}, "spec": spec, "guarantees": guarantees, "boot": "",
            "ready_at_ns": 0
        }))
        .unwrap();
        record.set_time_to_live(ttl);
        record
    }

    fn near(left: Option<Duration>, seconds: u64) -> bool {
        left.is_some_and(|left| left.as_secs_f64().round() as u64 == seconds)
    }

    #[test]
    fn a_time_to_live_is_elapsed_time_whatever_the_wall_clock_says() {
        assert_eq!(record(None).time_to_live(), None);
        for jump in [DAY as i64, 0, -(DAY as i64)] {
            let mut record = record(Some(Duration::from_secs(300)));
            // Setting the clock forward is as if the instant had been noted that much earlier.
            let noted = record.expires_at_ms.unwrap();
            record.expires_at_ms = noted.checked_add_signed(-jump);
            assert!(near(record.time_to_live(), 300), "{jump}: {:?}", record.time_to_live());
            let shown = record.to_api(0).expires_at_ms.unwrap();
            assert!(shown.abs_diff(noted) < JUMP_MS, "{jump}: {shown} {noted}");
            let stored: Record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
            assert!(near(stored.time_to_live(), 300), "{jump}");
        }
    }

    #[test]
    fn after_another_boot_the_wall_clock_decides() {
        let mut record = record(Some(Duration::from_secs(300)));
        let mut body = serde_json::to_value(&record).unwrap();
        body["expires_boot"]["boot"] = "another".into();
        record = serde_json::from_value(body).unwrap();
        record.expires_at_ms = Some(now_ms() + 60_000);
        assert!(near(record.time_to_live(), 60));
        assert_eq!(record.to_api(0).expires_at_ms, record.expires_at_ms);
    }
}
