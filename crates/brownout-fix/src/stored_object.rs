//! What a statement stores to: the expression of its address, and of its length.
//!
//! Stores are assignments, increments, calls of the C library's copying functions, atomic operations, and uses of macros whose
//! definition shows one of these. An expression that has an effect of its own (`*p++ = x`) cannot be written a second time: its
//! address is saved before the store.
//!
//! Can miss: stores of functions that are called, which have frames of their own; inline assembly; operators that a C++ class
//! overloads.

use std::ops::Range;

use brownout_libraries::{MemoryEffect, StoredLength, converts_identifier, memory_effect};
use tree_sitter::Node;

use crate::RepairRefusal;
use crate::arch::{is_streaming_store, vector_length};
use crate::evaluation::{
    MemoryKind, changes_own_address, memory_read, order_matters, reads_object,
};
use crate::macros::MacroDefinitions;
use crate::rust_receiver::{Receiver, StoringMethod, WHOLE_SLICE};
use crate::span::{SourceSpan, StoreSpan};
use crate::statement::Statement;
use crate::statement_part::is_conditional;
use crate::syntax::{SourceLanguage, SourceTree, ancestors, descendants};

/// The object that a store changes, as source text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StoredObject {
    /// An expression of pointer type.
    pub address: String,
    /// The object itself, if it is an expression that can be assigned to.
    pub place: Option<String>,
    /// Its length in bytes, as an expression; that of `place` if there is none.
    pub length: Option<String>,
    /// The bytes of the assigned expression that have an effect: the address has to be saved there.
    pub saved: Option<Range<usize>>,
    /// The condition on which there is an object at all.
    pub guard: Option<String>,
}

/// An expression of a statement that stores.
struct StoreExpression<'s> {
    node: Node<'s>,
    /// The bytes that debug information names.
    operator: Range<usize>,
    target: StoreTarget<'s>,
}

