//! The whole resolved policy, and the guarantees that the sandbox would really have.

use crate::render::style::Style;
use crate::render::table::{Cell, Table};
use crate::session::Session;
use paddock_engine::find_held_names;
use paddock_model::net::{Mode, NetRules, Rule};
use paddock_model::{
    Access, Guarantees, Network, Requirement, ScanMode, User, format_bytes, format_duration,
};
use paddock_settings::{Bound, WORKSPACE_TARGET};
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub fn json(session: &Session, guarantees: &Guarantees) -> Value {
    let mut spec = json!(session.spec);
    if let Some(image) = &session.image {
        spec["root"] = json!({ "kind": "image", "reference": image });
    }
    json!({
        "backend": session.backend,
        "spec": spec,
        "command": session.argv,
        "env": session.env,
        "cwd": session.cwd,
        "secrets": secrets(session),
        "host_certs": session.host_certs,
        "tty": session.tty,
        "state_dir": session.state_dir,
        "guarantees": guarantees,
        "unmet": unmet(session, guarantees)
            .into_iter()
            .map(|(requirement, instead)| json!({ "require": requirement.name(), "instead": instead }))
            .collect::<Vec<_>>(),
    })
}

/// Never a value.
fn secrets(session: &Session) -> Value {
    let one =
        |secret: &Bound| (secret.name.clone(), json!({ "hosts": secret.hosts, "header": secret.header }));
    Value::Object(session.secrets.iter().map(one).collect())
}

/// Requirements that cannot be met, each with the guarantee that the sandbox would have instead.
pub fn unmet(session: &Session, guarantees: &Guarantees) -> Vec<(Requirement, String)> {
    let lacking = |requirement: &Requirement| Some((*requirement, requirement.met_by(guarantees).err()?));
    session.spec.require.iter().filter_map(lacking).collect()
}

pub fn text(session: &Session, guarantees: &Guarantees, colour: bool) -> String {
    let promised = as_rows(guarantees);
    let groups = [
        ("Command", command(session)),
        ("Files", files(session)),
        ("Protected in /workspace", protected(session)),
        ("Environment", environment(session)),
        ("Limits", limits(session)),
        ("Guarantees", guaranteed(&promised)),
        ("Required", required(session, guarantees)),
        ("Weaker than it could be", weaknesses(guarantees)),
    ];
    let shown = groups.iter().filter_map(|(title, table)| {
        let body = table.as_ref()?.render(colour);
        Some(format!("{}\n{body}", Style::Bold.paint(title, colour)))
    });
    shown.collect::<Vec<_>>().join("\n")
}

/// The rules in one line.
fn gate(rules: &NetRules) -> String {
    let list = |rules: &[Rule]| rules.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut parts = vec![match (rules.allow.is_empty(), rules.allow_public.is_empty()) {
        (true, true) => "nothing is allowed".to_string(),
        (false, _) => list(&rules.allow),
        (true, false) => String::new(),
    }];
    parts.retain(|part| !part.is_empty());
    if !rules.allow_public.is_empty() {
        parts.push(format!("{} at public addresses", list(&rules.allow_public)));
    }
    if !rules.deny.is_empty() {
        parts.push(format!("never {}", list(&rules.deny)));
    }
    if let Some(methods) = &rules.methods {
        parts.push(format!("only {}", methods.join(", ")));
    }
    parts.extend(rules.rate.map(|rate| format!("{} per second", format_bytes(rate))));
    parts.extend(rules.bytes.map(|bytes| format!("{} in all", format_bytes(bytes))));
    match rules.mode {
        Mode::Enforce => {}
        Mode::LearnDeny => parts.push("learning, the rest is refused".into()),
        Mode::LearnAllow => parts.push("LEARNING, THE REST IS ALLOWED".into()),
    }
    format!("through the gate: {}", parts.join("; "))
}

fn command(session: &Session) -> Option<Table> {
    let user = match &session.spec.user {
        User::Agent => "agent (1000:1000)".to_string(),
        User::Root if session.spec.root_may_install => {
            "root, which may install packages and manage users".to_string()
        }
        User::Root => "root, without a single capability".to_string(),
        User::Installer => "root, with rights over its own files and ids".to_string(),
        User::Ids { uid, gid } => format!("{uid}:{gid}"),
        User::Name(name) => name.clone(),
    };
    let sudo = if session.spec.become_root { "; `sudo` makes it root" } else { "" };
    let user = format!("{user}{sudo}");
    let network = match &session.spec.network {
        Network::None => Cell::new("none (loopback only)", Style::Plain),
        Network::Gate(rules) => Cell::new(&gate(rules), Style::Plain),
        Network::Host => Cell::new("THE HOST'S OWN NETWORK, UNFENCED", Style::Bad),
    };
    let argv = session.argv.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ");
    let cwd = session.cwd.as_ref().map(|cwd| cwd.display().to_string());
    let mut table = Table::new(2);
    let mut row = |name: &str, value: &str| table.row([name.into(), value.into()]);
    row("backend", session.backend.as_deref().unwrap_or("the first usable one"));
    row("root", session.image.as_deref().unwrap_or("the host's /usr, read-only"));
    row("command", if argv.is_empty() { "none given" } else { &argv });
    row("working directory", cwd.as_deref().unwrap_or("/workspace, unless the image names another"));
    row("user", &user);
    row("host name", &session.spec.hostname);
    row("terminal", if session.tty { "yes" } else { "no" });
    table.row(["network".into(), network]);
    for secret in &session.secrets {
        let hosts = secret.hosts.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        table.row(["secret".into(), format!("{}, only in requests to {hosts}", secret.name).as_str().into()]);
    }
    if session.host_certs {
        table.row(["certificates".into(), "those that the host believes".into()]);
    }
    if session.spec.scan.mode != ScanMode::Off {
        table.row(["scan of code".into(), scan(session).as_str().into()]);
    }
    Some(table)
}

