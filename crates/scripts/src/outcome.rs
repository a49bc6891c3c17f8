//! From the files and output of a script to its result, or the reason why there is none. Hostile code wrote all of it:
//! it is bounded, and parsed here.

use crate::Language;
use crate::interpreter::{NOT_FOUND, not_started};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A caller need not fetch more than this, and one byte to see that there is more.
pub const LARGEST_RESULT: usize = 8 << 20;
const LONGEST_MESSAGE: usize = 4000;
const LONGEST_NAME: usize = 120;

/// Where the result is found once the command has ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultPlan {
    /// In this order; the first that is there counts.
    pub files: Vec<ResultFile>,
    /// If none is there, the last line of stdout is the result; else there is none.
    pub last_line: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ResultFile {
    /// Inside, absolute.
    pub path: String,
    pub form: Form,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// A wrapper's answer: `{"result": ...}` or `{"error": {"code", "name", "message"}}`.
    Answer,
    Json,
    Text,
}

/// Why a script has no result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct Failure {
    /// `script_failed`, `no_main`, `arguments_do_not_fit`, `result_not_json`, `result_too_large`, `no_result`,
    /// `interpreter_missing`.
    pub code: String,
    /// The type of an exception.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl Failure {
    pub fn new(code: &str, message: impl Into<String>) -> Failure {
        Failure { code: code.into(), name: None, message: message.into(), hint: None }
    }

    fn hint(self, hint: &str) -> Failure {
        Failure { hint: Some(hint.into()), ..self }
    }
}

/// The codes that a wrapper may use.
const CODES: [&str; 5] = ["script_failed", "no_main", "arguments_do_not_fit", "result_not_json", "no_result"];

#[derive(Deserialize)]
struct Answer {
    #[serde(default)]
    result: Value,
    #[serde(default)]
    error: Option<AnswerError>,
}

#[derive(Deserialize)]
struct AnswerError {
    code: String,
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    message: String,
}

impl ResultPlan {
    /// `contents`: of [`ResultPlan::files`], as far as they are there, each at most [`LARGEST_RESULT`] and one byte.
    /// `stdout_end`: its last bytes; only looked at where `last_line` is set.
    pub fn conclude(
        &self,
        exit_code: i32,
        contents: &[Option<Vec<u8>>],
        stdout_end: &[u8],
    ) -> Result<Value, Failure> {
        let found =
            self.files.iter().zip(contents).find_map(|(file, content)| Some((file, content.as_ref()?)));
        let too_large = |size: usize| {
            Failure::new("result_too_large", format!("the result has more than {LARGEST_RESULT} bytes"))
                .hint("write what is large to a volume, and return its name")
                .when(size > LARGEST_RESULT)
        };
        let own = || Failure::new("script_failed", format!("the script ended with exit code {exit_code}"));
        match found {
            Some((_, content)) if too_large(content.len()).is_some() => {
                Err(too_large(content.len()).unwrap_or_else(own))
            }
            Some((file, content)) => match file.form {
                Form::Answer => answer(content, exit_code),
                _ if exit_code != 0 => Err(own()),
                Form::Json => serde_json::from_slice(content).map_err(|error| {
                    Failure::new("result_not_json", format!("{} is no JSON: {error}", file.path))
                }),
                Form::Text => Ok(Value::String(text(content))),
            },
            None if exit_code != 0 => Err(own()),
            None if self.last_line => Ok(last_line(stdout_end)),
            None => Err(Failure::new("no_result", "the script ended before main returned")
                .hint("return from main, and leave ending to whoever called it")),
        }
    }
}

impl Failure {
    fn when(self, so: bool) -> Option<Failure> {
        so.then_some(self)
    }
}

