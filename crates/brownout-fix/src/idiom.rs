//! The program's own way of flushing and fencing.
//!
//! Which functions and macros flush, fence or do both follows from the trace: the calls in whose course flushes and fences happen,
//! and no stores. A repair uses one of them if it can be called where the repair is. Otherwise it uses libpmem or libpmemobj if
//! the file includes their headers, and at last a helper of its own.
//!
//! A function is used only if it takes memory of no particular type, as its declaration shows.
//!
//! Can miss: idioms whose calls are inside macros that are not used in the file; helpers with other parameters than an object, a
//! pointer, or a pointer and a length.

use std::collections::BTreeMap;

use brownout_libraries::{MemoryEffect, PoolNames, memory_effect, pool_names};
use rustc_hash::FxHashSet;
use tree_sitter::Node;

use crate::hoisting::function_name;
use crate::macros::MacroDefinitions;
use crate::signature::{Signature, Taken};
use crate::statement::Statement;
use crate::stored_object::{arguments, callee};
use crate::syntax::{SourceLanguage, SourceTree, ancestors, descendants};

/// What happens in the course of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallEffect {
    Store,
    Flush,
    Fence,
    Sync,
}

/// What is known of the calls of one name.
#[derive(Clone, Debug, Default)]
struct CalledName {
    stores: bool,
    flushes: bool,
    fences: bool,
    syncs: bool,
    /// For each number of arguments, the first arguments of some call.
    examples: BTreeMap<usize, Vec<String>>,
    /// In which files it is called, and how often.
    files: BTreeMap<String, u32>,
    /// It is a macro of Rust.
    bang: bool,
    /// It is called for an object.
    is_method: bool,
}

/// The calls of a program that flush and fence.
#[derive(Default)]
pub struct Idioms {
    names: BTreeMap<(String, bool), CalledName>,
    seen: FxHashSet<(String, u32, Option<u32>, CallEffect)>,
    /// What the functions take in which events happened.
    signatures: BTreeMap<String, Signature>,
}

/// What a call takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Form {
    /// Nothing: a fence.
    Nothing,
    /// A pointer and a number of bytes.
    Range,
    /// A pointer into the one line that is flushed.
    Pointer,
    /// The object in the one line that is flushed.
    Place,
    /// A reference of Rust to the object.
    Reference,
    /// A pool of libpmemobj, a pointer and a number of bytes.
    Pool(PoolNames),
}

/// A call that flushes, fences or does both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Idiom {
    pub name: String,
    pub form: Form,
    pub bang: bool,
    /// The first argument of some call of it.
    pub example: Option<String>,
}

/// What an idiom does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Flush,
    Fence,
    /// A flush and a fence, or a sync.
    Persist,
}

impl Idioms {
    /// Notes that an event happened in the course of the call at a position of a file.
    pub fn observe(
        &mut self,
        source: &SourceTree,
        line: u32,
        column: Option<u32>,
        effect: CallEffect,
    ) {
        let key = (source.path.clone(), line, column, effect);
        if !self.seen.insert(key) {
            return;
        }
        self.note_signature(source, line, column);
        let offset = column.and_then(|_| source.offset(line, column));
        for call in calls_at(source, line, column, offset) {
            let Some(name) = callee(source, call) else {
                continue;
            };
            let bang = call.kind() == "macro_invocation";
            // In Rust a function and a macro can have the same name.
            let called = self.names.entry((name, bang)).or_default();
            match effect {
                CallEffect::Store => called.stores = true,
                CallEffect::Flush => called.flushes = true,
                CallEffect::Fence => called.fences = true,
                CallEffect::Sync => called.syncs = true,
            }
            called.bang = bang;
            let function = call.child_by_field_name("function");
            called.is_method |= function.is_some_and(|node| node.kind() == "field_expression");
            let texts: Vec<String> = match bang {
                true => macro_arguments(source, call),
                false => arguments(call)
                    .iter()
                    .map(|node| source.text_of(*node).to_owned())
                    .collect(),
            };
            called.examples.entry(texts.len()).or_insert(texts);
            *called.files.entry(source.path.clone()).or_default() += 1;
        }
    }

