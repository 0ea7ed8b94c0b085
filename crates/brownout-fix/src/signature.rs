//! What a function takes, as far as it could flush that: a pointer to bytes, the object itself, a number of bytes.
//!
//! A function in whose course flushes happen need not flush what it is given: `flush_tree(node)` follows pointers, and `log(entry, level)`
//! has a number that is no length. Only a function that is given memory of no particular type is used for other objects.
//!
//! Can miss: a number of bytes cannot be distinguished from another number.

use tree_sitter::Node;

use crate::syntax::{SourceLanguage, SourceTree, ancestors, descendants};

/// One parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// A pointer to `void`, characters or integers, or to what a template says.
    Bytes,
    /// A reference to an object of any type.
    Object,
    /// An integer.
    Number,
    Other,
}

/// The parameters of a function of C, C++ or Rust.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Signature {
    pub parameters: Vec<Taken>,
}

impl Signature {
    /// That of a declarator or function item.
    pub fn of(source: &SourceTree, function: Node<'_>) -> Option<Self> {
        let list = function.child_by_field_name("parameters")?;
        let generics = generic_names(source, function);
        let mut cursor = list.walk();
        let each = list.named_children(&mut cursor).filter(|node| {
            node.kind().contains("parameter") || node.kind() == "variadic_parameter"
        });
        let taken = each.map(|parameter| match source.language {
            SourceLanguage::Rust => taken_by_rust(source, parameter, &generics),
            _ => taken_by_c(source, parameter, &generics),
        });
        Some(Self {
            parameters: taken.collect(),
        })
    }
}

/// The names of the types for which a template or a generic function stands.
fn generic_names(source: &SourceTree, function: Node<'_>) -> Vec<String> {
    let template = ancestors(function).find(|up| up.kind() == "template_declaration");
    let list = template
        .and_then(|template| template.child_by_field_name("parameters"))
        .or_else(|| function.child_by_field_name("type_parameters"));
    let nodes = list.map(descendants).unwrap_or_default().into_iter();
    let names = nodes.filter(|node| node.kind() == "type_identifier");
    names.map(|node| source.text_of(node).to_owned()).collect()
}

fn taken_by_c(source: &SourceTree, parameter: Node<'_>, generics: &[String]) -> Taken {
    let text = source.text_of(parameter);
    let kind = parameter.child_by_field_name("type");
    let (kind, name) = kind.map_or(("", ""), |node| (node.kind(), source.text_of(node)));
    let is_generic = generics.iter().any(|generic| generic == name);
    let pointers = text.matches(['*', '[']).count();
    match (pointers, text.contains('&')) {
        (0, true) if is_generic || is_number(kind, name) => Taken::Object,
        (1, false) if name == "void" || is_generic || is_number(kind, name) => Taken::Bytes,
        (0, false) if is_number(kind, name) => Taken::Number,
        _ => Taken::Other,
    }
}

/// Whether a type of C or C++ is an integer, as its name says.
fn is_number(kind: &str, name: &str) -> bool {
    let name = name.rsplit("::").next().unwrap_or(name);
    match kind {
        "sized_type_specifier" => !name.contains("double"),
        "primitive_type" => !matches!(name, "void" | "float" | "double" | "bool"),
        _ => {
            name.ends_with("_t")
                || matches!(
                    name,
                    "u8" | "u16" | "u32" | "u64" | "byte" | "uchar" | "uint" | "ulong" | "usize"
                )
        }
    }
}

fn taken_by_rust(source: &SourceTree, parameter: Node<'_>, generics: &[String]) -> Taken {
    let taken = parameter.child_by_field_name("type");
    let taken = taken.map_or("", |taken| source.text_of(taken)).trim();
    let last = taken.rsplit([' ', ':', '&']).next().unwrap_or(taken);
    let is_generic = generics.iter().any(|generic| generic == last);
    let numbers = [
        "u8", "u16", "u32", "u64", "usize", "i8", "i16", "i32", "i64", "isize", "size_t",
    ];
    let is_number = numbers.contains(&last);
    match taken.chars().next() {
        Some('*') if is_number || is_generic || last == "c_void" => Taken::Bytes,
        Some('&') if is_generic => Taken::Object,
        Some(c) if c != '*' && c != '&' && is_number => Taken::Number,
        _ => Taken::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(path: &str, text: &str) -> Vec<Taken> {
        let source = SourceTree::new(path, text.to_owned()).unwrap();
        let nodes = descendants(source.root()).into_iter();
        let mut functions =
            nodes.filter(|node| matches!(node.kind(), "function_declarator" | "function_item"));
        let function = functions.next().unwrap();
        Signature::of(&source, function).unwrap().parameters
    }

    #[test]
    fn only_memory_of_no_particular_type_is_bytes() {
        let c = |parameters: &str| taken("x.c", &format!("void f({parameters});\n"));
        assert_eq!(
            c("const volatile void *p, size_t n"),
            [Taken::Bytes, Taken::Number]
        );
        assert_eq!(
            c("const char *p, unsigned long n"),
            [Taken::Bytes, Taken::Number]
        );
        assert_eq!(c("uint64_t *p, double n"), [Taken::Bytes, Taken::Other]);
        assert_eq!(c("struct node *n, void **p"), [Taken::Other, Taken::Other]);
    }

    #[test]
    fn references_and_templates_take_objects() {
        let text = "template <class T> void f(T *p, const T &object, struct s &other);\n";
        assert_eq!(
            taken("x.cpp", text),
            [Taken::Bytes, Taken::Object, Taken::Other]
        );
    }

    #[test]
    fn rust_says_what_it_takes() {
        let text = "fn f<T>(a: *const u8, b: usize, c: &T, d: &Node, e: *mut T, g: f64) {}\n";
        let expected = [
            Taken::Bytes,
            Taken::Number,
            Taken::Object,
            Taken::Other,
            Taken::Bytes,
            Taken::Other,
        ];
        assert_eq!(taken("x.rs", text), expected);
    }
}
