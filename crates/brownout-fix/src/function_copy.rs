//! Persistent subprograms: copies of functions that flush what they store (Hippocrates, §3.4.2.4).
//!
//! A function that serves volatile and persistent memory is copied under another name. In the copy each repaired store is followed by a
//! flush, and the functions on the way to it are called by their copies; the call site calls the copy, with one fence after it.
//! The original stays as it is. Repairs share copies: a copy has the flushes of all repairs that use it.
//!
//! Refused: methods and templates, which belong to a type; functions with a variable number of arguments; calls through pointers;
//! functions that give away their own address and call themselves, because what calls them is not known; functions of another file that
//! cannot be named from the caller's; functions with static variables, which the copy would not share.

use std::ops::Range;

use tree_sitter::Node;

use crate::RepairRefusal;
use crate::edit::{Edit, EditConflict, apply, in_order};
use crate::hoisting::function_name;
use crate::statement::Statement;
use crate::stored_object::callee;
use crate::syntax::{SourceLanguage, SourceTree, ancestors, descendants};

/// A copy of a function, with edits that the original does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FunctionCopy {
    /// The file of the function.
    pub path: String,
    /// The function in it.
    pub range: Range<usize>,
    pub name: String,
    /// Where the name stands in the definition.
    name_at: Range<usize>,
    /// Edits of the copy, in terms of the file.
    edits: Vec<Edit>,
}

impl FunctionCopy {
    /// The name that a copy of a function of this name has.
    pub fn name_of_copy(name: &str) -> String {
        format!("{name}_persistent")
    }

    /// Whether two copies are of the same function.
    pub fn is_of_same(&self, other: &Self) -> bool {
        self.path == other.path && self.range == other.range
    }

    /// Adds the edits of another copy of the function.
    pub fn share(&mut self, other: &Self) {
        self.edits.extend(other.edits.iter().cloned());
    }

    /// The edit of the file that adds the copy. `original` are the edits of the file, which the copy has, too.
    pub fn addition(&self, text: &str, original: &[Edit]) -> Result<Edit, EditConflict> {
        let inside = |edit: &&Edit| self.range.start < edit.start && edit.end <= self.range.end;
        // What stands right behind the function is not a part of it.
        let inside = original
            .iter()
            .filter(inside)
            .filter(|edit| edit.start < self.range.end);
        let renamed = Edit::replace(self.name_at.clone(), Self::name_of_copy(&self.name));
        // A call that the original makes in another way is made by the copy as its own repairs say.
        let own = self.edits.iter();
        let replaced = |edit: &&Edit| {
            !own.clone()
                .any(|own| own.start < own.end && edit.start < own.end && own.start < edit.end)
        };
        let edits = inside
            .filter(replaced)
            .chain(&self.edits)
            .cloned()
            .chain(std::iter::once(renamed));
        let shifted = in_order(edits)?
            .into_iter()
            .map(|edit| edit.moved_back(self.range.start));
        let shifted: Vec<Edit> = shifted.collect();
        let copy = apply(&text[self.range.clone()], &shifted);
        Ok(Edit::insert(self.range.end, format!("\n\n{copy}")))
    }
}

/// What a call is replaced by, and what that needs.
pub(crate) struct CopiedCall {
    pub copies: Vec<FunctionCopy>,
    /// The edit of the call in its statement.
    pub call: Edit,
    /// Declarations of copies before functions that call them, with their files.
    pub declarations: Vec<(String, Edit)>,
}

/// A function on the way from a call to a store, innermost first, with the position at which it stores or makes the next call.
pub(crate) struct CopiedFunction<'s> {
    pub statement: Statement<'s>,
    /// The line and column of that position.
    pub at: (u32, Option<u32>),
}

