//! Executes cases in this process and writes their outcomes.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::case::{Case, Cases};
use crate::layout::{ARENA_BYTES, FILE_AT, FILE_BYTES, PAGE, Region, SLOT};
use crate::outcome::{Outcome, Signal};
use crate::state::Areas;
use crate::trampoline::{AREA, EXCHANGE, enter_case, handle_signal, leave_case, leave_signal};

/// How often each case is executed: an engine may do it in another way from the second time on.
pub const RUNS: usize = 2;

/// The signal that ended the case at hand.
static mut SIGNAL: Option<Signal> = None;

/// Executes the cases from number `from` on. With `file`, the middle of the arena is a shared mapping of it.
pub fn execute(cases: &Cases, from: usize, file: Option<&Path>, results: &Path) -> Result<()> {
    let areas = Areas::of_this_machine();
    ensure!(areas.len <= AREA, "the processor's state is too large");
    let arena = Arena::map(cases.region, file)?;
    map_code(cases)?;
    catch_signals()?;
    let mut out = OpenOptions::new().create(true).append(true).open(results)?;
    for (index, case) in cases.cases.iter().enumerate().skip(from) {
        let mut bytes = Vec::with_capacity(1 << 14);
        for _ in 0..RUNS {
            run(case, cases, &arena, &areas)?.write(index, &mut bytes);
        }
        out.write_all(&bytes)?;
    }
    Ok(())
}

/// The memory that cases work on.
struct Arena {
    start: u64,
    /// The file in its middle, and where it can be read without being the cases' own mapping.
    file: Option<(File, u64)>,
}

fn map(at: u64, len: usize, protection: i32, flags: i32, fd: i32) -> Result<u64> {
    // SAFETY: the kernel places the mapping, or refuses to replace another, except inside the arena,
    // which is this program's own.
    let address = unsafe { libc::mmap(at as *mut _, len, protection, flags, fd, 0) };
    if address == libc::MAP_FAILED {
        bail!(
            "cannot map {len} bytes at {at:#x}: {}",
            std::io::Error::last_os_error()
        );
    }
    Ok(address as u64)
}

impl Arena {
    fn map(region: Region, file: Option<&Path>) -> Result<Arena> {
        let start = region.arena();
        let around = ARENA_BYTES + 2 * PAGE as usize;
        let anonymous = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        let both = libc::PROT_READ | libc::PROT_WRITE;
        map(
            start - PAGE,
            around,
            libc::PROT_NONE,
            anonymous | libc::MAP_FIXED_NOREPLACE,
            -1,
        )?;
        map(start, ARENA_BYTES, both, anonymous | libc::MAP_FIXED, -1)?;
        let file = match file {
            None => None,
            Some(path) => {
                let file = OpenOptions::new()
                    .read(true)
                    .write(true)
                    .create(true)
                    .truncate(true)
                    .open(path)?;
                file.set_len(FILE_BYTES as u64)?;
                map(
                    start + FILE_AT as u64,
                    FILE_BYTES,
                    both,
                    libc::MAP_SHARED | libc::MAP_FIXED,
                    file.as_raw_fd(),
                )?;
                let view = map(
                    0,
                    FILE_BYTES,
                    libc::PROT_READ,
                    libc::MAP_SHARED,
                    file.as_raw_fd(),
                )?;
                Some((file, view))
            }
        };
        Ok(Arena { start, file })
    }

    fn read(&self) -> Vec<u8> {
        let bytes = |at: u64, len: usize| {
            // SAFETY: the arena and the view are mapped readable until the process ends, and nothing else writes
            // them while they are copied here.
            unsafe { std::slice::from_raw_parts(at as *const u8, len) }
        };
        let Some((_, view)) = &self.file else {
            return bytes(self.start, ARENA_BYTES).to_vec();
        };
        let rest = FILE_AT + FILE_BYTES;
        let mut all = bytes(self.start, FILE_AT).to_vec();
        all.extend_from_slice(bytes(*view, FILE_BYTES));
        all.extend_from_slice(bytes(self.start + rest as u64, ARENA_BYTES - rest));
        all
    }

    /// Makes the arena hold `wanted`. The file is written as a file, which leaves the mapping alone.
    fn write(&self, wanted: &[u8]) -> Result<()> {
        for (at, bytes) in changes(&self.read(), wanted) {
            let in_file = (FILE_AT..FILE_AT + FILE_BYTES).contains(&at);
            match &self.file {
                Some((file, _)) if in_file => file.write_all_at(&bytes, (at - FILE_AT) as u64)?,
                // SAFETY: a part of the arena that is ordinary memory.
                _ => unsafe {
                    std::ptr::copy_nonoverlapping(
                        bytes.as_ptr(),
                        (self.start + at as u64) as *mut u8,
                        bytes.len(),
                    );
                },
            }
        }
        Ok(())
    }
}

/// The runs of bytes in which `new` differs, none across a page.
fn changes(old: &[u8], new: &[u8]) -> Vec<(usize, Vec<u8>)> {
    let mut found: Vec<(usize, Vec<u8>)> = Vec::new();
    for page in 0..old.len() / PAGE as usize {
        let range = page * PAGE as usize..(page + 1) * PAGE as usize;
        if old[range.clone()] == new[range.clone()] {
            continue;
        }
        let mut open = false;
        for at in range {
            if old[at] == new[at] {
                open = false;
            } else if open {
                found.last_mut().expect("a run is open").1.push(new[at]);
            } else {
                found.push((at, vec![new[at]]));
                open = true;
            }
        }
    }
    found
}