    /// Notes what the function around a position takes.
    fn note_signature(&mut self, source: &SourceTree, line: u32, column: Option<u32>) {
        let Ok(statement) = Statement::at(source, line, column) else {
            return;
        };
        let Some(function) = statement.function() else {
            return;
        };
        let nodes = descendants(function).into_iter();
        let mut declarators =
            nodes.filter(|node| matches!(node.kind(), "function_declarator" | "function_item"));
        let signature = declarators.next();
        let signature = signature.and_then(|node| Signature::of(source, node));
        let name = function_name(source, function);
        self.signatures.extend(name.zip(signature));
    }

    /// The call that does this and can be made at a position of a file. `one_line`: what is flushed is in one cache line.
    pub(crate) fn find(
        &self,
        deed: Deed,
        source: &SourceTree,
        offset: usize,
        one_line: bool,
        macros: &MacroDefinitions,
    ) -> Option<Idiom> {
        let does = |called: &CalledName| {
            let done = (called.flushes, called.fences, called.syncs);
            !called.stores
                && !called.is_method
                && match deed {
                    Deed::Flush => done == (true, false, false),
                    Deed::Fence => done == (false, true, false),
                    Deed::Persist => done == (true, true, false) || done == (false, false, true),
                }
        };
        let candidates = self.names.iter().filter(|(_, called)| does(called));
        let usable = candidates.filter_map(|((name, _), called)| {
            let mut idiom = idiom(name, called, deed, macros)?;
            idiom.form = self.declared_form(&idiom, source)?;
            idiom.name = format!("{}{name}", namespace(name, source, offset)?);
            let fits = one_line || !matches!(idiom.form, Form::Pointer | Form::Place);
            let is_visible = is_visible(name, source, offset, macros);
            // Calls of this file come first, then those that are made in more places.
            let here = called.files.get(&source.path).copied().unwrap_or(0);
            let all: u32 = called.files.values().sum();
            let is_range = matches!(idiom.form, Form::Range | Form::Pool(_) | Form::Nothing);
            let is_hidden = is_hidden(name, source, offset);
            (fits && is_visible && !is_hidden && !calls_itself(name, source, offset))
                .then_some(((is_range, here, all), idiom))
        });
        let best = usable.max_by_key(|(rank, _)| *rank);
        best.map(|(_, idiom)| idiom)
    }

    /// The form of an idiom, as far as its declaration shows that. `None` if the function takes something else.
    fn declared_form(&self, idiom: &Idiom, source: &SourceTree) -> Option<Form> {
        let is_flush = matches!(idiom.form, Form::Pointer | Form::Range);
        if !is_flush || idiom.bang {
            return Some(idiom.form);
        }
        let declared = declarations(&idiom.name, source);
        let Some(function) = declared.first() else {
            // A header may declare it, and another file define it.
            if let Some(signature) = self.signatures.get(&idiom.name) {
                let form = form_of(idiom.form, signature)?;
                return Some(in_language(form, source.language));
            }
            let is_address = idiom
                .example
                .as_ref()
                .is_some_and(|text| text.starts_with('&'));
            let is_known = idiom.form == Form::Range || is_address || idiom.name.starts_with('_');
            // A function of C++ may take a reference, one of Rust anything.
            return match source.language {
                SourceLanguage::C => Some(idiom.form),
                SourceLanguage::Cpp => is_known.then_some(idiom.form),
                SourceLanguage::Rust => idiom.name.starts_with('_').then_some(idiom.form),
            };
        };
        let form = form_of(idiom.form, &Signature::of(source, *function)?)?;
        Some(in_language(form, source.language))
    }
}

fn idiom(name: &str, called: &CalledName, deed: Deed, macros: &MacroDefinitions) -> Option<Idiom> {
    let effect = memory_effect(name);
    if deed == Deed::Fence {
        let example = called.examples.get(&0);
        return example.map(|_| Idiom {
            name: name.to_owned(),
            form: Form::Nothing,
            bang: called.bang,
            example: None,
        });
    }
    let is_address = |text: &String| text.starts_with(['&', '*']);
    let (&count, example) = called.examples.iter().next()?;
    let form = match (count, &example[..]) {
        _ if effect == Some(MemoryEffect::Syncs) => return None,
        (2, [_, length]) if !is_address(length) => Form::Range,
        (1, _) if called.bang || macros.takes_place(name) => Form::Place,
        (1, [address]) if is_address(address) => Form::Pointer,
        // What is not known to be a macro is a function, which takes a pointer.
        (1, _) if effect == Some(MemoryEffect::FlushesLine) || !macros.is_macro(name) => {
            Form::Pointer
        }
        (3, _) => Form::Pool(pool_names(name)?),
        _ => return None,
    };
    Some(Idiom {
        name: name.to_owned(),
        form,
        bang: called.bang,
        example: example.first().cloned(),
    })
}

