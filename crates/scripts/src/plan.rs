//! From a script and its arguments to the steps of a run: one sandbox, one command, one result.

use crate::annotation::{AnnotationError, Annotations, SecretLine, VolumeLine};
use crate::arguments::{self, Arguments};
use crate::interpolate::volume_name;
use crate::outcome::ResultPlan;
use crate::resource::Resource;
use crate::runners::{self, DIRECTORY, OWN_DIRECTORY, PlannedFile};
use crate::{LARGEST_ARGUMENTS, LARGEST_SOURCE, Language, ScriptError};
use paddock_model::SecretLayer;
use paddock_model::api::{CreateSandbox, LimitsRequest, OnFailure, StartExec, VolumeMode, VolumeMount};
use paddock_model::net::{
    NetLayer, NetSetting, Rule, Target, is_registry_inside, is_special_block, vouches_for_registry,
};
use paddock_volumes::{check_name, check_target};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time limit if neither the script nor its caller sets one.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(3600);
/// The sandbox outlives the script by this time, in case that no caller ends it.
const MARGIN: Duration = Duration::from_secs(120);
const DEFAULT_TEMPLATE: &str = "code-interpreter";

/// The surroundings of a script.
#[derive(Debug, Clone)]
pub struct Context {
    /// The value of `$workspace`.
    pub workspace: String,
    /// Used if the header names no image; without it `code-interpreter`.
    pub template: Option<String>,
    /// Network rules that the person gives, outside of the script. The header's own rules open only public addresses,
    /// and its images come only from public registries, unless a rule here names them.
    pub allow: Vec<String>,
    /// The resources that [`needs`] named, as far as they exist.
    pub resources: BTreeMap<String, Resource>,
}

impl Default for Context {
    fn default() -> Context {
        Context { workspace: "default".into(), template: None, allow: Vec::new(), resources: BTreeMap::new() }
    }
}

/// The steps, in this order: make the sandbox, write the files, start the command, wait for its end, read the result,
/// end the sandbox (as failed if the result is a [`crate::Failure`], so that volumes know).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    pub language: Language,
    pub annotations: Annotations,
    /// A caller may overlay its own settings, such as a name, metadata or smaller limits.
    pub sandbox: CreateSandbox,
    pub files: Vec<PlannedFile>,
    pub exec: StartExec,
    pub result: ResultPlan,
}

/// Names of the resources that [`plan`] has to be given for this script and these arguments.
pub fn needs(source: &str, language: Language, arguments: &Arguments) -> Result<Vec<String>, ScriptError> {
    let mut names = arguments::named(arguments)?;
    for secret in Annotations::parse(source, language)?.secrets {
        if !names.contains(&secret.from.name) {
            names.push(secret.from.name);
        }
    }
    Ok(names)
}

/// Pure: nothing is looked up, made or started.
pub fn plan(
    source: &str,
    language: Language,
    arguments: &Arguments,
    context: &Context,
) -> Result<Plan, ScriptError> {
    let annotations = check(source, language)?;
    check_reach(&annotations, &context.allow)?;
    let size = serde_json::to_vec(arguments).map_or(0, |text| text.len());
    if size > LARGEST_ARGUMENTS {
        return Err(ScriptError::ArgumentsTooLarge(size));
    }
    let resolved = arguments::resolve(arguments, &context.resources)?;
    let runner = runners::runner(language, source, &resolved)?;
    let timeout = annotations.timeout.unwrap_or(DEFAULT_TIMEOUT);
    let mut secrets = resolved.secrets;
    for line in &annotations.secrets {
        secrets.insert(line.variable.clone(), secret(line, &context.resources)?);
    }
    let volumes = volumes(&annotations.volumes, arguments, &context.workspace)?;
    let sandbox = CreateSandbox {
        template: match annotations.image {
            Some(_) => None,
            None => Some(context.template.clone().unwrap_or_else(|| DEFAULT_TEMPLATE.into())),
        },
        public_image: annotations
            .image
            .as_ref()
            .is_some_and(|image| !vouches_for_registry(&context.allow, image)),
        image: annotations.image.clone(),
        backend: annotations.backend.clone(),
        require: annotations.require.clone(),
        ttl_seconds: Some((timeout + MARGIN).as_secs_f64()),
        limits: LimitsRequest {
            memory_bytes: annotations.memory,
            cpus: annotations.cpus,
            ..LimitsRequest::default()
        },
        network: network(annotations.net.as_deref(), &context.allow),
        secrets,
        env: environment(&context.workspace, &volumes),
        cwd: Some(DIRECTORY.into()),
        volumes,
        ..CreateSandbox::default()
    };
    let exec = StartExec { timeout_seconds: Some(timeout.as_secs_f64()), ..runner.exec };
    Ok(Plan { language, annotations, sandbox, files: runner.files, exec, result: runner.result })
}

/// All that can be said of a script without arguments: `paddock script check`.
pub fn check(source: &str, language: Language) -> Result<Annotations, ScriptError> {
    if source.len() > LARGEST_SOURCE {
        return Err(ScriptError::TooLarge(source.len()));
    }
    let annotations = Annotations::parse(source, language)?;
    for volume in &annotations.volumes {
        target(volume, &annotations.volumes)?;
        if !volume.name.contains('$') {
            checked_name(volume, &volume.name)?;
        }
    }
    let (_, below) = crate::header::lines(source, language.comment());
    if source.lines().skip(below.saturating_sub(1) as usize).all(|line| line.trim().is_empty()) {
        return Err(ScriptError::Empty);
    }
    if !runners::may_have_main(language, source) {
        return Err(ScriptError::NoMain { language });
    }
    Ok(annotations)
}

