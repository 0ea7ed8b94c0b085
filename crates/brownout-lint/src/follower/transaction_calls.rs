//! Calls of watched functions, and stores of user code in a transaction.

use brownout_model::{Access, LINE, PmAddress};
use brownout_trace::{
    Address, CallArguments, Definitions, Event, FileRange, FunctionId, ProcessId,
};

use crate::attribution::{Attribution, Origin};
use crate::follower::Follower;
use crate::follower::effects::StoreAttributes;
use crate::rule_inputs::{LogAdd, TransactionEnd};
use crate::site_keys::{ActingSite, SiteKey};
use crate::transactions::{CallMeaning, OpenTransactionCall, ProcessMemory, TransactionStep};

impl<A: Attribution> Follower<A> {
    /// The thread enters a watched function.
    pub(crate) fn called(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        function: FunctionId,
        args: CallArguments,
    ) {
        let function = match self.functions.get(function, definitions) {
            None => return,
            Some(CallMeaning::Leave) => {
                let by = self.access(event);
                return self.leave(by.thread);
            }
            Some(CallMeaning::Transaction(function)) => function,
        };
        let site = self.site(event, definitions);
        let by = self.access(event);
        let call = OpenTransactionCall {
            function,
            args,
            site,
            time: by.time.0,
        };
        let transaction = &mut self.guarantees.threads[by.thread.index()].transaction;
        match transaction.called(call) {
            TransactionStep::Nothing => {}
            TransactionStep::Add { addr, len } => {
                self.added_to_log(by, site, (event.process, addr), len);
            }
            TransactionStep::End(end) => self.transaction_ended(by, end),
        }
    }

    /// The user adds bytes to the log.
    fn added_to_log(
        &mut self,
        by: Access,
        site: SiteKey,
        (process, addr): (ProcessId, Address),
        len: u64,
    ) {
        let guarantees = &mut self.guarantees;
        if guarantees.sites.origin(site) == Origin::Bindings {
            return;
        }
        let (whole, parts);
        let ranges: &[FileRange] = match self.addresses.resolve_whole(process, addr, len) {
            Some(range) => {
                whole = range;
                std::slice::from_ref(&whole)
            }
            None => {
                parts = self.addresses.resolve_all(process, addr, len);
                &parts
            }
        };
        guarantees.rules.log_add(&LogAdd {
            time: by.time.0,
            site,
            ranges,
            transaction: &guarantees.threads[by.thread.index()].transaction,
        });
    }

    /// A watched function was left; without a value, by a jump.
    pub(crate) fn returned(
        &mut self,
        event: &Event<'_>,
        definitions: &Definitions,
        function: FunctionId,
        value: Option<[u64; 2]>,
    ) {
        let meaning = self.functions.get(function, definitions);
        let Some(CallMeaning::Transaction(function)) = meaning else {
            return;
        };
        let by = self.access(event);
        let mut memory = ProcessMemory {
            process: event.process,
            addresses: &mut self.addresses,
            reservations: &mut self.reservations,
            objects: &mut self.objects,
        };
        let transaction = &mut self.guarantees.threads[by.thread.index()].transaction;
        let step = transaction.returned(function, value, &mut memory);
        if let TransactionStep::End(end) = step {
            self.transaction_ended(by, end);
        }
    }

    /// User code stores in a transaction. Returns whether the transaction accounts for the store.
    #[inline(never)]
    pub(crate) fn store_in_transaction(
        &mut self,
        (by, site): (Access, ActingSite),
        process: ProcessId,
        range: FileRange,
        bytes: &[u8],
        attributes: StoreAttributes,
    ) -> bool {
        let transaction = &mut self.guarantees.threads[by.thread.index()].transaction;
        let covered = transaction.covers(range);
        if attributes.needs_log && site.is_users() {
            if attributes.locked {
                transaction.locked(range);
            } else if !covered && !self.reservations.cover(process, range) {
                transaction.stored((site.key, by.time.0), range, bytes);
            }
        }
        covered
    }

    /// One cause, one finding: what is reported as not logged is not reported again as lost, late or
    /// overwritten.
    fn transaction_ended(&mut self, by: Access, mut end: TransactionEnd) {
        for store in &mut end.unlogged {
            store.object = self.objects.start_of(store.start());
        }
        self.guarantees.rules.transaction_end(&end);
        let overwrites = &mut self.guarantees.overwrites;
        for unlogged in &end.unlogged {
            let since = end.begun.map_or(unlogged.time, |(_, time)| time);
            let PmAddress { space, offset } = unlogged.line;
            self.tracker
                .retain(space, offset..offset.saturating_add(LINE), |_, _, store| {
                    if store.thread == by.thread
                        && store.time.0 >= since
                        && store.tag.site == unlogged.site
                    {
                        store.tag.exempt = true;
                        store.tag.overwrote = overwrites.before(store.tag.overwrote, since);
                    }
                    true
                });
        }
    }
}
