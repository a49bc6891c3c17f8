//! From a caller's request to a checked description; nothing has been started yet when this fails.

use super::{Actor, FleetError, FleetOptions, Kind};
use paddock_model::api::{CreateSandbox, LimitsRequest};
use paddock_model::net::{Rule, Target, is_special};
use paddock_model::{LimitsLayer, Network, Policy, SecretLayer, check_template_name};
use paddock_settings::templates::{self, BUILT_IN, TemplateError};
use paddock_settings::{Settings, SettingsError, SizeError, Surroundings};
use std::path::Path;
use std::time::Duration;

/// A year and a day.
const LONGEST: Duration = Duration::from_secs(366 * 86_400);
const METADATA_ENTRIES: usize = 64;
const METADATA_BYTES: usize = 4096;
/// The prefix of metadata keys by which the server finds its own sandboxes again.
pub const OWN_KEYS: &str = "paddock.";

/// `under`: the settings under the request, if they were read already; else those of the owner's template that it names.
pub fn resolve(
    options: &FleetOptions,
    actor: &Actor,
    request: &CreateSandbox,
    under: Option<Policy>,
) -> Result<Settings, FleetError> {
    let state = options.state.as_path();
    check_rights(actor, request)?;
    if let Some(name) = &request.name {
        check_name(name)?;
    }
    check_metadata(&request.metadata)?;
    let mut layers = Vec::new();
    match (under, &request.template) {
        (Some(under), _) => layers.push(under),
        (None, Some(name)) => layers.push(template(state, name)?),
        (None, None) => {}
    }
    layers.push(layer(request)?);
    let surroundings = Surroundings { state_dir: state, home: None, backends: options.backends };
    let settings = paddock_settings::resolve(&layers, surroundings).map_err(refused)?;
    options.root_may_install.check(actor, &settings.spec, request)?;
    // The settings of a template are its owner's choice.
    let asked = paddock_settings::resolve_network(request.network.as_ref(), &settings.secrets, state);
    check_network(actor, &asked.map_err(SettingsError::from).map_err(refused)?)?;
    Ok(settings)
}

/// The settings of a template of the owner's.
pub fn template(state: &Path, name: &str) -> Result<Policy, FleetError> {
    templates::load(state, name).map_err(|error| match error {
        TemplateError::Missing(_) => {
            let hint = match paddock_builds::shipped(name) {
                Some(_) => error.hint().unwrap_or_default(),
                None => format!("`paddock template ls` lists those there are; `{BUILT_IN}` always is"),
            };
            FleetError::new(Kind::NotFound, "template_not_found", error.to_string()).hint(hint)
        }
        TemplateError::Name(_) => invalid(error.to_string()),
        _ => FleetError::new(Kind::Internal, "internal", chain(&error)),
    })
}

/// Addresses that only the server can reach are for the owner of the host alone, as the host's own network is.
pub fn check_network(actor: &Actor, asked: &Network) -> Result<(), FleetError> {
    let inner = |rule: &&Rule| match &rule.target {
        Target::Block(block) => is_special(block.network()) || paddock_gate::is_own(block.network()),
        _ => false,
    };
    let reaches = match asked {
        Network::None => None,
        Network::Host => Some("host".to_string()),
        Network::Gate(rules) => rules.allow.iter().find(inner).map(ToString::to_string),
    };
    match reaches {
        Some(what) if !actor.owner => Err(FleetError::new(
            Kind::Forbidden,
            "forbidden",
            format!("`network` reaches into the host with `{what}`, which only its owner may ask for"),
        )
        .hint("ask through the server's unix socket, or let its owner make a template")),
        _ => Ok(()),
    }
}

pub fn check_name(name: &str) -> Result<(), FleetError> {
    check_template_name(name).map_err(|_| {
        invalid(format!("sandbox name `{}` is not allowed", shorten(name)))
            .hint("use 1 to 64 of a-z, 0-9, `-`, `_` and `.`, beginning with a letter or digit")
    })?;
    if name.starts_with("sb-") {
        return Err(invalid(format!("sandbox name `{name}` looks like an id"))
            .hint("choose another beginning than `sb-`"));
    }
    Ok(())
}

pub fn check_metadata(metadata: &std::collections::BTreeMap<String, String>) -> Result<(), FleetError> {
    let bytes: usize = metadata.iter().map(|(key, value)| key.len() + value.len()).sum();
    if metadata.len() > METADATA_ENTRIES || bytes > METADATA_BYTES {
        return Err(invalid(format!(
            "metadata of {} entries and {bytes} bytes is more than {METADATA_ENTRIES} entries or {METADATA_BYTES} bytes",
            metadata.len()
        )));
    }
    if let Some(key) = metadata.keys().find(|key| key.starts_with(OWN_KEYS)) {
        return Err(invalid(format!("metadata key `{}` is the server's own", shorten(key)))
            .hint(format!("choose another beginning than `{OWN_KEYS}`")));
    }
    match metadata.keys().find(|key| key.is_empty() || key.contains('=') || key.chars().any(char::is_control))
    {
        Some(key) => Err(invalid(format!(
            "metadata key `{}` is empty, or holds `=` or control characters",
            key.escape_debug()
        ))),
        None => Ok(()),
    }
}

/// The working directory of an exec; the guest finds out if it exists.
pub fn check_directory(path: &str) -> Result<(), FleetError> {
    if path.starts_with('/') && !path.contains('\0') && path.len() < 4096 {
        return Ok(());
    }
    Err(invalid(format!("working directory `{}` is not an absolute path", shorten(path))))
}

