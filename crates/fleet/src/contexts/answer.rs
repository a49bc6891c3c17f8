//! The meaning of a runner's frames. Unknown frames are ignored: a runner may be newer than this host.

use super::frame::Frame;
use base64::Engine;
use paddock_model::api::{CodeError, CodeResult};

/// Names and values of errors are cut at these lengths.
const LONGEST_NAME: usize = 1024;
const LONGEST_TEXT: usize = 1 << 20;

pub enum Answer {
    Ready,
    Result(Box<CodeResult>),
    Error(CodeError),
    Done { call: String, exit_code: Option<i32> },
}

pub fn read_answer(frame: Frame) -> Option<Answer> {
    match frame.kind.as_str() {
        "ready" => Some(Answer::Ready),
        "result" => Some(Answer::Result(Box::new(result(frame)))),
        "error" => Some(Answer::Error(CodeError {
            name: cut(frame.text("name").unwrap_or_default(), LONGEST_NAME),
            value: cut(frame.text("value").unwrap_or_default(), LONGEST_TEXT),
            traceback: cut(frame.text("traceback").unwrap_or_default(), LONGEST_TEXT),
        })),
        "done" => {
            let exit_code = frame.text("exit_code").and_then(|code| code.trim().parse().ok());
            Some(Answer::Done { call: frame.text("call").unwrap_or_default(), exit_code })
        }
        _ => None,
    }
}

fn result(frame: Frame) -> CodeResult {
    let mut result = CodeResult::default();
    for (name, bytes) in frame.fields {
        let text = || Some(String::from_utf8_lossy(&bytes).into_owned());
        let json = || serde_json::from_slice(&bytes).ok();
        match name.as_str() {
            "call" => {}
            "main" => result.main = true,
            "cut" => result.cut = String::from_utf8_lossy(&bytes).split(',').map(str::to_string).collect(),
            "text/plain" => result.text = text(),
            "text/html" => result.html = text(),
            "text/markdown" => result.markdown = text(),
            "image/svg+xml" => result.svg = text(),
            "text/latex" => result.latex = text(),
            "application/javascript" | "text/javascript" => result.javascript = text(),
            "image/png" => result.png = Some(encode(&bytes)),
            "image/jpeg" => result.jpeg = Some(encode(&bytes)),
            "application/pdf" => result.pdf = Some(encode(&bytes)),
            "application/json" => result.json = json(),
            "application/vnd.paddock.data+json" => result.data = json(),
            "application/vnd.paddock.chart+json" => result.chart = json(),
            _ if name.contains('/') => {
                let value = String::from_utf8(bytes).unwrap_or_else(|error| encode(error.as_bytes()));
                result.extra.insert(name, value);
            }
            _ => {}
        }
    }
    result
}

fn encode(bytes: &[u8]) -> String {
    base64::engine::general_purpose::STANDARD.encode(bytes)
}

fn cut(mut text: String, most: usize) -> String {
    if text.len() > most {
        let end = (0..=most).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(end);
    }
    text
}
