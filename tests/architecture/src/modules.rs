//! The modules of a crate, and which of them import which, read from the source.

use super::rust_files;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// A module by its path in the crate; the crate itself is the empty one.
pub type Module = Vec<String>;

/// For each module of the crate whose sources lie in `source`, the modules that it imports or names. Tests are left out.
pub fn imports(source: &Path) -> BTreeMap<Module, BTreeSet<Module>> {
    let files: BTreeMap<Module, String> = rust_files(source)
        .iter()
        .map(|path| (name_of(path.strip_prefix(source).unwrap()), std::fs::read_to_string(path).unwrap()))
        .collect();
    let known: BTreeSet<Module> = files.keys().cloned().collect();
    files.iter().map(|(module, text)| (module.clone(), imports_of(module, text, &known))).collect()
}

/// The circles among the children of one module: an import of a child's child counts as one of the child.
pub fn circles(imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<Module>> {
    let folders: BTreeSet<Module> =
        imports.keys().flat_map(|module| (0..module.len()).map(|depth| module[..depth].to_vec())).collect();
    folders.iter().flat_map(|folder| circles_in(folder, imports)).collect()
}

fn circles_in(folder: &Module, imports: &BTreeMap<Module, BTreeSet<Module>>) -> Vec<Vec<Module>> {
    let child = |module: &Module| {
        (module.len() > folder.len() && module.starts_with(folder)).then(|| module[..=folder.len()].to_vec())
    };
    let mut arrows: BTreeMap<Module, BTreeSet<Module>> = BTreeMap::new();
    for (module, imported) in imports {
        let Some(from) = child(module) else { continue };
        let others = imported.iter().filter_map(&child).filter(|to| *to != from);
        arrows.entry(from.clone()).or_default().extend(others);
    }
    let reach: BTreeMap<&Module, BTreeSet<&Module>> =
        arrows.keys().map(|module| (module, reachable(module, &arrows))).collect();
    let mut found: BTreeSet<Vec<Module>> = BTreeSet::new();
    for module in arrows.keys().filter(|module| reach[module].contains(module)) {
        let circle =
            arrows.keys().filter(|other| reach[module].contains(other) && reach[other].contains(module));
        found.insert(circle.cloned().collect());
    }
    found.into_iter().collect()
}

fn reachable<'a>(from: &Module, arrows: &'a BTreeMap<Module, BTreeSet<Module>>) -> BTreeSet<&'a Module> {
    let mut seen = BTreeSet::new();
    let mut waiting: Vec<&Module> = arrows[from].iter().collect();
    while let Some(module) = waiting.pop() {
        if arrows.contains_key(module) && seen.insert(module) {
            waiting.extend(&arrows[module]);
        }
    }
    seen
}

fn name_of(path: &Path) -> Module {
    let mut parts: Module =
        path.with_extension("").iter().map(|part| part.to_str().unwrap().to_string()).collect();
    if parts.last().is_some_and(|last| last == "mod") || parts == ["lib"] || parts == ["main"] {
        parts.pop();
    }
    parts
}

fn imports_of(module: &Module, text: &str, known: &BTreeSet<Module>) -> BTreeSet<Module> {
    let text = without_comments_and_tests(text);
    let mut paths = Vec::new();
    let mut rest = String::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(begun) = use_of(line) else {
            rest.push_str(line);
            rest.push('\n');
            continue;
        };
        let mut statement = begun.to_string();
        while !statement.contains(';') {
            let Some(more) = lines.next() else { break };
            statement.push_str(more.trim());
        }
        expand("", statement.split(';').next().unwrap_or_default(), &mut paths);
    }
    // Paths in the code itself: `crate::a::b`, `super::a`, and `a::b` of a child.
    let is_path = |character: char| character.is_alphanumeric() || character == '_' || character == ':';
    paths.extend(rest.split(|c| !is_path(c)).filter(|word| word.contains("::")).map(String::from));
    let found = paths.iter().filter_map(|path| resolve(module, path, known));
    found.filter(|found| found != module).collect()
}

fn use_of(line: &str) -> Option<&str> {
    let line = line.trim();
    ["use ", "pub use ", "pub(crate) use ", "pub(super) use "]
        .iter()
        .find_map(|start| line.strip_prefix(start))
}

/// `a::{b, c::{d}}` is `a::b` and `a::c::d`.
fn expand(before: &str, text: &str, paths: &mut Vec<String>) {
    let text = text.trim();
    let Some(open) = text.find('{') else {
        let path = text.split(" as ").next().unwrap_or_default();
        paths.push(format!("{before}{path}"));
        return;
    };
    let before = format!("{before}{}", &text[..open]);
    let inner = text[open + 1..].rsplit_once('}').map_or(&text[open + 1..], |(inner, _)| inner);
    let (mut depth, mut from) = (0, 0);
    for (at, character) in inner.char_indices() {
        match character {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                expand(&before, &inner[from..at], paths);
                from = at + 1;
            }
            _ => {}
        }
    }
    expand(&before, &inner[from..], paths);
}

/// The deepest module that a path leads to. `None` for a path to another crate.
fn resolve(module: &Module, path: &str, known: &BTreeSet<Module>) -> Option<Module> {
    let parts: Vec<&str> = path.split("::").filter(|part| !part.is_empty()).collect();
    let mut found: Module = match *parts.first()? {
        "crate" => Vec::new(),
        "self" | "super" => module.clone(),
        first => {
            let child: Module = module.iter().cloned().chain([first.to_string()]).collect();
            return known.contains(&child).then(|| deepest(child, &parts[1..], known));
        }
    };
    let mut rest = &parts[..];
    while let Some(first) = rest.first().filter(|part| ["crate", "self", "super"].contains(part)) {
        if *first == "super" {
            found.pop()?;
        }
        rest = &rest[1..];
    }
    Some(deepest(found, rest, known))
}

fn deepest(mut module: Module, parts: &[&str], known: &BTreeSet<Module>) -> Module {
    for part in parts {
        module.push((*part).to_string());
        if !known.contains(&module) {
            module.pop();
            break;
        }
    }
    module
}

/// The code of a file, without its comments and its tests.
pub fn without_comments_and_tests(text: &str) -> String {
    let code: Vec<&str> = text.lines().map(|line| line.split("//").next().unwrap_or_default()).collect();
    let mut kept = String::new();
    let mut lines = code.iter().peekable();
    while let Some(line) = lines.next() {
        if line.trim().starts_with("#[cfg(test)]") {
            // A module of tests is the end of its file; an import of tests is one line.
            if lines.next().is_some_and(|next| next.contains("mod ") && next.trim_end().ends_with('{')) {
                break;
            }
            continue;
        }
        kept.push_str(line);
        kept.push('\n');
    }
    kept
}
