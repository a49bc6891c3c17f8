//! `paddock template build`: from a build file to a template with an image of its own.

use super::{CommandError, print, print_json};
use crate::args::TemplateBuildArgs;
use crate::caller::Caller;
use crate::env_vars;
use crate::layers::{LayerError, read_limited};
use crate::render;
use crate::session::SessionError;
use crate::session::build_progress::Steps;
use crate::session::signals::Signals;
use crate::state;
use paddock_builds::{
    Build, BuildError, BuildFile, BuildFileError, Built, CommandBuild, Event, Target, Watcher,
};
use paddock_model::{Network, format_bytes};
use paddock_settings::templates::{self, TemplateError};
use serde_json::{Value, json};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time to remove an unfinished build, when the caller does not want to wait.
const CLEANING: Duration = Duration::from_secs(20);

#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    #[error("no build file `{}` comes with Paddock", .0.escape_debug())]
    NotShipped(String),
    #[error("build file `{}` is not usable", .path.display())]
    Unusable { path: PathBuf, source: BuildFileError },
    #[error("build file `{}` cannot be read", .path.display())]
    Unreadable { path: PathBuf, source: io::Error },
    #[error("the name of `{}` is no name for a template", .0.display())]
    NoName(PathBuf),
}

impl SourceError {
    pub fn hint(&self) -> Option<String> {
        match self {
            SourceError::NotShipped(name) => {
                let known = paddock_builds::SHIPPED.join(", ");
                Some(format!(
                    "known are {known}; a file is named by its path, as in `./{}.toml`",
                    name.escape_debug()
                ))
            }
            SourceError::NoName(_) => Some("give it one with --name".to_string()),
            _ => None,
        }
    }
}

/// A build file, its place, and the name of its template.
struct Source {
    file: BuildFile,
    directory: Option<PathBuf>,
    name: String,
}

pub fn execute(args: TemplateBuildArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let state_dir = state::prepare(&caller.environment)?;
    let source = source(&args)?;
    let host_certs = args.certificates.chosen(&caller.environment).map_err(LayerError::from)?;
    let variables = caller.environment.texts();
    let build = Build {
        state: &state_dir,
        file: &source.file,
        directory: source.directory.as_deref(),
        target: Target::Template { name: &source.name, replace: args.force },
        use_cache: !args.no_cache,
        host_certs,
        caller: Some(&variables),
        network: &Network::Host,
        reach: None,
        login: None,
        backends: caller.backends,
    };
    let built = run(&build, caller.terminals.stderr).inspect_err(|error| show_output(error, caller))?;
    if args.json {
        print_json(&describe(&source.name, &built), caller)?;
    } else {
        let text = format!(
            "template {}: {}, {} of {} steps cached, {:.1} s\n",
            source.name,
            format_bytes(built.bytes),
            built.layers.iter().filter(|layer| layer.cached).count(),
            built.layers.len(),
            built.took.as_secs_f64(),
        );
        print(&text, caller)?;
    }
    Ok(0)
}

/// Builds the shipped template of this name if there is none, and says so. A server that PADDOCK_URL names has a state
/// directory of its own: nothing is built for it.
pub fn ensure(name: &str, host_certs: bool, caller: &mut Caller) -> Result<(), CommandError> {
    let Some(text) = paddock_builds::shipped(name) else { return Ok(()) };
    if name == templates::BUILT_IN || caller.environment.get(env_vars::PADDOCK_URL).is_some() {
        return Ok(());
    }
    let state_dir = state::prepare(&caller.environment)?;
    if !matches!(templates::load(&state_dir, name), Err(TemplateError::Missing(_))) {
        return Ok(());
    }
    let _ = writeln!(
        caller.stderr,
        "paddock: there is no template `{name}` yet; it is built once, which takes minutes"
    );
    let file =
        paddock_builds::parse(text).map_err(|source| SourceError::Unusable { path: name.into(), source })?;
    let variables = caller.environment.texts();
    let build = Build {
        state: &state_dir,
        file: &file,
        directory: None,
        target: Target::Template { name, replace: false },
        use_cache: true,
        host_certs: host_certs.then_some(true),
        caller: Some(&variables),
        network: &Network::Host,
        reach: None,
        login: None,
        backends: caller.backends,
    };
    match run(&build, caller.terminals.stderr) {
        Ok(_) => Ok(()),
        // Another command was first.
        Err(CommandError::Build(BuildError::Template(TemplateError::Exists(_)))) => Ok(()),
        Err(error) => {
            show_output(&error, caller);
            Err(error)
        }
    }
}

