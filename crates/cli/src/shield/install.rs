//! An agent is put into its home: the progress, for the waiting caller, and the reason of a failure.
//!
//! On a terminal one line is redrawn in place, with the last line that the installer printed and the time that it takes. Elsewhere
//! a line tells the beginning, and another every ten seconds that it goes on.

use crate::render::escape;
use crate::session::{self, Listener, Over, Session};
use paddock_model::Network;
use std::collections::VecDeque;
use std::io::Write;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

const REDRAW: Duration = Duration::from_millis(100);
const SAY_AGAIN: Duration = Duration::from_secs(10);
const WIDTH: usize = 60;
/// So many of the installer's last lines are shown when it fails, and searched for the reason.
const LAST_LINES: usize = 20;
const LONGEST_LINE: usize = 500;

/// How clients report a certificate of an unknown issuer: OpenSSL, Node, Python, Go, GnuTLS, rustls.
const UNTRUSTED: [&str; 10] = [
    "self-signed certificate",
    "self signed certificate",
    "unable to get local issuer certificate",
    "unable to get issuer certificate",
    "unable to verify the first certificate",
    "UNABLE_TO_GET_ISSUER_CERT",
    "UNABLE_TO_VERIFY_LEAF_SIGNATURE",
    "SELF_SIGNED_CERT_IN_CHAIN",
    "CERTIFICATE_VERIFY_FAILED",
    "certificate signed by unknown authority",
];

/// A running installer, for the caller that waits for it.
pub struct Progress {
    shared: Arc<Shared>,
    drawer: JoinHandle<()>,
    began: Instant,
}

struct Shared {
    heard: Mutex<Lines>,
    over: Condvar,
}

#[derive(Default)]
struct Lines {
    last: VecDeque<String>,
    current: Vec<u8>,
    is_over: bool,
}

/// The last lines of an installation, and its duration.
pub struct Heard {
    pub lines: Vec<String>,
    pub took: Duration,
}

impl Progress {
    pub fn begin(name: &str, terminal: bool) -> Progress {
        let shared = Arc::new(Shared { heard: Mutex::default(), over: Condvar::new() });
        let (seen, name, began) = (shared.clone(), name.to_string(), Instant::now());
        if !terminal {
            say(&format!("paddock: installing {name} behind a fence of its own\n"));
        }
        let drawer = std::thread::spawn(move || seen.draw(&name, terminal, began));
        Progress { shared, drawer, began }
    }

    pub fn listener(&self) -> Listener {
        let shared = self.shared.clone();
        Listener(Box::new(move |bytes| shared.lines().push(bytes)))
    }

    /// Takes the moving line away.
    pub fn end(self) -> Heard {
        self.shared.lines().is_over = true;
        self.shared.over.notify_all();
        let _ = self.drawer.join();
        Heard { lines: self.shared.lines().finish(), took: self.began.elapsed() }
    }
}

impl Shared {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.heard.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn draw(&self, name: &str, terminal: bool, began: Instant) {
        let step = if terminal { REDRAW } else { SAY_AGAIN };
        let mut lines = self.lines();
        loop {
            let waited = self.over.wait_timeout_while(lines, step, |lines| !lines.is_over);
            lines = waited.unwrap_or_else(PoisonError::into_inner).0;
            if lines.is_over {
                break;
            }
            let seconds = began.elapsed().as_secs();
            let shown: String = lines.last.back().map_or("", String::as_str).chars().take(WIDTH).collect();
            match terminal {
                true => say(&format!("\r\x1b[Kinstalling {name}, {seconds} s  {shown}")),
                false => say(&format!("paddock: installing {name} goes on after {seconds} s: {shown}\n")),
            }
        }
        if terminal {
            say("\r\x1b[K");
        }
    }
}

impl Lines {
    fn push(&mut self, bytes: &[u8]) {
        for byte in bytes {
            match byte {
                b'\n' | b'\r' => self.end_line(),
                _ if self.current.len() < LONGEST_LINE => self.current.push(*byte),
                _ => {}
            }
        }
    }

