//! JSON that is safe for a terminal: control characters are escaped as JSON escapes them.

use super::escape;
use serde::Serialize;
use std::fmt::Write;

/// Pretty, with a newline at the end. A program that parses it gets every character back.
pub fn text(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(harmless(&serde_json::to_string_pretty(value)?))
}

/// The same on one line, for streams.
pub fn line(value: &impl Serialize) -> serde_json::Result<String> {
    Ok(harmless(&serde_json::to_string(value)?))
}

fn harmless(plain: &str) -> String {
    let mut text = String::with_capacity(plain.len() + 1);
    for character in plain.chars() {
        // The newlines are the layout's own: those within strings are escaped already.
        if character == '\n' || !escape::is_hostile(character) {
            text.push(character);
        } else {
            // Writing to a String cannot fail.
            let _ = write!(text, "\\u{:04x}", u32::from(character));
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn hostile_characters_are_escaped_and_come_back() {
        let hostile = "a\u{1b}[2J\u{9b}\u{202e}\n\u{7f}";
        let text = super::text(&hostile).unwrap();
        assert_eq!(text, "\"a\\u001b[2J\\u009b\\u202e\\n\\u007f\"\n");
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), hostile);
    }
}