fn scan(session: &Session) -> String {
    let rules = &session.spec.scan;
    let imports = match rules.allowed_imports.as_deref() {
        None => "anything may be imported".to_string(),
        Some([]) => "nothing may be imported".to_string(),
        Some(names) => format!("only these may be imported: {}", names.join(", ")),
    };
    format!("{}; {imports}", rules.mode.name())
}

fn files(session: &Session) -> Option<Table> {
    let mut table = Table::new(2);
    if let Some(workspace) = &session.spec.workspace {
        let directory = workspace.directory.display().to_string();
        let access = if workspace.writable.is_empty() { "write" } else { "read" };
        table.row(["/workspace".into(), access.into(), directory.as_str().into()]);
        for path in &workspace.writable {
            let (inside, outside) = (Path::new(WORKSPACE_TARGET).join(path), workspace.directory.join(path));
            let [inside, outside] = [inside, outside].map(|path| path.display().to_string());
            table.row([inside.as_str().into(), "write".into(), outside.as_str().into()]);
        }
    }
    for mount in &session.spec.mounts {
        let access = match mount.access {
            Access::Read => "read",
            Access::Write => "write",
            Access::Tmpfs => "in memory",
        };
        let source = mount.source.as_ref().map(|source| source.display().to_string()).unwrap_or_default();
        let target = mount.target.display().to_string();
        table.row([target.as_str().into(), access.into(), source.as_str().into()]);
    }
    let empty = session.spec.workspace.is_none() && session.spec.mounts.is_empty();
    (!empty).then_some(table)
}

fn protected(session: &Session) -> Option<Table> {
    const PER_ROW: usize = 4;
    let workspace = session.spec.workspace.as_ref()?;
    let mut table = Table::new(2);
    let found = find_held_names(workspace).names.into_iter().map(|found| found.path);
    let names: BTreeSet<PathBuf> = workspace.protect.iter().cloned().chain(found).collect();
    let names: Vec<String> = names.iter().map(|name| name.display().to_string()).collect();
    for row in names.chunks(PER_ROW) {
        table.row(row.iter().map(|name| Cell::from(name.as_str())));
    }
    Some(table)
}

fn environment(session: &Session) -> Option<Table> {
    let mut table = Table::new(2);
    for (name, value) in &session.env {
        table.row([name.as_str().into(), value.as_str().into()]);
    }
    (!session.env.is_empty()).then_some(table)
}

fn limits(session: &Session) -> Option<Table> {
    let limits = &session.spec.limits;
    let mut table = Table::new(2);
    for (name, value) in [
        ("memory", format_bytes(limits.memory)),
        ("cpus", limits.cpus.to_string()),
        ("pids", limits.pids.to_string()),
        ("disk", format_bytes(limits.disk)),
        ("files", format!("{} open per process", limits.files)),
        ("output", format!("{} kept per stream", format_bytes(limits.output))),
        ("timeout", limits.timeout.map_or("none".to_string(), format_duration)),
    ] {
        table.row([name.into(), value.as_str().into()]);
    }
    Some(table)
}

fn guaranteed(promised: &Map<String, Value>) -> Option<Table> {
    let mut table = Table::new(2);
    for (name, value) in promised {
        let value = in_words(value);
        table.row([name.replace('_', " ").as_str().into(), value.as_str().into()]);
    }
    Some(table)
}

/// A list as its items, one after the other.
fn in_words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(in_words).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

fn required(session: &Session, guarantees: &Guarantees) -> Option<Table> {
    let mut table = Table::new(2);
    for requirement in &session.spec.require {
        let verdict = match requirement.met_by(guarantees) {
            Ok(()) => Cell::new("met", Style::Good),
            Err(instead) => Cell::new(&format!("NOT MET: {instead}"), Style::Bad),
        };
        table.row([requirement.name().into(), verdict]);
    }
    (!session.spec.require.is_empty()).then_some(table)
}

