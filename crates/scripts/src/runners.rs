//! How each language calls `main`: the program that is started, and its standard input.
//!
//! The wrapper's source travels with the call, so that no template has to have it and nothing inside can replace it for the
//! next one. It writes the script to a file, for messages and relative imports.

use crate::arguments::Resolved;
use crate::outcome::{Form, ResultFile, ResultPlan};
use crate::{Language, ScriptError, bash, golang};
use paddock_model::api::StartExec;
use serde::{Deserialize, Serialize};
use serde_json::json;

/// The directory where scripts start, and from which their relative paths count.
pub const DIRECTORY: &str = "/workspace";
/// The script itself and its result; no volume stands there.
pub const OWN_DIRECTORY: &str = "/workspace/.paddock";

const PYTHON: &str = include_str!("wrappers/python.py");
const RUBY: &str = include_str!("wrappers/ruby.rb");
const JAVASCRIPT: &str =
    concat!(include_str!("wrappers/javascript.js"), include_str!("wrappers/parameters.js"));
/// TypeScript to JavaScript, also for contexts: Sucrase, and the code that calls it.
pub const NODE_TYPES: &str =
    concat!(include_str!("../vendor/sucrase/sucrase.min.js"), include_str!("wrappers/node_types.js"));
const GO_MAIN: &str = include_str!("wrappers/go/main.go");
const GO_INNER: &str = include_str!("wrappers/go/inner.go");

const PYTHON_LOADER: &str = "import json,sys;c=json.loads(sys.stdin.buffer.read());exec(compile(c.pop('wrapper'),'<paddock script>','exec'),{'__name__':'paddock_script','CALL':c})";
const RUBY_LOADER: &str = "require 'json';CALL=JSON.parse($stdin.read,max_nesting:false);eval(CALL.delete('wrapper'),TOPLEVEL_BINDING,'<paddock script>')";
const NODE_LOADER: &str = r#"{const fs=require("fs"),path=require("path"),CALL=JSON.parse(fs.readFileSync(0,"utf8"));eval('"use strict";'+CALL.wrapper+"\nrun();")}"#;
const DENO_LOADER: &str = r#"import fs from "node:fs";import path from "node:path";import process from "node:process";import{Buffer}from "node:buffer";const CALL=JSON.parse(fs.readFileSync("/dev/stdin","utf8"));eval('"use strict";'+CALL.wrapper+"\nrun();")"#;

/// A file that has to be there before the command starts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedFile {
    /// Inside, absolute. Directories above it are made where they are missing.
    pub path: String,
    pub content: String,
}

/// The part of a plan that is the language's.
pub(crate) struct Runner {
    pub files: Vec<PlannedFile>,
    pub exec: StartExec,
    pub result: ResultPlan,
}

pub(crate) fn runner(language: Language, source: &str, resolved: &Resolved) -> Result<Runner, ScriptError> {
    let script = format!("{OWN_DIRECTORY}/{}", file_name(language, source));
    let answer = format!("{OWN_DIRECTORY}/result.json");
    let call = |wrapper: &str| {
        json!({
            "wrapper": wrapper,
            "source": source,
            "script": script,
            "main": "main",
            "args": resolved.arguments,
            "secrets": resolved.placeholders,
            "result": answer,
            "transpile": language == Language::TypeScript,
        })
    };
    let node = vec!["node", "--no-warnings", "-e", NODE_LOADER];
    let mut files = Vec::new();
    let (argv, stdin): (Vec<&str>, String) = match language {
        Language::Python => (vec!["python3", "-u", "-c", PYTHON_LOADER], call(PYTHON).to_string()),
        Language::Ruby => (vec!["ruby", "-e", RUBY_LOADER], call(RUBY).to_string()),
        Language::TypeScript => (node, call(&format!("{JAVASCRIPT}{NODE_TYPES}")).to_string()),
        Language::JavaScript => (node, call(JAVASCRIPT).to_string()),
        Language::Bun => (vec!["bun", "-e", NODE_LOADER], call(JAVASCRIPT).to_string()),
        Language::Deno => (vec!["deno", "eval", "--ext=js", DENO_LOADER], call(JAVASCRIPT).to_string()),
        Language::Bash => {
            let launcher = bash::launcher(source, &script, resolved)?;
            let mut exec = exec(&["sh", "-c", &launcher], source.to_string());
            exec.env.insert("LC_ALL".into(), "C.UTF-8".into());
            return Ok(Runner { files, exec, result: of_a_shell() });
        }
        Language::Go => {
            let prepared = golang::prepare(source)?;
            let place = format!("{OWN_DIRECTORY}/go");
            let file = |name: &str, content: String| PlannedFile { path: format!("{place}/{name}"), content };
            files.push(file("go.mod", "module paddock.invalid/script\n\ngo 1.18\n".into()));
            files.push(file("main.go", GO_MAIN.into()));
            files.push(file("inner/paddock.go", GO_INNER.replace("PADDOCK_MAIN", prepared.function)));
            files.push(file("inner/script.go", prepared.source));
            let call = json!({
                "args": resolved.arguments,
                "secrets": resolved.placeholders,
                "result": answer,
                "names": prepared.names,
            });
            (vec!["sh", "-c", GO_LAUNCHER], call.to_string())
        }
    };
    let result =
        ResultPlan { files: vec![ResultFile { path: answer, form: Form::Answer }], last_line: false };
    Ok(Runner { files, exec: exec(&argv, stdin), result })
}

