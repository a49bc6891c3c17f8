//! One layer of settings. A template, a policy file and the flags of one call are each a layer; if both set a value,
//! the later one wins, and lists add up. The scan only ever becomes stricter.

use crate::net::NetSetting;
use crate::ports::PortSettings;
use crate::scan::{ScanMode, common_imports};
use crate::secrets::SecretLayer;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Policy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub read: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub write: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tmpfs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub protect: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unprotect: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub net: Option<NetSetting>,
    /// Of sandboxes that last: a server reaches their ports.
    #[serde(skip_serializing_if = "PortSettings::is_default")]
    pub ports: PortSettings,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub require: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hostname: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// Run when the caller names no command.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    /// A line for the shell that succeeds when the command is ready. A create of a lasting sandbox waits for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ready: Option<String>,
    /// Python modules that are imported before a sandbox is asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub preload: Vec<String>,
    /// `off`, `warn` or `deny`; the strictest of the layers holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scan: Option<String>,
    /// Only imports that every layer with a list allows.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allowed_imports: Option<Vec<String>>,
    /// True if interpreters can be forked as they stand. Absent: wherever that is possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub live_forks: Option<bool>,
    /// True if root inside may install packages and manage users. Absent: it has no capability.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub root_may_install: Option<bool>,
    /// True if the ordinary user inside may become root by `sudo`. Absent: no process inside becomes another user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub become_root: Option<bool>,
    /// True if the audit keeps the output of commands. Absent: true. The lowest layer that sets it decides, so that no
    /// caller turns it off whose template has it on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub audit_outputs: Option<bool>,
    /// True if its clients believe the certificates that the host believes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_certs: Option<bool>,
    /// Key: the variable that holds the placeholder. The layer above replaces an entry of the same name whole.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub secrets: BTreeMap<String, SecretLayer>,
    #[serde(skip_serializing_if = "LimitsLayer::is_empty")]
    pub limits: LimitsLayer,
}

/// Limits as text, so that every source (TOML, flags) takes the same forms and gets the same errors.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LimitsLayer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout: Option<String>,
}

impl Policy {
    /// Every key of a policy file, for the error that names the nearest one.
    pub const KEYS: [&'static str; 27] = [
        "backend",
        "image",
        "workspace",
        "read",
        "write",
        "tmpfs",
        "protect",
        "unprotect",
        "net",
        "ports",
        "require",
        "user",
        "hostname",
        "cwd",
        "env",
        "command",
        "ready",
        "preload",
        "scan",
        "allowed_imports",
        "live_forks",
        "root_may_install",
        "become_root",
        "audit_outputs",
        "host_certs",
        "secrets",
        "limits",
    ];

    /// `self` below, `above` over it.
    pub fn overlaid_by(mut self, above: Policy) -> Policy {
        self.read.extend(above.read);
        self.write.extend(above.write);
        self.tmpfs.extend(above.tmpfs);
        self.protect.extend(above.protect);
        self.unprotect.extend(above.unprotect);
        self.require.extend(above.require);
        self.env.extend(above.env);
        self.preload.extend(above.preload);
        self.secrets.extend(above.secrets);
        Policy {
            backend: above.backend.or(self.backend),
            image: above.image.or(self.image),
            workspace: above.workspace.or(self.workspace),
            net: match (self.net, above.net) {
                (Some(below), Some(above)) => Some(below.overlaid_by(above)),
                (below, above) => above.or(below),
            },
            ports: self.ports.overlaid_by(above.ports),
            user: above.user.or(self.user),
            hostname: above.hostname.or(self.hostname),
            cwd: above.cwd.or(self.cwd),
            command: if above.command.is_empty() { self.command } else { above.command },
            ready: above.ready.or(self.ready),
            scan: stricter(self.scan, above.scan),
            allowed_imports: common_imports(self.allowed_imports, above.allowed_imports),
            live_forks: above.live_forks.or(self.live_forks),
            root_may_install: above.root_may_install.or(self.root_may_install),
            become_root: above.become_root.or(self.become_root),
            audit_outputs: self.audit_outputs.or(above.audit_outputs),
            host_certs: above.host_certs.or(self.host_certs),
            limits: self.limits.overlaid_by(above.limits),
            ..self
        }
    }
}

