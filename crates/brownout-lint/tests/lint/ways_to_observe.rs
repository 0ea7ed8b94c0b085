//! The fast path gives the same findings as whole events.

use brownout_lint::{Lint, Origin, Profile};
use brownout_trace::{Definitions, Event, ThreadId, TraceReader};
use seeded_random::SeededRandom;
use std::io::Cursor;

use crate::target_run::{HEAP, MAIN, POOL, SECOND, TargetRun, replay, short};

/// A run of random events at few sites, so that each site occurs often.
fn program(random: &mut SeededRandom) -> TargetRun {
    let mut run = TargetRun::new();
    for _ in 0..600 {
        let line = POOL + random.below(12) * 64;
        let addr = line + random.below(60);
        if random.below(6) == 0 {
            run.thread([MAIN, SECOND, ThreadId(12)][random.below(3) as usize]);
        }
        run.at(1 + random.below(40));
        match random.below(14) {
            0..6 => run.store_value(addr, &[7; 16][..1 + random.below(15) as usize]),
            6 => run.nt_store(line),
            7 => run.locked_store(line),
            8 => run.clflush(addr),
            9 => run.sfence(),
            10 => run.lock(),
            11 if random.below(20) == 0 => run.unmap().map_pool(),
            11 if random.below(9) == 0 => run.clwb(HEAP),
            _ => run.clwb(addr),
        };
    }
    run
}

/// Instructions from 30 on are a library's.
fn origin(event: &Event<'_>, _: &Definitions) -> Origin {
    match event.pc.0 {
        30.. => Origin::Library,
        _ => Origin::User,
    }
}

#[test]
fn the_fast_path_gives_the_same_findings_as_whole_events() {
    let mut random = SeededRandom::new(0x2545_f491_4f6c_dd1d);
    for round in 0..40 {
        let profile = Profile::ALL[round % Profile::ALL.len()];
        let trace = program(&mut random).take_trace();
        let mut observed = Lint::new(profile, origin);
        let definitions = replay(&trace, |event, definitions| {
            observed.observe(event, definitions);
        });
        let observed = observed.finish(&definitions, None).findings;
        let mut shown = Lint::new(profile, origin);
        let mut reader = TraceReader::new(Cursor::new(&trace)).expect("the trace opens");
        reader.visit(&mut shown).expect("the trace is whole");
        let shown = shown.finish(reader.definitions(), None).findings;
        let texts = |findings: &[_]| findings.iter().map(short).collect::<Vec<_>>();
        assert_eq!(texts(&shown), texts(&observed), "round {round}");
        assert!(profile == Profile::MSYNC || observed.len() > 10);
    }
}
