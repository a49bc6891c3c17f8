//! The settings under a request: those of its template, or of the sandbox that its snapshot was taken of.
//!
//! A snapshot keeps how commands run in its source: user, working directory, variables of the template, limits. Values that a caller gave
//! (variables, secrets), rules of the network, public ports and directories of the host are not kept. A root that installs and a user who becomes root
//! are noted and given to nobody by that: a request asks for them, and is judged by the template of now and by who asks.

use super::kept_settings::{KeptSettings, Under};
use super::record::Record;
use super::{Actor, Fleet, FleetError, Kind, request};
use paddock_model::api::CreateSandbox;
use paddock_model::{Access, Limits, LimitsLayer, Policy, Requirement, User};
use paddock_settings::{WORKSPACE_TARGET, split_mount};
use std::collections::BTreeSet;
use std::path::{Component, Path};

/// Demands that follow from a setting.
const OF_SETTINGS: [Requirement; 3] =
    [Requirement::LiveForks, Requirement::RootMayInstall, Requirement::BecomeRoot];

impl KeptSettings {
    pub fn of(record: &Record) -> KeptSettings {
        let spec = &record.spec;
        let variables = record.template_env.iter().filter(|(name, _)| record.env.contains_key(*name));
        let tmpfs = spec.mounts.iter().filter(|mount| mount.access == Access::Tmpfs);
        let demands = spec.require.iter().filter(|demand| !OF_SETTINGS.contains(demand));
        let policy = Policy {
            backend: record.backend.clone(),
            require: demands.map(|demand| demand.name().to_string()).collect(),
            user: named(&spec.user),
            hostname: Some(spec.hostname.clone()),
            cwd: record.cwd.clone().filter(|cwd| is_inside(cwd)),
            env: variables.map(|(name, value)| (name.clone(), value.clone())).collect(),
            tmpfs: tmpfs.map(|mount| mount.target.display().to_string()).collect(),
            // With these rights there are none, and the new sandbox may be without the rights.
            live_forks: (!spec.live_forks && !spec.root_may_install && !spec.become_root).then_some(false),
            host_certs: record.host_certs.then_some(true),
            ports: record.ports.clone().closed().settings,
            limits: limits(&spec.limits),
            ..Policy::default()
        };
        let (root_may_install, become_root) = (spec.root_may_install, spec.become_root);
        KeptSettings { template: record.template.clone(), policy, root_may_install, become_root }
    }

    /// The layer under this request. A right that the source had counts as the template's, and not as asked for, where the template gives it
    /// still.
    fn under(&self, request: &CreateSandbox, template: Option<&Policy>) -> (Policy, CreateSandbox) {
        let (mut layer, mut asked) = (self.policy.clone(), request.clone());
        let gives = |of: fn(&Policy) -> Option<bool>| template.and_then(of) == Some(true);
        if self.root_may_install && gives(|template| template.root_may_install) {
            layer.root_may_install = asked.root_may_install.take();
        }
        if self.become_root && gives(|template| template.become_root) {
            layer.become_root = asked.become_root.take();
        }
        layer.audit_outputs = template.and_then(|template| template.audit_outputs);
        let taken = targets(request);
        layer.tmpfs.retain(|mount| !taken.contains(target(mount)));
        (layer, asked)
    }
}

impl Fleet {
    /// The template of the request comes before the settings that the snapshot keeps.
    pub(super) fn settings_under(
        &self,
        actor: &Actor,
        request: &CreateSandbox,
        kept: Option<&KeptSettings>,
    ) -> Result<Under, FleetError> {
        let settings = |name: &str| -> Result<(String, Policy), FleetError> {
            match self.own_template_settings(actor, name)? {
                Some(own) => Ok((own.name, own.settings)),
                None => Ok((name.to_string(), request::template(&self.0.options.state, name)?)),
            }
        };
        if let Some(name) = &request.template {
            let (name, layer) = settings(name)?;
            return Ok(Under { template: Some(name), layer: Some(layer), request: request.clone() });
        }
        let Some(kept) = kept else {
            return Ok(Under { template: None, layer: None, request: request.clone() });
        };
        let template = match kept.template.as_deref().map(settings).transpose() {
            Ok(found) => found.map(|(_, policy)| policy),
            // It was removed since, and gives nothing any more.
            Err(error) if matches!(error.kind, Kind::NotFound | Kind::Invalid) => None,
            Err(error) => return Err(error),
        };
        let (layer, request) = kept.under(request, template.as_ref());
        Ok(Under { template: kept.template.clone(), layer: Some(layer), request })
    }
}

