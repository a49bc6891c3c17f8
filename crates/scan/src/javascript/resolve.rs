//! The meaning of an expression, and the names that declarations bind.

use super::{modules, tables};
use crate::names::{Names, below};
use crate::rules::Rules;
use crate::text;
use crate::tree::{Step, children, field};
use tree_sitter::Node;

/// The most members, parentheses and casts in a row.
const LONGEST_CHAIN: usize = 10;

/// Paths from modules or the global object down; empty if the expression is something else, or cannot be told.
pub fn paths(node: Node, code: &str, rules: &Rules, names: &Names) -> Vec<String> {
    let mut parts: Vec<String> = Vec::new();
    let mut node = node;
    for _ in 0..LONGEST_CHAIN {
        match node.kind() {
            "member_expression" | "subscript_expression" => {
                let Some(part) = last_part(node, code) else { break };
                // The default export of a module of Node is the whole module.
                if part != "default" {
                    parts.push(part);
                }
                match field(node, "object") {
                    Some(object) => node = object,
                    None => break,
                }
            }
            "parenthesized_expression"
            | "await_expression"
            | "as_expression"
            | "satisfies_expression"
            | "non_null_expression" => match node.named_child(0) {
                Some(inner) => node = inner,
                None => break,
            },
            "identifier" | "shorthand_property_identifier" => {
                parts.reverse();
                let named = named(&text::javascript_identifier(node, code), rules, names);
                return below(named, &parts).into_iter().map(unwrapped).collect();
            }
            "call_expression" => {
                parts.reverse();
                let module = modules::called_module(node, code, names);
                return below(module.into_iter().collect(), &parts);
            }
            _ => break,
        }
    }
    Vec::new()
}

/// The requested member, if its name is written in the code.
pub fn last_part(node: Node, code: &str) -> Option<String> {
    match node.kind() {
        "member_expression" => Some(text::javascript_identifier(field(node, "property")?, code)),
        "subscript_expression" => {
            let index = text::javascript(field(node, "index")?, code)?;
            index.whole.then_some(index.value)
        }
        _ => None,
    }
}

fn named(name: &str, rules: &Rules, names: &Names) -> Vec<String> {
    let mut paths = names.meanings(name).to_vec();
    if tables::GLOBAL_OBJECTS.contains(&name) {
        paths.push("globalThis".to_string());
    } else if tables::GLOBALS.contains(&name) {
        // A binding of that name elsewhere does not make this one harmless.
        paths.push(format!("globalThis.{name}"));
    } else if !names.is_bound(name) && rules.has_root(name) {
        // An earlier call may have imported it.
        paths.push(name.to_string());
    }
    paths
}

/// `globalThis.window.eval` is `globalThis.eval`.
fn unwrapped(path: String) -> String {
    let mut path = path;
    while let Some(rest) = path.strip_prefix("globalThis.") {
        let (first, more) = rest.split_once('.').unwrap_or((rest, ""));
        if !tables::GLOBAL_OBJECTS.contains(&first) {
            break;
        }
        path = if more.is_empty() { "globalThis".to_string() } else { format!("globalThis.{more}") };
    }
    path
}

pub fn bind(step: &Step, code: &str, rules: &Rules, names: &mut Names) {
    let node = step.node;
    match node.kind() {
        "import_statement" | "import_require_clause" => modules::bind(node, code, rules, names),
        "variable_declarator" | "assignment_expression" | "assignment_pattern" => {
            let target = field(node, "name").or(field(node, "left"));
            let value = field(node, "value").or(field(node, "right"));
            let (Some(target), Some(value)) = (target, value) else { return };
            for path in paths(value, code, rules, names) {
                bind_pattern(target, &path, code, rules, names);
            }
        }
        "identifier" | "shorthand_property_identifier_pattern" => {
            let declared = matches!(
                (step.parent, step.field),
                ("variable_declarator" | "function_declaration" | "class_declaration", Some("name"))
                    | ("formal_parameters" | "array_pattern" | "rest_pattern" | "object_pattern", _)
                    | (_, Some("parameter" | "pattern"))
                    | ("for_in_statement", Some("left"))
            );
            if declared {
                names.bind(&text::javascript_identifier(node, code));
            }
        }
        _ => {}
    }
}

/// `fs`, or `{ readFile, open: o }`.
fn bind_pattern(target: Node, path: &str, code: &str, rules: &Rules, names: &mut Names) {
    match target.kind() {
        "identifier" => names.stands_for(&text::javascript_identifier(target, code), path, rules),
        "object_pattern" => children(target, |part, _| {
            let (key, value) = match part.kind() {
                "shorthand_property_identifier_pattern" => (Some(part), Some(part)),
                "pair_pattern" => (field(part, "key"), field(part, "value")),
                "object_assignment_pattern" => (field(part, "left"), field(part, "left")),
                _ => return,
            };
            let (Some(key), Some(value)) = (key, value) else { return };
            let key = match text::javascript(key, code) {
                Some(literal) => literal.value,
                None => text::javascript_identifier(key, code),
            };
            let path = if key == "default" { path.to_string() } else { format!("{path}.{key}") };
            names.stands_for(&text::javascript_identifier(value, code), &unwrapped(path), rules);
        }),
        _ => {}
    }
}
