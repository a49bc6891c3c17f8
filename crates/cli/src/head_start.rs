//! Begins a sandbox while the arguments are still being read: its namespaces are the same with all arguments.

use crate::caller::Environment;
use crate::state;
use paddock_engine::HeadStart;
use std::ffi::OsString;

/// Only a guess from the looks of the arguments; a wrong one costs time and changes nothing else.
pub fn begin(arguments: &[OsString], environment: &Environment) -> Option<HeadStart> {
    if !needs_a_sandbox_at_once(arguments) {
        return None;
    }
    let state = state::prepare(environment).ok()?;
    Some(HeadStart::begin(&state))
}

fn needs_a_sandbox_at_once(arguments: &[OsString]) -> bool {
    let mut words = arguments.iter().skip(1).map(|argument| argument.to_string_lossy());
    let sandboxed = words.next().is_some_and(|command| ["run", "code", "shield"].contains(&&*command));
    // An explanation runs nothing, an image may have to be fetched first, and the host's network needs none made.
    let mut options = words.take_while(|word| word != "--");
    sandboxed
        && !options.any(|word| {
            word == "-h"
                || ["--help", "--explain", "--dry-run", "--list", "--forget", "--image", "--net", "--volume"]
                    .iter()
                    .any(|o| word.starts_with(o))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guess(line: &str) -> bool {
        needs_a_sandbox_at_once(&line.split(' ').map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn what_runs_at_once_gets_a_head_start() {
        assert!(guess("paddock run -- ls --help"));
        assert!(guess("paddock run --memory 1GiB ls"));
        assert!(guess("paddock code 1+1"));
        assert!(guess("paddock shield -- claude --list"));
    }

    #[test]
    fn what_runs_nothing_or_later_does_not() {
        for line in [
            "",
            "doctor",
            "template list",
            "run --explain -- ls",
            "code --help",
            "run -h",
            "shield --dry-run",
        ] {
            assert!(!guess(&format!("paddock {line}")), "{line}");
        }
        assert!(!guess("paddock run --image=debian ls"));
        assert!(!guess("paddock run --net host ls"));
    }
}
