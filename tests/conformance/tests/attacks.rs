//! Every attack, behind every backend of `PADDOCK_BACKENDS`, as root and rootless, as an ordinary user and as
//! root inside; with the controls, the canaries and the sweep.

use anyhow::{Context, Result};
use paddock_conformance::attack::{Attack, Control, Finding, Outcome, Stage as Staging};
use paddock_conformance::control::{Outside, lines};
use paddock_conformance::expectations::{Expectation, Expectations};
use paddock_conformance::fence::{Engine, Fence, Identity};
use paddock_conformance::host::Host;
use paddock_conformance::probe::attacks;
use paddock_conformance::scenarios::{Scenario, Shown, Stage, scenarios};
use paddock_conformance::table::{Result as Verdict, Table};
use paddock_conformance::{sweep, table};
use paddock_model::{Cause, Guarantees};
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

type Findings = BTreeMap<String, Finding>;

#[test]
fn every_attack_has_an_expectation() {
    let ids = attacks().map(|attack| attack.id).chain(scenarios().map(|scenario| scenario.id));
    Expectations::load().unwrap().match_with(ids).unwrap();
}

/// The lines of the groups E and G of the catalogue, whose attacks are not all this suite's own.
const LINES: [&str; 25] = [
    "E1", "E2", "E4", "E5", "E7", "E8", "E9", "E10", "E11", "E12", "E14", "G1", "G3", "G4", "G5", "G7", "G9",
    "G10", "G11", "G12", "G14", "G16", "G18", "G21", "G23",
];