/// The calls that a frame at a position can be inside of: those of a statement, or of any expression on the line.
fn calls_at(
    source: &SourceTree,
    line: u32,
    column: Option<u32>,
    offset: Option<usize>,
) -> Vec<Node<'_>> {
    if let Ok(statement) = Statement::at(source, line, column) {
        return statement.call_at(offset).into_iter().collect();
    }
    let Some(offset) = offset.or_else(|| source.offset(line, column)) else {
        return Vec::new();
    };
    let leaf = source.root().descendant_for_byte_range(offset, offset);
    let mut around = leaf
        .into_iter()
        .flat_map(|leaf| std::iter::once(leaf).chain(ancestors(leaf)));
    let call = around.find(|node| matches!(node.kind(), "call_expression" | "macro_invocation"));
    call.into_iter().collect()
}

/// The arguments of a macro of Rust, which the grammar does not parse.
fn macro_arguments(source: &SourceTree, call: Node<'_>) -> Vec<String> {
    let mut cursor = call.walk();
    let tree = call
        .children(&mut cursor)
        .find(|node| node.kind() == "token_tree");
    let text = tree.map_or("", |tree| source.text_of(tree));
    let inner = text.trim_matches(['(', ')', '[', ']', '{', '}']).trim();
    match inner {
        "" => Vec::new(),
        _ => inner
            .split(',')
            .map(|part| part.trim().to_owned())
            .collect(),
    }
}

/// Whether a name can be used at a position: it is declared before, or it is used in the file without being declared there.
fn is_visible(name: &str, source: &SourceTree, offset: usize, macros: &MacroDefinitions) -> bool {
    let nodes = descendants(source.root());
    let declares = |node: &Node<'_>| {
        matches!(
            node.kind(),
            "function_declarator" | "function_item" | "preproc_function_def" | "macro_definition"
        )
    };
    let declared_name = |node: Node<'_>| {
        let named = node
            .child_by_field_name("declarator")
            .or_else(|| node.child_by_field_name("name"))?;
        Some(source.text_of(named))
    };
    let mut declared = nodes
        .iter()
        .filter(|node| declares(node) && declared_name(**node) == Some(name))
        .peekable();
    if declared.peek().is_some() {
        // The order does not matter in Rust, other than for macros.
        return declared.any(|node| {
            let is_item = node.kind() == "function_item";
            let top = ancestors(*node).all(|up| up.kind() != "impl_item");
            (is_item && top) || (!is_item && node.start_byte() < offset)
        });
    }
    if macros.is_macro(name) {
        return !is_undefined(name, source, offset);
    }
    nodes.iter().any(|node| {
        matches!(node.kind(), "call_expression" | "macro_invocation")
            && callee(source, *node).as_deref() == Some(name)
            && is_plain_call(source, *node)
    })
}

/// The declarations of a function in a file.
fn declarations<'s>(name: &str, source: &'s SourceTree) -> Vec<Node<'s>> {
    let nodes = descendants(source.root()).into_iter();
    let declares = |node: &Node<'s>| match node.kind() {
        "function_declarator" => node.child_by_field_name("declarator"),
        "function_item" => node.child_by_field_name("name"),
        _ => None,
    };
    let found = nodes.filter(|node| declares(node).is_some_and(|at| source.text_of(at) == name));
    found.collect()
}

/// A reference of C++ is given the object itself.
fn in_language(form: Form, language: SourceLanguage) -> Form {
    match (form, language) {
        (Form::Reference, SourceLanguage::C | SourceLanguage::Cpp) => Form::Place,
        _ => form,
    }
}

/// The form in which a function with this signature is called. `None` if it takes something else.
fn form_of(form: Form, signature: &Signature) -> Option<Form> {
    match (&signature.parameters[..], form) {
        ([Taken::Bytes], Form::Pointer) | ([Taken::Bytes, Taken::Number], Form::Range) => {
            Some(form)
        }
        ([Taken::Object], Form::Pointer) => Some(Form::Reference),
        _ => None,
    }
}