fn weaknesses(guarantees: &Guarantees) -> Option<Table> {
    let mut table = Table::new(2);
    for weakness in &guarantees.weaknesses {
        table.row([Cell::new(weakness, Style::Warning)]);
    }
    (!guarantees.weaknesses.is_empty()).then_some(table)
}

/// Every guarantee but the weaknesses, by the names that JSON has for them: a new one is never left out.
fn as_rows(guarantees: &Guarantees) -> Map<String, Value> {
    match json!(guarantees) {
        Value::Object(mut map) => {
            map.remove("weaknesses");
            map
        }
        _ => Map::new(),
    }
}

/// Quoted so that a shell reads the same word.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_string()
    } else {
        format!("'{}'", word.replace('\'', "'\\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::StdinMode;
    use paddock_model::{
        Boundary, DiskLimit, Identity, Isolation, LandlockLevel, LimitKind, Limits, NetworkEnforcement,
        PauseKind, Root, SnapshotKind, Spec, Survivor, Workspace,
    };

    fn guarantees() -> Guarantees {
        Guarantees {
            backend: "process".into(),
            boundary: Boundary::SharedKernel,
            network: NetworkEnforcement::Host,
            identity: Identity::Own,
            memory_limit: LimitKind::Kernel,
            cpu_limit: LimitKind::Kernel,
            pids_limit: LimitKind::Kernel,
            disk_limit: DiskLimit::KernelInMemory,
            pause: PauseKind::KernelFreezer,
            snapshot: SnapshotKind::FilesystemCopy,
            fork: paddock_model::ForkKind::Filesystem,
            survives_pause: vec![Survivor::Files, Survivor::Memory, Survivor::Processes],
            survives_hibernate: vec![Survivor::Files],
            seccomp: Isolation::On,
            landlock_abi: LandlockLevel(4),
            time_namespace: Isolation::On,
            system_inodes: Isolation::On,
            device_inodes: Isolation::On,
            capabilities: Vec::new(),
            root_capabilities: Vec::new(),
            become_root: false,
            weaknesses: vec!["the network is the host's".into()],
        }
    }

    fn session() -> Session {
        Session {
            state_dir: "/state".into(),
            backend: None,
            image: Some("python:3.12".into()),
            spec: Spec {
                root: Root::HostUsr,
                workspace: Some(Workspace {
                    directory: "/home/u/p".into(),
                    protect: [".git", "HEAD"].map(Into::into).to_vec(),
                    writable: Vec::new(),
                    unprotected: vec![".git".into()],
                }),
                mounts: vec![],
                limits: Limits::default(),
                disk: Default::default(),
                network: Network::Host,
                user: User::Agent,
                hostname: "paddock".into(),
                require: vec![Requirement::MemoryLimit, Requirement::OwnKernel],
                scan: Default::default(),
                live_forks: false,
                root_may_install: false,
                become_root: false,
            },
            argv: vec!["python3".into(), "-c".into(), "print('\u{1b}')".into()],
            env: [("A".into(), "1".into())].into(),
            cwd: None,
            stdin: StdinMode::Inherit,
            tty: false,
            json: false,
            file: None,
            scanned: Default::default(),
            secrets: Vec::new(),
            host_certs: false,
            first: None,
            listener: None,
            backends: paddock_engine::backends_of_this_build,
        }
    }

    #[test]
    fn everything_that_was_decided_is_shown() {
        let expected = "\
Command
  backend            the first usable one
  root               python:3.12
  command            python3 -c 'print('\\''\\u{1b}'\\'')'
  working directory  /workspace, unless the image names another
  user               agent (1000:1000)
  host name          paddock
  terminal           no
  network            THE HOST'S OWN NETWORK, UNFENCED

Files
  /workspace  write  /home/u/p

Protected in /workspace
  .git  HEAD

Environment
  A  1

Limits
  memory   2 GiB
  cpus     2
  pids     512
  disk     1 GiB
  files    4096 open per process
  output   8 MiB kept per stream
  timeout  1 h

Guarantees
  backend             process
  boundary            shared-kernel
  cpu limit           kernel
  device inodes       on
  disk limit          kernel-in-memory
  fork                filesystem
  identity            own
  landlock abi        4
  memory limit        kernel
  network             host
  pause               kernel-freezer
  pids limit          kernel
  seccomp             on
  snapshot            filesystem-copy
  survives hibernate  files
  survives pause      files, memory, processes
  system inodes       on
  time namespace      on

Required
  memory-limit  met
  own-kernel    NOT MET: the sandbox would not have a kernel of its own

Weaker than it could be
  the network is the host's
";
        assert_eq!(text(&session(), &guarantees(), false), expected);
    }

    #[test]
    fn json_names_the_image_and_what_is_unmet() {
        let json = json(&session(), &guarantees());
        assert_eq!(json["spec"]["root"]["reference"], "python:3.12");
        assert_eq!(json["unmet"][0]["require"], "own-kernel");
        assert_eq!(json["guarantees"]["boundary"], "shared-kernel");
    }
}
