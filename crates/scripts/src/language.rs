//! The language of a script, and the program that runs it.

use crate::ScriptError;
use serde::{Deserialize, Serialize};
use std::path::Path;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    Python,
    /// By Node.
    TypeScript,
    /// By Node.
    JavaScript,
    /// TypeScript or JavaScript by Bun.
    Bun,
    /// TypeScript or JavaScript by Deno.
    Deno,
    Bash,
    Go,
    Ruby,
}

impl Language {
    pub const ALL: [Language; 8] = [
        Language::Python,
        Language::TypeScript,
        Language::JavaScript,
        Language::Bun,
        Language::Deno,
        Language::Bash,
        Language::Go,
        Language::Ruby,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Language::Python => "python",
            Language::TypeScript => "typescript",
            Language::JavaScript => "javascript",
            Language::Bun => "bun",
            Language::Deno => "deno",
            Language::Bash => "bash",
            Language::Go => "go",
            Language::Ruby => "ruby",
        }
    }

    /// The beginning of a comment, and with it of an annotation.
    pub fn comment(self) -> &'static str {
        match self {
            Language::Python | Language::Bash | Language::Ruby => "#",
            _ => "//",
        }
    }

    /// By the file's name; `x.bun.ts` and `x.deno.ts` name their runtime, as Windmill's files do.
    pub fn of_file(path: &Path) -> Result<Language, ScriptError> {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let mut parts = name.rsplit('.');
        let extension = parts.next().unwrap_or_default();
        let before = parts.next().filter(|_| parts.next().is_some());
        match (extension, before) {
            ("ts" | "mts" | "js" | "mjs" | "cjs", Some("bun")) => Ok(Language::Bun),
            ("ts" | "mts" | "js" | "mjs" | "cjs", Some("deno")) => Ok(Language::Deno),
            ("ts" | "mts", _) => Ok(Language::TypeScript),
            ("js" | "mjs" | "cjs", _) => Ok(Language::JavaScript),
            ("py", _) => Ok(Language::Python),
            ("sh" | "bash", _) => Ok(Language::Bash),
            ("go", _) => Ok(Language::Go),
            ("rb", _) => Ok(Language::Ruby),
            _ => Err(ScriptError::UnknownFile(crate::error::shown(name))),
        }
    }
}

impl std::fmt::Display for Language {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}

impl std::str::FromStr for Language {
    type Err = ScriptError;

    /// Its name here, or at Windmill.
    fn from_str(text: &str) -> Result<Language, ScriptError> {
        let wanted = match text {
            "python3" | "py" => "python",
            "ts" | "nativets" => "typescript",
            "js" | "node" | "nodejs" => "javascript",
            "sh" => "bash",
            other => other,
        };
        let known = Language::ALL.into_iter().find(|language| language.name() == wanted);
        known.ok_or_else(|| ScriptError::UnknownLanguage(crate::error::shown(text)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_its_language() {
        for (name, language) in [
            ("a.py", Language::Python),
            ("f/a.ts", Language::TypeScript),
            ("a.b.js", Language::JavaScript),
            ("a.bun.ts", Language::Bun),
            ("a.deno.ts", Language::Deno),
            ("bun.ts", Language::TypeScript),
            ("a.sh", Language::Bash),
            ("a.go", Language::Go),
            ("a.rb", Language::Ruby),
        ] {
            assert_eq!(Language::of_file(Path::new(name)).unwrap(), language, "{name}");
        }
        for bad in ["a", "a.txt", "", "/"] {
            assert_eq!(Language::of_file(Path::new(bad)).unwrap_err().code(), "unknown_language");
        }
    }

    #[test]
    fn names_round_trip_also_in_json() {
        for language in Language::ALL {
            assert_eq!(language.name().parse::<Language>().unwrap(), language);
            let json = serde_json::to_value(language).unwrap();
            assert_eq!(json, language.name());
        }
        assert_eq!("python3".parse::<Language>().unwrap(), Language::Python);
        "perl".parse::<Language>().unwrap_err();
    }
}
