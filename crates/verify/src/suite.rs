//! The whole suite: every attack, behind every backend that the host has, as root and rootless, as an ordinary user and
//! as root inside; with the controls, the canaries and the sweep.

use crate::attack::Attack;
use crate::control::Controls;
use crate::error::VerifyError;
use crate::expectations::Expectations;
use crate::fence::{Engine, Identity};
use crate::host::Host;
use crate::judge::Judge;
use crate::probe::attacks;
use crate::report::{Judgement, NotRun, Report, Row};
use crate::scenarios::{Scenario, scenarios};
use crate::{GROUPS, behaviour, interrupt, sweep};
use anyhow::Result;
use paddock_model::{Availability, CheckState};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Debug, Clone, Default)]
pub struct Options {
    /// The `paddock` to verify, which is also the probe.
    pub executable: PathBuf,
    /// All backends of the host when empty.
    pub backends: Vec<String>,
    /// Beginnings of the ids to try; all when empty.
    pub only: Vec<String>,
    /// All possible engines when empty: without root there is only the rootless one.
    pub engines: Vec<Engine>,
    pub verbose: bool,
    /// For the executable under test, beside every caller's variables.
    pub environment: Vec<(String, String)>,
}

/// The progress of the suite, for the waiting user.
#[derive(Debug)]
pub enum Step<'a> {
    Controls,
    Row { name: &'a str, number: usize, of: usize },
    Attack { id: &'a str, done: usize, of: usize },
}

/// The id of every attack, for comparison with other lists.
pub fn ids() -> impl Iterator<Item = &'static str> {
    attacks().map(|attack| attack.id).chain(scenarios().map(|scenario| scenario.id))
}

/// The operations of the API whose behaviour is tried, as its description calls them.
pub fn operations() -> impl Iterator<Item = &'static str> {
    behaviour::checks().flat_map(|check| check.operations.iter().copied())
}

pub fn verify(options: &Options, tell: &mut dyn FnMut(Step)) -> Result<Report, VerifyError> {
    interrupt::watch();
    let chosen = Chosen::of(options)?;
    Ok(run(options, &chosen, tell)?)
}

struct Chosen {
    attacks: Vec<&'static Attack>,
    scenarios: Vec<&'static Scenario>,
    only: Vec<String>,
}

impl Chosen {
    fn of(options: &Options) -> Result<Chosen, VerifyError> {
        let mut chosen = Chosen { attacks: Vec::new(), scenarios: Vec::new(), only: options.only.clone() };
        let known: Vec<String> = ids().map(str::to_string).chain(behaviour::ids()).collect();
        if let Some(unknown) = options.only.iter().find(|only| !known.iter().any(|id| belongs(id, only))) {
            let known = GROUPS.map(|(letter, about)| format!("{letter} ({about})")).join(", ");
            return Err(VerifyError::UnknownGroup { name: unknown.clone(), known });
        }
        chosen.attacks = attacks().filter(|attack| chosen.has(attack.id)).collect();
        chosen.scenarios = scenarios().filter(|scenario| chosen.has(scenario.id)).collect();
        Ok(chosen)
    }

    fn has(&self, id: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| belongs(id, only))
    }

    fn len(&self) -> usize {
        self.attacks.len() + self.scenarios.len() + behaviour::ids().filter(|id| self.has(id)).count()
    }
}

/// `C1` is `C1-unshare-user` and not `C13-reboot`; `C` is all of them.
fn belongs(id: &str, only: &str) -> bool {
    match only.len() {
        1 => id.starts_with(only),
        _ => id.strip_prefix(only).is_some_and(|rest| rest.is_empty() || rest.starts_with('-')),
    }
}

fn run(options: &Options, chosen: &Chosen, tell: &mut dyn FnMut(Step)) -> Result<Report> {
    let begun = Instant::now();
    let expectations = Expectations::load()?;
    let mut host = Host::prepare(&options.executable, &options.environment)?;
    let (rows, not_run) = rows(&host, options)?;
    tell(Step::Controls);
    let controls = Controls::run(&host, &chosen.attacks, &chosen.scenarios)?;
    let mut report = Report { not_run, attacks: chosen.len(), ..Report::default() };
    let of = rows.len();
    for (at, (backend, identity)) in rows.into_iter().enumerate() {
        let mut row = empty_row(&backend, identity);
        tell(Step::Row { name: &row.name(), number: at + 1, of });
        one_row(
            &mut host,
            (&backend, identity),
            options,
            (&expectations, &controls),
            chosen,
            &mut row,
            tell,
        )?;
        report.rows.push(row);
    }
    // The processes that were killed last need a moment to be gone.
    std::thread::sleep(Duration::from_millis(300));
    report.left_behind = sweep::leftovers(host.folder.path(), &host.sandboxes());
    report.elsewhere = expectations.elsewhere.into_iter().filter(|(line, _)| chosen.has(line)).collect();
    report.skipped = expectations.skipped.into_iter().filter(|(line, _)| chosen.has(line)).collect();
    report.sandboxes = host.sandboxes().len();
    report.seconds = begun.elapsed().as_secs_f64();
    report.held = report.failures().is_empty();
    Ok(report)
}

