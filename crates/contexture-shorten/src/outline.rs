//! Reads the outline of source code with tree-sitter.
//!
//! A declaration is shown from its first line to the line on which its body
//! begins, and with its last line. Declarations inside a class, an `impl` block
//! or a module are shown the same way.

use std::ops::ControlFlow;

use tree_sitter::{Node, ParseOptions, Parser};

use crate::code::{Language, Rank};

/// The longest source that is parsed.
const MOST_BYTES: usize = 4 * 1024 * 1024;

/// The most lines of a signature, a type or a constant that are outline.
const MOST_SIGNATURE: usize = 12;
const MOST_TYPE: usize = 40;
const MOST_DETAIL: usize = 4;

/// Returns the rank of each line in the outline. Returns `None` for a source
/// that cannot be parsed within a limit; the limit is a number of steps, so
/// that it is the same on every machine.
pub(crate) fn ranks(source: &str, lines: usize, language: Language) -> Option<Vec<Rank>> {
    if source.len() > MOST_BYTES {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&grammar(language)).ok()?;
    // The callback runs once every hundred steps; code takes about one step per
    // byte and a half.
    let mut left = 1_000 + source.len() / 8;
    let mut ask = |_: &tree_sitter::ParseState| match left.checked_sub(1) {
        Some(less) => {
            left = less;
            ControlFlow::Continue(())
        }
        None => ControlFlow::Break(()),
    };
    let options = ParseOptions::new().progress_callback(&mut ask);
    let bytes = source.as_bytes();
    let mut read = |at: usize, _| bytes.get(at..).unwrap_or_default();
    let tree = parser.parse_with_options(&mut read, None, Some(options))?;
    let mut outline = Outline {
        ranks: vec![Rank::Body; lines],
    };
    outline.read(tree.root_node());
    let is_found = |rank: &Rank| matches!(rank, Rank::Top | Rank::Nested);
    outline.ranks.iter().any(is_found).then_some(outline.ranks)
}

fn grammar(language: Language) -> tree_sitter::Language {
    match language {
        Language::Rust => tree_sitter_rust::LANGUAGE,
        Language::Python => tree_sitter_python::LANGUAGE,
        Language::TypeScript => tree_sitter_typescript::LANGUAGE_TSX,
        Language::Go => tree_sitter_go::LANGUAGE,
        Language::Java => tree_sitter_java::LANGUAGE,
        Language::C => tree_sitter_c::LANGUAGE,
    }
    .into()
}

/// The role of a node in the outline.
enum Part {
    /// Something with a body that is cut: a function.
    Function,
    /// Something whose body holds declarations: a class.
    Container,
    /// A type, shown whole.
    Type,
    /// An import, a constant.
    Detail,
    Comment,
    /// Something around a declaration: `export`, a decorator.
    Wrapper,
    Other,
}

/// Returns the role of a node by its kind, for all six grammars. No kind has
/// two meanings.
fn part_of(kind: &str) -> Part {
    match kind {
        "function_item"
        | "function_definition"
        | "function_declaration"
        | "method_declaration"
        | "method_definition"
        | "constructor_declaration"
        | "generator_function_declaration"
        | "macro_definition"
        | "static_initializer"
        | "compact_constructor_declaration" => Part::Function,
        "impl_item"
        | "trait_item"
        | "mod_item"
        | "class_definition"
        | "class_declaration"
        | "abstract_class_declaration"
        | "interface_declaration"
        | "internal_module"
        | "module"
        | "foreign_mod_item"
        | "enum_declaration"
        | "record_declaration"
        | "annotation_type_declaration" => Part::Container,
        "struct_item"
        | "enum_item"
        | "union_item"
        | "type_item"
        | "type_alias_declaration"
        | "type_declaration"
        | "struct_specifier"
        | "enum_specifier"
        | "union_specifier"
        | "type_definition" => Part::Type,
        "use_declaration"
        | "extern_crate_declaration"
        | "const_item"
        | "static_item"
        | "import_statement"
        | "import_from_statement"
        | "future_import_statement"
        | "import_declaration"
        | "package_clause"
        | "package_declaration"
        | "const_declaration"
        | "var_declaration"
        | "preproc_include"
        | "preproc_def"
        | "preproc_function_def"
        | "lexical_declaration"
        | "variable_declaration"
        | "field_declaration"
        | "public_field_definition"
        | "function_signature_item"
        | "function_signature"
        | "method_signature"
        | "property_signature"
        | "abstract_method_signature"
        | "declaration"
        | "associated_type"
        | "attribute_item"
        | "inner_attribute_item"
        | "macro_invocation"
        | "assignment"
        | "enum_constant" => Part::Detail,
        "line_comment" | "block_comment" | "comment" => Part::Comment,
        "export_statement"
        | "decorated_definition"
        | "expression_statement"
        | "ambient_declaration"
        | "preproc_ifdef"
        | "preproc_if"
        | "preproc_else"
        | "linkage_specification"
        | "declaration_list" => Part::Wrapper,
        _ => Part::Other,
    }
}

