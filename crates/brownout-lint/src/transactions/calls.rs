//! How calls of the library and stores change the transaction of a thread.

use brownout_libraries::TxFunction;
use brownout_model::{PmAddress, SpaceId, line_parts};
use brownout_trace::{Address, FileRange, ProcessId};
use rustc_hash::FxHashMap;

use super::objects::Objects;
use super::ranges::ByteRanges;
use super::transaction::{OpenTransactionCall, Safe, SafeReason, Transaction, UnloggedStore};
use crate::follower::address_spaces::AddressSpaces;
use crate::rule_inputs::TransactionEnd;
use crate::site_keys::SiteKey;

/// How many bytes of a store are kept.
const KNOWN: usize = 8;

/// Objects that were reserved in each process. Nothing can reach them before they are published, and when
/// that happens does not matter here.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    by_process: FxHashMap<ProcessId, ByteRanges<()>>,
}

impl Reservations {
    fn add(&mut self, process: ProcessId, range: FileRange) {
        let reserved = self.by_process.entry(process).or_default();
        reserved.insert(range, ());
    }

    pub(crate) fn cover(&self, process: ProcessId, range: FileRange) -> bool {
        let reserved = self.by_process.get(&process);
        reserved.is_some_and(|reserved| reserved.cover(range).is_some())
    }
}

/// The memory of the process that makes a call.
pub(crate) struct ProcessMemory<'a> {
    pub(crate) process: ProcessId,
    pub(crate) addresses: &'a mut AddressSpaces,
    pub(crate) reservations: &'a mut Reservations,
    pub(crate) objects: &'a mut Objects,
}

impl ProcessMemory<'_> {
    /// Calls `each` with the file bytes behind all mapped parts of `len` bytes at `addr`, and with what is remembered of the process.
    fn for_each_range(
        &mut self,
        (addr, len): (u64, u64),
        mut each: impl FnMut(FileRange, &mut Reservations, &mut Objects),
    ) {
        let addr = Address(addr);
        let mut each = |range| each(range, self.reservations, self.objects);
        match self.addresses.resolve_whole(self.process, addr, len) {
            Some(range) => each(range),
            None => {
                let ranges = self.addresses.resolve_all(self.process, addr, len);
                ranges.into_iter().for_each(each);
            }
        }
    }
}

/// What the rules look at when a call begins or ends.
#[derive(Debug)]
pub(crate) enum TransactionStep {
    Nothing,
    /// The user adds `len` bytes at `addr` to the log.
    Add {
        addr: Address,
        len: u64,
    },
    /// The outermost transaction is committed or aborted.
    End(TransactionEnd),
}

impl Transaction {
    /// The thread enters a function of the library.
    pub(crate) fn called(&mut self, call: OpenTransactionCall) -> TransactionStep {
        if call.function == TxFunction::End {
            // The library never calls it: calls that are still open were left by a jump.
            self.open.clear();
        }
        let by_the_user = self.open.is_empty();
        self.open.push(call);
        if !by_the_user {
            return TransactionStep::Nothing;
        }
        match call.function {
            TxFunction::Commit | TxFunction::Process if self.working => {
                self.working = false;
                // An outer transaction may still persist what an inner one has changed.
                if self.levels <= 1 {
                    self.ended()
                } else {
                    TransactionStep::Nothing
                }
            }
            TxFunction::Abort => self.abort(),
            TxFunction::End => self.leave(),
            TxFunction::Add | TxFunction::AddDirect if self.working => {
                match call.function.added(self.pool, call.args.as_slice()) {
                    Some((addr, len)) => TransactionStep::Add {
                        addr: Address(addr),
                        len,
                    },
                    None => TransactionStep::Nothing,
                }
            }
            _ => TransactionStep::Nothing,
        }
    }

    /// A function of the library was left; without a value, by a jump.
    pub(crate) fn returned(
        &mut self,
        function: TxFunction,
        value: Option<[u64; 2]>,
        memory: &mut ProcessMemory<'_>,
    ) -> TransactionStep {
        // The beginning of a trace, or of a forked process, may hold returns without their calls.
        let of = |call: &OpenTransactionCall| call.function == function;
        let Some(depth) = self.open.iter().rposition(of) else {
            return TransactionStep::Nothing;
        };
        let call = self.open[depth];
        self.open.truncate(depth);
        if !self.open.is_empty() {
            return TransactionStep::Nothing;
        }
        self.note_object(&call, value, memory);
        match (function, value) {
            (TxFunction::Begin, Some(result)) if !function.failed(result) => {
                self.begun(&call, memory);
            }
            (TxFunction::Reserve, Some(result)) => {
                if let Some(object) = function.allocated(0, call.args.as_slice(), result) {
                    let process = memory.process;
                    memory.for_each_range(object, |range, reservations, _| {
                        reservations.add(process, range);
                    });
                }
            }
            (TxFunction::Reserve | TxFunction::Root | TxFunction::Pool | TxFunction::Commit, _)
            | (TxFunction::Abort | TxFunction::Process | TxFunction::End, Some(_)) => {}
            (_, Some(result)) if !function.failed(result) => {
                self.made_safe(&call, result, memory);
            }
            (TxFunction::Abort | TxFunction::Process | TxFunction::End, None) => {
                return self.abort();
            }
            // The transaction was aborted, unless a flag asked to continue: its state is unknown.
            _ => self.working = false,
        }
        TransactionStep::Nothing
    }