#[test]
fn every_line_of_e_and_g_is_tried_or_has_a_reason() {
    let expectations = Expectations::load().unwrap();
    expectations.complete(&LINES).unwrap();
    expectations.complete(&["A21", "B14", "F7"]).unwrap();
    expectations.found_in(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")).unwrap();
    // A line that nobody wrote down would be noticed.
    assert!(expectations.complete(&["E99"]).is_err());
}

#[test]
fn the_fence_stands() {
    let begun = Instant::now();
    let expectations = Expectations::load().unwrap();
    let mut host = Host::prepare(Path::new(env!("CARGO_BIN_EXE_probe"))).unwrap();
    let controls = Controls::run(&host).unwrap();
    let mut table = Table::default();
    let backends = std::env::var("PADDOCK_BACKENDS").unwrap_or_else(|_| "process".to_string());
    for backend in backends.split(',') {
        for identity in identities(&host) {
            let row = format!("{backend} {identity}");
            let fence = host.fence(backend, identity).unwrap();
            let before = host.canary_hashes().unwrap();
            if let Err(error) = all_attacks(&host, &fence, &expectations, &controls, &mut table) {
                table.put(&row, "?-suite", Verdict::Failed(format!("{error:#}")));
            }
            let canaries = host.canary_hashes().and_then(|after| {
                let changed: Vec<_> =
                    before.iter().filter(|(path, hash)| after.get(*path) != Some(hash)).collect();
                anyhow::ensure!(changed.is_empty(), "changed: {changed:?}");
                host.unharmed()
            });
            put_check(&mut table, &row, "Z1-canaries", canaries);
        }
    }
    std::thread::sleep(Duration::from_millis(300));
    let left = sweep::leftovers(host.folder.path(), &host.sandboxes());
    let clean = if left.is_empty() { Ok(()) } else { Err(anyhow::anyhow!("{left:#?}")) };
    put_check(&mut table, "all", "Z2-nothing-left", clean);

    println!("{}", table.print(&expectations.elsewhere, &expectations.skipped));
    let count = attacks().count() + scenarios().count();
    println!("{count} attacks, {} sandboxes, {:?}", host.sandboxes().len(), begun.elapsed());
    let failures = table.failures();
    drop(host);
    assert!(failures.is_empty(), "{} attacks were not held", failures.len());
}

fn put_check(table: &mut Table, row: &str, id: &str, result: Result<()>) {
    let verdict = result.map_or_else(|error| Verdict::Failed(format!("{error:#}")), |()| table::Result::Held);
    table.put(row, id, verdict);
}

fn identities(host: &Host) -> Vec<Identity> {
    let engines: &[Engine] =
        if host.as_root { &[Engine::Root, Engine::Rootless] } else { &[Engine::Rootless] };
    let wanted = std::env::var("PADDOCK_ENGINES").unwrap_or_else(|_| "root,rootless".to_string());
    let engines = engines.iter().filter(|engine| wanted.split(',').any(|w| w == engine.to_string()));
    engines.flat_map(|engine| ["agent", "root"].map(|user| Identity { engine: *engine, user })).collect()
}

/// What the attacks come to outside; the same for every fence, so found out once.
struct Controls {
    findings: Findings,
    as_root: bool,
}

impl Controls {
    fn run(host: &Host) -> Result<Controls> {
        let outside = Outside::prepare(host)?;
        let mut findings = Findings::new();
        for control in [Control::Namespaces, Control::Host] {
            let ids: Vec<&str> = attacks().filter(|a| a.control == control).map(|a| a.id).collect();
            findings.extend(outside.batch(control, &ids)?);
        }
        let place = outside.place();
        for scenario in scenarios() {
            let Shown::Part(part) = scenario.control else { continue };
            let words: Vec<&str> =
                part.iter().map(|word| if *word == "PLACE" { &place } else { *word }).collect();
            let arguments: Vec<&str> = std::iter::once("--do").chain(words).collect();
            let run = outside.run(Control::Namespaces, &arguments)?;
            let said = lines(&run.stdout).remove(part[0]);
            findings.extend(said.map(|finding| (scenario.id.to_string(), finding)));
        }
        Ok(Controls { findings, as_root: host.as_root })
    }

    /// `Ok(None)` when the attack is shown to work; a reason when the machine cannot show it.
    fn show(&self, id: &str, expectation: &Expectation) -> Result<Option<String>, String> {
        let said = match self.findings.get(id) {
            Some(finding) if finding.outcome == Outcome::Done => return Ok(None),
            Some(finding) => format!("{:?}: {}", finding.outcome, finding.detail),
            None => "said nothing".to_string(),
        };
        match &expectation.control_may_fail {
            Some(reason) => Ok(Some(format!("{reason} (control: {said})"))),
            None if !self.as_root => Ok(Some(format!("the control needs root (control: {said})"))),
            None => Err(format!("the control did not succeed: {said}")),
        }
    }
}

fn all_attacks(
    host: &Host,
    fence: &Fence,
    expectations: &Expectations,
    controls: &Controls,
    table: &mut Table,
) -> Result<()> {
    let row = format!("{} {}", fence.backend, fence.identity);
    let only = std::env::var("PADDOCK_ATTACKS").unwrap_or_default();
    let chosen = |id: &str| only.is_empty() || only.split(',').any(|start| id.starts_with(start));

    let batch: Vec<&Attack> = attacks().filter(|a| a.stage == Staging::Batch && chosen(a.id)).collect();
    let ids: Vec<&str> = batch.iter().map(|attack| attack.id).collect();
    let run = fence.probe(host, &["--timeout", "60s"], &["--batch", &ids.join(",")])?;
    let report = run.report().context("the batch of attacks")?;
    let guarantees = report.guarantees.clone();
    let found = lines(&report.stdout);
    for attack in batch {
        let finding = found.get(attack.id).cloned().context("no answer");
        judge(table, &row, attack.id, expectations, controls, fence, &guarantees, attack.control, || finding);
    }
    for attack in attacks().filter(|a| a.stage == Staging::Alone && chosen(a.id)) {
        let control = attack.control;
        judge(table, &row, attack.id, expectations, controls, fence, &guarantees, control, || {
            alone(host, fence, attack)
        });
    }
    let stage = Stage { host, fence };
    for scenario in scenarios().filter(|s| chosen(s.id)) {
        let control = match scenario.control {
            Shown::Part(_) => Control::Namespaces,
            Shown::Behaviour => Control::EffectOnly,
        };
        let run = || scene(scenario, &stage);
        judge(table, &row, scenario.id, expectations, controls, fence, &guarantees, control, run);
    }
    Ok(())
}

fn scene(scenario: &Scenario, stage: &Stage) -> Result<Finding> {
    (scenario.run)(stage)
}

/// The run must be reported as finished by itself, whatever the attack did to the guest.
fn alone(host: &Host, fence: &Fence, attack: &Attack) -> Result<Finding> {
    let run = fence.probe(host, &["--timeout", "20s"], &[attack.id])?;
    let report = run.report()?;
    let finding = lines(&report.stdout).remove(attack.id);
    anyhow::ensure!(
        report.cause == Cause::Finished && report.exit_code == 0,
        "ended with {:?}, exit {}, stderr {:?}",
        report.cause,
        report.exit_code,
        report.stderr
    );
    anyhow::ensure!(run.wall < Duration::from_secs(5), "took {:?}", run.wall);
    finding.context("no answer")
}

#[allow(clippy::too_many_arguments, reason = "everything that an attack is judged by, in one place")]
fn judge(
    table: &mut Table,
    row: &str,
    id: &str,
    expectations: &Expectations,
    controls: &Controls,
    fence: &Fence,
    guarantees: &Guarantees,
    control: Control,
    run: impl FnOnce() -> Result<Finding>,
) {
    let expectation = expectations.of(id);
    if let Some(reason) = expectation.excuse(fence.identity, guarantees) {
        return table.put(row, id, Verdict::NotApplicable(reason));
    }
    let shown = if control == Control::EffectOnly { Ok(None) } else { controls.show(id, expectation) };
    let found = run();
    if std::env::var_os("PADDOCK_VERBOSE").is_some() {
        println!("{row} {id}: {found:?}");
    }
    let verdict = match found {
        Ok(finding) if expectation.verdict.accepts(finding.outcome) => match shown {
            Ok(None) => Verdict::Held,
            Ok(Some(reason)) => Verdict::NotApplicable(reason),
            Err(why) => Verdict::Failed(why),
        },
        Ok(finding) => Verdict::Failed(format!(
            "{:?} expected, but {:?}: {}",
            expectation.verdict, finding.outcome, finding.detail
        )),
        Err(error) => Verdict::Failed(format!("{error:#}")),
    };
    table.put(row, id, verdict);
}
