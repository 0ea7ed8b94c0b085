//! What a method of Rust that stores is called on.
//!
//! A method call goes through references by itself: `word.store(1, …)` stores to an atomic that `word` is, or that it refers to, and
//! `bytes.fill(0)` fills an array, or the slice that `bytes` refers to. The address of `word` itself would be that of the reference. Which
//! it is follows from the declaration, if the file has it. Otherwise the address is asked for by a method, which goes through
//! references, too.
//!
//! Can miss: types that have another name in the file (`type Word = AtomicU64`) count as not known.

use tree_sitter::Node;

use crate::stored_object::StoredObject;
use crate::syntax::{SourceTree, ancestors, descendants};

/// What follows an expression that is to be taken for the slice that it is or points to.
pub(crate) const WHOLE_SLICE: &str = "[..]";

/// What stores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StoringMethod {
    Atomic,
    Slice,
}

/// What the receiver of a storing method is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiver {
    /// The object that is stored to.
    Object,
    /// A reference to an object of a known size.
    Reference,
    /// Something that refers to the object, or the object.
    Unknown(StoringMethod),
}

impl Receiver {
    /// The receiver of a method, from what the file declares.
    pub fn of(source: &SourceTree, receiver: Node<'_>, method: StoringMethod) -> Self {
        // A part of something is named as it is.
        if receiver.kind() == "index_expression" && names_range(receiver) {
            return Self::Object;
        }
        let Some(declared) = declared_type(source, receiver) else {
            return Self::Unknown(method);
        };
        let is_object = |taken: &str| match method {
            StoringMethod::Atomic => last_name(taken).starts_with("Atomic"),
            StoringMethod::Slice => taken.starts_with('[') && taken.contains(';'),
        };
        match referred(&declared) {
            _ if is_object(&declared) => Self::Object,
            Some(referred) if is_object(referred) => Self::Reference,
            _ => Self::Unknown(method),
        }
    }

    /// What the method stores to, as `text` names the receiver.
    pub fn object(self, text: &str) -> StoredObject {
        let place = match self {
            Self::Object => Some(text.to_owned()),
            Self::Reference => Some(format!("*{text}")),
            Self::Unknown(StoringMethod::Slice) => Some(format!("{text}{WHOLE_SLICE}")),
            Self::Unknown(StoringMethod::Atomic) => None,
        };
        let address = match (self, &place) {
            (Self::Object | Self::Reference, Some(place)) => format!("&raw const {place}"),
            _ => format!("{text}.as_ptr()"),
        };
        StoredObject {
            address,
            // An atomic is in one cache line, which its first byte names.
            length: place.is_none().then(|| "1".to_owned()),
            place,
            saved: None,
            guard: None,
        }
    }
}

fn names_range(index: Node<'_>) -> bool {
    let last = index.named_child_count().saturating_sub(1);
    let index = index.named_child(last);
    index.is_some_and(|index| index.kind() == "range_expression")
}

/// The type behind one reference.
fn referred(taken: &str) -> Option<&str> {
    let rest = taken.strip_prefix('&')?.trim_start();
    let rest = match rest.starts_with('\'') {
        true => rest.split_once(' ')?.1.trim_start(),
        false => rest,
    };
    Some(rest.strip_prefix("mut ").unwrap_or(rest).trim_start())
}

/// The last part of a path, without what is in angle brackets.
fn last_name(taken: &str) -> &str {
    let path = taken.split('<').next().unwrap_or(taken);
    path.rsplit("::").next().unwrap_or(path).trim()
}

/// The declared type of an expression, if the file shows it.
fn declared_type(source: &SourceTree, node: Node<'_>) -> Option<String> {
    match node.kind() {
        "parenthesized_expression" => declared_type(source, node.named_child(0)?),
        "identifier" => type_of_variable(source, node),
        "field_expression" => type_of_field(source, node),
        "index_expression" => {
            let indexed = declared_type(source, node.named_child(0)?)?;
            let indexed = referred(&indexed).unwrap_or(&indexed);
            let inner = indexed.strip_prefix('[')?.strip_suffix(']')?;
            let element = inner.rsplit_once(';').map_or(inner, |(element, _)| element);
            Some(element.trim().to_owned())
        }
        "unary_expression" if source.text_of(node).starts_with('*') => {
            let pointer = declared_type(source, node.named_child(0)?)?;
            let raw = ["*const ", "*mut "];
            let raw = raw.iter().find_map(|start| pointer.strip_prefix(start));
            raw.or_else(|| referred(&pointer)).map(str::to_owned)
        }
        "reference_expression" => {
            let of = declared_type(source, node.child_by_field_name("value")?)?;
            Some(format!("&{of}"))
        }
        _ => None,
    }
}