/// A time in seconds that is neither zero nor for ever.
pub fn seconds(what: &str, value: f64) -> Result<Duration, FleetError> {
    let wrong = || {
        invalid(format!("{what} {value} is not allowed"))
            .hint(format!("write a number above 0 and up to {}", LONGEST.as_secs()))
    };
    if !(value > 0.0 && value <= LONGEST.as_secs_f64()) {
        return Err(wrong());
    }
    Ok(Duration::try_from_secs_f64(value).map_err(|_| wrong())?.max(Duration::from_millis(1)))
}

/// The time to live in a request for a change of state.
pub fn optional_seconds(ttl: Option<f64>) -> Result<Option<Duration>, FleetError> {
    ttl.map(|ttl| seconds("ttl_seconds", ttl)).transpose()
}

/// Settings that reach outside the sandbox are for the owner of the host alone.
pub fn check_rights(actor: &Actor, request: &CreateSandbox) -> Result<(), FleetError> {
    if actor.owner {
        return Ok(());
    }
    let of_host =
        |image: &String| image.starts_with(['/', '.', '~']) || image.starts_with(paddock_images::BUILT);
    let host_image = request.image.as_ref().is_some_and(of_host);
    let wanted = [
        ("workspace", request.workspace.is_some()),
        ("read", !request.read.is_empty()),
        ("write", !request.write.is_empty()),
        ("image", host_image),
        ("secrets.from", request.secrets.values().any(|secret| secret.from.is_some())),
    ];
    match wanted.iter().find(|(_, wanted)| *wanted) {
        Some((field, _)) => Err(FleetError::new(
            Kind::Forbidden,
            "forbidden",
            format!("`{field}` reaches into the host, which only the owner of the host may ask for"),
        )
        .hint("ask through the server's unix socket, or let its owner make a template")),
        None => Ok(()),
    }
}

fn layer(request: &CreateSandbox) -> Result<Policy, FleetError> {
    let limits = limits(&request.limits)?;
    Ok(Policy {
        backend: request.backend.clone(),
        image: request.image.clone(),
        workspace: request.workspace.clone(),
        read: request.read.clone(),
        write: request.write.clone(),
        tmpfs: request.tmpfs.clone(),
        protect: request.protect.clone(),
        unprotect: request.unprotect.clone(),
        net: request.network.clone(),
        ports: request.ports.clone(),
        require: request.require.clone(),
        user: request.user.clone(),
        hostname: request.hostname.clone(),
        cwd: request.cwd.clone(),
        env: request.env.clone(),
        command: Vec::new(),
        ready: None,
        preload: Vec::new(),
        scan: request.scan.clone(),
        allowed_imports: request.allowed_imports.clone(),
        live_forks: request.live_forks,
        root_may_install: request.root_may_install,
        become_root: request.become_root,
        audit_outputs: request.audit_outputs,
        host_certs: request.host_certs,
        secrets: request.secrets.clone(),
        limits,
    })
}

fn limits(request: &LimitsRequest) -> Result<LimitsLayer, FleetError> {
    let timeout = request.exec_timeout_seconds.map(|s| seconds("exec_timeout_seconds", s)).transpose()?;
    Ok(LimitsLayer {
        memory: request.memory_bytes.map(|bytes| bytes.to_string()),
        cpus: request.cpus.map(|cpus| cpus.to_string()),
        pids: request.pids.map(|pids| pids.to_string()),
        disk: request.disk_bytes.map(|bytes| bytes.to_string()),
        files: request.open_files.map(|files| files.to_string()),
        output: request.output_bytes.map(|bytes| bytes.to_string()),
        timeout: timeout.map(|timeout| format!("{}ms", timeout.as_millis())),
    })
}

pub fn refused(error: SettingsError) -> FleetError {
    let hint = error.hint();
    let refused = match &error {
        SettingsError::Size(
            SizeError::Argument { .. } | SizeError::Variable { .. } | SizeError::Total(_),
        ) => FleetError::new(Kind::TooLarge, "too_large", chain(&error)),
        _ => invalid(chain(&error)),
    };
    match hint {
        Some(hint) => refused.hint(hint),
        None => refused,
    }
}

pub fn invalid(message: impl Into<String>) -> FleetError {
    FleetError::new(Kind::Invalid, "invalid_request", message)
}

/// An error and its causes, in one line. Errors of some crates hold the words of their causes: each is told once.
pub fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text.push_str(": ");
            text.push_str(&words);
        }
        source = cause.source();
    }
    text
}

pub fn shorten(text: &str) -> String {
    text.chars().take(80).collect::<String>().escape_debug().to_string()
}

/// Values of variables may be secrets.
pub fn without_secrets(request: &CreateSandbox) -> serde_json::Value {
    let without = |(name, secret): (&String, &SecretLayer)| (name.clone(), secret.without_value());
    let secrets = request.secrets.iter().map(without).collect();
    let request = CreateSandbox { secrets, ..request.clone() };
    let mut value = serde_json::to_value(&request).unwrap_or_default();
    value["env"] = serde_json::json!(request.env.keys().collect::<Vec<_>>());
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Said(&'static str, Option<Box<Said>>);

    impl std::fmt::Display for Said {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str(self.0)
        }
    }

    impl std::error::Error for Said {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            self.1.as_deref().map(|cause| cause as &dyn std::error::Error)
        }
    }

    #[test]
    fn words_of_a_cause_are_told_once() {
        let error = ["refused", "no connection", "no answer: no connection", "no list"]
            .into_iter()
            .fold(None, |cause, words| Some(Box::new(Said(words, cause))))
            .expect("an error");
        assert_eq!(chain(&error), "no list: no answer: no connection: refused");
    }
}
