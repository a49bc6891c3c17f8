//! Mistakes in a job's description, found before anything is stored: the field, its value, and a correct form.

use crate::best_of;
use crate::inputs::check_inputs;
use crate::outputs::Patterns;
use crate::refusals::{invalid, seconds, shown, wrong};
use crate::terms::{DAY, LONGEST_KEEP, LONGEST_TIMEOUT};
use crate::work::{check_args, check_one};
use paddock_fleet::FleetError;
use paddock_model::api::{JobArray, JobRetries, JobSpec, VolumeMode};

pub const MOST_TASKS: u32 = 10_000;
const MOST_RETRIES: u32 = 100;
const LONGEST_NAME: usize = 200;

pub fn check(spec: &JobSpec) -> Result<(), FleetError> {
    if let Some(name) = &spec.name
        && (name.is_empty() || name.chars().count() > LONGEST_NAME || name.chars().any(char::is_control))
    {
        let hint = format!("1 to {LONGEST_NAME} characters, none of them a control character");
        return Err(wrong("name", &shown(name), &hint));
    }
    check_work(spec)?;
    check_inputs(&spec.inputs)?;
    Patterns::new(spec)?;
    check_array(spec)?;
    check_retries(&spec.retries)?;
    seconds("timeout_seconds", spec.timeout_seconds, LONGEST_TIMEOUT)?;
    seconds("keep_seconds", spec.keep_seconds, LONGEST_KEEP)?;
    if spec.limits.exec_timeout_seconds.is_some() {
        let message = "field `limits.exec_timeout_seconds` is not for jobs";
        return Err(invalid(message).hint("write `timeout_seconds`, which is the limit of one attempt"));
    }
    if spec.parallelism == Some(0) {
        return Err(wrong("parallelism", "0", "1 or more"));
    }
    if !(-100..=100).contains(&spec.priority) {
        return Err(wrong("priority", &spec.priority.to_string(), "-100 to 100"));
    }
    let writer = spec.volumes.iter().find(|volume| volume.mode == VolumeMode::Rw);
    if let Some(volume) = writer.filter(|_| spec.count() > 1 && spec.parallelism != Some(1)) {
        let message = format!(
            "field `volumes`: `{}` is mounted `rw` by {} tasks at one time, and a volume has one writer",
            shown(&volume.name),
            spec.count()
        );
        return Err(invalid(message).hint("mount it with mode `ro`, or set `parallelism = 1`"));
    }
    Ok(())
}

pub fn check_work(spec: &JobSpec) -> Result<(), FleetError> {
    let given = [
        ("command", spec.command.is_some()),
        ("code", spec.code.is_some()),
        ("script", spec.script.is_some()),
        ("best_of", spec.best_of.is_some()),
    ];
    let names: Vec<&str> = given.iter().filter(|(_, given)| *given).map(|(name, _)| *name).collect();
    if names.len() != 1 {
        let message = match names.as_slice() {
            [] => "the job has nothing to run".to_string(),
            several => format!("the job has `{}` to run", several.join("` and `")),
        };
        return Err(invalid(message).hint("give exactly one of `command`, `code`, `script` and `best_of`"));
    }
    check_one("", spec.command.as_ref(), spec.code.as_deref())?;
    if spec.language.is_some() && spec.code.is_none() && spec.script.is_none() {
        let message = format!("field `language` does not go with `{}`", names[0]);
        return Err(invalid(message).hint("it is for `code` and `script`; leave it out"));
    }
    check_args(spec, spec.args.as_ref(), "args")?;
    match &spec.best_of {
        Some(best_of) => best_of::check(spec, best_of),
        None => Ok(()),
    }
}

fn check_array(spec: &JobSpec) -> Result<(), FleetError> {
    let Some(array) = &spec.array else { return Ok(()) };
    if spec.best_of.is_some() {
        let message = "field `array` does not go with `best_of`, whose candidates are its tasks";
        return Err(invalid(message).hint("leave `array` out"));
    }
    let count = spec.count();
    if !(1..=MOST_TASKS).contains(&count) {
        return Err(wrong("array", &count.to_string(), &format!("1 to {MOST_TASKS} tasks")));
    }
    if let JobArray::Items(items) = array {
        for (number, item) in items.iter().enumerate() {
            check_args(spec, item.args.as_ref(), &format!("array[{number}].args"))?;
        }
    }
    Ok(())
}

fn check_retries(retries: &JobRetries) -> Result<(), FleetError> {
    if retries.attempts > MOST_RETRIES {
        let value = retries.attempts.to_string();
        return Err(wrong("retries.attempts", &value, &format!("0 to {MOST_RETRIES}")));
    }
    for (field, value) in [
        ("retries.backoff_seconds", retries.backoff_seconds),
        ("retries.longest_backoff_seconds", retries.longest_backoff_seconds),
    ] {
        if !(0.0..=DAY).contains(&value) {
            return Err(wrong(field, &value.to_string(), "0 to 86400"));
        }
    }
    if retries.attempts > 0 && retries.on.is_empty() {
        let hint = "some of exit, timeout, out_of_memory and lost, or leave it out for all";
        return Err(wrong("retries.on", "[]", hint));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::{JobCommand, VolumeMount};

    fn spec() -> JobSpec {
        JobSpec { command: Some(JobCommand::Line("true".into())), ..JobSpec::default() }
    }

    #[test]
    fn a_wrong_value_is_told_with_its_field_and_what_to_write() {
        check(&spec()).unwrap();
        let volume = VolumeMount {
            name: "v".into(),
            path: "/data/v".into(),
            mode: VolumeMode::Rw,
            on_failure: Default::default(),
            checkpoint_seconds: None,
            version: None,
        };
        let retries = |retries: JobRetries| JobSpec { retries, ..spec() };
        for (bad, words) in [
            (JobSpec { name: Some("a\nb".into()), ..spec() }, "`name`: `a\\nb`"),
            (JobSpec { timeout_seconds: Some(0.0), ..spec() }, "`timeout_seconds`: `0`"),
            (JobSpec { timeout_seconds: Some(f64::NAN), ..spec() }, "`timeout_seconds`: `NaN`"),
            (JobSpec { keep_seconds: Some(1e9), ..spec() }, "`keep_seconds`: `1000000000`"),
            (JobSpec { parallelism: Some(0), ..spec() }, "`parallelism`: `0`"),
            (JobSpec { priority: 101, ..spec() }, "`priority`: `101`"),
            (JobSpec { array: Some(JobArray::Count(0)), ..spec() }, "`array`: `0`"),
            (JobSpec { array: Some(JobArray::Count(10_001)), ..spec() }, "`array`: `10001`"),
            (JobSpec { array: Some(JobArray::Items(vec![])), ..spec() }, "`array`: `0`"),
            (
                JobSpec { array: Some(JobArray::Count(2)), volumes: vec![volume.clone()], ..spec() },
                "one writer",
            ),
            (retries(JobRetries { attempts: 101, ..JobRetries::default() }), "`retries.attempts`: `101`"),
            (retries(JobRetries { backoff_seconds: -1.0, ..JobRetries::default() }), "`-1`"),
            (retries(JobRetries { attempts: 1, on: vec![], ..JobRetries::default() }), "`retries.on`"),
        ] {
            let error = check(&bad).unwrap_err();
            assert!(error.message.contains(words), "{}", error.message);
            assert!(error.hint.is_some(), "{}", error.message);
        }
        let array = Some(JobArray::Count(2));
        check(&JobSpec { array, volumes: vec![volume], parallelism: Some(1), ..spec() }).unwrap();
    }
}
