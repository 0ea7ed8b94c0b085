//! Macros and bit-fields of C and C++ whose definitions are known: those of a file and of the headers that it includes by a relative path.
//!
//! A use of a macro shows what is stored only through its definition. The definition is parsed as a statement of its own, and the
//! arguments are put in place of the parameters, as the preprocessor does.
//!
//! Can miss: definitions that other macros or conditions make; definitions in headers that only the compiler finds. If several
//! definitions of a name differ in what they store to, none is used.

use rustc_hash::{FxHashMap, FxHashSet};

use crate::RepairRefusal;
use crate::statement::Statement;
use crate::stored_object::{StoredObject, bit_fields};
use crate::syntax::{SourceLanguage, SourceTree, descendants};

/// One definition of a macro.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Definition {
    parameters: Vec<String>,
    body: String,
}

/// The macros that are known where a statement is.
#[derive(Default)]
pub struct MacroDefinitions {
    by_name: FxHashMap<String, Vec<Definition>>,
    /// The names of bit-fields, which have no address.
    bit_fields: FxHashSet<String>,
}

/// How deep headers are followed.
const DEPTH: usize = 4;

impl MacroDefinitions {
    /// Those of a file and its headers, which `read` returns by the path that stands in the `#include`, and the path of the file.
    pub fn of(source: &SourceTree, read: &dyn Fn(&str, &str) -> Option<SourceTree>) -> Self {
        let mut found = Self::default();
        let mut seen = FxHashSet::default();
        found.add(source, read, &mut seen, DEPTH);
        found
    }

    fn add(
        &mut self,
        source: &SourceTree,
        read: &dyn Fn(&str, &str) -> Option<SourceTree>,
        seen: &mut FxHashSet<String>,
        depth: usize,
    ) {
        if source.language == SourceLanguage::Rust {
            return;
        }
        self.bit_fields.extend(bit_fields(source));
        for node in descendants(source.root()) {
            match node.kind() {
                "preproc_function_def" => self.define(source, node),
                "preproc_include" => {
                    let path = node.child_by_field_name("path");
                    let quoted = path.filter(|path| path.kind() == "string_literal");
                    let Some(quoted) = quoted else { continue };
                    let header = source.text_of(quoted).trim_matches('"');
                    if depth > 0
                        && let Some(header) = read(header, &source.path)
                        && seen.insert(header.path.clone())
                    {
                        self.add(&header, read, seen, depth - 1);
                    }
                }
                _ => {}
            }
        }
    }

    fn define(&mut self, source: &SourceTree, node: tree_sitter::Node<'_>) {
        let text = |field| {
            node.child_by_field_name(field)
                .map(|node| source.text_of(node))
        };
        let (Some(name), Some(parameters)) = (text("name"), text("parameters")) else {
            return;
        };
        let parameters = parameters.trim_matches(['(', ')']).split(',');
        let parameters = parameters.map(|name| name.trim().to_owned());
        let definition = Definition {
            parameters: parameters.filter(|name| !name.is_empty()).collect(),
            body: text("value").unwrap_or_default().replace("\\\n", "\n"),
        };
        self.by_name
            .entry(name.to_owned())
            .or_default()
            .push(definition);
    }

    /// Whether a structure of the file or its headers has a bit-field of that name.
    pub(crate) fn is_bit_field(&self, name: &str) -> bool {
        self.bit_fields.contains(name)
    }

