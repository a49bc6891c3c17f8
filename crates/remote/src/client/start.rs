//! The user's own server: the first command that needs it starts it, all commands share it, and it ends by itself when
//! idle.

use paddock_client::{ClientError, NotStarted, Revive, short_path};
use paddock_records::store::{ServerHolder, ServerPhase};
use paddock_terminal::env_vars;
use rustix::process::geteuid;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A first start may have to make the storage, and a server before it may have to end.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// A server that serves and is not found at the socket within this time listens elsewhere.
const ELSEWHERE: Duration = Duration::from_secs(5);
const STEP: Duration = Duration::from_millis(10);
const IDLE_EXIT: &str = "300";
/// How much of a failed server's log is shown.
const SHOWN: u64 = 2000;

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("directory `{}` for the server's socket cannot be used", .path.display())]
    Directory { path: PathBuf, source: io::Error },
    #[error("directory `{}` for the server's socket is not this user's own", .0.display())]
    Foreign(PathBuf),
    #[error("this user may not use the server's socket `{}`", .socket.display())]
    Denied { socket: PathBuf, source: io::Error },
    #[error("the server's log `{}` cannot be written", .path.display())]
    Log { path: PathBuf, source: io::Error },
    #[error("the server could not be started")]
    Spawn(#[source] io::Error),
    #[error("the server ended at once ({status}): {said}")]
    Ended { status: String, said: String, log: PathBuf },
    #[error("the server did not become ready within 60 seconds")]
    NotReady { log: PathBuf },
    #[error("the server of this state directory{} does not listen on `{}`", process_of(.holder), .socket.display())]
    Elsewhere { socket: PathBuf, holder: ServerHolder },
}

fn process_of(holder: &ServerHolder) -> String {
    holder.process.map(|process| format!(" (process {process})")).unwrap_or_default()
}

impl StartError {
    pub fn hint(&self) -> Option<String> {
        match self {
            StartError::Ended { log, .. } | StartError::NotReady { log } => {
                Some(format!("its log is {}", log.display()))
            }
            StartError::Denied { .. } => Some(format!(
                "another user started that server: it alone may ask it; name another with {} or {}",
                env_vars::PADDOCK_URL,
                env_vars::PADDOCK_STATE_DIR
            )),
            StartError::Foreign(_) | StartError::Directory { .. } => {
                Some(format!("remove it, or name a server with {}", env_vars::PADDOCK_URL))
            }
            StartError::Elsewhere { holder, .. } => Some(match holder.addresses.first() {
                Some(address) => format!("set {}={address}", env_vars::PADDOCK_URL),
                None => format!("name its address with {}", env_vars::PADDOCK_URL),
            }),
            _ => None,
        }
    }
}

pub fn not_started(error: StartError) -> ClientError {
    failure(error).into()
}

fn failure(error: StartError) -> NotStarted {
    let hint = error.hint();
    NotStarted::new(error, hint)
}

impl Revive for Starter {
    fn ensure(&self) -> Result<(), NotStarted> {
        Starter::ensure(self).map_err(failure)
    }
}

#[derive(Debug, Clone)]
pub struct Starter {
    socket: PathBuf,
    state_dir: PathBuf,
}

impl Starter {
    pub fn new(socket: PathBuf, state_dir: PathBuf) -> Starter {
        Starter { socket, state_dir }
    }

    /// Returns when a server answers at the socket.
    pub fn ensure(&self) -> Result<(), StartError> {
        match connect(&self.socket) {
            Ok(_) => return Ok(()),
            // However long one waits.
            Err(source) if source.kind() == io::ErrorKind::PermissionDenied => {
                return Err(StartError::Denied { socket: self.socket.clone(), source });
            }
            Err(_) => {}
        }
        let directory = self.socket.parent().unwrap_or(Path::new("/"));
        prepare(directory)?;
        // Held until the server is ready, so that no other command starts a second one meanwhile.
        let _lock = lock(&self.socket)
            .map_err(|source| StartError::Directory { path: directory.to_path_buf(), source })?;
        self.wait_or_start()
    }

    /// A server that has the state directory already is waited for: it starts just now, or a person started it.
    fn wait_or_start(&self) -> Result<(), StartError> {
        let log = self.state_dir.join("serve.log");
        let began = Instant::now();
        let mut serving_since = None;
        let mut started: Option<(Child, u64)> = None;
        while !self.answers() {
            let holder = ServerHolder::of(&self.state_dir);
            if let Some((child, begin)) = &mut started
                && let Ok(Some(status)) = child.try_wait()
            {
                if holder.is_none() && !self.answers() {
                    let said = tail(&log, *begin);
                    return Err(StartError::Ended { status: status.to_string(), said, log });
                }
                // Another server was quicker.
                started = None;
            }
            match holder {
                // A server that ends needs a successor, which waits for it.
                None | Some(ServerHolder { phase: Some(ServerPhase::Ending), .. }) => {
                    serving_since = None;
                    if started.is_none() {
                        started = Some(self.spawn(&log)?);
                    }
                }
                Some(ServerHolder { phase: Some(ServerPhase::Starting), .. }) => serving_since = None,
                Some(holder) => {
                    let since = *serving_since.get_or_insert_with(Instant::now);
                    if since.elapsed() > ELSEWHERE {
                        return Err(StartError::Elsewhere { socket: self.socket.clone(), holder });
                    }
                }
            }
            if began.elapsed() > START_TIMEOUT {
                return Err(StartError::NotReady { log });
            }
            std::thread::sleep(STEP);
        }
        if let Some((child, _)) = started {
            self.dismiss_unless_it_serves(child);
        }
        Ok(())
    }

