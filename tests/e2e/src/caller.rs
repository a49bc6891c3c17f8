//! The user that starts Paddock.

use crate::cgroups::Groups;
use crate::{FileSystem, Finished, Invocation, UserNamespace, executable};
use anyhow::{Context, Result};
use std::ffi::OsStr;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

/// The ordinary user's id when the tests run as root: one that no package makes.
pub const ORDINARY: u32 = 61234;

const PATH: &str = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin";

pub struct Caller {
    pub uid: u32,
    pub is_root: bool,
    /// Set when the tests run as another user.
    becomes: Option<u32>,
    /// The backend of all its sandboxes, if a test is about that.
    backend: Option<&'static str>,
    /// Where the state directory has a file system of its own.
    file_system: OnceLock<FileSystem>,
    /// Set if its programs run in a user namespace of their own.
    user_namespace: OnceLock<UserNamespace>,
    place: TempDir,
    groups: Option<Groups>,
}

impl Caller {
    pub fn root() -> Result<Caller> {
        Caller::new(0, None)
    }

    /// Its later runs and sandboxes have this backend.
    pub fn behind(self, backend: &'static str) -> Caller {
        Caller { backend: Some(backend), ..self }
    }

    /// Ourselves, unless we are root.
    pub fn ordinary() -> Result<Caller> {
        let own = rustix::process::geteuid();
        if own.is_root() { Caller::new(ORDINARY, Some(ORDINARY)) } else { Caller::new(own.as_raw(), None) }
    }

    fn new(uid: u32, becomes: Option<u32>) -> Result<Caller> {
        let place = tempfile::Builder::new().prefix("paddock-e2e-").tempdir()?;
        std::fs::set_permissions(place.path(), std::fs::Permissions::from_mode(0o755))?;
        let name = place.path().file_name().unwrap_or_default().to_string_lossy();
        let groups = if uid == 0 { Some(Groups::make(&name)?) } else { None };
        let (file_system, user_namespace) = (OnceLock::new(), OnceLock::new());
        let is_root = uid == 0;
        let caller =
            Caller { uid, is_root, becomes, backend: None, file_system, user_namespace, place, groups };
        caller.directory("home")?;
        Ok(caller)
    }

    /// A new directory that belongs to the caller.
    pub fn directory(&self, name: &str) -> Result<PathBuf> {
        let path = self.place.path().join(name);
        std::fs::create_dir(&path).with_context(|| path.display().to_string())?;
        self.own(&path)?;
        Ok(path)
    }

