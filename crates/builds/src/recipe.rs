//! The description of a client's build, checked, as the steps of a build.
//!
//! The base gets a user `user`, as the clients of such builds expect; commands run as it unless a step says otherwise.

use super::client_step::{Check, ClientStep, Shell, StepUser, Surroundings, Unpack};
use super::file::{BuildFile, Step, usual_limits};
use paddock_model::api::{BuildStep, BuildTemplate};
use paddock_model::{LimitsLayer, Policy, User};
use paddock_settings::{LimitsError, SettingsError};
use std::collections::BTreeMap;
use std::path::Path;

const MOST_STEPS: usize = 500;
const MOST_VARIABLES: usize = 500;
/// Of a command, and of all variables together.
const LONGEST: usize = 64 << 10;
const LONGEST_PATH: usize = 4096;
/// The user that every template of a client has.
const USER: &str = "user";
const HOME: &str = "/home/user";

/// Gives the image the user. It uses nothing but the shell, mkdir and chown.
const PROVISION: &str = r#"set -eu
umask 022
mkdir -p /etc /home /home/user
[ -e /etc/passwd ] || echo 'root:x:0:0:root:/root:/bin/sh' > /etc/passwd
[ -e /etc/group ] || echo 'root:x:0:' > /etc/group
known= taken=' ' whole=
while IFS=: read -r name password number rest || [ -n "$name" ]; do
    [ "$name" = user ] && known=1
    taken="$taken$number "
    name=
done < /etc/passwd
while IFS=: read -r name password number rest || [ -n "$name" ]; do
    taken="$taken$number "
    name=
done < /etc/group
if [ -z "$known" ]; then
    number=1000
    while :; do case "$taken" in *" $number "*) number=$((number + 1));; *) break;; esac; done
    shell=/bin/sh
    [ -x /bin/bash ] && shell=/bin/bash
    echo "user:x:$number:$number:user:/home/user:$shell" >> /etc/passwd
    echo "user:x:$number:" >> /etc/group
    if [ -e /etc/shadow ]; then echo 'user:!:1:0:99999:7:::' >> /etc/shadow; fi
    chown -h "$number:$number" /home/user
fi
"#;

/// The beginning of a build.
#[derive(Debug, Clone, PartialEq)]
pub enum Parent {
    /// An image of a registry.
    Image(String),
    /// A template that was built, with its settings.
    Built { image: String, settings: Box<Policy> },
}

/// A client's build, and the things that it may use.
pub struct Recipe<'a> {
    pub request: &'a BuildTemplate,
    pub parent: Parent,
    /// The directory of the client's uploaded archives.
    pub uploads: &'a Path,
}

#[derive(Debug, thiserror::Error)]
pub enum RecipeError {
    #[error("step {number}: {reason}")]
    Step { number: usize, reason: String },
    #[error("{0}")]
    Value(String),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("the limits are not usable")]
    Limits(#[from] LimitsError),
}

impl Recipe<'_> {
    pub fn prepare(self) -> Result<BuildFile, RecipeError> {
        let (base, mut inherited) = match self.parent {
            Parent::Image(image) => (image, Policy::default()),
            Parent::Built { image, settings } => (image, inherited(*settings)),
        };
        if self.request.steps.len() > MOST_STEPS {
            let count = self.request.steps.len();
            return Err(RecipeError::Value(format!("steps: {count} are more than {MOST_STEPS}")));
        }
        let mut reading = Reading {
            user: inherited.user.clone().unwrap_or_else(|| USER.into()),
            cwd: inherited.cwd.clone().unwrap_or_else(|| HOME.into()),
            env: BTreeMap::new(),
            uploads: self.uploads,
        };
        let mut steps = vec![provision()];
        for (index, step) in self.request.steps.iter().enumerate() {
            let read = reading.step(step);
            steps.push(read.map_err(|reason| RecipeError::Step { number: index + 1, reason })?);
        }
        let start = text("start command", self.request.start.as_deref())?;
        let ready = text("ready command", self.request.ready.as_deref())?;
        if start.is_some() || ready.is_some() {
            let ready = ready.clone().unwrap_or_else(|| "true".into());
            let check = Check { start: start.clone(), ready, surroundings: reading.surroundings(None)? };
            steps.push(Step::Client(ClientStep::Check(check)));
        }
        let disk = match self.request.min_free_disk_bytes {
            Some(wanted) => Some(wanted.max(paddock_settings::resolve_limits(&inherited.limits)?.disk)),
            None => None,
        };
        let own = Policy {
            user: Some(reading.user),
            cwd: Some(reading.cwd),
            env: reading.env.clone(),
            command: start.as_deref().map(command).unwrap_or_default(),
            // A mere wait is for the build, not for every create.
            ready: ready.filter(|ready| start.is_some() && !is_a_wait(ready)),
            limits: LimitsLayer {
                cpus: self.request.cpus.map(|cpus| cpus.to_string()),
                memory: self.request.memory_bytes.map(|bytes| bytes.to_string()),
                disk: disk.map(|bytes| bytes.to_string()),
                ..LimitsLayer::default()
            },
            ..Policy::default()
        };
        if start.is_some() {
            inherited.ready = None;
        }
        let settings = inherited.overlaid_by(own);
        paddock_settings::check_environment(&settings.env)?;
        paddock_settings::resolve_limits(&settings.limits)?;
        let limits = paddock_settings::resolve_limits(&usual_limits())?;
        Ok(BuildFile { base, mirror: None, steps, env: BTreeMap::new(), settings, limits })
    }
}

