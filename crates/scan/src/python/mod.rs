//! Findings in Python.
//!
//! - [`imports`]: import statements: the names that they bind, and their check
//! - [`resolve`]: the meaning of an expression
//! - [`tables`]: the names that are objected to

mod imports;
mod resolve;
mod tables;

#[cfg(test)]
mod tests;

use super::findings::Findings;
use super::names::Names;
use super::places::Place;
use super::rules::{Rule, Rules, Standing, excused};
use super::tree::{Grammar, Step, children, field, walk};
use super::{Request, magics, text};
use paddock_model::FindingKind;
use tree_sitter::{Node, Tree};

pub fn scan(request: &Request, findings: &mut Findings) {
    let code = prepared(request.text, findings);
    let code = magics::masked(code, findings);
    let Some(tree) = Grammar::Python.parse(&code) else {
        findings.add_words(FindingKind::NotParsed, 0, "the parser gave up");
        return;
    };
    let rules = tables::rules();
    let names = bindings(&tree, &code, &rules);
    if names.overfull {
        findings.add_words(FindingKind::NotParsed, 0, "a name has too many meanings");
    }
    let scanner = Scanner { request, code: &code, rules: &rules, names: &names };
    walk(&tree, |step| scanner.visit(step, findings));
}

/// The code as Python reads it: a lone CR ends a line, and with it a comment. The length stays the same, and so do all
/// places.
fn prepared(written: &str, findings: &mut Findings) -> String {
    for (start, line) in first_lines(written) {
        if let Some(encoding) = declared_encoding(line) {
            let words = format!("the code declares the encoding {encoding}, and may read differently in it");
            findings.add_words(FindingKind::NotParsed, start, &words);
        }
    }
    let mut bytes = written.as_bytes().to_vec();
    for index in 0..bytes.len() {
        if bytes[index] == b'\r' && bytes.get(index + 1) != Some(&b'\n') {
            bytes[index] = b'\n';
        }
    }
    // Only ASCII was replaced by ASCII.
    String::from_utf8(bytes).unwrap_or_default()
}

fn first_lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let place = move |line: &str| line.as_ptr() as usize - text.as_ptr() as usize;
    text.split(['\n', '\r']).take(3).map(move |line| (place(line), line))
}

/// A declared encoding other than UTF-8, by the rule of PEP 263.
fn declared_encoding(line: &str) -> Option<String> {
    let comment = line.trim_start_matches(['\u{feff}', ' ', '\t', '\u{c}']).strip_prefix('#')?;
    let (_, after) = comment.split_once("coding")?;
    let name = after.strip_prefix([':', '='])?.trim_start_matches([' ', '\t']);
    let known = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let name: String = name.chars().take(40).take_while(|c| known(*c)).collect();
    let plain = matches!(
        name.to_ascii_lowercase().replace('_', "-").as_str(),
        "" | "utf-8" | "utf8" | "ascii" | "us-ascii"
    );
    (!plain).then_some(name)
}

/// Everything that is bound anywhere. Two passes, so that a name that is bound further down is known above.
fn bindings(tree: &Tree, code: &str, rules: &Rules) -> Names {
    let mut names = Names::default();
    for _ in 0..2 {
        walk(tree, |step| {
            bind(step, code, rules, &mut names);
            true
        });
    }
    names
}

fn bind(step: Step, code: &str, rules: &Rules, names: &mut Names) {
    let node = step.node;
    match node.kind() {
        "import_statement" | "import_from_statement" => imports::bind(node, code, rules, names),
        "assignment" | "named_expression" => {
            let target = field(node, "left").or(field(node, "name"));
            let value = field(node, "right").or(field(node, "value"));
            let Some(target) = target.filter(|target| target.kind() == "identifier") else { return };
            let name = text::python_identifier(target, code);
            names.bind(&name);
            for path in value.map(|value| resolve::paths(value, code, rules, names)).unwrap_or_default() {
                names.stands_for(&name, &path, rules);
            }
        }
        "identifier" => {
            let target = matches!(
                (step.parent, step.field),
                ("for_statement" | "for_in_clause", Some("left"))
                    | ("function_definition" | "class_definition", Some("name"))
                    | ("default_parameter" | "typed_default_parameter", Some("name"))
                    | ("parameters" | "lambda_parameters" | "typed_parameter", None)
                    | ("as_pattern_target" | "pattern_list" | "tuple_pattern" | "list_pattern", _)
            );
            if target {
                names.bind(&text::python_identifier(node, code));
            }
        }
        _ => {}
    }
}

struct Scanner<'a> {
    request: &'a Request<'a>,
    code: &'a str,
    rules: &'a Rules,
    names: &'a Names,
}

