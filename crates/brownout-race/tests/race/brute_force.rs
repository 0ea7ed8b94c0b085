//! A slow search for races that follows the definition, compared with the streaming one on random runs.
//!
//! The definition: a load races with a store to the same byte by another thread, unless the load happened before the store, the store
//! was durable or overwritten before the load, or the two hold a common lock, the store without interruption until its end. A load
//! whose thread persists the line before it stores anything is none. Steps at the same site, as in loops, are one access of the code.

use std::collections::{BTreeMap, BTreeSet};

use brownout_trace::{EventIndex, StoreFlavor, ThreadId};
use proptest::prelude::*;

use crate::target_run::*;

const THREADS: [ThreadId; 3] = [T1, T2, T3];
/// Two words each of two lines.
const WORDS: [u64; 4] = [X, X + 8, Y, Y + 8];
const LOCKS: [u64; 2] = [A, B];
const SEMAPHORE: u64 = 0x66_0000;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Op {
    Store(usize),
    Exchange(usize),
    Load(usize),
    Flush(usize),
    Fence,
    Lock(usize),
    Unlock(usize),
    Post,
    Wait,
    /// Of `T1`: another thread is created; it starts when it first does something.
    Create(usize),
    Join(usize),
}

/// What a thread has done; the index is the position in the run.
#[derive(Clone, Copy, Debug)]
struct Step {
    thread: usize,
    op: Op,
    site: u64,
}

/// Pairs of sites that race, and whether that was observed.
type Races = BTreeMap<(u64, u64), bool>;

/// Sites that several steps share.
const SITES: u64 = 4;

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0..4usize).prop_map(Op::Store),
        1 => (0..4usize).prop_map(Op::Exchange),
        5 => (0..4usize).prop_map(Op::Load),
        3 => (0..4usize).prop_map(Op::Flush),
        3 => Just(Op::Fence),
        2 => (0..2usize).prop_map(Op::Lock),
        2 => (0..2usize).prop_map(Op::Unlock),
        1 => Just(Op::Post),
        1 => Just(Op::Wait),
        2 => (1..3usize).prop_map(Op::Create),
        1 => (1..3usize).prop_map(Op::Join),
    ]
}

/// Those of the steps that threads can take in this order.
fn possible(steps: Vec<(usize, Op, u64)>) -> Vec<Step> {
    let mut state = [1, 0, 0];
    let mut holders = [None; 2];
    let mut posts = 0;
    let mut taken = Vec::new();
    for (thread, op, site) in steps {
        let is_possible = state[thread] == 1
            && match op {
                Op::Lock(lock) => holders[lock].is_none(),
                Op::Unlock(lock) => holders[lock] == Some(thread),
                // One thread posts and the others wait, so that the semaphore is no lock.
                Op::Post => thread == 0,
                Op::Wait => thread != 0 && posts > 0,
                Op::Create(other) => thread == 0 && state[other] == 0,
                Op::Join(other) => {
                    thread == 0 && state[other] == 1 && !holders.contains(&Some(other))
                }
                _ => true,
            };
        if !is_possible {
            continue;
        }
        match op {
            Op::Lock(lock) => holders[lock] = Some(thread),
            Op::Unlock(lock) => holders[lock] = None,
            Op::Post => posts += 1,
            Op::Wait => posts -= 1,
            Op::Create(other) => state[other] = 1,
            Op::Join(other) => state[other] = 2,
            _ => {}
        }
        taken.push(Step { thread, op, site });
    }
    taken
}