/// Copies the functions of a chain, the innermost with `edits`. The last statement of the chain makes the call that is replaced.
pub(crate) fn copy_chain(
    chain: &[CopiedFunction<'_>],
    edits: Vec<Edit>,
    caller: &CopiedFunction<'_>,
) -> Result<CopiedCall, RepairRefusal> {
    let mut own_edits = edits;
    let mut copies: Vec<FunctionCopy> = Vec::new();
    let mut declarations = Vec::new();
    for (number, function) in chain.iter().enumerate() {
        let copied = copy(&function.statement, own_edits)?;
        let outer = chain.get(number + 1).unwrap_or(caller);
        let call = renamed_call(outer, &copied)?;
        let declared = declaration_for(outer, &function.statement, &copied)?;
        let path = &outer.statement.source.path;
        declarations.extend(declared.map(|edit| (path.clone(), edit)));
        copies.push(copied);
        if number + 1 == chain.len() {
            return Ok(CopiedCall {
                copies,
                call,
                declarations,
            });
        }
        own_edits = vec![call];
    }
    Err(RepairRefusal::NoSource)
}

fn not_copied(statement: &Statement<'_>, name: String, why: &'static str) -> RepairRefusal {
    RepairRefusal::NotCopied {
        file: statement.source.path.clone(),
        line: statement.span().start.0,
        name,
        why,
    }
}

/// The copy of the function that a statement is in.
fn copy(statement: &Statement<'_>, edits: Vec<Edit>) -> Result<FunctionCopy, RepairRefusal> {
    let source = statement.source;
    let function = statement.function().ok_or(RepairRefusal::NoSource)?;
    let name = function_name(source, function).unwrap_or_default();
    let refuse = |why| Err(not_copied(statement, name.clone(), why));
    if !matches!(function.kind(), "function_definition" | "function_item") {
        return refuse("is a lambda expression or closure");
    }
    let is_member = ancestors(function).any(|around| {
        matches!(
            around.kind(),
            "field_declaration_list" | "impl_item" | "trait_item"
        )
    });
    let head_end = function
        .child_by_field_name("body")
        .map_or(function.end_byte(), |body| body.start_byte());
    let head = &source.text[function.start_byte()..head_end];
    let is_qualified = descendants(function).into_iter().any(|node| {
        let named = node.child_by_field_name("declarator");
        node.kind() == "function_declarator"
            && node.start_byte() < head_end
            && named.is_some_and(|named| named.kind() == "qualified_identifier")
    });
    if is_member || is_qualified {
        return refuse("is a method, which may be virtual");
    }
    if ancestors(function).any(|around| around.kind() == "template_declaration") {
        return refuse("is a template");
    }
    if head.contains("...") {
        return refuse("takes a variable number of arguments");
    }
    let mut inside = descendants(function).into_iter();
    if inside.any(|node| node.start_byte() >= head_end && is_static(source, node)) {
        return refuse("has a static variable, of which its copy would have another one");
    }
    let named = name_node(source, function, &name).ok_or(RepairRefusal::NoSource)?;
    let uses = |within: Node<'_>| {
        let nodes = descendants(within).into_iter();
        let named = nodes.filter(|node| {
            node.kind() == "identifier" && source.text_of(*node) == name && node.id() != named.id()
        });
        named.map(|node| is_called(node)).collect::<Vec<bool>>()
    };
    let is_recursive = uses(function).contains(&true);
    if is_recursive && uses(source.root()).contains(&false) {
        return refuse("calls itself, and its address is taken");
    }
    let copy_name = FunctionCopy::name_of_copy(&name);
    if source.text.contains(&format!("{copy_name}(")) {
        return refuse("has a copy already, or the name of the copy is in use");
    }
    Ok(FunctionCopy {
        path: source.path.clone(),
        range: function.byte_range(),
        name,
        name_at: named.byte_range(),
        edits,
    })
}

/// Whether a node declares a variable that outlives the call.
fn is_static(source: &SourceTree, node: Node<'_>) -> bool {
    let text = source.text_of(node);
    match node.kind() {
        "static_item" => true,
        "storage_class_specifier" => matches!(
            text,
            "static" | "thread_local" | "_Thread_local" | "__thread"
        ),
        "macro_invocation" => callee(source, node).as_deref() == Some("thread_local"),
        _ => false,
    }
}

fn is_called(node: Node<'_>) -> bool {
    let is_function = |parent: Node<'_>| parent.child_by_field_name("function") == Some(node);
    // A declaration is no use of the address.
    let is_declared = |parent: Node<'_>| parent.kind() == "function_declarator";
    node.parent()
        .is_some_and(|parent| is_function(parent) || is_declared(parent))
}