/// An unknown word stays, so that the code that resolves the layers meets it.
fn stricter(below: Option<String>, above: Option<String>) -> Option<String> {
    let (Some(below), Some(above)) = (&below, &above) else { return above.or(below) };
    let strictness = |word: &str| word.parse::<ScanMode>().map_or(u8::MAX, |mode| mode as u8);
    let wins = if strictness(below) > strictness(above) { below } else { above };
    Some(wins.clone())
}

impl LimitsLayer {
    pub const KEYS: [&'static str; 7] = ["memory", "cpus", "pids", "disk", "files", "output", "timeout"];

    fn is_empty(&self) -> bool {
        *self == LimitsLayer::default()
    }

    pub fn overlaid_by(self, above: LimitsLayer) -> LimitsLayer {
        LimitsLayer {
            memory: above.memory.or(self.memory),
            cpus: above.cpus.or(self.cpus),
            pids: above.pids.or(self.pids),
            disk: above.disk.or(self.disk),
            files: above.files.or(self.files),
            output: above.output.or(self.output),
            timeout: above.timeout.or(self.timeout),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layer_above_wins_and_lists_add_up() {
        let below = Policy {
            image: Some("a".into()),
            read: vec!["/data".into()],
            env: [("A".into(), "1".into()), ("B".into(), "1".into())].into(),
            limits: LimitsLayer { memory: Some("1g".into()), ..Default::default() },
            ..Default::default()
        };
        let above = Policy {
            read: vec!["/more".into()],
            env: [("B".into(), "2".into())].into(),
            limits: LimitsLayer { pids: Some("5".into()), ..Default::default() },
            ..Default::default()
        };
        let merged = below.overlaid_by(above);
        assert_eq!(merged.image.as_deref(), Some("a"));
        assert_eq!(merged.read, ["/data", "/more"]);
        assert_eq!(merged.env["A"], "1");
        assert_eq!(merged.env["B"], "2");
        assert_eq!(merged.limits.memory.as_deref(), Some("1g"));
        assert_eq!(merged.limits.pids.as_deref(), Some("5"));
    }

    #[test]
    fn no_layer_makes_the_scan_weaker() {
        let layer = |scan: Option<&str>, imports: &[&str]| Policy {
            scan: scan.map(str::to_string),
            allowed_imports: (!imports.is_empty()).then(|| imports.iter().map(|i| i.to_string()).collect()),
            ..Policy::default()
        };
        for (below, above, both) in [
            (Some("deny"), Some("off"), Some("deny")),
            (Some("warn"), Some("deny"), Some("deny")),
            (Some("off"), None, Some("off")),
            (None, Some("warn"), Some("warn")),
            // Refused later, with its name.
            (Some("strict"), Some("deny"), Some("strict")),
            (None, None, None),
        ] {
            let merged = layer(below, &[]).overlaid_by(layer(above, &[]));
            assert_eq!(merged.scan.as_deref(), both, "{below:?} {above:?}");
        }
        let merged = layer(None, &["numpy", "json"]).overlaid_by(layer(None, &["json", "os"]));
        assert_eq!(merged.allowed_imports, Some(vec!["json".to_string()]));
    }

    /// A key that is missing from `KEYS` would never be suggested.
    #[test]
    fn the_list_of_keys_is_complete() {
        let keys: Vec<String> = serde_json::from_value::<Policy>(serde_json::json!({}))
            .map(|_| {
                Policy::KEYS
                    .iter()
                    .filter(|key| {
                        let body = serde_json::json!({ **key: null });
                        let error = serde_json::from_value::<Policy>(body).err().map(|e| e.to_string());
                        error.is_some_and(|e| e.contains("unknown field"))
                    })
                    .map(|key| key.to_string())
                    .collect()
            })
            .unwrap();
        assert!(keys.is_empty(), "not keys of a policy: {keys:?}");
    }
}
