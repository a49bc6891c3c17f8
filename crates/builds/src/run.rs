//! A step in a sandbox of its own, and its changes as a root. The sandbox is fenced as any other, except for the rights
//! over its own files and ids that the installation of packages needs.

use super::copied::Copied;
use super::error::{BuildError, StepFailure};
use super::fetch::{LENT, Lent};
use super::step::Argv;
use paddock_engine::certificates::Trust;
use paddock_engine::{Command, Download, Engine, ExecEvent, FileError, FileErrorKind, Sandbox};
use paddock_images::built::{self, Written};
use paddock_images::digest::Digest;
use paddock_images::share::Sharing;
use paddock_images::{ImageStore, job};
use paddock_model::{Access, Captured, Limits, Mount, Network, Root, Spec, User};
use paddock_protocol::ExitKind;
use paddock_records::capture::Capture;
use paddock_settings::{default_environment, network_environment};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use tokio::io::AsyncWriteExt;

/// The most bytes that are kept of a step's output, for the case that it fails.
const OUTPUT: u64 = 64 << 10;

/// The events of a build, for people.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    Step { number: usize, total: usize, what: &'a str },
    Note { text: &'a str },
    Output { bytes: &'a [u8] },
    Done { number: usize, total: usize, what: &'a str, cached: bool, milliseconds: u64, bytes: u64 },
}

pub trait Watcher: Send + Sync {
    fn event(&self, event: Event<'_>);
}

/// The surroundings of every step: engine, image store, limits and watcher.
pub struct Ground<'a> {
    pub engine: &'a Engine,
    pub store: &'a ImageStore,
    pub limits: &'a Limits,
    pub watcher: &'a dyn Watcher,
    /// The network of steps that fetch.
    pub network: &'a Network,
    pub state: &'a Path,
}

/// The work of one sandbox: its root, its programs and their surroundings.
pub struct Work<'a> {
    pub root: Root,
    pub programs: Vec<Argv>,
    pub env: &'a BTreeMap<String, String>,
    /// With loans, the step has the network of steps that fetch.
    pub lent: Option<&'a Lent>,
    /// Empty file systems in memory; nothing in them is kept.
    pub scratch: &'a [&'a str],
    pub copied: Option<Copied>,
    pub user: User,
    pub cwd: &'a str,
}

/// Why a step failed, with its output.
pub enum Failed {
    Step(StepFailure, Box<Captured>),
    Build(BuildError),
}

impl<T: Into<BuildError>> From<T> for Failed {
    fn from(error: T) -> Failed {
        Failed::Build(error.into())
    }
}

/// A sandbox in which the work has been done, and nothing runs any more.
pub struct Finished {
    sandbox: Sandbox,
}