fn answer(content: &[u8], exit_code: i32) -> Result<Value, Failure> {
    let own = || Failure::new("script_failed", format!("the script ended with exit code {exit_code}"));
    let answer: Answer = match serde_json::from_slice(content) {
        Ok(answer) => answer,
        Err(_) if exit_code != 0 => return Err(own()),
        Err(error) => {
            return Err(Failure::new(
                "result_not_json",
                format!("what the script left is no result: {error}"),
            ));
        }
    };
    match answer.error {
        // A script that ended with a failure has no result, even if it wrote one before.
        None if exit_code != 0 => Err(own()),
        None => Ok(answer.result),
        // The launcher of Go is a shell, which notices a missing compiler itself.
        Some(error) if error.code == "interpreter_missing" => Err(not_started(Language::Go, NOT_FOUND, "")),
        Some(error) => {
            let known = CODES.into_iter().find(|code| *code == error.code).unwrap_or("script_failed");
            let cut = |text: &str, most: usize| text.chars().take(most).collect::<String>();
            let name = error.name.map(|name| cut(&name, LONGEST_NAME)).filter(|name| !name.is_empty());
            Err(Failure { name, ..Failure::new(known, cut(&error.message, LONGEST_MESSAGE)) })
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).trim_end_matches(['\n', '\r']).to_string()
}

/// JSON where it is some, else text; nothing where nothing was printed.
fn last_line(stdout: &[u8]) -> Value {
    let all = text(stdout);
    match all.lines().next_back() {
        Some(line) if !line.is_empty() => {
            serde_json::from_str(line).unwrap_or_else(|_| Value::String(line.to_string()))
        }
        _ => Value::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn wrapped() -> ResultPlan {
        let path = "/workspace/.paddock/result.json".to_string();
        ResultPlan { files: vec![ResultFile { path, form: Form::Answer }], last_line: false }
    }

    fn shell() -> ResultPlan {
        let file = |name: &str, form| ResultFile { path: format!("/workspace/{name}"), form };
        ResultPlan {
            files: vec![file("result.json", Form::Json), file("result.out", Form::Text)],
            last_line: true,
        }
    }

    #[test]
    fn an_answer_is_believed_as_far_as_it_goes() {
        let conclude =
            |exit: i32, text: &str| wrapped().conclude(exit, &[Some(text.as_bytes().to_vec())], b"");
        assert_eq!(conclude(0, r#"{"result": {"a": [1]}}"#).unwrap(), json!({ "a": [1] }));
        assert_eq!(conclude(0, r#"{"result": null}"#).unwrap(), Value::Null);
        for (exit, text, code) in [
            (1, r#"{"result": 1}"#, "script_failed"),
            (0, "{", "result_not_json"),
            (0, r#"{"result": NaN}"#, "result_not_json"),
            (137, "{", "script_failed"),
            (1, r#"{"error": {"code": "no_main", "message": "x"}}"#, "no_main"),
            (0, r#"{"error": {"code": "paddock_is_broken", "message": "x"}}"#, "script_failed"),
        ] {
            assert_eq!(conclude(exit, text).unwrap_err().code, code, "{text}");
        }
        let long =
            format!(r#"{{"error": {{"code": "x", "name": "{0}", "message": "{0}"}}}}"#, "y".repeat(9000));
        let failure = conclude(1, &long).unwrap_err();
        assert_eq!((failure.message.len(), failure.name.unwrap().len()), (4000, 120));
        let deep = format!("{{\"result\": {}{}}}", "[".repeat(5000), "]".repeat(5000));
        assert_eq!(conclude(0, &deep).unwrap_err().code, "result_not_json");
        let huge = vec![b' '; LARGEST_RESULT + 1];
        assert_eq!(wrapped().conclude(0, &[Some(huge)], b"").unwrap_err().code, "result_too_large");
        assert_eq!(wrapped().conclude(0, &[None], b"").unwrap_err().code, "no_result");
    }

    #[test]
    fn bash_has_a_file_of_json_a_file_of_text_or_its_last_line() {
        let some = |text: &str| Some(text.as_bytes().to_vec());
        let conclude = |contents: &[Option<Vec<u8>>], stdout: &str| {
            shell().conclude(0, contents, stdout.as_bytes()).map_err(|failure| failure.code)
        };
        assert_eq!(conclude(&[some("{\"a\":1}"), some("x")], "y").unwrap(), json!({ "a": 1 }));
        assert_eq!(conclude(&[None, some("x\ny\n")], "z").unwrap(), json!("x\ny"));
        assert_eq!(conclude(&[None, None], "a\n12\n").unwrap(), json!(12));
        assert_eq!(conclude(&[None, None], "a\nlast words\n").unwrap(), json!("last words"));
        assert_eq!(conclude(&[None, None], "").unwrap(), Value::Null);
        assert_eq!(conclude(&[some("nope"), None], "").unwrap_err(), "result_not_json");
        assert_eq!(shell().conclude(3, &[some("1"), None], b"").unwrap_err().code, "script_failed");
    }
}
