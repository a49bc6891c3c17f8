//! Where the server listens: TCP addresses, and a unix socket that only its owner can reach.

use crate::peer::{Peer, Route};
use crate::tls::Tls;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

pub struct Listener {
    socket: Socket,
    pub(crate) tls: Option<Tls>,
}

enum Socket {
    Tcp(TcpListener),
    Unix { socket: UnixListener, _file: SocketFile },
}

#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    #[error("cannot listen on {address}")]
    Tcp { address: SocketAddr, source: io::Error },
    #[error("cannot listen on {path:?}: {reason}")]
    Refused { path: PathBuf, reason: String },
    #[error("cannot listen on {path:?}")]
    Unix { path: PathBuf, source: io::Error },
}

pub(crate) trait Io: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Io for T {}

impl Listener {
    pub async fn tcp(address: SocketAddr) -> Result<Listener, ListenError> {
        let socket =
            TcpListener::bind(address).await.map_err(|source| ListenError::Tcp { address, source })?;
        Ok(Listener { socket: Socket::Tcp(socket), tls: None })
    }

    /// Makes the directory of `path` if it is missing. Replaces only a socket at which no server answers.
    pub async fn unix(path: &Path) -> Result<Listener, ListenError> {
        let failed = |source| ListenError::Unix { path: path.into(), source };
        let refused = |reason| ListenError::Refused { path: path.into(), reason };
        let (Some(directory), Some(_)) = (path.parent(), path.file_name()) else {
            return Err(refused("it has no file name".into()));
        };
        let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
        let directory = std::path::absolute(directory).map_err(failed)?;
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&directory).map_err(failed)?;
        check_directory(&directory).map_err(refused)?;
        match remove_dead(path).await {
            Ok(None) => {}
            Ok(Some(reason)) => return Err(refused(reason)),
            Err(error) => return Err(failed(error)),
        }
        let socket = bind_private(path, &directory).map_err(failed)?;
        let inode = std::fs::symlink_metadata(path).map_err(failed)?.ino();
        let file = SocketFile { path: path.into(), inode };
        Ok(Listener { socket: Socket::Unix { socket, _file: file }, tls: None })
    }

    #[must_use]
    pub fn with_tls(mut self, tls: Tls) -> Listener {
        self.tls = Some(tls);
        self
    }

    /// The address, with the port that the kernel chose where 0 was asked for. None for a unix socket.
    pub fn tcp_address(&self) -> Option<SocketAddr> {
        match &self.socket {
            Socket::Tcp(socket) => socket.local_addr().ok(),
            Socket::Unix { .. } => None,
        }
    }

    /// The address as a URL.
    pub(crate) fn url(&self) -> Option<String> {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        self.tcp_address().map(|address| format!("{scheme}://{address}"))
    }

    /// The stream, its peer, and the peer's address.
    pub(crate) async fn accept(&self) -> io::Result<(Box<dyn Io>, Peer, Option<IpAddr>)> {
        let tls = self.tls.is_some();
        match &self.socket {
            Socket::Tcp(socket) => {
                let (stream, remote) = socket.accept().await?;
                let local = stream.local_addr()?;
                stream.set_nodelay(true)?;
                // A client whose computer is gone is noticed, also by streams that have nothing to send.
                rustix::net::sockopt::set_socket_keepalive(&stream, true)?;
                Ok((Box::new(stream), Peer { route: Route::Tcp { local }, tls }, Some(remote.ip())))
            }
            Socket::Unix { socket, .. } => {
                let (stream, _) = socket.accept().await?;
                let uid = stream.peer_cred()?.uid();
                let owner = uid == 0 || uid == rustix::process::geteuid().as_raw();
                Ok((Box::new(stream), Peer { route: Route::Unix { owner }, tls }, None))
            }
        }
    }
}

