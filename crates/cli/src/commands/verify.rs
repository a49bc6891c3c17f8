//! `paddock verify`: attacks on this host's own sandboxes, and their results.

use super::{CommandError, print, print_json};
use crate::args::verify::VerifyArgs;
use crate::caller::Caller;
use paddock_verify::{Options, Step};

pub fn execute(args: VerifyArgs, caller: &mut Caller) -> Result<i32, CommandError> {
    let executable = std::env::current_exe().map_err(CommandError::OwnFile)?;
    let options = Options { executable, backends: args.backend, only: args.group, ..Options::default() };
    let terminal = caller.terminals.stderr;
    let mut progress = Progress { row: String::new(), terminal };
    let report = paddock_verify::verify(&options, &mut |step| progress.show(&step, caller));
    progress.clear(caller);
    let report = report?;
    if args.json {
        print_json(&report, caller)?;
    } else {
        print(&report.text(caller.colour_on_stdout()), caller)?;
    }
    Ok(if report.held { 0 } else { 1 })
}

/// One line that is written over on a terminal; a line per row of the table elsewhere.
struct Progress {
    row: String,
    terminal: bool,
}

impl Progress {
    fn show(&mut self, step: &Step, caller: &mut Caller) {
        let text = match step {
            Step::Controls => "paddock: what the attacks can do without a fence".to_string(),
            Step::Row { name, number, of } => {
                self.row = format!("paddock: {name} ({number} of {of})");
                self.row.clone()
            }
            Step::Attack { id, done, of } if self.terminal => format!("{} {id} {done}/{of}", self.row),
            Step::Attack { .. } => return,
        };
        let text = if self.terminal { format!("\r\u{1b}[K{text}") } else { format!("{text}\n") };
        // A progress line that cannot be written is not an error of the verification.
        let _ = caller.stderr.write_all(text.as_bytes()).and_then(|()| caller.stderr.flush());
    }

    fn clear(&self, caller: &mut Caller) {
        if self.terminal {
            let _ = caller.stderr.write_all(b"\r\x1b[K").and_then(|()| caller.stderr.flush());
        }
    }
}
