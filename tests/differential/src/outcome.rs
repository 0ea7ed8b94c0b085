//! The outcome of a case: registers, memory and signal; and how two outcomes differ.

use std::fs;
use std::ops::Range;
use std::path::Path;

use anyhow::{Context, Result};

use crate::case::{Case, Cases, Reader, Writer};
use crate::generate::IMPOSSIBLE_TARGET;
use crate::state::Areas;

/// A signal that ended a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Signal {
    pub number: u64,
    pub code: u64,
    pub address: u64,
    pub trap: u64,
    pub error: u64,
    pub rip: u64,
}

#[derive(Clone, Debug)]
pub struct Outcome {
    pub gpr: [u64; 16],
    pub flags: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    pub signal: Signal,
    pub area: Vec<u8>,
    /// Runs of bytes of the arena that the case changed: offset and new bytes.
    pub changes: Vec<(usize, Vec<u8>)>,
}

impl Outcome {
    /// Appends this outcome of case `index`.
    pub fn write(&self, index: usize, out: &mut Vec<u8>) {
        let mut writer = Writer::default();
        writer.number(index as u64);
        self.gpr.iter().for_each(|value| writer.number(*value));
        let Signal {
            number,
            code,
            address,
            trap,
            error,
            rip,
        } = self.signal;
        for value in [
            self.flags,
            self.fs_base,
            self.gs_base,
            number,
            code,
            address,
            trap,
            error,
            rip,
        ] {
            writer.number(value);
        }
        writer.bytes(&self.area);
        writer.number(self.changes.len() as u64);
        for (at, bytes) in &self.changes {
            writer.number(*at as u64);
            writer.bytes(bytes);
        }
        out.append(&mut writer.0);
    }

    fn read(from: &mut Reader) -> Result<(usize, Outcome)> {
        let index = from.number()? as usize;
        let mut gpr = [0; 16];
        for value in &mut gpr {
            *value = from.number()?;
        }
        let mut rest = [0; 9];
        for value in &mut rest {
            *value = from.number()?;
        }
        let [
            flags,
            fs_base,
            gs_base,
            number,
            code,
            address,
            trap,
            error,
            rip,
        ] = rest;
        let area = from.bytes()?.to_vec();
        let changes = (0..from.number()?)
            .map(|_| Ok((from.number()? as usize, from.bytes()?.to_vec())))
            .collect::<Result<_>>()?;
        let signal = Signal {
            number,
            code,
            address,
            trap,
            error,
            rip,
        };
        Ok((
            index,
            Outcome {
                gpr,
                flags,
                fs_base,
                gs_base,
                signal,
                area,
                changes,
            },
        ))
    }

    /// All whole outcomes in a file, each with the number of its case.
    pub fn load(path: &Path) -> Result<Vec<(usize, Outcome)>> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut from = Reader(&bytes);
        let mut outcomes = Vec::new();
        // A run that was killed leaves part of an outcome at the end.
        while !from.0.is_empty()
            && let Ok(outcome) = Outcome::read(&mut from)
        {
            outcomes.push(outcome);
        }
        Ok(outcomes)
    }

    /// Each thing in which `other`, the engine's outcome of the same case, differs, in words.
    pub fn differences(
        &self,
        other: &Outcome,
        areas: &Areas,
        cases: &Cases,
        case: &Case,
    ) -> Vec<String> {
        const NAMES: [&str; 16] = [
            "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11",
            "r12", "r13", "r14", "r15",
        ];
        let mut found = Vec::new();
        let mut number = |name: &str, native: u64, engine: u64| {
            if native != engine {
                found.push(format!("{name}: {engine:#x} instead of {native:#x}"));
            }
        };
        let known = Known::of(case, self);
        for (index, name) in NAMES.iter().enumerate() {
            number(name, self.gpr[index], other.gpr[index]);
        }
        number(
            "flags",
            self.flags & !known.flags,
            other.flags & !known.flags,
        );
        number("FS base", self.fs_base, other.fs_base);
        number("GS base", self.gs_base, other.gs_base);
        number("signal", self.signal.number, other.signal.number);
        number("signal's code", self.signal.code, other.signal.code);
        number(
            "signal's address",
            self.signal.address,
            other.signal.address,
        );
        number("signal's trap number", self.signal.trap, other.signal.trap);
        number("signal's error code", self.signal.error, other.signal.error);
        number("rip at signal", self.signal.rip, other.signal.rip);
        let (native, engine) = (normal(&self.area, areas), normal(&other.area, areas));
        for (name, at, len) in parts(areas) {
            if native[at..at + len] != engine[at..at + len] {
                found.push(format!(
                    "{name}: {} instead of {}",
                    hex(&engine[at..at + len]),
                    hex(&native[at..at + len])
                ));
            }
        }
        let contents = case.contents(&cases.arena);
        let (native, mut engine) = (
            changed(&contents, &self.changes),
            changed(&contents, &other.changes),
        );
        forgive_dead_words(
            &native,
            &mut engine,
            self.gpr[RSP].wrapping_sub(cases.region.arena()),
        );
        if native != engine && !known.pushed {
            found.push(format!(
                "memory: {} instead of {}",
                changes(&other.changes),
                changes(&self.changes)
            ));
        }
        found
    }
}

