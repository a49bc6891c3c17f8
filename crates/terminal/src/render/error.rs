//! `error:`, its causes, and a hint, each on a line of its own.

use super::escape;
use super::style::Style;
use crate::caller::Caller;
use std::error::Error;

pub fn print(error: &dyn Error, hint: Option<&str>, caller: &mut Caller) {
    let text = text(error, hint, caller.colour_on_stderr());
    // An error while writing the message itself cannot be told anywhere.
    let _ = caller.stderr.write_all(text.as_bytes()).and_then(|()| caller.stderr.flush());
}

/// A hint that belongs to no error.
pub fn hint(hint: &str, caller: &mut Caller) {
    let label = Style::Bold.paint("hint:", caller.colour_on_stderr());
    let _ = writeln!(caller.stderr, "{label} {}", escape::line(hint));
}

/// Something that the caller has to know about an answer that came.
pub fn warning(text: &str, caller: &mut Caller) {
    let label = Style::Bold.paint("warning:", caller.colour_on_stderr());
    let _ = writeln!(caller.stderr, "{label} {}", escape::line(text));
}

/// The error and its causes in one line.
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(&format!(": {source}"));
        cause = source.source();
    }
    text
}

fn text(error: &dyn Error, hint: Option<&str>, colour: bool) -> String {
    let mut text = format!("{} {}\n", Style::Bad.paint("error:", colour), escape::line(&error.to_string()));
    let mut cause = error.source();
    while let Some(source) = cause {
        text.push_str(&format!("  caused by: {}\n", escape::line(&source.to_string())));
        cause = source.source();
    }
    if let Some(hint) = hint {
        text.push_str(&format!("{} {}\n", Style::Bold.paint("hint:", colour), escape::line(hint)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("outer \u{1b}[2J")]
    struct Outer(#[source] std::io::Error);

    #[test]
    fn the_chain_is_printed_once_and_escaped() {
        let error = Outer(std::io::Error::other("inner"));
        assert_eq!(
            text(&error, Some("mend it"), false),
            "error: outer \\u{1b}[2J\n  caused by: inner\nhint: mend it\n"
        );
    }
}