/// Built where it lies, and started where scripts start.
const GO_LAUNCHER: &str = "PATH=\"$PATH:/usr/local/go/bin:/usr/lib/go/bin\"\n\
    export CGO_ENABLED=\"${CGO_ENABLED:-0}\" GOFLAGS=\"${GOFLAGS:--mod=mod}\" GOTOOLCHAIN=\"${GOTOOLCHAIN:-local}\"\n\
    command -v go > /dev/null || { echo '{\"error\": {\"code\": \"interpreter_missing\"}}' > /workspace/.paddock/result.json; exit 127; }\n\
    (cd /workspace/.paddock/go && go build -o ../program .) && exec /workspace/.paddock/program";

fn exec(argv: &[&str], stdin: String) -> StartExec {
    StartExec {
        argv: Some(argv.iter().map(|word| word.to_string()).collect()),
        cwd: Some(DIRECTORY.into()),
        stdin: Some(stdin),
        ..StartExec::default()
    }
}

fn of_a_shell() -> ResultPlan {
    let file = |name: &str, form| ResultFile { path: format!("{DIRECTORY}/{name}"), form };
    ResultPlan {
        files: vec![file("result.json", Form::Json), file("result.out", Form::Text)],
        last_line: true,
    }
}

fn file_name(language: Language, source: &str) -> &'static str {
    match language {
        Language::Python => "script.py",
        Language::TypeScript | Language::Bun | Language::Deno => "script.ts",
        Language::JavaScript if is_commonjs(source) => "script.cjs",
        Language::JavaScript => "script.mjs",
        Language::Bash => "script.sh",
        Language::Go => "script.go",
        Language::Ruby => "script.rb",
    }
}

/// A source that calls `require` and imports nothing is of the older kind.
fn is_commonjs(source: &str) -> bool {
    let is_module = source.lines().any(|line| line.starts_with("import ") || line.starts_with("export "));
    !is_module
        && (source.contains("require(") || source.contains("module.exports") || source.contains("exports."))
}

pub(crate) fn main_hint(language: Language) -> String {
    let example = match language {
        Language::Python => "def main(...):",
        Language::Ruby => "def main(...)",
        Language::Go => "func main(...) (any, error)",
        Language::Bash => return "write commands below the header".into(),
        _ => "export async function main(...)",
    };
    format!(
        "write `{example}`, at the beginning of a line; it gets the arguments, and its value is the result"
    )
}

/// True if the source may have a `main`. Only certain cases are refused here: the wrapper knows more.
pub(crate) fn may_have_main(language: Language, source: &str) -> bool {
    match language {
        Language::Bash => true,
        _ => source.contains("main") || source.contains("Main"),
    }
}

/// The call as it goes over standard input, for tests.
#[cfg(test)]
pub(crate) fn call_of(exec: &StartExec) -> serde_json::Value {
    serde_json::from_str(exec.stdin.as_deref().unwrap()).unwrap()
}
