//! Template, policy file and flags, each as one layer of settings, the lowest first.

use crate::args::PolicyFlags;
use crate::args::certificates::HostCertsError;
use crate::args::network::NetworkFlags;
use crate::caller::Environment;
use crate::env_file::{self, EnvFileError, VariableError};
use paddock_model::net::NetSetting;
use paddock_model::{LimitsLayer, Policy, PortSettings, SecretLayer};
use paddock_settings::policy_file::{self, LARGEST_FILE, PolicyError};
use paddock_settings::split_mount;
use paddock_settings::templates::{self, TemplateError};
use std::collections::BTreeMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum LayerError {
    #[error(transparent)]
    Template(#[from] TemplateError),
    #[error("policy file `{}`", .path.display())]
    PolicyFile { path: PathBuf, source: PolicyError },
    #[error("env file `{}`", .path.display())]
    EnvFile { path: PathBuf, source: EnvFileError },
    #[error("{what} `{}` cannot be read", .path.display())]
    Unreadable { what: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Variable(#[from] VariableError),
    #[error("--net {0} leaves nothing for the rules of --allow-net and its like to do")]
    NetworkTwice(String),
    #[error("--secret-header or --secret-inject names `{}`, and there is no --secret of that name", .0.escape_debug())]
    HeaderOfNoSecret(String),
    #[error("--secret and --forget-secret come without network rules, and a secret opens its hosts")]
    SecretsWithoutNetwork,
    #[error(transparent)]
    HostCerts(#[from] HostCertsError),
}

impl LayerError {
    pub fn hint(&self) -> Option<String> {
        match self {
            LayerError::Template(error) => error.hint(),
            LayerError::NetworkTwice(_) => Some("leave --net out: rules alone open the gate".into()),
            LayerError::HeaderOfNoSecret(name) => Some(format!(
                "write --secret {name}@HOST too; in a policy file `headers` and `inject` of the secret say the same"
            )),
            LayerError::SecretsWithoutNetwork => Some(
                "write the rules that the sandbox is to have, such as --allow-net HOST; `paddock net ID` shows those of now".into(),
            ),
            _ => None,
        }
    }
}

pub fn gather(
    template: Option<&str>,
    flags: PolicyFlags,
    command: Vec<String>,
    environment: &Environment,
    state_dir: &Path,
) -> Result<Vec<Policy>, LayerError> {
    let mut layers = Vec::new();
    if let Some(name) = template {
        layers.push(templates::load(state_dir, name)?);
    }
    if let Some(file) = &flags.policy {
        layers.push(from_file(Path::new(file))?);
    }
    layers.push(from_flags(flags, command, environment)?);
    Ok(layers)
}

fn from_file(path: &Path) -> Result<Policy, LayerError> {
    let bytes = read_limited("policy file", path)?;
    let mut policy = policy_file::parse_bytes(&bytes)
        .map_err(|source| LayerError::PolicyFile { path: path.to_path_buf(), source })?;
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf());
    anchor(&mut policy, absolute.parent().unwrap_or(Path::new("/")));
    Ok(policy)
}

/// A word or rules, not both.
pub fn network(word: Option<String>, rules: NetworkFlags) -> Result<Option<NetSetting>, LayerError> {
    match (word, rules.layer()) {
        (Some(word), Some(_)) => Err(LayerError::NetworkTwice(word)),
        (Some(word), None) => Ok(Some(NetSetting::Word(word))),
        (None, rules) => Ok(rules.map(NetSetting::Rules)),
    }
}

fn from_flags(
    flags: PolicyFlags,
    command: Vec<String>,
    environment: &Environment,
) -> Result<Policy, LayerError> {
    let env = variables(&flags, environment)?;
    let host_certs = flags.certificates.chosen(environment)?;
    let secrets = secrets(flags.secret, flags.secret_header, flags.secret_inject)?;
    let mut policy = Policy {
        backend: flags.backend,
        image: flags.image,
        workspace: flags.workspace,
        read: flags.read,
        write: flags.write,
        tmpfs: flags.tmpfs,
        protect: flags.protect,
        unprotect: flags.unprotect,
        net: network(flags.net, flags.network)?,
        // Flags of their own, only where a server reaches the ports.
        ports: PortSettings::default(),
        require: flags.require,
        user: flags.user,
        hostname: flags.hostname,
        cwd: flags.cwd,
        env,
        command,
        ready: None,
        preload: Vec::new(),
        // Flags of their own, only where code is run.
        scan: None,
        allowed_imports: None,
        // A sandbox that lives no longer than its command is not forked.
        live_forks: None,
        root_may_install: flags.root_may_install,
        become_root: flags.become_root,
        // It has no audit either.
        audit_outputs: None,
        host_certs,
        secrets,
        limits: LimitsLayer {
            memory: flags.memory,
            cpus: flags.cpus,
            pids: flags.pids,
            disk: flags.disk,
            files: flags.files,
            output: flags.output,
            timeout: flags.timeout,
        },
    };
    anchor(&mut policy, &std::env::current_dir().unwrap_or_else(|_| PathBuf::from(".")));
    Ok(policy)
}

/// Each header with the secret that it is named for.
pub fn secrets(
    secrets: Vec<(String, SecretLayer)>,
    headers: Vec<(String, String)>,
    injected: Vec<(String, (String, String))>,
) -> Result<BTreeMap<String, SecretLayer>, LayerError> {
    let mut secrets: BTreeMap<String, SecretLayer> = secrets.into_iter().collect();
    for (name, header) in headers {
        match secrets.get_mut(&name) {
            Some(secret) => secret.headers.push(header),
            None => return Err(LayerError::HeaderOfNoSecret(name)),
        }
    }
    for (name, (header, text)) in injected {
        match secrets.get_mut(&name) {
            Some(secret) => drop(secret.inject.insert(header, text)),
            None => return Err(LayerError::HeaderOfNoSecret(name)),
        }
    }
    Ok(secrets)
}

/// `--env` wins over `--env-file`; within each, the later one.
fn variables(flags: &PolicyFlags, environment: &Environment) -> Result<BTreeMap<String, String>, LayerError> {
    let mut variables = BTreeMap::new();
    for file in &flags.env_file {
        let path = Path::new(file);
        let bytes = read_limited("env file", path)?;
        let read = env_file::parse(&bytes, environment);
        variables.extend(read.map_err(|source| LayerError::EnvFile { path: path.to_path_buf(), source })?);
    }
    for text in &flags.env {
        variables.extend(env_file::parse_variable(text, environment)?);
    }
    Ok(variables)
}

/// Relative paths of the host count from `base`, so that a layer means the same wherever it is used.
fn anchor(policy: &mut Policy, base: &Path) {
    if let Some(workspace) = &mut policy.workspace {
        *workspace = anchored(base, workspace);
    }
    for mount in policy.read.iter_mut().chain(&mut policy.write) {
        let (source, target) = split_mount(mount);
        let source = anchored(base, source);
        *mount = target.map_or(source.clone(), |target| format!("{source}:{target}"));
    }
    if let Some(image) = &mut policy.image
        && names_a_path(base, image)
    {
        *image = anchored(base, image);
    }
}

/// An empty path stays empty: it is a mistake, and not the base.
fn anchored(base: &Path, text: &str) -> String {
    if text.is_empty() { String::new() } else { base.join(text).display().to_string() }
}

/// An image is a path when it says so (`./x`, `/x`) or when there is one; else it is a registry reference.
fn names_a_path(base: &Path, image: &str) -> bool {
    let says_so =
        image == "." || image == ".." || ["/", "./", "../"].iter().any(|start| image.starts_with(start));
    says_so || (!image.is_empty() && base.join(image).exists())
}

/// At most one byte more than the largest file that is allowed: enough to see that it is too large.
pub fn read_limited(what: &'static str, path: &Path) -> Result<Vec<u8>, LayerError> {
    let mut bytes = Vec::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(LARGEST_FILE as u64 + 1).read_to_end(&mut bytes))
        .and_then(|_| match bytes.len() > LARGEST_FILE {
            true => Err(io::Error::other("it is larger than 1 MiB")),
            false => Ok(()),
        });
    read.map_err(|source| LayerError::Unreadable { what, path: path.to_path_buf(), source })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::error::Error;

    fn environment() -> Environment {
        [("TOKEN".into(), "secret".into())].into_iter().collect()
    }

    #[test]
    fn a_policy_file_counts_relative_paths_from_its_own_directory() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::create_dir(directory.path().join("rootfs")).unwrap();
        let file = directory.path().join("policy.toml");
        let text = "workspace = '.'\nread = ['data:/in', '/abs']\nimage = 'rootfs'\ntmpfs = ['/t']";
        std::fs::write(&file, text).unwrap();
        let policy = from_file(&file).unwrap();
        let at = |name: &str| directory.path().join(name).display().to_string();
        assert_eq!(policy.workspace, Some(at(".")));
        assert_eq!(policy.read, [format!("{}:/in", at("data")), "/abs".to_string()]);
        assert_eq!(policy.image, Some(at("rootfs")));
        std::fs::write(&file, "image = 'python:3.12'").unwrap();
        assert_eq!(from_file(&file).unwrap().image.as_deref(), Some("python:3.12"));
    }

    #[test]
    fn variables_come_from_the_file_the_flag_and_the_caller() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("env");
        std::fs::write(&file, "A=file\nB=file\n").unwrap();
        let flags = PolicyFlags {
            env: vec!["B=flag".into(), "TOKEN".into(), "ABSENT".into()],
            env_file: vec![file.display().to_string()],
            ..Default::default()
        };
        let env = from_flags(flags, vec![], &environment()).unwrap().env;
        let expected = [("A", "file"), ("B", "flag"), ("TOKEN", "secret")];
        assert_eq!(env, expected.map(|(k, v)| (k.to_string(), v.to_string())).into());
    }

    #[test]
    fn files_that_cannot_be_used_are_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("policy.toml");
        let error = from_file(&file).unwrap_err();
        assert_eq!(error.to_string(), format!("policy file `{}` cannot be read", file.display()));
        std::fs::write(&file, vec![b' '; LARGEST_FILE + 1]).unwrap();
        assert_eq!(from_file(&file).unwrap_err().source().unwrap().to_string(), "it is larger than 1 MiB");
        std::fs::write(&file, "imgae = 'x'").unwrap();
        let error = from_file(&file).unwrap_err();
        assert_eq!(error.to_string(), format!("policy file `{}`", file.display()));
        assert!(error.source().unwrap().to_string().contains("did you mean `image`?"));
        assert!(from_file(directory.path()).unwrap_err().source().unwrap().to_string().contains("directory"));
    }
}