fn name_node<'s>(source: &SourceTree, function: Node<'s>, name: &str) -> Option<Node<'s>> {
    let declared = function
        .child_by_field_name("name")
        .or_else(|| function.child_by_field_name("declarator"))?;
    let mut names = descendants(declared).into_iter();
    names.find(|node| node.kind() == "identifier" && source.text_of(*node) == name)
}

/// The edit that makes a call call the copy.
fn renamed_call(caller: &CopiedFunction<'_>, copied: &FunctionCopy) -> Result<Edit, RepairRefusal> {
    let Statement { source, .. } = caller.statement;
    let (line, column) = caller.at;
    let offset = column.and_then(|_| source.offset(line, column));
    let refuse = || {
        not_copied(
            &caller.statement,
            copied.name.clone(),
            "is called through a pointer, a virtual call or a macro",
        )
    };
    let calls = descendants(caller.statement.node).into_iter();
    let calls: Vec<Node<'_>> = calls
        .filter(|node| node.kind() == "call_expression")
        .filter(|call| callee(source, *call).as_deref() == Some(copied.name.as_str()))
        .collect();
    let at = offset.and_then(|offset| {
        let around = calls
            .iter()
            .filter(|call| call.byte_range().contains(&offset));
        around.min_by_key(|call| call.byte_range().len())
    });
    let call = match (at, &calls[..]) {
        (Some(call), _) | (None, [call]) => call,
        _ => return Err(refuse()),
    };
    let function = call.child_by_field_name("function").ok_or_else(refuse)?;
    let named = descendants(function).into_iter().rev();
    let mut named = named.filter(|node| {
        node.kind() == "identifier" && source.text_of(*node) == copied.name.as_str()
    });
    let name = named.next().ok_or_else(refuse)?;
    let new = FunctionCopy::name_of_copy(&copied.name);
    Ok(Edit::replace(name.byte_range(), new))
}