fn empty_row(backend: &str, identity: Identity) -> Row {
    let (engine, user) = (identity.engine.to_string(), identity.user.to_string());
    Row { backend: backend.to_string(), engine, user, guarantees: None, attacks: Vec::new() }
}

fn one_row(
    host: &mut Host,
    (backend, identity): (&str, Identity),
    options: &Options,
    (expectations, controls): (&Expectations, &Controls),
    chosen: &Chosen,
    row: &mut Row,
    tell: &mut dyn FnMut(Step),
) -> Result<()> {
    let fence = host.fence(backend, identity)?;
    let before = host.canary_hashes()?;
    let judge = Judge { host, fence: &fence, expectations, controls, verbose: options.verbose };
    let mut done = 0;
    let mut told = |id: &str| {
        done += 1;
        tell(Step::Attack { id, done, of: chosen.len() });
    };
    if !chosen.attacks.is_empty() || !chosen.scenarios.is_empty() {
        let all = judge.all(&chosen.attacks, &chosen.scenarios, row, &mut told);
        interrupt::check()?;
        if let Err(error) = all {
            row.put("?-suite", "the attacks could be carried out", Judgement::Failed(format!("{error:#}")));
        }
    }
    if behaviour::applies(identity) {
        let fits = |id: &str| chosen.has(id);
        let behaved = behaviour::run(host, backend, identity.engine, &fits, row, &mut told);
        interrupt::check()?;
        if let Err(error) = behaved {
            row.put("V-server", "a server with a sandbox came up", Judgement::Failed(format!("{error:#}")));
        }
    }
    let unharmed = host.canary_hashes().and_then(|after| {
        let changed: Vec<_> = before.iter().filter(|(path, hash)| after.get(*path) != Some(hash)).collect();
        anyhow::ensure!(changed.is_empty(), "changed: {changed:?}");
        host.unharmed()
    });
    let judgement = unharmed.map_or_else(|e| Judgement::Failed(format!("{e:#}")), |()| Judgement::Held);
    row.put("Z1-canaries", "no canary of the host was changed, and its processes live", judgement);
    Ok(())
}

/// A backend, and its users outside and inside.
type Wanted = (String, Identity);

/// Which backends and identities there are to try, and which the host lacks.
fn rows(host: &Host, options: &Options) -> Result<(Vec<Wanted>, Vec<NotRun>)> {
    let possible: &[Engine] =
        if host.as_root { &[Engine::Root, Engine::Rootless] } else { &[Engine::Rootless] };
    let wanted = |engine: &&Engine| options.engines.is_empty() || options.engines.contains(engine);
    let (mut rows, mut not_run) = (Vec::new(), Vec::new());
    let mut known = Vec::new();
    for engine in possible.iter().filter(wanted) {
        for backend in host.backends(*engine)? {
            known.push(backend.backend.clone());
            if !options.backends.is_empty() && !options.backends.contains(&backend.backend) {
                continue;
            }
            if backend.usable {
                rows.extend(
                    ["agent", "root"]
                        .map(|user| (backend.backend.clone(), Identity { engine: *engine, user })),
                );
            } else {
                not_run.push(lack(&backend, *engine));
            }
        }
    }
    if !host.as_root {
        let reason = "the suite was started by an ordinary user; start it as root to verify that engine too";
        not_run.push(NotRun { backend: "all".into(), engine: "root".into(), reason: reason.into() });
    }
    known.sort();
    known.dedup();
    if let Some(unknown) = options.backends.iter().find(|name| !known.contains(name)) {
        return Err(VerifyError::UnknownBackend { name: unknown.clone(), known: known.join(", ") }.into());
    }
    // By backend, so that its rows stand together.
    rows.sort_by(|a, b| a.0.cmp(&b.0).reverse());
    if rows.is_empty() {
        let reasons = not_run.iter().map(|lack| format!("{}: {}", lack.backend, lack.reason));
        return Err(VerifyError::NothingToVerify { reasons: reasons.collect::<Vec<_>>().join("; ") }.into());
    }
    Ok((rows, not_run))
}

fn lack(backend: &Availability, engine: Engine) -> NotRun {
    let missing = backend.checks.iter().filter(|check| check.state == CheckState::Missing);
    let reason =
        missing.map(|check| format!("{}: {}", check.name, check.detail)).collect::<Vec<_>>().join("; ");
    NotRun { backend: backend.backend.clone(), engine: engine.to_string(), reason }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attack::group;

    #[test]
    fn every_attack_has_an_expectation_and_a_group() {
        Expectations::load().unwrap().match_with(ids()).unwrap();
        for id in ids() {
            assert!(GROUPS.iter().any(|(letter, _)| *letter == group(id)), "{id}");
        }
    }

    #[test]
    fn a_group_that_is_not_there_is_refused() {
        let options = Options { only: vec!["Q".into()], ..Options::default() };
        assert!(matches!(Chosen::of(&options), Err(VerifyError::UnknownGroup { .. })));
    }
}
