//! The messages of `process.Process` and `filesystem.Filesystem` that clients send. Fields that are not known are left alone, as
//! the protocol wants it: newer clients have more of them.

use super::connect::RpcError;
use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE};
use paddock_model::api::TerminalSize;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Deserialize)]
pub struct Start {
    #[serde(default)]
    pub process: ProcessConfig,
    #[serde(default)]
    pub pty: Option<Pty>,
    #[serde(default)]
    pub tag: Option<String>,
    /// Old clients do not send it, and mean true.
    #[serde(default)]
    pub stdin: Option<bool>,
}

#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default)]
pub struct ProcessConfig {
    pub cmd: String,
    pub args: Vec<String>,
    pub envs: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cwd: Option<String>,
}

#[derive(Debug, Deserialize)]
pub struct Pty {
    pub size: Option<Size>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Size {
    cols: u32,
    rows: u32,
}

impl Pty {
    pub fn size(&self) -> Result<TerminalSize, RpcError> {
        let given = self.size.as_ref().ok_or_else(|| RpcError::invalid("pty.size is missing"))?;
        let side = |what: &str, value: u32| {
            let side = u16::try_from(value).ok().filter(|side| *side > 0);
            side.ok_or_else(|| RpcError::invalid(format!("pty.size.{what}: {value} is not 1 to 65535")))
        };
        Ok(TerminalSize { rows: side("rows", given.rows)?, columns: side("cols", given.cols)? })
    }
}

/// Which process is meant.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Selector {
    pub pid: Option<u32>,
    pub tag: Option<String>,
}

/// Of calls that name a process and nothing else.
#[derive(Debug, Deserialize)]
pub struct OfProcess {
    #[serde(default)]
    pub process: Selector,
}

#[derive(Debug, Deserialize)]
pub struct SendInput {
    #[serde(default)]
    pub process: Selector,
    #[serde(default)]
    pub input: Input,
}

/// Text in base64, for one of the two kinds of process.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Input {
    stdin: Option<String>,
    pty: Option<String>,
}

impl Input {
    pub fn bytes(&self) -> Result<Vec<u8>, RpcError> {
        let given = self.stdin.as_ref().or(self.pty.as_ref());
        let text = given.ok_or_else(|| RpcError::invalid("input has neither stdin nor pty"))?;
        let decoded = STANDARD.decode(text).or_else(|_| URL_SAFE.decode(text));
        decoded.map_err(|_| RpcError::invalid("input is not base64"))
    }
}

#[derive(Debug, Deserialize)]
pub struct StreamInput {
    #[serde(default)]
    pub start: Option<OfProcess>,
    #[serde(default)]
    pub data: Option<InputData>,
}

#[derive(Debug, Deserialize)]
pub struct InputData {
    #[serde(default)]
    pub input: Input,
}

#[derive(Debug, Deserialize)]
pub struct SendSignal {
    #[serde(default)]
    pub process: Selector,
    #[serde(default)]
    pub signal: Signal,
}

/// By its name, or by its number in the protocol.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "serde_json::Value")]
pub enum Signal {
    #[default]
    Unspecified,
    Terminate,
    Kill,
}

impl TryFrom<serde_json::Value> for Signal {
    type Error = String;

    fn try_from(value: serde_json::Value) -> Result<Signal, String> {
        match (value.as_str(), value.as_u64()) {
            (Some("SIGNAL_SIGTERM"), _) | (_, Some(15)) => Ok(Signal::Terminate),
            (Some("SIGNAL_SIGKILL"), _) | (_, Some(9)) => Ok(Signal::Kill),
            (Some("SIGNAL_UNSPECIFIED"), _) | (_, Some(0)) => Ok(Signal::Unspecified),
            _ => Err("signal is neither SIGNAL_SIGTERM nor SIGNAL_SIGKILL".into()),
        }
    }
}

#[derive(Debug, Deserialize)]
pub struct Update {
    #[serde(default)]
    pub process: Selector,
    #[serde(default)]
    pub pty: Option<Pty>,
}

/// Of calls about one path.
#[derive(Debug, Deserialize)]
pub struct AtPath {
    #[serde(default)]
    pub path: String,
}

#[derive(Debug, Deserialize)]
pub struct ListDir {
    #[serde(default)]
    pub path: String,
    #[serde(default)]
    pub depth: u32,
}

#[derive(Debug, Deserialize)]
pub struct Move {
    #[serde(default)]
    pub source: String,
    #[serde(default)]
    pub destination: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
pub struct WatchRequest {
    pub path: String,
    pub recursive: bool,
    pub include_entry: bool,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OfWatcher {
    #[serde(default)]
    pub watcher_id: String,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    #[test]
    fn what_the_sdks_send_is_understood() {
        let start: Start = from_value(json!({
            "process": { "cmd": "/bin/bash", "args": ["-l", "-c", "ls"], "envs": { "A": "1" }, "cwd": "/tmp" },
            "stdin": false, "newer": 1,
        }))
        .expect("valid");
        assert_eq!((start.process.args.len(), start.stdin, start.tag), (3, Some(false), None));
        let pty: Pty = from_value(json!({ "size": { "cols": 80, "rows": 24 } })).expect("valid");
        assert_eq!(pty.size().expect("a size"), TerminalSize { rows: 24, columns: 80 });
        for bad in [json!({}), json!({ "size": {} }), json!({ "size": { "cols": 70000, "rows": 1 } })] {
            assert!(from_value::<Pty>(bad.clone()).expect("a message").size().is_err(), "{bad}");
        }
        let input: SendInput =
            from_value(json!({ "process": { "pid": 7 }, "input": { "stdin": "aGk=" } })).expect("valid");
        assert_eq!((input.process.pid, input.input.bytes().expect("bytes")), (Some(7), b"hi".to_vec()));
        assert!(from_value::<Input>(json!({ "pty": "%" })).expect("a message").bytes().is_err());
    }

    #[test]
    fn signals_have_names_and_numbers() {
        let of = |value| from_value::<SendSignal>(json!({ "signal": value })).map(|sent| sent.signal).ok();
        assert_eq!(of(json!("SIGNAL_SIGKILL")), Some(Signal::Kill));
        assert_eq!(of(json!(15)), Some(Signal::Terminate));
        assert_eq!(of(json!("SIGHUP")), None);
    }
}