/// The type of the declaration that a use of a variable means: the last one before it in its function, or a static.
fn type_of_variable(source: &SourceTree, node: Node<'_>) -> Option<String> {
    let name = source.text_of(node);
    let function = ancestors(node).find(|around| around.kind() == "function_item")?;
    let is_named = |declaration: &Node<'_>| {
        let pattern = declaration.child_by_field_name("pattern");
        let pattern = pattern.or_else(|| declaration.child_by_field_name("name"));
        pattern.is_some_and(|pattern| {
            let mut names = descendants(pattern).into_iter();
            names.any(|part| part.kind() == "identifier" && source.text_of(part) == name)
        })
    };
    let mut declarations = descendants(function).into_iter().filter(|declaration| {
        let kinds = [
            "parameter",
            "let_declaration",
            "for_expression",
            "let_condition",
            "match_pattern",
            "closure_parameters",
        ];
        kinds.contains(&declaration.kind())
            && declaration.start_byte() < node.start_byte()
            && (is_named(declaration) || names_without_field(source, *declaration, name))
    });
    let Some(declaration) = declarations.next_back() else {
        let items = descendants(source.root()).into_iter();
        let mut statics = items.filter(|item| item.kind() == "static_item" && is_named(item));
        let taken = statics.next()?.child_by_field_name("type")?;
        return Some(source.text_of(taken).to_owned());
    };
    let pattern = declaration.child_by_field_name("pattern")?;
    let is_plain = matches!(pattern.kind(), "identifier" | "mut_pattern");
    let taken = declaration.child_by_field_name("type");
    match (declaration.kind(), taken) {
        ("parameter" | "let_declaration", Some(taken)) if is_plain => {
            Some(source.text_of(taken).to_owned())
        }
        ("let_declaration", None) if is_plain => {
            declared_type(source, declaration.child_by_field_name("value")?)
        }
        _ => None,
    }
}

/// Whether a pattern that is no field of its node has the name.
fn names_without_field(source: &SourceTree, declaration: Node<'_>, name: &str) -> bool {
    let kinds = ["match_pattern", "closure_parameters"];
    kinds.contains(&declaration.kind())
        && descendants(declaration)
            .iter()
            .any(|part| part.kind() == "identifier" && source.text_of(*part) == name)
}

/// The type of the fields of that name; none if the file has several types or none.
fn type_of_field(source: &SourceTree, node: Node<'_>) -> Option<String> {
    let name = source.text_of(node.child_by_field_name("field")?);
    let nodes = descendants(source.root()).into_iter();
    let declared = nodes.filter(|node| {
        let named = node.child_by_field_name("name");
        node.kind() == "field_declaration"
            && named.is_some_and(|named| source.text_of(named) == name)
    });
    let types = declared.filter_map(|node| node.child_by_field_name("type"));
    let mut types: Vec<&str> = types.map(|taken| source.text_of(taken)).collect();
    types.dedup();
    match types[..] {
        [only] => Some(only.to_owned()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The address that a method has stored to, and what is there.
    fn stored(parameters: &str, receiver: &str, method: StoringMethod) -> (String, String) {
        let text = format!(
            "struct Log {{ word: AtomicU64, far: &'static AtomicU64, bytes: [u8; 64], words: [AtomicU64; 8] }}\n\
             fn f({parameters}) {{\n    {receiver}.method();\n}}\n"
        );
        let source = SourceTree::new("x.rs", text).unwrap();
        let nodes = descendants(source.root()).into_iter();
        let mut calls = nodes.filter(|node| node.kind() == "call_expression");
        let function = calls.next().unwrap().child_by_field_name("function");
        let node = function.unwrap().child_by_field_name("value").unwrap();
        let object = Receiver::of(&source, node, method).object(source.text_of(node));
        let what = object.place.or(object.length).unwrap();
        (object.address, what)
    }

    fn atomic(parameters: &str, receiver: &str) -> (String, String) {
        stored(parameters, receiver, StoringMethod::Atomic)
    }

    fn is(found: (String, String), address: &str, what: &str) {
        assert_eq!((found.0.as_str(), found.1.as_str()), (address, what));
    }

    #[test]
    fn a_reference_is_not_taken_for_the_atomic_that_it_refers_to() {
        let log = "log: &Log";
        is(atomic(log, "log.word"), "&raw const log.word", "log.word");
        is(atomic(log, "log.far"), "&raw const *log.far", "*log.far");
        is(
            atomic(log, "log.words[3]"),
            "&raw const log.words[3]",
            "log.words[3]",
        );
        is(
            atomic("word: &'static AtomicU64", "word"),
            "&raw const *word",
            "*word",
        );
        is(
            atomic("word: *const AtomicU64", "(*word)"),
            "&raw const (*word)",
            "(*word)",
        );
    }

    #[test]
    fn what_the_file_does_not_show_is_asked_for() {
        is(atomic("word: &&AtomicU64", "word"), "word.as_ptr()", "1");
        is(
            atomic("other: &Other", "other.head"),
            "other.head.as_ptr()",
            "1",
        );
    }

    #[test]
    fn a_slice_has_its_length_at_run_time() {
        let slice = |parameters, receiver| stored(parameters, receiver, StoringMethod::Slice);
        is(
            slice("log: &mut Log", "log.bytes"),
            "&raw const log.bytes",
            "log.bytes",
        );
        is(slice("to: &mut [u8]", "to"), "to.as_ptr()", "to[..]");
        is(slice("to: &mut [u8; 8]", "to"), "&raw const *to", "*to");
        is(
            slice("to: &mut [u8]", "to[2..4]"),
            "&raw const to[2..4]",
            "to[2..4]",
        );
    }

    #[test]
    fn the_last_declaration_counts() {
        is(
            atomic("log: &Log, word: u64", "let word = &log.word;\n    word"),
            "&raw const *word",
            "*word",
        );
    }
}