    /// Another server was quicker: a second one that waits for its turn would serve at an unexpected time.
    fn dismiss_unless_it_serves(&self, mut child: Child) {
        let serving = ServerHolder::of(&self.state_dir).and_then(|holder| holder.process);
        let Some(process) = rustix::process::Pid::from_raw(child.id().cast_signed()) else { return };
        if serving.is_some_and(|serving| serving != child.id()) {
            let _ = rustix::process::kill_process(process, rustix::process::Signal::TERM);
            let _ = child.wait();
        }
    }

    /// In a session of its own: neither our terminal nor our end is its.
    fn spawn(&self, log: &Path) -> Result<(Child, u64), StartError> {
        let failed = |source| StartError::Log { path: log.to_path_buf(), source };
        let file = OpenOptions::new().append(true).create(true).mode(0o600).open(log).map_err(failed)?;
        let begin = file.metadata().map_err(failed)?.len();
        let executable = std::env::current_exe().map_err(StartError::Spawn)?;
        let mut command = Command::new(executable);
        command
            .args(["serve", "--idle-exit", IDLE_EXIT, "--socket"])
            .arg(&self.socket)
            .env(env_vars::PADDOCK_STATE_DIR, &self.state_dir)
            .env_remove(env_vars::PADDOCK_URL)
            .env_remove(env_vars::PADDOCK_TOKEN)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(file.try_clone().map_err(failed)?)
            .stderr(file);
        // SAFETY: one system call, which is safe between fork and exec.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                Ok(())
            });
        }
        Ok((command.spawn().map_err(StartError::Spawn)?, begin))
    }

    /// A server that starts has its socket already, and answers when it has taken over its sandboxes.
    fn answers(&self) -> bool {
        let asked = || -> io::Result<bool> {
            let mut stream = connect(&self.socket)?;
            stream.set_read_timeout(Some(START_TIMEOUT))?;
            stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")?;
            let mut head = [0; 12];
            stream.read_exact(&mut head)?;
            Ok(&head == b"HTTP/1.1 200")
        };
        asked().unwrap_or(false)
    }
}

fn connect(socket: &Path) -> io::Result<UnixStream> {
    let (path, _held) = short_path(socket)?;
    UnixStream::connect(path)
}

/// Only this user may place anything where the socket is.
fn prepare(directory: &Path) -> Result<(), StartError> {
    let failed = |source| StartError::Directory { path: directory.to_path_buf(), source };
    DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(failed)?;
    let found = std::fs::symlink_metadata(directory).map_err(failed)?;
    let own = found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0;
    if own { Ok(()) } else { Err(StartError::Foreign(directory.to_path_buf())) }
}

fn lock(socket: &Path) -> io::Result<File> {
    let mut path = socket.as_os_str().to_os_string();
    path.push(".lock");
    let file = OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(path)?;
    file.lock()?;
    Ok(file)
}

/// Why a server that was started just now ended, by its log.
fn tail(log: &Path, begin: u64) -> String {
    let read = || -> io::Result<String> {
        let mut file = File::open(log)?;
        let end = file.metadata()?.len();
        file.seek(SeekFrom::Start(begin.max(end.saturating_sub(SHOWN))))?;
        let mut bytes = Vec::new();
        file.take(SHOWN).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).trim().to_string())
    };
    // One line for a message of one line: the first line that it called an error, else its last line.
    let text = read().unwrap_or_default();
    let mut lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    let wanted = lines.clone().find(|line| line.starts_with("error: ")).or(lines.next_back());
    wanted.map_or("it said nothing", |line| line.strip_prefix("error: ").unwrap_or(line)).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_directory_that_others_can_write_or_replace_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let shared = parent.path().join("shared");
        std::fs::create_dir(&shared).unwrap();
        std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(matches!(prepare(&shared), Err(StartError::Foreign(_))));
        std::os::unix::fs::symlink(&shared, parent.path().join("link")).unwrap();
        assert!(matches!(prepare(&parent.path().join("link")), Err(StartError::Foreign(_))));
        let own = parent.path().join("a/own");
        prepare(&own).unwrap();
        assert_eq!(std::fs::metadata(own).unwrap().mode() & 0o777, 0o700);
    }

    #[test]
    fn the_log_is_quoted_from_where_this_start_began() {
        let log = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(log.path(), "old\nnew failure\n").unwrap();
        assert_eq!(tail(log.path(), 4), "new failure");
        assert_eq!(tail(log.path(), 16), "it said nothing");
        let said = "INFO begins\nerror: the storage is damaged\n  caused by: x\nhint: move it\n";
        std::fs::write(log.path(), said).unwrap();
        assert_eq!(tail(log.path(), 0), "the storage is damaged");
    }
}