enum StoreTarget<'s> {
    /// An expression that is assigned to.
    Place(Node<'s>),
    /// An expression of a pointer, and of a number of bytes.
    Bytes(Node<'s>, Length<'s>),
    /// What a method of Rust is called on, which may only refer to the object.
    Receiver(Node<'s>, Receiver),
    /// A macro, with its object and what was substituted for.
    Macro(StoredObject),
}

enum Length<'s> {
    Of(Node<'s>),
    /// That of the string which is there now.
    String,
    /// That of what the pointer points to.
    Pointee,
    Constant(&'static str),
    /// So many elements of what the pointer points to.
    Elements(Node<'s>),
}

impl StoredObject {
    /// The object of the store at a position of a statement.
    pub fn of(
        statement: &Statement<'_>,
        line: u32,
        column: Option<u32>,
        macros: &MacroDefinitions,
    ) -> Result<Self, RepairRefusal> {
        let source = statement.source;
        let file = source.path.clone();
        let stores = stores_to_memory(statement, macros);
        let offset = source.offset(line, column);
        let Some(chosen) = choose(&stores, column.and(offset)) else {
            return Err(match stores.is_empty() {
                true => no_store(statement, line, offset, macros),
                false => RepairRefusal::SeveralStores { file, line },
            });
        };
        chosen.object(source, line, statement, macros)
    }

    /// What the address, the length and the guard read from memory; `None` if that is not known.
    pub fn memory_read(&self, language: SourceLanguage) -> Option<Vec<MemoryKind>> {
        let mut found = Vec::new();
        let texts = [
            Some(&self.address),
            self.length.as_ref(),
            self.guard.as_ref(),
        ];
        for text in texts.into_iter().flatten() {
            let tree = SourceTree::of_expression(text, language)?;
            found.extend(memory_read(&tree, tree.expression()?));
        }
        Some(found)
    }

    /// Whether its length is that of the string which is there.
    pub fn is_text(&self) -> bool {
        let length = self.length.as_deref();
        length.is_some_and(|length| length.starts_with("strlen("))
    }

    /// Whether it is an object of Rust that cannot be named as such: a slice, or what only a pointer is known of.
    pub fn is_nameless(&self, language: SourceLanguage) -> bool {
        let place = self.place.as_deref();
        let is_whole_slice = place.is_some_and(|place| place.ends_with(WHOLE_SLICE));
        let has_only_pointer = place.is_none() && self.address.ends_with(".as_ptr()");
        self.guard.is_some()
            || (language == SourceLanguage::Rust && (is_whole_slice || has_only_pointer))
    }

    /// Whether a position says which of the stores of a statement is meant.
    pub fn is_clear(
        statement: &Statement<'_>,
        line: u32,
        column: Option<u32>,
        macros: &MacroDefinitions,
    ) -> bool {
        let offset = column.and_then(|_| statement.source.offset(line, column));
        choose(&stores_to_memory(statement, macros), offset).is_some()
    }

    /// Where the store at a position of a statement is, and how many stores the statement has.
    pub fn store_span(
        statement: &Statement<'_>,
        line: u32,
        column: Option<u32>,
        macros: &MacroDefinitions,
    ) -> (StoreSpan, usize) {
        let source = statement.source;
        let stores = stores_to_memory(statement, macros);
        let offset = column.and_then(|_| source.offset(line, column));
        let whole = StoreSpan {
            span: statement.span(),
            others: Vec::new(),
        };
        let Some(chosen) = choose(&stores, offset).filter(|_| stores.len() > 1) else {
            return (whole, stores.len());
        };
        let around = chosen.node.byte_range();
        let nodes = stores.iter().map(|store| store.node.byte_range());
        let inside = nodes.filter(|range| {
            *range != around && around.start <= range.start && range.end <= around.end
        });
        let span = StoreSpan {
            others: inside.map(|range| SourceSpan::of(source, range)).collect(),
            span: SourceSpan::of(source, around),
        };
        (span, stores.len())
    }
}

/// All objects that a statement stores to, as far as they can be named.
pub(crate) fn stored_places(
    statement: &Statement<'_>,
    macros: &MacroDefinitions,
) -> Vec<StoredObject> {
    let source = statement.source;
    let line = source.line_of(statement.node.start_byte());
    let stores = stores_to_memory(statement, macros).into_iter();
    let objects = stores.map(|store| store.object(source, line, statement, macros));
    objects.filter_map(Result::ok).collect()
}

/// The columns of the stores of a statement, each with its line.
pub(crate) fn store_positions(
    statement: &Statement<'_>,
    macros: &MacroDefinitions,
) -> Vec<(u32, u32)> {
    let stores = stores_to_memory(statement, macros).into_iter();
    stores
        .map(|store| SourceSpan::of(statement.source, store.operator).start)
        .collect()
}

/// The variable from which an address is computed.
pub(crate) fn root_variable(address: &str, language: SourceLanguage) -> Option<String> {
    let tree = SourceTree::of_expression(address, language)?;
    let nodes = descendants(tree.expression()?).into_iter();
    let mut names = nodes.filter(|node| matches!(node.kind(), "identifier" | "this" | "self"));
    names.next().map(|node| tree.text_of(node).to_owned())
}

/// The stores of a statement that can be to persistent memory. A variable of C is not there. One of C++ can be a reference.
fn stores_to_memory<'s>(
    statement: &Statement<'s>,
    macros: &MacroDefinitions,
) -> Vec<StoreExpression<'s>> {
    let mut stores = store_expressions(statement, macros);
    let mut in_memory = stores.iter().filter(|store| !store.is_to_variable());
    if statement.source.language == SourceLanguage::C || in_memory.next().is_some() {
        stores.retain(|store| !store.is_to_variable());
    }
    stores
}

fn no_store(
    statement: &Statement<'_>,
    line: u32,
    offset: Option<usize>,
    macros: &MacroDefinitions,
) -> RepairRefusal {
    let source = statement.source;
    let file = source.path.clone();
    let called = statement
        .call_at(offset)
        .and_then(|call| callee(source, call));
    match called.filter(|name| macros.is_macro(name)) {
        Some(name) => RepairRefusal::MacroUse { file, line, name },
        None => RepairRefusal::NoStore { file, line },
    }
}

/// The store that a position means: the one whose operator is there, or the innermost around it, or the only one.
fn choose<'a, 's>(
    stores: &'a [StoreExpression<'s>],
    offset: Option<usize>,
) -> Option<&'a StoreExpression<'s>> {
    if let Some(offset) = offset {
        let at = stores.iter().find(|store| store.operator.contains(&offset));
        let around = stores
            .iter()
            .filter(|store| store.node.byte_range().contains(&offset));
        let around = around.min_by_key(|store| store.node.byte_range().len());
        if let Some(found) = at.or(around) {
            return Some(found);
        }
    }
    match stores {
        [only] => Some(only),
        _ => None,
    }
}

