//! Crash images of choices, compared with the states of the model.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::ops::ControlFlow;

use brownout_crash::{
    Choice, CrashError, CrashPoint, ImageBuilder, ImpossibleChoice, LineChoice, OtherLines,
    RecordedRun, TornStore,
};
use brownout_model::{
    Access, ByteMask, FlushEffect, LINE, LineRef, LiveStore, Marks, PersistObserver, PmAddress,
    Profile, SpaceId, StoreKind, Tearing, Time, Tracker, UnitState, line_parts,
};
use brownout_trace::{Address, EventKind, FenceKind, StoreFlavor};
use proptest::prelude::*;

use super::traces::{BASE, Made, Silent, flush, sfence, store};

/// Bytes of the pool that the random programs use.
const POOL: usize = 4 * LINE as usize;

#[derive(Clone, Debug)]
enum Step {
    Store {
        offset: u64,
        bytes: Vec<u8>,
        flavor: StoreFlavor,
        locked: bool,
    },
    Flush {
        line: u64,
        immediate: bool,
    },
    Fence,
}

fn step() -> impl Strategy<Value = Step> {
    let kinds = prop_oneof![
        4 => Just((StoreFlavor::Temporal, false)),
        2 => Just((StoreFlavor::NonTemporal, false)),
        1 => Just((StoreFlavor::Temporal, true)),
    ];
    let bytes = prop::collection::vec(1..=255_u8, 1..20);
    let stored =
        (0..POOL as u64 - 20, bytes, kinds).prop_map(|(offset, bytes, kind)| Step::Store {
            offset,
            bytes,
            flavor: kind.0,
            locked: kind.1,
        });
    let flushed =
        (0..4_u64, any::<bool>()).prop_map(|(line, immediate)| Step::Flush { line, immediate });
    prop_oneof![5 => stored, 2 => flushed, 1 => Just(Step::Fence)]
}

fn event(step: &Step) -> EventKind<'_> {
    match step {
        Step::Store {
            offset,
            bytes,
            flavor,
            locked,
        } => EventKind::Store {
            addr: Address(BASE + offset),
            bytes,
            flavor: *flavor,
            locked: *locked,
            string: false,
        },
        Step::Flush { line, immediate } => EventKind::Flush {
            addr: Address(BASE + line * LINE),
            kind: if *immediate {
                brownout_trace::FlushKind::Clflush
            } else {
                brownout_trace::FlushKind::Clwb
            },
            volatile: false,
        },
        Step::Fence => EventKind::Fence {
            kind: FenceKind::Sfence,
        },
    }
}

/// What the model says about the same steps, without traces: the settled bytes, and the parts that may be lost.
#[derive(Default)]
struct Expected {
    settled: BTreeMap<u64, [u8; LINE as usize]>,
    values: Vec<[u8; LINE as usize]>,
}

impl PersistObserver for Expected {
    type Store = usize;
    type Flush = ();
    const HISTORY: bool = true;

    fn guaranteed(&mut self, _: LineRef<'_>, _: Marks<'_>, _: &LiveStore<usize>, _: Access) {}

    fn settled(&mut self, line: LineRef<'_>, store: &LiveStore<usize>) {
        let bytes = self.settled.entry(line.address().offset).or_insert([0; 64]);
        overlay(bytes, &self.values[store.tag], store.bytes);
    }
}

fn overlay(line: &mut [u8; 64], value: &[u8; 64], bytes: ByteMask) {
    for byte in (0..64).filter(|&byte| bytes.contains(byte)) {
        line[byte as usize] = value[byte as usize];
    }
}

