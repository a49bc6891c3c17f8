//! Directories that outlive sandboxes.

use super::values;
use clap::{Args, Subcommand, ValueEnum};
use paddock_model::api::{OnFailure, VolumeMode, VolumeMount};
use std::path::PathBuf;

#[derive(Debug, Args)]
pub struct VolumeArgs {
    #[command(subcommand)]
    pub action: VolumeAction,
}

#[derive(Debug, Subcommand)]
pub enum VolumeAction {
    /// Make an empty volume
    #[command(after_help = "Example:\n  paddock volume create memory")]
    Create {
        #[arg(value_parser = values::word)]
        name: String,
    },
    /// List volumes
    #[command(after_help = "Example:\n  paddock volume ls")]
    Ls {
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// One volume as JSON: its version, size, who writes to it, with whom it is shared
    #[command(after_help = "Example:\n  paddock volume show memory | jq .version")]
    Show {
        #[arg(value_parser = values::word)]
        name: String,
    },
    /// List what is in a volume
    #[command(after_help = "Example:\n  paddock volume files memory notes --version 3")]
    Files {
        #[arg(value_parser = values::word)]
        name: String,
        /// Only what is at or below this path
        path: Option<String>,
        #[command(flatten)]
        version: VersionFlag,
        #[command(flatten)]
        live: LiveFlag,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Copy a file out of a volume, to a file or to stdout
    #[command(after_help = "Example:\n  paddock volume get memory notes/today.md > today.md")]
    Get {
        #[arg(value_parser = values::word)]
        name: String,
        path: String,
        /// Where it goes [default: stdout]
        #[arg(value_name = "FILE")]
        to: Option<PathBuf>,
        #[command(flatten)]
        version: VersionFlag,
        #[command(flatten)]
        live: LiveFlag,
    },
    /// Put a file into a volume, as a new version
    #[command(after_help = "Example:\n  paddock volume put memory ./today.md notes/today.md")]
    Put {
        #[arg(value_parser = values::word)]
        name: String,
        #[arg(value_name = "FILE")]
        from: PathBuf,
        /// Its path in the volume [default: the file's own name]
        path: Option<String>,
        #[command(flatten)]
        live: LiveFlag,
    },
    /// Make a directory in a volume, as a new version
    #[command(after_help = "Example:\n  paddock volume mkdir memory notes/2026 --parents")]
    Mkdir {
        #[arg(value_parser = values::word)]
        name: String,
        path: String,
        /// Make what is missing above it, and be content if it exists
        #[arg(long, short)]
        parents: bool,
        #[command(flatten)]
        live: LiveFlag,
    },
    /// Change the permission bits of a path in a volume, as a new version
    #[command(after_help = "Example:\n  paddock volume chmod memory 755 notes/run.sh")]
    Chmod {
        #[arg(value_parser = values::word)]
        name: String,
        /// In octal
        #[arg(value_parser = octal)]
        mode: u32,
        path: String,
        #[command(flatten)]
        live: LiveFlag,
    },
    /// Remove a volume with all its versions, or one path of it as a new version
    #[command(
        after_help = "Examples:\n  paddock volume rm memory\n  paddock volume rm memory notes/today.md"
    )]
    Rm {
        #[arg(value_parser = values::word)]
        name: String,
        path: Option<String>,
        /// The present state in the sandbox that has it to write, in place of the current version
        #[arg(long, requires = "path")]
        live: bool,
    },
    /// Let another tenant have a volume too, as OWNER/NAME
    #[command(
        after_help = "Examples:\n  paddock volume share memory team-b --mode ro\n  paddock volume share memory team-b --stop"
    )]
    Share {
        #[arg(value_parser = values::word)]
        name: String,
        #[arg(value_parser = values::word)]
        tenant: String,
        /// The right: to read, or to write too
        #[arg(long, value_enum, default_value = "ro", conflicts_with = "stop")]
        mode: ModeName,
        /// No longer
        #[arg(long)]
        stop: bool,
    },
    /// List the versions that are kept, the newest first
    #[command(after_help = "Example:\n  paddock volume history memory")]
    History {
        #[arg(value_parser = values::word)]
        name: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make an earlier version the current one again, as a new version
    #[command(after_help = "Example:\n  paddock volume restore memory 3")]
    Restore {
        #[arg(value_parser = values::word)]
        name: String,
        version: u64,
    },
    /// Make a version of a sandbox's volume now, while it runs
    #[command(after_help = "Example:\n  paddock volume checkpoint build memory")]
    Checkpoint {
        /// Id or name of the sandbox
        #[arg(value_parser = values::word)]
        sandbox: String,
        #[arg(value_parser = values::word)]
        name: String,
    },
}