    /// The library has returned the identifier of an object.
    fn note_object(
        &self,
        call: &OpenTransactionCall,
        value: Option<[u64; 2]>,
        memory: &mut ProcessMemory<'_>,
    ) {
        let object = |result| {
            let arguments = call.args.as_slice();
            call.function.object(self.pool, arguments, result)
        };
        if let Some(object) = value.and_then(object) {
            memory.for_each_range(object, |range, _, objects| objects.add(range));
        }
    }

    fn begun(&mut self, call: &OpenTransactionCall, memory: &mut ProcessMemory<'_>) {
        let pool = call.args.get(0);
        let file = memory.addresses.resolve(memory.process, Address(pool), 1);
        if !self.working {
            // Not nested: the end of an earlier transaction was not recorded.
            self.reset();
            self.pool = pool;
            self.file = file.map(|range| range.file);
            self.begun = Some((call.site, call.time));
        }
        self.levels += 1;
        self.working = true;
    }

    /// The innermost transaction is left.
    fn leave(&mut self) -> TransactionStep {
        let step = if self.working && self.levels <= 1 {
            // Its commit was not recorded.
            self.ended()
        } else {
            TransactionStep::Nothing
        };
        self.levels = self.levels.saturating_sub(1);
        self.working = self.levels > 0 && !self.aborted;
        if self.levels == 0 {
            self.reset();
        }
        step
    }

    fn abort(&mut self) -> TransactionStep {
        let was_working = std::mem::take(&mut self.working);
        self.aborted = self.levels > 0;
        if was_working {
            self.ended()
        } else {
            TransactionStep::Nothing
        }
    }

    /// What is neither logged nor persisted by now is not atomic.
    fn ended(&mut self) -> TransactionStep {
        TransactionStep::End(TransactionEnd {
            begun: self.begun,
            unlogged: self.take_unlogged(),
        })
    }

    /// Bytes were added to the log, or an object was allocated.
    fn made_safe(
        &mut self,
        call: &OpenTransactionCall,
        result: [u64; 2],
        memory: &mut ProcessMemory<'_>,
    ) {
        if !self.working {
            return;
        }
        let (pool, function) = (self.pool, call.function);
        let added = function.added(pool, call.args.as_slice());
        let added = added.map(|bytes| (SafeReason::Added, bytes));
        let allocated = || {
            let object = function.allocated(pool, call.args.as_slice(), result)?;
            Some((SafeReason::Allocated, object))
        };
        let Some((reason, bytes)) = added.or_else(allocated) else {
            return;
        };
        let safe = Safe {
            reason,
            site: call.site,
            time: call.time,
        };
        memory.for_each_range(bytes, |range, _, _| self.safe.insert(range, safe));
    }

    /// A locked instruction of the user stores to `range` while the transaction is running.
    pub(crate) fn locked(&mut self, range: FileRange) {
        if self.file == Some(range.file) {
            self.add_lock(start_of(range));
        }
    }

    /// The user stores `bytes` to `range` through the cache while the transaction is running. Not all of the range is safe.
    pub(crate) fn stored(&mut self, (site, time): (SiteKey, u64), range: FileRange, bytes: &[u8]) {
        let start = start_of(range);
        if self.file != Some(range.file) || self.is_lock(start) {
            return;
        }
        let space = start.space;
        for (offset, mask, before) in line_parts(range.offset, range.len) {
            let part = &bytes[before as usize..];
            let mut value = [0; KNOWN];
            let len = part.len().min(KNOWN).min(mask.0.count_ones() as usize);
            value[..len].copy_from_slice(&part[..len]);
            self.unlogged(UnloggedStore {
                line: PmAddress { space, offset },
                bytes: mask,
                site,
                time,
                value: u64::from_le_bytes(value),
                len: len as u8,
                object: None,
            });
        }
    }
}

fn start_of(range: FileRange) -> PmAddress {
    PmAddress {
        space: SpaceId(range.file.0),
        offset: range.offset,
    }
}
