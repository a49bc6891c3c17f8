//! Every tool against a sandbox of a few files, and its errors.

use super::*;
use paddock_model::api::{Exec, ExecCause, ExecState, FileEntry, FilePage};
use serde_json::json;
use std::future::ready;

/// Files by path; commands print themselves.
#[derive(Default)]
struct Shelf {
    files: Mutex<BTreeMap<String, (Vec<u8>, u32)>>,
    gone: bool,
}

impl Shelf {
    fn with(path: &str, content: &[u8]) -> Shelf {
        let shelf = Shelf::default();
        shelf.files.lock().unwrap().insert(path.into(), (content.to_vec(), 0o100750));
        shelf
    }

    fn entry(&self, path: &str) -> Result<FileEntry, OperationError> {
        let files = self.files.lock().unwrap();
        let (kind, size, mode) = match files.get(path) {
            Some((content, mode)) => (FileKind::File, content.len() as u64, *mode),
            None if path == "." => (FileKind::Directory, 0, 0o40755),
            None => {
                return Err(OperationError::new("file_not_found", format!("there is no {path}")).hint("look"));
            }
        };
        let path = path.to_string();
        Ok(FileEntry {
            path,
            path_base64: None,
            kind,
            size,
            mode,
            uid: 0,
            gid: 0,
            modified_at_ms: 0,
            attributes: Default::default(),
            target: None,
            resolved: None,
        })
    }
}

fn exec(printed: &str, results: Vec<CodeResult>) -> Exec {
    Exec {
        exec: 1,
        sandbox: "sb".into(),
        state: ExecState::Ended,
        command: String::new(),
        started_at_ms: 0,
        ended_at_ms: Some(0),
        exit_code: Some(0),
        cause: Some(ExecCause::Exited),
        timed_out: false,
        stdout: printed.into(),
        stderr: String::new(),
        stdout_bytes: 0,
        stderr_bytes: 0,
        stdout_missing_bytes: 0,
        stderr_missing_bytes: 0,
        context: None,
        results,
        results_missing: 0,
        error: None,
        context_restarted: None,
        findings: Vec::new(),
        findings_missing: 0,
    }
}

impl Operations for Shelf {
    fn run_code(&self, request: RunCode) -> impl Future<Output = Result<Exec, OperationError>> + Send {
        let png = Some("aGVs\nbG8=".to_string());
        let told = format!("{} {:?} {:?}", request.code, request.language, request.timeout_seconds);
        ready(Ok(exec(&told, vec![CodeResult { png, ..CodeResult::default() }])))
    }

    fn run_command(&self, request: StartExec) -> impl Future<Output = Result<Exec, OperationError>> + Send {
        ready(match self.gone {
            true => Err(OperationError::new("sandbox_ended", "the sandbox has ended")),
            false => Ok(exec(&request.command.unwrap_or_default().repeat(40), Vec::new())),
        })
    }

    fn stat(&self, path: &str) -> impl Future<Output = Result<FileEntry, OperationError>> + Send {
        ready(self.entry(path))
    }

    fn read_file(
        &self,
        path: &str,
        length: u64,
    ) -> impl Future<Output = Result<Vec<u8>, OperationError>> + Send {
        let content = self.files.lock().unwrap()[path].0.clone();
        ready(Ok(content[..content.len().min(length as usize)].to_vec()))
    }

    fn write_file(
        &self,
        path: &str,
        content: Vec<u8>,
        mode: Option<u32>,
    ) -> impl Future<Output = Result<FileEntry, OperationError>> + Send {
        self.files.lock().unwrap().insert(path.into(), (content, mode.unwrap_or(0o644)));
        ready(self.entry(path))
    }

    fn list_files(
        &self,
        _: &str,
        _: bool,
        _: usize,
        cursor: Option<&str>,
    ) -> impl Future<Output = Result<FilePage, OperationError>> + Send {
        let names: Vec<String> = self.files.lock().unwrap().keys().cloned().collect();
        let entries = names.iter().map(|name| self.entry(name).unwrap()).collect();
        let next_cursor = if cursor.is_none() { Some("next".into()) } else { None };
        ready(Ok(FilePage { entries, next_cursor }))
    }
}

async fn call(shelf: &Shelf, tool: &str, arguments: Value) -> (String, bool) {
    let toolbox = Toolbox::new(&ToolboxOptions { output_budget: 300, ..ToolboxOptions::default() });
    let answer = toolbox.call(shelf, tool, &arguments).await;
    (answer.text, answer.is_error)
}

