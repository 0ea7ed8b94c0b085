//! Programs that know the chain of their calls, built in all the ways that matter for unwinding.

use super::traced_target::TracedTarget;
use crate::instruments::unwind::{ContextTree, Registers, StackCache, Unwinder};
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::Command;

const PROGRAMS: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/src/arch/x86_64/instruments/unwind/tests/programs"
);

const NO_TABLES: &str = "-fno-asynchronous-unwind-tables -fno-unwind-tables -fno-exceptions";

/// A directory of its own for one built program.
struct Built {
    directory: PathBuf,
}

impl Built {
    fn program(&self) -> PathBuf {
        self.directory.join("program")
    }
}

impl Drop for Built {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// Builds a program; `None` if the machine has no such compiler.
fn build(name: &str, compiler: &str, flags: &str) -> Option<Built> {
    Command::new(compiler).arg("--version").output().ok()?;
    let unique = format!("{name}-{compiler}-{flags}").replace(|c: char| !c.is_alphanumeric(), "_");
    let directory =
        std::env::temp_dir().join(format!("brownout-unwind-{}-{unique}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the target");
    let built = Built { directory };
    let status = Command::new(compiler)
        .args(flags.split_whitespace())
        .args(["-w", "-pthread", "-o"])
        .arg(built.program())
        .arg(Path::new(PROGRAMS).join(name).with_extension("c"))
        .status()
        .expect("the compiler runs");
    assert!(status.success(), "{compiler} {flags} builds {name}");
    Some(built)
}

/// Runs a program and compares each of its events with what it expects. Frames outside of `main` or
/// of a thread's start routine, `outer` at most, are the C library's.
#[track_caller]
fn check(name: &str, compiler: &str, flags: &str, outer: std::ops::RangeInclusive<usize>) {
    let Some(built) = build(name, compiler, flags) else {
        eprintln!("{compiler} is not installed: {name} {flags} not tested");
        return;
    };
    let mut target = TracedTarget::start(&built.program());
    let (mut unwinder, mut tree) = (Unwinder::new(), ContextTree::new());
    let mut threads: HashMap<i32, StackCache> = HashMap::new();
    let mut events = 0;
    while let Some(event) = target.next_event() {
        events += 1;
        let what = format!(
            "{name} {compiler} {flags}, event {events} at {:#x}",
            event.registers.pc
        );
        let regs: &Registers = &event.registers;
        let mut defined = Vec::new();
        let mut on_new = |id, caller, address| defined.push((id, caller, address));
        let stack = threads.entry(event.thread).or_default();
        let alone = stack.context(regs, &event.world, &event.world);
        let context = unwinder.context(
            regs,
            &event.world,
            &event.world,
            stack,
            &mut tree,
            &mut on_new,
        );
        assert!(
            alone.is_none_or(|alone| alone == context),
            "{what}: what the thread knows is right"
        );

        let chain = stack.walked();
        let (inner, rest) = chain.split_at(event.expected.len().min(chain.len()));
        assert_eq!(
            format!("{inner:x?}"),
            format!("{:x?}", event.expected),
            "{what}, then {rest:x?}"
        );
        let outer = if event.whole { 0..=0 } else { outer.clone() };
        assert!(
            outer.contains(&rest.len()),
            "{what}: frames beyond the known ones: {rest:x?}"
        );

        let mut fresh = StackCache::new();
        let again = unwinder.context(
            regs,
            &event.world,
            &event.world,
            &mut fresh,
            &mut tree,
            &mut |_, _, _| panic!("{what}: a walk from nothing finds another chain"),
        );
        assert_eq!(
            again, context,
            "{what}: the remembered stack makes no difference"
        );
        let repeated = stack.context(regs, &event.world, &event.world);
        assert_eq!(
            repeated,
            Some(context),
            "{what}: asking again needs nothing but the thread"
        );
        for (id, caller, address) in defined {
            assert!(
                caller.0 < id.0,
                "{what}: callers are defined before callees"
            );
            assert_eq!(tree.return_addresses(id).next(), Some(address), "{what}");
        }
    }
    assert!(events > 3, "{name} has events");
}

/// Beyond `main`: `__libc_start_call_main` returns to `__libc_start_main`, that to `_start`.
const GLIBC: std::ops::RangeInclusive<usize> = 1..=2;
const ALL: [&str; 6] = [
    "calls",
    "jumps",
    "signals",
    "threads",
    "coroutines",
    "assembly",
];

#[test]
fn optimised() {
    for name in ALL {
        check(name, "gcc", "-O2", GLIBC);
    }
}

#[test]
fn unoptimised() {
    for name in ALL {
        check(name, "gcc", "-O0", GLIBC);
    }
}

#[test]
fn frame_pointers_and_none() {
    check("calls", "gcc", "-O2 -fno-omit-frame-pointer", GLIBC);
    check("calls", "gcc", "-O0 -fomit-frame-pointer", GLIBC);
    check("calls", "gcc", "-O3 -march=x86-64-v3 -no-pie", GLIBC);
}

#[test]
fn by_another_compiler() {
    for name in ALL {
        check(name, "clang", "-O2", GLIBC);
    }
}

#[test]
fn without_tables() {
    for name in ["calls", "jumps", "signals", "threads", "assembly"] {
        check(name, "gcc", &format!("-O2 {NO_TABLES}"), GLIBC);
        check(name, "gcc", &format!("-O0 {NO_TABLES}"), GLIBC);
    }
}

#[test]
fn static_without_table_of_contents() {
    for name in ALL {
        check(name, "gcc", "-O2 -static", GLIBC);
    }
}

#[test]
fn static_position_independent() {
    check("calls", "gcc", "-O2 -static-pie", GLIBC);
    check("signals", "gcc", "-O2 -static-pie", GLIBC);
}

#[test]
fn musl() {
    for name in ["calls", "jumps", "signals", "threads", "assembly"] {
        check(name, "musl-gcc", "-O2 -static", 0..=3);
        check(name, "musl-gcc", "-O2", 0..=3);
    }
}
