//! The output of a run. The model's words go to stdout, on a terminal as they come and else only the last ones; its
//! actions go to stderr. Neither may control the terminal.

use crate::render::style::Style;
use crate::render::{escape, json};
use paddock_agent::{End, Event, Usage};
use serde::Serialize;
use std::io::Write;

/// The most characters of a call or a result that are shown, on one line.
const SHOWN: usize = 160;

pub struct Screen<'a> {
    pub stdout: &'a mut dyn Write,
    pub stderr: &'a mut dyn Write,
    pub json: bool,
    /// True if stdout is a terminal.
    pub terminal: bool,
    pub colour: bool,
    /// Words were said since the last line break.
    pub open: bool,
    pub total: Usage,
}

/// The last line of `--json`.
#[derive(Serialize)]
struct Ended<'a> {
    event: &'static str,
    reason: &'static str,
    exit_code: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<Failure>,
    usage: Usage,
    session: &'a str,
}

#[derive(Serialize)]
struct Failure {
    code: &'static str,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

impl Screen<'_> {
    pub fn tell(&mut self, event: Event) {
        if let Event::Step { total, .. } = &event {
            self.total = *total;
        }
        if self.json {
            self.line_of_json(&event);
            return;
        }
        match event {
            // A program wants the answer only, without the words on the way to it.
            Event::Text { .. } if !self.terminal => {}
            Event::Text { text } => {
                let text = escape::lines(&text);
                self.open = !text.ends_with('\n');
                let _ = self.stdout.write_all(text.as_bytes()).and_then(|()| self.stdout.flush());
            }
            Event::Retry { attempt, error, wait_ms } => {
                let wait = wait_ms as f64 / 1e3;
                self.note(&format!("attempt {attempt}: {error}; asked again in {wait:.1} s"), Style::Warning);
            }
            Event::Call { tool, arguments, .. } => self.note(&format!("> {tool} {arguments}"), Style::Bold),
            Event::Result { is_error, text, .. } => {
                let style = if is_error { Style::Bad } else { Style::Plain };
                self.note(&format!("< {text}"), style);
            }
            Event::Step { .. } => {}
        }
    }

    /// Returns the exit code.
    pub fn end(&mut self, end: &End, session: &str) -> i32 {
        let (reason, code) = reason(end);
        if self.json {
            let text = match end {
                End::Answer { text } | End::Stopped { text, .. } => Some(text.as_str()),
                _ => None,
            };
            let error = (code != 0).then(|| Failure {
                code: reason_code(end),
                message: sentence(end),
                hint: hint(end),
            });
            let usage = self.total;
            self.line_of_json(&Ended { event: "end", reason, exit_code: code, text, error, usage, session });
            return code;
        }
        if let End::Answer { text } | End::Stopped { text, .. } = end
            && !self.terminal
        {
            let _ = writeln!(self.stdout, "{}", text.trim_end_matches('\n'));
        }
        self.close();
        if code != 0 {
            let _ = writeln!(self.stderr, "paddock: {}", escape::line(&sentence(end)));
            if let Some(hint) = hint(end) {
                let _ = writeln!(self.stderr, "hint: {}", escape::line(&hint));
            }
        }
        code
    }

    /// One line about the run, for a person.
    pub fn note(&mut self, text: &str, style: Style) {
        self.close();
        let one: String = escape::line(text).chars().take(SHOWN).collect();
        let _ = writeln!(self.stderr, "{}", style.paint(&one, self.colour));
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            let _ = self.stdout.write_all(b"\n").and_then(|()| self.stdout.flush());
        }
    }

    fn line_of_json(&mut self, value: &impl Serialize) {
        if let Ok(line) = json::line(value) {
            let _ = self.stdout.write_all(line.as_bytes()).and_then(|()| self.stdout.flush());
        }
    }
}