/// Removed with the listener, unless another server has put another there.
struct SocketFile {
    path: PathBuf,
    inode: u64,
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if std::fs::symlink_metadata(&self.path).is_ok_and(|now| now.ino() == self.inode) {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// No user but root and this one may be able to put another socket, or another directory, in its place.
fn check_directory(directory: &Path) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    for (distance, part) in directory.ancestors().enumerate() {
        let seen = std::fs::symlink_metadata(part).map_err(|error| format!("{part:?}: {error}"))?;
        if seen.uid() != own && seen.uid() != 0 {
            return Err(format!("{part:?} belongs to another user (id {})", seen.uid()));
        }
        if distance == 0 && !seen.is_dir() {
            return Err(format!("{part:?} is not a directory itself; links are not followed here"));
        }
        let others_write = seen.mode() & 0o022 != 0;
        if seen.is_dir() && others_write && seen.mode() & 0o1000 == 0 {
            return Err(format!("{part:?} can be written by others; chmod go-w it"));
        }
    }
    Ok(())
}

/// `Some` says why the existing file stays.
async fn remove_dead(path: &Path) -> io::Result<Option<String>> {
    let seen = match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        seen => seen?,
    };
    if !seen.file_type().is_socket() {
        return Ok(Some("something that is not a socket is there".into()));
    }
    if seen.uid() != rustix::process::geteuid().as_raw() {
        return Ok(Some(format!("a socket of another user (id {}) is there", seen.uid())));
    }
    match tokio::net::UnixStream::connect(path).await {
        Ok(_) => Ok(Some("another server answers there already".into())),
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)?;
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

/// The socket comes to be in a directory of its own and is moved when its mode is set: there is no moment in which
/// others could connect, and the process's umask is left alone.
fn bind_private(path: &Path, directory: &Path) -> io::Result<UnixListener> {
    let nursery = directory.join(format!(".paddock-{}", std::process::id()));
    std::fs::DirBuilder::new().mode(0o700).create(&nursery)?;
    let bound = (|| {
        let handle = rustix::fs::open(&nursery, OFlags::PATH | OFlags::CLOEXEC, Mode::empty())?;
        // By its descriptor, as a socket's path may have no more than 107 bytes.
        let inside = PathBuf::from(format!("/proc/self/fd/{}/s", handle.as_raw_fd()));
        let listener = UnixListener::bind(&inside)?;
        std::fs::set_permissions(&inside, std::fs::Permissions::from_mode(0o600))?;
        std::fs::rename(&inside, path)?;
        Ok(listener)
    })();
    let _ = std::fs::remove_file(nursery.join("s"));
    let _ = std::fs::remove_dir(&nursery);
    bound
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn private() -> tempfile::TempDir {
        tempfile::tempdir().expect("a directory")
    }

    async fn refusal(path: &Path) -> String {
        Listener::unix(path).await.err().expect("a refusal").to_string()
    }

    #[tokio::test]
    async fn only_the_owner_can_reach_the_socket() {
        let directory = private();
        let path = directory.path().join("deep/er/api.sock");
        let listener = Listener::unix(&path).await.expect("listens");
        assert_eq!(path.metadata().expect("there").mode() & 0o7777, 0o600);
        assert_eq!(path.parent().expect("above").metadata().expect("there").mode() & 0o777, 0o700);
        assert_eq!(std::fs::read_dir(path.parent().expect("above")).expect("read").count(), 1);
        assert!(refusal(&path).await.contains("another server answers"));
        drop(listener);
        assert!(!path.exists());
    }

    #[tokio::test]
    async fn a_dead_socket_is_replaced_and_nothing_else() {
        let directory = private();
        let path = directory.path().join("api.sock");
        drop(std::os::unix::net::UnixListener::bind(&path).expect("binds"));
        assert!(path.exists());
        Listener::unix(&path).await.expect("replaces a dead socket");
        std::fs::write(&path, "precious").expect("writes");
        assert!(refusal(&path).await.contains("not a socket"));
        assert_eq!(std::fs::read(&path).expect("reads"), b"precious");
        std::fs::remove_file(&path).expect("removes");
        symlink("/nowhere", &path).expect("links");
        assert!(refusal(&path).await.contains("not a socket"));
    }

    #[tokio::test]
    async fn a_directory_that_others_rule_is_refused() {
        let directory = private();
        let real = directory.path().join("real");
        std::fs::create_dir(&real).expect("makes");
        symlink(&real, directory.path().join("link")).expect("links");
        assert!(refusal(&directory.path().join("link/api.sock")).await.contains("not a directory itself"));
        std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o777)).expect("sets");
        assert!(refusal(&real.join("api.sock")).await.contains("written by others"));
        if rustix::process::geteuid().is_root() {
            std::fs::set_permissions(&real, std::fs::Permissions::from_mode(0o700)).expect("sets");
            std::os::unix::fs::chown(&real, Some(12345), None).expect("gives away");
            assert!(refusal(&real.join("api.sock")).await.contains("another user"));
        }
    }
}