/// The settings that a template has from the one that it begins with. Paths of the host and secrets are the owner's to give:
/// they stay with the template that has them.
fn inherited(settings: Policy) -> Policy {
    Policy {
        image: None,
        workspace: None,
        read: Vec::new(),
        write: Vec::new(),
        protect: Vec::new(),
        unprotect: Vec::new(),
        secrets: BTreeMap::new(),
        preload: Vec::new(),
        ..settings
    }
}

fn provision() -> Step {
    let surroundings = Surroundings { user: StepUser::Root, cwd: "/".into(), env: BTreeMap::new() };
    let title = Some("the user `user`".into());
    Step::Client(ClientStep::Shell(Shell { command: PROVISION.into(), surroundings, force: false, title }))
}

/// The program of a start command.
fn command(line: &str) -> Vec<String> {
    let script = r#"if [ -x /bin/bash ]; then exec /bin/bash -c "$1"; fi; exec /bin/sh -c "$1""#;
    ["/bin/sh", "-c", script, "sh", line].map(String::from).into()
}

fn is_a_wait(ready: &str) -> bool {
    let seconds = ready.trim().strip_prefix("sleep ").map(str::trim);
    seconds.is_some_and(|seconds| seconds.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.'))
}

fn text(what: &str, text: Option<&str>) -> Result<Option<String>, RecipeError> {
    let text = text.filter(|text| !text.trim().is_empty()).map(String::from);
    match text.as_deref().and_then(line_problem) {
        Some(problem) => Err(RecipeError::Value(format!("the {what} {problem}"))),
        None => Ok(text),
    }
}

fn line_problem(line: &str) -> Option<&'static str> {
    match line {
        line if line.contains('\0') => Some("holds a NUL"),
        line if line.len() > LONGEST => Some("is longer than 64 KiB"),
        _ => None,
    }
}

/// The settings that hold at a step.
struct Reading<'a> {
    user: String,
    cwd: String,
    env: BTreeMap<String, String>,
    uploads: &'a Path,
}

