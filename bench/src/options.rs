//! Flags and environment variables.

use crate::contestants::Workload;
use crate::server::Part;
use anyhow::{Context, Result, bail};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

const HELP: &str = "\
Usage: paddock-bench [--rounds N] [--only LIST] [--live N] [--soak SECONDS]
                     [--quick] [--no-install] [--results DIR]

  --rounds N      measured rounds of each beside `paddock run`, at least 50 [default: 100]
  --only LIST     some of it [default: all]:
                  true, python: `paddock run` beside its peers
                  server: all of the server, or server-first, server-warm, server-burst, server-crowd,
                  server-stream, server-fork, server-recovery
                  gate: all of the gate, or gate-traffic, gate-idle
                  agents: all that agents call, or agents-mcp, agents-handle
                  volumes: what outlives sandboxes
                  jobs: an array of 2,000 scripts
                  microvm: sandboxes with a kernel of their own
                  live-fork: a Python context, forked as it stands
                  laptop: the Python SDK with nothing set up
                  e2b: E2B's SDK beside raw HTTP
                  inspect: 200 samples of Inspect, forked from one sandbox
                  run-code: SandboxFusion's client and verl's rewards
                  dashboard: the page in Chromium beside 1,000 sandboxes, and what it costs the server
                  scale: thousands of sandboxes and many clients, or scale-crowd, scale-rates, scale-forks, scale-soak
                  code: all of run_code, or code-first, code-preloaded, code-warm, code-burst, code-sustained,
                  code-crowd
  --live N        so many sandboxes live at once in scale-crowd [default: 2000]
  --soak SECONDS  how long scale-soak takes [default: 60]
  --quick         of run_code only a few of each: to try the bench, not to measure
  --no-install    do not install missing peers with apt-get, pip and npm
  --results DIR   where run.md, server.md, gate.md, agents.md, volumes.md, jobs.md, microvm.md, live-fork.md, laptop.md, e2b.md, inspect.md, run-code.md, dashboard.md, scale.md and code.md are written, each with a .json, and the plot
                  [default: bench/results; then the plot goes to docs/images, and the table into docs/speed.md]

Environment:
  PADDOCK_BIN     the paddock to measure [default: `paddock` beside this executable]
";

/// The promise is about medians of at least so many.
const FEWEST_ROUNDS: usize = 50;

pub struct Options {
    pub rounds: usize,
    pub workloads: Vec<Workload>,
    pub parts: Vec<Part>,
    /// The live sandboxes of `scale-crowd`, at its last point.
    pub live: usize,
    /// The time of `scale-soak`.
    pub soak: Duration,
    pub install: bool,
    pub quick: bool,
    pub results: PathBuf,
    /// The repository, unless the results are to be elsewhere.
    pub repository: Option<PathBuf>,
    pub paddock: PathBuf,
}

impl Options {
    /// `None` when only the help was asked for.
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
            parts: Part::all().collect(),
            live: 2_000,
            soak: Duration::from_secs(60),
            install: true,
            quick: false,
            results: PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/results")),
            repository: Some(PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))),
            paddock: PathBuf::new(),
        };
        let mut arguments = arguments.into_iter();
        while let Some(flag) = arguments.next() {
            let mut value = || arguments.next().with_context(|| format!("{flag} needs a value"));
            match flag.as_str() {
                "--rounds" => options.rounds = rounds(&value()?)?,
                "--live" => options.live = number(&flag, &value()?, 1..=36_000)?,
                "--soak" => options.soak = Duration::from_secs(number(&flag, &value()?, 10..=86_400)? as u64),
                "--only" => (options.workloads, options.parts) = selection(&value()?)?,
                "--no-install" => options.install = false,
                "--quick" => options.quick = true,
                "--results" => (options.results, options.repository) = (PathBuf::from(value()?), None),
                "-h" | "--help" => return Ok(None),
                _ => bail!("`{flag}` is not an option; --help lists them"),
            }
        }
        Ok(Some(options))
    }
}

fn number(flag: &str, text: &str, allowed: RangeInclusive<usize>) -> Result<usize> {
    let number: usize = text.parse().with_context(|| format!("{flag} `{text}` is not a number"))?;
    if !allowed.contains(&number) {
        bail!("{flag} {number} has to be from {} to {}", allowed.start(), allowed.end());
    }
    Ok(number)
}

fn rounds(text: &str) -> Result<usize> {
    let rounds: usize = text.parse().with_context(|| format!("--rounds `{text}` is not a number"))?;
    if rounds < FEWEST_ROUNDS {
        bail!("--rounds has to be at least {FEWEST_ROUNDS}: the targets are about medians of that many");
    }
    Ok(rounds)
}

/// In the order in which they are measured, not in that in which they are named.
fn selection(text: &str) -> Result<(Vec<Workload>, Vec<Part>)> {
    let named: Vec<_> = text.split(',').collect();
    let is_known = |name: &str| {
        [
            "server",
            "gate",
            "agents",
            "volumes",
            "jobs",
            "microvm",
            "live-fork",
            "laptop",
            "e2b",
            "inspect",
            "run-code",
            "dashboard",
            "scale",
            "code",
        ]
        .contains(&name)
            || Workload::ALL.iter().any(|workload| workload.name() == name)
            || Part::all().any(|part| part.name() == name)
    };
    if let Some(unknown) = named.iter().find(|name| !is_known(name)) {
        bail!("--only `{unknown}` is nothing that can be measured; --help lists what is");
    }
    let workloads = Workload::ALL.into_iter().filter(|workload| named.contains(&workload.name()));
    let parts = Part::all().filter(|part| named.contains(&part.name()) || named.contains(&part.group()));
    Ok((workloads.collect(), parts.collect()))
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
        assert_eq!(options.parts, []);
        let options = parse(&["--only", "server-fork,true,server-warm"]).unwrap().unwrap();
        assert_eq!(options.workloads, [Workload::True]);
        assert_eq!(options.parts, [Part::Warm, Part::Fork]);
        let options = parse(&["--only", "server"]).unwrap().unwrap();
        assert_eq!((options.workloads.len(), options.parts), (0, Part::SERVER.to_vec()));
        let options = parse(&["--only", "code", "--quick", "--results", "x"]).unwrap().unwrap();
        assert_eq!((options.parts, options.quick), (Part::CODE.to_vec(), true));
        assert_eq!(options.repository, None);
        assert!(parse(&["--help"]).unwrap().is_none());
    }

    #[test]
    fn bad_values_are_refused() {
        for bad in [
            &["--rounds", "5"][..],
            &["--rounds", "x"],
            &["--rounds"],
            &["--live", "0"],
            &["--soak", "soon"],
            &["--only", "perl"],
            &["--only", ""],
            &["now"],
        ] {
            assert!(parse(bad).is_err(), "{bad:?}");
        }
    }
}
