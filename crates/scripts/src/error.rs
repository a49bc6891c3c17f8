//! Mistakes in a script before it runs: a stable code, its line where it has one, words, and a remedy.

use crate::annotation::AnnotationError;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScriptError {
    #[error("`{0}` does not say its language")]
    UnknownFile(String),
    #[error("language `{0}` is not known")]
    UnknownLanguage(String),
    #[error("the script is no text: it is not UTF-8")]
    NotText,
    #[error("the script has {0} bytes, and {most} are the most", most = crate::LARGEST_SOURCE)]
    TooLarge(usize),
    #[error("the script has nothing but its header")]
    Empty,
    #[error("the script has no function main")]
    NoMain { language: crate::Language },
    #[error("line {line}: {error}")]
    Annotation { line: u32, error: AnnotationError },
    #[error("the arguments are no JSON: {0}")]
    ArgumentsNotJson(String),
    #[error("the arguments are {0}, and have to be one JSON object")]
    ArgumentsNotAnObject(&'static str),
    #[error("the arguments have {0} bytes, and {most} are the most", most = crate::LARGEST_ARGUMENTS)]
    ArgumentsTooLarge(usize),
    #[error("argument `{name}`: `{value}` is not to be had")]
    Reference { name: String, value: String },
    #[error("there is no resource `{0}`")]
    NoResource(String),
    #[error("resource `{name}` has no `{field}`")]
    NoField { name: String, field: String },
    #[error("resource `{name}` is {found}, and is asked for as text")]
    NotAText { name: String, found: &'static str },
    #[error(
        "`{value}` of resource `{name}` is bound to hosts, and bash gets objects as text: it would have no place in it"
    )]
    BoundInText { name: String, value: String },
    #[error("main has no parameter `{name}`; its parameters are: {known}")]
    UnknownArgument { name: String, known: String },
    #[error("argument `{name}` is missing; main's parameters are: {known}")]
    MissingArgument { name: String, known: String },
}

impl ScriptError {
    /// Stable, for programs.
    pub fn code(&self) -> &'static str {
        match self {
            ScriptError::UnknownFile(_) | ScriptError::UnknownLanguage(_) => "unknown_language",
            ScriptError::NotText | ScriptError::TooLarge(_) | ScriptError::Empty => "bad_script",
            ScriptError::NoMain { .. } => "no_main",
            ScriptError::Annotation { .. } => "bad_annotation",
            ScriptError::ArgumentsNotJson(_)
            | ScriptError::ArgumentsNotAnObject(_)
            | ScriptError::ArgumentsTooLarge(_)
            | ScriptError::Reference { .. } => "bad_arguments",
            ScriptError::NoResource(_) => "resource_not_found",
            ScriptError::NoField { .. } | ScriptError::NotAText { .. } | ScriptError::BoundInText { .. } => {
                "bad_resource"
            }
            ScriptError::UnknownArgument { .. } | ScriptError::MissingArgument { .. } => {
                "arguments_do_not_fit"
            }
        }
    }

    pub fn line(&self) -> Option<u32> {
        match self {
            ScriptError::Annotation { line, .. } => Some(*line),
            _ => None,
        }
    }

    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            ScriptError::UnknownFile(_) => {
                "name it .py, .ts, .js, .bun.ts, .deno.ts, .sh, .go or .rb, or say its language"
            }
            ScriptError::UnknownLanguage(_) => {
                "known are python, typescript, javascript, bun, deno, bash, go and ruby"
            }
            ScriptError::TooLarge(_) => "put data into a volume, and read it from there",
            ScriptError::Empty => "`paddock run --image IMAGE` runs the command that an image has",
            ScriptError::NoMain { language } => return Some(crate::runners::main_hint(*language)),
            ScriptError::Annotation { error, .. } => return error.hint(),
            ScriptError::ArgumentsNotJson(_) | ScriptError::ArgumentsNotAnObject(_) => {
                "write them as in --args '{\"name\": \"value\"}'"
            }
            ScriptError::ArgumentsTooLarge(_) => "put what is large into a volume, and name it",
            ScriptError::Reference { .. } => "write $res:NAME, $res:NAME.FIELD or $var:NAME",
            ScriptError::NoResource(_) => {
                "`paddock resource ls` lists those there are; `paddock resource set` makes one"
            }
            ScriptError::NoField { .. } => "`paddock resource get` shows what it has",
            ScriptError::NotAText { .. } => "write $res:NAME.FIELD for a part of it",
            ScriptError::BoundInText { .. } => "pass that field alone: $res:NAME.FIELD",
            _ => return None,
        };
        Some(hint.into())
    }
}

/// A stranger's words in a message: not longer than a line, nothing that moves a terminal's cursor.
pub(crate) fn shown(text: &str) -> String {
    text.chars().take(120).collect::<String>().escape_debug().to_string()
}
