//! The pointers that a function is given, and the registers in which the calling convention passes them.
//!
//! Can miss: pointers behind a type name (`typedef struct s *handle`), and parameters behind one whose size is not known from its
//! type (a structure by value, a generic type): these get no register.

use tree_sitter::Node;

use crate::arch::ARGUMENT_REGISTERS;
use crate::hoisting::function_name;
use crate::macros::MacroDefinitions;
use crate::statement::Statement;
use crate::stored_object::{StoredObject, root_variable};
use crate::syntax::{SourceLanguage, SourceTree, ancestors, descendants};

/// The pointer parameters of a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PointerParameters {
    /// The function.
    pub name: String,
    /// The numbers of the general registers with pointers.
    pub registers: Vec<usize>,
    /// The register with the pointer through which the statement stores, if it is a parameter.
    pub stored: Option<usize>,
}

/// How a parameter is passed.
enum Passing {
    Pointer {
        registers: usize,
    },
    Number,
    /// In a register of its own kind.
    Floating,
    Unknown,
}

impl PointerParameters {
    /// Those of the function with the statement at a position.
    pub fn at(
        source: &SourceTree,
        line: u32,
        column: Option<u32>,
        macros: &MacroDefinitions,
    ) -> Option<Self> {
        let statement = Statement::at(source, line, column).ok()?;
        let function = statement.function()?;
        let name = function_name(source, function)?;
        let object = StoredObject::of(&statement, line, column, macros).ok();
        let root = object.and_then(|object| root_variable(&object.address, source.language));
        let nodes = descendants(function).into_iter();
        let mut lists = nodes.filter(|node| matches!(node.kind(), "parameter_list" | "parameters"));
        let list = lists.next()?;
        let mut cursor = list.walk();
        let each = list.named_children(&mut cursor);
        let mut found = Self {
            name,
            registers: Vec::new(),
            stored: None,
        };
        let mut next = 0;
        if is_method(function) && source.language == SourceLanguage::Cpp {
            found.registers.push(0);
            next = 1;
        }
        for parameter in each.filter(|node| !node.kind().ends_with("comment")) {
            match passing(source, parameter) {
                Passing::Pointer { registers } => {
                    found.registers.push(next);
                    let declares = |node: &Node<'_>| {
                        node.kind().contains("identifier")
                            && Some(source.text_of(*node)) == root.as_deref()
                    };
                    if descendants(parameter).iter().any(declares) {
                        found.stored = Some(next);
                    }
                    next += registers;
                }
                Passing::Number => next += 1,
                Passing::Floating => {}
                Passing::Unknown => break,
            }
        }
        found
            .registers
            .retain(|register| *register < ARGUMENT_REGISTERS);
        found.stored = found
            .stored
            .filter(|register| *register < ARGUMENT_REGISTERS);
        Some(found)
    }
}

fn is_method(function: Node<'_>) -> bool {
    ancestors(function).any(|around| around.kind() == "field_declaration_list")
}

fn passing(source: &SourceTree, parameter: Node<'_>) -> Passing {
    let text = source.text_of(parameter);
    if source.language == SourceLanguage::Rust {
        if parameter.kind() == "self_parameter" {
            return match text.starts_with('&') {
                true => Passing::Pointer { registers: 1 },
                false => Passing::Unknown,
            };
        }
        let taken = parameter.child_by_field_name("type");
        let taken = taken.map_or("", |taken| source.text_of(taken)).trim();
        let is_pointer = taken.starts_with(['&', '*']);
        // A slice, a string or an object of a trait has a length or a table with it.
        let is_wide = taken.contains('[') && !taken.contains(';')
            || taken.ends_with("str")
            || taken.contains("dyn ");
        return match taken {
            _ if is_pointer && is_wide => Passing::Pointer { registers: 2 },
            _ if is_pointer => Passing::Pointer { registers: 1 },
            "f32" | "f64" => Passing::Floating,
            "bool" | "char" | "usize" | "isize" | "u8" | "u16" | "u32" | "u64" | "i8" | "i16"
            | "i32" | "i64" => Passing::Number,
            _ => Passing::Unknown,
        };
    }
    if text.contains(['*', '&', '[']) {
        return Passing::Pointer { registers: 1 };
    }
    let taken = parameter.child_by_field_name("type");
    match taken.map(|taken| (taken.kind(), source.text_of(taken))) {
        Some((_, "float" | "double")) => Passing::Floating,
        Some((_, "long double")) => Passing::Unknown,
        Some(("struct_specifier" | "union_specifier" | "class_specifier", _)) | None => {
            Passing::Unknown
        }
        Some(_) => Passing::Number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(path: &str, text: &str, line: u32) -> PointerParameters {
        let source = SourceTree::new(path, text.to_owned()).unwrap();
        PointerParameters::at(&source, line, None, &MacroDefinitions::default()).unwrap()
    }

    #[test]
    fn pointers_have_registers_and_the_store_has_one_of_them() {
        let text =
            "void copy(int n, double x, char *to, const char *from)\n{\n\tto[n] = from[n];\n}\n";
        let found = parameters("x.c", text, 3);
        assert_eq!((found.name.as_str(), found.registers), ("copy", vec![1, 2]));
        assert_eq!(found.stored, Some(1));
    }

    #[test]
    fn a_slice_of_rust_takes_two_registers() {
        let text = "fn fill(from: &[u64], to: &mut [u64]) {\n    to[0] = from[0];\n}\n";
        let found = parameters("x.rs", text, 2);
        assert_eq!((found.registers, found.stored), (vec![0, 2], Some(2)));
    }

    #[test]
    fn what_follows_a_structure_has_no_known_register() {
        let text = "void set(struct pair pair, char *to)\n{\n\t*to = 1;\n}\n";
        assert_eq!(parameters("x.c", text, 3).registers, []);
    }
}
