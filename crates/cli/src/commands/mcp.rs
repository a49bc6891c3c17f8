//! `paddock mcp`: a sandbox for one MCP client, which speaks over standard input and output.

use super::remote::with_client;
use super::{CommandError, create, tools};
use crate::args::EXIT_SIGNALED;
use crate::args::ports::PortFlags;
use crate::args::sandboxes::CreateArgs;
use crate::args::tools::{DialectName, McpArgs};
use crate::caller::Caller;
use crate::client::Client;
use crate::client::operations::RemoteHost;
use crate::session::signals::Signals;
use paddock_mcp::{Handler, LEASE, Session, SessionOptions, serve_streams};
use paddock_model::api::CreateSandbox;
use paddock_tools::loopstack::{HostPaths, Loopstack, LoopstackOptions};
use paddock_tools::{Facts, ToolboxOptions};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// How long the end of the sandboxes is waited for; their time to live does the rest.
const FAREWELL: Duration = Duration::from_secs(10);

pub fn execute(args: McpArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let loopstack = args.dialect == DialectName::Loopstack;
    let options = options(args, caller)?;
    with_client(caller, async |client, _| serve(client, options, loopstack).await)
}

fn options(args: McpArgs, caller: &Caller) -> Result<SessionOptions, CommandError> {
    // If the server is on another computer, its templates cannot be read here.
    let facts = tools::facts_of_policy(args.template.as_deref(), args.policy.clone(), caller);
    let request = CreateArgs {
        name: None,
        template: args.template,
        snapshot: args.snapshot,
        ttl: None,
        idle: None,
        persistent: false,
        under_pressure: None,
        live: None,
        live_forks: None,
        metadata: args.metadata,
        json: false,
        ports: PortFlags::default(),
        volumes: args.volumes,
        policy: args.policy,
        scan: args.scan,
    };
    let create = create::request(request, caller)?;
    let mut toolbox = ToolboxOptions::default();
    toolbox.output_budget = args.output_budget.map_or(toolbox.output_budget, |budget| budget as usize);
    toolbox.timeout_seconds = create.limits.exec_timeout_seconds.unwrap_or(toolbox.timeout_seconds);
    Ok(SessionOptions {
        create,
        attach: args.sandbox,
        facts: facts.unwrap_or_else(|_| Facts::default()),
        toolbox,
        longest_life: args.ttl.map(Duration::from_secs_f64),
        idle: None,
    })
}

async fn serve(client: Arc<Client>, options: SessionOptions, loopstack: bool) -> Result<i32, CommandError> {
    let host = RemoteHost { client };
    let loopstack = loopstack.then(|| {
        let workspace = options.create.workspace.as_ref().map(PathBuf::from);
        let host_paths = workspace.map_or(HostPaths::None, HostPaths::Only);
        let create = CreateSandbox { ttl_seconds: Some(LEASE.as_secs_f64()), ..options.create.clone() };
        let options = LoopstackOptions { create, host_paths, lasting: false };
        Arc::new(Loopstack::new(host.clone(), options))
    });
    let session = Arc::new(Session::new(host, options));
    let handler = Handler::new(session.clone(), loopstack);
    let mut signals = Signals::listen().map_err(CommandError::Signals)?;
    let served = tokio::select! {
        served = serve_streams(handler, tokio::io::stdin(), tokio::io::stdout()) => served.map(|()| 0),
        signal = signals.next_ending() => Ok(EXIT_SIGNALED + signal),
    };
    let _ = tokio::time::timeout(FAREWELL, session.end()).await;
    Ok(served?)
}
