//! Repairs: the edits that make one statement flush what it stores, or fence after it.

use brownout_libraries::{PoolNames, drain_call, log_call, persisting_calls};

use crate::RepairRefusal;
use crate::arch::{C_FENCE, FENCE_INTRINSIC, INTRINSIC_HEADERS, RUST_FENCE};
use crate::edit::Edit;
use crate::function_copy::{CopiedFunction, FunctionCopy, copy_chain};
use crate::helper::{self, SYNC, WRITE_BACK};
use crate::hoisting;
use crate::idiom::{Deed, Form, Idiom, Idioms, includes};
use crate::loop_range::covering;
use crate::macros::MacroDefinitions;
use crate::merged_stores::{MergedGroup, group};
use crate::span::{SourceSpan, StoreSpan};
use crate::statement::Statement;
use crate::stored_object::{self, StoredObject, primary, store_positions};
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
    /// Nothing: the statement, which flushes, fences or logs, is removed.
    Removal,
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
    /// After the statements of functions that are copied for this call; a fence goes after the call.
    Copy,
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
    /// In a loop, consecutive executions store to the same or to neighbouring cache lines.
    pub is_dense: bool,
    /// Whether a line of the source has instructions that store.
    pub has_stores: &'a dyn Fn(u32) -> bool,
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
    /// Edits of other files.
    pub elsewhere: Vec<(String, Edit)>,
    /// Copies of functions that are added, with the edits that only they have.
    pub copies: Vec<FunctionCopy>,
    /// The added code.
    pub code: Vec<String>,
}

impl<'a> RepairRequest<'a> {
    pub fn repair(&self) -> Result<SourceRepair, RepairRefusal> {
        let statement = Statement::at(self.source, self.line, self.column)?;
        if self.operation == RepairOperation::Fence {
            if self.column.is_none() && statement.shares_line(self.line) {
                return Err(RepairRefusal::SeveralStores {
                    file: self.source.path.clone(),
                    line: self.line,
                });
            }
            return self.fence(&statement);
        }
        let others = self.indistinct(&statement)?;
        if !others.is_empty() {
            return self.all(&others);
        }
        if self.scope == RepairScope::Copy {
            return self.by_copies(&statement);
        }
        let object = self.object(&statement)?;
        if self.scope == RepairScope::Loop {
            return self.after_loop(&statement, object);
        }
        if self.operation == RepairOperation::Log {
            return self.logged(&statement, object);
        }
        let is_own = self.called.is_empty();
        let merged = is_own.then(|| group(&statement, &object, self.macros, self.has_stores));
        if let Some(merged) = merged.flatten() {
            return self.after_group(&statement, object, &merged);
        }
        let (object, edits, lead) = self.save(&statement, object)?;
        self.flushed(&statement, &[object], edits, lead)
    }

    /// Adds an object to the log before a statement. What the address or the length is computed from must be the same there as at the
    /// store, and what has an effect must not be evaluated twice.
    fn logged(
        &self,
        statement: &Statement<'_>,
        object: StoredObject,
    ) -> Result<SourceRepair, RepairRefusal> {
        let is_early = !self.called.is_empty() && self.reads_memory(&object);
        if is_early || object.is_text() {
            return Err(RepairRefusal::NotLogged {
                file: self.source.path.clone(),
                line: self.line,
                object: object.place.unwrap_or(object.address),
            });
        }
        let (object, mut edits, mut code) = self.save(statement, object)?;
        let call = self.log(&object);
        // A repair that flushes after the statement saves the address by the same edit.
        if statement.is_in_block() && !code.is_empty() {
            edits.extend(statement.insert_before(&code)?);
            edits.extend(statement.insert_before(std::slice::from_ref(&call))?);
            code.push(call);
        } else {
            code.push(call);
            edits.extend(statement.insert_before(&code)?);
        }
        Ok(self.done(statement, edits, code, RepairOperation::Log))
    }

    /// Whether what an object is depends on memory, or that is not known.
    fn reads_memory(&self, object: &StoredObject) -> bool {
        let read = object.memory_read(self.source.language);
        read.is_none_or(|read| !read.is_empty())
    }

