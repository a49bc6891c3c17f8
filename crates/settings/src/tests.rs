use super::*;
use paddock_model::Network;
use paddock_model::net::NetSetting;
use std::error::Error;
use std::fs;
use tempfile::TempDir;

/// A host to be measured against: a state directory, a home and a project.
struct Host {
    directory: TempDir,
}

impl Host {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["home", "home/state", "project"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        fs::write(directory.path().join("file"), "").unwrap();
        Host { directory }
    }

    fn path(&self, name: &str) -> String {
        self.directory.path().canonicalize().unwrap().join(name).display().to_string()
    }

    fn resolve(&self, layers: &[Policy]) -> Result<Settings, SettingsError> {
        let (state_dir, home) = (self.path("home/state"), self.path("home"));
        resolve(
            layers,
            Surroundings {
                state_dir: Path::new(&state_dir),
                home: Some(Path::new(&home)),
                backends: paddock_backends::all,
            },
        )
    }

    fn refusal(&self, policy: Policy) -> String {
        let error = self.resolve(&[policy]).unwrap_err();
        match error.source() {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        }
    }
}

fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| value.to_string()).collect()
}

#[test]
fn defaults_are_complete() {
    let settings = Host::new().resolve(&[]).unwrap();
    assert_eq!(settings.spec.hostname, "paddock");
    assert_eq!(settings.spec.network, Network::None);
    assert_eq!(settings.spec.user, User::Agent);
    assert_eq!(settings.spec.workspace, None);
    assert!(settings.env.is_empty() && settings.command.is_empty());
}

#[test]
fn a_workspace_is_canonical_and_its_names_are_protected() {
    let host = Host::new();
    std::os::unix::fs::symlink(host.path("project"), host.path("link")).unwrap();
    let policy = Policy { workspace: Some(host.path("link/../link/.")), ..Default::default() };
    let workspace = host.resolve(&[policy]).unwrap().spec.workspace.unwrap();
    assert_eq!(workspace.directory, Path::new(&host.path("project")));
    assert!(workspace.protect.contains(&".git".into()));
    assert!(!workspace.protect.contains(&".bashrc".into()), "only a home has start-up files");
}

#[test]
fn workspaces_that_cannot_be_one_are_refused() {
    let host = Host::new();
    let refusal = |path: &str| host.refusal(Policy { workspace: Some(path.into()), ..Default::default() });
    for (path, message) in [
        ("/", "workspace `/` is refused: it is the whole host"),
        ("/etc", "workspace `/etc` is refused: it is a system directory"),
        ("/usr/lib", "workspace `/usr/lib` is refused: it is a system directory"),
        ("/tmp", "workspace `/tmp` is refused: it is a system directory"),
        ("/proc/self", "is refused: it shows the host's processes"),
        ("/dev", "workspace `/dev` is refused: it holds the host's devices"),
        ("/sys", "workspace `/sys` is refused: it is the host kernel's own"),
        ("", "workspace `` is empty"),
        ("a\0b", "workspace `a\\0b` holds a NUL"),
        ("a\nb", "workspace `a\\nb` holds a newline"),
    ] {
        let found = refusal(path);
        assert!(found.contains(message), "{path:?}: {found}");
    }
    assert_eq!(refusal(&host.path("nope")), format!("workspace `{}` does not exist", host.path("nope")));
    assert_eq!(refusal(&host.path("file")), format!("workspace `{}` is not a directory", host.path("file")));
    assert!(refusal(&host.path("home")).contains("is refused: it holds Paddock's own state"));
    assert!(refusal(&host.path("home/state")).contains("is refused: it is Paddock's own state"));
    assert!(refusal(&host.path("file/x")).contains("cannot be used: Not a directory"));
}

#[test]
fn a_link_to_a_refused_place_is_refused() {
    let host = Host::new();
    std::os::unix::fs::symlink("/etc", host.path("innocent")).unwrap();
    let message = host.refusal(Policy { workspace: Some(host.path("innocent")), ..Default::default() });
    assert_eq!(message, "workspace `/etc` is refused: it is a system directory");
}

#[test]
fn a_home_protects_the_start_up_files() {
    let host = Host::new();
    let (state_dir, home) = (host.path("elsewhere"), host.path("home"));
    let surroundings = Surroundings {
        state_dir: Path::new(&state_dir),
        home: Some(Path::new(&home)),
        backends: paddock_backends::all,
    };
    let policy = Policy { workspace: Some(home.clone()), ..Default::default() };
    let workspace = resolve(&[policy], surroundings).unwrap().spec.workspace.unwrap();
    assert!(workspace.protect.contains(&".bashrc".into()));
    assert!(workspace.protect.contains(&".config".into()));
    assert!(!workspace.protect.contains(&".config/mise".into()), "named by .config already");
}

