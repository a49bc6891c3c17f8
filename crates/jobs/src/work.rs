//! The work in a sandbox of a job: a command or code, with the arguments and variables of its task.

use crate::refusals::{invalid, shown, wrong};
use crate::terms::timeout;
use paddock_fleet::FleetError;
use paddock_model::api::{Candidate, JobArgs, JobArray, JobCommand, JobSpec, RunCode, StartExec};
use serde_json::Value;
use std::collections::BTreeMap;

const LARGEST_CODE: usize = 4 << 20;
const INDEX: &str = "{index}";

/// The work to start; its kind decides how it is waited for.
#[derive(Debug, Clone, PartialEq)]
pub enum Work {
    Command(StartExec),
    Code(RunCode),
}

/// Which task of which job.
pub struct Task<'a> {
    pub job: &'a str,
    pub index: u32,
    pub attempt: u32,
}

/// A command or code that can be started at all. `place` stands before the field's name in messages.
pub fn check_one(place: &str, command: Option<&JobCommand>, code: Option<&str>) -> Result<(), FleetError> {
    match command {
        Some(JobCommand::Line(line)) if line.trim().is_empty() => {
            return Err(wrong(&format!("{place}command"), &shown(line), "a line for the shell"));
        }
        Some(JobCommand::Words(words)) if words.first().is_none_or(String::is_empty) => {
            let value = words.first().map_or("[]".to_string(), |word| shown(word));
            return Err(wrong(&format!("{place}command"), &value, "a program and its arguments"));
        }
        _ => {}
    }
    match code {
        Some(code) if code.trim().is_empty() => {
            Err(wrong(&format!("{place}code"), &shown(code), "the text of a program"))
        }
        Some(code) if code.len() > LARGEST_CODE => {
            let message = format!("field `{place}code`: {} bytes are more than {LARGEST_CODE}", code.len());
            Err(invalid(message).hint("put it into a file of `inputs`, and run that"))
        }
        _ => Ok(()),
    }
}

pub fn check_args(spec: &JobSpec, args: Option<&JobArgs>, field: &str) -> Result<(), FleetError> {
    let Some(args) = args else { return Ok(()) };
    if spec.code.is_some() || spec.best_of.is_some() {
        let message = format!("field `{field}` is for `command` and `script`");
        return Err(invalid(message).hint("give code what it needs by `env`"));
    }
    match args {
        JobArgs::List(_) if spec.script.is_some() => {
            let message = format!("field `{field}`: main's arguments have names");
            Err(invalid(message).hint("write a table: args = { name = \"value\" }"))
        }
        JobArgs::Named(_) if spec.script.is_none() => {
            let message = format!("field `{field}`: a command has no names for its arguments");
            Err(invalid(message).hint("write a list"))
        }
        JobArgs::List(list) if spec.script.is_none() => match list.iter().find(|value| word(value).is_none())
        {
            Some(value) => Err(wrong(field, &shown(&value.to_string()), "words and numbers")),
            None => Ok(()),
        },
        _ => Ok(()),
    }
}

/// The work of one task of the job.
pub fn of_task(spec: &JobSpec, task: &Task) -> Option<Work> {
    let env = environment(spec, task);
    let timeout_seconds = Some(timeout(spec).as_secs_f64());
    if let Some(best_of) = &spec.best_of {
        let candidate = best_of.candidates.get(task.index as usize)?;
        return of_candidate(spec, candidate, env, timeout_seconds);
    }
    if let Some(code) = &spec.code {
        let language = spec.language.clone();
        return Some(Work::Code(run_code(code, language, env, spec.cwd.clone(), timeout_seconds)));
    }
    let index = task.index.to_string();
    let words =
        args(spec, task.index).iter().filter_map(word).map(|word| word.replace(INDEX, &index)).collect();
    let argv = argv(spec.command.as_ref()?, words);
    Some(Work::Command(start(argv, env, spec.cwd.clone(), timeout_seconds)))
}

fn of_candidate(
    spec: &JobSpec,
    candidate: &Candidate,
    mut env: BTreeMap<String, String>,
    timeout_seconds: Option<f64>,
) -> Option<Work> {
    env.extend(candidate.env.clone());
    if let Some(code) = &candidate.code {
        let language = candidate.language.clone();
        return Some(Work::Code(run_code(code, language, env, spec.cwd.clone(), timeout_seconds)));
    }
    let argv = argv(candidate.command.as_ref()?, Vec::new());
    Some(Work::Command(start(argv, env, spec.cwd.clone(), timeout_seconds)))
}

/// Words of the caller's are never part of a shell's line: they are its arguments.
pub fn argv(command: &JobCommand, args: Vec<String>) -> Vec<String> {
    let mut argv = match command {
        JobCommand::Words(words) => words.clone(),
        JobCommand::Line(line) => vec!["/bin/sh".into(), "-c".into(), line.clone(), "job".into()],
    };
    argv.extend(args);
    argv
}

