//! Linting ends without a panic for any sequence of events.

use brownout_lint::{Origin, Profile};
use brownout_trace::{Address, Event, EventKind, FileId, Mapping, ThreadId};
use proptest::prelude::*;

use crate::target_run::TargetRun;

/// An event with arbitrary addresses, often close enough to each other to overlap.
#[derive(Clone, Debug)]
enum Act {
    Map(u64, u64, u64),
    Unmap(u64, u64),
    Remap(u64, u64, u64, u64),
    Store(u64, usize),
    NtStore(u64),
    LockedStore(u64),
    Clwb(u64),
    Clflush(u64),
    Sfence,
    Lock,
    Msync(u64, u64),
    Resize(u64),
    FileWrite(u64),
    ThreadExit,
}

fn number() -> impl Strategy<Value = u64> {
    prop_oneof![
        8 => 0_u64..0x4000,
        1 => (0_u64..0x4000).prop_map(|near| u64::MAX - near),
        1 => any::<u64>(),
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        1 => (number(), number(), number()).prop_map(|(addr, len, at)| Act::Map(addr, len, at)),
        1 => (number(), number()).prop_map(|(addr, len)| Act::Unmap(addr, len)),
        1 => (number(), number(), number(), number()).prop_map(|(a, b, c, d)| Act::Remap(a, b, c, d)),
        8 => (number(), 1_usize..200).prop_map(|(addr, len)| Act::Store(addr, len)),
        4 => number().prop_map(Act::NtStore),
        2 => number().prop_map(Act::LockedStore),
        6 => number().prop_map(Act::Clwb),
        2 => number().prop_map(Act::Clflush),
        4 => Just(Act::Sfence),
        2 => Just(Act::Lock),
        1 => (number(), number()).prop_map(|(addr, len)| Act::Msync(addr, len)),
        1 => number().prop_map(Act::Resize),
        1 => number().prop_map(Act::FileWrite),
        1 => Just(Act::ThreadExit),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn linting_anything_ends(
        acts in proptest::collection::vec((0_u32..3, act()), 0..60),
        profile in 0..Profile::ALL.len(),
    ) {
        let mut run = TargetRun::under(Profile::ALL[profile]);
        for (number, (thread, act)) in (0..).zip(&acts) {
            run.thread(ThreadId(*thread)).at(number);
            perform(&mut run, act);
        }
        let outcome = run.lint(|_: &Event<'_>, _: &_| Origin::User);
        for finding in outcome.findings {
            prop_assert!(finding.count > 0 && !finding.sites.is_empty());
        }
    }
}

fn perform(run: &mut TargetRun, act: &Act) {
    let file: FileId = run.pool;
    match *act {
        Act::Map(addr, len, offset) => {
            run.event(EventKind::Map(Mapping {
                addr: Address(addr),
                len,
                file,
                offset,
                file_len: len,
                prot: 3,
                flags: 1,
                dax: false,
                snapshot: false,
            }));
        }
        Act::Unmap(addr, len) => {
            let addr = Address(addr);
            run.event(EventKind::Unmap { addr, len });
        }
        Act::Remap(old, old_len, new, new_len) => {
            let (old, new) = (Address(old), Address(new));
            run.event(EventKind::Remap {
                old,
                old_len,
                new,
                new_len,
            });
        }
        Act::Store(addr, len) => {
            run.store_value(addr, &vec![7; len]);
        }
        Act::NtStore(addr) => {
            run.nt_store(addr);
        }
        Act::LockedStore(addr) => {
            run.locked_store(addr);
        }
        Act::Clwb(addr) => {
            run.clwb(addr);
        }
        Act::Clflush(addr) => {
            run.clflush(addr);
        }
        Act::Sfence => {
            run.sfence();
        }
        Act::Lock => {
            run.lock();
        }
        Act::Msync(addr, len) => {
            run.msync(addr, len);
        }
        Act::Resize(len) => {
            run.event(EventKind::FileResize { file, len });
        }
        Act::FileWrite(offset) => {
            run.event(EventKind::FileWrite {
                file,
                offset,
                bytes: &[1; 100],
                syscall: 1,
            });
        }
        Act::ThreadExit => {
            run.event(EventKind::ThreadExit);
        }
    }
}
