//! Text to a syntax tree, and every node of it in order, without recursion: the code decides how deep a tree is.

use tree_sitter::{Language, Node, Parser, Tree};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grammar {
    Python,
    JavaScript,
    TypeScript,
}

impl Grammar {
    pub fn of(language: &str) -> Option<Grammar> {
        match language {
            "python" | "python3" => Some(Grammar::Python),
            "javascript" | "js" | "node" => Some(Grammar::JavaScript),
            "typescript" | "ts" => Some(Grammar::TypeScript),
            _ => None,
        }
    }

    pub fn parse(self, text: &str) -> Option<Tree> {
        let language: Language = match self {
            Grammar::Python => tree_sitter_python::LANGUAGE.into(),
            Grammar::JavaScript => tree_sitter_javascript::LANGUAGE.into(),
            Grammar::TypeScript => tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(),
        };
        let mut parser = Parser::new();
        parser.set_language(&language).ok()?;
        parser.parse(text, None)
    }
}

/// One node and its place in the tree.
pub struct Step<'tree> {
    pub node: Node<'tree>,
    /// The field's name of the node in its parent.
    pub field: Option<&'tree str>,
    pub parent: &'tree str,
}

/// Visits each node before its children; they are left out if `visit` returns false.
pub fn walk<'tree>(tree: &'tree Tree, mut visit: impl FnMut(Step<'tree>) -> bool) {
    let mut cursor = tree.walk();
    let mut parents: Vec<&'tree str> = vec![""];
    loop {
        let node = cursor.node();
        let parent = parents.last().copied().unwrap_or_default();
        let step = Step { node, field: cursor.field_name(), parent };
        if visit(step) && cursor.goto_first_child() {
            parents.push(node.kind());
            continue;
        }
        while !cursor.goto_next_sibling() {
            if !cursor.goto_parent() {
                return;
            }
            parents.pop();
        }
    }
}

/// The named children, in time that grows with their number.
pub fn children<'tree>(node: Node<'tree>, mut each: impl FnMut(Node<'tree>, Option<&'tree str>)) {
    let mut cursor = node.walk();
    if !cursor.goto_first_child() {
        return;
    }
    loop {
        let child = cursor.node();
        if child.is_named() && !child.is_extra() {
            each(child, cursor.field_name());
        }
        if !cursor.goto_next_sibling() {
            return;
        }
    }
}

pub fn field<'tree>(node: Node<'tree>, name: &str) -> Option<Node<'tree>> {
    node.child_by_field_name(name)
}

pub fn text_of<'a>(node: Node, text: &'a str) -> &'a str {
    text.get(node.byte_range()).unwrap_or_default()
}
