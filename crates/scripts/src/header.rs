//! The lines of a script that are annotations. A script begins with its header: comments and empty lines, up to the
//! first line that is neither. Prose there is left alone. A line that was meant as an annotation and is none is an
//! error: the script would run without the fence or the memory that its author counted on.

use crate::annotation::{AnnotationError, Key};
use paddock_model::{BACKEND_NAMES, Requirement, parse_bytes, parse_duration};

/// One comment of the header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line<'a> {
    pub number: u32,
    pub text: &'a str,
}

/// The kind of a line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class<'a> {
    Annotation(Key, &'a str),
    Comment,
    Wrong(AnnotationError),
}

/// The comments of the header, and the number of the first line below it.
pub fn lines<'a>(source: &'a str, comment: &str) -> (Vec<Line<'a>>, u32) {
    let mut found = Vec::new();
    let mut number = 0;
    for text in source.trim_start_matches('\u{feff}').lines() {
        number += 1;
        let text = text.trim();
        if text.is_empty() || (number == 1 && text.starts_with("#!")) {
            continue;
        }
        match text.strip_prefix(comment) {
            Some(text) => found.push(Line { number, text: text.trim() }),
            None => return (found, number),
        }
    }
    (found, number + 1)
}

pub fn classify(text: &str) -> Class<'_> {
    let (first, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    if let Some(class) = sandbox(first, rest) {
        return class;
    }
    let Some((word, value)) = text.split_once(':') else { return without_colon(first, rest) };
    let (name, value) = (word.trim_end(), value.trim());
    if name.is_empty() || name.contains(char::is_whitespace) {
        return without_colon(first, rest);
    }
    let lower = name.to_ascii_lowercase();
    let exact = Key::WITH_VALUE.into_iter().find(|key| key.name() == lower);
    match exact {
        Some(key) if name == lower && word == name => Class::Annotation(key, value),
        // `Memory: 512MiB` was meant; `Memory: keep it small` is prose.
        Some(key) if name != lower && !is_value(key, value) => Class::Comment,
        Some(key) => Class::Wrong(AnnotationError::Misspelt { found: short(word), meant: key.name() }),
        None if name != lower => Class::Comment,
        None => match meant(&lower) {
            Some(key) => Class::Wrong(AnnotationError::Misspelt { found: short(name), meant: key.name() }),
            None => Class::Comment,
        },
    }
}

/// `word: value` that touches an annotation, with a word that no comment begins with, and no sentence behind it.
pub fn unknown_key(text: &str) -> Option<&str> {
    let (word, rest) = text.split_once(':')?;
    let shaped = (2..=30).contains(&word.len())
        && word.bytes().all(|b| b.is_ascii_lowercase() || matches!(b, b'_' | b'-'))
        && (rest.is_empty() || rest.starts_with(' '))
        && (1..=2).contains(&rest.split_whitespace().count());
    (shaped && !ORDINARY.contains(&word)).then_some(word)
}

/// An annotation below the header, where it has no effect: only in the exact forms, for code has comments too.
pub fn is_below(text: &str, comment: &str) -> bool {
    let Some(text) = text.strip_prefix(comment).map(str::trim) else { return false };
    match text.strip_prefix("volume:") {
        Some(value) => is_value(Key::Volume, value.trim()),
        None => text == "sandbox",
    }
}

/// `sandbox`, `sandbox IMAGE`, and similar lines.
fn sandbox<'a>(first: &'a str, rest: &'a str) -> Option<Class<'a>> {
    let (word, setting) = match first.split_once(['=', ':']) {
        Some((word, _)) => (word, &first[word.len()..]),
        None => (first, ""),
    };
    let misspelt = || Class::Wrong(AnnotationError::Misspelt { found: short(word), meant: "sandbox" });
    if word == "sandbox" {
        return Some(match setting.strip_prefix('=').map(str::trim) {
            // `sandbox = false` too.
            None if rest.starts_with('=') => switch(rest.trim_start_matches('=').trim()),
            None if setting.starts_with(':') => {
                Class::Wrong(AnnotationError::SandboxColon(short(&setting[1..])))
            }
            None => Class::Annotation(Key::Sandbox, rest),
            Some(_) if !rest.is_empty() => Class::Wrong(AnnotationError::SandboxValue(short(rest))),
            Some(value) => switch(value),
        });
    }
    let lower = word.to_ascii_lowercase();
    let near = lower == "sandbox" || is_near(&lower, "sandbox") || lower == "sandboxed";
    let alone = rest.is_empty() && !setting.starts_with(':');
    let image = !rest.is_empty() && !rest.contains(char::is_whitespace);
    let meant = near && (alone || (image && (word == lower || rest.contains([':', '/']))));
    meant.then(misspelt)
}

