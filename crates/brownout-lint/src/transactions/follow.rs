//! How calls, stores and flushes change the transaction of a thread.

use brownout_libraries::TxFunction;
use brownout_model::{Access, LINE, PmAddress, SpaceId};
use brownout_trace::{
    Address, CallArguments, Definitions, Event, EventKind, FileRange, FunctionId, ProcessId,
    StoreFlavor,
};
use rustc_hash::FxHashMap;

use super::ranges::ByteRanges;
use super::transaction::{OpenCall, Reason, Safe, UnloggedStore};
use crate::attribution::{Attribution, Origin};
use crate::follower::Lint;
use crate::site_keys::SiteId;

/// Bytes of a store that are kept.
const KNOWN: usize = 8;

/// Objects that were reserved in each process: until they are published nobody can reach them, and when
/// that is does not matter here.
#[derive(Debug, Default)]
pub(crate) struct Reservations {
    of: FxHashMap<ProcessId, ByteRanges<()>>,
}

impl Reservations {
    fn add(&mut self, process: ProcessId, ranges: Vec<FileRange>) {
        let reserved = self.of.entry(process).or_default();
        for range in ranges {
            reserved.insert(range, ());
        }
    }

    fn cover(&self, process: ProcessId, range: FileRange) -> bool {
        let reserved = self.of.get(&process);
        reserved.is_some_and(|reserved| reserved.cover(range).is_some())
    }
}

impl<A: Attribution> Lint<A> {
    /// The thread enters a watched function.
    pub(crate) fn called(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        function: FunctionId,
        args: CallArguments,
    ) {
        let Some(function) = self.functions.get(function, definitions) else {
            return;
        };
        let site = self.sites.of(&mut self.watch.known, event, definitions);
        let by = self.access(event);
        let transaction = &mut self.watch.threads[by.thread.index()].transaction;
        if function == TxFunction::End {
            // Never called by the library: calls that are still open were jumped out of.
            transaction.open.clear();
        }
        let by_the_user = transaction.open.is_empty();
        transaction.open.push(OpenCall {
            function,
            args,
            site,
            time: by.time.0,
        });
        if !by_the_user {
            return;
        }
        match function {
            TxFunction::Commit | TxFunction::Process if transaction.working => {
                transaction.working = false;
                // What an inner transaction has changed may still be persisted by an outer one.
                if transaction.levels <= 1 {
                    self.judge_unlogged(by);
                }
            }
            TxFunction::Abort => self.abort(by),
            TxFunction::End => self.end(by),
            TxFunction::Add | TxFunction::AddDirect
                if transaction.working && self.watch.known.origin(site) != Origin::Bindings =>
            {
                self.judge_add(event.process, by, site, function, &args);
            }
            _ => {}
        }
    }

    /// A watched function was left; without a value, by a jump.
    pub(crate) fn returned(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        function: FunctionId,
        value: Option<[u64; 2]>,
    ) {
        let Some(function) = self.functions.get(function, definitions) else {
            return;
        };
        let by = self.access(event);
        let transaction = &mut self.watch.threads[by.thread.index()].transaction;
        // The beginning of a trace, or of a forked process, may hold ends of calls only.
        let of = |call: &OpenCall| call.function == function;
        let Some(place) = transaction.open.iter().rposition(of) else {
            return;
        };
        let call = transaction.open[place];
        transaction.open.truncate(place);
        if !transaction.open.is_empty() {
            return;
        }
        match (function, value) {
            (TxFunction::Begin, Some(result)) if !function.failed(result) => {
                self.begun(event.process, by, &call);
            }
            (TxFunction::Reserve, Some(result)) => {
                if let Some((place, len)) = function.allocated(0, call.args.as_slice(), result) {
                    let ranges = self
                        .addresses
                        .resolve_all(event.process, Address(place), len);
                    self.reservations.add(event.process, ranges);
                }
            }
            (TxFunction::Reserve | TxFunction::Pool | TxFunction::Commit, _)
            | (TxFunction::Abort | TxFunction::Process | TxFunction::End, Some(_)) => {}
            (_, Some(result)) if !function.failed(result) => {
                self.made_safe(event.process, by, &call, result);
            }
            (TxFunction::Abort | TxFunction::Process | TxFunction::End, None) => self.abort(by),
            // The transaction was aborted, unless it was told to go on: nothing is known of it for sure.
            _ => transaction.working = false,
        }
    }

    fn begun(&mut self, process: ProcessId, by: Access, call: &OpenCall) {
        let pool = call.args.get(0);
        let file = self.addresses.resolve(process, Address(pool), 1);
        let transaction = &mut self.watch.threads[by.thread.index()].transaction;
        if !transaction.working {
            // Not nested: whatever the thread was in before has ended unseen.
            transaction.end();
            transaction.pool = pool;
            transaction.file = file.map(|range| range.file);
            transaction.begun = Some((call.site, call.time));
        }
        transaction.levels += 1;
        transaction.working = true;
    }

    fn end(&mut self, by: Access) {
        let transaction = &mut self.watch.threads[by.thread.index()].transaction;
        if transaction.working && transaction.levels <= 1 {
            // Committed unseen.
            self.judge_unlogged(by);
        }
        let transaction = &mut self.watch.threads[by.thread.index()].transaction;
        transaction.levels = transaction.levels.saturating_sub(1);
        transaction.working = transaction.levels > 0 && !transaction.aborted;
        if transaction.levels == 0 {
            transaction.end();
        }
    }

