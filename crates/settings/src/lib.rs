//! Layers of settings -> one resolved, checked description. Nothing has been started yet when this fails.
//!
//! - here: [`resolve`], with a file for each kind of setting
//! - [`policy_file`]: a policy as TOML, each mistake with its line; [`templates`]: named policies in the state
//!   directory
//! - [`shipped_builds`]: build files of templates that come with Paddock
//! - [`agents`]: settings that the command lines of coding agents need
//! - [`certificate_variables`]: variables by which clients inside find certificates

pub mod agents;
mod bound_secret;
pub mod certificate_variables;
mod limits;
mod network;
mod paths;
pub mod policy_file;
mod policy_net;
mod policy_secrets;
mod presets;
mod scan;
mod secrets;
pub mod shipped_builds;
mod size;
pub mod templates;
mod workspace;

pub use bound_secret::Bound;
pub use limits::{LimitsError, resolve as resolve_limits};
pub use network::{NetworkError, environment as network_environment, resolve as resolve_network};
pub use paddock_model::WORKSPACE_TARGET;
pub use paths::{PathError, split_mount};
pub use presets::PresetError;
pub use scan::{ScanError, resolve as resolve_scan};
pub use secrets::{
    SecretSettingError, check_count as check_secret_count, check_secret_value, read_secrets,
    resolve as resolve_secrets,
};
pub use size::SizeError;
pub use workspace::{WorkspaceError, names_of_the_table};

use paddock_backends::FindBackends;
use paddock_model::{
    Access, Mount, NameError, Policy, PortError, PortSettings, Requirement, Root, Spec, UnknownRequirement,
    User, UserError, check_environment_name, check_hostname,
};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const DEFAULT_HOSTNAME: &str = "paddock";
const MOST_MODULES: usize = 64;
const LONGEST_READY: usize = 64 << 10;
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

#[derive(Debug, Clone)]
pub struct Settings {
    pub backend: Option<String>,
    /// An absolute path, or a registry reference; the caller unpacks it and sets the spec's root.
    pub image: Option<String>,
    pub spec: Spec,
    /// Empty if no layer names a command.
    pub command: Vec<String>,
    /// A line for the shell that succeeds when the command, which a create starts, is ready.
    pub ready: Option<String>,
    pub env: BTreeMap<String, String>,
    pub cwd: Option<PathBuf>,
    /// Python modules, for an interpreter that imports them beforehand.
    pub preload: Vec<String>,
    pub secrets: Vec<Bound>,
    /// How its ports are reached from outside.
    pub ports: PortSettings,
    /// True if the audit keeps the output of its execs.
    pub audit_outputs: bool,
    /// True if its clients trust the certificates that this host trusts.
    pub host_certs: bool,
}

/// The host's directories that paths are checked against.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    pub state_dir: &'a Path,
    pub home: Option<&'a Path>,
    /// The backends that the settings may name.
    pub backends: FindBackends,
}

