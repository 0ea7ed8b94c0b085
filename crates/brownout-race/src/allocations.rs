//! Calls that allocate persistent memory, inside and outside of libpmemobj transactions.

use brownout_libraries::{
    AllocatedSize, AllocationResult, HeapCall, HeapEffect, HeapFunction, TxFunction,
};
use brownout_model::Time;
use brownout_names::FunctionPattern;
use brownout_trace::{Address, CallArguments, Definitions, FunctionId};

/// A function of the target that allocates persistent memory and returns its address.
#[derive(Clone, Debug)]
pub struct CustomAllocator {
    pub function: FunctionPattern,
    pub size: AllocatedSize,
}

/// Finds the functions by their numbers in the trace.
#[derive(Debug, Default)]
pub(crate) struct AllocationFunctions {
    custom: Vec<CustomAllocator>,
    known: Vec<Option<Option<HeapFunction>>>,
}

impl AllocationFunctions {
    pub(crate) fn new(custom: Vec<CustomAllocator>) -> Self {
        AllocationFunctions {
            custom,
            known: Vec::new(),
        }
    }

    fn get(&mut self, function: FunctionId, definitions: &Definitions) -> Option<HeapFunction> {
        let index = function.0 as usize;
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        if self.known[index].is_none() {
            let meaning = self.meaning(definitions.function(function)?);
            self.known[index] = Some(meaning);
        }
        self.known[index]?
    }

    /// What the user says counts before what is known of libraries.
    fn meaning(&self, name: &str) -> Option<HeapFunction> {
        let mut custom = self.custom.iter();
        if let Some(own) = custom.find(|own| own.function.matches_symbol(name)) {
            return Some(HeapFunction::Allocate {
                size: own.size,
                result: AllocationResult::Address,
            });
        }
        brownout_libraries::heap_function(name).filter(|function| match function {
            HeapFunction::Transaction(function) => {
                !matches!(function, TxFunction::Root | TxFunction::Free)
            }
            HeapFunction::Allocate { .. } => true,
            HeapFunction::Free(_) => false,
        })
    }
}

/// An allocation that has not returned.
#[derive(Clone, Copy, Debug)]
struct OpenAllocation {
    function: FunctionId,
    called: Time,
    call: HeapCall,
}

/// Memory that was allocated.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allocation {
    pub(crate) addr: Address,
    pub(crate) len: u64,
    /// When the call began.
    pub(crate) called: Time,
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
        (function, args, called): (FunctionId, CallArguments, Time),
        functions: &mut AllocationFunctions,
        definitions: &Definitions,
    ) {
        match functions.get(function, definitions) {
            None => {}
            Some(HeapFunction::Transaction(TxFunction::Begin)) => self.pool = args.get(0),
            Some(meaning) => self.open.push(OpenAllocation {
                function,
                called,
                call: HeapCall::new(meaning, args.as_slice()),
            }),
        }
    }

    /// What a call has allocated that returns now.
    pub(crate) fn returned(
        &mut self,
        function: FunctionId,
        value: Option<[u64; 2]>,
    ) -> Option<Allocation> {
        let mut open = self.open.iter();
        let index = open.rposition(|call| call.function == function)?;
        let open = self.open.remove(index);
        match open.call.returned(self.pool, value?)? {
            HeapEffect::Allocated {
                address,
                size: Some(len),
            } if address != 0 && len > 0 => Some(Allocation {
                addr: Address(address),
                len,
                called: open.called,
            }),
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
