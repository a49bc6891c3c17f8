//! The volumes that a caller asks for; nothing was started when this refuses.

use super::super::request::{invalid, seconds};
use super::super::{Actor, FleetError};
use super::split;
use paddock_model::api::{VolumeMode, VolumeMount};
use paddock_model::{Mount, Spec};
use paddock_settings::WORKSPACE_TARGET;
use paddock_volumes::{check_name, check_target};
use std::path::PathBuf;

const MOST_MOUNTS: usize = 10;

/// A volume of one sandbox, checked.
#[derive(Debug, Clone, PartialEq)]
pub struct Wanted {
    pub mount: VolumeMount,
    pub tenant: String,
    pub name: String,
    pub target: PathBuf,
}

impl Wanted {
    pub fn all(actor: &Actor, mounts: &[VolumeMount], spec: &Spec) -> Result<Vec<Wanted>, FleetError> {
        if mounts.len() > MOST_MOUNTS {
            let asked = mounts.len();
            return Err(invalid(format!("{asked} volumes are asked for, and {MOST_MOUNTS} are the most")));
        }
        let mut all: Vec<Wanted> = Vec::new();
        for mount in mounts {
            let wanted = Wanted::one(actor, mount)?;
            if spec.workspace.is_some() && wanted.target.starts_with(WORKSPACE_TARGET) {
                let message =
                    format!("volume `{}` would stand in the host's directory at /workspace", mount.name);
                return Err(invalid(message).hint("choose a place such as /data/NAME"));
            }
            if let Some(twice) =
                all.iter().find(|other| (&other.tenant, &other.name) == (&wanted.tenant, &wanted.name))
            {
                return Err(invalid(format!("volume `{}` is asked for twice", twice.mount.name)));
            }
            let others = all.iter().map(|other| other.target.as_path());
            let targets = others.chain(spec.mounts.iter().map(|Mount { target, .. }| target.as_path()));
            if let Some(other) = targets
                .into_iter()
                .find(|other| wanted.target.starts_with(other) || other.starts_with(&wanted.target))
            {
                let message = format!(
                    "volume `{}` stands on `{}`, where `{}` has something already",
                    mount.name,
                    wanted.target.display(),
                    other.display()
                );
                return Err(invalid(message).hint("give each a place of its own, none inside another"));
            }
            all.push(wanted);
        }
        Ok(all)
    }

    fn one(actor: &Actor, mount: &VolumeMount) -> Result<Wanted, FleetError> {
        let (tenant, name) = split(actor, &mount.name);
        paddock_records::access::check_tenant_name(tenant).map_err(|error| invalid(error.to_string()))?;
        check_name(name)?;
        let target = check_target(&mount.path)?;
        if let Some(every) = mount.checkpoint_seconds {
            seconds("checkpoint_seconds", every)?;
            if every < 1.0 {
                return Err(
                    invalid(format!("checkpoint_seconds {every} is not allowed")).hint("write 1 or more")
                );
            }
        }
        if mount.mode == VolumeMode::Rw && mount.version.is_some() {
            return Err(invalid(format!(
                "version {} of volume `{}` cannot be written to",
                mount.version.unwrap_or(0),
                mount.name
            ))
            .hint("restore it first, or mount it with mode `ro`"));
        }
        if mount.mode == VolumeMode::Ro && mount.checkpoint_seconds.is_some() {
            return Err(invalid(format!("volume `{}` is read only, so it has no checkpoints", mount.name)));
        }
        Ok(Wanted { mount: mount.clone(), tenant: tenant.into(), name: name.into(), target })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::OnFailure;

    fn mount(name: &str, path: &str) -> VolumeMount {
        VolumeMount {
            name: name.into(),
            path: path.into(),
            mode: VolumeMode::Rw,
            on_failure: OnFailure::Keep,
            checkpoint_seconds: None,
            version: None,
        }
    }

    #[test]
    fn two_on_one_place_and_what_escapes_is_refused() {
        let layers = [paddock_model::Policy { tmpfs: vec!["/data/tmp".into()], ..Default::default() }];
        let around = paddock_settings::Surroundings {
            state_dir: std::path::Path::new("/nowhere"),
            home: None,
            backends: paddock_backends::all,
        };
        let spec = paddock_settings::resolve(&layers, around).unwrap().spec;
        let check = |mounts: &[VolumeMount]| Wanted::all(&Actor::owner(), mounts, &spec);
        let good =
            check(&[mount("one", "/data/one"), mount("two", ".two"), mount("team/two", "/mnt/x")]).unwrap();
        assert_eq!(good[1].target, std::path::Path::new("/workspace/.two"));
        assert_eq!((good[2].tenant.as_str(), good[2].name.as_str()), ("team", "two"));
        for (mounts, words) in [
            (vec![mount("one", "/data/x"), mount("two", "/data/x/")], "has something already"),
            (vec![mount("one", "/data/x"), mount("two", "/data/x/y")], "has something already"),
            (vec![mount("one", "/data/tmp/y")], "has something already"),
            (vec![mount("one", "/data/x"), mount("one", "/data/y")], "twice"),
            (vec![mount("one", "/data/../etc")], "`..`"),
            (vec![mount("one", "/etc/x")], "is not below"),
            (vec![mount("../one", "/data/x")], "not allowed"),
            (vec![mount("a/b/c", "/data/x")], "not allowed"),
            (vec![VolumeMount { version: Some(3), ..mount("one", "/data/x") }], "cannot be written"),
            (vec![VolumeMount { checkpoint_seconds: Some(0.1), ..mount("one", "/data/x") }], "0.1"),
            ((0..11).map(|n| mount(&format!("v{n}"), &format!("/data/{n}"))).collect(), "the most"),
        ] {
            let said = check(&mounts).unwrap_err().message;
            assert!(said.contains(words), "{said}");
        }
    }
}