fn store_expressions<'s>(
    statement: &Statement<'s>,
    macros: &MacroDefinitions,
) -> Vec<StoreExpression<'s>> {
    let source = statement.source;
    let nodes = descendants(statement.node).into_iter();
    // What a function inside the statement stores happens at another time.
    let nodes = nodes.filter(|node| {
        let mut around = ancestors(*node).take_while(|up| up.id() != statement.node.id());
        !around.any(|up| matches!(up.kind(), "lambda_expression" | "closure_expression"))
    });
    nodes
        .filter_map(|node| store_expression(source, node, macros))
        .collect()
}

fn store_expression<'s>(
    source: &SourceTree,
    node: Node<'s>,
    macros: &MacroDefinitions,
) -> Option<StoreExpression<'s>> {
    let field = |name| node.child_by_field_name(name);
    match node.kind() {
        "assignment_expression" | "compound_assignment_expr" => {
            let left = field("left")?;
            let operator = field("operator").map(|operator| operator.byte_range());
            let gap = left.end_byte()..field("right")?.start_byte();
            Some(StoreExpression {
                node,
                operator: operator.unwrap_or(gap),
                target: StoreTarget::Place(left),
            })
        }
        "update_expression" => Some(StoreExpression {
            node,
            operator: node.byte_range(),
            target: StoreTarget::Place(field("argument")?),
        }),
        "call_expression" | "macro_invocation" => {
            let target = call_target(source, node, macros)?;
            Some(StoreExpression {
                node,
                operator: node.start_byte()..node.start_byte() + 1,
                target,
            })
        }
        _ => None,
    }
}

/// The name of the function or macro that is called, without the path or object before it.
pub(crate) fn callee(source: &SourceTree, call: Node<'_>) -> Option<String> {
    let function = call
        .child_by_field_name("function")
        .or_else(|| call.child_by_field_name("macro"))?;
    let text = source.text_of(function);
    let text = text.split("::<").next().unwrap_or(text);
    let name = text.rsplit(['.', '>', ':', ' ']).next().unwrap_or(text);
    Some(name.trim().to_owned())
}

/// The arguments of a call, without comments.
pub(crate) fn arguments<'s>(call: Node<'s>) -> Vec<Node<'s>> {
    let Some(list) = call.child_by_field_name("arguments") else {
        return Vec::new();
    };
    let mut cursor = list.walk();
    let named = list.named_children(&mut cursor);
    named
        .filter(|node| !node.kind().ends_with("comment"))
        .collect()
}

fn call_target<'s>(
    source: &SourceTree,
    call: Node<'s>,
    macros: &MacroDefinitions,
) -> Option<StoreTarget<'s>> {
    let name = callee(source, call)?;
    let arguments = arguments(call);
    let argument = |index: usize| arguments.get(index).copied();
    let bytes = |target, length| Some(StoreTarget::Bytes(target, length));
    if source.language == SourceLanguage::Rust {
        return rust_call(source, call, &name, &arguments);
    }
    let name_without_prefix = name.trim_start_matches("__builtin_");
    if let Some(target) = stored_by_library(name_without_prefix, &arguments) {
        return Some(target);
    }
    match name_without_prefix {
        name if is_atomic(name) => bytes(argument(0)?, Length::Pointee),
        name if vector_length(name).is_some() => {
            let length = vector_length(name).unwrap_or_default();
            bytes(argument(0)?, Length::Constant(length))
        }
        name if is_streaming_store(name) => bytes(argument(0)?, Length::Pointee),
        // A method of an atomic object.
        "store" | "exchange" | "fetch_add" | "fetch_sub" | "fetch_or" | "fetch_and"
        | "fetch_xor" => {
            let function = call.child_by_field_name("function")?;
            let object = function
                .child_by_field_name("argument")
                .filter(|_| function.kind() == "field_expression")?;
            let operator = function.child_by_field_name("operator");
            match operator.is_some_and(|operator| source.text_of(operator) == "->") {
                true => bytes(object, Length::Pointee),
                false => Some(StoreTarget::Place(object)),
            }
        }
        _ => {
            let texts: Vec<&str> = arguments.iter().map(|node| source.text_of(*node)).collect();
            if arguments.iter().any(|node| has_effect(source, *node)) {
                return None;
            }
            macros.stored_object(&name, &texts).map(StoreTarget::Macro)
        }
    }
}

