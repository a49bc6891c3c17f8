//! Scripts with annotations as jobs: the plan names the sandbox and the command, the job overrides parts of it.

use crate::ending::Ending;
use crate::refusals::invalid;
use paddock_fleet::{Actor, Fleet, FleetError, Kind, WriteOptions};
use paddock_model::api::{
    AttemptEnd, CreateSandbox, Exec, ExecCause, JobArgs, JobArray, JobSpec, LimitsRequest, StartExec,
};
use paddock_model::net::NetSetting;
use paddock_scripts::{Arguments, Context, LARGEST_RESULT, Language, Plan, Resource, ScriptError};
use serde_json::Value;
use std::collections::BTreeMap;

const INDEX: &str = "{index}";
/// The most bytes of a result that are kept with its task's record.
const LARGEST_KEPT: usize = 1 << 20;

/// The plan of one task of a script job; `None` for other jobs.
pub fn plan(fleet: &Fleet, spec: &JobSpec, actor: &Actor, index: u32) -> Result<Option<Plan>, FleetError> {
    plan_with(spec, actor, index, |names| fleet.script_resources(actor, names))
}

fn plan_with(
    spec: &JobSpec,
    actor: &Actor,
    index: u32,
    resources: impl FnOnce(&[String]) -> Result<BTreeMap<String, Resource>, FleetError>,
) -> Result<Option<Plan>, FleetError> {
    let Some(source) = &spec.script else { return Ok(None) };
    let language: Language = spec.language.as_deref().unwrap_or("python").parse().map_err(refused)?;
    let arguments = arguments(spec, index);
    let needed = paddock_scripts::needs(source, language, &arguments).map_err(refused)?;
    let resources = if needed.is_empty() { BTreeMap::new() } else { resources(&needed)? };
    // The job is its sender's own words; a stranger may have written the script in it.
    let allow = match &spec.policy.network {
        Some(NetSetting::Rules(layer)) => layer.allow.clone(),
        _ => Vec::new(),
    };
    let context =
        Context { workspace: actor.tenant.clone(), template: spec.template.clone(), allow, resources };
    paddock_scripts::plan(source, language, &arguments, &context).map(Some).map_err(refused)
}

/// The script's settings, and the job's settings over them.
pub fn overlay(planned: CreateSandbox, job: CreateSandbox, spec: &JobSpec) -> CreateSandbox {
    let image = job.image.clone().or(planned.image);
    let own = spec.timeout_seconds.is_some();
    let mut secrets = planned.secrets;
    secrets.extend(job.secrets.clone());
    CreateSandbox {
        template: job.template.clone().or(planned.template).filter(|_| image.is_none()),
        public_image: planned.public_image && job.image.is_none(),
        image,
        backend: job.backend.clone().or(planned.backend),
        require: planned.require.into_iter().chain(job.require.clone()).collect(),
        ttl_seconds: job
            .ttl_seconds
            .map(|ttl| if own { ttl } else { ttl.max(planned.ttl_seconds.unwrap_or(ttl)) }),
        limits: limits(planned.limits, &job.limits),
        network: job.network.clone().or(planned.network),
        secrets,
        env: planned.env,
        volumes: planned.volumes.into_iter().chain(job.volumes.clone()).collect(),
        ..job
    }
}

fn limits(planned: LimitsRequest, job: &LimitsRequest) -> LimitsRequest {
    LimitsRequest {
        memory_bytes: job.memory_bytes.or(planned.memory_bytes),
        cpus: job.cpus.or(planned.cpus),
        pids: job.pids.or(planned.pids),
        disk_bytes: job.disk_bytes.or(planned.disk_bytes),
        open_files: job.open_files.or(planned.open_files),
        output_bytes: job.output_bytes.or(planned.output_bytes),
        exec_timeout_seconds: job.exec_timeout_seconds.or(planned.exec_timeout_seconds),
    }
}

/// Puts its files in, and returns the command to start.
pub async fn prepare(
    fleet: &Fleet,
    actor: &Actor,
    sandbox: &str,
    plan: &Plan,
    job: StartExec,
    spec: &JobSpec,
) -> Result<StartExec, FleetError> {
    for file in &plan.files {
        let options =
            WriteOptions { mode: None, parents: true, user: spec.user.clone(), ..WriteOptions::default() };
        let mut upload = fleet.write_file(actor, sandbox, &file.path, options).await?;
        upload.write(file.content.as_bytes()).await?;
        upload.finish().await?;
    }
    let mut exec = plan.exec.clone();
    exec.env.extend(job.env);
    exec.cwd = job.cwd.or(exec.cwd).or_else(|| plan.sandbox.cwd.clone());
    exec.timeout_seconds = spec.timeout_seconds.or(exec.timeout_seconds).or(job.timeout_seconds);
    exec.background = true;
    Ok(exec)
}