impl Scanner<'_> {
    /// Returns true if the node's children are to be visited as well.
    fn visit(&self, step: Step, findings: &mut Findings) -> bool {
        let node = step.node;
        if (node.is_error() || node.is_missing()) && !findings.has(FindingKind::NotParsed) {
            findings.add(FindingKind::NotParsed, node.byte_range());
        }
        match node.kind() {
            "import_statement" | "import_from_statement" => {
                imports::check(node, self, findings);
                return false;
            }
            // Python 2 has this statement, and the grammar still knows it.
            "exec_statement" => findings.add(FindingKind::EvalExec, node.byte_range()),
            "call" => self.call(node, findings),
            "attribute" | "subscript" => self.mention(node, findings),
            "identifier" if is_a_value(&step) => self.mention(node, findings),
            _ => {}
        }
        true
    }

    fn mention(&self, node: Node, findings: &mut Findings) {
        if let Some(name) = field(node, "attribute").map(|name| text::python_identifier(name, self.code))
            && tables::LADDERS.contains(&name.as_str())
        {
            findings.add(FindingKind::EvalExec, node.byte_range());
        }
        let paths = resolve::paths(node, self.code, self.rules, self.names);
        for path in &paths {
            if let Standing::Ruled(ruled, Rule::Mention(kind)) = self.rules.standing(path)
                && !excused(self.request.allowed, path, ruled)
            {
                findings.add(kind, node.byte_range());
            }
        }
        if node.kind() == "subscript" {
            self.computed(node, field(node, "value"), field(node, "subscript"), findings);
        }
    }

    fn call(&self, node: Node, findings: &mut Findings) {
        let (Some(function), Some(arguments)) = (field(node, "function"), field(node, "arguments")) else {
            return;
        };
        for path in resolve::paths(function, self.code, self.rules, self.names) {
            let standing = self.rules.standing(&path);
            match standing {
                Standing::Ruled(ruled, Rule::TakesPaths) if !excused(self.request.allowed, &path, ruled) => {
                    self.paths_in(arguments, findings);
                }
                _ if path == "builtins.getattr" => {
                    self.getattr(node, arguments, findings);
                }
                _ => {}
            }
            if matches!(path.as_str(), "builtins.__import__" | "importlib.import_module")
                && let Some(name) = arguments.named_child(0).and_then(|name| text::python(name, self.code))
                && name.whole
            {
                imports::check_name(&name.value, None, node, self, findings);
            }
        }
    }

    fn getattr(&self, node: Node, arguments: Node, findings: &mut Findings) {
        let resolved = resolve::paths(node, self.code, self.rules, self.names);
        for path in &resolved {
            if let Standing::Ruled(ruled, Rule::Mention(kind)) = self.rules.standing(path)
                && !excused(self.request.allowed, path, ruled)
            {
                findings.add(kind, node.byte_range());
            }
        }
        self.computed(node, arguments.named_child(0), arguments.named_child(1), findings);
    }

    /// Access to a member of an object with dangerous members, by a name that only the run knows.
    fn computed(&self, node: Node, of: Option<Node>, name: Option<Node>, findings: &mut Findings) {
        let (Some(of), Some(name)) = (of, name) else { return };
        if text::python(name, self.code).is_some_and(|name| name.whole) || name.kind() == "integer" {
            return;
        }
        for path in resolve::paths(of, self.code, self.rules, self.names) {
            match self.rules.standing(&path) {
                Standing::Above(kind) if kind != FindingKind::FileOutsideWorkspace => {
                    findings.add(kind, node.byte_range());
                }
                _ => {}
            }
        }
    }

    fn paths_in(&self, arguments: Node, findings: &mut Findings) {
        children(arguments, |argument, _| {
            let value = match argument.kind() {
                "keyword_argument" => field(argument, "value"),
                _ => Some(argument),
            };
            let Some(value) = value else { return };
            let Some(path) = text::python(value, self.code).filter(|path| !path.value.is_empty()) else {
                return;
            };
            match self.request.places.of(&path.value) {
                Place::Inside => {}
                Place::Outside => findings.add(FindingKind::FileOutsideWorkspace, value.byte_range()),
                Place::Network => findings.add(FindingKind::Socket, value.byte_range()),
            }
        });
    }
}

/// False for the name of a parameter, a function, an attribute or a keyword.
fn is_a_value(step: &Step) -> bool {
    !matches!(step.field, Some("name" | "attribute" | "alias"))
        // The assigned value was looked at.
        && !matches!((step.parent, step.field), ("assignment", Some("left")))
        && !matches!(
            step.parent,
            "parameters" | "lambda_parameters" | "typed_parameter" | "dotted_name" | "global_statement" | "nonlocal_statement"
        )
}