/// The namespaces of C++ that a name needs at a position; `None` if it cannot be named there.
fn namespace(name: &str, source: &SourceTree, offset: usize) -> Option<String> {
    let declared = declarations(name, source);
    let Some(function) = declared.first() else {
        return Some(String::new());
    };
    let mut names = Vec::new();
    for around in ancestors(*function) {
        let is_here = around.byte_range().contains(&offset);
        match around.kind() {
            "namespace_definition" if !is_here => {
                let named = around.child_by_field_name("name");
                names.extend(named.map(|named| source.text_of(named)));
            }
            "field_declaration_list" | "impl_item" | "trait_item" => return None,
            "mod_item" if !is_here => return None,
            _ => {}
        }
    }
    names.reverse();
    Some(names.iter().map(|name| format!("{name}::")).collect())
}

/// Whether a name means something else at a position: a variable, a parameter, or a member of the class.
fn is_hidden(name: &str, source: &SourceTree, offset: usize) -> bool {
    let leaf = source.root().descendant_for_byte_range(offset, offset);
    let around: Vec<Node<'_>> = leaf.into_iter().flat_map(ancestors).collect();
    let functions = ["function_definition", "function_item"];
    let Some(function) = around.iter().find(|node| functions.contains(&node.kind())) else {
        return false;
    };
    let is_called = |node: Node<'_>| {
        node.parent().is_some_and(|parent| {
            let called = parent.child_by_field_name("function");
            let called = called.or_else(|| parent.child_by_field_name("macro"));
            called == Some(node) || parent.kind().ends_with("qualified_identifier")
        })
    };
    let is_other_use = |node: &Node<'_>| {
        node.kind() == "identifier" && source.text_of(*node) == name && !is_called(*node)
    };
    if descendants(*function).iter().any(is_other_use) {
        return true;
    }
    // A member of any class counts: which class it is does not always show.
    let declarator = function.child_by_field_name("declarator");
    let is_member = around
        .iter()
        .any(|node| node.kind() == "field_declaration_list")
        || declarator.is_some_and(|node| source.text_of(node).contains("::"));
    let members = declarations(name, source).into_iter();
    let mut members =
        members.filter(|node| ancestors(*node).any(|up| up.kind() == "field_declaration_list"));
    is_member && members.next().is_some()
}

/// Whether a macro loses its definition before a position.
fn is_undefined(name: &str, source: &SourceTree, offset: usize) -> bool {
    let lines = source.text[..offset].lines();
    let mut words = lines.map(|line| line.split_whitespace().collect::<Vec<_>>());
    words.any(|words| words == ["#undef", name])
}

/// Whether a call names only a function: it depends on no object.
fn is_plain_call(source: &SourceTree, call: Node<'_>) -> bool {
    let function = call.child_by_field_name("function");
    function.is_none_or(|function| {
        let text = source.text_of(function);
        text.chars().all(|c| c.is_alphanumeric() || c == '_')
    })
}

/// Whether the position is inside the function of that name: the repair must not call what it is a part of.
fn calls_itself(name: &str, source: &SourceTree, offset: usize) -> bool {
    let leaf = source.root().descendant_for_byte_range(offset, offset);
    let mut around = leaf.into_iter().flat_map(ancestors);
    around.any(|node| {
        let names = node
            .child_by_field_name("declarator")
            .or_else(|| node.child_by_field_name("name"));
        matches!(node.kind(), "function_definition" | "function_item")
            && names.is_some_and(|names| {
                descendants(names)
                    .iter()
                    .any(|part| part.kind() == "identifier" && source.text_of(*part) == name)
            })
    })
}

