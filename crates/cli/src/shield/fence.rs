//! From the arguments to a session: layers of settings as `paddock run` has them, with those of a shield and of the agent below.

use super::listing::Place;
use super::{ShieldError, home};
use crate::args::scan::ScanFlags;
use crate::args::shield::ShieldArgs;
use crate::args::{CallFlags, PolicyFlags};
use crate::caller::Caller;
use crate::commands::CommandError;
use crate::commands::sandboxed::{self, Streams};
use crate::session::{Session, StdinMode};
use crate::state;
use paddock_engine::{FoundName, find_held_names};
use paddock_model::net::{NetLayer, NetSetting};
use paddock_model::protected::{IN_A_REPOSITORY, NEW_REPOSITORY, Scope};
use paddock_model::{Access, LimitsLayer, Mount, Network, Policy, Spec, Workspace};
use paddock_settings::agents::{self, Agent};
use paddock_settings::{WORKSPACE_TARGET, default_environment, names_of_the_table};
use std::path::{Path, PathBuf};

/// The hosts that are allowed unless the caller allows more.
const PRESET: &str = "preset:model-apis";

pub struct Fence {
    pub session: Session,
    pub agent: Option<Agent>,
    /// Writable places of the host, each with the prefix of its paths.
    pub places: Vec<(Place, String)>,
}

/// Makes only the state directory and the home in it, and for an explanation not even those.
pub fn raise(mut args: ShieldArgs, caller: &Caller) -> Result<Fence, CommandError> {
    let state = state::locate(&caller.environment)?;
    let agent = agent_of(&args, &state)?;
    let streams = Streams::chosen(&args.call, caller.terminals, StdinMode::Inherit)?;
    let offline = choose_network(&mut args.policy)?;
    let mut layers = vec![base(&args.policy, caller, offline)?];
    if let Some(agent) = &agent {
        let mut layer = agent.layer(|name| caller.environment.get(name).is_some());
        if offline {
            (layer.net, layer.secrets) = (None, Default::default());
        }
        layers.push(layer);
    }
    let (explain, fresh, commits) = (args.call.explain, args.fresh, args.allow_commit);
    let ShieldArgs { call, policy, command, .. } = args;
    let mut session =
        sandboxed::session(layers, call, policy, ScanFlags::default(), command, streams, caller)?;
    if session.argv.is_empty() && session.image.is_none() && !explain {
        return Err(ShieldError::MissingCommand.into());
    }
    if session.spec.network == Network::Host {
        return Err(ShieldError::Unfenced.into());
    }
    narrow(&mut session.spec)?;
    if commits && let Some(workspace) = &mut session.spec.workspace {
        allow_commits(workspace)?;
    }
    let places = places(&session.spec);
    if !fresh {
        add_home(&mut session, explain)?;
    }
    add_path(&mut session);
    Ok(Fence { session, agent, places })
}

/// The session that puts an agent into the home of this directory. It sees nothing of the workspace, and no key. Its
/// questions get no answer, unless the caller asks for its streams.
pub fn installation(mut args: ShieldArgs, name: &str, caller: &Caller) -> Result<Session, CommandError> {
    let state = state::locate(&caller.environment)?;
    let agent = agents::load(&state, name).map_err(ShieldError::from)?;
    if agent.install.is_empty() {
        return Err(ShieldError::NoInstall(agent.name).into());
    }
    let stdin = if passes_streams(&args.call) { StdinMode::Inherit } else { StdinMode::None };
    let streams = Streams::chosen(&args.call, caller.terminals, stdin)?;
    choose_network(&mut args.policy)?;
    let workspace = base(&args.policy, caller, true)?.workspace.take();
    let workspace = args.policy.workspace.take().or(workspace).unwrap_or_default();
    let rules = NetLayer { allow: agent.install_hosts.clone(), ..NetLayer::default() };
    let mut layer = Policy {
        net: Some(NetSetting::Rules(rules)),
        cwd: Some(home::TARGET.to_string()),
        ..limits_and_variables()
    };
    // A line for each thing that npm fetches, for the progress.
    layer.env.insert("NPM_CONFIG_LOGLEVEL".into(), "http".into());
    let explain = args.call.explain;
    let ShieldArgs { call, policy, .. } = args;
    let scan = ScanFlags::default();
    let mut session =
        sandboxed::session(vec![layer], call, policy, scan, agent.install.clone(), streams, caller)?;
    let directory = std::fs::canonicalize(&workspace).map_err(ShieldError::NoDirectory)?;
    mount_home(&mut session, &directory, explain)?;
    add_path(&mut session);
    Ok(session)
}

