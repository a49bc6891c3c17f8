//! The list of contexts.

use super::table::Table;
use super::time;
use paddock_model::api::{Context, ContextState};

pub fn text(contexts: &[Context], now_ms: u64, colour: bool) -> String {
    let mut table = Table::with_header(&["ID", "LANGUAGE", "STATE", "STARTED", "EXEC", "WAITING"]);
    for context in contexts {
        let state = match context.state {
            ContextState::Idle => "idle",
            ContextState::Busy => "busy",
            ContextState::Ended => "ended",
        };
        table.row([
            context.id.as_str().into(),
            context.language.as_str().into(),
            state.into(),
            time::relative(context.started_at_ms, now_ms).as_str().into(),
            context.exec.to_string().as_str().into(),
            context.waiting.to_string().as_str().into(),
        ]);
    }
    table.render(colour)
}