/// `None`: the default.
fn named(user: &User) -> Option<String> {
    match user {
        User::Agent => None,
        User::Root | User::Installer => Some("root".into()),
        User::Ids { uid, gid } => Some(format!("{uid}:{gid}")),
        User::Name(name) => Some(name.clone()),
    }
}

fn is_inside(path: &str) -> bool {
    let path = Path::new(path);
    path.is_absolute() && !path.components().any(|part| part == Component::ParentDir)
}

fn limits(limits: &Limits) -> LimitsLayer {
    let timeout = limits.timeout.map(|timeout| format!("{}ms", timeout.as_millis().max(1)));
    LimitsLayer {
        memory: Some(limits.memory.to_string()),
        cpus: Some(limits.cpus.to_string()),
        pids: Some(limits.pids.to_string()),
        disk: Some(limits.disk.to_string()),
        files: Some(limits.files.to_string()),
        output: Some(limits.output.to_string()),
        timeout: Some(timeout.unwrap_or_else(|| "none".into())),
    }
}

/// The places inside that the request takes.
fn targets(request: &CreateSandbox) -> BTreeSet<&str> {
    let mounts = [&request.read, &request.write, &request.tmpfs].into_iter().flatten();
    let volumes = request.volumes.iter().map(|volume| volume.path.trim_end_matches('/'));
    let workspace = request.workspace.is_some().then_some(WORKSPACE_TARGET);
    mounts.map(|mount| target(mount)).chain(volumes).chain(workspace).collect()
}

