//! What a callee stores to, in terms of its caller.
//!
//! Hippocrates moves a repair from a function that stores for its callers to one of its call sites (§3.4.2.4), because the function may
//! also serve volatile memory. Where the address that the function stores to depends on nothing but its parameters, the arguments of the
//! call take their place, and the caller can flush the object itself.
//!
//! The caller names the object after the call. It does not where that can be another object by then: where the callee goes on to change
//! memory that the address is computed from, or the calling statement assigns a variable that an argument names.
//!
//! Can miss: addresses that local variables hold; calls through pointers and of virtual functions; memory that is changed through a name
//! of another field (unions, casts).

use brownout_libraries::{MemoryEffect, memory_effect};
use tree_sitter::Node;

use crate::RepairRefusal;
use crate::evaluation::{MemoryKind, is_local, memory_kind, memory_read};
use crate::macros::replace_words;
use crate::statement::Statement;
use crate::stored_object::{StoredObject, arguments, callee, has_effect, has_own_effect, primary};
use crate::syntax::{SourceLanguage, SourceTree, ancestors, descendants};

/// The object that a statement of a callee stores to, as its caller can name it at the call in `call`.
pub(crate) fn in_caller(
    object: &StoredObject,
    inside: &Statement<'_>,
    call: &Statement<'_>,
    line: u32,
    column: Option<u32>,
) -> Result<StoredObject, RepairRefusal> {
    let refused = || not_in_caller(object, inside);
    let function = inside.function().ok_or_else(refused)?;
    let parameters = parameters(inside.source, function);
    let position = column.and_then(|_| call.source.offset(line, column));
    let site = call.call_at(position).ok_or_else(refused)?;
    let given = arguments(site);
    let name = callee(call.source, site);
    let is_call = name.is_some() && name == function_name(inside.source, function);
    let is_plain = |node: &Node<'_>| !has_effect(call.source, *node);
    let is_usable = object.saved.is_none()
        && is_call
        && given.len() == parameters.len()
        && given.iter().all(is_plain)
        && !parameters
            .iter()
            .any(|name| is_assigned(inside.source, function, name));
    if !is_usable {
        return Err(refused());
    }
    let texts: Vec<String> = given
        .iter()
        .map(|node| primary(call.source.text_of(*node)))
        .collect();
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    let replaced = |text: &String| {
        let names = variables(text, inside.source.language)?;
        let is_known = names.iter().all(|name| parameters.contains(name));
        is_known.then(|| in_terms_of(text, &parameters, &texts))
    };
    let optional = |text: &Option<String>| match text {
        Some(text) => replaced(text).map(Some),
        None => Some(None),
    };
    Ok(StoredObject {
        address: replaced(&object.address).ok_or_else(refused)?,
        place: optional(&object.place).ok_or_else(refused)?,
        length: optional(&object.length).ok_or_else(refused)?,
        saved: None,
        guard: optional(&object.guard).ok_or_else(refused)?,
    })
}