/// Declarations inside more levels than this are not outline.
const MOST_LEVELS: usize = 6;

struct Outline {
    ranks: Vec<Rank>,
}

impl Outline {
    fn read(&mut self, root: Node<'_>) {
        // Each node with its level: 0 for a top-level one.
        let mut open = vec![(root, 0)];
        while let Some((parent, level)) = open.pop() {
            let mut cursor = parent.walk();
            let mut comment_ends = None;
            for node in parent.children(&mut cursor) {
                let (from, to) = (node.start_position().row, last_row(node));
                let rank = if level == 0 { Rank::Top } else { Rank::Nested };
                match part_of(node.kind()) {
                    Part::Comment => {
                        // Of several lines of comment, the first.
                        if comment_ends.is_none_or(|end| from > end + 1) {
                            self.mark(from, first_words(node), Rank::Comment);
                        }
                        comment_ends = Some(to);
                        continue;
                    }
                    Part::Function => self.signature(node, rank),
                    Part::Container => {
                        let body = self.signature(node, rank);
                        if let Some(body) = body.filter(|_| level < MOST_LEVELS) {
                            open.push((body, level + 1));
                            None
                        } else {
                            body
                        }
                    }
                    Part::Type => {
                        self.mark(from, to.min(from + MOST_TYPE), Rank::Detail);
                        self.mark(from, from, rank);
                        self.mark(to, to, rank);
                        None
                    }
                    Part::Detail => {
                        if let Some(function) = function_of(node) {
                            self.signature_to(from, function, to, rank)
                        } else {
                            self.mark(from, to.min(from + MOST_DETAIL), Rank::Detail);
                            None
                        }
                    }
                    Part::Wrapper if level < MOST_LEVELS => {
                        open.push((node, level));
                        self.mark(from, from, Rank::Detail);
                        None
                    }
                    Part::Wrapper | Part::Other => None,
                };
                comment_ends = None;
            }
        }
    }

    /// Marks the signature and the last line of a declaration. Returns its
    /// body.
    fn signature<'t>(&mut self, node: Node<'t>, rank: Rank) -> Option<Node<'t>> {
        let body = node.child_by_field_name("body").or_else(|| {
            let mut cursor = node.walk();
            node.children(&mut cursor)
                .find(|child| child.kind().ends_with("body") || child.kind() == "declaration_list")
        });
        let (from, to) = (node.start_position().row, last_row(node));
        match body {
            Some(body) => self.signature_to(from, body, to, rank),
            None => {
                self.mark(from, to.min(from + MOST_SIGNATURE), rank);
                None
            }
        }
    }

    fn signature_to<'t>(
        &mut self,
        from: usize,
        body: Node<'t>,
        to: usize,
        rank: Rank,
    ) -> Option<Node<'t>> {
        let starts = body.start_position().row;
        // The body of Python begins on a line of its own.
        let is_block = body.kind() == "block" && body.child(0).is_none_or(|it| it.kind() != "{");
        let opens = match is_block && starts > from {
            true => {
                let docs = body.child(0).filter(is_docstring);
                if let Some(docs) = docs {
                    self.mark(starts, first_words(docs), Rank::Comment);
                }
                starts - 1
            }
            false => starts,
        };
        self.mark(from, opens.min(from + MOST_SIGNATURE), rank);
        if !is_block {
            self.mark(to, to, rank);
        }
        Some(body)
    }

    fn mark(&mut self, from: usize, to: usize, rank: Rank) {
        let end = self.ranks.len();
        for line in &mut self.ranks[from.min(end)..(to + 1).min(end)] {
            *line = rank.min(*line);
        }
    }
}

/// Returns the body of a function that a constant is: `const f = () => {`.
fn function_of(node: Node<'_>) -> Option<Node<'_>> {
    let mut cursor = node.walk();
    let mut declared = node.children(&mut cursor);
    let value = declared.find_map(|child| child.child_by_field_name("value"))?;
    let is_function = matches!(
        value.kind(),
        "arrow_function" | "function_expression" | "class"
    );
    let body = value.child_by_field_name("body").filter(|_| is_function)?;
    matches!(body.kind(), "statement_block" | "class_body").then_some(body)
}

fn is_docstring(node: &Node<'_>) -> bool {
    node.kind() == "expression_statement" && node.child(0).is_some_and(|it| it.kind() == "string")
}

/// Returns the last line of a node. A node that ends with a line end ends on
/// the line before.
fn last_row(node: Node<'_>) -> usize {
    let end = node.end_position();
    match end.column == 0 && end.row > node.start_position().row {
        true => end.row - 1,
        false => end.row,
    }
}

/// Returns the last of the lines of a comment that are shown: the first, or the
/// second where the first only opens it.
fn first_words(node: Node<'_>) -> usize {
    let from = node.start_position();
    let is_block = last_row(node) > from.row;
    // `/**` and `"""` alone are not informative.
    from.row + usize::from(is_block)
}