fn switch(value: &str) -> Class<'_> {
    match value {
        "true" | "" => Class::Annotation(Key::Sandbox, ""),
        "false" | "no" | "off" | "0" => Class::Wrong(AnnotationError::SandboxOff(short(value))),
        _ => Class::Wrong(AnnotationError::SandboxValue(short(value))),
    }
}

/// A key whose colon was forgotten: `volume NAME PATH`, `memory 512MiB`.
fn without_colon<'a>(first: &str, rest: &str) -> Class<'a> {
    let key = Key::WITH_VALUE.into_iter().find(|key| key.name() == first);
    match key.filter(|key| is_value(*key, rest)) {
        Some(key) => Class::Wrong(AnnotationError::NoColon { key: key.name(), rest: short(rest) }),
        None => Class::Comment,
    }
}

/// True if it can be meant as this key's value, and not as the rest of a sentence.
fn is_value(key: Key, value: &str) -> bool {
    let words = value.split_whitespace().count();
    match key {
        Key::Sandbox => false,
        Key::Volume => words == 2,
        Key::Memory => parse_bytes(value).is_ok(),
        Key::Timeout => parse_duration(value).is_ok(),
        Key::Cpus => value.parse::<f64>().is_ok(),
        Key::Net => words == 1 && (value == "none" || value.contains(['.', ':'])),
        Key::Secret => words == 1 && value.contains('@'),
        Key::Backend => BACKEND_NAMES.contains(&value),
        Key::Require => value.parse::<Requirement>().is_ok(),
    }
}

fn meant(word: &str) -> Option<Key> {
    let synonym = SYNONYMS.iter().find(|(name, _)| *name == word).map(|(_, key)| *key);
    synonym.or_else(|| Key::WITH_VALUE.into_iter().find(|key| is_near(word, key.name())))
}

/// One letter too many, too few or wrong, or two in the wrong order. Not for words of three letters, where that is
/// another word.
fn is_near(word: &str, key: &str) -> bool {
    key.len() > 3 && strsim::damerau_levenshtein(word, key) == 1
}

fn short(text: &str) -> String {
    crate::error::shown(text)
}

const SYNONYMS: [(&str, Key); 12] = [
    ("vol", Key::Volume),
    ("mount", Key::Volume),
    ("nets", Key::Net),
    ("network", Key::Net),
    ("allow-net", Key::Net),
    ("allow_net", Key::Net),
    ("mem", Key::Memory),
    ("memory-limit", Key::Memory),
    ("memory_limit", Key::Memory),
    ("time-limit", Key::Timeout),
    ("time_limit", Key::Timeout),
    ("requirement", Key::Require),
];

/// Words that begin comments of other people and other tools.
const ORDINARY: &[&str] = &[
    "author",
    "authors",
    "by",
    "copyright",
    "coding",
    "created",
    "date",
    "description",
    "encoding",
    "eslint",
    "example",
    "examples",
    "extra_requirements",
    "fixme",
    "flake",
    "for",
    "go",
    "hack",
    "hint",
    "http",
    "https",
    "input",
    "inputs",
    "isort",
    "jshint",
    "licence",
    "license",
    "links",
    "maintainer",
    "memo",
    "mypy",
    "name",
    "needs",
    "next",
    "noqa",
    "note",
    "notes",
    "npm",
    "output",
    "outputs",
    "purpose",
    "pylint",
    "pyright",
    "requirements",
    "result",
    "returns",
    "rubocop",
    "ruff",
    "see",
    "shellcheck",
    "source",
    "status",
    "summary",
    "tags",
    "title",
    "todo",
    "ts",
    "type",
    "update",
    "updated",
    "usage",
    "version",
    "vim",
    "warning",
    "xxx",
];
