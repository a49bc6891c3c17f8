//! Carries out a model's call, and answers in a text. Errors are told in the answer too.

use crate::arguments::{Arguments, BadCall};
use crate::files::{LARGEST_FILE, edited, of_entries, of_file};
use crate::operations::{OperationError, Operations};
use crate::outputs::{OUTPUT_BUDGET, Outputs};
use crate::results::{failed, of_code, of_command};
use paddock_model::api::{CodeResult, FileKind, RunCode, StartExec};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries of a directory in one answer.
const MOST_ENTRIES: usize = 500;
const LONGEST_PAGE: usize = 1000;
const PERMISSIONS: u32 = 0o7777;

#[derive(Debug, Clone)]
pub struct ToolboxOptions {
    /// Characters of one answer. A longer answer comes with its head and its tail, and can be read on.
    pub output_budget: usize,
    /// Bytes of long outputs that are kept to be read on.
    pub kept_bytes: usize,
    /// The time limit of a call that names none.
    pub timeout_seconds: f64,
}

impl Default for ToolboxOptions {
    fn default() -> ToolboxOptions {
        ToolboxOptions { output_budget: OUTPUT_BUDGET, kept_bytes: 32 << 20, timeout_seconds: 120.0 }
    }
}

/// The answer to a model.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answer {
    pub text: String,
    /// The call failed.
    pub is_error: bool,
    /// The pictures that code drew, for models that see.
    pub pictures: Vec<Picture>,
    /// The sandbox answers no more calls.
    pub sandbox_is_gone: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Picture {
    pub media_type: &'static str,
    pub base64: String,
}

impl Answer {
    fn well(text: impl Into<String>) -> Answer {
        Answer { text: text.into(), ..Answer::default() }
    }

    pub fn error(text: impl Into<String>) -> Answer {
        Answer { text: text.into(), is_error: true, ..Answer::default() }
    }

    /// For clients whose results have no error field: only the text says that the call failed.
    pub fn marked_text(&self) -> String {
        if self.is_error { format!("error: {}", self.text) } else { self.text.clone() }
    }
}

/// The tools of one conversation; it keeps the outputs that `read_output` reads.
#[derive(Debug)]
pub struct Toolbox {
    outputs: Mutex<Outputs>,
    timeout_seconds: f64,
}

enum Trouble {
    Call(BadCall),
    Operation(OperationError),
}

impl From<BadCall> for Trouble {
    fn from(error: BadCall) -> Trouble {
        Trouble::Call(error)
    }
}

impl From<OperationError> for Trouble {
    fn from(error: OperationError) -> Trouble {
        Trouble::Operation(error)
    }
}

impl Toolbox {
    pub fn new(options: &ToolboxOptions) -> Toolbox {
        let outputs = Outputs::new(options.output_budget, options.kept_bytes);
        Toolbox { outputs: Mutex::new(outputs), timeout_seconds: options.timeout_seconds }
    }

    /// `arguments` are an object, or the text of one. A call that is dropped kills its work.
    pub async fn call(&self, sandbox: &impl Operations, tool: &str, arguments: &Value) -> Answer {
        let answered = match Arguments::parse(tool, arguments) {
            Ok(arguments) => self.answer(sandbox, tool, &arguments).await,
            Err(error) => Err(error.into()),
        };
        answered.unwrap_or_else(|trouble| match trouble {
            Trouble::Call(error) => Answer::error(error.0),
            Trouble::Operation(error) => {
                Answer { sandbox_is_gone: error.is_end_of_sandbox(), ..Answer::error(error.told()) }
            }
        })
    }

    /// The answer to a call that needs no sandbox at all; else `None`.
    pub fn call_without_sandbox(&self, tool: &str, arguments: &Value) -> Option<Answer> {
        match Arguments::parse(tool, arguments) {
            Err(error) => Some(Answer::error(error.0)),
            Ok(arguments) if tool == "read_output" => {
                Some(self.read_output(&arguments).unwrap_or_else(|error| Answer::error(error.0)))
            }
            Ok(_) => None,
        }
    }

    async fn answer(
        &self,
        sandbox: &impl Operations,
        tool: &str,
        arguments: &Arguments,
    ) -> Result<Answer, Trouble> {
        match tool {
            "run_code" => self.run_code(sandbox, arguments).await,
            "run_shell" => self.run_shell(sandbox, arguments).await,
            "read_file" => self.read_file(sandbox, arguments).await,
            "write_file" => write_file(sandbox, arguments).await,
            "edit_file" => edit_file(sandbox, arguments).await,
            "list_files" => self.list_files(sandbox, arguments).await,
            "read_output" => Ok(self.read_output(arguments)?),
            // A tool of the file without code; a test calls all of them.
            other => Err(BadCall(format!("the tool {other} cannot be called")).into()),
        }
    }