impl Ground<'_> {
    pub async fn perform(&self, work: Work<'_>) -> Result<Finished, Failed> {
        let mut sandbox = self.engine.create(None, &self.spec(&work))?;
        sandbox.ready().await?;
        self.open_gate(&sandbox, &work).await?;
        if let Some(copied) = work.copied {
            put(&sandbox, copied).await?;
        }
        let mut env = default_environment();
        env.extend(work.env.clone());
        env.extend(work.lent.map(|lent| lent.env.clone()).unwrap_or_default());
        env.insert("DEBIAN_FRONTEND".into(), "noninteractive".into());
        if work.lent.is_some() {
            env.extend(network_environment(self.network));
        }
        // The guest knows the home of every other user.
        if matches!(work.user, User::Installer | User::Root) {
            env.entry("HOME".into()).or_insert_with(|| "/root".into());
        }
        let mut output = Capture::new(OUTPUT);
        let time = self.limits.timeout;
        let all = async {
            for argv in work.programs {
                if let Some(why) =
                    self.program(&sandbox, argv, &env, (&work.user, work.cwd), &mut output).await?
                {
                    return Ok(Some(why));
                }
            }
            Ok::<_, BuildError>(None)
        };
        let why = match time {
            Some(time) => match tokio::time::timeout(time, all).await {
                Ok(why) => why?,
                Err(_) => Some(StepFailure::TimedOut(time)),
            },
            None => all.await?,
        };
        if let Some(mut why) = why {
            let killed =
                matches!(why, StepFailure::Signalled(9) | StepFailure::Exited(_) | StepFailure::Lost(_));
            let work = sandbox.stop().await;
            if sandbox.end(work)?.out_of_memory && killed {
                why = StepFailure::OutOfMemory;
            }
            return Err(Failed::Step(why, Box::new(output.finish())));
        }
        // Background processes of the step must not write while its files are read.
        sandbox.end_work().await?;
        Ok(Finished { sandbox })
    }

    fn spec(&self, work: &Work<'_>) -> Spec {
        let lent = work.lent.map(|lent| Mount {
            access: Access::Read,
            source: Some(lent.directory.clone()),
            target: PathBuf::from(LENT),
        });
        let scratch = work.scratch.iter().map(|target| Mount {
            access: Access::Tmpfs,
            source: None,
            target: PathBuf::from(target),
        });
        Spec {
            root: work.root.clone(),
            workspace: None,
            mounts: lent.into_iter().chain(scratch).collect(),
            limits: self.limits.clone(),
            disk: Default::default(),
            network: if work.lent.is_some() { self.network.clone() } else { Network::None },
            // The rights are the sandbox's; a program of the step has them only if it runs as this user.
            user: if work.user == User::Root { User::Root } else { User::Installer },
            hostname: "paddock".into(),
            require: Vec::new(),
            scan: Default::default(),
            live_forks: false,
            root_may_install: false,
            become_root: false,
        }
    }

    /// Lets out the connections that the rules of the network allow. The decisions are for nobody: the task that throws
    /// them away ends with the gate.
    async fn open_gate(&self, sandbox: &Sandbox, work: &Work<'_>) -> Result<(), BuildError> {
        let (Network::Gate(rules), Some(_)) = (self.network, work.lent) else { return Ok(()) };
        let trust = Trust { state: self.state, host_certs: false };
        let mut events = sandbox.open_gate(rules.clone(), Default::default(), None, trust).await?;
        tokio::spawn(async move { while events.recv().await.is_some() {} });
        Ok(())
    }

    async fn program(
        &self,
        sandbox: &Sandbox,
        argv: Argv,
        env: &BTreeMap<String, String>,
        (user, cwd): (&User, &str),
        output: &mut Capture,
    ) -> Result<Option<StepFailure>, BuildError> {
        let mut exec = sandbox.exec(Command {
            argv,
            env: env.clone(),
            cwd: Some(cwd.into()),
            user: user.clone(),
            ..Command::default()
        })?;
        loop {
            match exec.next().await {
                ExecEvent::Output { bytes, .. } => {
                    output.push(&bytes);
                    self.watcher.event(Event::Output { bytes: &bytes });
                }
                // A background process may hold the streams open for ever; the step is over all the same.
                ExecEvent::Exited { status: ExitKind::Exited(0), .. } => return Ok(None),
                ExecEvent::Exited { status: ExitKind::Exited(code), .. } => {
                    drain(&mut exec, output).await;
                    return Ok(Some(StepFailure::Exited(code)));
                }
                ExecEvent::Exited { status: ExitKind::Signaled(signal), .. } => {
                    return Ok(Some(StepFailure::Signalled(signal)));
                }
                ExecEvent::StartFailed { step, errno } => {
                    let why = std::io::Error::from_raw_os_error(errno);
                    return Ok(Some(StepFailure::NotStarted(format!("{}: {why}", step.escape_debug()))));
                }
                ExecEvent::MemoryExceeded { .. } => return Ok(Some(StepFailure::OutOfMemory)),
                ExecEvent::Lost { detail } => {
                    return Ok(Some(StepFailure::Lost(detail.escape_debug().to_string())));
                }
                ExecEvent::Closed => {
                    return Ok(Some(StepFailure::Lost("its streams were closed before it ended".into())));
                }
                ExecEvent::Started | ExecEvent::DeadlinePassed | ExecEvent::Interrupted { .. } => {}
            }
        }
    }
}

/// Reads the last output of a failed program, which is still on its way.
async fn drain(exec: &mut paddock_engine::Exec, output: &mut Capture) {
    let rest = async {
        while let ExecEvent::Output { bytes, .. } = exec.next().await {
            output.push(&bytes);
        }
    };
    let _ = tokio::time::timeout(std::time::Duration::from_secs(1), rest).await;
}