impl Reading<'_> {
    fn step(&mut self, step: &BuildStep) -> Result<Step, String> {
        let step = match step {
            BuildStep::Run { command, user, force } => {
                if command.trim().is_empty() {
                    return Err("the command is empty".into());
                }
                if let Some(problem) = line_problem(command) {
                    return Err(format!("the command {problem}"));
                }
                let surroundings = self.surroundings_of(user.as_deref())?;
                ClientStep::Shell(Shell {
                    command: command.clone(),
                    surroundings,
                    force: *force,
                    title: None,
                })
            }
            BuildStep::Copy { files, from, to, user, mode, force } => {
                if let Some(problem) = hash_problem(files) {
                    return Err(problem.into());
                }
                ClientStep::Unpack(Unpack {
                    archive: self.uploads.join(files),
                    from: path(from)?.into(),
                    to: self.place(path(to)?),
                    owner: self.owner(user.as_deref())?,
                    mode: mode.as_deref().filter(|mode| !mode.is_empty()).map(permissions).transpose()?,
                    force: *force,
                })
            }
            BuildStep::Env { variables } => {
                let names = variables.keys().cloned().collect::<Vec<_>>().join(" ");
                self.env.extend(variables.clone());
                let bytes: usize = self.env.iter().map(|(name, value)| name.len() + value.len()).sum();
                if self.env.len() > MOST_VARIABLES || bytes > LONGEST {
                    return Err(format!("the variables are more than {MOST_VARIABLES} or 64 KiB"));
                }
                paddock_settings::check_environment(&self.env).map_err(|error| error.to_string())?;
                ClientStep::Setting { text: format!("ENV {names}") }
            }
            BuildStep::Workdir { path: directory, force } => {
                self.cwd = self.place(path(directory)?).trim_end_matches('/').to_string();
                if self.cwd.is_empty() {
                    self.cwd = "/".into();
                }
                self.workdir(*force)?
            }
            BuildStep::User { name } => {
                self.user = name.clone();
                self.surroundings_of(None)?;
                ClientStep::Setting { text: format!("USER {name}") }
            }
        };
        Ok(Step::Client(step))
    }

    /// Makes the directory, for the user, if there is none.
    fn workdir(&self, force: bool) -> Result<ClientStep, String> {
        let script = r#"[ -d "$WORKDIR" ] || { mkdir -p "$WORKDIR" && { [ -z "$OWNER" ] || chown "$OWNER" "$WORKDIR"; }; }"#;
        let env = [
            ("WORKDIR".to_string(), self.cwd.clone()),
            ("OWNER".to_string(), self.owner(None)?.unwrap_or_default()),
        ];
        let surroundings = Surroundings { user: StepUser::Root, cwd: "/".into(), env: env.into() };
        let title = Some(format!("WORKDIR {}", self.cwd));
        Ok(ClientStep::Shell(Shell { command: script.into(), surroundings, force, title }))
    }

    fn surroundings_of(&self, user: Option<&str>) -> Result<Surroundings, String> {
        let name = user.filter(|user| !user.is_empty()).unwrap_or(&self.user);
        let user = match name.parse().map_err(|error: paddock_model::UserError| error.to_string())? {
            User::Root => StepUser::Root,
            user => StepUser::Other(user),
        };
        Ok(Surroundings { user, cwd: self.cwd.clone(), env: self.env.clone() })
    }

    fn surroundings(&self, user: Option<&str>) -> Result<Surroundings, RecipeError> {
        self.surroundings_of(user).map_err(RecipeError::Value)
    }

    /// As chown takes it; `None` for root, to whom everything belongs already.
    fn owner(&self, named: Option<&str>) -> Result<Option<String>, String> {
        let named = named.filter(|owner| !owner.is_empty()).unwrap_or(&self.user);
        let (user, group) = named.split_once(':').unwrap_or((named, named));
        for part in [user, group] {
            part.parse::<User>().map_err(|error| error.to_string())?;
        }
        Ok((user != "root" || group != "root").then(|| format!("{user}:{group}")))
    }

    /// An absolute path; a relative one begins at the working directory, `~` is the user's home.
    fn place(&self, path: &str) -> String {
        let home = match self.user.as_str() {
            "root" => "/root".to_string(),
            user => format!("/home/{user}"),
        };
        let whole = match path {
            "~" => home,
            _ if path.starts_with("~/") => format!("{home}/{}", &path[2..]),
            _ if path.starts_with('/') => path.to_string(),
            _ => format!("{}/{path}", self.cwd),
        };
        let directory = whole.ends_with('/') || whole.ends_with("/.");
        let parts: Vec<&str> = whole.split('/').filter(|part| !["", "."].contains(part)).collect();
        format!("/{}{}", parts.join("/"), if directory && !parts.is_empty() { "/" } else { "" })
    }
}

fn path(text: &str) -> Result<&str, String> {
    let shown: String = text.chars().take(80).collect();
    let bad = text.is_empty() || text.len() > LONGEST_PATH || text.contains('\0');
    match bad || text.split('/').any(|part| part == "..") && text.starts_with('/') {
        true => Err(format!("path `{}` is empty, too long, or has `..` or a NUL", shown.escape_debug())),
        false => Ok(text),
    }
}

fn permissions(text: &str) -> Result<u32, String> {
    let digits = (3..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    let mode = digits.then(|| u32::from_str_radix(text, 8).ok()).flatten().filter(|mode| *mode <= 0o777);
    let shown: String = text.chars().take(16).collect();
    mode.ok_or_else(|| format!("mode `{}` is not 0000 to 0777 in octal digits", shown.escape_debug()))
}

/// The reason why this is no name of uploaded files.
pub fn hash_problem(hash: &str) -> Option<&'static str> {
    let hex = hash.len() == 64 && hash.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    (!hex).then_some("the hash of uploaded files is 64 hexadecimal digits")
}

#[cfg(test)]
#[path = "recipe_tests.rs"]
mod tests;