/// In what the engine is known to differ, given the native outcome.
struct Known {
    /// Bits of the flags.
    flags: u64,
    /// A call to an address that cannot exist has pushed its return address when the fault comes.
    pushed: bool,
}

impl Known {
    fn of(case: &Case, native: &Outcome) -> Known {
        const RESUME: u64 = 0x1_0000;
        Known {
            // The CPU sets it in the frame of a fault; it means something to debuggers only.
            flags: if native.signal.number != 0 { RESUME } else { 0 },
            pushed: case.title == IMPOSSIBLE_TARGET,
        }
    }
}

const RSP: usize = 4;
/// Where the engine keeps translated code.
const CODE_CACHE: Range<u64> = 0x6000_0000..0x7800_0000;

fn changed(contents: &[u8], changes: &[(usize, Vec<u8>)]) -> Vec<u8> {
    let mut contents = contents.to_vec();
    for (at, bytes) in changes {
        contents[*at..at + bytes.len()].copy_from_slice(bytes);
    }
    contents
}

/// The engine's calls and returns use the word below the stack pointer, which is nobody's. `stack` is the
/// stack pointer's offset in the arena.
fn forgive_dead_words(native: &[u8], engine: &mut [u8], stack: u64) {
    if stack > native.len() as u64 {
        return;
    }
    let stack = stack as usize;
    let mut at = stack % 8;
    while at + 8 <= stack {
        let word = u64::from_le_bytes(engine[at..at + 8].try_into().unwrap_or_default());
        if CODE_CACHE.contains(&word) {
            engine[at..at + 8].copy_from_slice(&native[at..at + 8]);
        }
        at += 8;
    }
}

/// The area with what the processor may leave out filled in, and without what no program can rely on.
fn normal(area: &[u8], areas: &Areas) -> Vec<u8> {
    let mut normal = area.to_vec();
    let present = u64::from_le_bytes(area[512..520].try_into().unwrap_or_default());
    if present & 1 == 0 {
        normal[..24].fill(0);
        normal[0..2].copy_from_slice(&0x37fu16.to_le_bytes());
        normal[32..160].fill(0);
    }
    if present & 2 == 0 {
        normal[160..416].fill(0);
    }
    for (component, at, len) in [
        (2, areas.avx, 256),
        (5, areas.masks, 64),
        (6, areas.zmm_high, 512),
        (7, areas.zmm_16, 1024),
    ] {
        if areas.components >> component & 1 != 0 && present >> component & 1 == 0 {
            normal[at..at + len].fill(0);
        }
    }
    // Which the last x87 instruction was and where: the engine's copy is elsewhere and may use another
    // register for its operand.
    normal[6..24].fill(0);
    normal
}

fn parts(areas: &Areas) -> Vec<(String, usize, usize)> {
    let mut parts = vec![
        ("x87 control word".to_owned(), 0, 2),
        ("x87 status word".to_owned(), 2, 2),
        ("x87 tags".to_owned(), 4, 2),
        ("mxcsr".to_owned(), 24, 4),
    ];
    parts.extend((0..8).map(|register| (format!("st{register}"), 32 + 16 * register, 10)));
    for register in 0..32 {
        for (piece, at) in areas.vector(register).into_iter().enumerate() {
            parts.push((format!("zmm{register} bytes {}…", 16 * piece), at, 16));
        }
    }
    parts.extend(
        (0..8).filter_map(|register| Some((format!("k{register}"), areas.mask(register)?, 8))),
    );
    parts
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn changes(changes: &[(usize, Vec<u8>)]) -> String {
    if changes.is_empty() {
        return "nothing".to_owned();
    }
    let mut words: Vec<String> = changes
        .iter()
        .take(8)
        .map(|(at, bytes)| format!("+{at:#x}={}", hex(&bytes[..bytes.len().min(64)])))
        .collect();
    if changes.len() > 8 {
        words.push(format!("and {} more", changes.len() - 8));
    }
    words.join(" ")
}