    /// A new file that belongs to the caller.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> Result<PathBuf> {
        let path = self.place.path().join(name);
        std::fs::write(&path, content).with_context(|| path.display().to_string())?;
        self.own(&path)?;
        Ok(path)
    }

    pub fn own(&self, path: &Path) -> Result<()> {
        if let Some(uid) = self.becomes {
            chown(path, Some(uid), Some(uid)).with_context(|| path.display().to_string())?;
        }
        Ok(())
    }

    /// A whole tree.
    pub fn own_all(&self, path: &Path) -> Result<()> {
        if let Some(uid) = self.becomes {
            std::os::unix::fs::lchown(path, Some(uid), Some(uid))?;
        }
        if path.symlink_metadata()?.is_dir() {
            for entry in std::fs::read_dir(path)? {
                self.own_all(&entry?.path())?;
            }
        }
        Ok(())
    }

    /// Where files of the test are; the caller may read it.
    pub fn place(&self) -> &Path {
        self.place.path()
    }

    pub fn home(&self) -> PathBuf {
        self.place.path().join("home")
    }

    /// Where this caller's sandboxes have their cgroups. Empty when the caller makes none, or they cannot be
    /// told from others'.
    pub fn cgroups(&self) -> &[PathBuf] {
        self.groups.as_ref().map_or(&[], Groups::directories)
    }

    /// Where Paddock keeps its state for this caller.
    pub fn state(&self) -> PathBuf {
        if self.is_root { self.home().join("state") } else { self.home().join(".local/state/paddock") }
    }

    /// From now on the state directory lies on a file system of that many mebibytes, which only this caller's
    /// programs see.
    ///
    /// Precondition: the tests run as root, and nothing of this caller's has been started.
    pub fn put_state_on_a_small_disk(&self, mebibytes: u64) -> Result<&FileSystem> {
        self.put_state_on("ext4", mebibytes)
    }

    /// The same on another kind of file system.
    pub fn put_state_on(&self, kind: &str, mebibytes: u64) -> Result<&FileSystem> {
        let state = self.state();
        std::fs::create_dir_all(&state)?;
        let home = self.home();
        for path in state.ancestors().take_while(|path| path.starts_with(&home)) {
            self.own(path)?;
        }
        let made = FileSystem::mount(&state, kind, mebibytes, self.uid)?;
        Ok(self.file_system.get_or_init(|| made))
    }

    /// After the last program of this caller's.
    pub fn let_go_of_the_disk(&self) {
        if let Some(file_system) = self.file_system.get() {
            file_system.end();
        }
    }

    /// From now on this caller's programs run in a user namespace of their own, with the ids that they have outside.
    ///
    /// Precondition: the tests run as root, this caller has no disk of its own, and nothing of it has been started.
    pub fn enter_a_user_namespace(&self) -> Result<&UserNamespace> {
        let made = UserNamespace::make()?;
        Ok(self.user_namespace.get_or_init(|| made))
    }

    /// A program outside, as this caller and with nothing of our environment.
    pub fn program(&self, program: impl AsRef<OsStr>) -> Command {
        if let Some(namespace) = self.user_namespace.get() {
            let mut command = self.dressed("/usr/bin/nsenter");
            command.uid(0).gid(0).arg(format!("--user={}", namespace.path())).arg("--preserve-credentials");
            let id = self.becomes.unwrap_or(self.uid);
            command.args(["setpriv", &format!("--reuid={id}"), &format!("--regid={id}"), "--clear-groups"]);
            command.arg(program);
            return command;
        }
        let Some(file_system) = self.file_system.get() else { return self.dressed(program) };
        let mut command = self.dressed("/usr/bin/nsenter");
        command.uid(0).gid(0).arg(format!("--mount={}", file_system.namespace()));
        command.arg("env").arg("--chdir").arg(self.home());
        if let Some(uid) = self.becomes {
            command.args(["setpriv", &format!("--reuid={uid}"), &format!("--regid={uid}"), "--clear-groups"]);
        }
        command.arg(program);
        command
    }

    fn dressed(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("HOME", self.home()).env("PATH", PATH).current_dir(self.home());
        if self.is_root {
            // An ordinary user's default is in the home directory already.
            command.env("PADDOCK_STATE_DIR", self.state());
        }
        // Only tests of VMs have a kernel: an installed one changes nothing for the others.
        let kernel = std::env::var_os("PADDOCK_TEST_KERNEL").filter(|_| self.backend == Some("microvm"));
        command.env("PADDOCK_KERNEL", kernel.unwrap_or_else(|| "/nowhere/vmlinuz".into()));
        // A try takes seconds, on a host whose processor cannot do it; the test of it asks.
        command.env("PADDOCK_KVM", "off");
        if let Some(uid) = self.becomes {
            command.uid(uid).gid(uid);
        }
        if let Some(groups) = &self.groups {
            groups.enter(&mut command);
        }
        command
    }

    /// A shell outside, as this caller, in a directory.
    pub fn shell(&self, directory: &Path, script: &str) -> Result<Finished> {
        let mut command = self.program("/bin/sh");
        command.args(["-c", script]).current_dir(directory);
        Invocation::new(command).finish()
    }

    pub fn executable(&self) -> Result<&'static Path> {
        executable::path()
    }

    pub fn paddock<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<Invocation> {
        let mut command = self.program(self.executable()?);
        let mut named = false;
        for argument in arguments {
            command.arg(&argument);
            let makes_one = ["run", "create"].iter().any(|verb| argument.as_ref() == *verb);
            if let Some(backend) = self.backend.filter(|_| makes_one && !named) {
                command.args(["--backend", backend]);
            }
            named = true;
        }
        Ok(Invocation::new(command))
    }

    /// `paddock run` with options and a command, to its end.
    pub fn run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<Finished> {
        self.start_run(arguments)?.finish()
    }

    pub fn start_run<A: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<Invocation> {
        let mut invocation = self.paddock(["run"])?;
        invocation.command().args(arguments);
        Ok(invocation)
    }

    /// `paddock run [options] -- sh -c SCRIPT`, to its end.
    pub fn script(&self, options: &[&str], script: &str) -> Result<Finished> {
        self.run(options.iter().chain(&["--", "sh", "-c", script]))
    }
}
