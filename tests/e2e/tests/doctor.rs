//! `paddock doctor`: the abilities of this host and its missing parts.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, for_both_callers};

for_both_callers!(
    a_table,
    as_json,
    every_lack_has_a_remedy,
    limits_for_a_number_of_sandboxes,
    a_number_that_is_none_is_refused
);

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

fn limits_for_a_number_of_sandboxes(caller: &Caller) -> Result<()> {
    for (number, fits) in [("2", true), ("1000000", false)] {
        let finished = caller.paddock(["doctor", "--for", number, "--json"])?.finish()?;
        let report = finished.json()?;
        ensure!(report["backends"].is_array(), "{report}");
        let capacity = &report["capacity"];
        assert_eq!(capacity["sandboxes"].to_string(), number);
        assert_eq!(finished.code, if capacity["enough"] == true { 0 } else { 1 }, "{capacity}");
        for check in capacity["limits"].as_array().context("no limits")? {
            let enough = check["state"] == "enough";
            ensure!(enough || check["remedy"].is_string(), "nothing is said to mend {check}");
            let known = check["limit"].is_u64() || enough || check["state"] == "unknown";
            ensure!(known && check["needed"].is_u64(), "{check}");
            if check["name"] == "places" {
                assert_eq!(enough, fits, "{check}");
            }
        }
        let table = caller.paddock(["doctor", "--for", number])?.finish()?;
        assert_eq!(table.code, finished.code);
        for word in ["places", "descriptors of the server", "net namespaces", "memory", "process ids"] {
            ensure!(table.out().contains(word), "no {word:?} in:\n{}", table.out());
        }
        ensure!(table.out().contains(&format!("for {number} sandboxes")), "{}", table.out());
    }
    Ok(())
}

fn a_number_that_is_none_is_refused(caller: &Caller) -> Result<()> {
    for number in ["0", "1000001", "many", "1.5", "20,000", ""] {
        let finished = caller.paddock(["doctor", &format!("--for={number}")])?.finish()?;
        assert_eq!(finished.code, 2, "{number:?}: {}", finished.err());
        ensure!(finished.err().contains("from 1 to 1000000"), "{number:?}: {}", finished.err());
    }
    Ok(())
}
