//! When the address of a store can be computed: before the store, after it, or at neither time.
//!
//! A repair writes the address a second time, after the store. It must mean the same object there, although the store has changed memory
//! that the address may depend on (`t[t[3].next].next = 5`). Otherwise the address is saved before the statement. That moves its
//! evaluation before that of the rest of the statement, which C leaves open, and which C++ and Rust define to be the other way
//! round (C++17, [expr.ass]). It is done only where nothing can depend on this order.
//!
//! Can miss: objects that are changed through a name of another type or field (unions, casts), and overloaded operators.

use std::ops::Range;

use tree_sitter::Node;

use crate::statement::Statement;
use crate::stored_object::{has_effect, has_own_effect};
use crate::syntax::{SourceLanguage, SourceTree, ancestors, descendants};

/// An access to memory in an expression.
enum Access<'s> {
    /// A field of this name.
    Field(&'s str),
    /// An element of an array, or what a pointer points to.
    Element,
}

/// What the address of a place is computed from.
struct AddressLoads<'s> {
    source: &'s SourceTree,
    loads: Vec<Node<'s>>,
}

/// A kind of memory that an expression reads or a statement changes: a store to one kind does not change the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum MemoryKind {
    /// A field of this name.
    Field(String),
    /// An element of an array, or what a pointer points to.
    Element,
}

/// The memory that the value of an expression is computed from.
pub(crate) fn memory_read(source: &SourceTree, value: Node<'_>) -> Vec<MemoryKind> {
    let mut reads = AddressLoads {
        source,
        loads: Vec::new(),
    };
    reads.add_value(value);
    let kinds = reads.loads.iter();
    kinds
        .filter_map(|load| memory_kind(source, *load))
        .collect()
}

/// The kind of memory that an expression names, if it is not a variable.
pub(crate) fn memory_kind(source: &SourceTree, place: Node<'_>) -> Option<MemoryKind> {
    Some(match access(source, without_parentheses(place))? {
        Access::Field(name) => MemoryKind::Field(name.to_owned()),
        Access::Element => MemoryKind::Element,
    })
}

/// Whether a store to a place can change what its address is computed from.
pub(crate) fn changes_own_address<'s>(source: &'s SourceTree, place: Node<'s>) -> bool {
    let place = without_parentheses(place);
    let Some(stored) = access(source, place) else {
        return false;
    };
    let mut address = AddressLoads {
        source,
        loads: Vec::new(),
    };
    address.add_place(place);
    let base = base(place).map(|base| source.text_of(base));
    address.loads.iter().any(|&load| {
        let text = source.text_of(load);
        match (&stored, access(source, load)) {
            (Access::Field(stored), Some(Access::Field(loaded))) => *stored == loaded,
            (Access::Element, Some(Access::Element)) => true,
            // The element may be a structure that has this field.
            (Access::Element, Some(Access::Field(_))) => {
                base.is_some_and(|base| is_part_of(text, base))
            }
            (Access::Field(_), Some(Access::Element)) | (_, None) => false,
        }
    })
}

/// Whether an expression reads memory at a pointer, or in the object that an address is of.
pub(crate) fn reads_object(source: &SourceTree, expression: Node<'_>, address: &str) -> bool {
    let object = address.trim_start_matches('&').trim();
    let accesses = descendants(expression).into_iter().filter(|node| {
        let mut around = ancestors(*node).take_while(|up| up.id() != expression.id());
        let is_size = |node: &Node<'_>| node.kind() == "sizeof_expression";
        access(source, *node).is_some() && !is_size(&expression) && !around.any(|up| is_size(&up))
    });
    let mut texts = accesses.map(|node| source.text_of(node));
    texts.any(|text| {
        let text = text.trim_start_matches(['(', '*']);
        is_part_of(text, object) || text.starts_with(&format!("{object})")) || text == object
    })
}

/// Whether the rest of a statement, outside of the address and of the store, may be evaluated before or after the address with
/// different results.
pub(crate) fn order_matters(
    source: &SourceTree,
    statement: &Statement<'_>,
    store: Node<'_>,
    place: Node<'_>,
) -> bool {
    let inside = place.byte_range();
    let rest: Vec<Node<'_>> = descendants(statement.node)
        .into_iter()
        .filter(|node| !is_within(node.byte_range(), &inside) && node.id() != store.id())
        .collect();
    let effects: Vec<Node<'_>> = rest
        .iter()
        .filter(|node| has_own_effect(source, **node))
        .copied()
        .collect();
    let address = descendants(place);
    // What counts another variable of the function up cannot be seen from the address.
    let is_apart = |effect: &Node<'_>| {
        let changed = changed_variable(source, *effect);
        changed.is_some_and(|name| {
            let is_named = address.iter().any(|node| source.text_of(*node) == name);
            source.language == SourceLanguage::C && !is_named && is_private(statement, name)
        })
    };
    if !effects.iter().all(is_apart) {
        return true;
    }
    if !has_effect(source, place) {
        return false;
    }
    let changed: Option<Vec<&str>> = address
        .iter()
        .filter(|node| has_own_effect(source, **node))
        .map(|node| changed_variable(source, *node))
        .collect();
    let is_around = |node: &Node<'_>| is_within(inside.clone(), &node.byte_range());
    let beside: Vec<Node<'_>> = rest.into_iter().filter(|node| !is_around(node)).collect();
    let names = beside.iter().filter(|node| node.kind() == "identifier");
    let mut names = names.map(|node| source.text_of(*node));
    match changed {
        Some(changed) => names.any(|name| changed.contains(&name)),
        // It may change anything but variables that it does not know.
        None => {
            let is_known = |name: &str| address.iter().any(|node| source.text_of(*node) == name);
            beside.iter().any(|node| access(source, *node).is_some())
                || names.any(|name| is_known(name) || !is_local(statement, name))
        }
    }
}