/// What a call of a function of the C library stores to.
fn stored_by_library<'s>(name: &str, arguments: &[Node<'s>]) -> Option<StoreTarget<'s>> {
    let argument = |index: u8| arguments.get(usize::from(index)).copied();
    let Some(MemoryEffect::Stores { to, length }) = memory_effect(name) else {
        return None;
    };
    let length = match length {
        StoredLength::Argument(index) => Length::Of(argument(index)?),
        StoredLength::Text => Length::String,
        _ => return None,
    };
    Some(StoreTarget::Bytes(argument(to)?, length))
}

/// An operation of a compiler or of C11 that changes the word at its first argument.
fn is_atomic(name: &str) -> bool {
    let families = ["__atomic_", "__sync_", "atomic_"];
    let only_reads =
        name.contains("load") || name.contains("fence") || name.contains("is_lock_free");
    !only_reads && families.iter().any(|family| name.starts_with(family))
}

fn rust_call<'s>(
    source: &SourceTree,
    call: Node<'s>,
    name: &str,
    arguments: &[Node<'s>],
) -> Option<StoreTarget<'s>> {
    let function = call.child_by_field_name("function")?;
    let receiver = function
        .child_by_field_name("value")
        .filter(|_| function.kind() == "field_expression");
    match (name, receiver, arguments) {
        ("write" | "write_volatile" | "write_unaligned", Some(pointer), [_]) => {
            Some(StoreTarget::Bytes(pointer, Length::Pointee))
        }
        ("write" | "write_volatile" | "write_unaligned", None, [pointer, _])
            if source.text_of(function).contains("ptr") =>
        {
            Some(StoreTarget::Bytes(*pointer, Length::Pointee))
        }
        ("copy_nonoverlapping" | "copy", None, [_, to, count]) => {
            Some(StoreTarget::Bytes(*to, Length::Elements(*count)))
        }
        ("write_bytes", None, [to, _, count]) => {
            Some(StoreTarget::Bytes(*to, Length::Elements(*count)))
        }
        (
            "store" | "swap" | "fetch_add" | "fetch_sub" | "fetch_or" | "fetch_and",
            Some(receiver),
            [_, _],
        ) => Some(receiver_target(source, receiver, StoringMethod::Atomic)),
        ("copy_from_slice" | "fill" | "clone_from_slice", Some(receiver), [_]) => {
            Some(receiver_target(source, receiver, StoringMethod::Slice))
        }
        _ => None,
    }
}

fn receiver_target<'s>(
    source: &SourceTree,
    receiver: Node<'s>,
    method: StoringMethod,
) -> StoreTarget<'s> {
    match Receiver::of(source, receiver, method) {
        Receiver::Object => StoreTarget::Place(receiver),
        other => StoreTarget::Receiver(receiver, other),
    }
}

