//! The program that runs a language, and the template that has it: for a script whose sandbox does not.

use crate::Language;
use crate::outcome::Failure;

/// The exit code of a shell that does not find its program, and of the guest.
pub const NOT_FOUND: i32 = 127;

impl Language {
    /// The program that has to be in the template or the image.
    pub fn interpreter(self) -> &'static str {
        match self {
            Language::Python => "python3",
            Language::TypeScript | Language::JavaScript => "node",
            Language::Bun => "bun",
            Language::Deno => "deno",
            Language::Bash => "sh",
            Language::Go => "go",
            Language::Ruby => "ruby",
        }
    }

    /// The build file that comes with Paddock and has the interpreter.
    pub fn template(self) -> &'static str {
        match self {
            Language::Python | Language::TypeScript | Language::JavaScript => "code-interpreter",
            Language::Bun => "bun",
            Language::Deno => "deno",
            Language::Bash => "minimal",
            Language::Go => "go",
            Language::Ruby => "ruby",
        }
    }
}

/// Why a script was not begun. The command is not shown: it is the wrapper, which the author has not written.
///
/// `detail`: the guest's message.
pub fn not_started(language: Language, exit_code: i32, detail: &str) -> Failure {
    let program = language.interpreter();
    if exit_code != NOT_FOUND {
        let message =
            format!("`{program}` cannot be executed inside the sandbox: {}", crate::error::shown(detail));
        return Failure::new("interpreter_missing", message);
    }
    let message = format!("there is no `{program}` inside the sandbox, and it runs scripts in {language}");
    let template = language.template();
    let hint = match template {
        // A template of this name always exists, and shows the host's own programs.
        "code-interpreter" => format!("`paddock template build {template}` makes a template that has it"),
        _ => format!(
            "--template {template} has it: it comes with Paddock, and is built when it is asked for first"
        ),
    };
    Failure { hint: Some(hint), ..Failure::new("interpreter_missing", message) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_language_says_what_it_needs_and_where_it_is() {
        for language in Language::ALL {
            let failure = not_started(language, NOT_FOUND, "No such file or directory");
            assert_eq!(failure.code, "interpreter_missing");
            assert!(failure.message.contains(&format!("`{}`", language.interpreter())), "{failure}");
            assert!(failure.hint.unwrap().contains(language.template()));
        }
        let failure = not_started(Language::Bun, 126, "Permission denied");
        assert_eq!(failure.message, "`bun` cannot be executed inside the sandbox: Permission denied");
    }
}
