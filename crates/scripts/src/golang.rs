//! Go has no names of parameters once it runs: they are read from the source, and `package main` becomes the package
//! that Windmill calls `inner`, for Go's own main takes nothing.

use crate::{Language, ScriptError};

/// The source as a package that can be imported, the function to call, and its parameters' names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prepared {
    pub source: String,
    pub function: &'static str,
    pub names: Vec<String>,
}

pub fn prepare(source: &str) -> Result<Prepared, ScriptError> {
    let bare = blanked(source);
    let (function, list) = ["main", "Main"]
        .into_iter()
        .find_map(|name| Some((name, parameter_list(&bare, name)?)))
        .ok_or(ScriptError::NoMain { language: Language::Go })?;
    Ok(Prepared { source: renamed(source, &bare), function, names: names(list) })
}

/// Comments and strings as spaces, so that every byte keeps its place.
fn blanked(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut bare = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let end = match bytes[at] {
            b'/' if bytes[at..].starts_with(b"//") => find(bytes, at, b"\n"),
            b'/' if bytes[at..].starts_with(b"/*") => find(bytes, at + 2, b"*/") + 2,
            b'`' => find(bytes, at + 1, b"`") + 1,
            quote @ (b'"' | b'\'') => {
                let mut end = at + 1;
                while end < bytes.len() && bytes[end] != quote && bytes[end] != b'\n' {
                    end += if bytes[end] == b'\\' { 2 } else { 1 };
                }
                end + 1
            }
            _ => {
                at += 1;
                continue;
            }
        };
        let end = end.min(bytes.len());
        bare[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    String::from_utf8_lossy(&bare).into_owned()
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> usize {
    let from = from.min(bytes.len());
    bytes[from..].windows(what.len()).position(|window| window == what).map_or(bytes.len(), |at| from + at)
}

/// The text between the brackets of `func NAME(`.
fn parameter_list<'a>(bare: &'a str, name: &str) -> Option<&'a str> {
    for line in bare.split_inclusive('\n') {
        let Some(rest) = line.strip_prefix("func ") else { continue };
        let Some(rest) = rest.trim_start().strip_prefix(name) else { continue };
        let Some(rest) = rest.trim_start().strip_prefix('(') else { continue };
        let start = rest.as_ptr() as usize - bare.as_ptr() as usize;
        let mut depth = 1;
        for (at, sign) in bare[start..].char_indices() {
            match sign {
                '(' | '[' | '{' => depth += 1,
                ')' | ']' | '}' => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return Some(&bare[start..start + at]);
            }
        }
    }
    None
}

/// `a string, b, c int, d struct { X int }`: the first word of each piece.
fn names(list: &str) -> Vec<String> {
    let mut depth = 0;
    let pieces = list.split(|sign: char| {
        match sign {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            _ => {}
        }
        sign == ',' && depth == 0
    });
    pieces.filter_map(|piece| piece.split_whitespace().next()).map(str::to_string).collect()
}

fn renamed(source: &str, bare: &str) -> String {
    for line in bare.split_inclusive('\n') {
        if let Some(rest) = line.strip_prefix("package ") {
            let name = rest.trim();
            let start = line.as_ptr() as usize - bare.as_ptr() as usize + line.find(name).unwrap_or(0);
            if !name.is_empty() && source.is_char_boundary(start) && source[start..].starts_with(name) {
                return format!("{}inner{}", &source[..start], &source[start + name.len()..]);
            }
        }
    }
    // Lines keep their numbers.
    format!("package inner; {source}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_names_of_parameters_and_the_package() {
        let source = "// package x\npackage main\n\n/* func main(no int) */\nimport \"fmt\"\n\n\
            func main(a string, b, c int, d struct{ X, Y int `json:\"x\"` }, e func(int, int) error, f ...string) (interface{}, error) {\n\
            \tfmt.Println(\"func main(no int)\")\n\treturn nil, nil\n}\n";
        let prepared = prepare(source).unwrap();
        assert_eq!(prepared.names, ["a", "b", "c", "d", "e", "f"]);
        assert_eq!(prepared.function, "main");
        assert!(prepared.source.starts_with("// package x\npackage inner\n\n/*"), "{}", prepared.source);
        assert_eq!(prepared.source.lines().count(), source.lines().count());
        let prepared = prepare("package inner\nfunc Main() error { return nil }\n").unwrap();
        assert_eq!((prepared.function, prepared.names.len()), ("Main", 0));
        assert_eq!(prepare("func main() {}").unwrap().source, "package inner; func main() {}");
    }

    #[test]
    fn a_script_without_main_is_refused() {
        for source in [
            "",
            "package inner",
            "package inner\nfunc other() {}",
            "// func main() {}",
            "func main(",
            "\"",
            "/*",
            "'\\",
        ] {
            assert_eq!(prepare(source).unwrap_err().code(), "no_main", "{source}");
        }
    }
}
