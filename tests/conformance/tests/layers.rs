//! Every layer is there for something: a build of `paddock` whose layers can be taken away is attacked without each of
//! them, and something gives way. The ordinary executable cannot be weakened.
//!
//! Built in debug, beside everything else: only crates with the feature are compiled anew.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test: whatever is missing shall fail it")]

use paddock_conformance::layers::{CASES, Case, Who};
use paddock_verify::{Engine, Judgement, Options, Report, verify};
use std::path::{Path, PathBuf};
use std::process::Command;

const VARIABLE: &str = "PADDOCK_TEST_WITHOUT";

#[test]
fn without_any_one_layer_an_attack_succeeds() {
    if !rustix_is_root() {
        println!("SKIP layers: only root can be attacked from both engines");
        return;
    }
    let folder = Folder::new();
    let weakened = build(&folder.0);
    let every: Vec<&str> = CASES.iter().flat_map(|case| case.attacks).copied().collect();
    let whole = attacked(&weakened, &every, &[Engine::Root, Engine::Rootless], "");
    assert!(whole.held, "with every layer it has to hold:\n{}", whole.text(false));

    let mut useless = Vec::new();
    for case in CASES {
        let report = attacked(&weakened, case.attacks, &[engine(case)], case.without);
        let succeeded = succeeded(&report);
        println!("without {}: {}", case.without, succeeded.join(" "));
        let held = |id: &&&str| !succeeded.iter().any(|through| through == **id) && !is_excused(&report, id);
        let held: Vec<_> = case.attacks.iter().filter(held).collect();
        if succeeded.is_empty() || !held.is_empty() {
            useless.push(format!("without {} {held:?} still held:\n{}", case.without, report.text(false)));
        }
    }
    assert!(useless.is_empty(), "{}", useless.join("\n"));
}

/// Tries the variable as code inside, or a user's environment, could set it.
#[test]
fn the_ordinary_executable_has_no_such_variable() {
    let executable = std::fs::read(ordinary()).unwrap();
    let found = executable.windows(VARIABLE.len()).any(|window| window == VARIABLE.as_bytes());
    assert!(!found, "{} can be weakened", ordinary().display());
}

#[test]
fn the_table_of_the_documentation_is_this_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/security/layers.md");
    let text = std::fs::read_to_string(path).unwrap();
    let rows: Vec<Vec<&str>> = text
        .lines()
        .filter(|line| line.starts_with("| `"))
        .map(|line| line.split('|').map(str::trim).collect())
        .collect();
    for case in CASES {
        let names: Vec<String> = case.without.split(',').map(|name| format!("`{name}`")).collect();
        let row = rows.iter().find(|row| row[1] == names.join(" and "));
        let row = row.unwrap_or_else(|| panic!("no row for {}", case.without));
        assert_eq!(row[3], case.attacks.join(" "), "the row of {}", case.without);
    }
    assert_eq!(rows.len(), CASES.len(), "a row that nothing tests");
}

fn engine(case: &Case) -> Engine {
    match case.who {
        Who::Root => Engine::Root,
        Who::Rootless => Engine::Rootless,
    }
}

fn attacked(executable: &Path, only: &[&str], engines: &[Engine], without: &str) -> Report {
    let options = Options {
        executable: executable.to_path_buf(),
        backends: vec!["process".to_string()],
        only: only.iter().map(ToString::to_string).collect(),
        engines: engines.to_vec(),
        verbose: false,
        environment: vec![(VARIABLE.to_string(), without.to_string())],
    };
    verify(&options, &mut |_| {}).unwrap()
}

/// Only attacks that came through count: an attack that could not be carried out shows nothing.
fn succeeded(report: &Report) -> Vec<String> {
    let judged = report.rows.iter().flat_map(|row| &row.attacks);
    let through = judged.filter(|attack| match &attack.judgement {
        Judgement::Failed(why) => why.contains("expected, but Done"),
        _ => false,
    });
    let mut ids: Vec<String> = through.map(|attack| attack.id.clone()).collect();
    ids.sort();
    ids.dedup();
    ids
}

/// The host has nothing there to attack, which the control measured.
fn is_excused(report: &Report, id: &str) -> bool {
    let mut judged = report.rows.iter().flat_map(|row| &row.attacks).filter(|attack| attack.id == id);
    judged.all(|attack| matches!(attack.judgement, Judgement::NotApplicable(_)))
}

/// The feature's own executable, taken out of the target directory so that no other test finds it there.
fn build(to: &Path) -> PathBuf {
    let place = std::env::current_exe().unwrap().parent().unwrap().with_file_name("paddock");
    let (kept, weakened) = (to.join("kept"), to.join("paddock"));
    let had = std::fs::hard_link(&place, &kept).or_else(|_| std::fs::copy(&place, &kept).map(drop)).is_ok();
    // If everything is built for a named target it lies one deeper.
    let depth = if std::env::var_os("CARGO_BUILD_TARGET").is_some() { 3 } else { 2 };
    let target = place.ancestors().nth(depth).unwrap();
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    // Cargo's variables of this test would have some packages built anew, here and at the next ordinary build.
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        if ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_"].iter().any(|start| name.starts_with(start)) {
            command.env_remove(name);
        }
    }
    let built = command
        // Built as the tests were, so that only crates with the feature are built again.
        .args([
            "test",
            "--no-run",
            "--locked",
            "--workspace",
            "--test",
            "cli",
            "--features",
            "paddock/weaken",
            "--target-dir",
        ])
        .arg(target)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("../.."))
        .status()
        .unwrap();
    assert!(built.success(), "the weakened build failed");
    std::fs::copy(&place, &weakened).unwrap();
    std::fs::remove_file(&place).unwrap();
    if had {
        std::fs::copy(&kept, &place).unwrap();
    }
    weakened
}

fn ordinary() -> PathBuf {
    let beside = || std::env::current_exe().unwrap().parent().unwrap().with_file_name("paddock");
    std::env::var_os("PADDOCK_BIN").map_or_else(beside, PathBuf::from)
}

fn rustix_is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|found| std::os::unix::fs::MetadataExt::uid(&found) == 0)
}

/// Gone with the test.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Folder {
        let path = std::env::temp_dir().join(format!("paddock-layers-{}", std::process::id()));
        std::fs::create_dir(&path).unwrap();
        Folder(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