/// A declaration of the copy before the function that calls it, if the copy is not defined before.
fn declaration_for(
    caller: &CopiedFunction<'_>,
    inside: &Statement<'_>,
    copied: &FunctionCopy,
) -> Result<Option<Edit>, RepairRefusal> {
    let (source, of_copy) = (caller.statement.source, inside.source);
    let at = caller.statement.function().map(|node| node.start_byte());
    let at = at.ok_or(RepairRefusal::NoSource)?;
    let is_same_file = source.path == of_copy.path;
    if source.language == SourceLanguage::Rust {
        return match is_same_file {
            true => Ok(None),
            false => Err(not_copied(
                inside,
                copied.name.clone(),
                "is in another module",
            )),
        };
    }
    let is_header = [".h", ".hh", ".hpp", ".hxx", ".inl"]
        .iter()
        .any(|end| of_copy.path.ends_with(end));
    let is_before = is_same_file && copied.range.end <= at;
    if is_before || (is_header && !is_same_file) {
        return Ok(None);
    }
    let function = inside.function().ok_or(RepairRefusal::NoSource)?;
    let body = function.child_by_field_name("body");
    let body = body.ok_or(RepairRefusal::NoSource)?;
    let head = of_copy.text[function.start_byte()..body.start_byte()].trim_end();
    let is_static = head.split_whitespace().any(|word| word == "static");
    if is_static && !is_same_file {
        return Err(not_copied(
            inside,
            copied.name.clone(),
            "is static in another file",
        ));
    }
    let name =
        copied.name_at.start - function.start_byte()..copied.name_at.end - function.start_byte();
    let new = FunctionCopy::name_of_copy(&copied.name);
    let head = format!("{}{new}{}", &head[..name.start], &head[name.end..]);
    Ok(Some(Edit::insert(at, format!("{head};\n\n"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "static void update(char *addr, int idx)\n{\n\taddr[idx] = 1;\n}\n\nstatic void modify(char *addr)\n{\n\tupdate(addr, 3);\n}\n\nvoid foo(char *pm)\n{\n\tmodify(pm);\n}\n";

    fn at<'s>(source: &'s SourceTree, line: u32) -> CopiedFunction<'s> {
        CopiedFunction {
            statement: Statement::at(source, line, None).unwrap(),
            at: (line, None),
        }
    }

    /// Copies the functions with these lines, for the call at the last of them; a flush is added after the first.
    fn copied(text: &str, lines: &[u32]) -> Result<String, RepairRefusal> {
        let source = SourceTree::new("x.c", text.to_owned()).unwrap();
        let mut chain: Vec<CopiedFunction<'_>> =
            lines.iter().map(|line| at(&source, *line)).collect();
        let caller = chain.pop().unwrap();
        let flush = chain[0].statement.insert_after(&["flush();".to_owned()])?;
        let call = copy_chain(&chain, flush, &caller)?;
        let declared = call.declarations.into_iter().map(|(_, edit)| edit);
        let mut edits: Vec<Edit> = declared.chain([call.call]).collect();
        for copy in &call.copies {
            edits.push(copy.addition(text, &[]).unwrap());
        }
        Ok(apply(text, &in_order(edits).unwrap()))
    }

    #[test]
    fn a_subprogram_is_copied_with_its_callees() {
        let new = copied(TEXT, &[3, 8, 13]).unwrap();
        let update = "}\n\nstatic void update_persistent(char *addr, int idx)\n{\n\taddr[idx] = 1;\n\tflush();\n}\n";
        let modify =
            "}\n\nstatic void modify_persistent(char *addr)\n{\n\tupdate_persistent(addr, 3);\n}\n";
        assert!(new.contains(update) && new.contains(modify), "{new}");
        assert!(new.ends_with("\tmodify_persistent(pm);\n}\n"), "{new}");
        assert!(new.contains("\n\tupdate(addr, 3);\n"), "{new}");
    }

    #[test]
    fn a_copy_that_is_defined_later_is_declared() {
        let text = "void set(struct s *s);\nvoid foo(struct s *s)\n{\n\tset(s);\n}\nvoid set(struct s *s)\n{\n\ts->x = 1;\n}\n";
        let new = copied(text, &[8, 4]).unwrap();
        assert!(
            new.contains("void set_persistent(struct s *s);\n\nvoid foo"),
            "{new}"
        );
    }

    #[test]
    fn repairs_share_a_copy() {
        let source = SourceTree::new("x.c", TEXT.to_owned()).unwrap();
        let one = copy_chain(
            &[at(&source, 3)],
            vec![Edit::insert(0, "")],
            &at(&source, 8),
        )
        .unwrap();
        let mut shared = one.copies[0].clone();
        shared.edits = vec![Edit::insert(55, "a")];
        let mut other = shared.clone();
        other.edits = vec![Edit::insert(55, "b")];
        assert!(shared.is_of_same(&other));
        shared.share(&other);
        assert!(shared.addition(TEXT, &[]).unwrap().text.contains("ab"));
    }

    #[test]
    fn what_cannot_be_copied_is_refused() {
        let cases = [
            (
                "void set(struct s *s, ...)\n{\n\ts->x = 1;\n}\nvoid f(struct s *s)\n{\n\tset(s);\n}\n",
                [3, 7],
            ),
            (
                "void set(struct s *s)\n{\n\ts->x = 1;\n}\nvoid f(struct s *s)\n{\n\ts->call(s);\n}\n",
                [3, 7],
            ),
            (
                "void set(struct s *s)\n{\n\ts->x = 1; set(s);\n}\nvoid (*at)(struct s *) = set; void f(struct s *s)\n{\n\tset(s);\n}\n",
                [3, 7],
            ),
            (
                "void set(struct s *s)\n{\n\ts->x = 1; { static int calls; calls++; }\n}\nvoid f(struct s *s)\n{\n\tset(s);\n}\n",
                [3, 7],
            ),
        ];
        for (text, lines) in cases {
            let refused = copied(text, &lines).unwrap_err();
            assert!(
                matches!(refused, RepairRefusal::NotCopied { .. }),
                "{text}: {refused}"
            );
        }
    }
}
