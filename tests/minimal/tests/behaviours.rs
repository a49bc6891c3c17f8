//! A backend is small, and every behaviour of the API holds on it or is not offered: the group V of the conformance suite, on the
//! smallest backend. PADDOCK_ENGINES names a choice of the engines.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test: whatever is missing shall fail it")]

use paddock_verify::{Engine, Judgement, Options, verify};

const BACKEND: &str = include_str!("../src/backend.rs");
/// The promise of docs/architecture.md.
const MOST_LINES: usize = 150;
/// The only reasons for a behaviour that was not tried: the server answers that the backend cannot do it, or the host has no python3.
const REASONS: [&str; 2] =
    ["the server says that it is not supported: this backend cannot ", "this host's /usr has no python3"];

#[test]
fn a_backend_is_small() {
    let lines = BACKEND.lines().count();
    assert!(lines <= MOST_LINES, "it has {lines} lines");
}

#[test]
fn every_behaviour_holds_on_it_or_is_not_offered() {
    let options = Options {
        executable: env!("CARGO_BIN_EXE_minimal-paddock").into(),
        backends: vec!["minimal".into()],
        only: vec!["V".into()],
        engines: engines(),
        ..Options::default()
    };
    let report = verify(&options, &mut |_| {}).unwrap();
    println!("{}", report.text(false));
    assert!(report.held, "{} behaviours did not hold", report.failures().len());
    for judged in report.rows.iter().flat_map(|row| &row.attacks) {
        if let Judgement::NotApplicable(reason) = &judged.judgement {
            println!("{}: {reason}", judged.id);
            assert!(REASONS.iter().any(|known| reason.starts_with(known)), "{}: {reason}", judged.id);
        }
    }
    let (held, _, not_offered) = report.rows[0].counts('V');
    assert!(held > 6 * not_offered, "{held} held, {not_offered} not offered");
}

fn engines() -> Vec<Engine> {
    let chosen = std::env::var("PADDOCK_ENGINES").unwrap_or_default();
    let known = |name: &str| match name {
        "root" => Engine::Root,
        "rootless" => Engine::Rootless,
        other => panic!("PADDOCK_ENGINES: no engine `{other}`"),
    };
    chosen.split(',').filter(|name| !name.is_empty()).map(known).collect()
}