#[derive(Debug, thiserror::Error)]
pub enum SettingsError {
    #[error("backend `{}` is not known; known are {known}", .name.escape_debug())]
    UnknownBackend { name: String, known: String },
    #[error(transparent)]
    Network(#[from] NetworkError),
    #[error(transparent)]
    Ports(#[from] PortError),
    #[error("image `{}` is not a name: it is empty, or holds spaces or control characters", .0.escape_debug())]
    ImageName(String),
    #[error("preload `{}` is not a Python module: write names such as `numpy` or `matplotlib.pyplot`", .0.escape_debug())]
    ModuleName(String),
    #[error("{0} modules are to be preloaded, and 64 are the most")]
    TooManyModules(usize),
    #[error("`ready` is a line for the shell: it is not empty, has no NUL, and at most 64 KiB")]
    Ready,
    #[error(
        "`{0}` and live forks exclude each other: its root would have rights over the forks, which nest in it"
    )]
    RootAndLiveForks(&'static str),
    #[error("`{}` is mounted twice", .0.display())]
    TargetTwice(PathBuf),
    #[error("the value of environment variable `{}` holds a NUL", .0.escape_debug())]
    NulInValue(String),
    #[error(transparent)]
    Name(#[from] NameError),
    #[error(transparent)]
    User(#[from] UserError),
    #[error(transparent)]
    Requirement(#[from] UnknownRequirement),
    #[error(transparent)]
    Limits(#[from] LimitsError),
    #[error(transparent)]
    Path(#[from] PathError),
    #[error(transparent)]
    Workspace(#[from] WorkspaceError),
    #[error(transparent)]
    Secrets(#[from] SecretSettingError),
    #[error(transparent)]
    Scan(#[from] ScanError),
    #[error(transparent)]
    Size(#[from] SizeError),
}

impl SettingsError {
    pub fn hint(&self) -> Option<String> {
        match self {
            SettingsError::Path(error) => error.hint(),
            SettingsError::Workspace(error) => error.hint(),
            SettingsError::Size(error) => error.hint(),
            SettingsError::Scan(error) => error.hint(),
            SettingsError::Network(error) => error.hint(),
            SettingsError::Ports(error) => Some(error.hint().to_string()),
            SettingsError::Secrets(error) => error.hint(),
            SettingsError::RootAndLiveForks(_) => {
                Some("leave one of them out; forks of its files are possible all the same".to_string())
            }
            SettingsError::UnknownBackend { .. } => {
                Some("`paddock doctor` shows what this host has".to_string())
            }
            _ => None,
        }
    }
}

/// `layers`: the lowest first.
pub fn resolve(layers: &[Policy], surroundings: Surroundings) -> Result<Settings, SettingsError> {
    let workspace = workspace::resolve(layers, surroundings)?;
    let merged = layers.iter().cloned().fold(Policy::default(), Policy::overlaid_by);
    let mounts = mounts(&merged, workspace.is_some(), surroundings)?;
    check_command(&merged.command, &merged.env)?;
    let hostname = merged.hostname.unwrap_or_else(|| DEFAULT_HOSTNAME.to_string());
    check_hostname(&hostname)?;
    let user: Option<User> = merged.user.as_deref().map(str::parse).transpose()?;
    let secrets = secrets::resolve(&merged.secrets, &merged.env)?;
    merged.ports.check()?;
    let mut require = requirements(&merged.require)?;
    let root_may_install = merged.root_may_install.unwrap_or(false);
    let become_root = merged.become_root.unwrap_or(false);
    let mut insist = |on: bool, requirement| {
        if on && !require.contains(&requirement) {
            require.push(requirement);
        }
    };
    insist(merged.live_forks == Some(true), Requirement::LiveForks);
    insist(root_may_install, Requirement::RootMayInstall);
    insist(become_root, Requirement::BecomeRoot);
    // Forks of interpreters nest in its user namespace, in which its root has capabilities, and have the ids of its root.
    let of_root = [(root_may_install, "root_may_install"), (become_root, "become_root")];
    let of_root = of_root.into_iter().find(|(on, _)| *on);
    if let Some((_, name)) = of_root.filter(|_| require.contains(&Requirement::LiveForks)) {
        return Err(SettingsError::RootAndLiveForks(name));
    }
    let spec = Spec {
        root: Root::HostUsr,
        workspace,
        mounts,
        limits: limits::resolve(&merged.limits)?,
        disk: Default::default(),
        network: network::resolve(merged.net.as_ref(), &secrets, surroundings.state_dir)?,
        user: user.unwrap_or_default(),
        hostname,
        require,
        scan: scan::resolve(merged.scan.as_deref(), merged.allowed_imports)?,
        live_forks: merged.live_forks.unwrap_or(of_root.is_none()),
        root_may_install,
        become_root,
    };
    Ok(Settings {
        backend: known_backend(merged.backend, surroundings)?,
        image: merged.image.map(|image| checked_image(image, surroundings)).transpose()?,
        spec,
        command: merged.command,
        ready: merged.ready.map(checked_ready).transpose()?,
        env: merged.env,
        cwd: merged.cwd.map(|cwd| paths::inside("working directory", &cwd)).transpose()?,
        preload: modules(merged.preload)?,
        audit_outputs: merged.audit_outputs.unwrap_or(true),
        secrets,
        ports: merged.ports,
        host_certs: merged.host_certs.unwrap_or(false),
    })
}

fn checked_ready(line: String) -> Result<String, SettingsError> {
    match line.trim().is_empty() || line.contains('\0') || line.len() > LONGEST_READY {
        true => Err(SettingsError::Ready),
        false => Ok(line),
    }
}

fn mounts(
    policy: &Policy,
    has_workspace: bool,
    surroundings: Surroundings,
) -> Result<Vec<Mount>, SettingsError> {
    let mut mounts = Vec::new();
    for text in &policy.read {
        let (source, target) =
            paths::host_mount("read path", text, |path| paths::refuse_source(path, surroundings.state_dir))?;
        mounts.push(Mount { access: Access::Read, source: Some(source), target });
    }
    for text in &policy.write {
        let (source, target) = paths::host_mount("write path", text, |path| {
            paths::refuse_writable(path, surroundings.state_dir)
        })?;
        mounts.push(Mount { access: Access::Write, source: Some(source), target });
    }
    for text in &policy.tmpfs {
        let target = paths::mount_target("tmpfs", text)?;
        mounts.push(Mount { access: Access::Tmpfs, source: None, target });
    }
    let mut taken: BTreeSet<&Path> = has_workspace.then(|| Path::new(WORKSPACE_TARGET)).into_iter().collect();
    match mounts.iter().find(|mount| !taken.insert(&mount.target)) {
        Some(twice) => Err(SettingsError::TargetTwice(twice.target.clone())),
        None => Ok(mounts),
    }
}

/// The variables of every exec, before its image's and its caller's; none comes from the host. Debian's pip demands the
/// third before it installs anything: no package that it installs inside can harm the host's Python.
pub fn default_environment() -> BTreeMap<String, String> {
    let variables = [("PATH", PATH), ("LANG", "C.UTF-8"), ("PIP_BREAK_SYSTEM_PACKAGES", "1")];
    variables.map(|(name, value)| (name.to_string(), value.to_string())).into()
}

/// Fails if the command and its variables are larger than the kernel takes.
pub fn check_command(argv: &[String], env: &BTreeMap<String, String>) -> Result<(), SettingsError> {
    check_environment(env)?;
    Ok(size::check(argv, env)?)
}

pub fn check_environment(env: &BTreeMap<String, String>) -> Result<(), SettingsError> {
    for (name, value) in env {
        check_environment_name(name)?;
        if value.contains('\0') {
            return Err(SettingsError::NulInValue(name.clone()));
        }
    }
    Ok(())
}

fn known_backend(
    backend: Option<String>,
    surroundings: Surroundings,
) -> Result<Option<String>, SettingsError> {
    let Some(name) = backend else { return Ok(None) };
    let all = (surroundings.backends)(surroundings.state_dir);
    let known: Vec<_> = all.iter().map(|backend| backend.name()).collect();
    match known.contains(&name.as_str()) {
        true => Ok(Some(name)),
        false => Err(SettingsError::UnknownBackend { name, known: known.join(", ") }),
    }
}

fn requirements(names: &[String]) -> Result<Vec<Requirement>, SettingsError> {
    let mut requirements = Vec::new();
    for name in names {
        let requirement: Requirement = name.parse()?;
        if !requirements.contains(&requirement) {
            requirements.push(requirement);
        }
    }
    Ok(requirements)
}

/// A module that two layers name is imported once.
pub fn modules(names: Vec<String>) -> Result<Vec<String>, SettingsError> {
    let identifier = |part: &str| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_')
    };
    let mut modules = Vec::new();
    for name in names {
        if name.len() > 200 || !name.split('.').all(identifier) {
            return Err(SettingsError::ModuleName(name.chars().take(80).collect()));
        }
        if !modules.contains(&name) {
            modules.push(name);
        }
    }
    if modules.len() > MOST_MODULES {
        return Err(SettingsError::TooManyModules(modules.len()));
    }
    Ok(modules)
}

fn checked_image(image: String, surroundings: Surroundings) -> Result<String, SettingsError> {
    if image.starts_with('/') {
        let path = paths::host("image", &image)?;
        paths::refused("image", &path, paths::refuse_source(&path, surroundings.state_dir))?;
        return Ok(path.display().to_string());
    }
    if image.is_empty() || image.contains(|c: char| c.is_whitespace() || c.is_control()) {
        return Err(SettingsError::ImageName(image));
    }
    Ok(image)
}

#[cfg(test)]
mod tests;
