//! The output of a build's step before it failed.

use super::escape;
use paddock_model::{Captured, format_bytes};

/// Both ends of the output, with the length of the part between them.
pub fn output(captured: &Captured) -> String {
    let text = |bytes: &[u8]| {
        escape::lines(&String::from_utf8_lossy(bytes).replace('\r', "\n").replace('\t', "    "))
    };
    let mut all = text(&captured.head);
    if captured.missing > 0 {
        all.push_str(&format!("\n[... {} left out ...]\n", format_bytes(captured.missing)));
    }
    all.push_str(&text(&captured.tail));
    if !all.is_empty() && !all.ends_with('\n') {
        all.push('\n');
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_printed_cannot_speak_to_the_terminal() {
        let captured = Captured { head: b"a\x1b[31m\r\n".to_vec(), tail: b"end".to_vec(), missing: 2048 };
        assert_eq!(output(&captured), "a\\u{1b}[31m\n\n\n[... 2 KiB left out ...]\nend\n");
        assert_eq!(output(&Captured { head: vec![], tail: vec![], missing: 0 }), "");
    }
}
