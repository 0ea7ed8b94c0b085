//! Calls that change a heap in persistent memory: what they allocate and free, inside and outside of libpmemobj transactions.
//!
//! Can miss: objects whose identifiers libpmemobj stores in volatile memory, if those stores are not known; what a call that moves an
//! object leaves behind; deferred actions that are cancelled.

use crate::function::{AllocatedSize, AllocationResult, FreedObject, Purpose, function};
use crate::transaction::TxFunction;

/// The offset of an object in its pool, in an identifier of libpmemobj.
const OFFSET_IN_IDENTIFIER: u64 = 8;
/// The argument of libpmemobj's atomic functions that numbers the type of the object.
const TYPE_NUMBER: usize = 3;
/// Arguments in integer registers.
const ARGUMENTS: usize = 6;

/// What a function does to a heap.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HeapFunction {
    /// It is part of a libpmemobj transaction.
    Transaction(TxFunction),
    /// It allocates an object outside of transactions.
    Allocate {
        /// The size of the object.
        size: AllocatedSize,
        /// How the caller learns where the object is.
        result: AllocationResult,
    },
    /// It frees an object outside of transactions.
    Free(FreedObject),
}

/// What the function with this name does to a heap, if anything.
pub fn heap_function(name: &str) -> Option<HeapFunction> {
    match function(name)?.purpose {
        Purpose::Transaction(
            function @ (TxFunction::Begin
            | TxFunction::Allocate { .. }
            | TxFunction::Reserve
            | TxFunction::Root
            | TxFunction::Free),
        ) => Some(HeapFunction::Transaction(function)),
        Purpose::Allocate { size, result } => Some(HeapFunction::Allocate { size, result }),
        Purpose::Free(freed) => Some(HeapFunction::Free(freed)),
        _ => None,
    }
}

/// What a call has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeapEffect {
    /// It has allocated an object at this address.
    Allocated {
        /// The address of the object.
        address: u64,
        /// `None` if it is not among the arguments.
        size: Option<u64>,
    },
    /// It has freed the object at this address.
    Freed {
        /// The address of the object.
        address: u64,
    },
    /// It has freed the object whose identifier is at this address.
    FreedIdentified {
        /// The address of the identifier.
        identifier: u64,
    },
}

/// A call of a function.
#[derive(Clone, Copy, Debug)]
pub struct HeapCall {
    function: HeapFunction,
    arguments: [u64; ARGUMENTS],
    /// What was stored as the offset in the identifier.
    offset: u64,
}

impl HeapCall {
    /// A call with these arguments.
    pub fn new(function: HeapFunction, given: &[u64]) -> Self {
        let mut arguments = [0; ARGUMENTS];
        for (argument, given) in arguments.iter_mut().zip(given) {
            *argument = *given;
        }
        Self {
            function,
            arguments,
            offset: 0,
        }
    }

    /// What is called.
    pub fn function(&self) -> HeapFunction {
        self.function
    }

    fn argument(&self, index: u8) -> u64 {
        self.arguments.get(usize::from(index)).copied().unwrap_or(0)
    }

    /// Where the call stores the identifier of what it allocates.
    pub fn identifier(&self) -> Option<u64> {
        match self.function {
            HeapFunction::Allocate {
                result: AllocationResult::Identifier(argument),
                ..
            } => Some(self.argument(argument)),
            _ => None,
        }
    }

    /// The thread of the call stores bytes before it returns, perhaps the identifier.
    #[inline]
    pub fn stored(&mut self, address: u64, bytes: &[u8]) {
        let Some(identifier) = self.identifier() else {
            return;
        };
        let place = identifier.wrapping_add(OFFSET_IN_IDENTIFIER);
        let skipped = place.checked_sub(address);
        let rest = skipped.and_then(|skipped| bytes.get(usize::try_from(skipped).ok()?..));
        if let Some(word) = rest.and_then(|rest| rest.first_chunk::<8>()) {
            self.offset = u64::from_le_bytes(*word);
        }
    }

    /// What the call has freed when it begins. Others may use the memory before it returns.
    pub fn freed(&self) -> Option<HeapEffect> {
        let HeapFunction::Free(freed) = self.function else {
            return None;
        };
        Some(match freed {
            FreedObject::Address(argument) => HeapEffect::Freed {
                address: Some(self.argument(argument)).filter(|&address| address != 0)?,
            },
            FreedObject::Offset(argument) => {
                let offset = Some(self.argument(argument)).filter(|&offset| offset != 0)?;
                HeapEffect::Freed {
                    address: self.argument(0).wrapping_add(offset),
                }
            }
            FreedObject::Identified(argument) => HeapEffect::FreedIdentified {
                identifier: self.argument(argument),
            },
        })
    }

