//! `paddock script`: files with annotations.

use super::CommandError;
use super::remote::with_client;
use super::template_build;
use crate::args::EXIT_SIGNALED;
use crate::args::script::{ScriptAction, ScriptRunArgs};
use crate::caller::Caller;
use crate::layers::LayerError;
use crate::script::run::{Manner, Outcome, carry_out, prepare};
use crate::script::source::{Source, arguments};
use crate::script::{begin, report};
use paddock_scripts::{Context, agent_template, check};
use std::collections::BTreeMap;
use std::time::Duration;

pub fn execute(action: ScriptAction, caller: &mut Caller) -> Result<i32, CommandError> {
    match action {
        ScriptAction::Run(args) => run(*args, caller),
        ScriptAction::New(args) => begin::write(&args, caller).map(|()| 0),
        ScriptAction::Check(args) => {
            let source = Source::read(&args.source)?;
            let found = check(&source.text, source.language).map_err(|error| source.wrong(error))?;
            report::checked(source.language, &found, args.json, caller)?;
            Ok(0)
        }
    }
}

fn run(args: ScriptRunArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let source = Source::read(&args.source)?;
    let arguments = arguments(args.args.as_deref(), &args.arg, caller.stdin)?;
    // Errors in the file are told before a server is looked for.
    let found = check(&source.text, source.language).map_err(|error| source.wrong(error))?;
    let host_certs = args.certificates.chosen(&caller.environment).map_err(LayerError::from)?;
    let agent = || agent_template(&source.text, source.language).map(str::to_string);
    let template = args.template.or_else(|| agent().filter(|_| found.image.is_none()));
    if let Some(name) = template.as_deref().filter(|_| found.image.is_none()) {
        template_build::ensure(name, host_certs == Some(true), caller)?;
    }
    let context =
        Context { workspace: args.workspace_id, template, allow: args.allow_net, resources: BTreeMap::new() };
    let manner = Manner { patience: Duration::from_secs_f64(args.wait), silent: args.json };
    with_client(caller, async |client, caller| {
        let mut plan = prepare(&client, &source, &arguments, context).await?;
        if let Some(on_failure) = args.on_failure {
            plan.sandbox.volumes.iter_mut().for_each(|volume| volume.on_failure = on_failure.into());
        }
        plan.sandbox.host_certs = host_certs;
        plan.sandbox.metadata.insert("script".into(), name_of(&source.file));
        match carry_out(client, plan, manner).await? {
            Outcome::Ran(ran) => ran.tell(args.json, caller),
            Outcome::Signal(number) => Ok(EXIT_SIGNALED + number),
        }
    })
}

/// The name by which `paddock ps --metadata` finds it.
fn name_of(file: &str) -> String {
    let name = file.rsplit('/').next().unwrap_or(file);
    name.chars().filter(|letter| !letter.is_control()).take(120).collect()
}
