//! The host's side of the attacks: canaries to find, sockets to reach, a process to signal. All of it lives in
//! one temporary directory, and goes with the value.

use crate::error::VerifyError;
use crate::fence::{Engine, Fence, Identity, ORDINARY_UID, as_caller, finish, start};
use anyhow::{Context, Result, ensure};
use paddock_model::Availability;
use rustix::fs::XattrFlags;
use std::collections::BTreeMap;
use std::fs::{self, File, Permissions};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::{Mutex, PoisonError};

pub const VICTIM_NAME: &str = "pdk-victim";
const CANARY_TEXT: &str = "canary-7c1f-do-not-read";

/// Files that attacks try to make; none may ever be on the host.
const MARKS: [&str; 6] = [
    "/etc/paddock-probe-mark",
    "/usr/paddock-probe-mark",
    "/usr/bin/paddock-probe-mark",
    "/bin/paddock-probe-mark",
    "/lib/paddock-probe-mark",
    "/paddock-probe-mark",
];

/// Protected names that are not in the workspace: neither made from inside, nor left by the fence as stand-ins.
pub const PROTECTED_AND_ABSENT: [&str; 12] = [
    ".git/hooks",
    "later",
    ".envrc",
    ".vscode",
    ".codex",
    "refs",
    ".mcp.json",
    ".npmrc",
    ".cursor",
    "tools/hooks",
    "included-settings",
    "opencode.json",
];

/// So that a directory and a file have to be held that no list names.
const SETTINGS_OF_GIT: &str = "[core]\n\thooksPath = tools/hooks\n[include]\n\tpath = ../included-settings\n";

/// Files that every sandbox without an image has of the host.
pub const USED_BY_ALL: [&str; 3] = ["/usr/bin/env", "/etc/ld.so.cache", "/usr/bin/sh"];
/// Devices that every sandbox has.
pub const DEVICES_OF_ALL: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

pub struct Host {
    pub as_root: bool,
    pub secret: String,
    /// For the executable under test, beside every caller's variables.
    pub environment: Vec<(String, String)>,
    pub folder: tempfile::TempDir,
    binary: PathBuf,
    facts: BTreeMap<&'static str, String>,
    canaries: Vec<PathBuf>,
    marks: Vec<PathBuf>,
    victim: Child,
    sandboxes: Mutex<Vec<String>>,
    _listeners: (Vec<TcpListener>, Vec<UnixListener>),
    _private: tempfile::TempDir,
    _usage: Usage,
}

/// Locks on files and devices that all have, and a thread that opens them as long as this lives.
struct Usage {
    _locks: Vec<File>,
    over: Option<std::sync::mpsc::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Usage {
    fn begin() -> Usage {
        let all = || USED_BY_ALL.iter().chain(&DEVICES_OF_ALL);
        let files = all().filter_map(|path| File::open(path).ok());
        // If another run of the suite holds one, that does as well.
        let try_lock = |file: &File| {
            let _ = rustix::fs::flock(file, rustix::fs::FlockOperation::NonBlockingLockExclusive);
        };
        let locks: Vec<File> = files.inspect(try_lock).collect();
        let (over, ended) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            let pause = std::time::Duration::from_millis(20);
            while ended.recv_timeout(pause) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
                for path in all() {
                    drop(File::open(path));
                }
            }
        });
        Usage { _locks: locks, over: Some(over), thread: Some(thread) }
    }
}