    /// Flushes objects after a statement.
    fn flushed(
        &self,
        statement: &Statement<'_>,
        objects: &[StoredObject],
        mut edits: Vec<Edit>,
        lead: Vec<String>,
    ) -> Result<SourceRepair, RepairRefusal> {
        let offset = statement.node.start_byte();
        let mut code = Vec::new();
        let mut operation = self.operation;
        for (number, object) in objects.iter().enumerate() {
            let is_last = number + 1 == objects.len();
            let request = match is_last {
                true => *self,
                // One fence suffices.
                false => Self {
                    operation: RepairOperation::Flush,
                    ..*self
                },
            };
            let done = request.flush_code(statement, object, offset, &mut code);
            if is_last {
                operation = done;
            }
        }
        let is_macro = |line: &String| {
            let name = line.split('(').next().unwrap_or_default();
            self.macros.is_macro(name)
        };
        if statement.takes_expressions() && code.iter().any(is_macro) {
            return Err(RepairRefusal::NoPlace {
                file: self.source.path.clone(),
                line: self.line,
                part: "the head of a loop",
            });
        }
        for helper in [WRITE_BACK, SYNC] {
            if uses(&code, helper) {
                edits.extend(helper::add(helper, self.source, offset));
            }
        }
        edits.extend(statement.surround(&lead, &code)?);
        let code = lead.into_iter().chain(code).collect();
        Ok(self.done(statement, edits, code, operation))
    }

    /// Flushes what the loop around a statement stores, once, after the loop.
    fn after_loop(
        &self,
        statement: &Statement<'_>,
        object: StoredObject,
    ) -> Result<SourceRepair, RepairRefusal> {
        let covered = covering(&object, statement).filter(|_| self.is_dense);
        let (around, covered) = covered.ok_or_else(|| RepairRefusal::NotCovered {
            file: self.source.path.clone(),
            line: self.line,
        })?;
        let whole = Self {
            one_line: false,
            ..*self
        };
        let repair = whole.flushed(&around, &[covered], Vec::new(), Vec::new())?;
        Ok(SourceRepair {
            store: self.store_span(statement),
            ..repair
        })
    }

    /// Copies the functions between the call and the store, which flush in the copies, and fences after the call.
    fn by_copies(&self, statement: &Statement<'_>) -> Result<SourceRepair, RepairRefusal> {
        let (store, calls) = self.called.split_first().ok_or(RepairRefusal::NoSource)?;
        let inside = Self {
            source: store.source,
            line: store.line,
            column: store.column,
            scope: RepairScope::Loop,
            operation: RepairOperation::Flush,
            macros: store.macros,
            called: &[],
            ..*self
        };
        let of_statement = Self {
            scope: RepairScope::Statement,
            ..inside
        };
        let flushed = inside.repair().or_else(|_| of_statement.repair())?;
        let functions = std::iter::once(store).chain(calls);
        let mut chain = Vec::new();
        for called in functions {
            chain.push(CopiedFunction {
                statement: Statement::at(called.source, called.line, called.column)?,
                at: (called.line, called.column),
            });
        }
        let caller = CopiedFunction {
            statement: *statement,
            at: (self.line, self.column),
        };
        let function = chain[0].statement.function();
        let function = function.ok_or(RepairRefusal::NoSource)?.byte_range();
        let (own, outside): (Vec<Edit>, Vec<Edit>) = flushed
            .edits
            .into_iter()
            .partition(|edit| function.start < edit.start && edit.end <= function.end);
        let copied = copy_chain(&chain, own, &caller)?;
        let mut edits = vec![copied.call];
        let mut code = flushed.code;
        if self.operation.fences() {
            let fence = self.fence_code(statement);
            edits.extend(statement.insert_after(std::slice::from_ref(&fence))?);
            code.push(fence);
        }
        let outside = outside.into_iter();
        let outside = outside.map(|edit| (store.source.path.clone(), edit));
        let (here, elsewhere): (Vec<_>, Vec<_>) = outside
            .chain(copied.declarations)
            .partition(|(path, _)| *path == self.source.path);
        edits.extend(here.into_iter().map(|(_, edit)| edit));
        let operation = match flushed.operation.fences() {
            true => RepairOperation::FlushAndFence,
            false => self.operation,
        };
        Ok(SourceRepair {
            elsewhere,
            copies: copied.copies,
            ..self.done(statement, edits, code, operation)
        })
    }

