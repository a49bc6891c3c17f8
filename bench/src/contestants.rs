//! The contestants: a bare process, Paddock, and the peers that this host has.

use crate::command::{CommandLine, Environment};
use crate::peers::{self, Missing};
use crate::scratch::Scratch;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The command of every contestant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Workload {
    True,
    Python,
    /// Not in the races: the part about templates has it.
    Pandas,
}

impl Workload {
    pub const ALL: [Workload; 2] = [Workload::True, Workload::Python];
    pub const WITH_PANDAS: [Workload; 3] = [Workload::True, Workload::Python, Workload::Pandas];

    pub fn name(self) -> &'static str {
        match self {
            Workload::True => "true",
            Workload::Python => "python",
            Workload::Pandas => "pandas",
        }
    }

    /// The command line inside of a sandbox.
    pub fn command(self) -> &'static [&'static str] {
        match self {
            Workload::True => &["true"],
            Workload::Python => &["python3", "-c", "print(1)"],
            Workload::Pandas => &["python3", "-c", "import pandas; print(1)"],
        }
    }

    /// A contestant that prints anything else did not run it.
    pub fn expected_output(self) -> &'static str {
        match self {
            Workload::True => "",
            Workload::Python | Workload::Pandas => "1\n",
        }
    }
}

pub trait Contestant {
    fn name(&self) -> &'static str;
    fn version(&self) -> String;
    fn command(&self, workload: Workload) -> CommandLine;

    /// The same with a container that is there already, where there is such a thing.
    fn running(&self) -> Option<Result<Box<dyn Contestant>>> {
        None
    }

    /// A daemon goes on working after its client has ended; the next contestant should not pay for that.
    fn settle(&self) -> Duration {
        Duration::ZERO
    }
}

pub struct Field {
    pub paddock: Paddock,
    bare: Bare,
    shield: Shielded,
    peers: Vec<Box<dyn Contestant>>,
    /// Paddock's own gVisor beside `runsc` alone, if this host has that.
    gvisor: Vec<Box<dyn Contestant>>,
    pub missing: Vec<Missing>,
}

impl Field {
    /// Precondition: `paddock` is absolute.
    pub fn assemble(scratch: &Scratch, paddock: &Path, installed: Option<&str>) -> Result<Field> {
        let (state, temporary) = (scratch.directory("state")?, scratch.directory("tmp")?);
        let paddock = Paddock { program: paddock.to_owned(), state, temporary };
        paddock.command(Workload::True).output().context("paddock does not run")?;
        let shield = Shielded { paddock: paddock.clone(), repository: repository(scratch)? };
        let (peers, mut missing) = peers::prepare(scratch, installed);
        let mut gvisor: Vec<Box<dyn Contestant>> = Vec::new();
        match peers::runsc(scratch) {
            Ok(runsc) => gvisor.extend([Box::new(OverGvisor(paddock.clone())) as Box<dyn Contestant>, runsc]),
            Err(reason) => missing.push(reason),
        }
        Ok(Field { paddock, bare: Bare, shield, peers, gvisor, missing })
    }

    /// All, a shield around the command, and the two with a kernel in user space.
    pub fn race(&self) -> impl Iterator<Item = &dyn Contestant> {
        let shield: &dyn Contestant = &self.shield;
        self.all().chain([shield]).chain(self.gvisor.iter().map(Box::as_ref))
    }

    pub fn all(&self) -> impl Iterator<Item = &dyn Contestant> {
        let ours: [&dyn Contestant; 2] = [&self.bare, &self.paddock];
        ours.into_iter().chain(self.peers.iter().map(Box::as_ref))
    }
}

struct Bare;

impl Contestant for Bare {
    fn name(&self) -> &'static str {
        "bare"
    }

    fn version(&self) -> String {
        let python = CommandLine::new("/usr/bin/python3").arg("--version").output();
        python.map_or_else(|_| "no /usr/bin/python3".into(), |version| version.trim().to_owned())
    }

    fn command(&self, workload: Workload) -> CommandLine {
        let mut line = match workload {
            Workload::True => CommandLine::new("/bin/true"),
            Workload::Python | Workload::Pandas => {
                CommandLine::new("/usr/bin/python3").args(&workload.command()[1..])
            }
        };
        line.environment = Environment::Only(vec![("PATH", peers::PATH.into()), ("LANG", "C.UTF-8".into())]);
        line
    }
}

/// A repository of ordinary size, with the account of its changes.
struct Shielded {
    paddock: Paddock,
    repository: PathBuf,
}

/// Files in it, in directories of fifty.
const FILES: usize = 1000;

fn repository(scratch: &Scratch) -> Result<PathBuf> {
    let path = scratch.directory("repository")?;
    scratch.directory("repository/.git/hooks")?;
    for number in 0..FILES {
        let directory = scratch.directory(&format!("repository/src/{}", number / 50))?;
        std::fs::write(directory.join(format!("{number}.py")), "x = 1\n".repeat(100))?;
    }
    Ok(path)
}

impl Contestant for Shielded {
    fn name(&self) -> &'static str {
        "paddock shield"
    }

    fn version(&self) -> String {
        format!("{}, a workspace of {FILES} files", self.paddock.version())
    }

    fn command(&self, workload: Workload) -> CommandLine {
        let mut line = self.paddock.run(workload.command());
        let options = ["shield".into(), "--workspace".into(), self.repository.clone().into_os_string()];
        line.arguments.splice(..1, options);
        line
    }
}

/// The same with its gVisor backend.
struct OverGvisor(Paddock);

impl Contestant for OverGvisor {
    fn name(&self) -> &'static str {
        "paddock gvisor"
    }

    fn version(&self) -> String {
        self.0.version()
    }

    fn command(&self, workload: Workload) -> CommandLine {
        self.0.run_with(&["--backend", "gvisor"], workload.command())
    }
}

/// With directories of its own: exactly one guest lies there, and no other user's sandboxes are counted.
#[derive(Clone)]
pub struct Paddock {
    pub program: PathBuf,
    pub state: PathBuf,
    pub temporary: PathBuf,
}

impl Paddock {
    pub fn run(&self, command: &[&str]) -> CommandLine {
        self.run_with(&[], command)
    }

    fn run_with(&self, options: &[&str], command: &[&str]) -> CommandLine {
        let mut line = CommandLine::new(&self.program).args(["run"]).args(options).args(["--"]).args(command);
        let directories =
            vec![("PADDOCK_STATE_DIR", self.state.clone().into()), ("TMPDIR", self.temporary.clone().into())];
        line.environment = Environment::Inherited(directories);
        line
    }
}

impl Contestant for Paddock {
    fn name(&self) -> &'static str {
        "paddock"
    }

    fn version(&self) -> String {
        let version = CommandLine::new(&self.program).arg("--version").output();
        version.map_or_else(|_| "unknown".into(), |version| version.trim().to_owned())
    }

    fn command(&self, workload: Workload) -> CommandLine {
        self.run(workload.command())
    }
}