impl Drop for Usage {
    fn drop(&mut self) {
        drop(self.over.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Host {
    pub fn prepare(executable: &Path, environment: &[(String, String)]) -> Result<Host> {
        let as_root = rustix::process::geteuid().is_root();
        let folder = tempfile::Builder::new().prefix("paddock-verify-").tempdir()?;
        open_to_all(folder.path(), 0o755)?;
        let at = |name: &str| folder.path().join(name);
        let token = folder.path().file_name().unwrap_or_default().to_string_lossy().into_owned();

        let private_parent = if as_root { PathBuf::from("/root") } else { std::env::temp_dir() };
        let private = tempfile::Builder::new().prefix(".paddock-canary-").tempdir_in(private_parent)?;
        let mut canaries = vec![private.path().join("secret"), at("public-canary")];
        for place in ["/tmp", "/var/tmp", "/dev/shm"] {
            canaries.push(Path::new(place).join(format!("{token}-mark")));
        }
        for canary in &canaries {
            fs::write(canary, format!("{CANARY_TEXT}\n")).with_context(|| format!("{}", canary.display()))?;
        }

        let first = TcpListener::bind("127.0.0.1:0")?;
        let tcp_port = first.local_addr()?.port();
        let mut listeners = vec![first];
        for address in ["127.0.0.2", "::1"] {
            listeners.extend(TcpListener::bind((address, tcp_port)).ok());
        }
        let path_socket = UnixListener::bind(at("socket"))?;
        open_to_all(&at("socket"), 0o777)?;
        let abstract_socket = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&token)?)?;

        fs::copy("/bin/sleep", at(VICTIM_NAME))?;
        // Longer than any run of the suite: it is to die of an attack only.
        let victim = Command::new(at(VICTIM_NAME)).arg("36000").spawn()?;
        let binary = copies(executable, &at("bin"), as_root)?;

        let line = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().replace('\n', "|");
        let shown = |path: &Path| path.display().to_string();
        let secret = format!("secret-{token}");
        let facts = BTreeMap::from([
            ("canary_text", CANARY_TEXT.to_string()),
            ("canary_private", shown(&canaries[0])),
            ("canary_public", shown(&canaries[1])),
            ("mark_tmp", shown(&canaries[2])),
            ("mark_var_tmp", shown(&canaries[3])),
            ("mark_shm", shown(&canaries[4])),
            ("home_mark", "of-the-caller".to_string()),
            ("unix_path", shown(&at("socket"))),
            ("abstract_name", token.clone()),
            ("tcp_port", tcp_port.to_string()),
            ("victim_pid", victim.id().to_string()),
            ("victim_name", VICTIM_NAME.to_string()),
            ("hostname", line("/proc/sys/kernel/hostname")),
            ("machine_id", line("/etc/machine-id")),
            ("boot_id", line("/proc/sys/kernel/random/boot_id")),
            ("resolv_conf", line("/etc/resolv.conf")),
            ("uptime", line("/proc/uptime")),
            ("cmdline", line("/proc/cmdline")),
            ("disk", root_disk()),
            ("segment", segment()?.to_string()),
            ("cgroups", own_cgroups()),
            ("secret", secret.clone()),
        ]);
        Ok(Host {
            as_root,
            secret,
            environment: environment.to_vec(),
            binary,
            facts,
            canaries,
            marks: MARKS.iter().map(PathBuf::from).collect(),
            victim,
            sandboxes: Mutex::new(Vec::new()),
            _listeners: (listeners, vec![path_socket, abstract_socket]),
            _private: private,
            _usage: Usage::begin(),
            folder,
        })
    }

    /// Directories of its own for one backend and identity, with everything planted that attacks look for.
    pub fn fence(&mut self, backend: &str, identity: Identity) -> Result<Fence> {
        let folder = self.folder.path().join(format!("{backend}-{}-{}", identity.engine, identity.user));
        let owner = (self.as_root && identity.engine == Engine::Rootless).then_some(ORDINARY_UID);
        let places = self.plant(&folder, owner)?;
        let told = [
            ("place", "inside"),
            ("workspace", "/workspace"),
            ("readonly", "/readonly/file"),
            ("scratch", "/tmp"),
        ];
        self.write_facts(&places, &told)?;
        self.canaries.extend([
            places.workspace.join(".git/config"),
            places.workspace.join("deep/area/keys"),
            places.readonly.join("file"),
        ]);
        self.marks.push(places.home.join("paddock-probe-mark"));
        self.marks.extend(PROTECTED_AND_ABSENT.iter().map(|name| places.workspace.join(name)));
        let Places { inside, readonly, workspace, home } = places;
        Ok(Fence {
            backend: backend.to_string(),
            identity,
            binary: self.binary.clone(),
            inside,
            readonly,
            workspace,
            home,
        })
    }

    /// The same for the controls; returns the directory with the probe.
    pub fn outside(&self) -> Result<PathBuf> {
        let folder = self.folder.path().join("outside");
        let places = self.plant(&folder, None)?;
        let scratch = folder.join("scratch");
        fs::create_dir(&scratch)?;
        let shown = |path: PathBuf| path.display().to_string();
        let (workspace, readonly) = (shown(places.workspace.clone()), shown(places.readonly.join("file")));
        let told = [
            ("place", "outside"),
            ("workspace", &workspace),
            ("readonly", &readonly),
            ("scratch", &shown(scratch)),
        ];
        self.write_facts(&places, &told)?;
        Ok(places.inside)
    }

    fn write_facts(&self, places: &Places, told: &[(&str, &str)]) -> Result<()> {
        let home = places.home.display().to_string();
        let mut text = format!("home={home}\nhost_paths={home}:upper:{}\n", self.binary.display());
        for (key, value) in self.facts.iter().map(|(k, v)| (*k, v.as_str())).chain(told.iter().copied()) {
            text.push_str(&format!("{key}={value}\n"));
        }
        Ok(fs::write(places.inside.join("facts"), text)?)
    }

    fn plant(&self, folder: &Path, owner: Option<u32>) -> Result<Places> {
        let at = |name: &str| folder.join(name);
        let places = Places {
            inside: at("inside"),
            readonly: at("readonly"),
            workspace: at("workspace"),
            home: at("home"),
        };
        for made in [
            "inside",
            "readonly",
            "workspace/.git",
            "workspace/deep/area",
            "workspace/below",
            "home/run",
            "home/state",
        ] {
            fs::create_dir_all(at(made))?;
        }
        for file in
            ["workspace/below/.mcp.json", "workspace/deep/area/keys", "readonly/file", "home/of-the-caller"]
        {
            fs::write(at(file), "as it was\n")?;
        }
        fs::write(at("workspace/.git/config"), SETTINGS_OF_GIT)?;
        // Open to every user, so that only the fence can refuse.
        for (file, mode) in [("readonly", 0o777), ("readonly/file", 0o666)] {
            open_to_all(&at(file), mode)?;
        }
        own_all(folder, owner)?;
        // A second name of one file: a copy for each fence would fill a small /tmp.
        fs::hard_link(&self.binary, at("inside/probe"))?;
        if self.as_root {
            self.plant_as_root(&at("workspace"))?;
        }
        Ok(places)
    }

    fn plant_as_root(&self, workspace: &Path) -> Result<()> {
        for name in [SETUID, CAPABLE] {
            fs::hard_link(self.binary.with_file_name(name), workspace.join(name))?;
        }
        let node = workspace.join("zero-node");
        let device = rustix::fs::makedev(1, 5);
        let mode = rustix::fs::Mode::from_raw_mode(0o666);
        rustix::fs::mknodat(rustix::fs::CWD, &node, rustix::fs::FileType::CharacterDevice, mode, device)?;
        open_to_all(&node, 0o666)
    }

    /// A sandbox that the suite started, for the sweep to look for.
    pub fn remember(&self, sandbox: &str) {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner).push(sandbox.to_string());
    }

