//! Import and export statements, `require` and `import()`.

use super::{Scanner, resolve, tables};
use crate::findings::Findings;
use crate::names::Names;
use crate::rules::{Rule, Rules, Standing, excused};
use crate::text;
use crate::tree::{children, field};
use paddock_model::{FindingKind, import_covers};
use tree_sitter::Node;

pub fn bind(node: Node, code: &str, rules: &Rules, names: &mut Names) {
    let Some(module) = source(node, code) else { return };
    let module = path_of(&module);
    children(node, |clause, _| match clause.kind() {
        "import_clause" => children(clause, |part, _| match part.kind() {
            "identifier" => names.stands_for(&text::javascript_identifier(part, code), &module, rules),
            "namespace_import" => {
                if let Some(name) = part.named_child(0) {
                    names.stands_for(&text::javascript_identifier(name, code), &module, rules);
                }
            }
            "named_imports" => children(part, |named, _| {
                let Some(name) = field(named, "name") else { return };
                let alias = text::javascript_identifier(field(named, "alias").unwrap_or(name), code);
                let name = match text::javascript(name, code) {
                    Some(literal) => literal.value,
                    None => text::javascript_identifier(name, code),
                };
                let path = if name == "default" { module.clone() } else { format!("{module}.{name}") };
                names.stands_for(&alias, &path, rules);
            }),
            _ => {}
        }),
        // `import x = require("y")`
        "identifier" if node.kind() == "import_require_clause" => {
            names.stands_for(&text::javascript_identifier(clause, code), &module, rules);
        }
        _ => {}
    });
}

pub fn check(node: Node, scanner: &Scanner, findings: &mut Findings) {
    if let Some(module) = source(node, scanner.code) {
        check_name(&module, node, scanner, findings);
        check_members(&module, node, scanner, findings);
    }
}

/// `require(...)` or `import(...)`.
pub fn check_call(node: Node, arguments: Option<Node>, scanner: &Scanner, findings: &mut Findings) {
    let module = arguments.and_then(|arguments| arguments.named_child(0));
    match module.and_then(|module| text::javascript(module, scanner.code)) {
        Some(module) if module.whole => check_name(&module.value, node, scanner, findings),
        _ => findings.add(FindingKind::DynamicImport, node.byte_range()),
    }
}

/// The module that a call fetches, as the rules write it.
pub fn called_module(node: Node, code: &str, names: &Names) -> Option<String> {
    let function = field(node, "function")?;
    let fetches = match function.kind() {
        "import" => true,
        "identifier" => {
            let name = text::javascript_identifier(function, code);
            let fetches = |path: &String| tables::FETCHERS.contains(&path.as_str());
            matches!(name.as_str(), "require" | "importModule") || names.meanings(&name).iter().any(fetches)
        }
        "member_expression" => resolve::last_part(function, code).as_deref() == Some("getBuiltinModule"),
        _ => false,
    };
    let module = text::javascript(field(node, "arguments")?.named_child(0)?, code)?;
    (fetches && module.whole).then(|| path_of(&module.value))
}

fn check_name(module: &str, at: Node, scanner: &Scanner, findings: &mut Findings) {
    let allowed = scanner.request.allowed;
    let module = module.strip_prefix("node:").unwrap_or(module);
    if allowed.is_some_and(|entries| !entries.iter().any(|entry| import_covers(entry, module))) {
        findings.add(FindingKind::ImportNotAllowed, at.byte_range());
    }
    // A `data:` URL is code in the address itself.
    if module.starts_with("data:") || module.contains("://") {
        findings.add(FindingKind::DynamicImport, at.byte_range());
    }
    let path = path_of(module);
    if let Standing::Ruled(ruled, Rule::Mention(kind)) = scanner.rules.standing(&path)
        && !excused(allowed, &path, ruled)
    {
        findings.add(kind, at.byte_range());
    }
}

/// `import { createRequire } from "module"`: only a member of the module is objected to.
fn check_members(module: &str, node: Node, scanner: &Scanner, findings: &mut Findings) {
    let module = path_of(module);
    if !matches!(scanner.rules.standing(&module), Standing::Above(_)) {
        return;
    }
    children(node, |clause, _| {
        children(clause, |part, _| {
            let mut named = |specifier: Node| {
                let Some(name) = field(specifier, "name") else { return };
                let path = format!("{module}.{}", text::javascript_identifier(name, scanner.code));
                if let Standing::Ruled(ruled, Rule::Mention(kind)) = scanner.rules.standing(&path)
                    && !excused(scanner.request.allowed, &path, ruled)
                {
                    findings.add(kind, specifier.byte_range());
                }
            };
            match part.kind() {
                "named_imports" => children(part, |specifier, _| named(specifier)),
                "export_specifier" => named(part),
                _ => {}
            }
        });
    });
}

fn source(node: Node, code: &str) -> Option<String> {
    text::javascript(field(node, "source")?, code).map(|literal| literal.value)
}

/// `node:fs/promises` is `fs.promises`.
fn path_of(module: &str) -> String {
    let module = module.strip_prefix("node:").unwrap_or(module).replace('/', ".");
    // This module is the same object as the global one.
    if module == "process" { "globalThis.process".to_string() } else { module }
}
