//! The sandbox that a job asks for.

use crate::best_of;
use crate::terms::timeout;
use paddock_model::api::{CreateSandbox, JobSpec};

/// How long a sandbox lives on after its work's time, for files to come out.
const GRACE_SECONDS: f64 = 900.0;

pub fn request_of(spec: &JobSpec, base: Option<String>) -> CreateSandbox {
    let verifier = spec.best_of.as_ref().map_or(0.0, |best_of| best_of::patience(&best_of.verifier));
    CreateSandbox {
        template: spec.template.clone(),
        image: spec.image.clone(),
        snapshot: base.or_else(|| spec.snapshot.clone()),
        backend: spec.backend.clone(),
        require: spec.require.clone(),
        ttl_seconds: Some(timeout(spec).as_secs_f64() + verifier + GRACE_SECONDS),
        limits: spec.limits.clone(),
        network: spec.policy.network.clone(),
        secrets: spec.policy.secrets.clone(),
        user: spec.user.clone(),
        hostname: spec.policy.hostname.clone(),
        read: spec.policy.read.clone(),
        write: spec.policy.write.clone(),
        tmpfs: spec.policy.tmpfs.clone(),
        volumes: spec.volumes.clone(),
        scan: spec.policy.scan.clone(),
        allowed_imports: spec.policy.allowed_imports.clone(),
        live_forks: spec.policy.live_forks,
        root_may_install: spec.policy.root_may_install,
        become_root: spec.policy.become_root,
        host_certs: spec.policy.host_certs,
        ..CreateSandbox::default()
    }
}
