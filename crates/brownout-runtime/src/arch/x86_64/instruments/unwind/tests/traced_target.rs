//! A program under test, run by ptrace from one event to the next: its memory and its mappings.

use super::mappings::{Mappings, hex};
use crate::instruments::unwind::{CodeMap, Memory, Registers};
use crate::translator::space::ModuleAt;
use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{c_int, c_long, c_void};
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::FileExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

const PTRACE_TRACEME: c_int = 0;
const PTRACE_CONT: c_int = 7;
const PTRACE_GETREGS: c_int = 12;
const PTRACE_SETOPTIONS: c_int = 0x4200;
const PTRACE_O_TRACECLONE: usize = 8;
const PTRACE_O_EXITKILL: usize = 0x10_0000;
const PTRACE_SETREGS: c_int = 13;
const SIGSEGV: c_int = 11;
const SIGTRAP: c_int = 5;
const SIGSTOP: c_int = 19;
/// Children of this thread only, and their threads too.
const WNOTHREAD_WALL: c_int = 0x6000_0000;

unsafe extern "C" {
    fn ptrace(request: c_int, pid: c_int, addr: *mut c_void, data: *mut c_void) -> c_long;
    fn waitpid(pid: c_int, status: *mut c_int, options: c_int) -> c_int;
}

fn trace(request: c_int, pid: c_int, data: *mut c_void) -> c_long {
    // SAFETY: the requests made here write nothing but what `data` points to, which is as large as the
    // request wants.
    unsafe { ptrace(request, pid, std::ptr::null_mut(), data) }
}

/// The kernel's `user_regs_struct`.
#[repr(C)]
#[derive(Default)]
struct UserRegs {
    r15_to_r12: [u64; 4],
    rbp: u64,
    rbx: u64,
    r11_to_r8: [u64; 4],
    rax: u64,
    rcx: u64,
    rdx: u64,
    rsi: u64,
    rdi: u64,
    orig_rax: u64,
    rip: u64,
    cs: u64,
    eflags: u64,
    rsp: u64,
    rest: [u64; 7],
}

impl UserRegs {
    fn registers(&self) -> Registers {
        let [r15, r14, r13, r12] = self.r15_to_r12;
        let [r11, r10, r9, r8] = self.r11_to_r8;
        let low = [
            self.rax, self.rcx, self.rdx, self.rbx, self.rsp, self.rbp, self.rsi, self.rdi,
        ];
        let high = [r8, r9, r10, r11, r12, r13, r14, r15];
        let mut gpr = [0; 16];
        gpr[..8].copy_from_slice(&low);
        gpr[8..].copy_from_slice(&high);
        Registers {
            pc: self.rip - 1,
            gpr,
        }
    }
}

pub struct TracedTarget {
    /// The target, until it has exited.
    child: Option<Child>,
    pid: c_int,
    stopped: c_int,
    lines: BufReader<ChildStdout>,
}

/// The store that makes an event, `movl $1, 0xb0b0`.
const STORE: [u8; 11] = [0xc7, 0x04, 0x25, 0xb0, 0xb0, 0, 0, 1, 0, 0, 0];

/// A thread about to make the store.
pub struct StoreEvent {
    /// Which thread.
    pub thread: c_int,
    pub registers: Registers,
    /// The return addresses that the target expects, innermost first.
    pub expected: Vec<u64>,
    /// Whether that is all.
    pub whole: bool,
    pub world: World,
}

impl TracedTarget {
    pub fn start(program: &Path) -> Self {
        let mut command = Command::new(program);
        command.stdout(Stdio::piped());
        // SAFETY: between fork and exec only a system call is made.
        unsafe {
            command.pre_exec(|| {
                trace(PTRACE_TRACEME, 0, std::ptr::null_mut());
                Ok(())
            });
        }
        let mut child = command.spawn().expect("the target starts");
        let pid = c_int::try_from(child.id()).expect("a process id");
        let lines = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let stopped = unsafe { waitpid(pid, &raw mut status, WNOTHREAD_WALL) };
        assert_eq!(stopped, pid, "the target stops at its exec");
        let options = PTRACE_O_TRACECLONE | PTRACE_O_EXITKILL;
        assert_eq!(
            trace(PTRACE_SETOPTIONS, pid, options as *mut c_void),
            0,
            "ptrace works"
        );
        Self {
            child: Some(child),
            pid,
            stopped,
            lines,
        }
    }