    async fn run_code(&self, sandbox: &impl Operations, given: &Arguments) -> Result<Answer, Trouble> {
        let request = RunCode {
            code: given.required("code").to_string(),
            language: Some(given.text("language").unwrap_or("python").to_string()),
            context: None,
            stdin: None,
            env: BTreeMap::new(),
            cwd: None,
            timeout_seconds: Some(given.number("timeout_seconds").unwrap_or(self.timeout_seconds)),
            background: false,
            stream: false,
        };
        let exec = sandbox.run_code(request).await?;
        let text = of_code(&exec, &mut self.outputs());
        let pictures = exec.results.iter().filter_map(picture).collect();
        Ok(Answer { text, is_error: failed(&exec), pictures, sandbox_is_gone: false })
    }

    async fn run_shell(&self, sandbox: &impl Operations, given: &Arguments) -> Result<Answer, Trouble> {
        let request = StartExec {
            command: given.text("command").map(str::to_string),
            cwd: given.text("cwd").map(str::to_string),
            timeout_seconds: Some(given.number("timeout_seconds").unwrap_or(self.timeout_seconds)),
            ..StartExec::default()
        };
        let exec = sandbox.run_command(request).await?;
        let text = of_command(&exec, &mut self.outputs());
        Ok(Answer { text, is_error: failed(&exec), ..Answer::default() })
    }

    async fn read_file(&self, sandbox: &impl Operations, given: &Arguments) -> Result<Answer, Trouble> {
        let path = given.required("path");
        let content = content(sandbox, path).await?;
        let start = given.integer("start_line").unwrap_or(1);
        let budget = self.outputs().budget();
        Ok(Answer::well(of_file(&content, path, start, given.integer("lines"), budget)?))
    }

    async fn list_files(&self, sandbox: &impl Operations, given: &Arguments) -> Result<Answer, Trouble> {
        let path = given.text("path").unwrap_or(".");
        let mut entries = Vec::new();
        let mut cursor: Option<String> = None;
        loop {
            let page =
                sandbox.list_files(path, given.flag("recursive"), LONGEST_PAGE, cursor.as_deref()).await?;
            entries.extend(page.entries);
            let again = page.next_cursor.is_none() || page.next_cursor == cursor;
            if again || entries.len() > MOST_ENTRIES {
                break;
            }
            cursor = page.next_cursor;
        }
        let more = entries.len() > MOST_ENTRIES;
        entries.truncate(MOST_ENTRIES);
        Ok(Answer::well(self.outputs().shown(&of_entries(&entries, path, more))))
    }

    fn read_output(&self, given: &Arguments) -> Result<Answer, BadCall> {
        let offset = given.integer("offset").unwrap_or(0);
        self.outputs().piece(given.required("output"), offset).map(Answer::well)
    }

    fn outputs(&self) -> MutexGuard<'_, Outputs> {
        self.outputs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn write_file(sandbox: &impl Operations, given: &Arguments) -> Result<Answer, Trouble> {
    let content = given.required("content").as_bytes().to_vec();
    let written = sandbox.write_file(given.required("path"), content, None).await?;
    Ok(Answer::well(format!("[wrote {} bytes to {}]", written.size, written.path)))
}

async fn edit_file(sandbox: &impl Operations, given: &Arguments) -> Result<Answer, Trouble> {
    let path = given.required("path");
    let before = String::from_utf8(content(sandbox, path).await?)
        .map_err(|_| BadCall(format!("{path} is no text: use run_shell to change it")))?;
    let (old, new) = (given.required("old_text"), given.required("new_text"));
    let (after, count) = edited(&before, path, old, new, given.flag("replace_all"))?;
    let mode = sandbox.stat(path).await?.mode & PERMISSIONS;
    sandbox.write_file(path, after.into_bytes(), Some(mode)).await?;
    let times = if count > 1 { "times" } else { "time" };
    Ok(Answer::well(format!("[replaced {count} {times} in {path}]")))
}

async fn content(sandbox: &impl Operations, path: &str) -> Result<Vec<u8>, Trouble> {
    if sandbox.stat(path).await?.kind == FileKind::Directory {
        let error = OperationError::new("not_a_file", format!("{path} is a directory"));
        return Err(error.hint("list_files shows what is in it").into());
    }
    let content = sandbox.read_file(path, LARGEST_FILE as u64 + 1).await?;
    if content.len() > LARGEST_FILE {
        let most = LARGEST_FILE >> 20;
        return Err(BadCall(format!(
            "{path} is larger than {most} MiB: use run_shell with sed, grep or head"
        ))
        .into());
    }
    Ok(content)
}

fn picture(result: &CodeResult) -> Option<Picture> {
    let png = result.png.as_ref().map(|base64| ("image/png", base64));
    let (media_type, base64) = png.or_else(|| result.jpeg.as_ref().map(|base64| ("image/jpeg", base64)))?;
    // Some interpreters break lines in it.
    let base64 = base64.chars().filter(|character| !character.is_ascii_whitespace()).collect();
    Some(Picture { media_type, base64 })
}

#[cfg(test)]
mod tests;