impl StoreExpression<'_> {
    fn is_to_variable(&self) -> bool {
        matches!(self.target, StoreTarget::Place(place) if place.kind() == "identifier")
    }

    fn object(
        &self,
        source: &SourceTree,
        line: u32,
        statement: &Statement<'_>,
        macros: &MacroDefinitions,
    ) -> Result<StoredObject, RepairRefusal> {
        let refuse_changed = |nodes: &[Node<'_>]| {
            for node in nodes {
                if self.is_changed_later(source, *node, statement) {
                    return Err(RepairRefusal::Changes {
                        file: source.path.clone(),
                        line,
                        object: source.text_of(*node).to_owned(),
                    });
                }
            }
            Ok(())
        };
        if is_conditional(source, statement.node, self.node) {
            return Err(RepairRefusal::NoPlace {
                file: source.path.clone(),
                line,
                part: "an expression that is not always evaluated",
            });
        }
        match &self.target {
            StoreTarget::Macro(object) => Ok(object.clone()),
            StoreTarget::Receiver(receiver, kind) => {
                refuse_changed(&[*receiver])?;
                let text = source.text_of(*receiver);
                match has_effect(source, *receiver) {
                    true => Err(RepairRefusal::Changes {
                        file: source.path.clone(),
                        line,
                        object: text.to_owned(),
                    }),
                    false => Ok(kind.object(text)),
                }
            }
            StoreTarget::Place(place) => {
                refuse_changed(&[*place])?;
                let mut object = place_object(source, *place, line, macros)?;
                if has_effect(source, *place) || changes_own_address(source, *place) {
                    if order_matters(source, statement, self.node, *place) {
                        return Err(RepairRefusal::Order {
                            file: source.path.clone(),
                            line,
                            object: source.text_of(*place).to_owned(),
                        });
                    }
                    object.saved = Some(place.byte_range());
                }
                Ok(object)
            }
            StoreTarget::Bytes(pointer, length) => {
                refuse_changed(&[*pointer])?;
                let text = source.text_of(*pointer).to_owned();
                // A reference of Rust is no pointer, but names its object.
                if let Some(place) = text.strip_prefix("&mut ")
                    && matches!(length, Length::Pointee)
                    && !has_effect(source, *pointer)
                {
                    return Ok(StoredObject {
                        address: format!("&raw const {place}"),
                        place: Some(place.to_owned()),
                        length: None,
                        saved: None,
                        guard: None,
                    });
                }
                let (length, extra) = length_text(source, &text, length);
                let is_changed = |length: Node<'_>| {
                    has_effect(source, length) || reads_object(source, length, &text)
                };
                if has_effect(source, *pointer) || extra.is_some_and(is_changed) {
                    return Err(RepairRefusal::Changes {
                        file: source.path.clone(),
                        line,
                        object: text,
                    });
                }
                refuse_changed(extra.as_slice())?;
                Ok(StoredObject {
                    address: text,
                    place: None,
                    length: Some(length),
                    saved: None,
                    guard: None,
                })
            }
        }
    }

    /// Whether the statement changes, outside of the store, a variable that the expression depends on.
    fn is_changed_later(
        &self,
        source: &SourceTree,
        expression: Node<'_>,
        statement: &Statement<'_>,
    ) -> bool {
        let is_name = |node: &Node<'_>| matches!(node.kind(), "identifier" | "this");
        let used: Vec<&str> = descendants(expression)
            .iter()
            .filter(|node| is_name(node))
            .map(|node| source.text_of(*node))
            .collect();
        let written = descendants(statement.node).into_iter().filter_map(|node| {
            let inside = expression.byte_range();
            let is_inside = inside.start <= node.start_byte() && node.end_byte() <= inside.end;
            let target = match node.kind() {
                "assignment_expression" | "compound_assignment_expr" => {
                    node.child_by_field_name("left")
                }
                "update_expression" => node.child_by_field_name("argument"),
                // A function that is given the address of a variable can change it.
                "pointer_expression" if source.text_of(node).starts_with('&') => {
                    node.child_by_field_name("argument")
                }
                _ => None,
            };
            let is_own = node.id() == self.node.id();
            target.filter(|_| !is_inside && !is_own)
        });
        let mut names = written.filter(|target| is_name(target));
        names.any(|target| used.contains(&source.text_of(target)))
    }
}

/// The length as text, and the expression that it repeats.
fn length_text<'s>(
    source: &SourceTree,
    pointer: &str,
    length: &Length<'s>,
) -> (String, Option<Node<'s>>) {
    let rust = source.language == SourceLanguage::Rust;
    match length {
        Length::Of(node) => (source.text_of(*node).to_owned(), Some(*node)),
        Length::Constant(length) => ((*length).to_owned(), None),
        Length::String => (format!("strlen({pointer}) + 1"), None),
        Length::Pointee if rust => (
            format!("std::mem::size_of_val(&*{})", primary(pointer)),
            None,
        ),
        Length::Pointee => (format!("sizeof(*{})", primary(pointer)), None),
        Length::Elements(count) => {
            let count_text = source.text_of(*count);
            (
                format!(
                    "({count_text}) * std::mem::size_of_val(&*{})",
                    primary(pointer)
                ),
                Some(*count),
            )
        }
    }
}