    /// Lets the target run to its next event; `None` once it has exited, with success.
    pub fn next_event(&mut self) -> Option<StoreEvent> {
        let mut signal = 0;
        loop {
            trace(PTRACE_CONT, self.stopped, signal as usize as *mut c_void);
            let mut status = 0;
            // SAFETY: `status` outlives the call.
            let thread = unsafe { waitpid(-1, &raw mut status, WNOTHREAD_WALL) };
            assert!(thread > 0, "the target is still there");
            self.stopped = thread;
            signal = 0;
            match (status & 0x7f, status >> 8) {
                (0x7f, SIGSEGV) => match self.event(thread) {
                    Some(event) => return Some(event),
                    None => signal = SIGSEGV,
                },
                // The first stop of a new thread, and that of the thread which made it.
                (0x7f, SIGSTOP) => {}
                (0x7f, stop) if stop & 0xff == SIGTRAP => {}
                (0x7f, other) => signal = other,
                (0, 0) if thread == self.pid => {
                    self.child = None;
                    return None;
                }
                (0, 0) => {}
                _ => panic!("the target ended with wait status {status:#x}"),
            }
        }
    }

    /// The event of a thread that faulted, if the fault is one; the thread will continue after it.
    fn event(&mut self, thread: c_int) -> Option<StoreEvent> {
        let mut regs = UserRegs::default();
        assert_eq!(trace(PTRACE_GETREGS, thread, (&raw mut regs).cast()), 0);
        let registers = regs.registers();
        let world = World::of(self.pid);
        if world.slice(regs.rip, STORE.len())? != STORE {
            return None;
        }
        regs.rip += STORE.len() as u64;
        assert_eq!(trace(PTRACE_SETREGS, thread, (&raw mut regs).cast()), 0);
        let mut line = String::new();
        self.lines
            .read_line(&mut line)
            .expect("the target prints what it expects");
        let whole = line.ends_with("whole\n");
        let expected = line
            .trim_end_matches("whole\n")
            .split_whitespace()
            .map(hex)
            .collect();
        Some(StoreEvent {
            thread,
            registers,
            expected,
            whole,
            world,
        })
    }
}

impl Drop for TracedTarget {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Memory and mappings of a stopped process.
pub struct World {
    mem: File,
    slices: RefCell<HashMap<(u64, usize), &'static [u8]>>,
    mappings: Mappings,
}

impl World {
    fn of(pid: c_int) -> Self {
        let mappings = Mappings::of(&pid.to_string());
        let mem = File::open(format!("/proc/{pid}/mem")).expect("memory");
        Self {
            mem,
            slices: RefCell::default(),
            mappings,
        }
    }
}

impl Memory for World {
    fn read_u64(&self, addr: u64) -> Option<u64> {
        let mut word = [0; 8];
        self.mem.read_exact_at(&mut word, addr).ok()?;
        Some(u64::from_le_bytes(word))
    }

    fn slice(&self, addr: u64, len: usize) -> Option<&[u8]> {
        if let Some(slice) = self.slices.borrow().get(&(addr, len)) {
            return Some(slice);
        }
        let mut bytes = vec![0; len];
        self.mem.read_exact_at(&mut bytes, addr).ok()?;
        let slice: &'static [u8] = bytes.leak();
        self.slices.borrow_mut().insert((addr, len), slice);
        Some(slice)
    }
}

impl CodeMap for World {
    fn epoch(&self) -> u32 {
        self.mappings.epoch()
    }
    fn module_at(&self, pc: u64) -> Option<ModuleAt> {
        self.mappings.module_at(pc)
    }
    fn is_code(&self, pc: u64) -> bool {
        self.mappings.is_code(pc)
    }
}