/// The races that the search finds.
fn found(steps: &[Step], removes_initialisation: bool) -> Races {
    let mut run = TargetRun::new();
    run.removes_initialisation = removes_initialisation;
    let mut created: BTreeMap<usize, EventIndex> = BTreeMap::new();
    for step in steps {
        let thread = THREADS[step.thread];
        let mut started = vec![step.thread];
        if let Op::Join(other) = step.op {
            started.push(other);
        }
        for other in started {
            if let Some(created) = created.remove(&other) {
                run.start(THREADS[other], T1, created);
            }
        }
        run.thread(thread).at(step.site);
        match step.op {
            Op::Store(word) => run.store(WORDS[word]),
            Op::Exchange(word) => run.any_store(WORDS[word], 1, StoreFlavor::Temporal, true),
            Op::Load(word) => run.load(WORDS[word]),
            Op::Flush(word) => run.flush(WORDS[word]),
            Op::Fence => run.fence(),
            Op::Lock(lock) => run.lock(LOCKS[lock]),
            Op::Unlock(lock) => run.unlock(LOCKS[lock]),
            Op::Post => run.call("sem_post", &[SEMAPHORE]),
            Op::Wait => run.call("sem_wait", &[SEMAPHORE]),
            Op::Join(other) => run.join(THREADS[other]),
            Op::Create(other) => {
                created.insert(other, run.position());
                &mut run
            }
        };
    }
    let outcome = run.finish();
    let pc = |site: brownout_race::RaceSite| outcome.code.pcs[site.0 as usize];
    let mut races = Races::new();
    for race in &outcome.races {
        for load in &race.loads {
            let key = (pc(race.store.site), pc(load.load.site));
            races.insert(key, load.observed > 0);
        }
    }
    races
}

/// Which steps happened before which.
fn happens_before(steps: &[Step]) -> Vec<Vec<bool>> {
    let count = steps.len();
    let number = |of: Op, until: usize| steps[..until].iter().filter(|step| step.op == of).count();
    let mut before = vec![vec![false; count]; count];
    for (late, to) in steps.iter().enumerate() {
        for (early, from) in steps[..late].iter().enumerate() {
            let joins = matches!(to.op, Op::Join(other) if other == from.thread);
            let creates = matches!(from.op, Op::Create(other) if other == to.thread);
            // The first wait takes what the first post has announced.
            let posts = from.op == Op::Post
                && to.op == Op::Wait
                && number(Op::Post, early) <= number(Op::Wait, late);
            if from.thread == to.thread || joins || creates || posts {
                before[early][late] = true;
                // What happened before it happened before this, too.
                for row in &mut before {
                    row[late] |= row[early];
                }
            }
        }
    }
    before
}

impl Op {
    fn stores(self, word: usize) -> bool {
        self == Op::Store(word) || self == Op::Exchange(word)
    }

    fn loads(self, word: usize) -> bool {
        self == Op::Load(word) || self == Op::Exchange(word)
    }

    fn accesses(self, word: usize) -> bool {
        self.stores(word) || self.loads(word)
    }

    fn is_store(self) -> bool {
        matches!(self, Op::Store(_) | Op::Exchange(_))
    }

    fn is_fence(self) -> bool {
        matches!(self, Op::Fence | Op::Exchange(_))
    }

    fn flushes(self, word: usize) -> bool {
        matches!(self, Op::Flush(other) if other / 2 == word / 2)
    }
}

/// What ends a store. A locked instruction is a fence first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Persisted,
    Overwritten,
}

/// Where a store is durable or overwritten.
fn end_of(steps: &[Step], store: usize, word: usize) -> Option<(usize, End)> {
    let later = || steps.iter().enumerate().skip(store + 1);
    let overwritten = later()
        .find(|(_, step)| step.op.stores(word))
        .map(|(at, _)| at);
    let flushes = later().filter(|(_, step)| step.op.flushes(word));
    let persists = flushes.filter_map(|(flush, by)| {
        let mut fences = later().skip_while(|&(at, _)| at <= flush);
        let fence = fences.find(|(_, step)| step.thread == by.thread && step.op.is_fence());
        fence.map(|(at, _)| at)
    });
    let persists = persists.map(|at| (at, End::Persisted));
    let overwritten = overwritten.map(|at| (at, End::Overwritten));
    persists.chain(overwritten).min()
}