fn volumes(
    lines: &[VolumeLine],
    arguments: &Arguments,
    workspace: &str,
) -> Result<Vec<VolumeMount>, ScriptError> {
    let mut all: Vec<VolumeMount> = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let wrong = |error| ScriptError::Annotation { line: line.line, error };
        let name = volume_name(&line.name, arguments, workspace).map_err(wrong)?;
        checked_name(line, &name)?;
        if let Some(first) = all.iter().position(|other| other.name == name) {
            return Err(wrong(AnnotationError::VolumeTwice { name, line: lines[first].line }));
        }
        let path = target(line, &lines[..at])?.display().to_string();
        all.push(VolumeMount {
            name,
            path,
            mode: VolumeMode::Rw,
            on_failure: OnFailure::Keep,
            checkpoint_seconds: None,
            version: None,
        });
    }
    Ok(all)
}

fn checked_name(line: &VolumeLine, name: &str) -> Result<(), ScriptError> {
    check_name(name).map_err(|error| volume_error(line, &error))
}

/// The place of a volume, apart from the script and from the other volumes.
fn target(line: &VolumeLine, others: &[VolumeLine]) -> Result<PathBuf, ScriptError> {
    let path = check_target(&line.target).map_err(|error| volume_error(line, &error))?;
    let wrong = |error| ScriptError::Annotation { line: line.line, error };
    if path.starts_with(OWN_DIRECTORY) {
        return Err(wrong(AnnotationError::Reserved(crate::error::shown(&line.target))));
    }
    let overlap = |one: &Path, two: &Path| one.starts_with(two) || two.starts_with(one);
    for other in others.iter().filter(|other| other.line < line.line) {
        if check_target(&other.target).is_ok_and(|other| overlap(&other, &path)) {
            let target = crate::error::shown(&line.target);
            return Err(wrong(AnnotationError::TargetTaken { target, line: other.line }));
        }
    }
    Ok(path)
}

fn volume_error(line: &VolumeLine, error: &paddock_volumes::VolumeError) -> ScriptError {
    let error = AnnotationError::Volume { message: error.to_string(), hint: error.hint() };
    ScriptError::Annotation { line: line.line, error }
}

/// A stranger wrote the header: it may name no place that only the host can reach.
fn check_reach(annotations: &Annotations, allow: &[String]) -> Result<(), ScriptError> {
    let wrong = |line, error| Err(ScriptError::Annotation { line, error });
    if let Some(image) = &annotations.image
        && is_registry_inside(image)
        && !vouches_for_registry(allow, image)
    {
        let registry = image.split('/').next().unwrap_or_default().to_string();
        return wrong(annotations.image_line, AnnotationError::RegistryInside { registry });
    }
    let given: Vec<Rule> = allow.iter().filter_map(|text| Rule::parse(text).ok()).collect();
    for rule in annotations.net.iter().flatten() {
        let Ok(parsed) = Rule::parse(rule) else { continue };
        let Target::Block(block) = parsed.target else { continue };
        let is_given =
            given.iter().any(|own| matches!(&own.target, Target::Block(own) if own.contains(&block)));
        if is_special_block(&block) && !is_given {
            return wrong(annotations.net_line, AnnotationError::NetInside { rule: rule.clone() });
        }
    }
    Ok(())
}

/// `None`: as the template says.
fn network(header: Option<&[String]>, allow: &[String]) -> Option<NetSetting> {
    match (header, allow) {
        (None, []) => None,
        (Some([]), []) => Some(NetSetting::Word("none".into())),
        (header, allow) => Some(NetSetting::Rules(NetLayer {
            allow: allow.to_vec(),
            allow_public: header.unwrap_or_default().to_vec(),
            ..NetLayer::default()
        })),
    }
}

/// The script says where it wants to send it; its owner has said where it may go.
fn secret(line: &SecretLine, resources: &BTreeMap<String, Resource>) -> Result<SecretLayer, ScriptError> {
    let (resource, found) = arguments::look_up(&line.from, resources)?;
    if !found.is_string() {
        let found = crate::resource::kind_of(found);
        return Err(ScriptError::NotAText { name: line.from.name.clone(), found });
    }
    let bound = resource.secrets.get(&line.from.field).map_or(&[][..], Vec::as_slice);
    if let Some(host) = line.hosts.iter().find(|host| !bound.contains(host)) {
        let error = AnnotationError::SecretHost {
            variable: line.variable.clone(),
            host: host.clone(),
            resource: line.from.name.clone(),
        };
        return Err(ScriptError::Annotation { line: line.line, error });
    }
    Ok(arguments::bound(&line.from.name, &line.from.field, &line.hosts))
}

/// The variables that Windmill's scripts know. Programs keep their state in the home directory, and a script's volumes
/// are below the directory where it starts: `volume: claude .claude` is to be `~/.claude`. A script that mounts below
/// /home means that home.
fn environment(workspace: &str, volumes: &[VolumeMount]) -> BTreeMap<String, String> {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c.to_ascii_uppercase() } else { '_' };
    let variable = |name: &str| format!("WM_VOLUME_{}", name.chars().map(letter).collect::<String>());
    let places = volumes.iter().map(|volume| (variable(&volume.name), volume.path.clone()));
    let home = (!volumes.iter().any(|volume| volume.path.starts_with("/home/")))
        .then(|| ("HOME".to_string(), DIRECTORY.to_string()));
    places.chain([("WM_WORKSPACE".to_string(), workspace.to_string())]).chain(home).collect()
}
