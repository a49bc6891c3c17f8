//! SandboxFusion's words: what its clients send and read, and how each language is compiled and run. A server carries it out.
//!
//! - [`request`]: bodies, checked before anything is made
//! - [`languages`]: commands and files of each language
//! - [`answers`]: ends of commands and cells in SandboxFusion's shapes

pub mod answers;
pub mod languages;
pub mod request;

/// Why a request is not carried out.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("{message}")]
    Field {
        /// From the body down.
        path: Vec<String>,
        message: String,
    },
    /// Well asked, and not to be had here.
    #[error("{message}")]
    Sandbox { code: &'static str, message: String },
}

pub type Result<T> = std::result::Result<T, Problem>;

impl Problem {
    pub fn field(path: &[&str], message: impl Into<String>) -> Problem {
        Problem::Field { path: path.iter().map(ToString::to_string).collect(), message: message.into() }
    }

    pub fn sandbox(code: &'static str, message: impl Into<String>) -> Problem {
        Problem::Sandbox { code, message: message.into() }
    }
}

/// A part of a stranger's text, short enough for a message.
fn shorten(text: &str) -> String {
    const SHOWN_CHARACTERS: usize = 120;
    match text.char_indices().nth(SHOWN_CHARACTERS) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_string(),
    }
}
