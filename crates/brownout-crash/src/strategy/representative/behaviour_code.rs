//! The code of an update behaviour: what decides, apart from its shape, which images a crash can leave.
//!
//! These are the stores from the first store of the behaviour until all its stores are guaranteed, its own and those of other code. Of each
//! counts where it is made, and where it is guaranteed: at the last failure point until then. So a flush that is removed changes the
//! code, also if it was the flush of another object.

use std::collections::BTreeSet;

use brownout_model::{StoreNumber, Time};
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::Xxh3;

use crate::failure_point::StackId;
use crate::symbols::Symbols;
use crate::tested_behaviours::CodeDigest;
use crate::update_behaviour::RunStores;

/// What every store of a run is in the code.
pub(super) struct RunCode {
    /// For each kind of store, the stores of it, in the order of issue.
    by_code: FxHashMap<CodeDigest, Vec<StoreNumber>>,
    code: Vec<CodeDigest>,
}

impl RunCode {
    pub(super) fn of(stores: &RunStores, symbols: &mut dyn Symbols) -> Self {
        let mut lines = Lines {
            symbols,
            known: FxHashMap::default(),
        };
        let mut by_code: FxHashMap<CodeDigest, Vec<StoreNumber>> = FxHashMap::default();
        let mut code = Vec::new();
        // Sites and failure points repeat: each pair is digested once.
        let mut known: FxHashMap<(Option<StackId>, Guarantee), CodeDigest> = FxHashMap::default();
        for number in stores.numbers() {
            let made = stores.site(stores.stored(number).site).stack;
            let guarantee = guarantee(number, stores);
            let digest = *known
                .entry((made, guarantee))
                .or_insert_with(|| digest(made, guarantee, &mut lines));
            by_code.entry(digest).or_default().push(number);
            code.push(digest);
        }
        Self { by_code, code }
    }

    /// The code of a behaviour with these stores, which are in the order of issue.
    pub(super) fn of_behaviour(
        &self,
        behaviour: &[StoreNumber],
        stores: &RunStores,
    ) -> BTreeSet<CodeDigest> {
        let Some(&first) = behaviour.first() else {
            return BTreeSet::new();
        };
        let own = behaviour
            .iter()
            .map(|store| in_role(self.code[store.index()], "own"));
        let mut code: BTreeSet<CodeDigest> = own.collect();
        let ends = behaviour
            .iter()
            .map(|&store| stores.order.store(store).guaranteed());
        // Until the end of the run if one is never guaranteed.
        let end = ends.map(|end| end.unwrap_or(Time(u64::MAX))).max();
        let is_issued = |store: &StoreNumber| Some(stores.order.store(*store).issued) <= end;
        for (&digest, made) in &self.by_code {
            let from = made.partition_point(|&store| store < first);
            let mut during = made[from..].iter().take_while(|store| is_issued(store));
            if during.any(|store| behaviour.binary_search(store).is_err()) {
                code.insert(in_role(digest, "other"));
            }
        }
        code
    }
}

/// Where a store is guaranteed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Guarantee {
    Never,
    /// At no failure point.
    Unknown,
    At(Option<StackId>),
}

fn guarantee(number: StoreNumber, stores: &RunStores) -> Guarantee {
    let store = stores.order.store(number);
    let Some(time) = store.guaranteed() else {
        return Guarantee::Never;
    };
    let points = &stores.points;
    let until = points.partition_point(|point| point.occurrence.event.0 <= time.0);
    match points[..until].last() {
        Some(last) if last.occurrence.event.0 > store.issued.0 => Guarantee::At(last.stack),
        _ => Guarantee::Unknown,
    }
}

/// The digests of stacks.
struct Lines<'s> {
    symbols: &'s mut dyn Symbols,
    known: FxHashMap<StackId, u64>,
}

impl Lines<'_> {
    fn of(&mut self, stack: Option<StackId>) -> u64 {
        let Some(stack) = stack else {
            return 0;
        };
        let symbols = &mut *self.symbols;
        let digest = || xxhash_rust::xxh3::xxh3_64(symbols.code(stack).as_bytes());
        *self.known.entry(stack).or_insert_with(digest)
    }
}

fn digest(made: Option<StackId>, guarantee: Guarantee, lines: &mut Lines<'_>) -> CodeDigest {
    let mut hash = Xxh3::new();
    hash.update(&lines.of(made).to_le_bytes());
    match guarantee {
        Guarantee::Never => hash.update(b"never"),
        Guarantee::Unknown => hash.update(b"unknown"),
        Guarantee::At(stack) => hash.update(&lines.of(stack).to_le_bytes()),
    }
    CodeDigest(hash.digest())
}

/// What other code does is no substitute for what the behaviour does.
fn in_role(code: CodeDigest, role: &str) -> CodeDigest {
    let mut hash = Xxh3::new();
    hash.update(&code.0.to_le_bytes());
    hash.update(role.as_bytes());
    CodeDigest(hash.digest())
}
