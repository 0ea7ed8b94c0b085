//! Repairs: the edits that make one statement flush what it stores, or fence after it.

use crate::RepairRefusal;
use crate::edit::Edit;
use crate::helper::{self, SYNC, WRITE_BACK};
use crate::hoisting;
use crate::idiom::{Deed, Form, Idiom, Idioms, includes};
use crate::macros::MacroDefinitions;
use crate::span::{SourceSpan, StoreSpan};
use crate::statement::Statement;
use crate::stored_object::{StoredObject, primary};
use crate::syntax::{SourceLanguage, SourceTree, descendants};

/// The keyword of Rust, for the code that repairs add.
const UNSAFE: &str = "unsafe";

/// What a repair adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RepairOperation {
    /// A flush of what the statement stores.
    Flush,
    /// A fence.
    Fence,
    /// Both.
    FlushAndFence,
    /// An entry in the log of a libpmemobj transaction, before the statement.
    Log,
}

impl RepairOperation {
    pub fn flushes(self) -> bool {
        matches!(self, Self::Flush | Self::FlushAndFence)
    }

    pub fn fences(self) -> bool {
        matches!(self, Self::Fence | Self::FlushAndFence)
    }
}

/// Where the operation is added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RepairScope {
    /// After the statement (before it, if it is an entry in a log).
    Statement,
    /// After the loop around the statement.
    Loop,
}

/// A statement of a function that the repaired statement calls.
#[derive(Clone, Copy)]
pub struct CalledStatement<'a> {
    pub source: &'a SourceTree,
    pub macros: &'a MacroDefinitions,
    pub line: u32,
    pub column: Option<u32>,
}

/// A statement that is to be repaired.
#[derive(Clone, Copy)]
pub struct RepairRequest<'a> {
    pub source: &'a SourceTree,
    pub line: u32,
    pub column: Option<u32>,
    pub scope: RepairScope,
    pub operation: RepairOperation,
    /// What is stored is in one cache line each time.
    pub one_line: bool,
    /// The program relies on `msync`.
    pub syncs: bool,
    pub macros: &'a MacroDefinitions,
    pub idioms: &'a Idioms,
    /// The statements that lead from the call to the store, the store first; empty if the statement itself stores.
    pub called: &'a [CalledStatement<'a>],
    /// Name the object in the caller only if the callee stores to memory of no particular type, which it is given.
    pub only_generic: bool,
}

/// How a statement is repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRepair {
    pub edits: Vec<Edit>,
    /// The statement or loop.
    pub span: SourceSpan,
    /// The store that is flushed or logged, in the file that makes it.
    pub store: Option<StoreSpan>,
    /// What is executed after the statement whenever it is, in the same block.
    pub followers: Option<SourceSpan>,
    /// The block in which the statement is, by its start.
    pub block: Option<(u32, u32)>,
    /// What is added, which can be more than was asked for: an idiom may flush and fence.
    pub operation: RepairOperation,
    /// The added code.
    pub code: Vec<String>,
}