    /// Flushes what a merged store has stored, after the last of its statements.
    fn after_group(
        &self,
        statement: &Statement<'_>,
        object: StoredObject,
        merged: &MergedGroup<'_>,
    ) -> Result<SourceRepair, RepairRefusal> {
        let mut objects = vec![object];
        if !self.one_line {
            objects.extend(merged.others.iter().cloned());
        }
        let repair = self.flushed(&merged.last, &objects, Vec::new(), Vec::new())?;
        let (first, last) = (statement.span(), merged.last.span());
        Ok(SourceRepair {
            span: SourceSpan {
                start: first.start.min(last.start),
                end: first.end.max(last.end),
            },
            store: self.store_span(statement),
            ..repair
        })
    }

    /// The stores that the debug information does not tell apart from the one that is meant: those of the line without a column, and
    /// those of a statement of which the column names none. Empty if it is clear.
    fn indistinct(&self, statement: &Statement<'_>) -> Result<Vec<(u32, u32)>, RepairRefusal> {
        let mut unclear_called = false;
        for called in self.called {
            let inside = Statement::at(called.source, called.line, called.column)?;
            unclear_called |= called.column.is_none() && inside.shares_line(called.line);
        }
        let is_unclear = self.column.is_none() && statement.shares_line(self.line);
        if unclear_called || (is_unclear && !self.called.is_empty()) {
            return Err(RepairRefusal::SeveralStores {
                file: self.source.path.clone(),
                line: self.line,
            });
        }
        if !self.called.is_empty() {
            return Ok(Vec::new());
        }
        let positions = match is_unclear {
            true => statement.on_line(self.line),
            false => vec![*statement],
        };
        let positions: Vec<(u32, u32)> = positions
            .iter()
            .flat_map(|statement| store_positions(statement, self.macros))
            .collect();
        let is_clear =
            !is_unclear && StoredObject::is_clear(statement, self.line, self.column, self.macros);
        Ok(match is_clear || positions.len() < 2 {
            true => Vec::new(),
            false => positions,
        })
    }

