//! Lists the tools of a session and answers calls. A call that its client gives up on kills its work.

use crate::lifecycle;
use crate::session::Session;
use paddock_tools::loopstack::Loopstack;
use paddock_tools::{Answer, Format, Host, definitions, render, tool_names};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ProgressNotificationParam, ProtocolVersion, ServerCapabilities,
    ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;

/// How often a client hears that a call still runs.
const PROGRESS: Duration = Duration::from_secs(1);
/// Calls of one session that are worked on at a time; further ones wait.
const AT_A_TIME: usize = 16;

const INSTRUCTIONS: &str = "A sandbox of your own: run code and commands in it, and read and write its files. It is made \
    at the first call and ends with this session. Files and the state of interpreters last from call to call.";
const LOOPSTACK_INSTRUCTIONS: &str =
    "Sandboxes by the ten tools of Loopstack: sandbox_init makes one, sandbox_destroy ends it.";

/// One client's server.
pub struct Handler<H: Host> {
    session: Arc<Session<H>>,
    loopstack: Option<Arc<Loopstack<H>>>,
    room: Semaphore,
    versions: &'static [ProtocolVersion],
}

impl<H: Host> Handler<H> {
    /// For a transport that is itself the session, such as a pair of streams: every version of the protocol will do.
    pub fn new(session: Arc<Session<H>>, loopstack: Option<Arc<Loopstack<H>>>) -> Handler<H> {
        Handler {
            session,
            loopstack,
            room: Semaphore::new(AT_A_TIME),
            versions: ProtocolVersion::KNOWN_VERSIONS,
        }
    }

    /// Later versions have no sessions over HTTP, and a sandbox belongs to one.
    pub fn with_sessions_only(mut self) -> Handler<H> {
        self.versions = ProtocolVersion::known_up_to(&ProtocolVersion::V_2025_11_25);
        self
    }

    async fn tools(&self) -> Vec<Value> {
        if self.loopstack.is_some() {
            return paddock_tools::loopstack::definitions();
        }
        let facts = self.session.facts().await;
        // No tool is named, so all of them come.
        let all = definitions(&facts, &[]).unwrap_or_default();
        let tools = all.iter().map(|definition| {
            let mut tool = render(definition, Format::Mcp);
            if definition.name != "read_output" {
                tool["inputSchema"]["properties"]["sandbox"] = lifecycle::sandbox_parameter();
            }
            tool
        });
        tools.chain(lifecycle::definitions()).collect()
    }

    async fn answer(&self, tool: &str, arguments: Map<String, Value>) -> CallToolResult {
        // The semaphore is never closed.
        let _room = self.room.acquire().await;
        let _call = self.session.begin_call();
        match &self.loopstack {
            Some(loopstack) => match loopstack.call(tool, &arguments).await {
                Ok(data) => {
                    if let Some(id) = data["dockerId"].as_str() {
                        self.session.adopt(id);
                    }
                    loopstack_result(data)
                }
                Err(error) => CallToolResult::error(vec![ContentBlock::text(error.to_string())]),
            },
            None => result(self.own_answer(tool, arguments).await),
        }
    }

    async fn own_answer(&self, tool: &str, mut arguments: Map<String, Value>) -> Answer {
        if let Some(answer) = lifecycle::call(&self.session, tool, &arguments).await {
            return answer;
        }
        if !tool_names().any(|name| name == tool) {
            let known: Vec<&str> = tool_names().chain(lifecycle::names()).collect();
            let name: String = tool.chars().take(80).flat_map(char::escape_debug).collect();
            return Answer::error(format!("there is no tool '{name}'; the tools are {}", known.join(", ")));
        }
        let named = match (tool, arguments.get("sandbox")) {
            ("read_output", _) | (_, None) => None,
            (_, Some(Value::Null)) => arguments.remove("sandbox").and(None),
            (_, Some(Value::String(id))) => {
                let id = id.clone();
                arguments.remove("sandbox");
                Some(id)
            }
            (_, Some(other)) => {
                let shown: String = other.to_string().chars().take(80).collect();
                return Answer::error(format!("sandbox of {tool} is {shown}, not of type string"));
            }
        };
        let arguments = Value::Object(arguments);
        // A mistake of the model's makes no sandbox.
        if let Some(answer) = self.session.toolbox.call_without_sandbox(tool, &arguments) {
            return answer;
        }
        let id = match self.session.sandbox(named.as_deref()).await {
            Ok(id) => id,
            Err(error) => return Answer::error(error.told()),
        };
        let sandbox = self.session.host().sandbox(&id);
        let mut answer = self.session.toolbox.call(&sandbox, tool, &arguments).await;
        if let Some(news) = self.session.news() {
            answer.text = format!("{news}\n{}", answer.text);
        }
        if answer.sandbox_is_gone {
            self.session.forget(&id);
            answer.text.push_str("\n[the next call gets a new sandbox: files and variables are gone]");
        }
        answer
    }
}

impl<H: Host> ServerHandler for Handler<H> {
    fn get_info(&self) -> ServerConfig {
        let instructions = if self.loopstack.is_some() { LOOPSTACK_INSTRUCTIONS } else { INSTRUCTIONS };
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("paddock", env!("CARGO_PKG_VERSION")))
            .with_instructions(instructions)
    }

    fn supported_protocol_versions(&self) -> Cow<'static, [ProtocolVersion]> {
        Cow::Borrowed(self.versions)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools =
            self.tools().await.into_iter().filter_map(|tool| serde_json::from_value::<Tool>(tool).ok());
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let token = context.meta.get_progress_token();
        let arguments: JsonObject = request.arguments.unwrap_or_default();
        let mut answer = std::pin::pin!(self.answer(&request.name, arguments));
        let began = Instant::now();
        let mut tick = tokio::time::interval_at(tokio::time::Instant::now() + PROGRESS, PROGRESS);
        loop {
            tokio::select! {
                answer = &mut answer => return Ok(answer.into()),
                // The client has given up: the dropped call kills its work.
                () = context.ct.cancelled() => return Err(ErrorData::internal_error("the call was cancelled", None)),
                _ = tick.tick(), if token.is_some() => {
                    if let Some(token) = token.clone() {
                        let seconds = began.elapsed().as_secs_f64().round();
                        let told = ProgressNotificationParam::new(token, seconds)
                            .with_message(format!("{} has run for {seconds} s", request.name));
                        let _ = context.peer.notify_progress(told).await;
                    }
                }
            }
        }
    }
}

fn result(answer: Answer) -> CallToolResult {
    let mut content = vec![ContentBlock::text(answer.text)];
    let pictures = answer.pictures.into_iter();
    content.extend(pictures.map(|picture| ContentBlock::image(picture.base64, picture.media_type)));
    if answer.is_error { CallToolResult::error(content) } else { CallToolResult::success(content) }
}

/// The data as text for models, and as it is for programs.
fn loopstack_result(data: Value) -> CallToolResult {
    let mut result = CallToolResult::success(vec![ContentBlock::text(data.to_string())]);
    result.structured_content = Some(data);
    result
}
