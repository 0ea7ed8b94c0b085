//! The persist order of a run: random programs, compared with the reference machine and with all stores tried in turn.

use brownout_model::{
    Access, FlushEffect, LINE, ObjectOrder, PersistOrder, PersistOrderBuilder, PmAddress, Profile,
    SpaceId, StoreKind, StoreNumber, ThreadSlot, Time,
};
use proptest::prelude::*;

use crate::following::SPACE;
use crate::machine::{self, is_store};
use crate::program::{Op, Step};
use crate::random::{THREADS, profile, program};

/// Runs a program; its first step is at time 1.
fn ordered(profile: Profile, steps: &[Step]) -> PersistOrder {
    let mut builder = PersistOrderBuilder::new(profile);
    let threads: Vec<ThreadSlot> = (0..THREADS).map(|_| builder.add_thread()).collect();
    for (time, (thread, op)) in (1..).map(Time).zip(steps) {
        let by = Access {
            thread: threads[*thread],
            time,
        };
        let at = |offset: &u64| PmAddress {
            space: SPACE,
            offset: *offset,
        };
        let mut store = |offset, bytes: &[u8], kind| {
            builder.store(by, at(offset), bytes.len() as u64, kind);
        };
        match op {
            Op::Store(offset, bytes) => store(offset, bytes, StoreKind::Cached),
            Op::NonTemporal(offset, bytes) => store(offset, bytes, StoreKind::NonTemporal),
            Op::Locked(offset, bytes) => {
                builder.fence(by);
                builder.store(by, at(offset), bytes.len() as u64, StoreKind::Cached);
            }
            Op::Clflush(offset) => builder.flush(by, at(offset), FlushEffect::Immediate),
            Op::Clwb(offset) => builder.flush(by, at(offset), FlushEffect::Deferred),
            Op::Fence => builder.fence(by),
            Op::Sync(offset) => builder.write_back(by, SPACE, *offset..offset + 1),
            Op::Read(..) => {}
        }
    }
    builder.finish()
}

/// The answer by trying all stores.
fn between(
    order: &PersistOrder,
    thread: ThreadSlot,
    from: Time,
    until: Time,
    is_other: impl Fn(StoreNumber) -> bool,
) -> Option<StoreNumber> {
    let mut numbers = (0..order.stores().len() as u32).map(StoreNumber);
    numbers.find(|&number| {
        let store = order.store(number);
        let in_time = store.issued >= from && store.is_guaranteed_at(until);
        in_time && store.thread == thread && is_other(number)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    #[test]
    fn the_order_is_what_no_crash_contradicts(steps in program(8), profile in profile()) {
        let order = ordered(profile, &steps);
        let open = machine::open_pairs(profile, &steps);
        let stores: Vec<usize> = (0..steps.len()).filter(|&at| is_store(&steps[at].1)).collect();
        let numbered: Vec<(StoreNumber, usize)> = (0..).map(StoreNumber).zip(stores).collect();
        prop_assert_eq!(order.stores().len(), numbered.len());
        for &(first, first_step) in &numbered {
            for &(second, second_step) in &numbered {
                let is_open = first != second && open.contains(&(first_step, second_step));
                if order.persists_before(first, second) {
                    prop_assert!(!is_open, "{} {}", first_step, second_step);
                }
                // The machine orders whole stores; a store to two units has an order of its own for each.
                let is_whole = |step: usize| match &steps[step].1 {
                    Op::Store(at, bytes) | Op::Locked(at, bytes) | Op::NonTemporal(at, bytes) => {
                        at / profile.unit == (at + bytes.len() as u64 - 1) / profile.unit
                    }
                    _ => false,
                };
                if first != second && is_whole(first_step) && is_whole(second_step) {
                    prop_assert_eq!(order.persists_before(first, second), !is_open);
                }
            }
        }
    }

    #[test]
    fn a_store_between_two_others_is_found(
        steps in program(40),
        thread in 0..THREADS,
        from in 0..40_u64,
        until in 0..42_u64,
        own in 1..8_u32,
    ) {
        let order = ordered(Profile::ADR, &steps);
        let slots = order.stores().iter().map(|store| store.thread);
        let Some(thread) = slots.into_iter().find(|slot| slot.index() == thread) else {
            return Ok(());
        };
        let is_other = |number: StoreNumber| !number.0.is_multiple_of(own);
        let (from, until) = (Time(from), Time(until));
        prop_assert_eq!(
            order.persisted_between(thread, from, until, is_other),
            between(&order, thread, from, until, is_other)
        );
    }

    #[test]
    fn an_object_is_persisted_when_all_its_stores_are(steps in program(30), time in 0..32_u64) {
        let order = ordered(Profile::ADR, &steps);
        let (mut object, mut all) = (ObjectOrder::default(), true);
        // Of the program's stores, every other one is to the object.
        for store in order.stores().iter().step_by(2) {
            object.add(store);
            all &= store.issued >= Time(time) || store.is_guaranteed_at(Time(time));
        }
        prop_assert_eq!(object.is_persisted_at(Time(time)), all);
    }
}

fn builder() -> (PersistOrderBuilder, impl Fn(u64) -> Access) {
    let mut builder = PersistOrderBuilder::new(Profile::ADR);
    let thread = builder.add_thread();
    let by = move |time| Access {
        thread,
        time: Time(time),
    };
    (builder, by)
}

fn at(offset: u64) -> PmAddress {
    PmAddress {
        space: SpaceId(7),
        offset,
    }
}

#[test]
fn a_store_to_two_lines_is_guaranteed_when_both_parts_are() {
    let (mut builder, by) = builder();
    let crossing = builder.store(by(1), at(LINE - 4), 8, StoreKind::Cached);
    builder.flush(by(2), at(0), FlushEffect::Immediate);
    builder.flush(by(3), at(LINE), FlushEffect::Immediate);
    let order = builder.finish();
    assert_eq!(order.store(crossing).guaranteed(), Some(Time(3)));
    assert_eq!(order.store(crossing).unit(), None);
}

#[test]
fn stores_at_one_time_are_one() {
    let (mut builder, by) = builder();
    let first = builder.store(by(1), at(0), 8, StoreKind::Cached);
    let same = builder.store(by(1), at(4096), 8, StoreKind::Cached);
    builder.flush(by(2), at(0), FlushEffect::Immediate);
    builder.flush(by(3), at(4096), FlushEffect::Immediate);
    let order = builder.finish();
    assert_eq!((first, order.stores().len()), (same, 1));
    assert_eq!(order.store(first).guaranteed(), Some(Time(3)));
}

#[test]
fn what_is_replaced_in_the_file_cannot_be_lost() {
    let (mut builder, by) = builder();
    let gone = builder.store(by(1), at(0), 8, StoreKind::Cached);
    let left = builder.store(by(2), at(8), 8, StoreKind::Cached);
    builder.discard(by(3), SpaceId(7), 0..12);
    let order = builder.finish();
    assert_eq!(order.store(gone).guaranteed(), Some(Time(3)));
    assert_eq!(order.store(left).guaranteed(), None);
}
