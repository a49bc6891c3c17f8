//! Long outputs: shown with head and tail, kept to be read on. Offsets and sizes are characters, as a model counts.

use crate::arguments::BadCall;
use std::collections::VecDeque;

/// The size of one answer, in characters: some four thousand tokens.
pub const OUTPUT_BUDGET: usize = 16_000;
pub const LEAST_BUDGET: usize = 200;
/// Long outputs that are kept to be read on.
const KEPT_OUTPUTS: usize = 32;
/// How far from its place a cut looks for the end of a line.
const LINE_SEARCH: usize = 400;

/// The last long outputs, by name.
#[derive(Debug)]
pub struct Outputs {
    budget: usize,
    kept_bytes: usize,
    kept: VecDeque<(String, String)>,
    made: u64,
}

impl Outputs {
    pub fn new(budget: usize, kept_bytes: usize) -> Outputs {
        Outputs { budget: budget.max(LEAST_BUDGET), kept_bytes, kept: VecDeque::new(), made: 0 }
    }

    pub fn budget(&self) -> usize {
        self.budget
    }

    /// The text, or its head and its tail and how to read the part between them.
    pub fn shown(&mut self, text: &str) -> String {
        if text.len() <= self.budget {
            return text.to_string();
        }
        let length = text.chars().count();
        if length <= self.budget {
            return text.to_string();
        }
        self.made += 1;
        let name = format!("output-{}", self.made);
        let head = back_to_line(text, self.budget * 3 / 5);
        let tail = on_to_line(text, length - (self.budget - head));
        let note = format!(
            "[{} characters left out; read_output(output='{name}', offset={head}) reads on from here]",
            tail - head
        );
        let shown = format!("{}\n{note}\n{}", &text[..byte_of(text, head)], &text[byte_of(text, tail)..]);
        self.keep(name, text);
        shown
    }

    /// The part of a long output at `offset`, as much as fits.
    pub fn piece(&self, name: &str, offset: usize) -> Result<String, BadCall> {
        let Some((name, text)) = self.kept.iter().find(|(kept, _)| kept == name) else {
            let name: String = name.chars().take(80).collect();
            return Err(BadCall(format!(
                "{name} is not kept, or not any more; run the command again, into a file if it is long"
            )));
        };
        let length = text.chars().count();
        if offset >= length {
            return Err(BadCall(format!("{name} has {length} characters; {offset} is behind its end")));
        }
        let end = length.min(offset + self.budget);
        let rest = match end < length {
            true => format!("\n[read_output(output='{name}', offset={end}) reads on]"),
            false => "\n[end of the output]".to_string(),
        };
        Ok(format!("{}{rest}", &text[byte_of(text, offset)..byte_of(text, end)]))
    }

    fn keep(&mut self, name: String, text: &str) {
        self.kept.push_back((name, text.to_string()));
        let bytes =
            |kept: &VecDeque<(String, String)>| kept.iter().map(|(_, text)| text.len()).sum::<usize>();
        while self.kept.len() > 1 && (self.kept.len() > KEPT_OUTPUTS || bytes(&self.kept) > self.kept_bytes) {
            self.kept.pop_front();
        }
    }
}

fn byte_of(text: &str, character: usize) -> usize {
    text.char_indices().nth(character).map_or(text.len(), |(byte, _)| byte)
}

/// The end of a line at most a little before `place`; else the place itself.
fn back_to_line(text: &str, place: usize) -> usize {
    let window = &text[byte_of(text, place.saturating_sub(LINE_SEARCH))..byte_of(text, place)];
    match window.rfind('\n') {
        Some(found) => place - window[found + 1..].chars().count(),
        None => place,
    }
}

fn on_to_line(text: &str, place: usize) -> usize {
    let window = &text[byte_of(text, place)..byte_of(text, place + LINE_SEARCH)];
    match window.find('\n') {
        Some(found) => place + window[..=found].chars().count(),
        None => place,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outputs() -> Outputs {
        Outputs::new(1000, 32 << 20)
    }

    #[test]
    fn long_output_keeps_head_and_tail_and_can_be_read_on() {
        let mut outputs = outputs();
        let text: String = (0..2000).map(|number| format!("zeile {number} ä\n")).collect();
        let shown = outputs.shown(&text);
        assert!(shown.chars().count() < 1200);
        assert!(shown.starts_with("zeile 0 ä\n") && shown.ends_with("zeile 1999 ä\n"));
        assert!(shown.contains("characters left out; read_output(output='output-1', offset="), "{shown}");
        let after = shown.split("offset=").nth(1).unwrap();
        let mut offset: usize = after[..after.find(')').unwrap()].parse().unwrap();
        let mut read = shown.split("\n[").next().unwrap().to_string();
        loop {
            let piece = outputs.piece("output-1", offset).unwrap();
            let (taken, note) = piece.rsplit_once("\n[").unwrap();
            read.push_str(taken);
            offset += taken.chars().count();
            if note.contains("end of") {
                break;
            }
        }
        assert_eq!(read, text);
        assert_eq!(outputs.shown("short"), "short");
        assert!(outputs.piece("output-9", 0).unwrap_err().0.contains("not kept"));
        assert!(outputs.piece("output-1", usize::MAX).unwrap_err().0.contains("behind its end"));
    }

    #[test]
    fn kept_outputs_are_bounded_in_number_and_in_bytes() {
        let mut outputs = Outputs::new(0, 1 << 20);
        assert_eq!(outputs.budget(), LEAST_BUDGET);
        for _ in 0..100 {
            outputs.shown(&"x".repeat(1000));
        }
        assert!(outputs.piece("output-68", 0).is_err() && outputs.piece("output-69", 0).is_ok());
        outputs.shown(&"x".repeat(2 << 20));
        assert!(outputs.piece("output-100", 0).is_err() && outputs.piece("output-101", 0).is_ok());
    }
}