/// True if the caller talks with the installer, as `-i` and `-t` say.
pub fn passes_streams(call: &CallFlags) -> bool {
    call.interactive || call.tty
}

/// The workspace that is meant when none is named, as an absolute path.
pub fn current_directory(caller: &Caller) -> Result<String, ShieldError> {
    let current = std::env::current_dir().map_err(ShieldError::NoDirectory)?;
    let is_home = caller
        .environment
        .home()
        .and_then(|home| std::fs::canonicalize(home).ok())
        .is_some_and(|h| h == current);
    match current.to_str() {
        _ if is_home => Err(ShieldError::Home(current)),
        Some(text) => Ok(text.to_string()),
        None => Err(ShieldError::NoDirectory(std::io::Error::other("its path is not UTF-8 text"))),
    }
}

fn agent_of(args: &ShieldArgs, state: &Path) -> Result<Option<Agent>, ShieldError> {
    match (args.agent.as_deref(), args.command.first()) {
        (Some("none"), _) => Ok(None),
        (Some(name), _) => Ok(Some(agents::load(state, name)?)),
        (None, Some(command)) => Ok(agents::of_command(state, command)?),
        (None, None) => Ok(None),
    }
}

/// `--net HOST` is one more rule, `--net none` lets nothing out at all. Returns true for `none`.
fn choose_network(policy: &mut PolicyFlags) -> Result<bool, ShieldError> {
    match policy.net.take() {
        None => Ok(false),
        Some(word) if word == "host" => Err(ShieldError::Unfenced),
        Some(word) if word == "none" => {
            policy.net = Some(word);
            Ok(true)
        }
        Some(rule) => {
            policy.network.allow_net.push(rule);
            Ok(false)
        }
    }
}

fn base(flags: &PolicyFlags, caller: &Caller, offline: bool) -> Result<Policy, ShieldError> {
    let workspace = match &flags.workspace {
        Some(_) => None,
        None => Some(current_directory(caller)?),
    };
    let directory =
        PathBuf::from(flags.workspace.as_ref().or(workspace.as_ref()).cloned().unwrap_or_default());
    let names = names_of_the_table(Scope::Shield, Some(&directory));
    let rules = NetLayer { allow: vec![PRESET.to_string()], ..NetLayer::default() };
    Ok(Policy {
        workspace,
        protect: names.iter().map(|name| name.display().to_string()).collect(),
        net: (!offline).then_some(NetSetting::Rules(rules)),
        ..limits_and_variables()
    })
}

/// An agent builds and tests, and takes as long as it takes.
fn limits_and_variables() -> Policy {
    Policy {
        env: [("NPM_CONFIG_PREFIX".to_string(), format!("{}/.local", home::TARGET))].into(),
        limits: LimitsLayer {
            memory: Some("4GiB".into()),
            pids: Some("2048".into()),
            timeout: Some("none".into()),
            ..LimitsLayer::default()
        },
        ..Policy::default()
    }
}