/// The return value of main, or the reason why there is none.
pub async fn conclude(
    fleet: &Fleet,
    actor: &Actor,
    sandbox: &str,
    plan: &Plan,
    exec: &Exec,
) -> Result<Value, Ending> {
    let mut contents = Vec::new();
    for file in &plan.result.files {
        contents.push(
            read(fleet, actor, sandbox, &file.path).await.map_err(|error| crate::ending::of_error(&error))?,
        );
    }
    let exit_code = exec.exit_code.unwrap_or(1);
    let concluded = match &exec.cause {
        Some(ExecCause::NotStarted { detail }) => {
            Err(paddock_scripts::not_started(plan.language, exit_code, detail))
        }
        _ => plan.result.conclude(exit_code, &contents, exec.stdout.as_bytes()),
    };
    let value = concluded.map_err(|failure| {
        let hint = failure.hint.map(|hint| format!("; {hint}")).unwrap_or_default();
        let name = failure.name.map(|name| format!("{name}: ")).unwrap_or_default();
        let detail = Some(format!("{name}{}{hint}", failure.message));
        Ending { end: AttemptEnd::Exit, detail, exit_code: Some(exit_code) }
    })?;
    if value.to_string().len() > LARGEST_KEPT {
        let detail =
            "the result of the script has more than 1 MiB; write what is large to a file of `outputs`";
        return Err(Ending::new(AttemptEnd::Outputs, detail));
    }
    Ok(value)
}

/// At most one byte more than a result may have; `None` where nothing is there.
async fn read(
    fleet: &Fleet,
    actor: &Actor,
    sandbox: &str,
    path: &str,
) -> Result<Option<Vec<u8>>, FleetError> {
    let most = LARGEST_RESULT + 1;
    let mut file = match fleet.read_file(actor, sandbox, path, 0, Some(most as u64), None).await {
        Ok(file) => file,
        Err(error) if error.kind == Kind::NotFound => return Ok(None),
        Err(error) => return Err(error),
    };
    let mut content = Vec::new();
    while let Some(piece) = file.next().await {
        content.extend_from_slice(&piece?);
        if content.len() >= most {
            content.truncate(most);
            break;
        }
    }
    Ok(Some(content))
}

/// The job's own and its task's, with the task's number in them.
fn arguments(spec: &JobSpec, index: u32) -> Arguments {
    let named = |args: Option<&JobArgs>| match args {
        Some(JobArgs::Named(named)) => named.clone(),
        _ => Arguments::default(),
    };
    let mut all = named(spec.args.as_ref());
    if let Some(JobArray::Items(items)) = &spec.array {
        all.extend(named(items.get(index as usize).and_then(|item| item.args.as_ref())));
    }
    let index = index.to_string();
    all.values_mut().for_each(|value| fill_in(value, &index));
    all
}

fn fill_in(value: &mut Value, index: &str) {
    match value {
        Value::String(text) if text.contains(INDEX) => *text = text.replace(INDEX, index),
        Value::Array(values) => values.iter_mut().for_each(|value| fill_in(value, index)),
        Value::Object(values) => values.values_mut().for_each(|value| fill_in(value, index)),
        _ => {}
    }
}

fn refused(error: ScriptError) -> FleetError {
    let refused = invalid(format!("field `script`: {error}"));
    match error.hint() {
        Some(hint) => refused.hint(hint),
        None => refused.hint("docs/guides/jobs.md says what a script job has"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn planned(spec: &JobSpec, index: u32) -> Result<Option<Plan>, FleetError> {
        plan_with(spec, &Actor::owner(), index, |_| Ok(BTreeMap::new()))
    }

    fn spec(text: &str) -> JobSpec {
        crate::file::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_script_gets_named_arguments_with_its_number_in_them() {
        let script = "script = 'def main(a, b): pass'\narray = 3\n";
        let spec = spec(&format!("{script}args = {{b = ['x{{index}}', 1], a = '{{index}}'}}"));
        let found = arguments(&spec, 2);
        assert_eq!(
            (found["a"].clone(), found["b"].clone()),
            (Value::from("2"), serde_json::json!(["x2", 1]))
        );
        let plan = planned(&spec, 2).unwrap().unwrap();
        assert_eq!(plan.language, Language::Python);
    }

    #[test]
    fn the_job_stands_over_the_script() {
        let text = "script = '''# sandbox\n# memory: 64MiB\n# volume: notes notes\ndef main(): pass\n'''\ntimeout_seconds = 5\n\
                    [limits]\npids = 7\n";
        let spec = spec(text);
        let planned = planned(&spec, 0).unwrap().unwrap().sandbox;
        let made = overlay(planned, crate::request::request_of(&spec, None), &spec);
        assert_eq!((made.limits.memory_bytes, made.limits.pids), (Some(64 << 20), Some(7)));
        assert_eq!(made.volumes[0].name, "notes");
        assert!(made.ttl_seconds.unwrap() < 1000.0);
    }

    #[test]
    fn what_is_wrong_with_a_script_is_told_with_its_line() {
        for (text, words) in [
            ("script = '''# sandbox\n# memroy: 1g\ndef main(): pass'''", "line 2"),
            ("script = 'x = 1'", "no function main"),
            ("script = 'def main(): pass'\nlanguage = 'cobol'", "`cobol`"),
        ] {
            let error = planned(&spec(text), 0).unwrap_err();
            assert!(error.message.contains(words) && error.hint.is_some(), "{error:?}");
        }
    }
}