fn map_code(cases: &Cases) -> Result<()> {
    let slots = cases
        .cases
        .iter()
        .map(|case| case.slot)
        .max()
        .map_or(0, |slot| slot + 1);
    let start = cases.region.exit();
    let len = (slots + 1) * SLOT as usize;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
    map(start, len, libc::PROT_READ | libc::PROT_WRITE, flags, -1)?;
    // SAFETY: just mapped, and used for nothing else.
    let memory = unsafe { std::slice::from_raw_parts_mut(start as *mut u8, len) };
    memory.fill(0xcc);
    // jmp [rip + 0], and where to
    memory[..6].copy_from_slice(&[0xff, 0x25, 0, 0, 0, 0]);
    memory[6..14].copy_from_slice(&(leave_case as *const () as u64).to_le_bytes());
    for case in &cases.cases {
        let at = (case.slot + 1) * SLOT as usize;
        memory[at..at + case.code.len()].copy_from_slice(&case.code);
    }
    // SAFETY: the range was just mapped; nobody writes it from here on.
    if unsafe { libc::mprotect(start as *mut _, len, libc::PROT_READ | libc::PROT_EXEC) } != 0 {
        return Err(std::io::Error::last_os_error()).context("cannot make code executable");
    }
    Ok(())
}

fn run(case: &Case, cases: &Cases, arena: &Arena, areas: &Areas) -> Result<Outcome> {
    let contents = case.contents(&cases.arena);
    arena.write(&contents)?;
    let exchange = &raw mut EXCHANGE;
    // SAFETY: this program has one thread, and the case does not run while this reference is used.
    let given = unsafe { &mut *exchange };
    given.gpr = case.gpr;
    given.flags = case.flags;
    given.fs_base = case.fs_base;
    given.gs_base = case.gs_base;
    given.target = cases.region.slot(case.slot);
    given.components = areas.components;
    given.image[..case.image.len()].copy_from_slice(&case.image);
    given.area[..areas.len].fill(0);
    // SAFETY: the case's code works on its own memory; what else it does ends in a signal, which is
    // caught.
    let signal = unsafe {
        SIGNAL = None;
        enter_case();
        SIGNAL
    };
    // SAFETY: the case is over.
    let exchange = unsafe { &*exchange };
    Ok(Outcome {
        gpr: exchange.gpr,
        flags: exchange.flags,
        fs_base: exchange.fs_base,
        gs_base: exchange.gs_base,
        signal: signal.unwrap_or_default(),
        area: exchange.area[..areas.len].to_vec(),
        changes: changes(&contents, &arena.read()),
    })
}

fn catch_signals() -> Result<()> {
    const STACK: usize = 256 << 10;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    let stack = map(0, STACK, libc::PROT_READ | libc::PROT_WRITE, flags, -1)?;
    let stack = libc::stack_t {
        ss_sp: stack as *mut _,
        ss_flags: 0,
        ss_size: STACK,
    };
    // SAFETY: the stack is never freed; the handler has the signature that SA_SIGINFO asks for.
    unsafe {
        ensure!(
            libc::sigaltstack(&stack, std::ptr::null_mut()) == 0,
            "no stack for signals"
        );
        for number in [
            libc::SIGSEGV,
            libc::SIGBUS,
            libc::SIGILL,
            libc::SIGFPE,
            libc::SIGTRAP,
        ] {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle_signal as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            ensure!(
                libc::sigaction(number, &action, std::ptr::null_mut()) == 0,
                "no handler for signal {number}"
            );
        }
    }
    Ok(())
}

/// Notes the registers at a signal and lets the case end.
///
/// # Safety
/// Called by `handle_signal` with what the kernel gave it.
pub unsafe extern "C" fn note_signal(
    number: i32,
    info: &libc::siginfo_t,
    context: &mut libc::ucontext_t,
) {
    const ORDER: [i32; 16] = [
        libc::REG_RAX,
        libc::REG_RCX,
        libc::REG_RDX,
        libc::REG_RBX,
        libc::REG_RSP,
        libc::REG_RBP,
        libc::REG_RSI,
        libc::REG_RDI,
        libc::REG_R8,
        libc::REG_R9,
        libc::REG_R10,
        libc::REG_R11,
        libc::REG_R12,
        libc::REG_R13,
        libc::REG_R14,
        libc::REG_R15,
    ];
    let registers = &mut context.uc_mcontext.gregs;
    let exchange = &raw mut EXCHANGE;
    // SAFETY: the case that raised the signal does not run; its thread is this one.
    let exchange = unsafe { &mut *exchange };
    for (value, index) in exchange.gpr.iter_mut().zip(ORDER) {
        *value = registers[index as usize] as u64;
    }
    exchange.flags = registers[libc::REG_EFL as usize] as u64;
    let state = context.uc_mcontext.fpregs.cast::<u8>();
    if !state.is_null() {
        // SAFETY: the frame holds an area in the standard form, whose length is in its reserved part.
        unsafe {
            let len = state.add(480).cast::<u32>().read_unaligned() as usize;
            std::ptr::copy_nonoverlapping(state, exchange.area.as_mut_ptr(), len.min(AREA));
        }
    }
    // SAFETY: the kernel sets the address for all signals that are caught here.
    let address = unsafe { info.si_addr() } as u64;
    let signal = Signal {
        number: number as u64,
        code: info.si_code as u64,
        address,
        trap: registers[libc::REG_TRAPNO as usize] as u64,
        error: registers[libc::REG_ERR as usize] as u64,
        rip: registers[libc::REG_RIP as usize] as u64,
    };
    // SAFETY: as above.
    unsafe { SIGNAL = Some(signal) };
    registers[libc::REG_RIP as usize] = leave_signal as *const () as i64;
    registers[libc::REG_RSP as usize] = exchange.own_stack() as i64;
    registers[libc::REG_EFL as usize] = 0x202;
}