fn reason(end: &End) -> (&'static str, i32) {
    match end {
        End::Answer { .. } => ("answer", 0),
        End::Stopped { .. } => ("stopped", 1),
        End::Steps { .. } => ("steps", 3),
        End::Tokens { .. } => ("tokens", 4),
        End::Time { .. } => ("time", 5),
        End::Model(_) => ("model", 6),
        End::SandboxGone { .. } => ("sandbox_gone", 7),
    }
}

fn reason_code(end: &End) -> &'static str {
    match end {
        End::Model(error) => error.code(),
        other => reason(other).0,
    }
}

fn sentence(end: &End) -> String {
    match end {
        End::Answer { .. } => "the model answered".into(),
        End::Stopped { reason, .. } => format!("the model stopped without an answer: {reason}"),
        End::Steps { limit } => {
            format!("the model still wanted to go on after {limit} replies, which is the limit")
        }
        End::Tokens { limit, used } => format!("{used} tokens were used, and the budget is {limit}"),
        End::Time { seconds } => format!("the time of {seconds} s is over"),
        End::SandboxGone { detail } => format!("the sandbox ended in the middle: {detail}"),
        End::Model(error) => {
            let mut text = error.to_string();
            let mut cause = std::error::Error::source(error);
            while let Some(source) = cause {
                text.push_str(&format!(": {source}"));
                cause = source.source();
            }
            text
        }
    }
}

fn hint(end: &End) -> Option<String> {
    match end {
        End::Steps { .. } => Some("--steps allows more; --continue goes on where a session stopped".into()),
        End::Tokens { .. } => Some("--tokens allows more".into()),
        End::Time { .. } => Some("--time allows more".into()),
        End::Stopped { reason, .. } if reason == "max_tokens" || reason == "length" => {
            Some("--max-tokens allows longer replies".into())
        }
        End::Model(error) => error.hint(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(json: bool, terminal: bool, work: impl FnOnce(&mut Screen)) -> (String, String) {
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let mut screen = Screen {
            stdout: &mut stdout,
            stderr: &mut stderr,
            json,
            terminal,
            colour: false,
            open: false,
            total: Usage::default(),
        };
        work(&mut screen);
        (String::from_utf8(stdout).unwrap(), String::from_utf8(stderr).unwrap())
    }

    #[test]
    fn words_and_deeds_are_apart_and_harmless() {
        let (stdout, stderr) = shown(false, true, |screen| {
            screen.tell(Event::Text { text: "I \u{1b}[2J try".into() });
            screen.tell(Event::Call { id: "1".into(), tool: "run_code".into(), arguments: "{\n}".into() });
            screen.tell(Event::Result { id: "1".into(), is_error: true, text: "x\u{7}\ny".into() });
            assert_eq!(screen.end(&End::Steps { limit: 2 }, "s"), 3);
        });
        assert_eq!(stdout, "I \\u{1b}[2J try\n");
        assert!(
            stderr.starts_with("> run_code {\\n}\n< x\\u{7}\\ny\npaddock: the model still wanted"),
            "{stderr}"
        );
    }

    #[test]
    fn a_program_gets_the_answer_alone() {
        let (stdout, _) = shown(false, false, |screen| {
            screen.tell(Event::Text { text: "let me see".into() });
            screen.tell(Event::Text { text: "it is 1".into() });
            screen.end(&End::Answer { text: "it is 1".into() }, "s");
        });
        assert_eq!(stdout, "it is 1\n");
    }

    #[test]
    fn an_object_a_line() {
        let (stdout, stderr) = shown(true, false, |screen| {
            screen.tell(Event::Text { text: "hi".into() });
            screen.end(&End::Answer { text: "hi".into() }, "s-1");
        });
        let lines: Vec<serde_json::Value> =
            stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((lines[0]["event"].as_str(), lines[1]["reason"].as_str()), (Some("text"), Some("answer")));
        assert_eq!((&lines[1]["session"], stderr.as_str()), (&"s-1".into(), ""));
    }
}