/// The locks that a thread holds from one step to another one.
fn held(steps: &[Step], thread: usize, from: usize, to: usize) -> BTreeSet<usize> {
    let held_at = |at: usize| -> BTreeMap<usize, usize> {
        let mut held = BTreeMap::new();
        for (position, step) in steps[..at].iter().enumerate() {
            match step.op {
                Op::Lock(lock) if step.thread == thread => held.insert(lock, position),
                Op::Unlock(lock) if step.thread == thread => held.remove(&lock),
                _ => None,
            };
        }
        held
    };
    let (first, last) = (held_at(from), held_at(to));
    let without_break = first
        .iter()
        .filter(|(lock, since)| last.get(lock) == Some(since));
    without_break.map(|(&lock, _)| lock).collect()
}

/// Whether a second thread has accessed a word in these steps.
fn is_visible(steps: &[Step], word: usize) -> bool {
    let accesses = steps.iter().filter(|step| step.op.accesses(word));
    let threads: BTreeSet<usize> = accesses.map(|step| step.thread).collect();
    threads.len() > 1
}

/// Whether the thread of a load persists the line before it stores anything.
fn is_persisted_by_reader(steps: &[Step], load: usize, word: usize) -> bool {
    if steps[load].op.is_store() {
        return false;
    }
    let own = steps[load + 1..].iter();
    let mut flushed = false;
    for step in own.filter(|step| step.thread == steps[load].thread) {
        flushed |= step.op.flushes(word);
        if flushed && step.op.is_fence() {
            return true;
        }
        if step.op.is_store() {
            return false;
        }
    }
    false
}

fn expected(steps: &[Step], removes_initialisation: bool) -> Races {
    let before = happens_before(steps);
    let mut races = Races::new();
    for word in 0..WORDS.len() {
        let stores = (0..steps.len()).filter(|&at| steps[at].op.stores(word));
        for store in stores {
            let ended = end_of(steps, store, word);
            let end = ended.map(|(at, _)| at);
            let is_initialisation = ended.is_some_and(|(end, how)| {
                let seen = end + usize::from(how == End::Overwritten);
                removes_initialisation && !is_visible(&steps[..seen], word)
            });
            let loads = (0..steps.len()).filter(|&at| steps[at].op.loads(word));
            for load in loads {
                let (by, reader) = (steps[store].thread, steps[load].thread);
                let has_stored = |step: &Step| step.thread == reader && step.op.stores(word);
                let is_private = removes_initialisation
                    && !is_visible(&steps[..=load], word)
                    && steps[..load].iter().any(has_stored);
                if by == reader
                    || is_initialisation
                    || is_private
                    || is_persisted_by_reader(steps, load, word)
                    || before[load][store]
                    || ended.is_some_and(|(end, how)| {
                        before[end][load] || end == load && how == End::Persisted
                    })
                {
                    continue;
                }
                let observed = store < load && end.is_none_or(|end| load <= end);
                let own_end = end.filter(|&end| steps[end].thread == by);
                let effective = own_end.map(|end| held(steps, by, store, end));
                let locks = held(steps, reader, load, load);
                if observed || effective.is_none_or(|held| held.is_disjoint(&locks)) {
                    let key = (steps[store].site, steps[load].site);
                    *races.entry(key).or_default() |= observed;
                }
            }
        }
    }
    races
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_search_finds_what_the_definition_says(
        steps in proptest::collection::vec((0..3usize, op(), 1..=SITES), 4..48),
        shares_sites: bool,
        removes_initialisation: bool,
    ) {
        let created = [(0, Op::Create(1), 1)];
        let mut steps = possible(created.into_iter().chain(steps).collect());
        if !shares_sites {
            for (position, step) in steps.iter_mut().enumerate() {
                step.site = position as u64 + 1;
            }
        }
        prop_assert_eq!(found(&steps, removes_initialisation), expected(&steps, removes_initialisation));
    }
}
