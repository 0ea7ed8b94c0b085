//! The functions of libpmemobj that begin, end and fill transactions.

use brownout_trace::{CallArguments, Definitions, FunctionId};

/// Bytes that an object may have whose size no argument tells: at least so many are taken to be its own.
const UNTOLD_SIZE: u64 = 4096;

/// What a function of libpmemobj has to do with transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TxFunction {
    Begin,
    Commit,
    Abort,
    End,
    /// Commits a transaction that is at work; otherwise goes to its next stage.
    Process,
    /// Adds bytes of an object, named by its offset in the pool.
    Add,
    /// Adds bytes at an address.
    AddDirect,
    /// Makes an object; where its size is among the arguments.
    Allocate {
        size: Option<usize>,
    },
    /// Makes an object that comes into being only when it is published.
    Reserve,
    /// Another one that is part of a transaction and may abort it.
    Other,
    /// Opens or closes a pool.
    Pool,
}

impl TxFunction {
    fn named(name: &str) -> Option<Self> {
        let name = name.strip_prefix("pmemobj_")?;
        Some(match name {
            "tx_begin" => TxFunction::Begin,
            "tx_commit" => TxFunction::Commit,
            "tx_abort" => TxFunction::Abort,
            "tx_end" => TxFunction::End,
            "tx_process" => TxFunction::Process,
            "tx_add_range" | "tx_xadd_range" => TxFunction::Add,
            "tx_add_range_direct" | "tx_xadd_range_direct" => TxFunction::AddDirect,
            "tx_alloc" | "tx_zalloc" | "tx_xalloc" => TxFunction::Allocate { size: Some(0) },
            // An object's name takes two arguments.
            "tx_realloc" | "tx_zrealloc" => TxFunction::Allocate { size: Some(2) },
            "tx_strdup" | "tx_xstrdup" | "tx_wcsdup" | "tx_xwcsdup" => {
                TxFunction::Allocate { size: None }
            }
            "reserve" | "xreserve" => TxFunction::Reserve,
            "create" | "open" | "close" => TxFunction::Pool,
            _ if name.starts_with("tx_") => TxFunction::Other,
            _ => return None,
        })
    }

    /// Where in the pool at `pool` the bytes are that a call adds, and how many.
    pub(crate) fn added(self, pool: u64, args: &CallArguments) -> Option<(u64, u64)> {
        match self {
            TxFunction::Add => {
                let place = pool.wrapping_add(args.get(1)).wrapping_add(args.get(2));
                Some((place, args.get(3)))
            }
            TxFunction::AddDirect => Some((args.get(0), args.get(1))),
            _ => None,
        }
    }

    /// Where the object is that a call has made, and how many bytes it has; `None` if it made none.
    pub(crate) fn made(
        self,
        pool: u64,
        args: &CallArguments,
        [_, offset]: [u64; 2],
    ) -> Option<(u64, u64)> {
        let (pool, size) = match self {
            TxFunction::Allocate { size } => {
                (pool, size.map_or(UNTOLD_SIZE, |place| args.get(place)))
            }
            TxFunction::Reserve => (args.get(0), args.get(2)),
            _ => return None,
        };
        (offset != 0).then(|| (pool.wrapping_add(offset), size))
    }

    /// Whether the result of a call says that it failed.
    pub(crate) fn failed(self, [first, second]: [u64; 2]) -> bool {
        match self {
            // No object was made.
            TxFunction::Allocate { .. } => second == 0,
            TxFunction::Begin | TxFunction::Add | TxFunction::AddDirect | TxFunction::Other => {
                first as i32 != 0
            }
            _ => false,
        }
    }
}

/// Finds the functions by their numbers in the trace.
#[derive(Debug, Default)]
pub(crate) struct Functions {
    known: Vec<Option<Option<TxFunction>>>,
}

impl Functions {
    pub(crate) fn get(
        &mut self,
        function: FunctionId,
        definitions: &Definitions,
    ) -> Option<TxFunction> {
        let index = function.0 as usize;
        if let Some(Some(known)) = self.known.get(index) {
            return *known;
        }
        // A number without a name is no function that was ever watched.
        let found = TxFunction::named(definitions.function(function)?);
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        self.known[index] = Some(found);
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_and_results_tell_the_bytes() {
        let args = |values: &[u64]| CallArguments::new(values);
        let add = TxFunction::named("pmemobj_tx_xadd_range").unwrap();
        assert_eq!(
            add.added(0x1000, &args(&[7, 0x40, 8, 16, 2])),
            Some((0x1048, 16))
        );
        let direct = TxFunction::named("pmemobj_tx_add_range_direct").unwrap();
        assert_eq!(direct.added(0x1000, &args(&[0x2000, 8])), Some((0x2000, 8)));
        let alloc = TxFunction::named("pmemobj_tx_zalloc").unwrap();
        assert_eq!(
            alloc.made(0x1000, &args(&[24, 1]), [7, 0x80]),
            Some((0x1080, 24))
        );
        assert_eq!(alloc.made(0x1000, &args(&[24, 1]), [7, 0]), None);
        assert!(alloc.failed([0, 0]));
        let realloc = TxFunction::named("pmemobj_tx_realloc").unwrap();
        assert_eq!(
            realloc.made(0x1000, &args(&[7, 0x80, 48, 1]), [7, 0x100]),
            Some((0x1100, 48))
        );
        let reserve = TxFunction::named("pmemobj_reserve").unwrap();
        assert_eq!(
            reserve.made(0, &args(&[0x3000, 9, 32]), [7, 0x40]),
            Some((0x3040, 32))
        );
        assert_eq!(TxFunction::named("pmemobj_persist"), None);
        assert_eq!(TxFunction::named("main"), None);
    }
}
