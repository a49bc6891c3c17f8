//! `paddock server`: the state of the server that the other commands use, and its end.

use super::{CommandError, print, print_json};
use crate::args::server::ServerAction;
use crate::caller::Caller;
use crate::client::{self, Address, Call, Client, ClientError, ConnectError, Target};
use crate::{env_vars, render, state};
use paddock_client::Method;
use paddock_model::api::ServerStatus;
use paddock_records::store::{ServerHolder, ServerPhase};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// A server that is told to end gives the requests under way some seconds, twice at most.
const LONGEST_END: Duration = Duration::from_secs(60);
const STEP: Duration = Duration::from_millis(50);

/// One server as seen from outside.
#[derive(Serialize)]
struct Seen {
    /// `serving`, `starting`, `ending` or `none`.
    state: &'static str,
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    state_dir: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<u32>,
    /// The server's own answer, if it answers.
    #[serde(skip)]
    status: Option<ServerStatus>,
}

#[derive(Serialize)]
struct Stopped {
    /// False where none ran.
    stopped: bool,
    address: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    process: Option<u32>,
}

pub fn execute(action: ServerAction, caller: &mut Caller) -> Result<i32, CommandError> {
    let server = Server::named(caller)?;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(ClientError::Runtime)?;
    let result = runtime.block_on(async {
        match action {
            ServerAction::Status { json } => status(&server, json, caller).await,
            ServerAction::Stop { json } => stop(&server, json, caller).await,
        }
    });
    runtime.shutdown_background();
    result
}

struct Server {
    client: Client,
    address: Address,
    /// Known where the address is the state directory's own.
    state_dir: Option<PathBuf>,
}

impl Server {
    fn named(caller: &Caller) -> Result<Server, CommandError> {
        let client = client::existing(&caller.environment)?;
        let address = client.address().clone();
        let state_dir = match caller.environment.get(env_vars::PADDOCK_URL) {
            Some(_) => None,
            None => Some(state::locate(&caller.environment)?),
        };
        Ok(Server { client, address, state_dir })
    }

    fn holder(&self) -> Option<ServerHolder> {
        self.state_dir.as_deref().and_then(ServerHolder::of)
    }

    /// `None`: no server listens there.
    async fn status(&self) -> Result<Option<ServerStatus>, ClientError> {
        match self.client.json(Call::get(Target::new("/v1/server"))).await {
            Ok(status) => Ok(Some(status)),
            Err(error) if error.is_absence() || no_such_place(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A socket whose very directory is missing.
fn no_such_place(error: &ClientError) -> bool {
    matches!(error, ClientError::Connect(ConnectError::Nobody { source, .. }) if source.kind() == std::io::ErrorKind::NotFound)
}

async fn status(server: &Server, json: bool, caller: &mut Caller<'_>) -> Result<i32, CommandError> {
    let holder = server.holder();
    let phase = holder.as_ref().and_then(|holder| holder.phase);
    // A server that starts or ends keeps its clients waiting; its note says enough.
    let status = match (server.state_dir.is_some(), &holder, phase) {
        (true, None, _) | (true, _, Some(ServerPhase::Starting | ServerPhase::Ending)) => None,
        _ => server.status().await?,
    };
    let state = match (&status, phase) {
        (Some(_), _) => ServerPhase::Serving.name(),
        (None, Some(phase)) => phase.name(),
        (None, None) => "none",
    };
    let ready = status.as_ref().is_some_and(|status| status.ready);
    let seen = Seen {
        state,
        address: server.address.to_string(),
        state_dir: server.state_dir.as_ref().map(|path| path.display().to_string()),
        process: holder.and_then(|holder| holder.process),
        status,
    };
    match json {
        true => print_json(&merged(&seen)?, caller)?,
        false => print(&table(&seen, caller.colour_on_stdout()), caller)?,
    }
    Ok(if ready { 0 } else { 1 })
}

/// The server's own word about its process and place counts more than the view from outside.
fn merged(seen: &Seen) -> Result<serde_json::Value, serde_json::Error> {
    let mut value = serde_json::to_value(seen)?;
    if let (Some(object), Some(status)) = (value.as_object_mut(), &seen.status)
        && let serde_json::Value::Object(said) = serde_json::to_value(status)?
    {
        object.extend(said);
    }
    Ok(value)
}

fn table(seen: &Seen, colour: bool) -> String {
    use render::table::Table;
    let status = seen.status.as_ref();
    let process = status.and_then(|status| status.process).or(seen.process);
    let running = match (seen.state, process) {
        ("none", _) => "not running".to_string(),
        (state, Some(process)) => format!("{state} (process {process})"),
        (state, None) => state.to_string(),
    };
    let mut rows = vec![("server", running), ("address", seen.address.clone())];
    let state_dir = status.and_then(|status| status.state_dir.clone()).or(seen.state_dir.clone());
    rows.extend(state_dir.map(|path| ("state", path)));
    if let Some(status) = status {
        rows.push(("version", status.version.clone()));
        let now = render::time::now_ms();
        rows.extend(status.started_at_ms.map(|at| ("started", render::time::relative(at, now))));
        let ready = match &status.problem {
            None => "yes".to_string(),
            Some(problem) => format!("no: {problem}"),
        };
        rows.push(("ready", ready));
        rows.extend(status.sandboxes.map(|counts| {
            let words = format!(
                "{} running, {} paused, {} hibernated",
                counts.creating + counts.running,
                counts.paused,
                counts.hibernated
            );
            ("sandboxes", words)
        }));
    }
    let mut table = Table::new(0);
    for (name, value) in rows {
        table.row([name.into(), value.as_str().into()]);
    }
    table.render(colour)
}

async fn stop(server: &Server, json: bool, caller: &mut Caller<'_>) -> Result<i32, CommandError> {
    let (process, state_dir) = match server.holder() {
        // The server ends already, and answers no request.
        Some(ServerHolder { phase: Some(ServerPhase::Ending), process, .. }) => {
            (process, server.state_dir.clone())
        }
        None if server.state_dir.is_some() => return told(server, false, None, json, caller),
        _ => match server.status().await? {
            None => return told(server, false, None, json, caller),
            Some(status) => {
                server.client.done(Call::new(Method::POST, Target::new("/v1/server/stop"))).await?;
                (status.process, status.state_dir.map(PathBuf::from))
            }
        },
    };
    if let Some(state_dir) = state_dir {
        wait_for_end(&state_dir, process).await?;
    }
    told(server, true, process, json, caller)
}

/// Its lock goes with its process.
async fn wait_for_end(state_dir: &Path, process: Option<u32>) -> Result<(), CommandError> {
    let began = Instant::now();
    while ServerHolder::of(state_dir).is_some_and(|holder| holder.process == process) {
        if began.elapsed() > LONGEST_END {
            let process = process.unwrap_or_default();
            return Err(CommandError::ServerStays { process });
        }
        tokio::time::sleep(STEP).await;
    }
    Ok(())
}

fn told(
    server: &Server,
    stopped: bool,
    process: Option<u32>,
    json: bool,
    caller: &mut Caller,
) -> Result<i32, CommandError> {
    let address = server.address.to_string();
    if json {
        print_json(&Stopped { stopped, address, process }, caller)?;
        return Ok(0);
    }
    let line = match stopped {
        true => format!("the server at {address} has ended; its sandboxes go on"),
        false => format!("no server runs at {address}"),
    };
    print(&format!("{}\n", render::escape::line(&line)), caller)?;
    Ok(0)
}
