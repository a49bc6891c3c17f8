//! Files that are there before a job runs.

use crate::refusals::{invalid, shown, wrong};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use paddock_fleet::{Actor, Fleet, FleetError, WriteOptions};
use paddock_model::api::{JobInput, JobSpec};

/// The most bytes that one request has room for.
pub const LARGEST_INPUTS: u64 = 5 << 20;
const MOST: usize = 1000;
const MODES: u32 = 0o7777;

/// Where relative paths of a job begin.
pub const WORKSPACE: &str = paddock_model::WORKSPACE_TARGET;

pub fn check_inputs(inputs: &[JobInput]) -> Result<(), FleetError> {
    if inputs.len() > MOST {
        return Err(wrong("inputs", &inputs.len().to_string(), &format!("at most {MOST} files")));
    }
    let mut total = 0;
    for (number, input) in inputs.iter().enumerate() {
        let field = |name: &str| format!("inputs[{number}].{name}");
        check_path(&field("path"), &input.path)?;
        if input.from.is_some() {
            let message = format!("field `{}` is only for a job's file", field("from"));
            return Err(
                invalid(message).hint("`paddock job run` reads it; in a request write `text` or `base64`")
            );
        }
        if input.mode.is_some_and(|mode| mode > MODES) {
            return Err(wrong(
                &field("mode"),
                &input.mode.unwrap_or(0).to_string(),
                "0 to 4095, which is 0o7777",
            ));
        }
        total += content(input)
            .map_err(|problem| {
                invalid(format!("field `inputs[{number}]`: {problem}"))
                    .hint("write either `text` or `base64`")
            })?
            .len() as u64;
    }
    if total > LARGEST_INPUTS {
        let message = format!("field `inputs`: {total} bytes are more than {LARGEST_INPUTS}");
        return Err(invalid(message).hint("put what is large into a volume"));
    }
    Ok(())
}

/// The guest resolves the path; this only refuses paths without a meaning.
pub fn check_path(field: &str, path: &str) -> Result<(), FleetError> {
    let parts = path.split('/').any(|part| part == "..");
    if path.is_empty() || path.len() > 4095 || path.contains('\0') || path.ends_with('/') || parts {
        return Err(wrong(field, &shown(path), "the path of a file, without `..`"));
    }
    Ok(())
}

fn content(input: &JobInput) -> Result<Vec<u8>, String> {
    match (&input.text, &input.base64) {
        (Some(text), None) => Ok(text.clone().into_bytes()),
        (None, Some(encoded)) => STANDARD.decode(encoded).map_err(|error| format!("not base64: {error}")),
        (None, None) => Err("it has no content".into()),
        (Some(_), Some(_)) => Err("it has two contents".into()),
    }
}

/// A path of the job's, as the sandbox is asked for it.
pub fn absolute(spec: &JobSpec, path: &str) -> String {
    match path.starts_with('/') {
        true => path.to_string(),
        false => format!("{}/{path}", spec.cwd.as_deref().unwrap_or(WORKSPACE).trim_end_matches('/')),
    }
}

pub async fn put(fleet: &Fleet, actor: &Actor, sandbox: &str, spec: &JobSpec) -> Result<(), FleetError> {
    for input in &spec.inputs {
        let options = WriteOptions {
            mode: input.mode,
            parents: true,
            user: spec.user.clone(),
            ..WriteOptions::default()
        };
        let mut upload = fleet.write_file(actor, sandbox, &absolute(spec, &input.path), options).await?;
        upload.write(&content(input).map_err(invalid)?).await?;
        upload.finish().await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(path: &str, text: Option<&str>, base64: Option<&str>) -> JobInput {
        let of = |value: Option<&str>| value.map(str::to_string);
        JobInput { path: path.into(), text: of(text), base64: of(base64), ..JobInput::default() }
    }

    #[test]
    fn an_input_has_one_content_and_one_place() {
        check_inputs(&[input("a", Some(""), None), input("/data/b", None, Some("aGk="))]).unwrap();
        for (bad, words) in [
            (input("", Some("x"), None), "`inputs[0].path`"),
            (input("a/../../etc/x", Some("x"), None), "`a/../../etc/x`"),
            (input("a/", Some("x"), None), "`a/`"),
            (input("a", None, None), "no content"),
            (input("a", Some("x"), Some("")), "two contents"),
            (input("a", None, Some("!")), "not base64"),
            (JobInput { from: Some("x".into()), ..input("a", None, None) }, "only for a job's file"),
            (JobInput { mode: Some(0o10000), ..input("a", Some(""), None) }, "`4096`"),
            (input("a", Some(&"x".repeat(LARGEST_INPUTS as usize + 1)), None), "more than"),
        ] {
            let error = check_inputs(std::slice::from_ref(&bad)).unwrap_err();
            assert!(error.message.contains(words) && error.hint.is_some(), "{error:?}");
        }
    }

    #[test]
    fn relative_paths_are_below_the_jobs_directory() {
        let spec = |cwd: Option<&str>| JobSpec { cwd: cwd.map(str::to_string), ..JobSpec::default() };
        assert_eq!(absolute(&spec(None), "a/b"), "/workspace/a/b");
        assert_eq!(absolute(&spec(Some("/tmp/")), "a"), "/tmp/a");
        assert_eq!(absolute(&spec(Some("/tmp")), "/a"), "/a");
    }
}