    pub fn is_macro(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Whether a macro takes the object itself where a function would take its address.
    pub fn takes_place(&self, name: &str) -> bool {
        self.first_parameter_after(name, "&")
    }

    fn first_parameter_after(&self, name: &str, before: &str) -> bool {
        let definitions = self.by_name.get(name).into_iter().flatten();
        let mut uses = definitions.filter_map(|definition| {
            let parameter = definition.parameters.first()?;
            let plain = definition.body.contains(&format!("{before}{parameter}"));
            let bracketed = definition.body.contains(&format!("{before}({parameter})"));
            // Through another macro, which is given the parameter as it is.
            let passed = words(&definition.body).any(|word| {
                word != name
                    && self.by_name.contains_key(word)
                    && self.first_parameter_after(word, before)
            });
            Some(plain || bracketed || passed)
        });
        uses.any(|uses| uses)
    }

    /// What a use of the macro with these arguments stores to.
    pub(crate) fn stored_object(&self, name: &str, arguments: &[&str]) -> Option<StoredObject> {
        self.stored_object_within(name, arguments, DEPTH)
    }

    fn stored_object_within(
        &self,
        name: &str,
        arguments: &[&str],
        depth: usize,
    ) -> Option<StoredObject> {
        let definitions = self.by_name.get(name)?;
        let mut objects = definitions.iter().map(|definition| {
            if definition.parameters.len() != arguments.len() || depth == 0 {
                return None;
            }
            let body = substitute(&definition.body, &definition.parameters, arguments);
            self.object_of_code(&body, depth - 1)
        });
        let first = objects.next()??;
        let is_same =
            |object: Option<StoredObject>| object.as_ref().is_none_or(|object| *object == first);
        objects.all(is_same).then_some(first)
    }

    /// What a piece of code stores to, if it is one object.
    fn object_of_code(&self, body: &str, depth: usize) -> Option<StoredObject> {
        let code = format!("void f(void)\n{{\n{};\n}}\n", without_typeof(body));
        let source = SourceTree::of_language("macro.c", code, SourceLanguage::C)?;
        let nested = Self {
            by_name: match depth {
                0 => FxHashMap::default(),
                _ => self.by_name.clone(),
            },
            bit_fields: self.bit_fields.clone(),
        };
        let simple = descendants(source.root())
            .into_iter()
            .filter(|node| node.kind() == "expression_statement" && !node.has_error());
        let mut found = Vec::new();
        for node in simple {
            let statement = Statement::whole(&source, node);
            let line = source.line_of(node.start_byte());
            match StoredObject::of(&statement, line, None, &nested) {
                Ok(object) if object.saved.is_none() => found.push(object),
                Err(RepairRefusal::NoStore { .. } | RepairRefusal::MacroUse { .. }) => {}
                // There is a store that cannot be flushed: a flush of the others would be half a repair.
                _ => return None,
            }
        }
        match &found[..] {
            [only] => Some(simplified(only)).filter(|object| !object.address.contains(SOME_TYPE)),
            _ => self.assembly_output(&source),
        }
    }

    /// The memory that inline assembly writes.
    fn assembly_output(&self, source: &SourceTree) -> Option<StoredObject> {
        let nodes = descendants(source.root());
        let outputs = nodes
            .iter()
            .filter(|node| node.kind() == "gnu_asm_output_operand");
        let outputs = outputs.filter_map(|node| {
            let constraint = source.text_of(node.child_by_field_name("constraint")?);
            let value = source.text_of(node.child_by_field_name("value")?);
            constraint.contains('m').then_some(value)
        });
        let outputs: Vec<&str> = outputs.collect();
        let [place] = outputs[..] else { return None };
        Some(simplified(&StoredObject {
            address: format!("&{place}"),
            place: Some(place.to_owned()),
            length: None,
            saved: None,
            guard: None,
        }))
    }
}

/// The same object without the casts by which macros make an access volatile: `*(volatile T *)&(x)` is `x`.
fn simplified(object: &StoredObject) -> StoredObject {
    let place_at = |place: &str| StoredObject {
        address: format!("&{place}"),
        place: Some(place.to_owned()),
        ..object.clone()
    };
    let cast = object.address.strip_prefix('(');
    if let Some((kind, operand)) = cast.and_then(|cast| cast.split_once("*)&"))
        && kind.contains("volatile")
    {
        return simplified(&place_at(operand));
    }
    let place = object.place.as_deref().unwrap_or_default();
    let inner = place
        .strip_prefix('(')
        .and_then(|rest| rest.strip_suffix(')'));
    let is_plain = |inner: &&str| {
        let is_part = |c: char| c.is_alphanumeric() || "_.->[]".contains(c);
        object.address == format!("&{place}") && inner.chars().all(is_part)
    };
    match inner.filter(is_plain) {
        Some(inner) => place_at(inner),
        None => object.clone(),
    }
}

/// Stands for a type that the grammar cannot parse.
const SOME_TYPE: &str = "some_type_t";

/// The code with a name in place of each `typeof`, which the grammar does not know in casts.
fn without_typeof(body: &str) -> String {
    let mut text = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(at) = rest.find("typeof") {
        let word = rest[..at].trim_end_matches('_').len();
        let Some(open) = rest[at..].find('(').map(|open| at + open) else {
            break;
        };
        let mut depth = 0;
        let close = rest[open..].char_indices().find(|(_, c)| {
            depth += i32::from(*c == '(') - i32::from(*c == ')');
            depth == 0
        });
        let Some((close, _)) = close else { break };
        text.push_str(&rest[..word]);
        text.push_str(SOME_TYPE);
        rest = &rest[open + close + 1..];
    }
    text.push_str(rest);
    text
}

/// The words of a piece of code.
fn words(text: &str) -> impl Iterator<Item = &str> {
    let parts = text.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    parts.filter(|word| !word.is_empty())
}

/// Puts arguments in place of parameters, as the preprocessor does: in place of every word.
pub(crate) fn substitute(body: &str, parameters: &[String], arguments: &[&str]) -> String {
    replace_words(body, |_, word| {
        let parameter = parameters.iter().position(|parameter| parameter == word);
        parameter.and_then(|index| arguments.get(index).copied())
    })
}

/// Replaces words of a text by what a function returns, which is given the text before the word, and the word.
pub(crate) fn replace_words<'t>(
    body: &str,
    replacement: impl Fn(&str, &str) -> Option<&'t str>,
) -> String {
    let mut text = String::with_capacity(body.len());
    let mut rest = body;
    while let Some(start) = rest.find(|c: char| c.is_alphanumeric() || c == '_') {
        text.push_str(&rest[..start]);
        let word = &rest[start..];
        let end = word
            .find(|c: char| !(c.is_alphanumeric() || c == '_'))
            .unwrap_or(word.len());
        let word = &word[..end];
        let before = &body[..body.len() - rest.len() + start];
        match replacement(before, word) {
            Some(argument) => text.push_str(argument),
            None => text.push_str(word),
        }
        rest = &rest[start + end..];
    }
    text.push_str(rest);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn macros(text: &str) -> MacroDefinitions {
        let source = SourceTree::new("m.h", text.to_owned()).unwrap();
        MacroDefinitions::of(&source, &|_, _| None)
    }

    #[test]
    fn the_object_of_a_macro_has_the_arguments_of_its_use() {
        let macros = macros(
            "#define MOV(place, value) (*(volatile __typeof__(place) *)&(place) = (value))\n",
        );
        let object = macros.stored_object("MOV", &["p->x", "1"]).unwrap();
        assert_eq!(object.address, "&p->x");
        assert_eq!(object.place.as_deref(), Some("p->x"));
    }

    #[test]
    fn macros_that_use_macros_are_followed() {
        let macros = macros("#define SET(o, v) ((o)->x = (v))\n#define STORE(o, v) SET(o, v)\n");
        assert_eq!(
            macros.stored_object("STORE", &["p", "1"]).unwrap().address,
            "&(p)->x"
        );
    }

    #[test]
    fn assembly_shows_what_it_writes() {
        let text = "#define NT(place, value) __asm__ volatile(\"movnti %1, %0\" : \"=m\"(place) : \"r\"(value) : \"memory\")\n";
        assert_eq!(
            macros(text)
                .stored_object("NT", &["p->x", "1"])
                .unwrap()
                .address,
            "&p->x"
        );
    }

    #[test]
    fn definitions_that_differ_are_not_used() {
        let text = "#ifdef A\n#define SET(o, v) ((o)->x = (v))\n#else\n#define SET(o, v) ((o)->y = (v))\n#endif\n";
        assert_eq!(macros(text).stored_object("SET", &["p", "1"]), None);
    }

    #[test]
    fn words_are_replaced_and_parts_of_words_are_not() {
        let parameters = ["p".to_owned()];
        assert_eq!(
            substitute("(p)->pp + p", &parameters, &["q"]),
            "(q)->pp + q"
        );
    }

    #[test]
    fn macros_that_take_an_object_are_distinguished() {
        let text = "#define CLWB(place) __asm__(\"clwb %0\" : \"+m\"(*(volatile char *)&(place)))\n#define FLUSH(place) CLWB(place)\n#define AT(p, n) flush(p, n)\n";
        let macros = macros(text);
        assert!(macros.takes_place("CLWB") && macros.takes_place("FLUSH"));
        assert!(!macros.takes_place("AT"));
    }
}