/// The output of the step that failed.
fn show_output(error: &CommandError, caller: &mut Caller) {
    if let CommandError::Build(BuildError::Step { output, .. }) = error {
        let _ = caller.stderr.write_all(render::build::output(output).as_bytes());
    }
}

/// Both are told of every event: the person who waits, and the log.
struct Both<'a>(&'a Steps, &'a CommandBuild);

impl Watcher for Both<'_> {
    fn event(&self, event: Event<'_>) {
        self.0.event(event);
        self.1.event(event);
    }
}

fn run(build: &Build<'_>, terminal: bool) -> Result<Built, CommandError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(SessionError::Runtime)?;
    let steps = Steps::new(terminal);
    let (Target::Template { name, .. } | Target::Kept { id: name }) = build.target;
    let recorded = CommandBuild::begin(build.state, name)?;
    let watcher = Both(&steps, &recorded);
    let built = runtime.block_on(async {
        let mut signals = Signals::listen().map_err(SessionError::Streams)?;
        tokio::select! {
            built = paddock_builds::build(build, &watcher) => Ok::<_, CommandError>(built?),
            number = signals.next_ending() => Err(SessionError::Interrupted(number).into()),
        }
    });
    steps.clear();
    let noted =
        recorded.end(built.as_ref().map(|built| built.bytes).map_err(|error| render::error::chain(error)));
    // Threads of the runtime remove the unfinished build.
    runtime.shutdown_timeout(CLEANING);
    let built = built?;
    noted?;
    Ok(built)
}

fn source(args: &TemplateBuildArgs) -> Result<Source, CommandError> {
    let text = &args.source;
    if !text.contains('/') && !text.ends_with(".toml") {
        let shipped = paddock_builds::shipped(text)
            .ok_or_else(|| SourceError::NotShipped(text.chars().take(80).collect()))?;
        let file = paddock_builds::parse(shipped);
        let file = file.map_err(|source| SourceError::Unusable { path: text.into(), source })?;
        return Ok(Source { file, directory: None, name: args.name.clone().unwrap_or_else(|| text.clone()) });
    }
    let path = Path::new(text);
    let bytes = read_limited("build file", path)?;
    let content = std::str::from_utf8(&bytes);
    let unusable = |source| SourceError::Unusable { path: path.to_path_buf(), source };
    let not_text = |_| unusable(paddock_settings::policy_file::PolicyError::NotText.into());
    let file = paddock_builds::parse(content.map_err(not_text)?).map_err(unusable)?;
    let absolute = std::fs::canonicalize(path)
        .map_err(|source| SourceError::Unreadable { path: path.to_path_buf(), source })?;
    let stem = absolute.file_stem().and_then(|stem| stem.to_str()).map(String::from);
    let name = args.name.clone().or(stem).ok_or_else(|| SourceError::NoName(path.to_path_buf()))?;
    Ok(Source { file, directory: absolute.parent().map(Path::to_path_buf), name })
}

fn describe(name: &str, built: &Built) -> Value {
    let layers: Vec<Value> = built
        .layers
        .iter()
        .map(|layer| {
            json!({
                "step": layer.step,
                "root": layer.root,
                "cached": layer.cached,
                "seconds": layer.took.as_secs_f64(),
                "bytes": layer.bytes,
            })
        })
        .collect();
    json!({
        "template": name,
        "image": built.image,
        "bytes": built.bytes,
        "seconds": built.took.as_secs_f64(),
        "layers": layers,
    })
}