#[derive(Debug, Args)]
pub struct VersionFlag {
    /// A version that is not the current one
    #[arg(long, value_name = "NUMBER")]
    pub version: Option<u64>,
}

#[derive(Debug, Args)]
pub struct LiveFlag {
    /// The present state in the sandbox that has it to write, in place of the current version
    #[arg(long)]
    pub live: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModeName {
    Ro,
    Rw,
}

impl From<ModeName> for VolumeMode {
    fn from(mode: ModeName) -> VolumeMode {
        match mode {
            ModeName::Ro => VolumeMode::Ro,
            ModeName::Rw => VolumeMode::Rw,
        }
    }
}

/// How a new sandbox has volumes.
#[derive(Debug, Default, Args)]
pub struct VolumeFlags {
    /// A directory that outlives the sandbox, made where it is missing; repeatable
    #[arg(long = "volume", value_name = "NAME:PATH[:ro|rw]", value_parser = mount)]
    pub volumes: Vec<VolumeMount>,
    /// Fate of the changes in volumes when the sandbox fails [default: keep]
    #[arg(long, value_enum, requires = "volumes")]
    pub on_failure: Option<OnFailureName>,
    /// Make versions of volumes so often while it runs
    #[arg(long, value_name = "TIME", requires = "volumes", value_parser = values::duration)]
    pub checkpoint: Option<f64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum OnFailureName {
    /// It is lost
    Discard,
    /// It is kept as a version of its own, which the next sandbox does not get
    Keep,
    /// It becomes the current version
    Commit,
}

impl From<OnFailureName> for OnFailure {
    fn from(name: OnFailureName) -> OnFailure {
        match name {
            OnFailureName::Discard => OnFailure::Discard,
            OnFailureName::Keep => OnFailure::Keep,
            OnFailureName::Commit => OnFailure::Commit,
        }
    }
}

impl VolumeFlags {
    pub fn mounts(self) -> Vec<VolumeMount> {
        let on_failure = self.on_failure.unwrap_or(OnFailureName::Keep).into();
        let complete = |mount: VolumeMount| VolumeMount {
            on_failure,
            checkpoint_seconds: self.checkpoint.filter(|_| mount.mode == VolumeMode::Rw),
            ..mount
        };
        self.volumes.into_iter().map(complete).collect()
    }
}

fn octal(text: &str) -> Result<u32, String> {
    let digits = (1..=4).contains(&text.len()) && text.bytes().all(|byte| (b'0'..=b'7').contains(&byte));
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|_| digits)
        .ok_or_else(|| "write 1 to 4 octal digits, as in 755".into())
}

fn mount(text: &str) -> Result<VolumeMount, String> {
    let wrong = || "write NAME:PATH, NAME:PATH:ro or NAME:PATH:rw, as in memory:/data/memory".to_string();
    let (name, rest) = text.split_once(':').ok_or_else(wrong)?;
    let (path, mode) = match rest.rsplit_once(':') {
        Some((path, "ro")) => (path, VolumeMode::Ro),
        Some((path, "rw")) => (path, VolumeMode::Rw),
        Some((_, other)) => return Err(format!("`{}` is no mode: write ro or rw", other.escape_debug())),
        None => (rest, VolumeMode::Rw),
    };
    if name.is_empty() || path.is_empty() {
        return Err(wrong());
    }
    Ok(VolumeMount {
        name: name.into(),
        path: path.into(),
        mode,
        on_failure: OnFailure::Keep,
        checkpoint_seconds: None,
        version: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mode_is_octal() {
        assert_eq!((octal("755"), octal("0600")), (Ok(0o755), Ok(0o600)));
        for bad in ["", "8", "u+x", "77777"] {
            octal(bad).unwrap_err();
        }
    }

    #[test]
    fn a_volume_its_place_and_its_mode() {
        let found = mount("team/memory:/data/memory:ro").unwrap();
        assert_eq!(
            (found.name.as_str(), found.path.as_str(), found.mode),
            ("team/memory", "/data/memory", VolumeMode::Ro)
        );
        assert_eq!(mount("memory:.claude").unwrap().mode, VolumeMode::Rw);
        for bad in ["memory", ":/data/x", "memory:", "memory:/data/x:wo", ""] {
            mount(bad).unwrap_err();
        }
    }
}