#[test]
fn the_layer_above_decides_what_is_protected() {
    let host = Host::new();
    let below = Policy {
        workspace: Some(host.path("project")),
        protect: strings(&["./docs/", "src/keys"]),
        unprotect: strings(&[".vscode"]),
        ..Default::default()
    };
    let above =
        Policy { protect: strings(&[".vscode"]), unprotect: strings(&["docs"]), ..Default::default() };
    let protect = host.resolve(&[below, above]).unwrap().spec.workspace.unwrap().protect;
    assert!(protect.contains(&".vscode".into()));
    assert!(protect.contains(&"src/keys".into()));
    assert!(!protect.contains(&"docs".into()));
}

#[test]
fn names_that_leave_the_workspace_are_refused() {
    let host = Host::new();
    let protect = |name: &str| host.refusal(Policy { protect: strings(&[name]), ..Default::default() });
    assert_eq!(protect("../x"), "protected name `../x` holds `..`");
    assert_eq!(protect("/x"), "protected name `/x` is absolute: write it relative to the workspace");
    assert!(protect(".").starts_with("protected name `.` is the workspace itself"));
    assert_eq!(protect("a\nb"), "protected name `a\\nb` holds a NUL or a newline");
    let unprotect = Policy { unprotect: strings(&["Makefile"]), ..Default::default() };
    assert_eq!(host.refusal(unprotect), "`Makefile` is not protected, so it cannot be unprotected");
    let both = Policy { protect: strings(&["a"]), unprotect: strings(&["a"]), ..Default::default() };
    assert_eq!(host.refusal(both), "`a` is to be protected and unprotected at once");
}

#[test]
fn mounts_take_a_target_or_stand_at_their_own_place() {
    let host = Host::new();
    let policy = Policy {
        read: vec![host.path("file"), format!("{}:/in//./x/", host.path("project"))],
        tmpfs: strings(&["/scratch"]),
        ..Default::default()
    };
    let mounts = host.resolve(&[policy]).unwrap().spec.mounts;
    assert_eq!(mounts[0].target, Path::new(&host.path("file")));
    assert_eq!(mounts[1].source.as_deref(), Some(Path::new(&host.path("project"))));
    assert_eq!(mounts[1].target, Path::new("/in/x"));
    assert_eq!(mounts[2].access, Access::Tmpfs);
}

#[test]
fn sources_that_lead_out_are_refused() {
    let host = Host::new();
    let _listener = std::os::unix::net::UnixListener::bind(host.path("docker.sock")).unwrap();
    let read = |path: &str| host.refusal(Policy { read: strings(&[path]), ..Default::default() });
    let write = |path: &str| host.refusal(Policy { write: strings(&[path]), ..Default::default() });
    assert!(read(&host.path("docker.sock")).ends_with("it is a socket, and leads out of the sandbox"));
    assert!(read("/proc:/p").ends_with("it shows the host's processes"));
    assert!(read("/dev/null:/n").ends_with("it holds the host's devices"));
    assert_eq!(read("/:/host"), "read path `/` is refused: it is the whole host");
    assert!(read(&host.path("home/state")).ends_with("it is Paddock's own state"));
    assert!(write(&host.path("home")).contains("it holds Paddock's own state"));
    assert!(write("/etc:/x").ends_with("it is a system directory"));
    assert_eq!(read(&host.path("nope")), format!("read path `{}` does not exist", host.path("nope")));
    let above_the_state = Policy { read: vec![host.path("home")], ..Default::default() };
    host.resolve(&[above_the_state]).unwrap();
}

#[test]
fn targets_that_break_the_sandbox_are_refused() {
    let host = Host::new();
    let tmpfs = |path: &str| host.refusal(Policy { tmpfs: strings(&[path]), ..Default::default() });
    for own in ["/", "/proc", "/proc/sys", "/sys/x", "//dev/./shm"] {
        assert!(tmpfs(own).ends_with("is refused: the sandbox has its own there"), "{own}");
    }
    assert_eq!(tmpfs("x"), "tmpfs `x` is not absolute: inside, a path begins with `/`");
    assert_eq!(tmpfs("/a/../b"), "tmpfs `/a/../b` holds `..`");
    assert_eq!(
        tmpfs(&format!("/{}", "x".repeat(5000))).len(),
        200 + "tmpfs `` is longer than 4095 bytes".len()
    );
    let docker_habit = Policy { read: vec![format!("{}:/x:ro", host.path("file"))], ..Default::default() };
    assert!(host.refusal(docker_habit).starts_with("target `ro` is not absolute"));
    let twice = Policy { tmpfs: strings(&["/a", "/a/"]), ..Default::default() };
    assert_eq!(host.refusal(twice), "`/a` is mounted twice");
    let over_the_workspace = Policy {
        workspace: Some(host.path("project")),
        tmpfs: strings(&["/workspace"]),
        ..Default::default()
    };
    assert_eq!(host.refusal(over_the_workspace), "`/workspace` is mounted twice");
    host.resolve(&[Policy { tmpfs: strings(&["/process", "/device"]), ..Default::default() }]).unwrap();
}

