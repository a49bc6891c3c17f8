//! Templates that are built: from a file that lists packages and commands, to an image and a template that names it.
//!
//! - [`file`]: the build file, read and checked, each mistake with its line; [`shipped`]: the build files that come
//!   with Paddock
//! - [`builder`]: the order of a build: base, steps, the template; finished layers come from the cache
//! - [`base`]: the root below the first step: an image, a directory, or [`debian`] from its packages
//! - [`step`]: one step: its programs, and the key that tells if an earlier result is as good
//! - [`fetch`]: the host's loans to a step that fetches: package sources ([`apt`]), indexes, proxies, certificates
//! - [`copied`]: files of the build's own directory on their way in; [`uploaded`]: those of an archive that a client uploaded
//! - [`recipe`]: the description of a client's build, checked, as steps ([`client_step`])
//! - [`uploads`]: the archives of clients, kept for their builds; [`log`]: the log of such a build
//! - [`first_use`]: templates that are built when a create names them first
//! - [`run`]: a step in a sandbox of its own, and its changes as a root
//! - [`command_builds`]: the builds of the command line, for a server that lists them
//! - [`records`]: the layers of each template, and the removal of unused ones
//!
//! Every step runs in a sandbox (decision 22), and the host reads its result as it reads any hostile archive.

mod apt;
mod base;
mod builder;
mod client_step;
mod command_builds;
mod copied;
mod debian;
mod error;
mod fetch;
mod file;
mod first_use;
mod log;
mod recipe;
mod records;
mod run;
mod step;
mod uploaded;
pub mod uploads;

pub use base::Login;
pub use builder::{Build, Built, BuiltLayer, Target, build};
pub use command_builds::{CommandBuild, command_build, command_builds};
pub use error::{BuildError, StepFailure, told};
pub use file::{BuildFile, BuildFileError, parse};
pub use first_use::{FirstUse, FirstUseError, FirstUseOptions, first_builds};
pub use log::{Log, saved_entries};
pub use paddock_settings::shipped_builds::{NAMES as SHIPPED, text as shipped};
pub use recipe::{Parent, Recipe, RecipeError, hash_problem};
pub use records::{Pruned, TemplateRecord, free, prune, record_of};
pub use run::{Event, Watcher};
pub use uploaded::MOST_BYTES as MOST_COPIED_BYTES;

#[cfg(test)]
mod tests {
    #[test]
    fn every_shipped_file_is_a_build_file() {
        for name in super::SHIPPED {
            let file = super::parse(super::shipped(name).unwrap());
            assert!(file.is_ok(), "{name}: {:?}", file.err());
        }
        assert!(super::shipped("other").is_none());
    }

    /// The `sudo` of the templates for E2B's programs, with an `id` in front of it that says who asks.
    #[test]
    fn sudo_in_e2bs_templates_runs_for_root_and_tells_others_what_to_do() {
        for name in ["base", "code-interpreter-v1"] {
            let file = super::shipped(name).unwrap();
            let (_, script) = file.split_once("<< 'END'\n").unwrap();
            let (script, _) = script.split_once("\nEND\n").unwrap();
            let place = tempfile::tempdir().unwrap();
            let run = |uid: &str, words: &[&str]| {
                let id = place.path().join("id");
                std::fs::write(&id, format!("#!/bin/sh\necho {uid}\n")).unwrap();
                std::fs::set_permissions(&id, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
                let path = format!("{}:/usr/bin:/bin", place.path().display());
                let mut command = std::process::Command::new("sh");
                command.args(["-c", script, "sudo"]).args(words).env("PATH", path);
                let output = command.output().unwrap();
                let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
                (output.status.code(), text(output.stdout), text(output.stderr))
            };
            assert_eq!(run("0", &["-n", "-E", "-u", "root", "A=b c", "sh", "-c", "echo \"$A\""]).1, "b c\n");
            assert_eq!(run("0", &["--", "false"]).0, Some(1));
            let (code, out, error) = run("1000", &["apt-get", "install", "-y", "jq"]);
            assert_eq!((code, out.as_str()), (Some(1), ""));
            assert!(error.contains("user=\"root\"") && error.contains("apt_install"), "{error}");
            for (words, said) in
                [(&["-u", "postgres", "id"][..], "postgres"), (&["-Z"], "-Z"), (&[], "command")]
            {
                let (code, _, error) = run("0", words);
                assert!(code == Some(1) && error.contains(said), "{words:?}: {error}");
            }
        }
    }
}