async fn put(sandbox: &Sandbox, copied: Copied) -> Result<(), BuildError> {
    let files = sandbox.files(User::Installer, None);
    let refused =
        |error: FileError| BuildError::Copy { from: copied.into.clone(), reason: error.to_string() };
    match files.make_directory(&copied.into, None, true).await {
        Err(error) if error.kind != FileErrorKind::Exists => return Err(refused(error)),
        _ => {}
    }
    let mut upload = files.unpack(&copied.into).map_err(refused)?;
    let mut archive = tokio::fs::File::from_std(copied.archive);
    let mut buffer = vec![0; 128 << 10];
    loop {
        let failed = |source| BuildError::Io { path: copied.into.clone().into(), source };
        match tokio::io::AsyncReadExt::read(&mut archive, &mut buffer).await.map_err(failed)? {
            0 => break,
            count => upload.write(&buffer[..count]).await.map_err(refused)?,
        }
    }
    upload.finish().await.map_err(refused)
}

impl Finished {
    /// Makes a new root over `below` from all changes to the sandbox's root. Returns the bytes of the changes.
    pub async fn publish(
        self,
        ground: &Ground<'_>,
        key: &Digest,
        below: Option<(PathBuf, Sharing)>,
    ) -> Result<u64, BuildError> {
        let disk = self.sandbox.disk().export().await?;
        self.publish_from(ground, key, below, disk, paddock_images::Style::Disk).await
    }

    /// Makes a root from one directory of the sandbox.
    pub async fn publish_directory(
        self,
        ground: &Ground<'_>,
        key: &Digest,
        directory: &str,
    ) -> Result<u64, BuildError> {
        let pack = self.sandbox.files(User::Installer, None).pack(directory).await?;
        self.publish_from(ground, key, None, pack, paddock_images::Style::Layer).await
    }

    async fn publish_from(
        self,
        ground: &Ground<'_>,
        key: &Digest,
        below: Option<(PathBuf, Sharing)>,
        mut download: Download,
        style: paddock_images::Style,
    ) -> Result<u64, BuildError> {
        let pipe = |source| BuildError::Io { path: "a pipe".into(), source };
        let (reader, writer) = std::io::pipe().map_err(pipe)?;
        let mut writer = {
            let writer = std::os::fd::OwnedFd::from(writer);
            rustix::io::ioctl_fionbio(&writer, true).map_err(|errno| pipe(errno.into()))?;
            tokio::net::unix::pipe::Sender::from_owned_fd(writer).map_err(pipe)?
        };
        let archive = File::from(std::os::fd::OwnedFd::from(reader));
        let (complete, all_came) = std::sync::mpsc::channel();
        let (shared, key) = (ground.store.shared().clone(), key.clone());
        let made = job::run(&paddock_images::NoProgress, move |reporter| {
            let below = below.as_ref().map(|(path, sharing)| (path.as_path(), *sharing));
            built::make(&shared, &key, below, Some(Written { archive, style, all_came }), reporter).map(drop)
        });
        let fed = async move {
            let mut bytes = 0;
            while let Some(piece) = download.next().await? {
                bytes += piece.len() as u64;
                // The reading end has found the archive at fault, and its error is the one that counts.
                if writer.write_all(&piece).await.is_err() {
                    break;
                }
            }
            let _ = complete.send(());
            Ok::<u64, BuildError>(bytes)
        };
        let (made, fed) = tokio::join!(made, fed);
        let bytes = fed?;
        made?;
        self.sandbox.end(None)?;
        Ok(bytes)
    }
}

/// Makes a root of our own from a directory, or from an image that others use too.
pub async fn adopt(
    store: &ImageStore,
    key: &Digest,
    below: &Path,
    sharing: Sharing,
) -> Result<(), BuildError> {
    let (shared, key, below) = (store.shared().clone(), key.clone(), below.to_path_buf());
    let made = job::run(&paddock_images::NoProgress, move |reporter| {
        built::make(&shared, &key, Some((&below, sharing)), None, reporter).map(drop)
    });
    Ok(made.await?)
}
