//! `paddock doctor`: what this machine has and lacks.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, for_both_callers};

for_both_callers!(a_table, as_json, every_lack_has_a_remedy);

fn a_table(caller: &Caller) -> Result<()> {
    let output = caller.paddock(["doctor"])?.finish()?.success()?;
    for word in
        ["process", "usable", "user namespaces", "memory limit", "Landlock", "seccomp", "state directory"]
    {
        ensure!(output.contains(word), "no {word:?} in:\n{output}");
    }
    Ok(())
}

fn as_json(caller: &Caller) -> Result<()> {
    let finished = caller.paddock(["doctor", "--json"])?.finish()?;
    finished.success()?;
    let backends = finished.json()?;
    let first = backends.get(0).context("no backend")?;
    assert_eq!((&first["backend"], &first["usable"]), (&"process".into(), &true.into()));
    for check in first["checks"].as_array().context("no checks")? {
        ensure!(
            check["name"].is_string() && check["state"].is_string() && check["detail"].is_string(),
            "{check}"
        );
    }
    Ok(())
}

fn every_lack_has_a_remedy(caller: &Caller) -> Result<()> {
    let backends = caller.paddock(["doctor", "--json"])?.finish()?.json()?;
    for check in backends[0]["checks"].as_array().context("no checks")? {
        ensure!(check["state"] == "good" || check["remedy"].is_string(), "nothing is said to mend {check}");
    }
    Ok(())
}