/// Whether what the caller names after the call can be another object than the callee has stored to: the callee changes later what the
/// object depends on, or anything changes what the arguments were.
pub(crate) fn changes(
    object: &StoredObject,
    inside: &Statement<'_>,
    call: &Statement<'_>,
    line: u32,
    column: Option<u32>,
) -> bool {
    let position = column.and_then(|_| call.source.offset(line, column));
    let (Some(function), Some(site)) = (inside.function(), call.call_at(position)) else {
        return true;
    };
    let Some(own) = object.memory_read(inside.source.language) else {
        return true;
    };
    let given = arguments(site);
    let of_arguments = given
        .iter()
        .flat_map(|node| memory_read(call.source, *node));
    let of_arguments: Vec<MemoryKind> = of_arguments.collect();
    let later = ChangedMemory::of(inside, function, true);
    let ever = ChangedMemory::of(inside, function, false);
    let mut around = ChangedMemory::default();
    around.add(call.source, call.node, &|node| node.id() != site.id());
    let names = given.iter().flat_map(|node| descendants(*node));
    let mut names = names.filter(|node| node.kind() == "identifier");
    let is_assigned = names.any(|node| {
        let name = call.source.text_of(node);
        let is_global =
            ever.variables.iter().any(|variable| variable == name) && !is_local(inside, name);
        is_global || around.variables.iter().any(|variable| variable == name)
    });
    // A function that is given the address of a variable can change it.
    let gives_address = given.iter().any(|node| {
        let is_variable = node
            .named_child(0)
            .is_some_and(|of| of.kind() == "identifier");
        let address = call.source.text_of(*node).starts_with('&') && is_variable;
        let name = node.named_child(0).map(|of| call.source.text_of(of));
        let is_other_use = |other: &Node<'_>| {
            let mut uses = descendants(*other).into_iter();
            other.id() != node.id()
                && uses.any(|part| {
                    part.kind() == "identifier" && Some(call.source.text_of(part)) == name
                })
        };
        address && given.iter().any(is_other_use)
    });
    later.meets(&own)
        || ever.meets(&of_arguments)
        || around.meets(&of_arguments)
        || around.meets(&own)
        || is_assigned
        || gives_address
}

/// What a piece of code can change.
#[derive(Default)]
struct ChangedMemory {
    memory: Vec<MemoryKind>,
    variables: Vec<String>,
    /// It calls functions that can change anything.
    calls: bool,
}

impl ChangedMemory {
    /// What a function changes: anywhere, or after a store, which a loop may repeat. The store itself does not change where it goes.
    fn of(store: &Statement<'_>, function: Node<'_>, after: bool) -> Self {
        let around = ancestors(store.node).take_while(|node| node.id() != function.id());
        let is_loop =
            |node: &Node<'_>| node.kind().contains("loop") || REPEATED.contains(&node.kind());
        let repeated = around.filter(is_loop).last();
        let from = store.node.end_byte();
        let mut found = Self::default();
        found.add(store.source, function, &|node| {
            let is_again = repeated.is_some_and(|around| {
                around.start_byte() <= node.start_byte() && node.end_byte() <= around.end_byte()
            });
            !after || node.start_byte() >= from || is_again
        });
        found
    }

    fn add(&mut self, source: &SourceTree, code: Node<'_>, counts: &dyn Fn(Node<'_>) -> bool) {
        for node in descendants(code).into_iter().filter(|node| counts(*node)) {
            let target = match node.kind() {
                "assignment_expression" | "compound_assignment_expr" => {
                    node.child_by_field_name("left")
                }
                "update_expression" => node.child_by_field_name("argument"),
                "init_declarator" => node.child_by_field_name("declarator"),
                "let_declaration" => node.child_by_field_name("pattern"),
                "call_expression" | "macro_invocation" if has_own_effect(source, node) => {
                    self.add_call(source, node);
                    None
                }
                _ => None,
            };
            let Some(target) = target else { continue };
            match memory_kind(source, target) {
                Some(kind) => self.memory.push(kind),
                None => {
                    let names = descendants(target).into_iter();
                    let names = names.filter(|node| node.kind() == "identifier");
                    let names = names.map(|node| source.text_of(node).to_owned());
                    self.variables.extend(names);
                }
            }
        }
    }

    fn add_call(&mut self, source: &SourceTree, call: Node<'_>) {
        let name = callee(source, call).unwrap_or_default();
        match memory_effect(name.trim_start_matches("__builtin_")) {
            Some(MemoryEffect::Stores { .. }) => self.memory.push(MemoryKind::Element),
            Some(MemoryEffect::FlushesLine | MemoryEffect::Syncs) => {}
            _ => self.calls = true,
        }
    }

    /// Whether this changes any of these.
    fn meets(&self, read: &[MemoryKind]) -> bool {
        let is_changed = |kind: &MemoryKind| self.calls || self.memory.contains(kind);
        read.iter().any(is_changed)
    }
}

/// Statements that repeat what is in them and are not called loops by the grammars.
const REPEATED: [&str; 5] = [
    "for_statement",
    "while_statement",
    "do_statement",
    "for_expression",
    "while_expression",
];

