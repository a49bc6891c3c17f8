//! The few colours there are.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Plain,
    Bold,
    Good,
    Warning,
    Bad,
}

impl Style {
    pub fn paint(self, text: &str, colour: bool) -> String {
        let code = match self {
            Style::Plain => return text.to_string(),
            Style::Bold => "1",
            Style::Good => "32",
            Style::Warning => "33",
            Style::Bad => "1;31",
        };
        if colour { format!("\u{1b}[{code}m{text}\u{1b}[0m") } else { text.to_string() }
    }
}