    /// What the call has done when it returns; `pool` is that of the transaction.
    pub fn returned(&self, pool: u64, result: [u64; 2]) -> Option<HeapEffect> {
        match self.function {
            HeapFunction::Transaction(function) => {
                if let Some(address) = function.freed(pool, &self.arguments, result) {
                    return Some(HeapEffect::Freed { address });
                }
                let sized = function.object(pool, &self.arguments, result);
                let allocated = || function.allocated(pool, &self.arguments, result);
                let (address, size) = match sized {
                    Some((address, size)) => (address, Some(size)),
                    None => (allocated()?.0, None),
                };
                Some(HeapEffect::Allocated { address, size })
            }
            HeapFunction::Allocate { size, result: at } => {
                let address = match at {
                    AllocationResult::Address => result[0],
                    AllocationResult::Identifier(_) if self.offset == 0 => 0,
                    AllocationResult::Identifier(_) => self.argument(0).wrapping_add(self.offset),
                };
                let size = match size {
                    AllocatedSize::Argument(argument) => Some(self.argument(argument)),
                    AllocatedSize::Product(count, size) => {
                        self.argument(count).checked_mul(self.argument(size))
                    }
                    AllocatedSize::Bytes(bytes) => Some(bytes),
                    AllocatedSize::Unknown => None,
                };
                (address != 0 && size != Some(0)).then_some(HeapEffect::Allocated { address, size })
            }
            HeapFunction::Free(_) => None,
        }
    }

    /// The number that the caller has given to the type of the object.
    pub fn type_number(&self) -> Option<u64> {
        let number = match self.function {
            HeapFunction::Transaction(function) => function.type_number(&self.arguments),
            HeapFunction::Allocate {
                result: AllocationResult::Identifier(_),
                ..
            } => Some(self.arguments[TYPE_NUMBER]),
            _ => None,
        };
        number.filter(|&number| number != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POOL: u64 = 0x10_0000;

    fn call(name: &str, arguments: &[u64]) -> HeapCall {
        HeapCall::new(heap_function(name).unwrap(), arguments)
    }

    fn allocated(address: u64, size: u64) -> Option<HeapEffect> {
        let size = Some(size);
        Some(HeapEffect::Allocated { address, size })
    }

    #[test]
    fn an_atomic_allocation_is_where_its_identifier_says() {
        for name in [
            "pmemobj_alloc",
            "pmemobj_zalloc",
            "pmemobj_xalloc",
            "pmemobj_realloc",
        ] {
            let identifier = POOL + 0x40;
            let mut call = call(name, &[POOL, identifier, 48, 7, 0, 0]);
            assert_eq!(call.returned(0, [0, 0]), None, "{name}");
            call.stored(identifier, &[1; 8]);
            assert_eq!(call.returned(0, [0, 0]), None, "{name}");
            call.stored(identifier + 8, &0x400_u64.to_le_bytes());
            assert_eq!(call.returned(0, [0, 0]), allocated(POOL + 0x400, 48));
            assert_eq!(call.type_number(), Some(7));
        }
        let mut copy = call("pmemobj_strdup", &[POOL, POOL + 0x40, 0x5000, 3]);
        copy.stored(POOL + 0x48, &0x400_u64.to_le_bytes());
        let (address, size) = (POOL + 0x400, None);
        assert_eq!(
            copy.returned(0, [0, 0]),
            Some(HeapEffect::Allocated { address, size })
        );
    }

    #[test]
    fn allocators_with_addresses_return_them() {
        assert_eq!(
            call("memkind_calloc", &[1, 3, 16]).returned(0, [0x700, 0]),
            allocated(0x700, 48)
        );
        assert_eq!(
            call("vmem_malloc", &[1, 24]).returned(0, [0x700, 0]),
            allocated(0x700, 24)
        );
        assert_eq!(call("vmem_malloc", &[1, 24]).returned(0, [0, 0]), None);
    }

    #[test]
    fn what_is_freed_is_among_the_arguments() {
        let freed = |name, arguments: &[u64]| call(name, arguments).freed();
        let address = 0x700;
        let expected = Some(HeapEffect::Freed { address });
        assert_eq!(freed("memkind_free", &[1, address]), expected);
        assert_eq!(freed("memkind_free", &[1, 0]), None);
        let address = POOL + 0x400;
        let expected = Some(HeapEffect::Freed { address });
        assert_eq!(freed("pmemobj_defer_free", &[POOL, 9, 0x400]), expected);
        let identifier = POOL + 0x40;
        let expected = Some(HeapEffect::FreedIdentified { identifier });
        assert_eq!(freed("pmemobj_free", &[identifier]), expected);
        let in_transaction = call("pmemobj_tx_free", &[9, 0x400]);
        assert_eq!(in_transaction.freed(), None);
        let expected = Some(HeapEffect::Freed { address });
        assert_eq!(in_transaction.returned(POOL, [0, 0]), expected);
    }
}
