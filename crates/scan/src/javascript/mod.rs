//! Findings in JavaScript and TypeScript, whose trees have the same names.
//!
//! - [`modules`]: import and export statements, `require` and `import()`
//! - [`resolve`]: the meaning of an expression, and the names that declarations bind
//! - [`tables`]: the names that are objected to

mod modules;
mod resolve;
mod tables;

#[cfg(test)]
mod tests;

use super::findings::Findings;
use super::names::Names;
use super::places::Place;
use super::rules::{Rule, Rules, Standing, excused};
use super::tree::{Step, children, field, walk};
use super::{Request, text};
use paddock_model::FindingKind;
use tree_sitter::Node;

pub fn scan(request: &Request, findings: &mut Findings) {
    let Some(tree) = request.grammar.parse(request.text) else {
        findings.add_words(FindingKind::NotParsed, 0, "the parser gave up");
        return;
    };
    let rules = tables::rules();
    let mut names = Names::default();
    // Two passes, so that a name that is bound further down is known above.
    for _ in 0..2 {
        walk(&tree, |step| {
            resolve::bind(&step, request.text, &rules, &mut names);
            true
        });
    }
    if names.overfull {
        findings.add_words(FindingKind::NotParsed, 0, "a name has too many meanings");
    }
    let scanner = Scanner { request, code: request.text, rules: &rules, names: &names };
    walk(&tree, |step| {
        scanner.visit(step, findings);
        true
    });
}

struct Scanner<'a> {
    request: &'a Request<'a>,
    code: &'a str,
    rules: &'a Rules,
    names: &'a Names,
}

impl Scanner<'_> {
    fn visit(&self, step: Step, findings: &mut Findings) {
        let node = step.node;
        let unclear = node.is_error() || node.is_missing()
            // `<!--` is a comment in a script, and code in a module.
            || node.kind() == "html_comment";
        if unclear && !findings.has(FindingKind::NotParsed) {
            findings.add(FindingKind::NotParsed, node.byte_range());
        }
        match node.kind() {
            "import_statement" | "export_statement" | "import_require_clause" => {
                modules::check(node, self, findings)
            }
            "call_expression" | "new_expression" => self.call(node, findings),
            "member_expression" | "subscript_expression" => self.mention(node, &step, findings),
            "identifier" | "shorthand_property_identifier" => self.mention(node, &step, findings),
            _ => {}
        }
    }

    fn paths(&self, node: Node) -> Vec<String> {
        resolve::paths(node, self.code, self.rules, self.names)
    }

    fn mention(&self, node: Node, step: &Step, findings: &mut Findings) {
        if matches!(step.field, Some("name" | "alias" | "pattern" | "parameter"))
            // The assigned value was looked at.
            || matches!((node.kind(), step.parent, step.field), ("identifier", "assignment_expression", Some("left")))
            || matches!(step.parent, "formal_parameters" | "import_clause" | "namespace_import")
        {
            return;
        }
        for path in self.paths(node) {
            if tables::FETCHERS.contains(&path.as_str()) && !matches!(step.field, Some("function" | "object"))
            {
                findings.add(FindingKind::DynamicImport, node.byte_range());
            }
            if let Standing::Ruled(ruled, Rule::Mention(kind)) = self.rules.standing(&path)
                && !excused(self.request.allowed, &path, ruled)
            {
                findings.add(kind, node.byte_range());
            }
        }
        if node.kind() == "subscript_expression" {
            self.computed(node, findings);
        }
    }

    /// Access to a member of an object with dangerous members, by a name that only the run knows.
    fn computed(&self, node: Node, findings: &mut Findings) {
        let (Some(object), Some(index)) = (field(node, "object"), field(node, "index")) else { return };
        if index.kind() == "number" || text::javascript(index, self.code).is_some_and(|name| name.whole) {
            return;
        }
        for path in self.paths(object) {
            match self.rules.standing(&path) {
                Standing::Above(kind) if kind != FindingKind::FileOutsideWorkspace => {
                    findings.add(kind, node.byte_range());
                }
                _ => {}
            }
        }
    }

    fn call(&self, node: Node, findings: &mut Findings) {
        let Some(function) = field(node, "function").or(field(node, "constructor")) else { return };
        let arguments = field(node, "arguments");
        if function.kind() == "import" {
            return modules::check_call(node, arguments, self, findings);
        }
        let plain_call = node.kind() == "call_expression";
        // The constructor of every function makes functions out of text.
        if plain_call && resolve::last_part(function, self.code).as_deref() == Some("constructor") {
            findings.add(FindingKind::EvalExec, node.byte_range());
        }
        for path in self.paths(function) {
            if tables::FETCHERS.contains(&path.as_str()) {
                modules::check_call(node, arguments, self, findings);
                continue;
            }
            let Standing::Ruled(ruled, rule) = self.rules.standing(&path) else { continue };
            if excused(self.request.allowed, &path, ruled) {
                continue;
            }
            match rule {
                Rule::Call(kind) => findings.add(kind, node.byte_range()),
                Rule::CallWithText(kind) => {
                    let first = arguments.and_then(|arguments| arguments.named_child(0));
                    if first.is_some_and(|first| text::javascript(first, self.code).is_some()) {
                        findings.add(kind, node.byte_range());
                    }
                }
                Rule::TakesPaths => {
                    let last = path.rsplit('.').next().unwrap_or_default();
                    let count = if tables::TAKES_TWO.contains(&last) { 2 } else { 1 };
                    if let Some(arguments) = arguments {
                        self.paths_in(arguments, count, findings);
                    }
                }
                Rule::Mention(_) => {}
            }
        }
    }

    fn paths_in(&self, arguments: Node, count: usize, findings: &mut Findings) {
        let mut place = 0;
        children(arguments, |argument, _| {
            place += 1;
            let Some(path) = text::javascript(argument, self.code) else { return };
            if place <= count && self.request.places.of(&path.value) == Place::Outside {
                findings.add(FindingKind::FileOutsideWorkspace, argument.byte_range());
            }
        });
    }
}
