//! The meaning of an expression: `s` after `import subprocess as s`, `os.system`, `getattr(os, "system")`.

use super::tables;
use crate::names::{Names, below};
use crate::rules::Rules;
use crate::text;
use crate::tree::field;
use tree_sitter::Node;

/// The most attributes in a row.
const LONGEST_CHAIN: usize = 8;
/// The most calls within calls.
const DEEPEST: usize = 4;

/// Paths from modules down; empty if the expression is something else, or cannot be told.
pub fn paths(node: Node, code: &str, rules: &Rules, names: &Names) -> Vec<String> {
    within(node, code, rules, names, DEEPEST)
}

fn within(mut node: Node, code: &str, rules: &Rules, names: &Names, depth: usize) -> Vec<String> {
    // The parts come from the last attribute to the first.
    let mut parts: Vec<String> = Vec::new();
    for _ in 0..LONGEST_CHAIN {
        match node.kind() {
            "attribute" => {
                let (Some(object), Some(name)) = (field(node, "object"), field(node, "attribute")) else {
                    break;
                };
                let name = text::python_identifier(name, code);
                // A module's dictionary has the same names as the module.
                if name != "__dict__" {
                    parts.push(name);
                }
                node = object;
            }
            "subscript" => {
                let (Some(value), Some(key)) = (field(node, "value"), field(node, "subscript")) else {
                    break;
                };
                let Some(key) = text::python(key, code).filter(|key| key.whole) else { break };
                parts.push(key.value);
                node = value;
            }
            "parenthesized_expression" => match node.named_child(0) {
                Some(inner) => node = inner,
                None => break,
            },
            "identifier" => {
                parts.reverse();
                return below(named(&text::python_identifier(node, code), rules, names), &parts)
                    .into_iter()
                    .map(unwrapped)
                    .collect();
            }
            "call" if depth > 0 => {
                parts.reverse();
                return below(called(node, code, rules, names, depth - 1), &parts);
            }
            _ => break,
        }
    }
    Vec::new()
}

fn named(name: &str, rules: &Rules, names: &Names) -> Vec<String> {
    let mut paths = names.meanings(name).to_vec();
    if tables::BUILTINS.contains(&name) {
        paths.push(format!("builtins.{name}"));
    } else if !names.is_bound(name) && rules.has_root(name) {
        // An earlier call may have imported it.
        paths.push(name.to_string());
    }
    paths
}

/// The result of a call, if the call only fetches something by its name.
fn called(node: Node, code: &str, rules: &Rules, names: &Names, depth: usize) -> Vec<String> {
    let (Some(function), Some(arguments)) = (field(node, "function"), field(node, "arguments")) else {
        return Vec::new();
    };
    let literal = |index| {
        let argument = arguments.named_child(index)?;
        text::python(argument, code).filter(|literal| literal.whole).map(|literal| literal.value)
    };
    let mut results = Vec::new();
    for path in within(function, code, rules, names, depth) {
        match path.as_str() {
            "builtins.__import__" | "importlib.import_module" => results.extend(literal(0)),
            "builtins.getattr" | "builtins.vars" => {
                let Some(object) = arguments.named_child(0) else { continue };
                let of = within(object, code, rules, names, depth);
                let part: Vec<String> = literal(1).into_iter().collect();
                if path == "builtins.vars" || !part.is_empty() {
                    results.extend(below(of, &part).into_iter().map(unwrapped));
                }
            }
            _ => {}
        }
    }
    results
}

/// `sys.modules["os"]` is `os`, and `__builtins__.eval` is `eval`.
fn unwrapped(path: String) -> String {
    let rest = path.strip_prefix("sys.modules.").map(str::to_string);
    rest.or_else(|| path.strip_prefix("builtins.__builtins__.").map(|rest| format!("builtins.{rest}")))
        .unwrap_or(path)
}