/// Whether a C or C++ file includes a header.
pub(crate) fn includes(source: &SourceTree, header: &str) -> bool {
    source.language != SourceLanguage::Rust
        && source.text.lines().any(|line| {
            let line = line.trim_start();
            line.starts_with('#') && line.contains("include") && line.contains(header)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "static void flush(const void *p, size_t n) { clwb(p); }\n\
        static void persist(const void *p, size_t n)\n\
        {\n\
        \tflush(p, n);\n\
        \t_mm_sfence();\n\
        }\n\
        void put(struct s *s)\n\
        {\n\
        \ts->x = 1;\n\
        \tpersist(&s->x, sizeof s->x);\n\
        }\n";

    fn observed() -> (SourceTree, Idioms) {
        let source = SourceTree::new("x.c", TEXT.to_owned()).unwrap();
        let mut idioms = Idioms::default();
        idioms.observe(&source, 1, Some(46), CallEffect::Flush);
        idioms.observe(&source, 4, Some(2), CallEffect::Flush);
        idioms.observe(&source, 5, Some(2), CallEffect::Fence);
        idioms.observe(&source, 10, Some(2), CallEffect::Flush);
        idioms.observe(&source, 10, Some(2), CallEffect::Fence);
        (source, idioms)
    }

    fn name(deed: Deed, line: u32) -> Option<String> {
        let (source, idioms) = observed();
        let offset = source.offset(line, None).unwrap();
        let macros = MacroDefinitions::default();
        let found = idioms.find(deed, &source, offset, false, &macros);
        found.map(|idiom| idiom.name)
    }

    #[test]
    fn helpers_are_known_by_what_happens_in_them() {
        assert_eq!(name(Deed::Flush, 9).as_deref(), Some("flush"));
        assert_eq!(name(Deed::Persist, 9).as_deref(), Some("persist"));
        assert_eq!(name(Deed::Fence, 9).as_deref(), Some("_mm_sfence"));
    }

    #[test]
    fn a_helper_is_not_used_before_it_is_declared_or_in_itself() {
        assert_eq!(name(Deed::Persist, 1), None);
        assert_eq!(name(Deed::Persist, 4), None);
    }

    #[test]
    fn a_macro_that_is_given_an_address_takes_a_pointer() {
        let text = "#define FLUSH(place) _mm_clflush(place)\nvoid f(struct s *s)\n{\n\tFLUSH(&s->x);\n\ts->y = 1;\n}\n";
        let source = SourceTree::new("x.c", text.to_owned()).unwrap();
        let mut idioms = Idioms::default();
        idioms.observe(&source, 4, Some(2), CallEffect::Flush);
        let macros = MacroDefinitions::of(&source, &|_, _| None);
        let offset = source.offset(5, None).unwrap();
        let found = idioms.find(Deed::Flush, &source, offset, true, &macros);
        assert_eq!(found.map(|idiom| idiom.form), Some(Form::Pointer));
    }

    #[test]
    fn a_function_that_also_stores_is_no_idiom() {
        let (source, mut idioms) = observed();
        idioms.observe(&source, 10, Some(2), CallEffect::Store);
        let offset = source.offset(9, None).unwrap();
        let found = idioms.find(
            Deed::Persist,
            &source,
            offset,
            true,
            &MacroDefinitions::default(),
        );
        assert_eq!(found, None);
    }

    #[test]
    fn a_function_that_takes_something_else_is_no_idiom() {
        let found = |parameters: &str, arguments: &str| {
            let text = format!(
                "void put(struct s *s)\n{{\n\ts->x = 1;\n\tpersist({arguments});\n}}\nvoid persist({parameters});\n"
            );
            let helper = format!("void persist({parameters})\n{{\n\tclwb(0);\n}}\n");
            let helper = SourceTree::new("y.c", helper).unwrap();
            let source = SourceTree::new(
                "x.c",
                text.replace(&format!("void persist({parameters});\n"), ""),
            )
            .unwrap();
            let mut idioms = Idioms::default();
            idioms.observe(&helper, 3, Some(2), CallEffect::Flush);
            idioms.observe(&source, 4, Some(2), CallEffect::Flush);
            let offset = source.offset(3, None).unwrap();
            let macros = MacroDefinitions::default();
            let found = idioms.find(Deed::Flush, &source, offset, true, &macros);
            found.map(|idiom| idiom.form)
        };
        assert_eq!(found("void *p, size_t n", "s, 8"), Some(Form::Range));
        assert_eq!(found("struct s *s, int level", "s, 8"), None);
        assert_eq!(found("struct s *s", "s"), None);
        assert_eq!(found("void *p, struct pool *q", "s, q"), None);
    }

    #[test]
    fn a_flush_of_one_line_is_used_only_for_what_is_in_one_line() {
        let text = "void f(struct s *s)\n{\n\t_mm_clwb(&s->x);\n\ts->y = 1;\n}\n";
        let source = SourceTree::new("x.c", text.to_owned()).unwrap();
        let mut idioms = Idioms::default();
        idioms.observe(&source, 3, Some(2), CallEffect::Flush);
        let macros = MacroDefinitions::default();
        let offset = source.offset(4, None).unwrap();
        let one = idioms
            .find(Deed::Flush, &source, offset, true, &macros)
            .unwrap();
        assert_eq!((one.name.as_str(), one.form), ("_mm_clwb", Form::Pointer));
        assert_eq!(
            idioms.find(Deed::Flush, &source, offset, false, &macros),
            None
        );
    }
}