    /// Repairs all of several stores.
    fn all(&self, positions: &[(u32, u32)]) -> Result<SourceRepair, RepairRefusal> {
        let mut repairs = Vec::new();
        for (line, column) in positions {
            let one = Self {
                line: *line,
                column: Some(*column),
                ..*self
            };
            repairs.push(one.repair()?);
        }
        let spans = || repairs.iter().map(|repair| repair.span);
        let start = spans().map(|span| span.start).min().unwrap_or_default();
        let end = spans().map(|span| span.end).max().unwrap_or_default();
        let span = SourceSpan { start, end };
        let last = repairs.last().cloned();
        let last = last.ok_or_else(|| RepairRefusal::NoStore {
            file: self.source.path.clone(),
            line: self.line,
        })?;
        Ok(SourceRepair {
            edits: repairs.iter().flat_map(|one| one.edits.clone()).collect(),
            span,
            store: Some(StoreSpan {
                span,
                others: Vec::new(),
            }),
            code: repairs.iter().flat_map(|one| one.code.clone()).collect(),
            ..last
        })
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
        let sites = calls
            .iter()
            .map(|call| (call.source, call.line, call.column));
        let sites = sites.chain(std::iter::once((self.source, self.line, self.column)));
        for (source, line, column) in sites {
            let outside = Statement::at(source, line, column)?;
            // An entry in a log comes before the call.
            let is_after = self.operation != RepairOperation::Log;
            let hoisted = |object: &StoredObject| {
                let found = hoisting::in_caller(object, &inside, &outside, line, column)?;
                match is_after && hoisting::changes(object, &inside, &outside, line, column) {
                    true => Err(hoisting::not_in_caller(object, &inside)),
                    false => Ok(found),
                }
            };
            object = match hoisted(&object) {
                Ok(object) => object,
                Err(refusal) => {
                    // One object may cover what a loop of the callee stores.
                    let (_, range) = covering(&object, &inside).ok_or(refusal)?;
                    hoisted(&range)?
                }
            };
            inside = outside;
        }
        Ok(object)
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
            elsewhere: Vec::new(),
            copies: Vec::new(),
            code,
        }
    }

    fn fence(&self, statement: &Statement<'_>) -> Result<SourceRepair, RepairRefusal> {
        let around = match self.scope {
            RepairScope::Loop => statement.enclosing_loop(),
            RepairScope::Statement | RepairScope::Copy => Some(*statement),
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
        if !statement.can_follow_declaration()
            || !is_unsafe
            || statement.node.kind() == "declaration"
        {
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
            guard: None,
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
            let found = self
                .idioms
                .find(deed, self.source, offset, self.one_line, self.macros);
            // A slice is no object that a reference to a sized type can be to.
            let is_nameless = object.is_nameless(self.source.language);
            found.filter(|idiom| {
                !is_nameless || !matches!(idiom.form, Form::Reference | Form::Place)
            })
        };
        let call = |idiom: &Idiom| self.guarded(object, self.call(statement, idiom, object));
        if self.syncs {
            let sync = find(Deed::Persist).map(|idiom| call(&idiom));
            let helper = || self.guarded(object, self.range_call(SYNC, object));
            code.push(sync.unwrap_or_else(helper));
            return RepairOperation::FlushAndFence;
        }
        let persist = find(Deed::Persist).map(|idiom| call(&idiom));
        let flush = find(Deed::Flush).map(|idiom| call(&idiom));
        let library = self.library(statement, object);
        let library = library.map(|calls| calls.map(|call| self.guarded(object, call)));
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
                code.push(self.guarded(object, self.range_call(WRITE_BACK, object)));
                if wants_fence {
                    code.push(self.fence_code(statement));
                }
            }
        }
        self.operation
    }

    /// A call that is made only if there is an object.
    fn guarded(&self, object: &StoredObject, call: String) -> String {
        match (&object.guard, self.source.language) {
            (None, _) => call,
            (Some(guard), SourceLanguage::Rust) => format!("if {guard} {{ {call} }}"),
            (Some(guard), _) => format!("if ({guard}) {call}"),
        }
    }

    /// Flush and persist of a library that the file uses.
    fn library(&self, statement: &Statement<'_>, object: &StoredObject) -> Option<[String; 2]> {
        let calls = persisting_calls(&|header| includes(self.source, header))?;
        let names = [calls.flush?, calls.persist?];
        Some(names.map(|name| match calls.pool {
            None => self.range_call(name, object),
            Some(pool) => {
                let idiom = Idiom {
                    name: name.to_owned(),
                    form: Form::Pool(pool),
                    bang: false,
                    example: None,
                };
                self.call(statement, &idiom, object)
            }
        }))
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
            Form::Pool(names) => {
                let address = &object.address;
                let pool = self
                    .pool(statement, idiom, names)
                    .unwrap_or_else(|| format!("{}({address})", names.of_address));
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
        // What is behind a raw pointer can be named only where that is allowed.
        let is_raw = call.contains("&*") && stored_object::is_unsafe(self.source, statement.node);
        match is_unsafe || is_raw {
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
    fn pool(&self, statement: &Statement<'_>, idiom: &Idiom, names: PoolNames) -> Option<String> {
        let example = idiom.example.clone();
        let function = statement.function()?;
        let example = example.unwrap_or_else(|| names.variable.to_owned());
        let is_word = example.chars().all(|c| c.is_alphanumeric() || c == '_');
        let declares = |node: &tree_sitter::Node<'_>| {
            matches!(node.kind(), "parameter_declaration" | "declaration")
                && node.start_byte() < statement.node.start_byte()
                && self.source.text_of(*node).contains(names.ty)
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
            return match statement.is_unsafe() {
                true => format!("{RUST_FENCE};"),
                false => format!("{UNSAFE} {{ {RUST_FENCE} }};"),
            };
        }
        if let Some(drain) = drain_call(&|header| includes(self.source, header)) {
            return format!("{drain}();");
        }
        let mut headers = INTRINSIC_HEADERS.iter();
        let fence = match headers.any(|header| includes(self.source, header)) {
            true => FENCE_INTRINSIC,
            false => C_FENCE,
        };
        fence.to_owned()
    }

    fn log(&self, object: &StoredObject) -> String {
        let log = log_call(&|header| includes(self.source, header));
        match log.takes_length {
            true => self.range_call(log.name, object),
            false => format!("{}({});", log.name, object.address),
        }
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