/// `--write` of a path in the workspace makes the rest of the workspace read-only.
fn narrow(spec: &mut Spec) -> Result<(), ShieldError> {
    let Some(workspace) = &mut spec.workspace else { return Ok(()) };
    let is_inside = |mount: &Mount| {
        let own_place = mount.source.as_ref() == Some(&mount.target);
        let source = mount.source.as_ref().filter(|_| mount.access == Access::Write && own_place);
        source.is_some_and(|source| source.starts_with(&workspace.directory))
    };
    let inside: Vec<Mount> = spec.mounts.extract_if(.., |mount| is_inside(mount)).collect();
    let paths = inside
        .into_iter()
        .filter_map(|mount| Some(mount.source?.strip_prefix(&workspace.directory).ok()?.to_path_buf()));
    let mut paths: Vec<PathBuf> = paths.collect();
    paths.sort();
    paths.dedup();
    // The whole of it was named: then it is as without.
    if paths.iter().any(|path| path.as_os_str().is_empty()) {
        return Ok(());
    }
    let nested = |path: &PathBuf| paths.iter().any(|other| other != path && path.starts_with(other));
    let outermost: Vec<PathBuf> = paths.iter().filter(|path| !nested(path)).cloned().collect();
    for path in &outermost {
        if let Some(name) = workspace.protect.iter().find(|name| path.starts_with(name)) {
            return Err(ShieldError::Protected { path: path.clone(), name: name.clone() });
        }
    }
    workspace.writable = outermost;
    Ok(())
}

/// Objects, branches, the index and logs become writable; files that git executes or includes stay read-only.
fn allow_commits(workspace: &mut Workspace) -> Result<(), ShieldError> {
    let git = workspace.directory.join(".git");
    let Ok(found) = git.symlink_metadata() else {
        // Where there is none, the agent can make one and commit to it without this.
        return Ok(());
    };
    if !found.is_dir() {
        return Err(ShieldError::RepositoryElsewhere(git));
    }
    let Some(at) = workspace.protect.iter().position(|name| name == Path::new(".git")) else { return Ok(()) };
    workspace.protect.remove(at);
    workspace.protect.extend(IN_A_REPOSITORY.iter().map(|(name, _, _)| Path::new(".git").join(name)));
    workspace.protect.sort();
    if !workspace.writable.is_empty() {
        workspace.writable.push(".git".into());
    }
    Ok(())
}

/// Everything of the host that is writable inside, but the home.
fn places(spec: &Spec) -> Vec<(Place, String)> {
    let mut places = Vec::new();
    if let Some(workspace) = &spec.workspace {
        let (held, marked) = held_and_given_up(workspace);
        let whole = [PathBuf::new()];
        let roots = if workspace.writable.is_empty() { &whole[..] } else { &workspace.writable };
        for root in roots {
            let below = |name: &PathBuf| name.strip_prefix(root).ok().map(Path::to_path_buf);
            let skip = held.iter().filter_map(below).collect();
            let marked =
                marked.iter().filter_map(|found| Some((below(&found.path)?, found.reason))).collect();
            let without_repository = root.as_os_str().is_empty() && has_no_repository(workspace);
            let prefix =
                if root.as_os_str().is_empty() { String::new() } else { format!("{}/", root.display()) };
            let directory = workspace.directory.join(root);
            places.push((Place { directory, skip, marked, without_repository }, prefix));
        }
    }
    for mount in spec.mounts.iter().filter(|mount| mount.access == Access::Write) {
        if let Some(source) = &mount.source {
            let (directory, skip, marked) = (source.clone(), Vec::new(), Vec::new());
            let place = Place { directory, skip, marked, without_repository: false };
            places.push((place, format!("{}/", source.display())));
        }
    }
    places
}

/// The names that are read-only inside, or stand-ins; and the names in a repository's settings that the caller gave up.
fn held_and_given_up(workspace: &Workspace) -> (Vec<PathBuf>, Vec<FoundName>) {
    let held = find_held_names(workspace).names;
    let given_up = match workspace.unprotected.is_empty() {
        true => Vec::new(),
        false => {
            let all = find_held_names(&Workspace { unprotected: Vec::new(), ..workspace.clone() }).names;
            all.into_iter().filter(|found| !held.contains(found)).collect()
        }
    };
    let mut skip = workspace.protect.clone();
    skip.extend(held.into_iter().map(|found| found.path));
    if has_no_repository(workspace) {
        // A repository that is made inside appears at the end, with settings that Paddock writes.
        skip.retain(|name| name != Path::new(".git"));
        skip.extend([NEW_REPOSITORY, ".git/config"].map(PathBuf::from));
    }
    (skip, given_up)
}