fn target(mount: &str) -> &str {
    let (source, target) = split_mount(mount);
    target.unwrap_or(source).trim_end_matches('/')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::record;
    use paddock_model::Mount;
    use std::time::Duration;

    fn source() -> Record {
        let mut record = record(None);
        record.template = Some("base".into());
        record.template_env =
            [("PATH".to_string(), "/opt/bin".to_string()), ("GONE".into(), "1".into())].into();
        record.env = [("PATH", "/opt/bin"), ("API_KEY", "of-the-caller")]
            .map(|(name, value)| (name.to_string(), value.to_string()))
            .into();
        record.cwd = Some("/home/user".into());
        record.backend = Some("process".into());
        record.spec.user = User::Name("user".into());
        record.spec.require = vec![Requirement::MemoryLimit, Requirement::BecomeRoot];
        record.spec.mounts = vec![
            Mount { access: Access::Tmpfs, source: None, target: "/scratch".into() },
            Mount { access: Access::Write, source: Some("/srv/host".into()), target: "/data".into() },
        ];
        record.spec.limits.memory = 300 << 20;
        record.ports.settings =
            asked(serde_json::json!({ "ports": { "public": "all", "request_host": "app.example" } })).ports;
        record.spec.limits.timeout = None;
        (record.spec.become_root, record.spec.live_forks) = (true, false);
        record
    }

    fn asked(body: serde_json::Value) -> CreateSandbox {
        serde_json::from_value(body).unwrap()
    }

    #[test]
    fn it_keeps_how_commands_run_and_no_value_of_a_caller() {
        let kept = KeptSettings::of(&source());
        let policy = &kept.policy;
        assert_eq!(kept.template.as_deref(), Some("base"));
        assert_eq!((policy.user.as_deref(), policy.cwd.as_deref()), (Some("user"), Some("/home/user")));
        assert_eq!(policy.env, [("PATH".to_string(), "/opt/bin".to_string())].into());
        assert_eq!(
            (&policy.require[..], &policy.tmpfs[..]),
            (&["memory-limit".to_string()][..], &["/scratch".to_string()][..])
        );
        assert!(
            policy.read.is_empty()
                && policy.write.is_empty()
                && policy.net.is_none()
                && policy.secrets.is_empty()
        );
        assert_eq!(
            (&policy.ports.public, policy.ports.request_host.as_deref()),
            (&None, Some("app.example"))
        );
        let text = serde_json::to_string(&kept).unwrap();
        assert!(!text.contains("of-the-caller") && !text.contains("/srv/host"), "{text}");
        assert_eq!(serde_json::from_str::<KeptSettings>(&text).unwrap(), kept);
    }

    #[test]
    fn the_limits_are_those_of_the_source() {
        let mut record = source();
        for timeout in [None, Some(Duration::from_millis(90_500))] {
            record.spec.limits.timeout = timeout;
            let kept = KeptSettings::of(&record).policy.limits;
            assert_eq!(paddock_settings::resolve_limits(&kept).unwrap(), record.spec.limits);
        }
    }

    #[test]
    fn users_come_back_as_they_were() {
        for text in ["root", "agent", "www-data", "33:44"] {
            let user: User = text.parse().unwrap();
            let again = named(&user).map_or(Ok(User::default()), |text| text.parse());
            assert_eq!(again.unwrap(), user, "{text}");
        }
    }

    #[test]
    fn a_right_is_asked_for_and_counts_as_the_templates_where_that_gives_it_still() {
        let kept = KeptSettings::of(&source());
        let gives = Policy { become_root: Some(true), ..Policy::default() };
        for template in [None, Some(&Policy::default()), Some(&gives)] {
            let (layer, request) = kept.under(&CreateSandbox::default(), template);
            assert_eq!((layer.become_root, request.become_root), (None, None), "nobody asked");
        }
        let asks = asked(serde_json::json!({ "become_root": true, "root_may_install": true }));
        let (layer, request) = kept.under(&asks, Some(&gives));
        assert_eq!((layer.become_root, request.become_root), (Some(true), None));
        assert_eq!((layer.root_may_install, request.root_may_install), (None, Some(true)));
        for template in [None, Some(&Policy::default())] {
            let (layer, request) = kept.under(&asks, template);
            assert_eq!((layer.become_root, request.become_root), (None, Some(true)));
        }
        let plain = Record { spec: record(None).spec, ..source() };
        let (layer, request) = KeptSettings::of(&plain).under(&asks, Some(&gives));
        assert_eq!((layer.become_root, request.become_root), (None, Some(true)), "the source had none");
    }

    #[test]
    fn places_that_a_request_takes_are_its_own() {
        let kept = KeptSettings::of(&source());
        let with_host =
            Policy { read: vec!["/srv/a".into()], write: vec!["/srv/b".into()], ..Policy::default() };
        let (layer, _) = kept.under(&CreateSandbox::default(), Some(&with_host));
        assert_eq!(layer.tmpfs, ["/scratch"]);
        assert!(layer.read.is_empty() && layer.write.is_empty(), "no directory of the host comes by itself");
        for body in [
            serde_json::json!({ "tmpfs": ["/scratch/"] }),
            serde_json::json!({ "read": ["/x:/scratch"] }),
            serde_json::json!({ "volumes": [{ "name": "v", "path": "/scratch" }] }),
        ] {
            assert!(kept.under(&asked(body), None).0.tmpfs.is_empty());
        }
    }

    #[test]
    fn the_word_of_the_template_of_now_decides_on_the_audit() {
        let mut record = source();
        record.audit_outputs = false;
        let kept = KeptSettings::of(&record);
        assert_eq!(kept.under(&CreateSandbox::default(), None).0.audit_outputs, None);
        let insists = Policy { audit_outputs: Some(true), ..Policy::default() };
        assert_eq!(kept.under(&CreateSandbox::default(), Some(&insists)).0.audit_outputs, Some(true));
    }
}
