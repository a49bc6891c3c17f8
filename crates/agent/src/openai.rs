//! The wire format of OpenAI: `POST /v1/chat/completions`.

use crate::endpoint::Endpoint;
use crate::error::ModelError;
use crate::reply::Reply;
use crate::turn::Turn;
use paddock_tools::{Definition, Format, render};
use serde_json::{Value, json};

/// The last event of a stream; it is no JSON.
pub const DONE: &str = "[DONE]";

pub fn body(endpoint: &Endpoint, system: &str, turns: &[Turn], tools: &[Definition]) -> Value {
    let tools: Vec<Value> = tools.iter().map(|tool| render(tool, Format::OpenAi)).collect();
    let mut messages = vec![json!({ "role": "system", "content": system })];
    messages.extend(turns.iter().flat_map(message));
    json!({
        "model": endpoint.model,
        "messages": messages,
        "tools": tools,
        "stream": true,
        "stream_options": { "include_usage": true },
    })
}

fn message(turn: &Turn) -> Vec<Value> {
    match turn {
        Turn::Task { text } => vec![json!({ "role": "user", "content": text })],
        Turn::Model { text, calls } => {
            let mut said = json!({ "role": "assistant", "content": text });
            if !calls.is_empty() {
                let called = calls.iter().map(|call| {
                    let function = json!({ "name": call.tool, "arguments": call.arguments });
                    json!({ "id": call.id, "type": "function", "function": function })
                });
                said["tool_calls"] = called.collect();
            }
            vec![said]
        }
        Turn::Results { results } => {
            let told = results.iter().map(|result| {
                // There is no field that says so.
                let text =
                    if result.is_error { format!("error: {}", result.text) } else { result.text.clone() };
                json!({ "role": "tool", "tool_call_id": result.id, "content": text })
            });
            told.collect()
        }
    }
}

/// One event that is JSON. The stream goes on after the reason: counts may follow.
pub fn event(data: &Value, reply: &mut Reply, heard: &mut dyn FnMut(&str)) -> Result<(), ModelError> {
    if !data["error"].is_null() {
        let message = data["error"]["message"].as_str().or(data["error"].as_str()).unwrap_or("unknown");
        return Err(ModelError::InStream(message.chars().take(300).collect()));
    }
    let usage = &data["usage"];
    reply.count(usage["prompt_tokens"].as_u64(), usage["completion_tokens"].as_u64());
    let Some(choices) = data["choices"].as_array() else {
        return Err(ModelError::Nonsense("an event without choices".into()));
    };
    // Only one choice was asked for.
    let Some(choice) = choices.first() else { return Ok(()) };
    let delta = &choice["delta"];
    if let Some(piece) = delta["content"].as_str().filter(|piece| !piece.is_empty()) {
        reply.text.push_str(piece);
        heard(piece);
    }
    for call in delta["tool_calls"].as_array().into_iter().flatten() {
        let number = call["index"].as_u64().unwrap_or(0);
        let function = &call["function"];
        reply.begin_call(
            number,
            call["id"].as_str().unwrap_or(""),
            function["name"].as_str().unwrap_or(""),
        )?;
        reply.add_arguments(number, function["arguments"].as_str().unwrap_or(""))?;
    }
    if let Some(reason) = choice["finish_reason"].as_str() {
        reply.stop = Some(reason.to_string());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::{Call, Result as CallResult};

    #[test]
    fn a_conversation_in_its_words() {
        let call = Call { id: "c1".into(), tool: "run_code".into(), arguments: "{bro".into() };
        let said = message(&Turn::Model { text: "so".into(), calls: vec![call] });
        assert_eq!(said[0]["tool_calls"][0]["function"]["arguments"], "{bro");
        let result = |id: &str, is_error| CallResult { id: id.into(), text: "no".into(), is_error };
        let told = message(&Turn::Results { results: vec![result("c1", true), result("c2", false)] });
        assert_eq!(told[0], json!({ "role": "tool", "tool_call_id": "c1", "content": "error: no" }));
        assert_eq!(told[1]["content"], "no");
    }

    #[test]
    fn events_make_a_reply() {
        let mut reply = Reply::default();
        let mut feed = |data: Value| event(&data, &mut reply, &mut |_| {}).unwrap();
        feed(json!({ "choices": [{ "delta": { "content": "hi" } }] }));
        feed(
            json!({ "choices": [{ "delta": { "tool_calls": [{ "index": 0, "id": "c", "function": { "name": "run_code", "arguments": "{\"a" } }] } }] }),
        );
        feed(
            json!({ "choices": [{ "delta": { "tool_calls": [{ "index": 0, "function": { "arguments": "\":1}" } }] } }] }),
        );
        feed(json!({ "choices": [{ "delta": {}, "finish_reason": "tool_calls" }] }));
        feed(json!({ "choices": [], "usage": { "prompt_tokens": 4, "completion_tokens": 2 } }));
        let whole = reply.finish(0).unwrap();
        assert_eq!(
            (whole.text.as_str(), whole.calls[0].arguments.as_str(), whole.usage.total()),
            ("hi", "{\"a\":1}", 6)
        );
    }

    #[test]
    fn an_error_and_nonsense_are_told() {
        let feed = |data: Value| event(&data, &mut Reply::default(), &mut |_| {}).unwrap_err();
        assert!(
            matches!(feed(json!({ "error": { "message": "full" } })), ModelError::InStream(text) if text == "full")
        );
        assert!(matches!(feed(json!({ "hello": 1 })), ModelError::Nonsense(_)));
    }
}
