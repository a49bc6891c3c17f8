//! Import statements.

use super::Scanner;
use crate::findings::Findings;
use crate::names::Names;
use crate::rules::{Rule, Rules, Standing, excused};
use crate::text;
use crate::tree::{children, field, text_of};
use paddock_model::{FindingKind, import_covers};
use tree_sitter::Node;

/// One name of an import statement.
struct Imported<'tree> {
    node: Node<'tree>,
    /// The imported module, or the module behind `from`; `.` for a package's own.
    module: String,
    /// The name behind `from module import`; `*` for all.
    member: Option<String>,
    alias: Option<String>,
}

pub fn bind(node: Node, code: &str, rules: &Rules, names: &mut Names) {
    each(node, code, |imported| {
        let path = path(&imported.module, imported.member.as_deref());
        match (&imported.alias, &imported.member) {
            (Some(alias), _) => names.stands_for(alias, &path, rules),
            (None, Some(member)) => names.stands_for(member, &path, rules),
            // `import a.b` binds `a`.
            (None, None) => {
                let root = path.split('.').next().unwrap_or_default().to_string();
                names.stands_for(&root, &root, rules);
            }
        }
    });
}

pub fn check(node: Node, scanner: &Scanner, findings: &mut Findings) {
    each(node, scanner.code, |imported| {
        let member = imported.member.as_deref();
        check_name(&imported.module, member, imported.node, scanner, findings);
    });
}

/// Checks that the import is allowed, and that it is not itself objected to.
pub fn check_name(module: &str, member: Option<&str>, at: Node, scanner: &Scanner, findings: &mut Findings) {
    let path = path(module, member.filter(|member| *member != "*"));
    let allowed = scanner.request.allowed;
    if let Some(entries) = allowed {
        let named = |name: &str| entries.iter().any(|entry| import_covers(entry, name));
        if !named(module) && !named(&path) {
            findings.add(FindingKind::ImportNotAllowed, at.byte_range());
        }
    }
    match scanner.rules.standing(&path) {
        Standing::Ruled(ruled, Rule::Mention(kind)) if !excused(allowed, &path, ruled) => {
            findings.add(kind, at.byte_range());
        }
        // `from os import *` imports all of them.
        Standing::Above(kind) if member == Some("*") && kind != FindingKind::FileOutsideWorkspace => {
            findings.add(kind, at.byte_range());
        }
        _ => {}
    }
}

fn path(module: &str, member: Option<&str>) -> String {
    member.map_or_else(|| module.to_string(), |member| format!("{module}.{member}"))
}

fn each<'tree>(node: Node<'tree>, code: &str, mut visit: impl FnMut(Imported<'tree>)) {
    let from = node.kind() == "import_from_statement";
    let module = field(node, "module_name").map(|module| match module.kind() {
        "relative_import" => ".".to_string(),
        _ => dotted(module, code),
    });
    children(node, |child, field_name| {
        let (name, alias) = match (field_name, child.kind()) {
            (Some("module_name"), _) => return,
            (_, "aliased_import") => (field(child, "name"), field(child, "alias")),
            (_, "wildcard_import") => (None, None),
            (Some("name"), _) => (Some(child), None),
            _ => return,
        };
        let alias = alias.map(|alias| text::python_identifier(alias, code));
        let name = name.map_or_else(|| "*".to_string(), |name| dotted(name, code));
        let (module, member) = match (&module, from) {
            (Some(module), true) => (module.clone(), Some(name)),
            _ => (name, None),
        };
        visit(Imported { node: child, module, member, alias });
    });
}

/// The dotted name without the spaces and line ends that may stand between its parts.
fn dotted(node: Node, code: &str) -> String {
    if node.kind() != "dotted_name" {
        return text_of(node, code).to_string();
    }
    let mut parts = Vec::new();
    children(node, |part, _| parts.push(text::python_identifier(part, code)));
    parts.join(".")
}