#[tokio::test]
async fn every_tool_of_the_file_can_be_called() {
    for (name, tool) in crate::definitions::known() {
        let value = |name: &String| match tool.parameters[name].kind {
            crate::definitions::Kind::Integer => json!(0),
            _ => json!("x"),
        };
        let arguments: serde_json::Map<_, _> =
            tool.required.iter().map(|name| (name.clone(), value(name))).collect();
        let (text, _) = call(&Shelf::default(), name, json!(arguments)).await;
        assert!(!text.contains("cannot be called"), "{name}: {text}");
    }
}

#[tokio::test]
async fn code_comes_with_its_pictures() {
    let toolbox = Toolbox::new(&ToolboxOptions::default());
    let answer = toolbox.call(&Shelf::default(), "run_code", &json!({"code": "plot()"})).await;
    assert_eq!(answer.text, "plot() Some(\"python\") Some(120.0)\n[and a picture: png]");
    assert_eq!(answer.pictures, [Picture { media_type: "image/png", base64: "aGVsbG8=".into() }]);
    assert!(!answer.is_error);
}

#[tokio::test]
async fn a_long_output_can_be_read_on_without_a_sandbox() {
    let toolbox = Toolbox::new(&ToolboxOptions { output_budget: 300, ..ToolboxOptions::default() });
    let answer = toolbox.call(&Shelf::default(), "run_shell", &json!({"command": "0123456789"})).await;
    assert!(answer.text.contains("read_output(output='output-1', offset=180)"), "{}", answer.text);
    let rest =
        toolbox.call_without_sandbox("read_output", &json!({"output": "output-1", "offset": 390})).unwrap();
    assert_eq!(rest.text, "0123456789\n[end of the output]");
    assert!(toolbox.call_without_sandbox("run_shell", &json!({"command": "x"})).is_none());
    assert!(toolbox.call_without_sandbox("run_shell", &json!({})).unwrap().is_error);
}

#[tokio::test]
async fn an_edit_keeps_the_mode_and_tells_what_it_did() {
    let shelf = Shelf::with("run.sh", b"a b a");
    let arguments = json!({"path": "run.sh", "old_text": "a", "new_text": "c", "replace_all": true});
    assert_eq!(call(&shelf, "edit_file", arguments).await, ("[replaced 2 times in run.sh]".into(), false));
    assert_eq!(shelf.files.lock().unwrap()["run.sh"], (b"c b c".to_vec(), 0o750));
    let (text, failed) =
        call(&shelf, "edit_file", json!({"path": "no", "old_text": "a", "new_text": "c"})).await;
    assert_eq!((text.as_str(), failed), ("there is no no (hint: look)", true));
    let (text, failed) = call(&shelf, "read_file", json!({"path": "."})).await;
    assert_eq!((text.as_str(), failed), (". is a directory (hint: list_files shows what is in it)", true));
}

#[tokio::test]
async fn what_is_too_large_or_no_text_is_told() {
    let (text, failed) =
        call(&Shelf::with("f", &vec![b'x'; LARGEST_FILE + 1]), "read_file", json!({"path": "f"})).await;
    assert!(failed && text.contains("larger than 8 MiB"), "{text}");
    let edit = json!({"path": "f", "old_text": "a", "new_text": "b"});
    let (text, failed) = call(&Shelf::with("f", b"\xff"), "edit_file", edit).await;
    assert!(failed && text.contains("is no text: use run_shell"), "{text}");
    let written = call(&Shelf::default(), "write_file", json!({"path": "n", "content": "é"})).await;
    assert_eq!(written, ("[wrote 2 bytes to n]".into(), false));
    let (text, _) = call(&Shelf::with("f", b"1"), "list_files", json!({})).await;
    assert_eq!(text.lines().count(), 2, "two pages: {text}");
}

#[tokio::test]
async fn the_end_of_the_sandbox_is_seen() {
    let toolbox = Toolbox::new(&ToolboxOptions::default());
    let shelf = Shelf { gone: true, ..Shelf::default() };
    let answer = toolbox.call(&shelf, "run_shell", &json!({"command": "x"})).await;
    assert!(answer.is_error && answer.sandbox_is_gone);
    assert_eq!(answer.marked_text(), "error: the sandbox has ended");
}
