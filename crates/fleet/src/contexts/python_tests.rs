//! The runners alone, Python's with an interpreter of this host: tests of moments that a sandbox cannot be made to hit.

#![allow(clippy::unwrap_used, reason = "tests")]

use super::languages::{PYTHON, PYTHON_LOADER};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

struct Interpreter {
    process: Child,
    control: BufReader<UnixStream>,
}

impl Interpreter {
    fn start() -> Interpreter {
        let (ours, theirs) = UnixStream::pair().unwrap();
        rustix::io::fcntl_setfd(&theirs, rustix::io::FdFlags::empty()).unwrap();
        let process = Command::new("python3")
            .args(["-c", PYTHON_LOADER])
            .env("PADDOCK_CONTROL", theirs.as_raw_fd().to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        ours.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        (&ours).write_all(format!("{}\n{PYTHON}", PYTHON.len()).as_bytes()).unwrap();
        let mut interpreter = Interpreter { process, control: BufReader::new(ours) };
        assert_eq!(interpreter.hear().0, "ready");
        interpreter
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn send(&mut self, code: &str) {
        let frame = format!("run 2\ncall 1\n7\ncode {}\n{code}\n", code.len());
        self.control.get_mut().write_all(frame.as_bytes()).unwrap();
    }

    /// The kind of the next frame, and its fields as they came.
    fn hear(&mut self) -> (String, String) {
        let (kind, count) = self.line();
        let mut fields = String::new();
        for _ in 0..count {
            let (name, length) = self.line();
            let mut value = vec![0; length + 1];
            self.control.read_exact(&mut value).unwrap();
            fields += &format!("{name}={};", String::from_utf8_lossy(&value[..length]));
        }
        (kind, fields)
    }

    /// A word and a number.
    fn line(&mut self) -> (String, usize) {
        let mut line = String::new();
        self.control.read_line(&mut line).unwrap();
        let (word, number) = line.trim().split_once(' ').unwrap();
        (word.to_string(), number.parse().unwrap())
    }

    /// Returns when it waits, and no signal is pending for it.
    fn settle(&self) {
        loop {
            let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id())).unwrap();
            let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).unwrap().trim();
            let pending = |name| u64::from_str_radix(field(name), 16).unwrap();
            if field("State:").starts_with('S') && pending("SigPnd:") | pending("ShdPnd:") == 0 {
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Interpreter {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn an_interrupt_before_the_first_line_is_for_the_call_that_is_on_its_way() {
    let mut interpreter = Interpreter::start();
    // The first call, and one after another.
    for _ in 0..2 {
        interpreter.signal(Signal::STOP);
        interpreter.send("while True: pass");
        interpreter.signal(Signal::INT);
        interpreter.signal(Signal::CONT);
        let (kind, fields) = interpreter.hear();
        assert!(kind == "error" && fields.contains("name=KeyboardInterrupt;"), "{kind} {fields}");
        assert_eq!(interpreter.hear(), ("done".into(), "call=7;exit_code=1;".into()));
    }
}

#[test]
fn an_interrupt_that_comes_too_late_is_for_nobody() {
    let mut interpreter = Interpreter::start();
    interpreter.send("1");
    assert_eq!(interpreter.hear().0, "result");
    assert_eq!(interpreter.hear().0, "done");
    interpreter.settle();
    interpreter.signal(Signal::INT);
    interpreter.settle();
    interpreter.send("1 + 1");
    assert_eq!(interpreter.hear().0, "result");
    assert_eq!(interpreter.hear(), ("done".into(), "call=7;exit_code=0;".into()));
}

#[test]
fn the_source_of_every_runner_fits_into_what_may_be_under_way_unread() {
    for name in ["python", "javascript", "typescript", "bash"] {
        let source = super::languages::Language::named(Some(name)).unwrap().source();
        assert!(source.len() < paddock_protocol::WINDOW as usize, "{name}: {} bytes", source.len());
    }
}
