//! The table of docs/speed.md, between its two marks.

use anyhow::{Context, Result};
use std::path::Path;

const BEGIN: &str = "<!-- written by make bench: code -->\n";
const END: &str = "<!-- end -->\n";

pub fn put(path: &Path, table: &str) -> Result<()> {
    let text = std::fs::read_to_string(path)?;
    Ok(std::fs::write(path, replaced(&text, table)?)?)
}

fn replaced(text: &str, table: &str) -> Result<String> {
    let (before, rest) = text.split_once(BEGIN).context("it has no mark where the table begins")?;
    let (_, after) = rest.split_once(END).context("it has no mark where the table ends")?;
    Ok(format!("{before}{BEGIN}{table}{END}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_the_marks_changes() {
        let text = format!("a\n{BEGIN}old\n{END}b\n");
        assert_eq!(replaced(&text, "new\n").unwrap(), format!("a\n{BEGIN}new\n{END}b\n"));
        assert!(replaced("a\n", "new\n").is_err());
        assert!(replaced(&format!("a\n{BEGIN}old\n"), "new\n").is_err());
    }
}
