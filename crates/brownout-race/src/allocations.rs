//! Calls that allocate persistent memory, inside and outside of libpmemobj transactions.

use brownout_libraries::{AllocationResult, Purpose, TxFunction};
use brownout_model::Time;
use brownout_names::FunctionPattern;
use brownout_trace::{Address, CallArguments, Definitions, FunctionId};

/// The offset of an object in its pool, in an identifier of libpmemobj.
const OFFSET_IN_IDENTIFIER: u64 = 8;

/// What a call means for allocations.
#[derive(Clone, Copy, Debug)]
enum AllocationMeaning {
    Transaction(TxFunction),
    Allocate {
        size: AllocationSize,
        result: AllocationResult,
    },
}

/// How large what a function allocates is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AllocationSize {
    /// As the argument with this index says.
    Argument(u8),
    /// Always the same.
    Bytes(u64),
}

/// A function of the target that allocates persistent memory and returns its address.
#[derive(Clone, Debug)]
pub struct CustomAllocator {
    pub function: FunctionPattern,
    pub size: AllocationSize,
}

/// Finds the functions by their numbers in the trace.
#[derive(Debug, Default)]
pub(crate) struct AllocationFunctions {
    custom: Vec<CustomAllocator>,
    known: Vec<Option<Option<AllocationMeaning>>>,
}

impl AllocationFunctions {
    pub(crate) fn new(custom: Vec<CustomAllocator>) -> Self {
        AllocationFunctions {
            custom,
            known: Vec::new(),
        }
    }

    fn get(
        &mut self,
        function: FunctionId,
        definitions: &Definitions,
    ) -> Option<AllocationMeaning> {
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
    fn meaning(&self, name: &str) -> Option<AllocationMeaning> {
        let mut custom = self.custom.iter();
        if let Some(own) = custom.find(|own| own.function.matches_symbol(name)) {
            return Some(AllocationMeaning::Allocate {
                size: own.size,
                result: AllocationResult::Address,
            });
        }
        match brownout_libraries::function(name)?.purpose {
            Purpose::Transaction(
                function @ (TxFunction::Begin | TxFunction::Allocate { .. } | TxFunction::Reserve),
            ) => Some(AllocationMeaning::Transaction(function)),
            Purpose::Allocate { size, result } => Some(AllocationMeaning::Allocate {
                size: AllocationSize::Argument(size),
                result,
            }),
            _ => None,
        }
    }
}

/// An allocation that has not returned.
#[derive(Clone, Copy, Debug)]
struct OpenAllocation {
    function: FunctionId,
    args: CallArguments,
    called: Time,
    meaning: AllocationMeaning,
    /// What was stored as the offset in the identifier.
    offset: u64,
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
        let Some(meaning) = functions.get(function, definitions) else {
            return;
        };
        if let AllocationMeaning::Transaction(TxFunction::Begin) = meaning {
            self.pool = args.get(0);
            return;
        }
        self.open.push(OpenAllocation {
            function,
            args,
            called,
            meaning,
            offset: 0,
        });
    }

    /// What a call has allocated that returns now.
    pub(crate) fn returned(
        &mut self,
        function: FunctionId,
        value: Option<[u64; 2]>,
    ) -> Option<Allocation> {
        let mut open = self.open.iter();
        let index = open.rposition(|call| call.function == function)?;
        let call = self.open.remove(index);
        let value = value?;
        let (addr, len) = match call.meaning {
            AllocationMeaning::Transaction(function) => {
                function.object(self.pool, call.args.as_slice(), value)?
            }
            AllocationMeaning::Allocate { size, result } => {
                let addr = match result {
                    AllocationResult::Address => value[0],
                    _ if call.offset == 0 => return None,
                    _ => call.args.get(0).wrapping_add(call.offset),
                };
                let len = match size {
                    AllocationSize::Argument(argument) => call.args.get(argument.into()),
                    AllocationSize::Bytes(bytes) => bytes,
                };
                (addr, len)
            }
        };
        (addr != 0 && len > 0).then_some(Allocation {
            addr: Address(addr),
            len,
            called: call.called,
        })
    }

    /// The thread stores bytes, perhaps the identifier of what it allocates.
    #[inline]
    pub(crate) fn stored(&mut self, addr: Address, bytes: &[u8]) {
        for call in &mut self.open {
            let AllocationMeaning::Allocate {
                result: AllocationResult::Identifier(argument),
                ..
            } = call.meaning
            else {
                continue;
            };
            let identifier = call.args.get(argument.into());
            let place = identifier.wrapping_add(OFFSET_IN_IDENTIFIER);
            let skipped = place.checked_sub(addr.0);
            let rest = skipped.and_then(|skipped| bytes.get(usize::try_from(skipped).ok()?..));
            if let Some(word) = rest.and_then(|rest| rest.first_chunk::<8>()) {
                call.offset = u64::from_le_bytes(*word);
            }
        }
    }
}
