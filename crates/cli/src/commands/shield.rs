//! `paddock shield`: a coding agent on a real repository, behind a fence, and the account of its actions.

use super::{CommandError, print, print_json, sandboxed};
use crate::args::shield::ShieldArgs;
use crate::caller::Caller;
use crate::session;
use crate::shield::install::{Facts, Progress};
use crate::shield::watch::{Account, Watch};
use crate::shield::{ShieldError, account, fence, home};
use crate::{render, state};
use paddock_model::RunReport;
use paddock_settings::agents;

pub fn execute(mut args: ShieldArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    args.call.explain |= args.dry_run;
    if args.list {
        return list(args.call.json, caller);
    }
    if args.forget {
        return forget(&args, caller);
    }
    if let Some(name) = args.install.clone() {
        return install(args, &name, caller);
    }
    let (explain, json, diff) = (args.call.explain, args.call.json, args.diff);
    let mut raised = fence::raise(args, caller)?;
    if explain {
        if !json {
            print(&account::agent(raised.agent.as_ref(), caller.colour_on_stdout()), caller)?;
        }
        return sandboxed::run_or_explain(raised.session, true, caller);
    }
    let state_dir = raised.session.state_dir.clone();
    let unlisted = |source| ShieldError::HomeDirectory { path: state_dir.clone(), source };
    let (watch, first) = Watch::begin(raised.places, diff.then_some(&*state_dir)).map_err(unlisted)?;
    raised.session.first = Some(first);
    let over = session::hold(raised.session)?;
    let_signals_end_us();
    let account = watch.end();
    let missing = over.finished.exit_code() == session::NOT_FOUND;
    let code = tell(over, account, json, caller)?;
    if missing && let Some(agent) = raised.agent.filter(|agent| !agent.install.is_empty()) {
        let hint =
            format!("`paddock shield --install {}` puts it into the home of this repository", agent.name);
        render::error::hint(&hint, caller);
    }
    Ok(code)
}

fn install(args: ShieldArgs, name: &str, caller: &mut Caller) -> Result<i32, CommandError> {
    let (explain, json) = (args.call.explain, args.call.json);
    let passes_streams = fence::passes_streams(&args.call);
    let mut session = fence::installation(args, name, caller)?;
    if explain {
        return sandboxed::run_or_explain(session, true, caller);
    }
    if passes_streams {
        return Ok(session::hold(session)?.tell(json)?);
    }
    let facts = Facts::of(name, &session);
    let progress = Progress::begin(name, caller.terminals.stderr);
    session.listener = Some(progress.listener());
    let over = session::hold(session);
    let heard = progress.end();
    let over = over?;
    let code = over.finished.exit_code();
    let failure = (code != 0).then(|| facts.failure(&over, &heard));
    if json {
        let hint = failure.and_then(|failure| failure.hint);
        let run = over.finished.report(over.stdout, over.stderr);
        print_json(&Installed { run, installed: code == 0, hint }, caller)?;
        return Ok(code);
    }
    match failure {
        Some(failure) => {
            let _ = caller.stderr.write_all(failure.output.as_bytes());
            render::error::print(&failure, failure.hint.as_deref(), caller);
        }
        None => {
            let text = format!(
                "{name} is installed in the home of this repository, after {:.1} s: paddock shield -- {name}\n",
                heard.took.as_secs_f64()
            );
            print(&text, caller)?;
        }
    }
    Ok(code)
}

/// The output of `--install --json`.
#[derive(serde::Serialize)]
struct Installed {
    #[serde(flatten)]
    run: RunReport,
    installed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(serde::Serialize)]
struct Report {
    #[serde(flatten)]
    run: RunReport,
    #[serde(flatten)]
    account: account::Told,
}

fn tell(over: session::Over, account: Account, json: bool, caller: &mut Caller) -> Result<i32, CommandError> {
    let code = over.finished.exit_code();
    let (hosts, others) = {
        let decisions = session::network::lock(&over.decisions);
        (decisions.ledger.hosts(), decisions.ledger.others)
    };
    if json {
        let run = over.finished.report(over.stdout, over.stderr);
        print_json(&Report { run, account: account::Told::new(account, hosts, others) }, caller)?;
        return Ok(code);
    }
    let mut text = over.finished.message().map(|message| format!("paddock: {message}\n")).unwrap_or_default();
    text.push_str(&account::changes(&account, caller.colour_on_stderr()));
    text.push_str(&account::network(&hosts, others, caller.colour_on_stderr()));
    // An error while writing the account cannot be told anywhere.
    let _ = caller.stderr.write_all(text.as_bytes());
    Ok(code)
}

/// The sandbox is gone, and a large directory takes a while to list: from here on Ctrl-C ends us at once.
fn let_signals_end_us() {
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP, libc::SIGQUIT] {
        // SAFETY: SIG_DFL is always a valid disposition.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

fn list(json: bool, caller: &mut Caller) -> Result<i32, CommandError> {
    let state = state::locate(&caller.environment)?;
    let names = agents::names(&state);
    let known: Result<Vec<_>, _> = names.iter().map(|name| agents::load(&state, name)).collect();
    let known = known.map_err(ShieldError::from)?;
    match json {
        true => print_json(&known, caller)?,
        false => {
            let has = |name: &str| caller.environment.get(name).is_some();
            let table = account::agents(&known, has, caller.colour_on_stdout());
            print(&table, caller)?;
        }
    }
    Ok(0)
}

fn forget(args: &ShieldArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let state = state::prepare(&caller.environment)?;
    let workspace = match &args.policy.workspace {
        Some(named) => named.clone(),
        None => fence::current_directory(caller)?,
    };
    let directory = std::fs::canonicalize(workspace).map_err(ShieldError::NoDirectory)?;
    let line = match home::forget(&state, &directory)? {
        true => "removed the home of",
        false => "there is no home of",
    };
    print(&format!("{line} {}\n", render::escape::line(&directory.display().to_string())), caller)?;
    Ok(0)
}
