//! Flags and environment variables.

use crate::contestants::Workload;
use anyhow::{Context, Result, bail};
use std::path::PathBuf;

const HELP: &str = "\
Usage: paddock-bench [--rounds N] [--only true,python] [--no-install] [--results DIR]

  --rounds N      measured rounds per contestant, at least 50 [default: 100]
  --only LIST     some of the workloads: true, python [default: all]
  --no-install    do not install missing peers with apt-get
  --results DIR   where run.json and run.md are written [default: bench/results]

Environment:
  PADDOCK_BIN     the paddock to measure [default: `paddock` beside this executable]
";

/// The promise is about medians of at least so many.
const FEWEST_ROUNDS: usize = 50;

pub struct Options {
    pub rounds: usize,
    pub workloads: Vec<Workload>,
    pub install: bool,
    pub results: PathBuf,
    pub paddock: PathBuf,
}

impl Options {
    /// Nothing when only the help was asked for.
    pub fn from_process() -> Result<Option<Options>> {
        let Some(mut options) = Options::parse(std::env::args().skip(1))? else {
            print!("{HELP}");
            return Ok(None);
        };
        options.paddock = find_paddock()?;
        Ok(Some(options))
    }

    fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Option<Options>> {
        let mut options = Options {
            rounds: 100,
            workloads: Workload::ALL.to_vec(),
            install: true,
            results: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/results")),
            paddock: PathBuf::new(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(flag) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{flag} needs a value"));
            match flag.as_str() {
                "--rounds" => options.rounds = rounds(&value()?)?,
                "--only" => options.workloads = workloads(&value()?)?,
                "--no-install" => options.install = false,
                "--results" => options.results = PathBuf::from(value()?),
                "-h" | "--help" => return Ok(None),
                _ => bail!("`{flag}` is not an option; --help lists them"),
            }
        }
        Ok(Some(options))
    }
}

fn rounds(text: &str) -> Result<usize> {
    let rounds: usize = text.parse().with_context(|| format!("--rounds `{text}` is not a number"))?;
    if rounds < FEWEST_ROUNDS {
        bail!("--rounds has to be at least {FEWEST_ROUNDS}: the targets are about medians of that many");
    }
    Ok(rounds)
}

fn workloads(text: &str) -> Result<Vec<Workload>> {
    let find = |name: &str| {
        let found = Workload::ALL.into_iter().find(|workload| workload.name() == name);
        found.with_context(|| format!("--only `{name}`: there are true and python"))
    };
    text.split(',').map(find).collect()
}

fn find_paddock() -> Result<PathBuf> {
    let path = match std::env::var_os("PADDOCK_BIN") {
        Some(path) => PathBuf::from(path),
        None => std::env::current_exe()?.with_file_name("paddock"),
    };
    path.canonicalize().with_context(|| format!("no paddock at {}; set PADDOCK_BIN", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Option<Options>> {
        Options::parse(arguments.iter().map(|argument| argument.to_string()))
    }

    #[test]
    fn flags_change_the_defaults() {
        let options = parse(&[]).unwrap().unwrap();
        assert_eq!((options.rounds, options.workloads.len(), options.install), (100, 2, true));
        let options = parse(&["--rounds", "60", "--only", "python", "--no-install"]).unwrap().unwrap();
        assert_eq!((options.rounds, options.install), (60, false));
        assert_eq!(options.workloads, [Workload::Python]);
        assert!(parse(&["--help"]).unwrap().is_none());
    }

    #[test]
    fn bad_values_are_refused() {
        for bad in [&["--rounds", "5"][..], &["--rounds", "x"], &["--rounds"], &["--only", "perl"], &["now"]]
        {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