#[test]
fn names_are_refused_with_their_value() {
    let host = Host::new();
    let policy = Policy::default;
    for (policy, message) in [
        (Policy { backend: Some("warp".into()), ..policy() }, "backend `warp` is not known; known are "),
        (
            Policy { net: Some(NetSetting::Word("lan".into())), ..policy() },
            "network `lan` is not known; known are none and host, or rules",
        ),
        (Policy { hostname: Some("a b".into()), ..policy() }, "host name `a b` is not allowed"),
        (Policy { user: Some("a\nb".into()), ..policy() }, "user `a\\nb` is not allowed"),
        (
            Policy { require: strings(&["moat"]), ..policy() },
            "`moat` is not a guarantee; known are own-kernel",
        ),
        (Policy { cwd: Some("src".into()), ..policy() }, "working directory `src` is not absolute"),
        (Policy { image: Some("a b".into()), ..policy() }, "image `a b` is not a name"),
        (Policy { image: Some("/".into()), ..policy() }, "image `/` is refused: it is the whole host"),
        (Policy { env: [("A\nB".into(), "".into())].into(), ..policy() }, "environment variable `A\\nB`"),
        (
            Policy { env: [("A".into(), "\0".into())].into(), ..policy() },
            "the value of environment variable `A` holds a NUL",
        ),
    ] {
        let found = host.refusal(policy);
        assert!(found.starts_with(message), "{found}");
    }
}

#[test]
fn modules_to_preload_are_dotted_names() {
    let place = Host::new();
    let preload = |names: &[&str]| Policy { preload: strings(names), ..Default::default() };
    let both = [preload(&["numpy", "a.b_2"]), preload(&["numpy", "pandas"])];
    assert_eq!(place.resolve(&both).unwrap().preload, ["numpy", "a.b_2", "pandas"]);
    for bad in ["", "a.", ".a", "a b", "a;b", "2a", "a-b", "a\n", "é", &"a".repeat(201)] {
        let refusal = place.refusal(preload(&[bad]));
        assert!(refusal.contains("is not a Python module"), "{bad:?}: {refusal}");
    }
    let many: Vec<String> = (0..65).map(|n| format!("m{n}")).collect();
    let refusal = place.refusal(Policy { preload: many, ..Default::default() });
    assert_eq!(refusal, "65 modules are to be preloaded, and 64 are the most");
}

#[test]
fn a_root_that_installs_is_asked_for_and_never_together_with_live_forks() {
    let host = Host::new();
    let plain = host.resolve(&[]).unwrap().spec;
    assert!(!plain.root_may_install && plain.live_forks && plain.require.is_empty());
    let on = || Policy { root_may_install: Some(true), ..Policy::default() };
    let spec = host.resolve(&[on()]).unwrap().spec;
    assert!(spec.root_may_install && !spec.live_forks);
    assert_eq!(spec.require, [Requirement::RootMayInstall]);
    let sudo = Policy { become_root: Some(true), ..Policy::default() };
    let spec = host.resolve(&[sudo]).unwrap().spec;
    assert!(spec.become_root && !spec.root_may_install && !spec.live_forks && !plain.become_root);
    assert_eq!(spec.require, [Requirement::BecomeRoot]);
    let off = Policy { root_may_install: Some(false), ..Policy::default() };
    assert!(!host.resolve(&[on(), off]).unwrap().spec.root_may_install, "the layer above counts");
    for other in [
        Policy { live_forks: Some(true), ..on() },
        Policy { require: vec!["live-forks".into()], ..on() },
        Policy { live_forks: Some(true), become_root: Some(true), ..Policy::default() },
    ] {
        assert!(host.refusal(other).contains("exclude each other"));
    }
    assert!(host.resolve(&[Policy { live_forks: Some(false), ..on() }]).is_ok());
}