/// An expression with arguments in place of the variables that are parameters. A field or structure can have the name of one.
fn in_terms_of(expression: &str, parameters: &[String], arguments: &[&str]) -> String {
    replace_words(expression, |before, word| {
        let before = before.trim_end();
        let is_variable = !before.ends_with(['.', '\''])
            && !["->", "::", "struct", "union", "enum"]
                .iter()
                .any(|end| before.ends_with(end));
        let parameter = parameters.iter().position(|parameter| parameter == word);
        let parameter = parameter.filter(|_| is_variable);
        parameter.and_then(|index| arguments.get(index).copied())
    })
}

pub(crate) fn not_in_caller(object: &StoredObject, inside: &Statement<'_>) -> RepairRefusal {
    let name = object.place.as_ref().unwrap_or(&object.address);
    RepairRefusal::NotInCaller {
        file: inside.source.path.clone(),
        line: inside.span().start.0,
        object: name.clone(),
    }
}

/// Whether a function stores at a pointer to `void` or to characters that it is given: it serves memory of any kind.
pub(crate) fn is_generic(object: &StoredObject, inside: &Statement<'_>) -> bool {
    let Some(function) = inside.function() else {
        return false;
    };
    let declarations = descendants(function).into_iter();
    let mut parameters = declarations.filter(|node| node.kind() == "parameter_declaration");
    parameters.any(|parameter| {
        let text = inside.source.text_of(parameter);
        let kind = parameter.child_by_field_name("type");
        let kind = kind.map(|kind| inside.source.text_of(kind));
        let is_bytes =
            kind.is_some_and(|kind| matches!(kind, "void" | "char" | "unsigned char" | "uint8_t"));
        let name = text.rsplit(['*', ' ']).next();
        is_bytes && text.contains('*') && name == Some(object.address.as_str())
    })
}

/// The names of the parameters of a function.
fn parameters(source: &SourceTree, function: Node<'_>) -> Vec<String> {
    let lists = descendants(function).into_iter();
    let list = lists
        .into_iter()
        .find(|node| matches!(node.kind(), "parameter_list" | "parameters"));
    let Some(list) = list else { return Vec::new() };
    let mut cursor = list.walk();
    let each = list
        .named_children(&mut cursor)
        .filter(|node| !node.kind().ends_with("comment"));
    let names = each.filter_map(|parameter| {
        let declared = parameter
            .child_by_field_name("declarator")
            .or_else(|| parameter.child_by_field_name("pattern"))?;
        let name = descendants(declared)
            .into_iter()
            .find(|node| node.kind() == "identifier")?;
        Some(source.text_of(name).to_owned())
    });
    names.collect()
}

pub(crate) fn function_name(source: &SourceTree, function: Node<'_>) -> Option<String> {
    if let Some(name) = function.child_by_field_name("name") {
        return Some(source.text_of(name).to_owned());
    }
    let declarator = function.child_by_field_name("declarator")?;
    let names = descendants(declarator).into_iter();
    let name = names.into_iter().find(|node| node.kind() == "identifier")?;
    Some(source.text_of(name).to_owned())
}

/// Whether a function changes a variable, or gives its address away.
fn is_assigned(source: &SourceTree, function: Node<'_>, name: &str) -> bool {
    descendants(function).into_iter().any(|node| {
        let changed = match node.kind() {
            "assignment_expression" | "compound_assignment_expr" => {
                node.child_by_field_name("left")
            }
            "update_expression" => node.child_by_field_name("argument"),
            "pointer_expression" | "reference_expression"
                if source.text_of(node).starts_with('&') =>
            {
                node.named_child(0)
            }
            _ => None,
        };
        changed.is_some_and(|changed| {
            changed.kind() == "identifier" && source.text_of(changed) == name
        })
    })
}

