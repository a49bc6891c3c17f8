//! An attack, and its outcome.

use serde::{Deserialize, Serialize};
use std::io;

/// The outcome of an attack, as the probe saw it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// The operation succeeded: outside the fence it must.
    Done,
    Denied,
    /// The target is not there, or holds no value of the host.
    Hidden,
    /// A limit was hit.
    Bounded,
    /// The probe could not carry the attack out, so it shows nothing.
    Error,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finding {
    pub outcome: Outcome,
    pub detail: String,
}

/// One line of the probe's output.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Line {
    pub attack: String,
    #[serde(flatten)]
    pub finding: Finding,
}

impl Finding {
    pub fn new(outcome: Outcome, detail: impl Into<String>) -> Finding {
        Finding { outcome, detail: detail.into() }
    }

    /// Success is the attack's; which errors are the fence's doing is decided here, once for all.
    pub fn of<T>(result: io::Result<T>, what: &str) -> Finding {
        match result {
            Ok(_) => Finding::new(Outcome::Done, what),
            Err(error) => Finding::new(outcome_of(&error), format!("{what}: {error}")),
        }
    }

    /// For requests that another kernel does not know: it says so with EINVAL, which from this one would be a mistake of
    /// the probe's. The control tells the two apart.
    pub fn of_rare<T>(result: io::Result<T>, what: &str) -> Finding {
        match result {
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                Finding::new(Outcome::Denied, format!("{what}: {error}"))
            }
            result => Finding::of(result, what),
        }
    }

    /// For calls with arguments that cannot work: any error but a refusal came from the kernel's own check of the
    /// arguments, so the call is open.
    pub fn reached<T>(result: io::Result<T>, what: &str) -> Finding {
        match result {
            Ok(_) => Finding::new(Outcome::Done, what),
            Err(error) => match error.raw_os_error() {
                Some(libc::EPERM | libc::EACCES | libc::ENOSYS) => {
                    Finding::new(Outcome::Denied, format!("{what}: {error}"))
                }
                _ => Finding::new(Outcome::Done, format!("{what}: the kernel looked: {error}")),
            },
        }
    }
}

fn outcome_of(error: &io::Error) -> Outcome {
    match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENOTDIR | libc::ESRCH) => Outcome::Hidden,
        Some(libc::ENOSPC | libc::EDQUOT | libc::ENOMEM | libc::EAGAIN | libc::EMFILE) => Outcome::Bounded,
        Some(
            libc::EPERM
            | libc::EACCES
            | libc::ENOSYS
            | libc::EROFS
            | libc::EBUSY
            | libc::EXDEV
            | libc::ENODEV
            | libc::ENXIO
            | libc::ENOTTY
            | libc::EBADF
            | libc::EAFNOSUPPORT
            | libc::EPROTONOSUPPORT
            | libc::EOPNOTSUPP
            | libc::ESOCKTNOSUPPORT
            | libc::ECONNREFUSED
            | libc::ENETUNREACH
            | libc::EHOSTUNREACH
            | libc::EADDRNOTAVAIL,
        ) => Outcome::Denied,
        _ => Outcome::Error,
    }
}

/// Where the same probe runs outside the fence, to show that it can succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Control {
    /// In throw-away namespaces (mount, pid, net, ipc, uts, cgroup), as root.
    Namespaces,
    /// In the host's own namespaces: only for attacks that read or connect.
    Host,
    /// None: the attack succeeds by nature, and only its effect must not be seen.
    EffectOnly,
}

/// How the attack is brought into the fence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// With others in one sandbox, each in a child process of its own.
    Batch,
    /// In a sandbox of its own, as the command itself; the run must still be reported as finished with exit 0.
    Alone,
}

#[derive(Clone, Copy)]
pub enum Deed {
    Plain(fn() -> Finding),
    Text(fn(&'static str) -> Finding, &'static str),
    Number(fn(i64) -> Finding, i64),
    /// A kernel call whose arguments cannot work, judged by [`Finding::reached`].
    Call(i64, [i64; 6]),
}

#[derive(Clone, Copy)]
pub struct Attack {
    pub id: &'static str,
    pub title: &'static str,
    pub deed: Deed,
    pub stage: Stage,
    pub control: Control,
}

impl Attack {
    const fn new(id: &'static str, title: &'static str, deed: Deed) -> Attack {
        Attack { id, title, deed, stage: Stage::Batch, control: Control::Namespaces }
    }

    pub const fn plain(id: &'static str, title: &'static str, run: fn() -> Finding) -> Attack {
        Attack::new(id, title, Deed::Plain(run))
    }

    pub const fn text(
        id: &'static str,
        title: &'static str,
        run: fn(&'static str) -> Finding,
        argument: &'static str,
    ) -> Attack {
        Attack::new(id, title, Deed::Text(run, argument))
    }

    pub const fn number(
        id: &'static str,
        title: &'static str,
        run: fn(i64) -> Finding,
        argument: i64,
    ) -> Attack {
        Attack::new(id, title, Deed::Number(run, argument))
    }

    pub const fn call(id: &'static str, number: i64, arguments: [i64; 6]) -> Attack {
        Attack::new(id, "a kernel call that the work has no need of", Deed::Call(number, arguments))
    }

    pub const fn alone(self) -> Attack {
        Attack { stage: Stage::Alone, ..self }
    }

    pub const fn on_host(self) -> Attack {
        Attack { control: Control::Host, ..self }
    }

    pub const fn effect_only(self) -> Attack {
        Attack { control: Control::EffectOnly, ..self }
    }
}

/// The letter of attacks.md that an id belongs to.
pub fn group(id: &str) -> char {
    id.chars().next().unwrap_or('?')
}