fn has_no_repository(workspace: &Workspace) -> bool {
    let is_held = workspace.protect.iter().any(|name| name == Path::new(".git"));
    is_held && workspace.directory.join(".git").symlink_metadata().is_err()
}

fn add_home(session: &mut Session, explain: bool) -> Result<(), ShieldError> {
    let Some(workspace) = &session.spec.workspace else { return Ok(()) };
    let directory = workspace.directory.clone();
    mount_home(session, &directory, explain)
}

/// A directory of the state directory, which no caller may name: so no layer of settings has it.
fn mount_home(session: &mut Session, workspace: &Path, explain: bool) -> Result<(), ShieldError> {
    if session.spec.mounts.iter().any(|mount| mount.target == Path::new(home::TARGET)) {
        return Ok(());
    }
    let home = match explain {
        true => home::locate(&session.state_dir, workspace),
        false => home::prepare(&session.state_dir, workspace)?,
    };
    let mount = Mount { access: Access::Write, source: Some(home), target: home::TARGET.into() };
    session.spec.mounts.insert(0, mount);
    Ok(())
}

/// Programs that were installed into the home are found first. An image has a path of its own.
fn add_path(session: &mut Session) {
    if session.image.is_some() || session.env.contains_key("PATH") {
        return;
    }
    let usual = default_environment().remove("PATH").unwrap_or_default();
    session.env.insert("PATH".to_string(), format!("{}/.local/bin:{usual}", home::TARGET));
    if session.cwd.is_none() && session.spec.workspace.is_some() {
        session.cwd = Some(WORKSPACE_TARGET.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::Root;

    fn spec(protect: &[&str], writes: &[&str]) -> Spec {
        let mount =
            |path: &&str| Mount { access: Access::Write, source: Some(path.into()), target: path.into() };
        Spec {
            root: Root::HostUsr,
            workspace: Some(Workspace {
                directory: "/repo".into(),
                protect: protect.iter().map(PathBuf::from).collect(),
                writable: Vec::new(),
                unprotected: Vec::new(),
            }),
            mounts: writes.iter().map(mount).collect(),
            limits: paddock_model::Limits::default(),
            disk: Default::default(),
            network: Network::None,
            user: Default::default(),
            hostname: "x".into(),
            require: Vec::new(),
            scan: Default::default(),
            live_forks: false,
            root_may_install: false,
            become_root: false,
        }
    }

    fn narrowed(protect: &[&str], writes: &[&str]) -> Result<(Vec<PathBuf>, usize), String> {
        let mut spec = spec(protect, writes);
        narrow(&mut spec).map_err(|error| error.to_string())?;
        Ok((spec.workspace.unwrap().writable, spec.mounts.len()))
    }

    #[test]
    fn a_path_in_the_workspace_leaves_the_rest_read_only() {
        assert_eq!(narrowed(&[".git"], &["/repo/src/a", "/repo/src", "/data"]), Ok((vec!["src".into()], 1)));
        assert_eq!(narrowed(&[".git"], &["/repo", "/repo/src"]), Ok((vec![], 0)));
        assert_eq!(narrowed(&[".git"], &["/repository"]), Ok((vec![], 1)));
        let error = narrowed(&[".git"], &["/repo/.git/hooks"]).unwrap_err();
        assert_eq!(error, "`.git/hooks` is to be writable, and `.git` is protected");
    }

    #[test]
    fn what_is_writable_is_watched() {
        let mut spec = spec(&[".git", "src/held"], &["/repo/src", "/data"]);
        let whole = places(&spec);
        let expected = ["src/held", "refs", ".git/paddock-new-repository", ".git/config"].map(PathBuf::from);
        assert_eq!(whole[0].0.skip, expected, "there is no such directory, so no repository in it");
        narrow(&mut spec).unwrap();
        let places = places(&spec);
        assert_eq!(places.len(), 2);
        assert_eq!((places[0].0.directory.as_path(), places[0].1.as_str()), (Path::new("/repo/src"), "src/"));
        assert_eq!(places[0].0.skip, [PathBuf::from("held")]);
        assert_eq!(places[1].1, "/data/");
    }
}
