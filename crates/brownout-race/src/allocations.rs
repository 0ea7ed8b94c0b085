//! Calls that allocate persistent memory, inside and outside of libpmemobj transactions.

use brownout_libraries::{HeapCall, HeapEffect, HeapFunction, TxFunction};
use brownout_trace::{Address, CallArguments, Definitions, FunctionId};

/// Finds the functions by their numbers in the trace.
#[derive(Debug, Default)]
pub(crate) struct AllocationFunctions {
    known: Vec<Option<Option<HeapFunction>>>,
}

impl AllocationFunctions {
    fn get(&mut self, function: FunctionId, definitions: &Definitions) -> Option<HeapFunction> {
        let index = function.0 as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        if self.known[index].is_none() {
            let allocates = |function: &HeapFunction| {
                let others = [TxFunction::Root, TxFunction::Free].map(HeapFunction::Transaction);
                !others.contains(function) && !matches!(function, HeapFunction::Free(_))
            };
            let meaning = brownout_libraries::heap_function(definitions.function(function)?);
            self.known[index] = Some(meaning.filter(allocates));
        }
        self.known[index]?
    }
}

/// An allocation that has not returned.
#[derive(Clone, Copy, Debug)]
struct OpenAllocation {
    function: FunctionId,
    call: HeapCall,
}

/// The allocations of a thread.
#[derive(Debug, Default)]
pub(crate) struct Allocations {
    /// The pool of its transaction.
    pool: u64,
    open: Vec<OpenAllocation>,
}

impl Allocations {
    pub(crate) fn called(
        &mut self,
        function: FunctionId,
        args: CallArguments,
        functions: &mut AllocationFunctions,
        definitions: &Definitions,
    ) {
        match functions.get(function, definitions) {
            None => {}
            Some(HeapFunction::Transaction(TxFunction::Begin)) => self.pool = args.get(0),
            Some(meaning) => self.open.push(OpenAllocation {
                function,
                call: HeapCall::new(meaning, args.as_slice()),
            }),
        }
    }

    /// The address and length of what a call has allocated that returns now.
    pub(crate) fn returned(
        &mut self,
        function: FunctionId,
        value: Option<[u64; 2]>,
    ) -> Option<(Address, u64)> {
        let mut open = self.open.iter();
        let index = open.rposition(|call| call.function == function)?;
        let call = self.open.remove(index).call;
        match call.returned(self.pool, value?)? {
            HeapEffect::Allocated {
                address,
                size: Some(size),
            } => (address != 0 && size > 0).then_some((Address(address), size)),
            _ => None,
        }
    }

    /// The thread stores bytes, perhaps the identifier of what it allocates.
    #[inline]
    pub(crate) fn stored(&mut self, addr: Address, bytes: &[u8]) {
        for open in &mut self.open {
            open.call.stored(addr.0, bytes);
        }
    }
}
