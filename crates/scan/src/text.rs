//! The values of literals, and of identifiers that are written in other letters than the interpreter reads.

use super::tree::{children, field, text_of};
use tree_sitter::Node;
use unicode_normalization::UnicodeNormalization;

/// The most bytes of a literal that are read: more than any name or path has.
const LONGEST: usize = 4096;
/// The most parentheses and additions around a literal.
const DEEPEST: usize = 8;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Literal {
    /// The whole value, or its known beginning.
    pub value: String,
    pub whole: bool,
}

/// The value of a string, of strings beside each other, or of the beginning of a sum of strings.
pub fn python(node: Node, text: &str) -> Option<Literal> {
    let (node, summed) = core(node, "binary_operator", text)?;
    let mut literal = Literal { value: String::new(), whole: true };
    match node.kind() {
        "string" => python_string(node, text, &mut literal),
        "concatenated_string" => children(node, |part, _| python_string(part, text, &mut literal)),
        _ => return None,
    }
    literal.whole &= !summed;
    Some(literal)
}

pub fn javascript(node: Node, text: &str) -> Option<Literal> {
    let (node, summed) = core(node, "binary_expression", text)?;
    if !matches!(node.kind(), "string" | "template_string") {
        return None;
    }
    let mut literal = Literal { value: String::new(), whole: true };
    children(node, |part, _| match part.kind() {
        "string_fragment" | "escape_sequence" => append(text_of(part, text), false, &mut literal),
        _ => literal.whole = false,
    });
    literal.whole &= !summed;
    Some(literal)
}

/// The literal without parentheses, at the left end of a sum; and true if there was a sum.
fn core<'tree>(mut node: Node<'tree>, sum: &str, text: &str) -> Option<(Node<'tree>, bool)> {
    let mut summed = false;
    for _ in 0..DEEPEST {
        node = match node.kind() {
            "parenthesized_expression" => node.named_child(0)?,
            kind if kind == sum => {
                if text_of(field(node, "operator")?, text) != "+" {
                    return None;
                }
                summed = true;
                field(node, "left")?
            }
            _ => return Some((node, summed)),
        };
    }
    None
}

fn python_string(node: Node, text: &str, literal: &mut Literal) {
    let mut raw = false;
    children(node, |part, _| match part.kind() {
        "string_start" => raw = text_of(part, text).contains(['r', 'R']),
        "string_content" => append(text_of(part, text), raw, literal),
        "string_end" => {}
        _ => literal.whole = false,
    });
}

/// Appends nothing behind an unknown part.
fn append(written: &str, raw: bool, literal: &mut Literal) {
    if !literal.whole {
        return;
    }
    if raw {
        literal.value.push_str(written);
    } else {
        literal.whole = unescape(written, &mut literal.value);
    }
    if literal.value.len() > LONGEST {
        literal.value.truncate(literal.value.floor_char_boundary(LONGEST));
        literal.whole = false;
    }
}

/// Decodes the escapes that Python and JavaScript share, near enough; false at an escape that neither has.
fn unescape(written: &str, value: &mut String) -> bool {
    let mut rest = written;
    while let Some(at) = rest.find('\\') {
        value.push_str(&rest[..at]);
        let escape = &rest[at + 1..];
        let Some(letter) = escape.chars().next() else { return false };
        let (character, used) = match letter {
            'x' => (numbered(escape, 1, 2, 16), 3),
            'u' if escape.starts_with("u{") => match escape.find('}') {
                Some(end) if end < 10 => (numbered(escape, 2, end - 2, 16), end + 1),
                _ => return false,
            },
            'u' => (numbered(escape, 1, 4, 16), 5),
            'U' => (numbered(escape, 1, 8, 16), 9),
            '0'..='7' => {
                let digits = escape.bytes().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
                (numbered(escape, 0, digits, 8), digits)
            }
            '\r' if escape.starts_with("\r\n") => (Some(None), 2),
            '\n' | '\r' | '\u{2028}' | '\u{2029}' => (Some(None), letter.len_utf8()),
            'n' => (Some(Some('\n')), 1),
            't' => (Some(Some('\t')), 1),
            'r' => (Some(Some('\r')), 1),
            'a' | 'b' | 'f' | 'v' => (Some(Some(' ')), 1),
            // Only Python has named characters, and they are rarely the letters of a path.
            'N' => return false,
            other => (Some(Some(other)), other.len_utf8()),
        };
        match character {
            Some(character) => value.extend(character),
            None => return false,
        }
        rest = escape.get(used..).unwrap_or_default();
    }
    value.push_str(rest);
    true
}

