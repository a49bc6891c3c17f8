//! The loop: ask the model, carry out its calls, answer, ask again.

use crate::budget::Budget;
use crate::client::{Client, Request};
use crate::error::ModelError;
use crate::event::Event;
use crate::retries::{self, Patience};
use crate::turn::{Call, Result as CallResult, Turn, Usage};
use paddock_tools::{Definition, Operations, Toolbox};
use serde_json::Value;

/// The parts of one run besides its conversation.
pub struct Agent<'a, S: Operations> {
    pub client: &'a Client,
    pub sandbox: &'a S,
    pub toolbox: &'a Toolbox,
    pub tools: &'a [Definition],
    pub system: &'a str,
    pub budget: Budget,
    pub patience: Patience,
}

/// Why a run is over.
#[derive(Debug)]
pub enum End {
    /// The model has no more to ask.
    Answer {
        text: String,
    },
    /// The model stopped for a reason of its own, such as the length of its reply.
    Stopped {
        reason: String,
        text: String,
    },
    Steps {
        limit: u32,
    },
    Tokens {
        limit: u64,
        used: u64,
    },
    Time {
        seconds: u64,
    },
    /// There is nothing left to work in.
    SandboxGone {
        detail: String,
    },
    Model(ModelError),
}

/// The last one ends it. `turns` grows by every turn that is whole, and `keep` gets each before the next is asked for.
///
/// Dropped at any point, it leaves nothing running inside.
pub async fn run<S: Operations>(
    agent: &Agent<'_, S>,
    turns: &mut Vec<Turn>,
    keep: &mut dyn FnMut(&Turn),
    tell: &mut dyn FnMut(Event),
) -> End {
    let time = agent.budget.time;
    match tokio::time::timeout(time, steps(agent, turns, keep, tell)).await {
        Ok(end) => end,
        Err(_) => End::Time { seconds: time.as_secs() },
    }
}

async fn steps<S: Operations>(
    agent: &Agent<'_, S>,
    turns: &mut Vec<Turn>,
    keep: &mut dyn FnMut(&Turn),
    tell: &mut dyn FnMut(Event),
) -> End {
    let mut total = Usage::default();
    for step in 1..=agent.budget.steps {
        let request = Request { system: agent.system, turns, tools: agent.tools };
        let reply = match retries::ask(agent.client, &request, &agent.patience, tell).await {
            Ok(reply) => reply,
            Err(error) => return End::Model(error),
        };
        total.add(reply.usage);
        tell(Event::Step { step, usage: reply.usage, total });
        let said = Turn::Model { text: reply.text.clone(), calls: reply.calls.clone() };
        keep(&said);
        turns.push(said);
        if reply.calls.is_empty() {
            return match reply.stop.as_str() {
                "end_turn" | "stop" | "stop_sequence" => End::Answer { text: reply.text },
                _ => End::Stopped { reason: reply.stop, text: reply.text },
            };
        }
        let answered = answer(agent, &reply.calls, tell).await;
        let gone = answered.iter().find_map(|(_, gone)| gone.clone());
        let results = Turn::Results { results: answered.into_iter().map(|(result, _)| result).collect() };
        keep(&results);
        turns.push(results);
        if let Some(detail) = gone {
            return End::SandboxGone { detail };
        }
        if let Some(limit) = agent.budget.tokens.filter(|limit| total.total() >= *limit) {
            return End::Tokens { limit, used: total.total() };
        }
    }
    End::Steps { limit: agent.budget.steps }
}

/// Every call gets an answer, also after one that failed: a provider refuses a conversation with one missing.
async fn answer<S: Operations>(
    agent: &Agent<'_, S>,
    calls: &[Call],
    tell: &mut dyn FnMut(Event),
) -> Vec<(CallResult, Option<String>)> {
    let mut answers = Vec::new();
    for call in calls {
        let Call { id, tool, arguments } = call.clone();
        tell(Event::Call { id: id.clone(), tool: tool.clone(), arguments: arguments.clone() });
        // A tool without arguments may come with none at all.
        let arguments = if arguments.trim().is_empty() { "{}".to_string() } else { arguments };
        let answer = agent.toolbox.call(agent.sandbox, &tool, &Value::String(arguments)).await;
        let is_error = answer.is_error;
        tell(Event::Result { id: id.clone(), is_error, text: answer.text.clone() });
        let gone = answer.sandbox_is_gone.then(|| answer.text.clone());
        answers.push((CallResult { id, text: answer.text, is_error }, gone));
    }
    answers
}