    fn end_line(&mut self) {
        let line = escape::line(String::from_utf8_lossy(&std::mem::take(&mut self.current)).trim_end());
        if line.is_empty() {
            return;
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    fn finish(&mut self) -> Vec<String> {
        self.end_line();
        std::mem::take(&mut self.last).into()
    }
}

/// A failure to write to stderr is ignored: there is no other place to report it.
fn say(text: &str) {
    let _ = std::io::stderr().write_all(text.as_bytes());
}

/// The facts that explain the failure of an installation.
pub struct Facts {
    name: String,
    program: String,
    offline: bool,
    host_certs: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("{name} could not be installed: {why}")]
pub struct Failure {
    name: String,
    why: String,
    /// The installer's last lines.
    pub output: String,
    pub hint: Option<String>,
}

impl Facts {
    pub fn of(name: &str, session: &Session) -> Facts {
        Facts {
            name: name.to_string(),
            program: session.argv.first().cloned().unwrap_or_default(),
            offline: session.spec.network == Network::None,
            host_certs: session.host_certs,
        }
    }

    pub fn failure(&self, over: &Over, heard: &Heard) -> Failure {
        let refused = session::network::lock(&over.decisions).ledger.hosts().into_iter();
        let refused: Vec<_> = refused.filter(|host| !host.allowed).collect();
        let code = over.finished.exit_code();
        let why = over.finished.message();
        let mut output: String = heard.lines.iter().map(|line| format!("{line}\n")).collect();
        for host in &refused {
            output.push_str(&format!(
                "paddock: network: {} was refused: {}\n",
                escape::line(&host.target),
                escape::line(&host.reason)
            ));
        }
        let advice: Vec<&str> = refused.iter().filter_map(|host| host.advice.as_deref()).collect();
        Failure {
            name: self.name.clone(),
            why: why.unwrap_or_else(|| format!("`{}` ended with exit code {code}", self.program)),
            output,
            hint: self.hint(code, &heard.lines, &advice),
        }
    }

    /// `advice`: the flags that would allow the refused hosts.
    fn hint(&self, code: i32, lines: &[String], advice: &[&str]) -> Option<String> {
        if code == session::NOT_FOUND {
            return Some(format!(
                "it needs `{}` inside: install it on the host, or take an image that has it, as --template agent does",
                self.program
            ));
        }
        let untrusted = lines.iter().any(|line| UNTRUSTED.iter().any(|words| line.contains(words)));
        match advice.first() {
            _ if self.offline => Some("--net none keeps it from the network: leave it out".into()),
            Some(advice) => Some(advice.to_string()),
            None if untrusted && self.host_certs => Some(
                "not even the host's certificates vouch for what answered: name the PEM file of the network's authority with \
                 NODE_EXTRA_CA_CERTS or SSL_CERT_FILE"
                    .into(),
            ),
            None if untrusted => Some(
                "this network seems to inspect TLS: --host-certs lets the installer trust what the host trusts".into(),
            ),
            None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_lines_are_kept_and_harmless() {
        let mut lines = Lines::default();
        for number in 0..100 {
            lines.push(format!("line {number}\r\n").as_bytes());
        }
        lines.push(b"\x1b[2Jend");
        lines.push(&[b'x'; 2 * LONGEST_LINE]);
        let kept = lines.finish();
        assert_eq!((kept.len(), kept[0].as_str()), (LAST_LINES, "line 81"));
        assert!(kept[19].starts_with("\\u{1b}[2Jend") && kept[19].len() < LONGEST_LINE + 10, "{}", kept[19]);
    }

    #[test]
    fn a_hint_names_what_would_help() {
        let facts =
            |offline, host_certs| Facts { name: "claude".into(), program: "npm".into(), offline, host_certs };
        let hint = |facts: Facts, code, line: &str, advice: &[&str]| {
            facts.hint(code, &[line.to_string()], advice).unwrap_or_default()
        };
        let untrusted = "npm error code SELF_SIGNED_CERT_IN_CHAIN";
        assert!(hint(facts(false, false), 1, untrusted, &[]).contains("--host-certs"));
        let node = "Error: unable to get local issuer certificate";
        assert!(hint(facts(false, false), 1, node, &[]).contains("--host-certs"));
        assert!(hint(facts(false, true), 1, untrusted, &[]).contains("NODE_EXTRA_CA_CERTS"));
        let allow = "to allow it: --allow-net a.test";
        assert_eq!(hint(facts(false, false), 1, "403", &[allow]), allow);
        assert!(hint(facts(true, false), 1, "EAI_AGAIN", &[]).contains("--net none"));
        assert!(hint(facts(false, false), session::NOT_FOUND, "", &[]).contains("`npm` inside"));
        assert_eq!(hint(facts(false, false), 1, "out of luck", &[]), "");
    }
}
