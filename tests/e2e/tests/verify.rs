//! `paddock verify`, as its user meets it. The whole suite is `tests/conformance`; here is a small part of it.

use anyhow::{Context, Result, ensure};
use paddock_e2e::{Caller, for_both_callers};

for_both_callers!(a_table, as_json, what_is_not_known_is_refused);

fn a_table(caller: &Caller) -> Result<()> {
    let finished = caller.paddock(["verify", "--group", "F1", "--group", "E10-open-files"])?.finish()?;
    let table = finished.success()?;
    for word in ["held/failed/not applicable", "process rootless/agent", "every attack was held"] {
        ensure!(table.contains(word), "no {word:?} in:\n{table}");
    }
    ensure!(!table.contains('\u{1b}'), "colour where there is no terminal:\n{table}");
    Ok(())
}

fn as_json(caller: &Caller) -> Result<()> {
    let finished =
        caller.paddock(["verify", "--json", "--backend", "process", "--group", "V-who_am_i"])?.finish()?;
    finished.success()?;
    let report = finished.json()?;
    ensure!(report["held"] == true && report["left_behind"] == serde_json::json!([]), "{report}");
    let rows = report["rows"].as_array().context("no rows")?;
    let tried = rows.iter().filter(|row| row["attacks"].to_string().contains("V-who_am_i"));
    ensure!(tried.count() >= 1, "{report}");
    Ok(())
}

fn what_is_not_known_is_refused(caller: &Caller) -> Result<()> {
    for (words, said) in [
        (["verify", "--group", "Q"], "`Q` is no group of attacks"),
        (["verify", "--backend", "no-such"], "there is no backend `no-such`"),
    ] {
        let finished = caller.paddock(words)?.finish()?;
        ensure!(finished.exited(2)?.err().contains(said), "{}", finished.err());
    }
    Ok(())
}
