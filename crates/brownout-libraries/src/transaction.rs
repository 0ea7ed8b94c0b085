//! The functions of libpmemobj transactions: what they do, and what their arguments and results mean.
//!
//! A `PMEMoid` counts as two arguments or results, because it is passed in two registers.

/// The size assumed for an object whose size is not among the arguments.
const UNKNOWN_SIZE: u64 = 4096;

/// What a function of libpmemobj does to a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum TxFunction {
    /// Begins a transaction, or a nested one.
    Begin,
    /// Commits the transaction.
    Commit,
    /// Aborts the transaction.
    Abort,
    /// Ends the transaction, or a nested one.
    End,
    /// Commits a transaction in its work stage; otherwise moves it to its next stage.
    Process,
    /// Adds bytes of an object to the log. The object is given by its offset in the pool.
    Add,
    /// Adds bytes at an address to the log.
    AddDirect,
    /// Allocates an object.
    Allocate {
        /// The index of the argument that is the size, if there is one.
        size: Option<usize>,
    },
    /// Reserves an object, which is allocated when it is published.
    Reserve,
    /// Returns the root object of a pool.
    Root,
    /// Frees an object, given by its identifier.
    Free,
    /// Takes part in a transaction in another way, and may abort it.
    Other,
    /// Opens or closes a pool. Functions that [create](crate::Purpose::CreatePool) one mean the same to a transaction.
    Pool,
}

impl TxFunction {
    /// The address and length of the bytes that a call adds to the log of a transaction on the pool at `pool`.
    pub fn added(self, pool: u64, arguments: &[u64]) -> Option<(u64, u64)> {
        let argument = |index| argument(arguments, index);
        match self {
            TxFunction::Add => {
                let address = pool.wrapping_add(argument(1)).wrapping_add(argument(2));
                Some((address, argument(3)))
            }
            TxFunction::AddDirect => Some((argument(0), argument(1))),
            _ => None,
        }
    }

    /// The address and length of the object that a call has allocated; `None` if it allocated none.
    pub fn allocated(
        self,
        pool: u64,
        arguments: &[u64],
        [_, offset]: [u64; 2],
    ) -> Option<(u64, u64)> {
        let argument = |index| argument(arguments, index);
        let (pool, size) = match self {
            TxFunction::Allocate { size } => (pool, size.map_or(UNKNOWN_SIZE, argument)),
            TxFunction::Reserve => (argument(0), argument(2)),
            _ => return None,
        };
        (offset != 0).then(|| (pool.wrapping_add(offset), size))
    }

    /// The address and length of the object whose identifier a call returns; `None` if the length is not among the arguments.
    pub fn object(self, pool: u64, arguments: &[u64], result: [u64; 2]) -> Option<(u64, u64)> {
        match self {
            TxFunction::Allocate { size: None } => None,
            TxFunction::Root if result[1] != 0 => {
                let address = argument(arguments, 0).wrapping_add(result[1]);
                Some((address, argument(arguments, 1)))
            }
            _ => self.allocated(pool, arguments, result),
        }
    }

    /// The address of the object that a call has freed.
    pub fn freed(self, pool: u64, arguments: &[u64], result: [u64; 2]) -> Option<u64> {
        let offset = argument(arguments, 1);
        let is_freed = self == TxFunction::Free && offset != 0 && !self.failed(result);
        is_freed.then(|| pool.wrapping_add(offset))
    }

    /// The number that the caller has given to the type of the object that a call allocates.
    pub fn type_number(self, arguments: &[u64]) -> Option<u64> {
        match self {
            TxFunction::Allocate { size: Some(size) } => arguments.get(size + 1).copied(),
            // It follows the pool, the action and the size.
            TxFunction::Reserve => arguments.get(3).copied(),
            _ => None,
        }
    }

    /// Whether the result of a call means that it failed.
    pub fn failed(self, [first, second]: [u64; 2]) -> bool {
        match self {
            // No object was allocated.
            TxFunction::Allocate { .. } => second == 0,
            TxFunction::Begin
            | TxFunction::Add
            | TxFunction::AddDirect
            | TxFunction::Free
            | TxFunction::Other => first as i32 != 0,
            _ => false,
        }
    }
}

fn argument(arguments: &[u64], index: usize) -> u64 {
    arguments.get(index).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Purpose, function};

    fn named(name: &str) -> TxFunction {
        match function(name).map(|function| function.purpose) {
            Some(Purpose::Transaction(function)) => function,
            other => panic!("{name}: {other:?}"),
        }
    }

    #[test]
    fn arguments_and_results_give_the_bytes() {
        let add = named("pmemobj_tx_xadd_range");
        assert_eq!(add.added(0x1000, &[7, 0x40, 8, 16, 2]), Some((0x1048, 16)));
        let direct = named("pmemobj_tx_add_range_direct");
        assert_eq!(direct.added(0x1000, &[0x2000, 8]), Some((0x2000, 8)));
        let alloc = named("pmemobj_tx_zalloc");
        assert_eq!(
            alloc.allocated(0x1000, &[24, 1], [7, 0x80]),
            Some((0x1080, 24))
        );
        assert_eq!(alloc.allocated(0x1000, &[24, 1], [7, 0]), None);
        assert!(alloc.failed([0, 0]));
        let realloc = named("pmemobj_tx_realloc");
        assert_eq!(
            realloc.allocated(0x1000, &[7, 0x80, 48, 1], [7, 0x100]),
            Some((0x1100, 48))
        );
        let reserve = named("pmemobj_reserve");
        assert_eq!(
            reserve.allocated(0, &[0x3000, 9, 32], [7, 0x40]),
            Some((0x3040, 32))
        );
    }

    #[test]
    fn type_numbers_and_freed_objects_are_among_the_arguments() {
        let alloc = named("pmemobj_tx_xalloc");
        assert_eq!(alloc.type_number(&[24, 3, 0]), Some(3));
        let realloc = named("pmemobj_tx_realloc");
        assert_eq!(realloc.type_number(&[7, 0x80, 48, 5]), Some(5));
        let reserve = named("pmemobj_reserve");
        assert_eq!(reserve.type_number(&[0x3000, 9, 32, 6]), Some(6));
        assert_eq!(
            named("pmemobj_root_construct").type_number(&[0x3000, 64]),
            None
        );
        let free = named("pmemobj_tx_free");
        assert_eq!(free.freed(0x1000, &[7, 0x80], [0, 0]), Some(0x1080));
        assert_eq!(free.freed(0x1000, &[7, 0x80], [22, 0]), None);
        assert_eq!(free.freed(0x1000, &[7, 0], [0, 0]), None);
        assert_eq!(alloc.freed(0x1000, &[24, 3, 0], [7, 0x80]), None);
    }

    #[test]
    fn an_object_of_known_size_is_where_its_identifier_says() {
        let root = named("pmemobj_root_construct");
        assert_eq!(root.allocated(0, &[0x1000, 64], [7, 0x80]), None);
        assert_eq!(root.object(0, &[0x1000, 64], [7, 0x80]), Some((0x1080, 64)));
        assert_eq!(root.object(0, &[0x1000, 64], [0, 0]), None);
        let alloc = named("pmemobj_tx_alloc");
        assert_eq!(
            alloc.object(0x1000, &[24, 1], [7, 0x80]),
            Some((0x1080, 24))
        );
        let copy = named("pmemobj_tx_strdup");
        assert_eq!(copy.object(0x1000, &[0x5000, 1], [7, 0x80]), None);
    }
}
