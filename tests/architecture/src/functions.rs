//! The functions of a file and the methods of its types, read from the source as rustfmt writes it: the brace that closes a body
//! stands as far to the right as the line that begins it.

use crate::modules::without_comments_and_tests;

pub struct Function {
    pub name: String,
    /// From its first line to its closing brace.
    pub lines: usize,
}

/// Every function with a body, tests included.
pub fn functions(text: &str) -> Vec<Function> {
    let lines: Vec<&str> = text.lines().collect();
    (0..lines.len()).filter_map(|at| function(&lines[at..])).collect()
}

fn function(lines: &[&str]) -> Option<Function> {
    let name = name_of(lines[0])?;
    let is_over = |line: &&&str| line.ends_with('{') || line.ends_with(';') || line.ends_with('}');
    let opened = lines.iter().position(|line| is_over(&line))?;
    let opens = lines[opened].ends_with('{');
    let closing = format!("{}}}", indentation(lines[0]));
    let closed = lines.iter().skip(opened + 1).position(|line| *line == closing)?;
    opens.then(|| Function { name: name.to_string(), lines: opened + closed + 2 })
}

fn indentation(line: &str) -> &str {
    &line[..line.len() - line.trim_start().len()]
}

/// The name of the function that begins in this line.
fn name_of(line: &str) -> Option<&str> {
    const BEFORE: [&str; 8] = ["pub", "const", "async", "unsafe", "extern", "\"C\"", "default", "fn"];
    let (before, after) = line.trim_start().split_once("fn ")?;
    let is_word = |word: &str| BEFORE.contains(&word) || word.starts_with("pub(") || word.ends_with(')');
    before.split_whitespace().all(is_word).then(|| after.split(['(', '<']).next().unwrap_or_default())
}

/// The types of a file that have methods of their own, those of traits left out, and how many.
pub fn methods(text: &str) -> Vec<(String, usize)> {
    let text = without_comments_and_tests(text);
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(subject) = line.strip_prefix("impl").filter(|rest| rest.starts_with([' ', '<'])) else {
            continue;
        };
        if subject.contains(" for ") || !line.ends_with('{') {
            continue;
        }
        let subject = if subject.starts_with('<') {
            subject.split_once("> ").map_or("", |(_, rest)| rest)
        } else {
            subject
        };
        let name = subject.trim().split(['<', ' ']).next().unwrap_or_default();
        let body = lines[at + 1..].iter().take_while(|line| **line != "}");
        let count = body
            .filter(|line| line.starts_with("    ") && !line.starts_with("     ") && name_of(line).is_some());
        found.push((name.to_string(), count.count()));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
pub(crate) async fn a(
    x: u8,
) -> u8 {
    x
}

impl<T> Thing<T> {
    pub fn b(&self) {}

    const fn c(self) -> u8 {
        fn inner() {
        }
        1
    }
}

impl Other for Thing<u8> {
    fn d();
}
";

    #[test]
    fn functions_are_measured_and_methods_counted() {
        let found: Vec<_> = functions(TEXT).into_iter().map(|f| (f.name, f.lines)).collect();
        assert_eq!(found, [("a".into(), 5), ("c".into(), 5), ("inner".into(), 2)]);
        assert_eq!(methods(TEXT), [("Thing".to_string(), 2)]);
    }
}