/// All crash states after the steps as the model enumerates them: the content of the pool in each, and which of the states is
/// the oldest.
fn model_states(steps: &[Step], profile: Profile, tearing: Tearing) -> (Vec<Vec<u8>>, Vec<u8>) {
    let mut tracker = Tracker::<Expected>::new(profile);
    let mut expected = Expected::default();
    let thread = tracker.add_thread();
    for (number, step) in steps.iter().enumerate() {
        let by = Access {
            thread,
            time: Time(number as u64),
        };
        let at = |offset| PmAddress {
            space: SpaceId(0),
            offset,
        };
        match step {
            Step::Store {
                offset,
                bytes,
                flavor,
                locked,
            } => {
                if *locked && profile.needs_fences() {
                    tracker.fence(&mut expected, by);
                }
                let kind = match flavor {
                    StoreFlavor::NonTemporal => StoreKind::NonTemporal,
                    _ => StoreKind::Cached,
                };
                for (start, mask, skipped) in line_parts(*offset, bytes.len() as u64) {
                    let mut value = [0; 64];
                    let first = mask.first() as usize;
                    let rest = &bytes[skipped as usize..];
                    let count = rest.len().min(64 - first);
                    value[first..first + count].copy_from_slice(&rest[..count]);
                    expected.values.push(value);
                    let tag = expected.values.len() - 1;
                    let line = tracker.line(at(start));
                    tracker.store(&mut expected, by, line, mask, kind, tag);
                }
            }
            Step::Flush { line, immediate } if profile.needs_fences() => {
                let line = tracker.line(at(line * LINE));
                let kind = if *immediate {
                    FlushEffect::Immediate
                } else {
                    FlushEffect::Deferred
                };
                tracker.flush(&mut expected, by, line, kind, ());
            }
            Step::Fence if profile.needs_fences() => tracker.fence(&mut expected, by),
            Step::Flush { .. } | Step::Fence => {}
        }
    }
    let states = tracker.crash_states(tearing);
    let content = |state: &[UnitState]| {
        let mut lines = expected.settled.clone();
        for (unit, state) in states.units().iter().zip(state) {
            for piece in &state.pieces {
                let part = &unit.parts()[piece.part];
                let line = lines.entry(part.line.offset).or_insert([0; 64]);
                overlay(line, &expected.values[part.tag], piece.bytes);
            }
        }
        let mut pool = vec![0; POOL];
        for (offset, line) in lines {
            pool[offset as usize..offset as usize + 64].copy_from_slice(&line);
        }
        pool
    };
    let all = states.iter().map(|state| content(&state)).collect();
    let oldest: Vec<UnitState> = states
        .units()
        .iter()
        .map(|unit| unit.state_with(|part| unit.is_guaranteed(part)).unwrap())
        .collect();
    (all, content(&oldest))
}