impl RepairRequest<'_> {
    pub fn repair(&self) -> Result<SourceRepair, RepairRefusal> {
        let statement = Statement::at(self.source, self.line, self.column)?;
        self.refuse_ambiguous(&statement)?;
        if self.operation == RepairOperation::Fence {
            return self.fence(&statement);
        }
        let object = self.object(&statement)?;
        let offset = statement.node.start_byte();
        if self.operation == RepairOperation::Log {
            let code = vec![self.log(&object)];
            let edits = statement.insert_before(&code)?;
            return Ok(self.done(&statement, edits, code, RepairOperation::Log));
        }
        let (object, mut edits, lead) = self.save(&statement, object)?;
        let mut code = Vec::new();
        let operation = self.flush_code(&statement, &object, offset, &mut code);
        if uses(&code, WRITE_BACK) {
            edits.extend(helper::add(WRITE_BACK, self.source, offset));
        }
        if uses(&code, SYNC) {
            edits.extend(helper::add(SYNC, self.source, offset));
        }
        edits.extend(statement.surround(&lead, &code)?);
        let code = lead.into_iter().chain(code).collect();
        Ok(self.done(&statement, edits, code, operation))
    }

    /// What is stored to, as the statement can name it.
    fn object(&self, statement: &Statement<'_>) -> Result<StoredObject, RepairRefusal> {
        let Some((store, calls)) = self.called.split_first() else {
            return StoredObject::of(statement, self.line, self.column, self.macros);
        };
        let mut inside = Statement::at(store.source, store.line, store.column)?;
        let mut object = StoredObject::of(&inside, store.line, store.column, store.macros)?;
        if self.only_generic && !hoisting::is_generic(&object, &inside) {
            return Err(hoisting::not_in_caller(&object, &inside));
        }
        for call in calls {
            let outside = Statement::at(call.source, call.line, call.column)?;
            object = hoisting::in_caller(&object, &inside, &outside, call.line, call.column)?;
            inside = outside;
        }
        hoisting::in_caller(&object, &inside, statement, self.line, self.column)
    }

    /// Refuses what could be another store than the one that is meant.
    fn refuse_ambiguous(&self, statement: &Statement<'_>) -> Result<(), RepairRefusal> {
        let unclear = self.column.is_none() && statement.shares_line(self.line);
        let is_unclear = |called: &CalledStatement<'_>| {
            let inside = Statement::at(called.source, called.line, called.column)?;
            Ok(called.column.is_none() && inside.shares_line(called.line))
        };
        let mut unclear_called = false;
        for called in self.called {
            unclear_called |= is_unclear(called)?;
        }
        // Braces around a statement are added once, so it has one repair.
        let (_, stores) = StoredObject::store_span(statement, self.line, self.column, self.macros);
        let flushes = self.operation != RepairOperation::Fence && self.called.is_empty();
        let several = flushes && stores > 1 && !statement.is_in_block();
        match unclear || unclear_called || several {
            true => Err(RepairRefusal::SeveralStores {
                file: self.source.path.clone(),
                line: self.line,
            }),
            false => Ok(()),
        }
    }

    fn store_span(&self, statement: &Statement<'_>) -> Option<StoreSpan> {
        if self.operation == RepairOperation::Fence {
            return None;
        }
        let span = match self.called.first() {
            None => StoredObject::store_span(statement, self.line, self.column, self.macros),
            Some(store) => {
                let inside = Statement::at(store.source, store.line, store.column).ok()?;
                StoredObject::store_span(&inside, store.line, store.column, store.macros)
            }
        };
        Some(span.0)
    }

    fn done(
        &self,
        statement: &Statement<'_>,
        edits: Vec<Edit>,
        code: Vec<String>,
        operation: RepairOperation,
    ) -> SourceRepair {
        SourceRepair {
            edits,
            span: statement.span(),
            followers: statement.followers(),
            block: statement.block(),
            store: self.store_span(statement),
            operation,
            code,
        }
    }

    fn fence(&self, statement: &Statement<'_>) -> Result<SourceRepair, RepairRefusal> {
        let around = match self.scope {
            RepairScope::Statement => Some(*statement),
            RepairScope::Loop => statement.enclosing_loop(),
        };
        let around = around.ok_or(RepairRefusal::NoPlace {
            file: self.source.path.clone(),
            line: self.line,
            part: "a statement outside of loops",
        })?;
        let code = vec![self.fence_code(&around)];
        let edits = around.insert_after(&code)?;
        Ok(self.done(&around, edits, code, RepairOperation::Fence))
    }

    /// Saves the address of an object whose expression has an effect, in a variable before the statement.
    fn save(
        &self,
        statement: &Statement<'_>,
        object: StoredObject,
    ) -> Result<(StoredObject, Vec<Edit>, Vec<String>), RepairRefusal> {
        let Some(range) = object.saved.clone() else {
            return Ok((object, Vec::new(), Vec::new()));
        };
        let place = object.place.clone().unwrap_or_default();
        let changes = RepairRefusal::Changes {
            file: self.source.path.clone(),
            line: self.line,
            object: place.clone(),
        };
        let is_unsafe = self.source.language != SourceLanguage::Rust || statement.is_unsafe();
        if !statement.is_in_block() || !is_unsafe || statement.node.kind() == "declaration" {
            return Err(changes);
        }
        let name = match statement.starts_line() {
            true => format!("pm_stored_{}", self.line),
            false => format!("pm_stored_{}_{}", self.line, statement.span().start.1),
        };
        let rest = self.source.text[range.end..].trim_start();
        let is_assigned = !rest.starts_with("++")
            && !rest.starts_with("--")
            && !rest.starts_with(['.', '-', '[', '(']);
        let declaration = match self.source.language {
            SourceLanguage::C => format!("__typeof__({place}) *{name} = &{};", primary(&place)),
            SourceLanguage::Cpp => format!("auto *{name} = &{};", primary(&place)),
            SourceLanguage::Rust => format!("let {name} = &raw mut {place};"),
        };
        let replacement = match is_assigned {
            true => format!("*{name}"),
            false => format!("(*{name})"),
        };
        let saved = StoredObject {
            address: name.clone(),
            place: Some(format!("*{name}")),
            length: object.length,
            saved: None,
        };
        Ok((
            saved,
            vec![Edit::replace(range, replacement)],
            vec![declaration],
        ))
    }

    /// Adds the code that flushes an object and, if it is asked for or cannot be avoided, fences. Returns what it does.
    fn flush_code(
        &self,
        statement: &Statement<'_>,
        object: &StoredObject,
        offset: usize,
        code: &mut Vec<String>,
    ) -> RepairOperation {
        let find = |deed| {
            self.idioms
                .find(deed, self.source, offset, self.one_line, self.macros)
        };
        let call = |idiom: &Idiom| self.call(statement, idiom, object);
        if self.syncs {
            let sync = find(Deed::Persist).map(|idiom| call(&idiom));
            code.push(sync.unwrap_or_else(|| self.range_call(SYNC, object)));
            return RepairOperation::FlushAndFence;
        }
        let persist = find(Deed::Persist).map(|idiom| call(&idiom));
        let flush = find(Deed::Flush).map(|idiom| call(&idiom));
        let library = self.library(statement, object);
        let wants_fence = self.operation.fences();
        match (persist, flush, library) {
            (Some(persist), _, _) if wants_fence => code.push(persist),
            (_, Some(flush), _) => {
                code.push(flush);
                if wants_fence {
                    code.push(self.fence_code(statement));
                }
            }
            // It also fences, which does no harm.
            (Some(persist), None, None) => {
                code.push(persist);
                return RepairOperation::FlushAndFence;
            }
            (_, None, Some([_, persist])) if wants_fence => code.push(persist),
            (_, None, Some([flush, _])) => code.push(flush),
            (None, None, None) => {
                code.push(self.range_call(WRITE_BACK, object));
                if wants_fence {
                    code.push(self.fence_code(statement));
                }
            }
        }
        self.operation
    }

    /// Flush and persist of a library that the file uses.
    fn library(&self, statement: &Statement<'_>, object: &StoredObject) -> Option<[String; 2]> {
        let names = ["flush", "persist"];
        if includes(self.source, "libpmem.h") {
            return Some(names.map(|name| self.range_call(&format!("pmem_{name}"), object)));
        }
        includes(self.source, "libpmemobj").then(|| {
            names.map(|name| {
                let idiom = Idiom {
                    name: format!("pmemobj_{name}"),
                    form: Form::Pool,
                    bang: false,
                    example: None,
                };
                self.call(statement, &idiom, object)
            })
        })
    }

    fn call(&self, statement: &Statement<'_>, idiom: &Idiom, object: &StoredObject) -> String {
        let name = &idiom.name;
        let place = object.place.clone();
        let place = place.unwrap_or_else(|| format!("*{}", primary(&object.address)));
        match idiom.form {
            Form::Nothing => format!("{name}{}();", if idiom.bang { "!" } else { "" }),
            Form::Place if idiom.bang => format!("{name}!({place});"),
            Form::Place => format!("{name}({place});"),
            Form::Reference => self.wrapped(statement, name, format!("{name}(&{place});")),
            Form::Range => self.wrapped(statement, name, self.range_call(name, object)),
            Form::Pointer => {
                let address = self.address(name, object);
                self.wrapped(statement, name, format!("{name}({address});"))
            }
            Form::Pool => {
                let address = &object.address;
                let pool = self
                    .pool(statement, idiom)
                    .unwrap_or_else(|| format!("pmemobj_pool_by_ptr({address})"));
                format!("{name}({pool}, {address}, {});", self.length(object))
            }
        }
    }

    /// The call in an unsafe block, if its function is unsafe and the statement is not in such a block.
    fn wrapped(&self, statement: &Statement<'_>, name: &str, call: String) -> String {
        if self.source.language != SourceLanguage::Rust || statement.is_unsafe() {
            return call;
        }
        let declaration = rust_function(self.source, name);
        let is_unsafe = declaration.is_none_or(|text| text.contains(&format!("{UNSAFE} fn")));
        match is_unsafe || call.contains("&*") {
            true => format!("{UNSAFE} {{ {} }};", call.trim_end_matches(';')),
            false => call,
        }
    }

    fn range_call(&self, name: &str, object: &StoredObject) -> String {
        format!(
            "{name}({}, {});",
            self.address(name, object),
            self.length(object)
        )
    }

    /// The address in the type that a function takes.
    fn address(&self, name: &str, object: &StoredObject) -> String {
        let address = &object.address;
        if self.source.language == SourceLanguage::Rust {
            let taken = rust_function(self.source, name).unwrap_or("*const u8");
            let pointer = ["*const u8", "*mut u8", "*const c_void", "*mut c_void"];
            let pointer = pointer.iter().find(|pointer| taken.contains(**pointer));
            return match pointer {
                Some(pointer) => {
                    // A method binds more tightly than what an expression begins with.
                    let address = primary(address);
                    match pointer.contains("mut") {
                        true => format!("{}.cast()", address.replacen("&raw const", "&raw mut", 1)),
                        false => format!("{address}.cast()"),
                    }
                }
                None => address.clone(),
            };
        }
        // A function that takes a plain pointer must not be given a volatile one.
        let is_ours = [WRITE_BACK, SYNC].contains(&name);
        match !is_ours && self.has_volatile() && self.source.language == SourceLanguage::C {
            true => format!("(void *){}", address_operand(address)),
            false => address.clone(),
        }
    }

    /// Whether something in the file is volatile, which may be the object.
    fn has_volatile(&self) -> bool {
        let nodes = descendants(self.source.root()).into_iter();
        let mut qualifiers = nodes.filter(|node| node.kind() == "type_qualifier");
        qualifiers.any(|node| self.source.text_of(node) == "volatile")
    }

    fn length(&self, object: &StoredObject) -> String {
        match (&object.length, &object.place) {
            (Some(length), _) => length.clone(),
            (None, Some(place)) if self.source.language == SourceLanguage::Rust => {
                format!("std::mem::size_of_val(&{place})")
            }
            (None, Some(place)) => format!("sizeof({place})"),
            (None, None) => format!("sizeof(*{})", primary(&object.address)),
        }
    }

    /// The pool that an earlier call named, if the variable is there.
    fn pool(&self, statement: &Statement<'_>, idiom: &Idiom) -> Option<String> {
        let example = idiom.example.clone();
        let function = statement.function()?;
        let example = example.unwrap_or_else(|| "pop".to_owned());
        let is_word = example.chars().all(|c| c.is_alphanumeric() || c == '_');
        let declares = |node: &tree_sitter::Node<'_>| {
            matches!(node.kind(), "parameter_declaration" | "declaration")
                && node.start_byte() < statement.node.start_byte()
                && self.source.text_of(*node).contains("PMEMobjpool")
                && descendants(*node).iter().any(|part| {
                    part.kind() == "identifier" && self.source.text_of(*part) == example
                })
        };
        let is_there = is_word && descendants(function).iter().any(declares);
        is_there.then_some(example)
    }

    fn fence_code(&self, statement: &Statement<'_>) -> String {
        let offset = statement.node.start_byte();
        let known = self
            .idioms
            .find(Deed::Fence, self.source, offset, true, self.macros);
        if let Some(idiom) = known {
            let bang = if idiom.bang { "!" } else { "" };
            let call = format!("{}{bang}();", idiom.name);
            return match idiom.bang {
                true => call,
                false => self.wrapped(statement, &idiom.name, call),
            };
        }
        if self.source.language == SourceLanguage::Rust {
            let fence = "std::arch::asm!(\"sfence\", options(nostack, preserves_flags))";
            return match statement.is_unsafe() {
                true => format!("{fence};"),
                false => format!("{UNSAFE} {{ {fence} }};"),
            };
        }
        let fence = if includes(self.source, "libpmem.h") {
            "pmem_drain();"
        } else if includes(self.source, "mmintrin.h") || includes(self.source, "immintrin.h") {
            "_mm_sfence();"
        } else {
            "__builtin_ia32_sfence();"
        };
        fence.to_owned()
    }

    fn log(&self, object: &StoredObject) -> String {
        if includes(self.source, "libpmemobj++") {
            return format!("pmem::obj::transaction::snapshot({});", object.address);
        }
        self.range_call("pmemobj_tx_add_range_direct", object)
    }
}

/// The operand of a cast.
fn address_operand(address: &str) -> String {
    match address.starts_with('&') {
        true => address.to_owned(),
        false => primary(address),
    }
}

fn uses(code: &[String], name: &str) -> bool {
    code.iter()
        .any(|line| line.starts_with(&format!("{name}(")) || line.contains(&format!(" {name}(")))
}

/// The declaration of a function of a Rust file, without its body.
fn rust_function<'s>(source: &'s SourceTree, name: &str) -> Option<&'s str> {
    let mut functions = descendants(source.root())
        .into_iter()
        .filter(|node| node.kind() == "function_item");
    let function = functions.find(|node| {
        let named = node.child_by_field_name("name");
        named.is_some_and(|named| source.text_of(named) == name)
    })?;
    let body = function.child_by_field_name("body")?;
    Some(&source.text[function.start_byte()..body.start_byte()])
}

#[cfg(test)]
#[path = "repair_tests.rs"]
mod tests;