/// The variables and functions that an expression names; `None` if it cannot be parsed.
fn variables(expression: &str, language: SourceLanguage) -> Option<Vec<String>> {
    let source = SourceTree::of_expression(expression, language)?;
    let names = descendants(source.expression()?)
        .into_iter()
        .filter(|node| node.kind() == "identifier");
    Some(names.map(|node| source.text_of(node).to_owned()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::macros::MacroDefinitions;

    /// The store at line 2, as the call at line 6 names it.
    fn hoisted(store: &str, call: &str) -> Result<StoredObject, RepairRefusal> {
        let text = format!(
            "void set(struct s *s, int i, size_t n) {{\n{store}\n}}\n\nvoid caller(struct t *t) {{\n{call}\n}}\n"
        );
        let source = SourceTree::new("x.c", text).unwrap();
        let inside = Statement::at(&source, 2, None)?;
        let object = StoredObject::of(&inside, 2, None, &MacroDefinitions::default())?;
        let outside = Statement::at(&source, 6, None)?;
        let hoisted = in_caller(&object, &inside, &outside, 6, None)?;
        match changes(&object, &inside, &outside, 6, None) {
            true => Err(not_in_caller(&object, &inside)),
            false => Ok(hoisted),
        }
    }

    #[test]
    fn an_object_that_is_another_one_after_the_call_is_refused() {
        let list = "s->item[s->n] = i;";
        assert!(hoisted(list, "set(t, 7, 0);").is_ok());
        assert!(hoisted("s->item[s->n] = i; s->n++;", "set(t, 7, 0);").is_err());
        assert!(hoisted("s->item[s->n] = i; advance(s);", "set(t, 7, 0);").is_err());
        assert!(hoisted("s->x = 1; advance(s);", "set(t, 0, 0);").is_ok());
        assert!(hoisted("s->x = 1;", "t = set(t, 0, 0);").is_err());
        assert!(hoisted("s->x = 1;", "struct s *t = set(t, 0, 0);").is_err());
        assert!(hoisted("s->x = 1; g()->head = 0;", "set(t->head, 0, 0);").is_err());
        assert!(hoisted("s->x = 1;", "t->head = set(t->head, 0, 0);").is_err());
        assert!(hoisted("s->x = 1;", "set(t->head, 0, 0);").is_ok());
    }

    #[test]
    fn arguments_take_the_place_of_parameters() {
        let object = hoisted("s->word[i] = 1;", "set(&t->first, 3, 0);").unwrap();
        assert_eq!(object.address, "&(&t->first)->word[3]");
        let object = hoisted("memcpy(s, source(), n);", "set(t, 0, sizeof *t);").unwrap();
        assert_eq!(
            (object.address.as_str(), object.length.as_deref()),
            ("t", Some("(sizeof *t)"))
        );
    }

    #[test]
    fn fields_and_structures_are_not_taken_for_parameters() {
        let object = hoisted("s->i = 1;", "set(t, 3, 0);").unwrap();
        assert_eq!(object.address, "&t->i");
        let object = hoisted("memcpy(s, source(), sizeof(struct n));", "set(t, 3, 7);").unwrap();
        assert_eq!(object.length.as_deref(), Some("sizeof(struct n)"));
    }

    #[test]
    fn a_function_that_is_given_bytes_is_generic() {
        let text = "void copy(void *to, const char *from) {\nmemcpy(to, from, 8);\n}\nvoid set(struct s *s) {\ns->x = 1;\n}\n";
        let source = SourceTree::new("x.c", text.to_owned()).unwrap();
        let generic = |line| {
            let inside = Statement::at(&source, line, None).unwrap();
            let object = StoredObject::of(&inside, line, None, &MacroDefinitions::default());
            is_generic(&object.unwrap(), &inside)
        };
        assert!(generic(2));
        assert!(!generic(5));
    }

    #[test]
    fn local_and_changed_variables_are_refused() {
        assert!(hoisted("local->x = 1;", "set(t, 0, 0);").is_err());
        assert!(hoisted("{ s->x = 1; } s++;", "set(t, 0, 0);").is_err());
        assert!(hoisted("s->x = 1;", "set(next(), 0, 0);").is_err());
        assert!(hoisted("s->x = 1;", "other(t, 0, 0);").is_err());
    }
}