fn guaranteed(profile: Profile) -> Choice {
    Choice {
        profile: profile.name.to_owned(),
        tearing: Tearing::Whole,
        others: OtherLines::Guaranteed,
        lines: Vec::new(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_crash_state_is_named_by_a_choice_with_its_image(
        steps in prop::collection::vec(step(), 0..12),
        profile in prop::sample::select(Profile::ALL.to_vec()),
        tearing in prop::sample::select(vec![Tearing::Whole, Tearing::Words]),
    ) {
        let mut made = Made::new();
        for step in &steps {
            made.at(1, event(step));
        }
        let exit = made.exit();
        let made = made.finish();
        let run = RecordedRun::new(made.path(), made.selection());
        let files = run.files(&mut Silent).unwrap();
        let (states, oldest) = model_states(&steps, profile, tearing);
        prop_assume!(states.len() <= 4096);

        let mut builder = ImageBuilder::new(&files, &run.selection).with_states(profile);
        let mut checked = false;
        run.walk(|event, definitions| {
            if event.index.0 < exit {
                builder.apply(event, definitions);
                return ControlFlow::Continue(());
            }
            let choices: Vec<Choice> = builder.choices(tearing, definitions).collect();
            assert_eq!(choices.len(), states.len());
            let different: HashSet<&Choice> = choices.iter().collect();
            assert_eq!(different.len(), choices.len(), "each state has its own name");
            let mut digests = HashMap::new();
            for (choice, expected) in choices.iter().zip(&states) {
                let chosen = builder.chosen(choice, exit, definitions).unwrap();
                let mut found = vec![0; POOL];
                chosen.image.files[0].as_ref().unwrap().read(0, &mut found);
                assert!(found == *expected, "{choice:?}");
                let known = digests.entry(found).or_insert(chosen.digest);
                assert_eq!(*known, chosen.digest, "equal images have equal digests");
                assert!(chosen.torn.is_empty() || tearing == Tearing::Words, "{choice:?}");
                let all: usize = chosen.lost.iter().map(|lost| lost.bytes.len()).sum();
                assert_eq!(all == 0, choice.lines.is_empty(), "{choice:?}");
            }
            let distinct: HashSet<_> = digests.values().collect();
            assert_eq!(distinct.len(), digests.len(), "different images have different digests");
            // The state with every store is the image in program order.
            let newest = Choice { others: OtherLines::Newest, ..guaranteed(profile) };
            let newest = builder.chosen(&newest, exit, definitions).unwrap();
            assert_eq!(newest.digest, builder.digest(definitions));
            assert!(newest.lost.is_empty());
            checked = true;
            ControlFlow::Break(())
        }).unwrap();
        prop_assert!(checked);

        let point = CrashPoint::chosen(exit, Some(guaranteed(profile)));
        let image = run.image_at(&point, &files, &mut Silent).unwrap();
        let mut found = vec![0; POOL];
        image.files[0].as_ref().unwrap().read(0, &mut found);
        prop_assert!(found == oldest);
    }
}

#[test]
fn a_choice_that_no_crash_can_leave_is_an_error() {
    let mut made = Made::new();
    made.at(1, store(BASE, &[1]));
    made.at(2, flush(BASE));
    made.at(3, sfence());
    made.at(4, store(BASE, &[2]));
    made.at(5, store(BASE + 8, &[3]));
    let exit = made.exit();
    let made = made.finish();
    let run = RecordedRun::new(made.path(), made.selection());
    let files = run.files(&mut Silent).unwrap();
    let image = |file, stores, exceptions| {
        let lines = vec![LineChoice {
            file,
            offset: 0,
            stores,
            exceptions,
            torn: Vec::new(),
        }];
        let choice = Choice {
            lines,
            others: OtherLines::Newest,
            ..guaranteed(Profile::ADR)
        };
        let point = CrashPoint::chosen(exit, Some(choice));
        run.image_at(&point, &files, &mut Silent).map(|image| {
            let mut bytes = [0; 9];
            image.files[0].as_ref().unwrap().read(0, &mut bytes);
            (bytes[0], bytes[8])
        })
    };
    assert_eq!(image(0, 1, vec![]).unwrap(), (1, 0));
    assert_eq!(image(0, 2, vec![]).unwrap(), (2, 0));
    assert_eq!(image(0, 3, vec![]).unwrap(), (2, 3));
    // The first store is guaranteed, there are only three, and the second is ordered before the third.
    for (stores, exceptions) in [
        (0, vec![]),
        (4, vec![]),
        (3, vec![0]),
        (3, vec![1]),
        (1, vec![9]),
    ] {
        let error = image(0, stores, exceptions).unwrap_err();
        let impossible = matches!(
            error,
            CrashError::Choice(ImpossibleChoice::Line { offset: 0, .. })
        );
        assert!(impossible, "{error}");
    }
    let error = image(7, 1, vec![]).unwrap_err();
    assert!(
        matches!(
            error,
            CrashError::Choice(ImpossibleChoice::File { file: 7, .. })
        ),
        "{error}"
    );
}

#[test]
fn a_store_is_torn_only_where_it_can_be() {
    let mut made = Made::new();
    made.at(1, store(BASE, &[1; 8]));
    // Words 1 to 3 of the line, of which the first and the last in part.
    let torn = made.at(2, store(BASE + 12, &[2; 16]));
    made.at(3, store(BASE, &[3; 8]));
    let exit = made.exit();
    let made = made.finish();
    let run = RecordedRun::new(made.path(), made.selection());
    let files = run.files(&mut Silent).unwrap();
    let mut builder = ImageBuilder::new(&files, &run.selection).with_states(Profile::ADR);
    let choice = |tearing, stores, store, words| Choice {
        others: OtherLines::Newest,
        tearing,
        lines: vec![LineChoice {
            file: 0,
            offset: 0,
            stores,
            exceptions: Vec::new(),
            torn: vec![TornStore { store, words }],
        }],
        ..guaranteed(Profile::ADR)
    };
    run.walk(|event, definitions| {
        if event.index.0 == exit {
            let outer = choice(Tearing::Words, 1, 1, 0b1010);
            let chosen = builder.chosen(&outer, exit, definitions).unwrap();
            let mut bytes = [0; 32];
            chosen.image.files[0].as_ref().unwrap().read(0, &mut bytes);
            let expected = [
                vec![1; 8],
                vec![0; 4],
                vec![2; 4],
                vec![0; 8],
                vec![2; 4],
                vec![0; 4],
            ];
            assert_eq!(bytes[..], expected.concat());
            let kept = chosen.torn.iter();
            let kept: Vec<(u64, u64, u64)> = kept
                .map(|kept| (kept.event.0, kept.offset, kept.len))
                .collect();
            assert_eq!(kept, [(torn, 12, 4), (torn, 24, 4)]);
            let lost = chosen
                .lost
                .iter()
                .map(|lost| (lost.offset, lost.bytes[0], lost.bytes.len()));
            assert_eq!(lost.collect::<Vec<_>>(), [(16, 2, 8), (0, 3, 8)]);
            // Stores are whole; the first store is one word; a later one is lost with an earlier one; the store has no such
            // word; no word, or all, is not torn; there is no such store.
            for (tearing, stores, store, words) in [
                (Tearing::Whole, 1, 1, 0b1010),
                (Tearing::Words, 0, 0, 0b0001),
                (Tearing::Words, 0, 1, 0b0010),
                (Tearing::Words, 1, 1, 0b0001),
                (Tearing::Words, 1, 1, 0b0000),
                (Tearing::Words, 1, 1, 0b1110),
                (Tearing::Words, 3, 3, 0b0001),
            ] {
                let impossible = choice(tearing, stores, store, words);
                let error = builder.chosen(&impossible, exit, definitions).unwrap_err();
                assert!(
                    matches!(error, ImpossibleChoice::Line { offset: 0, .. }),
                    "{error}"
                );
            }
        }
        builder.apply(event, definitions);
        ControlFlow::Continue(())
    })
    .unwrap();
}

#[test]
fn the_stores_that_an_image_has_lost_are_listed_with_their_events() {
    let mut made = Made::new();
    made.at(1, store(BASE + 60, b"crossing"));
    let lost = made.at(2, store(BASE, b"lost"));
    let exit = made.exit();
    let made = made.finish();
    let run = RecordedRun::new(made.path(), made.selection());
    let files = run.files(&mut Silent).unwrap();
    let mut builder = ImageBuilder::new(&files, &run.selection).with_states(Profile::ADR);
    let choice = Choice {
        others: OtherLines::Newest,
        lines: vec![LineChoice {
            file: 0,
            offset: 0,
            stores: 1,
            exceptions: Vec::new(),
            torn: Vec::new(),
        }],
        ..guaranteed(Profile::ADR)
    };
    run.walk(|event, definitions| {
        if event.index.0 == exit {
            let chosen = builder.chosen(&choice, exit, definitions).unwrap();
            assert_eq!(chosen.lost.len(), 1);
            assert_eq!(chosen.lost[0].event.0, lost);
            assert_eq!(
                (chosen.lost[0].offset, &chosen.lost[0].bytes[..]),
                (0, &b"lost"[..])
            );
        }
        builder.apply(event, definitions);
        ControlFlow::Continue(())
    })
    .unwrap();
}
