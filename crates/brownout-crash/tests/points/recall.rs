//! Representative testing compared with all crash states, on generated programs: a table of entries, operations on it, and flushes and
//! fences left out at some of their places in the code.
//!
//! A mistake is named by the operation whose `valid` a crash can leave without its `key` or `value`.

use std::collections::BTreeSet;
use std::ops::ControlFlow;

use brownout_crash::{CrashImage, ImageBuilder, RecordedRun, Scope};
use brownout_model::{Profile, Tearing};

use super::representative::{byte, test};
use super::traces::{BASE, Made, Numbers, Silent, flush, sfence, store};
use seeded_random::SeededRandom;

const ENTRIES: u64 = 4;
/// Each entry has a `key`, a `value` and `valid`, in lines of their own.
const ENTRY: u64 = 256;
const KEY: u64 = 0;
const VALUE: u64 = 64;
const VALID: u64 = 128;

/// A program that is being written.
struct Program {
    made: Made,
    /// For each operation, the fields that it does not persist before it goes on.
    omissions: [[bool; 3]; 3],
}

impl Program {
    fn persist(&mut self, pc: u64, at: u64, omitted: bool) {
        if !omitted {
            self.made.at(pc, flush(BASE + at));
            self.made.at(pc + 1, sfence());
        }
    }

    /// Stores a field: `operation` decides the instruction, and whether it is persisted before the next.
    fn field(&mut self, operation: usize, field: usize, entry: u64, value: u8) {
        let offset = ENTRY * entry + [KEY, VALUE, VALID][field];
        let pc = 100 * (operation as u64 + 1) + 10 * field as u64;
        self.made.at(pc, store(BASE + offset, &[value]));
        self.persist(pc + 1, offset, self.omissions[operation][field]);
    }

    /// Fills an entry. All fields hold the number of the operation.
    fn fill(&mut self, operation: usize, entry: u64) {
        let name = operation as u8 + 1;
        self.field(operation, 0, entry, name);
        self.field(operation, 1, entry, name);
        self.field(operation, 2, entry, name);
        // In the end all of it is persisted.
        for field in [KEY, VALUE, VALID] {
            self.made.at(800, flush(BASE + ENTRY * entry + field));
        }
        self.made.at(801, sfence());
    }

    fn clear(&mut self, entry: u64) {
        for field in [VALID, KEY, VALUE] {
            let offset = ENTRY * entry + field;
            self.made.at(900 + field, store(BASE + offset, &[0]));
            self.persist(910 + field, offset, false);
        }
    }
}

fn program(seed: u64) -> Made {
    let mut random = SeededRandom::new(seed);
    for _ in 0..8 {
        random.below(2);
    }
    let mut program = Program {
        made: Made::new(),
        omissions: [[false; 3]; 3],
    };
    for omitted in program.omissions.as_flattened_mut() {
        *omitted = random.below(4) == 0;
    }
    let mut filled = [false; ENTRIES as usize];
    for _ in 0..6 {
        let entry = random.below(ENTRIES);
        match std::mem::replace(&mut filled[entry as usize], true) {
            true => {
                program.clear(entry);
                filled[entry as usize] = false;
            }
            false => program.fill(random.below(3) as usize, entry),
        }
    }
    program.made.exit();
    program.made.finish()
}

/// The operations whose mistake an image shows.
fn mistakes(image: &CrashImage) -> Vec<u8> {
    let entries = (0..ENTRIES).filter_map(|entry| {
        let field = |field| byte(image, ENTRY * entry + field);
        let valid = field(VALID);
        let is_wrong = valid != 0 && (field(KEY) == 0 || field(VALUE) == 0);
        is_wrong.then_some(valid)
    });
    entries.collect()
}

/// The mistakes that all crash states show, and how many different states there are.
fn exhaustive(made: &Made) -> (BTreeSet<u8>, usize) {
    let run = RecordedRun::new(made.path(), made.selection());
    let survey = run.survey(Scope::default(), &mut Numbers, &mut Silent);
    let survey = survey.unwrap();
    let mut builder = ImageBuilder::new(&survey.files, &run.selection).with_states(Profile::ADR);
    let (mut found, mut images) = (BTreeSet::new(), BTreeSet::new());
    run.walk(|event, definitions| {
        let choices: Vec<_> = builder.choices(Tearing::Whole, definitions).collect();
        for choice in choices {
            let chosen = builder.chosen(&choice, event.index.0, definitions).unwrap();
            if chosen.image.files.first().is_some_and(Option::is_some)
                && images.insert(chosen.digest.0)
            {
                found.extend(mistakes(&chosen.image));
            }
        }
        builder.apply(event, definitions);
        ControlFlow::Continue(())
    })
    .unwrap();
    (found, images.len())
}

#[test]
fn representatives_show_what_all_crash_states_show() {
    let (mut all, mut found) = (0, 0);
    for seed in 0..60 {
        let made = program(seed);
        let (expected, _) = exhaustive(&made);
        let mut shown = BTreeSet::new();
        test(&made, |image| {
            let mistakes = mistakes(image);
            shown.extend(mistakes.iter().copied());
            mistakes.is_empty()
        });
        assert!(
            shown.is_subset(&expected),
            "program {seed}: {shown:?}, {expected:?}"
        );
        all += expected.len();
        found += shown.len();
        if shown != expected {
            eprintln!("program {seed}: {shown:?} of {expected:?}");
        }
    }
    eprintln!("{found} of {all}");
    assert!(all > 30, "the programs have mistakes: {all}");
    assert_eq!(found, all);
}