pub fn start(
    argv: Vec<String>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    timeout_seconds: Option<f64>,
) -> StartExec {
    StartExec { argv: Some(argv), env, cwd, timeout_seconds, background: true, ..StartExec::default() }
}

fn run_code(
    code: &str,
    language: Option<String>,
    env: BTreeMap<String, String>,
    cwd: Option<String>,
    timeout_seconds: Option<f64>,
) -> RunCode {
    RunCode {
        code: code.into(),
        language,
        context: None,
        stdin: None,
        env,
        cwd,
        timeout_seconds,
        background: true,
        stream: false,
    }
}

/// The job's own and its task's, in this order.
fn args(spec: &JobSpec, index: u32) -> Vec<Value> {
    let list = |args: Option<&JobArgs>| match args {
        Some(JobArgs::List(list)) => list.clone(),
        _ => Vec::new(),
    };
    let mut all = list(spec.args.as_ref());
    if let Some(JobArray::Items(items)) = &spec.array {
        all.extend(list(items.get(index as usize).and_then(|item| item.args.as_ref())));
    }
    all
}

pub fn environment(spec: &JobSpec, task: &Task) -> BTreeMap<String, String> {
    let index = task.index.to_string();
    let mut env = spec.env.clone();
    if let Some(JobArray::Items(items)) = &spec.array {
        env.extend(items.get(task.index as usize).map(|item| item.env.clone()).unwrap_or_default());
    }
    env.values_mut()
        .filter(|value| value.contains(INDEX))
        .for_each(|value| *value = value.replace(INDEX, &index));
    env.insert("PADDOCK_JOB_ID".into(), task.job.into());
    env.insert("PADDOCK_JOB_INDEX".into(), index);
    env.insert("PADDOCK_JOB_COUNT".into(), spec.count().to_string());
    env.insert("PADDOCK_JOB_ATTEMPT".into(), task.attempt.to_string());
    env
}

/// An argument as a command gets it.
fn word(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(value) => Some(value.to_string()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use paddock_model::api::ArrayItem;

    fn parse(text: &str) -> JobSpec {
        crate::file::parse(text.as_bytes()).unwrap()
    }

    fn task(index: u32) -> Task<'static> {
        Task { job: "job-1", index, attempt: 2 }
    }

    #[test]
    fn a_job_has_exactly_one_thing_to_run() {
        for (text, words) in [
            ("", "nothing to run"),
            ("command = 'a'\ncode = 'b'", "`command` and `code`"),
            ("command = ' '", "`command`"),
            ("command = []", "`[]`"),
            ("code = ''", "`code`"),
            ("command = 'a'\nlanguage = 'python'", "`language`"),
            ("code = 'a'\nargs = ['x']", "`args`"),
            ("command = 'a'\nargs = {x = 1}", "no names"),
            ("command = 'a'\nargs = [['x']]", "`[\\\"x\\\"]`"),
        ] {
            let error = crate::check::check_work(&parse(text)).unwrap_err();
            assert!(error.message.contains(words) && error.hint.is_some(), "{text}: {error:?}");
        }
        crate::check::check_work(&parse("command = ['a', 'b']\nargs = ['x', 1, true]")).unwrap();
    }

    #[test]
    fn a_task_gets_its_number_its_arguments_and_its_variables() {
        let mut spec =
            parse("command = 'echo $1 $2'\nargs = ['n{index}']\narray = 3\nenv = {A = '{index}-{index}'}");
        let Some(Work::Command(started)) = of_task(&spec, &task(2)) else { panic!() };
        assert_eq!(started.argv.unwrap(), ["/bin/sh", "-c", "echo $1 $2", "job", "n2"]);
        assert_eq!(started.env["A"], "2-2");
        assert_eq!(
            (started.env["PADDOCK_JOB_INDEX"].as_str(), started.env["PADDOCK_JOB_COUNT"].as_str()),
            ("2", "3")
        );
        assert_eq!(
            (started.env["PADDOCK_JOB_ID"].as_str(), started.env["PADDOCK_JOB_ATTEMPT"].as_str()),
            ("job-1", "2")
        );
        let item = |word: &str| ArrayItem {
            args: Some(JobArgs::List(vec![word.into()])),
            env: [("A".to_string(), word.to_string())].into(),
        };
        spec.array = Some(JobArray::Items(vec![item("x"), item("y")]));
        spec.command = Some(JobCommand::Words(vec!["run".into()]));
        let Some(Work::Command(started)) = of_task(&spec, &task(1)) else { panic!() };
        assert_eq!(
            (started.argv.unwrap(), started.env["A"].as_str()),
            (vec!["run".into(), "n1".into(), "y".into()], "y")
        );
    }

    #[test]
    fn code_is_left_as_it_is() {
        let spec = parse("code = 'print(f\"{index}\")'\ntimeout_seconds = 5");
        let Some(Work::Code(code)) = of_task(&spec, &task(0)) else { panic!() };
        assert_eq!((code.code.as_str(), code.timeout_seconds), ("print(f\"{index}\")", Some(5.0)));
    }
}