    fn abort(&mut self, by: Access) {
        let transaction = &mut self.watch.threads[by.thread.index()].transaction;
        let was_working = std::mem::take(&mut transaction.working);
        transaction.aborted = transaction.levels > 0;
        if was_working {
            self.judge_unlogged(by);
        }
    }

    /// Bytes were added to the log, or an object was made.
    fn made_safe(&mut self, process: ProcessId, by: Access, call: &OpenCall, result: [u64; 2]) {
        let transaction = &self.watch.threads[by.thread.index()].transaction;
        let (pool, function) = (transaction.pool, call.function);
        let added = function.added(pool, call.args.as_slice());
        let made = || function.allocated(pool, call.args.as_slice(), result);
        let (reason, place, len) = match (added, transaction.working) {
            (_, false) => return,
            (Some((place, len)), true) => (Reason::Added, place, len),
            (None, true) => match made() {
                Some((place, len)) => (Reason::Allocated, place, len),
                None => return,
            },
        };
        let ranges = self.addresses.resolve_all(process, Address(place), len);
        let safe = Safe {
            reason,
            site: call.site,
            time: call.time,
        };
        let transaction = &mut self.watch.threads[by.thread.index()].transaction;
        for range in ranges {
            transaction.safe.insert(range, safe);
        }
    }

    /// Bytes are about to be added to the log.
    fn judge_add(
        &mut self,
        process: ProcessId,
        by: Access,
        site: SiteId,
        function: TxFunction,
        args: &CallArguments,
    ) {
        let transaction = &self.watch.threads[by.thread.index()].transaction;
        let Some((place, len)) = function.added(transaction.pool, args.as_slice()) else {
            return;
        };
        let ranges = self.addresses.resolve_all(process, Address(place), len);
        let mut safe = ranges.iter().map(|&range| transaction.safe.cover(range));
        if let Some(Some(first)) = safe.next()
            && safe.all(|other| other.is_some())
        {
            let rule = &mut self.watch.rules.tx_redundant_add;
            rule.added(site, by.time.0, ranges[0], first);
        }
    }

    /// Whether stores of the thread that are not the library's belong to a transaction.
    #[inline]
    pub(crate) fn in_transaction(&self, by: Access) -> bool {
        let thread = &self.watch.threads[by.thread.index()];
        thread.transaction.is_at_work()
    }

    /// A store of a thread that is in a transaction.
    #[inline(never)]
    pub(crate) fn stored_in_transaction(&mut self, event: &Event<'_>, by: Access, site: SiteId) {
        let EventKind::Store {
            addr,
            bytes,
            flavor,
            locked,
            ..
        } = event.kind
        else {
            return;
        };
        if !self.watch.known.is_users(site) || flavor != StoreFlavor::Temporal {
            return;
        }
        let len = bytes.len() as u64;
        let Some(range) = self.addresses.resolve(event.process, addr, len) else {
            return;
        };
        let word = PmAddress {
            space: SpaceId(range.file.0),
            offset: range.offset,
        };
        let transaction = &mut self.watch.threads[by.thread.index()].transaction;
        if transaction.file != Some(range.file) {
            return;
        }
        if locked {
            return transaction.locked(word);
        }
        let is_safe = transaction.covers(range) || transaction.is_lock(word);
        if !is_safe && !self.reservations.cover(event.process, range) {
            self.stored_unlogged(by, site, range, &bytes[..range.len as usize]);
        }
    }

    fn stored_unlogged(&mut self, by: Access, site: SiteId, range: FileRange, bytes: &[u8]) {
        let transaction = &mut self.watch.threads[by.thread.index()].transaction;
        for (offset, mask, before) in brownout_model::line_parts(range.offset, range.len) {
            let part = &bytes[before as usize..];
            let mut value = [0; KNOWN];
            let len = part.len().min(KNOWN).min(mask.0.count_ones() as usize);
            value[..len].copy_from_slice(&part[..len]);
            transaction.unlogged(UnloggedStore {
                line: PmAddress {
                    space: SpaceId(range.file.0),
                    offset,
                },
                bytes: mask,
                site,
                time: by.time.0,
                value: u64::from_le_bytes(value),
                len: len as u8,
            });
        }
    }

    /// The transaction is committed or aborted: what was neither logged nor persisted is not atomic.
    fn judge_unlogged(&mut self, by: Access) {
        let transaction = &mut self.watch.threads[by.thread.index()].transaction;
        let begun = transaction.begun;
        for store in transaction.take_unlogged() {
            self.watch.rules.tx_unlogged_store.ended(&store, begun);
            let since = begun.map_or(store.time, |(_, time)| time);
            self.speak_for(by, &store, since);
        }
    }

    /// One cause, one finding: what was told as not logged is not told again as not persistent, late or
    /// overwritten.
    fn speak_for(&mut self, by: Access, told: &UnloggedStore, since: u64) {
        let overwrites = &mut self.watch.overwrites;
        let PmAddress { space, offset } = told.line;
        self.tracker
            .retain(space, offset..offset + LINE, |_, _, store| {
                if store.thread == by.thread && store.time.0 >= since && store.tag.site == told.site
                {
                    store.tag.spoken_for = true;
                    store.tag.overwrote = overwrites.before(store.tag.overwrote, since);
                }
                true
            });
    }
}
