//! Compares outcomes and prints cases.

use std::fmt::Write as _;
use std::path::Path;

use anyhow::{Context, Result, bail};
use iced_x86::{Decoder, DecoderOptions, Formatter, IntelFormatter};

use crate::case::{Case, Cases};
use crate::execute::RUNS;
use crate::outcome::Outcome;
use crate::state::Areas;

/// Prints the number of each case whose outcomes differ, followed by the case and the differences.
/// True if there was one.
pub fn compare(cases: &Cases, native: &Path, engine: &Path) -> Result<bool> {
    let areas = Areas::of_this_machine();
    let (native, engine) = (Outcome::load(native)?, Outcome::load(engine)?);
    if native.len() != cases.cases.len() * RUNS {
        bail!(
            "the native run has {} outcomes for {} cases",
            native.len(),
            cases.cases.len()
        );
    }
    let mut found = false;
    let mut last = None;
    for (position, (index, outcome)) in engine.iter().enumerate() {
        let run = usize::from(position > 0 && engine[position - 1].0 == *index);
        let (_, expected) = &native[index * RUNS + run];
        let case = cases.cases.get(*index).context("an outcome of no case")?;
        let differences = expected.differences(outcome, &areas, cases, case);
        if differences.is_empty() || last == Some(*index) {
            continue;
        }
        last = Some(*index);
        found = true;
        println!("case {index}, execution {}", run + 1);
        print!("{}", show(cases, case));
        differences
            .iter()
            .for_each(|difference| println!("    ! {difference}"));
    }
    Ok(found)
}

/// The case in words: its code, registers and memory.
pub fn show(cases: &Cases, case: &Case) -> String {
    const NAMES: [&str; 16] = [
        "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12",
        "r13", "r14", "r15",
    ];
    let mut text = format!("    {}\n", case.title);
    let start = cases.region.slot(case.slot);
    let mut formatter = IntelFormatter::new();
    formatter.options_mut().set_rip_relative_addresses(false);
    formatter
        .options_mut()
        .set_space_after_operand_separator(true);
    for insn in &mut Decoder::with_ip(64, &case.code, start, DecoderOptions::NONE) {
        let at = (insn.ip() - start) as usize;
        let bytes: String = case.code[at..at + insn.len()]
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect();
        // Padding, and what was left out.
        if bytes == "cc" || bytes == "90" {
            continue;
        }
        let mut line = String::new();
        formatter.format(&insn, &mut line);
        let _ = writeln!(text, "    {:x}  {bytes:<24} {line}", insn.ip());
    }
    for (row, values) in case.gpr.chunks(4).enumerate() {
        let words: Vec<String> = values
            .iter()
            .enumerate()
            .map(|(column, value)| format!("{}={value:#x}", NAMES[4 * row + column]))
            .collect();
        let _ = writeln!(text, "    {}", words.join(" "));
    }
    let arena = cases.region.arena();
    let file = cases.region.file_range();
    let _ = writeln!(
        text,
        "    flags={:#x} fs={:#x} gs={:#x}; memory from {arena:#x}, the file {:#x}..{:#x}",
        case.flags, case.fs_base, case.gs_base, file.start, file.end
    );
    for (at, bytes) in &case.patches {
        let shown: String = bytes
            .iter()
            .take(32)
            .map(|byte| format!("{byte:02x}"))
            .collect();
        let _ = writeln!(
            text,
            "    [{:#x}] = {shown}{}",
            arena + *at as u64,
            if bytes.len() > 32 { "…" } else { "" }
        );
    }
    text
}

/// One case alone, with some of its instructions replaced by `nop`.
pub fn reduce(cases: &Cases, index: usize, drop: &[usize]) -> Result<Cases> {
    let mut case = cases.cases.get(index).context("no such case")?.clone();
    let mut at = 0;
    for (number, &len) in case.lengths.iter().enumerate() {
        let end = at + usize::from(len);
        if drop.contains(&number) {
            case.code[at..end].fill(0x90);
        }
        at = end;
    }
    if drop.iter().any(|number| *number >= case.lengths.len()) {
        bail!("the case has {} instructions", case.lengths.len());
    }
    Ok(Cases {
        cases: vec![case],
        ..cases.clone()
    })
}