    pub fn sandboxes(&self) -> Vec<String> {
        self.sandboxes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn executable(&self) -> &Path {
        &self.binary
    }

    /// A home directory for a caller of that engine.
    pub fn home(&self, name: &str, engine: Engine) -> Result<PathBuf> {
        let home = self.folder.path().join(name);
        fs::create_dir_all(home.join("run"))?;
        own_all(&home, (self.as_root && engine == Engine::Rootless).then_some(ORDINARY_UID))?;
        Ok(home)
    }

    /// The report of the executable under test about this host's backends, made by that engine.
    pub fn backends(&self, engine: Engine) -> Result<Vec<Availability>> {
        let home = self.home(&format!("home-of-{engine}"), engine)?;
        let mut command = Command::new(&self.binary);
        as_caller(&mut command, engine, self.as_root, &home);
        command.args(["doctor", "--json"]);
        let run = finish(start(command)?)?;
        serde_json::from_str(&run.stdout).with_context(|| format!("`doctor` said {:?}", run.stderr.trim()))
    }

    /// Content and ownership of every canary; two of these are compared.
    pub fn canary_hashes(&self) -> Result<BTreeMap<PathBuf, u64>> {
        let hash = |path: &PathBuf| -> Result<(PathBuf, u64)> {
            let data = fs::metadata(path).with_context(|| format!("canary {}", path.display()))?;
            let mut hasher = DefaultHasher::new();
            (data.mode(), data.uid(), data.gid(), data.ino(), data.mtime_nsec()).hash(&mut hasher);
            fs::read(path)?.hash(&mut hasher);
            Ok((path.clone(), hasher.finish()))
        };
        self.canaries.iter().map(hash).collect()
    }

    /// Checks that no file which an attack tried to make is there, and that the victim lives.
    pub fn unharmed(&mut self) -> Result<()> {
        let made: Vec<_> = self.marks.iter().filter(|mark| mark.symlink_metadata().is_ok()).collect();
        ensure!(made.is_empty(), "made on the host from inside: {made:?}");
        ensure!(self.victim.try_wait()?.is_none(), "the victim process is dead");
        Ok(())
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // The other canaries go with their directories; an end that is already there is fine.
        for canary in self.canaries.iter().skip(2).take(3) {
            let _ = fs::remove_file(canary);
        }
        let _ = self.victim.kill();
        let _ = self.victim.wait();
    }
}

/// A program that runs as its owner, and one that has a capability, if the fence lets a file have either.
const SETUID: &str = "setuid-probe";
const CAPABLE: &str = "fscaps-probe";

/// The executable under test, where an ordinary user can run it; as root also the two with privileges.
fn copies(executable: &Path, to: &Path, as_root: bool) -> Result<PathBuf> {
    let missing = |source| VerifyError::Executable { path: executable.to_path_buf(), source };
    fs::create_dir(to)?;
    let binary = to.join("paddock");
    fs::copy(executable, &binary).map_err(missing)?;
    open_to_all(&binary, 0o755)?;
    if as_root {
        let (setuid, capable) = (to.join(SETUID), to.join(CAPABLE));
        fs::copy(executable, &setuid)?;
        open_to_all(&setuid, 0o4755)?;
        fs::copy(executable, &capable)?;
        open_to_all(&capable, 0o755)?;
        // Version 2 of the attribute, effective, CAP_NET_RAW.
        let mut attribute = [0u8; 20];
        attribute[..4].copy_from_slice(&0x0200_0001u32.to_le_bytes());
        attribute[4..8].copy_from_slice(&(1u32 << 13).to_le_bytes());
        rustix::fs::setxattr(&capable, "security.capability", &attribute, XattrFlags::empty())?;
    }
    open_to_all(to, 0o755)?;
    Ok(binary)
}

struct Places {
    inside: PathBuf,
    readonly: PathBuf,
    workspace: PathBuf,
    home: PathBuf,
}

fn open_to_all(path: &Path, mode: u32) -> Result<()> {
    Ok(fs::set_permissions(path, Permissions::from_mode(mode))?)
}

fn own_all(path: &Path, owner: Option<u32>) -> Result<()> {
    if let Some(uid) = owner {
        std::os::unix::fs::lchown(path, Some(uid), Some(uid))?;
    }
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            own_all(&entry?.path(), owner)?;
        }
    }
    Ok(())
}

