//! The steps of a client's build: commands as a user of the image, and archives that the client uploaded.

use super::step::{Argv, Key};
use paddock_images::digest::Digest;
use paddock_model::User;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// Runs a line in bash where the image has it, and in its shell elsewhere.
const SHELL: &str = r#"if [ -x /bin/bash ]; then exec /bin/bash -c "$1"; fi; exec /bin/sh -c "$1""#;

/// Starts the command and tries the ready command until it succeeds. A start command that fails before that fails the
/// step, with its own exit code.
const CHECK: &str = r#"
shell=/bin/sh
[ -x /bin/bash ] && shell=/bin/bash
started=
if [ -n "$1" ]; then "$shell" -c "$1" & started=$!; fi
until "$shell" -c "$2"; do
    if [ -n "$started" ] && ! kill -0 "$started" 2> /dev/null; then
        wait "$started" || exit $?
        started=
    fi
    sleep 0.2 || sleep 1
done
"#;

/// The bytes of names in the arguments of one program.
const ARGUMENTS: usize = 64 << 10;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ClientStep {
    Shell(Shell),
    Unpack(Unpack),
    /// A setting for later steps: it makes no layer.
    Setting {
        text: String,
    },
    /// The start and the ready command of the template are tried: it makes no layer.
    Check(Check),
}

/// The surroundings of a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Surroundings {
    pub user: StepUser,
    pub cwd: String,
    pub env: BTreeMap<String, String>,
}

/// A user of the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepUser {
    /// With the rights that the installation of packages needs.
    Root,
    /// Without any capability.
    Other(User),
}

impl StepUser {
    pub fn user(&self) -> User {
        match self {
            StepUser::Root => User::Installer,
            StepUser::Other(user) => user.clone(),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shell {
    pub command: String,
    pub surroundings: Surroundings,
    /// True if no earlier result is good enough.
    pub force: bool,
    /// The line for people, in the place of the command.
    pub title: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpack {
    /// The uploaded archive, on the host.
    pub archive: PathBuf,
    /// The source as the client names it, relative to the archive's root.
    pub from: String,
    /// An absolute place inside; with a slash at its end it is a directory.
    pub to: String,
    /// The owner, as chown takes it. `None`: root.
    pub owner: Option<String>,
    pub mode: Option<u32>,
    pub force: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Check {
    pub start: Option<String>,
    pub ready: String,
    pub surroundings: Surroundings,
}

impl ClientStep {
    pub fn shown(&self) -> String {
        match self {
            ClientStep::Shell(Shell { title: Some(title), .. }) => title.clone(),
            ClientStep::Shell(shell) => format!("RUN {}", shell.command),
            ClientStep::Unpack(unpack) => format!("COPY {} {}", unpack.from, unpack.to),
            ClientStep::Setting { text } => text.clone(),
            ClientStep::Check(_) => "start and ready command".into(),
        }
    }

    pub fn fetches(&self) -> bool {
        matches!(self, ClientStep::Shell(_) | ClientStep::Check(_))
    }

    pub fn force(&self) -> bool {
        match self {
            ClientStep::Shell(shell) => shell.force,
            ClientStep::Unpack(unpack) => unpack.force,
            ClientStep::Setting { .. } | ClientStep::Check(_) => false,
        }
    }

    /// The programs that are known before the archive is read.
    pub fn programs(&self) -> Vec<Argv> {
        let shell = |script: &str, more: &[&str]| -> Argv {
            ["/bin/sh", "-c", script, "sh"].iter().chain(more).map(|word| word.to_string()).collect()
        };
        match self {
            ClientStep::Shell(step) => vec![shell(SHELL, &[&step.command])],
            ClientStep::Check(check) => {
                vec![shell(CHECK, &[check.start.as_deref().unwrap_or(""), &check.ready])]
            }
            ClientStep::Unpack(_) | ClientStep::Setting { .. } => Vec::new(),
        }
    }

    pub fn surroundings(&self) -> Option<&Surroundings> {
        match self {
            ClientStep::Shell(shell) => Some(&shell.surroundings),
            ClientStep::Check(check) => Some(&check.surroundings),
            ClientStep::Unpack(_) | ClientStep::Setting { .. } => None,
        }
    }

    /// `content`: the digest of the archive as it is unpacked. `env`: the variables of the base.
    pub fn add_to<'k>(&self, key: &'k mut Key, content: Option<&Digest>, env: &[String]) -> &'k mut Key {
        match self {
            ClientStep::Shell(shell) => {
                let Surroundings { user, cwd, env: own } = &shell.surroundings;
                let own = super::step::pairs(own);
                key.add("client run").add(&shell.command).add(&format!("{user:?}")).add(cwd).all(own).all(env)
            }
            ClientStep::Unpack(unpack) => key
                .add("client copy")
                .add(&unpack.to)
                .add(unpack.owner.as_deref().unwrap_or(""))
                .add(content.map_or("", Digest::hex)),
            ClientStep::Setting { .. } | ClientStep::Check(_) => key.add("no layer"),
        }
    }
}

/// Programs that give the paths to their owner; the names of no one of them are too long for the kernel.
pub fn owning(owner: &str, paths: &[String]) -> Vec<Argv> {
    let mut programs: Vec<Argv> = Vec::new();
    let mut left = 0;
    for path in paths {
        if programs.is_empty() || left < path.len() {
            programs.push(["chown", "-h", "--", owner].map(String::from).into());
            left = ARGUMENTS;
        }
        left = left.saturating_sub(path.len() + 1);
        programs.last_mut().into_iter().for_each(|argv| argv.push(path.clone()));
    }
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(command: &str) -> Shell {
        let surroundings = Surroundings { user: StepUser::Root, cwd: "/".into(), env: BTreeMap::new() };
        Shell { command: command.into(), surroundings, force: false, title: None }
    }

    fn key(shell: Shell) -> Digest {
        let mut key = Key::new("step");
        ClientStep::Shell(shell).add_to(&mut key, None, &[]);
        key.finish()
    }

    #[test]
    fn a_command_is_an_argument_and_its_surroundings_are_in_its_key() {
        let step = ClientStep::Shell(shell("echo \"$1\"; exit"));
        assert_eq!(step.programs()[0].last().unwrap(), "echo \"$1\"; exit");
        let plain = key(shell("a"));
        assert_eq!(plain, key(shell("a")));
        let mut other = shell("a");
        other.surroundings.cwd = "/srv".into();
        assert_ne!(plain, key(other));
        let mut other = shell("a");
        other.surroundings.user = StepUser::Other(User::Name("user".into()));
        assert_ne!(plain, key(other));
        let mut other = shell("a");
        other.surroundings.env.insert("A".into(), "1".into());
        assert_ne!(plain, key(other));
    }

    #[test]
    fn many_paths_are_given_away_by_several_programs() {
        let paths: Vec<String> = (0..3000).map(|number| format!("/{number:0100}")).collect();
        let programs = owning("user:user", &paths);
        assert!(programs.len() > 1);
        assert_eq!(programs.iter().map(|argv| argv.len() - 4).sum::<usize>(), paths.len());
        assert!(owning("user", &[]).is_empty());
    }
}
