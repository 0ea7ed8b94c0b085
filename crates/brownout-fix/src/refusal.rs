//! Why a finding is not repaired, in sentences that say what a person can do.

/// Why there is no repair.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RepairRefusal {
    #[error("no frame of its stack has a source line of the program; compile it with -g")]
    NoSource,
    #[error("{file} cannot be read ({why}); run `brownout fix` where the sources are")]
    Unreadable { file: String, why: String },
    #[error(
        "{file} has changed since the program was built ({why}); build and check the program again"
    )]
    Stale { file: String, why: &'static str },
    #[error(
        "{file} is neither C, C++ nor Rust as its name says; insert the flush or fence by hand"
    )]
    OtherLanguage { file: String },
    #[error(
        "the syntax of {file} around line {line} is not understood; insert the flush or fence by hand"
    )]
    NotParsed { file: String, line: u32 },
    #[error(
        "line {line} of {file} is inside a macro definition; repair the macro by hand, or replace its use by a function"
    )]
    MacroDefinition { file: String, line: u32 },
    #[error(
        "the store at line {line} of {file} is made by the macro {name}, and its definition or its arguments do not show what it stores to; insert the flush after its use by hand"
    )]
    MacroUse {
        file: String,
        line: u32,
        name: String,
    },
    #[error(
        "line {line} of {file} has no store whose address can be written down; insert the flush by hand"
    )]
    NoStore { file: String, line: u32 },
    #[error(
        "line {line} of {file} has several stores and the debug information does not say which; put them on lines of their own, build and check again"
    )]
    SeveralStores { file: String, line: u32 },
    #[error(
        "`{object}` at line {line} of {file} is a bit-field, which has no address; flush the structure by hand"
    )]
    BitField {
        file: String,
        line: u32,
        object: String,
    },
    #[error(
        "at line {line} of {file}, {part} does it, after which nothing can be inserted; put it in a statement of its own"
    )]
    NoPlace {
        file: String,
        line: u32,
        part: &'static str,
    },
    #[error(
        "`{object}` at line {line} of {file} means something else after the statement, which changes what it depends on; insert the flush by hand"
    )]
    Changes {
        file: String,
        line: u32,
        object: String,
    },
    #[error(
        "the address of `{object}` at line {line} of {file} would have to be saved before the statement, which can change the order of evaluation; save it in a variable by hand, build and check again"
    )]
    Order {
        file: String,
        line: u32,
        object: String,
    },
    #[error(
        "the callers of the function with line {line} of {file} cannot name `{object}`; insert the flush by hand"
    )]
    NotInCaller {
        file: String,
        line: u32,
        object: String,
    },
    #[error(
        "what `{object}` at line {line} of {file} is depends on memory that can change before the store; add it to the log by hand, right before the store"
    )]
    NotLogged {
        file: String,
        line: u32,
        object: String,
    },
    #[error(
        "no object of which the length is known covers what the loop around line {line} of {file} stores; insert the flush after the loop by hand"
    )]
    NotCovered { file: String, line: u32 },
    #[error(
        "the function {name} around line {line} of {file} {why}, so it cannot be copied for persistent memory; insert the flush by hand"
    )]
    NotCopied {
        file: String,
        line: u32,
        name: String,
        why: &'static str,
    },
    #[error(
        "the statement at line {line} of {file} cannot be removed as a whole: {part}; remove it by hand if no path needs it"
    )]
    NotRemoved {
        file: String,
        line: u32,
        part: &'static str,
    },
    #[error("{0}")]
    Rule(&'static str),
}