/// A System V segment with the canary's text, open to everyone. It is attached here and marked for removal at once, so
/// that it goes with this process however that ends.
fn segment() -> Result<i32> {
    // SAFETY: a new segment of one page, attached, written within its size, and marked.
    unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, 4096, libc::IPC_CREAT | 0o666);
        ensure!(id >= 0, "shmget: {}", std::io::Error::last_os_error());
        let at = libc::shmat(id, std::ptr::null(), 0);
        libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
        ensure!(at as isize != -1, "shmat: {}", std::io::Error::last_os_error());
        at.cast::<u8>().copy_from_nonoverlapping(CANARY_TEXT.as_ptr(), CANARY_TEXT.len());
        Ok(id)
    }
}

/// Where this process is in each tree, the roots left out.
fn own_cgroups() -> String {
    let table = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let paths = table.lines().filter_map(|line| line.splitn(3, ':').nth(2)).filter(|path| path.len() > 1);
    paths.collect::<Vec<_>>().join("|")
}

/// The block device below `/`, to be opened for reading and nothing else.
fn root_disk() -> String {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let below_root = |line: &&str| line.split(' ').nth(1) == Some("/") && line.starts_with("/dev/");
    let device = mounts.lines().find(below_root).and_then(|line| line.split(' ').next());
    let there = device.filter(|path| File::open(path).is_ok());
    there.unwrap_or("/dev/vda").to_string()
}
