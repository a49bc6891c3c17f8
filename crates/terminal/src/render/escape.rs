//! Text from outside must not speak to the terminal: control characters and those that turn the direction of
//! writing are shown as escapes.

use std::fmt::Write;

/// One line: newlines are escaped too.
pub fn line(text: &str) -> String {
    escaped(text, |_| false)
}

/// Several lines: newlines stay.
pub fn lines(text: &str) -> String {
    escaped(text, |character| character == '\n')
}

pub fn is_needed(text: &str) -> bool {
    text.chars().any(is_hostile)
}

fn escaped(text: &str, kept: impl Fn(char) -> bool) -> String {
    let mut harmless = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            _ if kept(character) || !is_hostile(character) => harmless.push(character),
            '\n' | '\r' | '\t' => harmless.extend(character.escape_default()),
            _ => {
                // Writing to a String cannot fail.
                let _ = write!(harmless, "\\u{{{:x}}}", u32::from(character));
            }
        }
    }
    harmless
}

/// All of them lie below U+10000.
pub fn is_hostile(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_for_the_terminal_are_shown_and_not_obeyed() {
        assert_eq!(line("a\u{1b}]52;c;eA==\u{7}b"), "a\\u{1b}]52;c;eA==\\u{7}b");
        assert_eq!(line("a\r\nb\t"), "a\\r\\nb\\t");
        assert_eq!(lines("a\r\nb\u{9b}"), "a\\r\nb\\u{9b}");
        assert_eq!(line("x\u{202e}gpj"), "x\\u{202e}gpj");
        assert_eq!(line("größe 大 😀"), "größe 大 😀");
    }
}
