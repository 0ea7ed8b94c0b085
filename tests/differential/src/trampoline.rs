//! Enters a case with all registers set, and leaves it with all of them saved.
//!
//! A case ends by jumping to [`leave_case`], or with a signal, whose handler saves the registers and resumes at
//! `leave_signal`. Both restore this program's own FS base first.

use std::arch::global_asm;
use std::mem::offset_of;

/// What goes in and what comes out.
#[repr(C, align(64))]
pub struct Exchange {
    pub image: [u8; AREA],
    pub area: [u8; AREA],
    pub gpr: [u64; 16],
    pub flags: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    pub target: u64,
    /// Components of `image` and `area`.
    pub components: u64,
    own_stack: u64,
    own_fs_base: u64,
}

/// Room for the components that cases use, a multiple of the alignment that they need.
pub const AREA: usize = 4096;

impl Exchange {
    pub const fn new() -> Exchange {
        Exchange {
            gpr: [0; 16],
            flags: 0,
            fs_base: 0,
            gs_base: 0,
            target: 0,
            components: 0,
            own_stack: 0,
            own_fs_base: 0,
            image: [0; AREA],
            area: [0; AREA],
        }
    }

    /// The stack to go on with after a signal.
    pub fn own_stack(&self) -> u64 {
        self.own_stack
    }
}

/// The one exchange; cases run one at a time.
#[unsafe(no_mangle)]
pub static mut EXCHANGE: Exchange = Exchange::new();

unsafe extern "C" {
    /// Runs the case that [`EXCHANGE`] describes and leaves its registers there.
    pub fn enter_case();
    /// Where a case ends.
    pub fn leave_case();
    /// Where a case goes on that a signal ended.
    pub fn leave_signal();
    /// The signal handler: puts FS back and calls `note_signal`.
    pub fn handle_signal();
}

global_asm!(
    ".globl enter_case",
    "enter_case:",
    "push rbx",
    "push rbp",
    "push r12",
    "push r13",
    "push r14",
    "push r15",
    "rdfsbase rax",
    "mov [rip + EXCHANGE + {own_fs_base}], rax",
    "mov [rip + EXCHANGE + {own_stack}], rsp",
    "mov eax, [rip + EXCHANGE + {components}]",
    "xor edx, edx",
    "xrstor64 [rip + EXCHANGE + {image}]",
    "mov rax, [rip + EXCHANGE + {fs_base}]",
    "wrfsbase rax",
    "mov rax, [rip + EXCHANGE + {gs_base}]",
    "wrgsbase rax",
    "push qword ptr [rip + EXCHANGE + {flags}]",
    "popfq",
    "mov rax, [rip + EXCHANGE + {gpr} + 0]",
    "mov rcx, [rip + EXCHANGE + {gpr} + 8]",
    "mov rdx, [rip + EXCHANGE + {gpr} + 16]",
    "mov rbx, [rip + EXCHANGE + {gpr} + 24]",
    "mov rsp, [rip + EXCHANGE + {gpr} + 32]",
    "mov rbp, [rip + EXCHANGE + {gpr} + 40]",
    "mov rsi, [rip + EXCHANGE + {gpr} + 48]",
    "mov rdi, [rip + EXCHANGE + {gpr} + 56]",
    "mov r8, [rip + EXCHANGE + {gpr} + 64]",
    "mov r9, [rip + EXCHANGE + {gpr} + 72]",
    "mov r10, [rip + EXCHANGE + {gpr} + 80]",
    "mov r11, [rip + EXCHANGE + {gpr} + 88]",
    "mov r12, [rip + EXCHANGE + {gpr} + 96]",
    "mov r13, [rip + EXCHANGE + {gpr} + 104]",
    "mov r14, [rip + EXCHANGE + {gpr} + 112]",
    "mov r15, [rip + EXCHANGE + {gpr} + 120]",
    "jmp qword ptr [rip + EXCHANGE + {target}]",
    ".globl leave_case",
    "leave_case:",
    "mov [rip + EXCHANGE + {gpr} + 0], rax",
    "mov [rip + EXCHANGE + {gpr} + 8], rcx",
    "mov [rip + EXCHANGE + {gpr} + 16], rdx",
    "mov [rip + EXCHANGE + {gpr} + 24], rbx",
    "mov [rip + EXCHANGE + {gpr} + 32], rsp",
    "mov [rip + EXCHANGE + {gpr} + 40], rbp",
    "mov [rip + EXCHANGE + {gpr} + 48], rsi",
    "mov [rip + EXCHANGE + {gpr} + 56], rdi",
    "mov [rip + EXCHANGE + {gpr} + 64], r8",
    "mov [rip + EXCHANGE + {gpr} + 72], r9",
    "mov [rip + EXCHANGE + {gpr} + 80], r10",
    "mov [rip + EXCHANGE + {gpr} + 88], r11",
    "mov [rip + EXCHANGE + {gpr} + 96], r12",
    "mov [rip + EXCHANGE + {gpr} + 104], r13",
    "mov [rip + EXCHANGE + {gpr} + 112], r14",
    "mov [rip + EXCHANGE + {gpr} + 120], r15",
    "mov rsp, [rip + EXCHANGE + {own_stack}]",
    "pushfq",
    "pop qword ptr [rip + EXCHANGE + {flags}]",
    "rdfsbase rax",
    "mov [rip + EXCHANGE + {fs_base}], rax",
    "rdgsbase rax",
    "mov [rip + EXCHANGE + {gs_base}], rax",
    "mov eax, [rip + EXCHANGE + {components}]",
    "xor edx, edx",
    "xsave64 [rip + EXCHANGE + {area}]",
    ".globl leave_signal",
    "leave_signal:",
    "mov rax, [rip + EXCHANGE + {own_fs_base}]",
    "wrfsbase rax",
    "push 0x202",
    "popfq",
    "fninit",
    "push 0x1f80",
    "ldmxcsr [rsp]",
    "pop rax",
    "pop r15",
    "pop r14",
    "pop r13",
    "pop r12",
    "pop rbp",
    "pop rbx",
    "ret",
    ".globl handle_signal",
    "handle_signal:",
    "rdfsbase rax",
    "mov [rip + EXCHANGE + {fs_base}], rax",
    "rdgsbase rax",
    "mov [rip + EXCHANGE + {gs_base}], rax",
    "mov rax, [rip + EXCHANGE + {own_fs_base}]",
    "wrfsbase rax",
    "jmp {note_signal}",
    gpr = const offset_of!(Exchange, gpr),
    flags = const offset_of!(Exchange, flags),
    fs_base = const offset_of!(Exchange, fs_base),
    gs_base = const offset_of!(Exchange, gs_base),
    target = const offset_of!(Exchange, target),
    components = const offset_of!(Exchange, components),
    own_stack = const offset_of!(Exchange, own_stack),
    own_fs_base = const offset_of!(Exchange, own_fs_base),
    image = const offset_of!(Exchange, image),
    area = const offset_of!(Exchange, area),
    note_signal = sym crate::execute::note_signal,
);
