//! The wire format of Anthropic: `POST /v1/messages`.

use crate::endpoint::Endpoint;
use crate::error::ModelError;
use crate::reply::Reply;
use crate::turn::Turn;
use paddock_tools::{Definition, Format, render};
use serde_json::{Value, json};

pub const VERSION: &str = "2023-06-01";

pub fn body(endpoint: &Endpoint, system: &str, turns: &[Turn], tools: &[Definition]) -> Value {
    let tools: Vec<Value> = tools.iter().map(|tool| render(tool, Format::Anthropic)).collect();
    json!({
        "model": endpoint.model,
        "max_tokens": endpoint.max_tokens,
        "system": system,
        "tools": tools,
        "messages": turns.iter().map(message).collect::<Vec<_>>(),
        "stream": true,
    })
}

fn message(turn: &Turn) -> Value {
    match turn {
        Turn::Task { text } => json!({ "role": "user", "content": text }),
        Turn::Model { text, calls } => {
            // An empty text is refused, and so is a message without content.
            let said = (!text.is_empty()).then(|| json!({ "type": "text", "text": text }));
            let called = calls.iter().map(|call| {
                // Arguments have to be an object here; a mistake in them is told in the result.
                let input: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
                let input = if input.is_object() { input } else { json!({}) };
                json!({ "type": "tool_use", "id": call.id, "name": call.tool, "input": input })
            });
            let mut content: Vec<Value> = said.into_iter().chain(called).collect();
            if content.is_empty() {
                content.push(json!({ "type": "text", "text": "(nothing)" }));
            }
            json!({ "role": "assistant", "content": content })
        }
        Turn::Results { results } => {
            let content = results.iter().map(|result| {
                json!({
                    "type": "tool_result",
                    "tool_use_id": result.id,
                    "content": result.text,
                    "is_error": result.is_error,
                })
            });
            json!({ "role": "user", "content": content.collect::<Vec<_>>() })
        }
    }
}

/// One event. Returns true if it was the last.
pub fn event(data: &Value, reply: &mut Reply, heard: &mut dyn FnMut(&str)) -> Result<bool, ModelError> {
    let number = data["index"].as_u64().unwrap_or(0);
    match data["type"].as_str() {
        Some("message_start") => {
            let usage = &data["message"]["usage"];
            let cached = ["cache_creation_input_tokens", "cache_read_input_tokens"];
            let more: u64 = cached.iter().filter_map(|name| usage[name].as_u64()).sum();
            reply.count(
                usage["input_tokens"].as_u64().map(|input| input + more),
                usage["output_tokens"].as_u64(),
            );
        }
        Some("content_block_start") => {
            let block = &data["content_block"];
            match block["type"].as_str() {
                Some("tool_use") => {
                    reply.begin_call(number, text(&block["id"])?, text(&block["name"])?)?;
                }
                Some("text") => say(block["text"].as_str().unwrap_or(""), reply, heard),
                _ => {}
            }
        }
        Some("content_block_delta") => {
            let delta = &data["delta"];
            match delta["type"].as_str() {
                Some("text_delta") => say(text(&delta["text"])?, reply, heard),
                Some("input_json_delta") => reply.add_arguments(number, text(&delta["partial_json"])?)?,
                _ => {}
            }
        }
        Some("message_delta") => {
            if let Some(stop) = data["delta"]["stop_reason"].as_str() {
                reply.stop = Some(stop.to_string());
            }
            reply.count(None, data["usage"]["output_tokens"].as_u64());
        }
        Some("message_stop") => return Ok(true),
        Some("error") => {
            let message = data["error"]["message"].as_str().unwrap_or("unknown");
            return Err(ModelError::InStream(message.chars().take(300).collect()));
        }
        // `ping`, and future kinds.
        Some(_) => {}
        None => return Err(ModelError::Nonsense("an event without a type".into())),
    }
    Ok(false)
}

fn say(piece: &str, reply: &mut Reply, heard: &mut dyn FnMut(&str)) {
    if !piece.is_empty() {
        reply.text.push_str(piece);
        heard(piece);
    }
}

fn text(value: &Value) -> Result<&str, ModelError> {
    value.as_str().ok_or_else(|| ModelError::Nonsense("a text is missing in an event".into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::turn::{Call, Result as CallResult};

    #[test]
    fn a_conversation_in_its_words() {
        let call =
            |arguments: &str| Call { id: "t1".into(), tool: "run_code".into(), arguments: arguments.into() };
        let said = message(&Turn::Model {
            text: String::new(),
            calls: vec![call("{\"code\":\"1\"}"), call("{bro")],
        });
        assert_eq!(said["content"][0]["input"], json!({ "code": "1" }));
        assert_eq!(said["content"][1]["input"], json!({}));
        let result = CallResult { id: "t1".into(), text: "no".into(), is_error: true };
        let told = message(&Turn::Results { results: vec![result] });
        assert_eq!(
            told["content"][0],
            json!({ "type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": true })
        );
        let empty = message(&Turn::Model { text: String::new(), calls: vec![] });
        assert_eq!(empty["content"].as_array().unwrap().len(), 1);
    }

    #[test]
    fn events_make_a_reply() {
        let mut reply = Reply::default();
        let mut heard = String::new();
        let mut feed = |data: Value| event(&data, &mut reply, &mut |piece| heard.push_str(piece));
        feed(json!({ "type": "message_start", "message": { "usage": { "input_tokens": 7, "cache_read_input_tokens": 3, "output_tokens": 1 } } })).unwrap();
        feed(json!({ "type": "content_block_start", "index": 0, "content_block": { "type": "text", "text": "" } })).unwrap();
        feed(json!({ "type": "content_block_delta", "index": 0, "delta": { "type": "text_delta", "text": "hi" } })).unwrap();
        feed(json!({ "type": "content_block_start", "index": 1, "content_block": { "type": "tool_use", "id": "t", "name": "run_code", "input": {} } })).unwrap();
        feed(json!({ "type": "content_block_delta", "index": 1, "delta": { "type": "input_json_delta", "partial_json": "{}" } })).unwrap();
        feed(json!({ "type": "message_delta", "delta": { "stop_reason": "tool_use" }, "usage": { "output_tokens": 9 } })).unwrap();
        assert!(feed(json!({ "type": "message_stop" })).unwrap());
        assert_eq!(heard, "hi");
        let whole = reply.finish(0).unwrap();
        assert_eq!((whole.usage.input_tokens, whole.usage.output_tokens, whole.calls.len()), (10, 9, 1));
    }

    #[test]
    fn an_error_and_nonsense_are_told() {
        let feed = |data: Value| event(&data, &mut Reply::default(), &mut |_| {}).unwrap_err();
        let error = feed(json!({ "type": "error", "error": { "message": "Overloaded" } }));
        assert!(matches!(error, ModelError::InStream(text) if text == "Overloaded"));
        assert!(matches!(feed(json!({ "x": 1 })), ModelError::Nonsense(_)));
        let delta = json!({ "type": "content_block_delta", "index": 4, "delta": { "type": "input_json_delta", "partial_json": "x" } });
        assert!(matches!(feed(delta), ModelError::Nonsense(_)));
    }
}