/// The expression in parentheses, unless it is a name or has them.
pub(crate) fn primary(expression: &str) -> String {
    let is_word = expression.chars().all(|c| c.is_alphanumeric() || c == '_');
    match is_word {
        true => expression.to_owned(),
        false => format!("({expression})"),
    }
}

fn place_object(
    source: &SourceTree,
    place: Node<'_>,
    line: u32,
    macros: &MacroDefinitions,
) -> Result<StoredObject, RepairRefusal> {
    let mut inner = place;
    while inner.kind() == "parenthesized_expression"
        && let Some(child) = inner.named_child(0)
    {
        inner = child;
    }
    let text = source.text_of(inner).to_owned();
    // A macro without a semicolon before `*p = 1` looks like a product.
    if inner.kind() == "binary_expression" {
        return Err(RepairRefusal::NoStore {
            file: source.path.clone(),
            line,
        });
    }
    let pointer = match inner.kind() {
        "pointer_expression" if text.starts_with('*') => inner.child_by_field_name("argument"),
        "unary_expression" if text.starts_with('*') => inner.named_child(0),
        _ => None,
    };
    if let Some(field) = inner.child_by_field_name("field")
        && macros.is_bit_field(source.text_of(field))
    {
        return Err(RepairRefusal::BitField {
            file: source.path.clone(),
            line,
            object: text,
        });
    }
    // In safe Rust, this is no raw pointer but a reference.
    let is_reference = source.language == SourceLanguage::Rust && !is_unsafe(source, inner);
    let address = match (pointer.filter(|_| !is_reference), source.language) {
        (Some(pointer), _) => source.text_of(pointer).to_owned(),
        (None, SourceLanguage::Rust) => format!("&raw const {text}"),
        (None, _) => format!("&{text}"),
    };
    Ok(StoredObject {
        address,
        place: Some(text),
        length: None,
        saved: None,
        guard: None,
    })
}

/// Whether a node of Rust is in an unsafe block or function.
pub(crate) fn is_unsafe(source: &SourceTree, node: Node<'_>) -> bool {
    ancestors(node).any(|around| match around.kind() {
        "unsafe_block" => true,
        "function_item" => is_unsafe_function(source, around),
        _ => false,
    })
}

fn is_unsafe_function(source: &SourceTree, function: Node<'_>) -> bool {
    let mut cursor = function.walk();
    let modifiers = function
        .children(&mut cursor)
        .find(|child| child.kind() == "function_modifiers");
    modifiers.is_some_and(|modifiers| source.text_of(modifiers).contains("unsafe"))
}

/// The names of the bit-fields of structures in a file.
pub(crate) fn bit_fields(source: &SourceTree) -> Vec<String> {
    let nodes = descendants(source.root()).into_iter();
    let clauses = nodes.filter(|node| node.kind() == "bitfield_clause");
    // One declaration can have several, each after its name.
    let names = clauses.filter_map(|clause| clause.prev_named_sibling());
    names
        .filter(|name| name.kind() == "field_identifier")
        .map(|name| source.text_of(name).to_owned())
        .collect()
}

/// Whether an expression does something when it is evaluated.
pub(crate) fn has_effect(source: &SourceTree, expression: Node<'_>) -> bool {
    descendants(expression)
        .into_iter()
        .any(|node| has_own_effect(source, node))
}

/// Whether a node does something when it is evaluated, apart from its operands.
pub(crate) fn has_own_effect(source: &SourceTree, node: Node<'_>) -> bool {
    match node.kind() {
        "call_expression" => {
            let name = callee(source, node).unwrap_or_default();
            let function = node.child_by_field_name("function");
            let is_method = function.is_some_and(|node| node.kind() == "field_expression");
            let is_pure = match memory_effect(&name) {
                Some(MemoryEffect::ComputesAddress) => true,
                Some(MemoryEffect::ComputesAddressAsMethod) => is_method,
                _ => converts_identifier(&name),
            };
            !is_pure
        }
        "assignment_expression"
        | "compound_assignment_expr"
        | "update_expression"
        | "macro_invocation"
        | "await_expression"
        | "new_expression" => true,
        _ => false,
    }
}

#[cfg(test)]
#[path = "stored_object_tests.rs"]
mod tests;
