//! `paddock template`, and runs that begin with one.

use anyhow::{Result, ensure};
use paddock_e2e::{Caller, Finished, for_both_callers};

for_both_callers!(
    the_built_in_one_is_always_there,
    from_add_to_rm,
    a_run_takes_its_settings,
    its_own_command_is_the_default,
    an_absent_template_is_named,
    bad_names_and_values_are_refused,
    what_show_prints_is_a_policy,
);

fn template(caller: &Caller, arguments: &[&str]) -> Result<Finished> {
    caller.paddock(["template"])?.arguments(arguments).finish()
}

fn from_add_to_rm(caller: &Caller) -> Result<()> {
    template(caller, &["add", "small", "--memory", "99MiB", "--env", "A=b"])?.success()?;
    template(caller, &["add", "other", "--", "true"])?.success()?;
    let listed = template(caller, &["ls"])?.success()?;
    ensure!(listed.contains("small") && listed.contains("other"), "{listed}");
    let listed = template(caller, &["ls", "--json"])?;
    ensure!(listed.json()?.to_string().contains("\"small\""), "{}", listed.out());
    let shown = template(caller, &["show", "small"])?.success()?;
    ensure!(shown.contains("99") && shown.contains('A'), "{shown}");
    template(caller, &["show", "small", "--json"])?.json()?;
    let again = template(caller, &["add", "small", "--memory", "1GiB"])?;
    ensure!(again.code != 0 && again.err().contains("small"), "it was replaced without --force");
    template(caller, &["add", "--force", "small", "--memory", "55MiB"])?.success()?;
    ensure!(template(caller, &["show", "small"])?.success()?.contains("55"), "it was not replaced");
    template(caller, &["rm", "small"])?.success()?;
    let listed = template(caller, &["ls"])?.success()?;
    ensure!(!listed.contains("small") && listed.contains("other"), "{listed}");
    Ok(())
}

fn a_run_takes_its_settings(caller: &Caller) -> Result<()> {
    let add = ["add", "box", "--hostname", "barn", "--env", "A=template", "--user", "root", "--files", "88"];
    template(caller, &add)?.success()?;
    let script = "echo $(cat /proc/sys/kernel/hostname) $A $(id -u) $(ulimit -n)";
    assert_eq!(caller.script(&["--template", "box"], script)?.success()?, "barn template 0 88\n");
    let finished = caller.script(&["--template", "box", "--env", "A=flag", "--user", "agent"], script)?;
    assert_eq!(finished.success()?, "barn flag 1000 88\n");
    Ok(())
}

fn its_own_command_is_the_default(caller: &Caller) -> Result<()> {
    template(caller, &["add", "box", "--", "echo", "from the template"])?.success()?;
    assert_eq!(caller.run(["--template", "box"])?.success()?, "from the template\n");
    assert_eq!(caller.run(["--template", "box", "--", "echo", "own"])?.success()?, "own\n");
    Ok(())
}

fn an_absent_template_is_named(caller: &Caller) -> Result<()> {
    template(caller, &["add", "boxes"])?.success()?;
    caller.run(["--template", "box", "--", "true"])?.refused(&["box"])?;
    for action in ["show", "rm"] {
        let finished = template(caller, &[action, "absent"])?;
        ensure!(finished.code != 0 && finished.err().contains("absent"), "{finished:?}");
    }
    Ok(())
}

fn bad_names_and_values_are_refused(caller: &Caller) -> Result<()> {
    let long = "x".repeat(300);
    for name in ["a\nb", "../up", "a/b", "..", "", ".hidden", "UPPER", &long] {
        let finished = template(caller, &["add", "--", name])?;
        ensure!(finished.code != 0 && !finished.err().is_empty(), "{name:?}: {finished:?}");
    }
    let finished = template(caller, &["add", "box", "--memory", "lots"])?;
    ensure!(finished.code != 0 && finished.err().contains("lots"), "{finished:?}");
    let listed = template(caller, &["ls", "--json"])?.json()?;
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "only the built-in one: {listed}");
    Ok(())
}

fn what_show_prints_is_a_policy(caller: &Caller) -> Result<()> {
    template(
        caller,
        &["add", "box", "--hostname", "barn", "--pids", "44", "--", "cat", "/proc/sys/kernel/hostname"],
    )?
    .success()?;
    let file = caller.file("policy.toml", template(caller, &["show", "box"])?.success()?)?;
    assert_eq!(caller.run(["--policy", &file.display().to_string()])?.success()?, "barn\n");
    Ok(())
}

fn the_built_in_one_is_always_there(caller: &Caller) -> Result<()> {
    let finished = caller.run(["--template", "code-interpreter", "--", "sh", "-c", "echo here"])?;
    assert_eq!(finished.success()?, "here\n");
    let listed = template(caller, &["ls"])?.success()?;
    ensure!(listed.contains("code-interpreter") && listed.contains("built in"), "{listed}");
    template(caller, &["show", "code-interpreter"])?.success()?;
    let finished = template(caller, &["rm", "code-interpreter"])?;
    ensure!(finished.exited(1)?.err().contains("is built in, and cannot be removed"), "{}", finished.err());
    Ok(())
}
