//! Files that are missing, replaced or damaged give bare frames and a reason, never a wrong line or a
//! panic.

use std::fs;
use std::path::Path;

use crate::compile::Program;
use brownout_symbols::{BuildId, FileOffset, ModuleProblem, Probe, Symbolizer};
use seeded_random::SeededRandom;

const PLACE: Probe = Probe::Instruction(FileOffset(0x1139));

fn only_problem(path: &Path, build_id: Option<&BuildId>) -> (Symbolizer, String) {
    let mut symbolizer = Symbolizer::with_debug_directories(vec![]);
    let module = symbolizer.add_module(path, build_id);
    let frames = symbolizer.frames(module, PLACE);
    assert_eq!(frames.len(), 1);
    assert_eq!(
        frames[0].to_string(),
        format!("{}+0x1139", path.display()),
        "an unusable file must not give names"
    );
    symbolizer.frames(module, Probe::Instruction(FileOffset(0x1140)));
    assert_eq!(symbolizer.problems().len(), 1, "reported once");
    let problem = symbolizer.problems()[0].to_string();
    (symbolizer, problem)
}

#[test]
fn a_rebuilt_program_is_reported_and_not_used() {
    let old = Program::compile("pool.c", &["-g", "-O0"]);
    let new = Program::compile("pool.c", &["-g", "-O2"]);
    let recorded = old.build_id().unwrap();
    let now = new.build_id().unwrap();
    let (symbolizer, problem) = only_problem(&new.path, Some(&recorded));
    assert!(matches!(
        &symbolizer.problems()[0],
        ModuleProblem::Changed { recorded: r, found: Some(f), .. } if *r == recorded && *f == now
    ));
    assert!(problem.contains(&recorded.to_string()) && problem.contains(&now.to_string()));
}

#[test]
fn a_program_that_lost_its_build_id_is_reported_and_not_used() {
    let program = Program::compile("pool.c", &["-g", "-Wl,--build-id=none"]);
    let recorded = BuildId::new(&[1, 2, 3]).unwrap();
    let (_, problem) = only_problem(&program.path, Some(&recorded));
    assert!(
        problem.contains("010203") && problem.contains("missing"),
        "{problem}"
    );
}

#[test]
fn a_missing_file() {
    let (_, problem) = only_problem(Path::new("/nonexistent/program"), None);
    assert_eq!(problem, "cannot read /nonexistent/program");
}

#[test]
fn a_directory() {
    only_problem(Path::new("/usr"), None);
}

#[test]
fn files_that_are_not_elf() {
    let directory = tempfile::tempdir().unwrap();
    for content in [&b""[..], b"\x7fELF", b"#!/bin/sh\n", &[0xff; 4096]] {
        let path = directory.path().join("program");
        fs::write(&path, content).unwrap();
        let (symbolizer, _) = only_problem(&path, None);
        assert!(matches!(
            symbolizer.problems()[0],
            ModuleProblem::NotElf { .. } | ModuleProblem::Unreadable { .. }
        ));
    }
}

#[test]
fn the_vdso_is_not_a_problem() {
    let mut symbolizer = Symbolizer::new();
    let module = symbolizer.add_module(Path::new("[vdso]"), None);
    let frames = symbolizer.frames(module, PLACE);
    assert_eq!(frames[0].to_string(), "[vdso]+0x1139");
    assert!(symbolizer.problems().is_empty());
}

#[test]
fn damaged_files_never_panic() {
    let mut random = SeededRandom::new(1);
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("program");
    for options in [
        &["-gdwarf-4", "-O2"][..],
        &["-gdwarf-5", "-O2"],
        &["-gdwarf-5", "-gz"],
        &["-gdwarf-5", "-gsplit-dwarf"],
    ] {
        let program = Program::compile("pool.c", options);
        let whole = fs::read(&program.path).unwrap();
        for _ in 0..150 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(40) {
                let at = random.index(bytes.len());
                bytes[at] = random.below(256) as u8;
            }
            if random.below(8) == 0 {
                bytes.truncate(random.index(bytes.len()));
            }
            fs::write(&path, &bytes).unwrap();
            let mut symbolizer = Symbolizer::with_debug_directories(vec![]);
            let module = symbolizer.add_module(&path, None);
            for mark in ["in_store", "after_call", "main"] {
                symbolizer.frames(module, program.instruction(mark));
                symbolizer.frames(module, program.return_address(mark));
            }
        }
    }
}