/// The variable that is all that an expression changes by itself.
fn changed_variable<'s>(source: &'s SourceTree, node: Node<'_>) -> Option<&'s str> {
    let target = match node.kind() {
        "assignment_expression" | "compound_assignment_expr" => node.child_by_field_name("left"),
        "update_expression" => node.child_by_field_name("argument"),
        _ => None,
    };
    let variable = target.filter(|target| target.kind() == "identifier")?;
    Some(source.text_of(variable))
}

/// Whether a name is a variable of the function itself: a reference of C++ can be anything.
pub(crate) fn is_local(statement: &Statement<'_>, name: &str) -> bool {
    let Some(function) = statement.function() else {
        return false;
    };
    descendants(function).into_iter().any(|node| {
        let is_name = node.kind() == "identifier" && statement.source.text_of(node) == name;
        let declares = node.parent().is_some_and(|parent| match parent.kind() {
            "parameter_declaration"
            | "declaration"
            | "pointer_declarator"
            | "array_declarator"
            | "parameter" => true,
            "init_declarator" => parent.child_by_field_name("declarator") == Some(node),
            "let_declaration" => parent.child_by_field_name("pattern") == Some(node),
            _ => false,
        });
        is_name && declares
    })
}

/// Whether a name is a variable of the function whose address nothing takes: only the function itself changes and reads it.
fn is_private(statement: &Statement<'_>, name: &str) -> bool {
    let source = statement.source;
    let Some(function) = statement.function() else {
        return false;
    };
    let takes_address = |node: &Node<'_>| {
        let operand = node.child_by_field_name("argument");
        let is_address =
            node.kind() == "pointer_expression" && source.text_of(*node).starts_with('&');
        let operand = operand.filter(|_| is_address).map(without_parentheses);
        operand.is_some_and(|operand| source.text_of(operand) == name)
    };
    is_local(statement, name) && !descendants(function).iter().any(takes_address)
}

impl<'s> AddressLoads<'s> {
    /// What the address of a place is computed from.
    fn add_place(&mut self, place: Node<'s>) {
        let place = without_parentheses(place);
        let Some(base) = base(place) else {
            return self.add_value(place);
        };
        let operator = place.child_by_field_name("operator");
        let operator = operator.map(|operator| self.source.text_of(operator));
        match place.kind() {
            "field_expression" if operator == Some("->") => self.add_value(base),
            // What the dot of Rust stands after can be a reference, but nothing can be stored over that as long as it is in use.
            "field_expression" => self.add_place(base),
            "subscript_expression" | "index_expression" => {
                self.add_place(base);
                // A field can be an array or a pointer.
                if base.kind() == "field_expression" {
                    self.loads.push(base);
                }
                let mut cursor = place.walk();
                let parts: Vec<Node<'s>> = place.named_children(&mut cursor).collect();
                for index in parts.into_iter().filter(|part| part.id() != base.id()) {
                    self.add_value(index);
                }
            }
            _ => self.add_value(base),
        }
    }

    /// What the value of an expression is computed from. That of an address reads less than that of the object.
    fn add_value(&mut self, value: Node<'s>) {
        let is_address = self.source.text_of(value).starts_with('&');
        let operand = match value.kind() {
            "sizeof_expression" => return,
            "pointer_expression" if is_address => value.child_by_field_name("argument"),
            "reference_expression" => value.child_by_field_name("value"),
            _ => None,
        };
        if let Some(place) = operand {
            return self.add_place(place);
        }
        if access(self.source, value).is_some() {
            self.loads.push(value);
        }
        let mut cursor = value.walk();
        let parts: Vec<Node<'s>> = value.named_children(&mut cursor).collect();
        for part in parts {
            self.add_value(part);
        }
    }
}

/// The access that a node itself is.
fn access<'s>(source: &'s SourceTree, node: Node<'_>) -> Option<Access<'s>> {
    match node.kind() {
        "field_expression" => {
            // In Rust, this is also the name of a method.
            let is_method = node.parent().is_some_and(|parent| {
                parent.kind() == "call_expression"
                    && parent.child_by_field_name("function") == Some(node)
            });
            let field = node.child_by_field_name("field").filter(|_| !is_method)?;
            Some(Access::Field(source.text_of(field)))
        }
        "subscript_expression" | "index_expression" => Some(Access::Element),
        "pointer_expression" | "unary_expression" => source
            .text_of(node)
            .starts_with('*')
            .then_some(Access::Element),
        _ => None,
    }
}

/// The expression that an access goes through.
fn base(node: Node<'_>) -> Option<Node<'_>> {
    match node.kind() {
        "field_expression" => node
            .child_by_field_name("argument")
            .or_else(|| node.child_by_field_name("value")),
        "subscript_expression" | "pointer_expression" => node.child_by_field_name("argument"),
        "index_expression" | "unary_expression" => node.named_child(0),
        _ => None,
    }
}

fn without_parentheses(node: Node<'_>) -> Node<'_> {
    let mut inner = node;
    while inner.kind() == "parenthesized_expression"
        && let Some(child) = inner.named_child(0)
    {
        inner = child;
    }
    inner
}

/// Whether a text names a part of the object that another one names.
fn is_part_of(text: &str, object: &str) -> bool {
    let rest = text.strip_prefix(object).map(str::trim_start);
    rest.is_some_and(|rest| rest.starts_with(['.', '[']) || rest.starts_with("->"))
}

fn is_within(inner: Range<usize>, outer: &Range<usize>) -> bool {
    outer.start <= inner.start && inner.end <= outer.end
}