/// The character of a numbered escape. `None` if digits are missing, or if their number is no character.
fn numbered(escape: &str, from: usize, digits: usize, radix: u32) -> Option<Option<char>> {
    let digits = escape.get(from..from + digits)?;
    Some(Some(char::from_u32(u32::from_str_radix(digits, radix).ok()?)?))
}

/// Python reads `ｅｖａｌ` as `eval`.
pub fn python_identifier(node: Node, text: &str) -> String {
    let written = text_of(node, text);
    if written.is_ascii() { written.to_string() } else { written.nfkc().take(LONGEST).collect() }
}

/// JavaScript reads `\u0065val` as `eval`.
pub fn javascript_identifier(node: Node, text: &str) -> String {
    let written = text_of(node, text);
    let mut value = String::new();
    if written.contains('\\') && unescape(written, &mut value) { value } else { written.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tree::Grammar;

    /// The value of the first literal in the code.
    fn value(grammar: Grammar, code: &str) -> Option<(String, bool)> {
        let tree = grammar.parse(code).unwrap();
        let statement = tree.root_node().named_child(0).unwrap().named_child(0).unwrap();
        let literal =
            if grammar == Grammar::Python { python(statement, code) } else { javascript(statement, code) };
        literal.map(|literal| (literal.value, literal.whole))
    }

    #[test]
    fn literals_are_read_as_their_language_reads_them() {
        for (code, expected, whole) in [
            (r#""a\x62\143\u0064\U00000065""#, "abcde", true),
            (r#"r"a\x62""#, r"a\x62", true),
            (r#"b'/etc'"#, "/etc", true),
            (r#"("/e" 'tc')"#, "/etc", true),
            (r#"f"/etc/{name}/x""#, "/etc/", false),
            (r#""/etc/" + name + "x""#, "/etc/", false),
            ("'''a\\\nb'''", "ab", true),
            (r#""\N{DIGIT ONE}""#, "", false),
            (r#""\xzz""#, "", false),
        ] {
            assert_eq!(value(Grammar::Python, code), Some((expected.to_string(), whole)), "{code}");
        }
        for (code, expected, whole) in [
            (r#"("\x66s")"#, "fs", true),
            (r#"'\u{66}s'"#, "fs", true),
            ("`/etc/${x}/y`", "/etc/", false),
            (r#""/etc/" + x"#, "/etc/", false),
        ] {
            assert_eq!(value(Grammar::JavaScript, code), Some((expected.to_string(), whole)), "{code}");
        }
        assert_eq!(value(Grammar::Python, "1 + 2"), None);
        assert_eq!(value(Grammar::JavaScript, "'a' - 'b'"), None);
        let long = format!("'{}'", "x".repeat(LONGEST + 5));
        assert_eq!(value(Grammar::Python, &long), Some(("x".repeat(LONGEST), false)));
    }

    #[test]
    fn identifiers_in_other_letters_are_the_same_names() {
        let tree = Grammar::Python.parse("ｅｖａｌ").unwrap();
        let node = tree.root_node().named_child(0).unwrap().named_child(0).unwrap();
        assert_eq!(python_identifier(node, "ｅｖａｌ"), "eval");
        let code = r"\u0065v\u{61}l";
        let tree = Grammar::JavaScript.parse(code).unwrap();
        let node = tree.root_node().named_child(0).unwrap().named_child(0).unwrap();
        assert_eq!(javascript_identifier(node, code), "eval");
    }
}
