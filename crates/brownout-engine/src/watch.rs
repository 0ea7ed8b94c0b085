//! The functions whose calls are recorded.

use brownout_ring::{WATCH_BYTES, watch};
use std::borrow::Cow;
use std::collections::HashSet;

/// A function whose calls are recorded, wherever a module of the target has a symbol of its name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct WatchedFunction {
    /// As in symbol tables: of C++ and Rust functions the mangled name.
    pub name: Cow<'static, str>,
    /// How many arguments in integer registers are kept, at most six.
    pub arguments: u8,
}

/// A list of functions that the target cannot be told.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    #[error("a function cannot be watched by the name '{}': {}", name, if name.is_empty() { "it is empty" } else { "it is too long" })]
    Name { name: String },
    #[error(
        "there are too many functions to watch: their names take more than {WATCH_BYTES} bytes"
    )]
    TooMany,
}

impl WatchedFunction {
    /// Watches a function with all arguments there can be.
    pub fn named(name: impl Into<Cow<'static, str>>) -> Self {
        WatchedFunction {
            name: name.into(),
            arguments: watch::MAX_ARGUMENTS,
        }
    }
}

/// The table that is put on the wire, and the names in the order of their numbers.
pub(crate) struct WatchTable {
    pub(crate) bytes: Vec<u8>,
    pub(crate) names: Vec<String>,
}

impl WatchTable {
    /// A function that is named twice is watched as it was named first.
    pub(crate) fn of(functions: &[WatchedFunction]) -> Result<WatchTable, WatchError> {
        let (mut bytes, mut names) = (Vec::new(), Vec::new());
        let mut known = HashSet::new();
        for WatchedFunction { name, arguments } in functions {
            let unusable = || WatchError::Name {
                name: name.to_string(),
            };
            let head = watch::head(*arguments, name).ok_or_else(unusable)?;
            if known.insert(name) {
                bytes.extend(head);
                bytes.extend(name.as_bytes());
                names.push(name.to_string());
            }
        }
        if bytes.len() > WATCH_BYTES {
            return Err(WatchError::TooMany);
        }
        Ok(WatchTable { bytes, names })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_target_reads_the_table_that_was_written() {
        let functions = [
            WatchedFunction::named("begin"),
            WatchedFunction {
                name: "end".into(),
                arguments: 0,
            },
            WatchedFunction::named("end"),
        ];
        let mut table = WatchTable::of(&functions).unwrap();
        assert_eq!(table.names, ["begin", "end"]);
        table.bytes.resize(WATCH_BYTES, 0);
        let read: Vec<(u8, &[u8])> = watch::entries(&table.bytes).collect();
        assert_eq!(read, [(6, &b"begin"[..]), (0, b"end")]);
    }

    #[test]
    fn names_that_do_not_fit_are_refused() {
        let named = |len: usize| WatchTable::of(&[WatchedFunction::named("x".repeat(len))]);
        assert!(matches!(named(0), Err(WatchError::Name { .. })));
        assert!(matches!(named(5000), Err(WatchError::Name { .. })));
        assert!(named(4000).is_ok());
        let many: Vec<_> = (0..20)
            .map(|n| WatchedFunction::named(format!("{n:04000}")))
            .collect();
        assert!(matches!(WatchTable::of(&many), Err(WatchError::TooMany)));
    }
}
