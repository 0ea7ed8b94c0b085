//! The code that is translated for the goldens.

use View::{Checked, Entered, Plain, Returned, Touched, TouchedLoads};

/// Below 2 GiB, in reach of the cache.
pub const NEAR: u64 = 0x2000_0000;
/// Out of reach of the cache.
pub const HIGH: u64 = 0x6f00_0000_0000;

/// How the code of a case is looked at.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum View {
    Plain,
    /// Its first instruction has touched persistent memory.
    Touched,
    /// The same, and loads are recorded.
    TouchedLoads,
    /// It may change at any time.
    Checked,
    /// Its first instruction is that of a watched function.
    Entered,
    /// Calls of watched functions have returned to its first instruction.
    Returned,
}

/// One piece of code: what it shows, where it lies, how it is looked at, its bytes.
pub type Case = (&'static str, u64, View, &'static [u8]);

/// One file each under `tests/`. Cases end with `ud2` unless they end themselves.
pub const FILES: &[(&str, &[Case])] = &[
    (
        "branch",
        &[
            (
                "jump: its target follows",
                NEAR,
                Plain,
                b"\xeb\x02\xcc\xcc\x90\x0f\x0b",
            ),
            ("jcc", NEAR, Plain, b"\x74\x02\x0f\x0b\x90\x0f\x0b"),
            (
                "jcc backwards, to what is translated",
                NEAR,
                Plain,
                b"\x90\x75\xfd\x0f\x0b",
            ),
            (
                "loop hops over a jump",
                NEAR,
                Plain,
                b"\xe2\x02\x0f\x0b\x0f\x0b",
            ),
            ("jecxz", NEAR, Plain, b"\x67\xe3\x02\x0f\x0b\x0f\x0b"),
            ("call", NEAR, Plain, b"\xe8\x02\x00\x00\x00\x0f\x0b\xc3"),
            (
                "call in high code",
                HIGH,
                Plain,
                b"\xe8\x02\x00\x00\x00\x0f\x0b\xc3",
            ),
            (
                "call on a persistent stack",
                NEAR,
                Touched,
                b"\xe8\x02\x00\x00\x00\x0f\x0b\xc3",
            ),
            ("call rax", NEAR, Plain, b"\xff\xd0\x0f\x0b"),
            ("call r12", NEAR, Plain, b"\x41\xff\xd4\x0f\x0b"),
            ("call rax in high code", HIGH, Plain, b"\xff\xd0\x0f\x0b"),
            (
                "call [rip]",
                NEAR,
                Plain,
                b"\xff\x15\x10\x00\x00\x00\x0f\x0b",
            ),
            (
                "call [rip] in high code",
                HIGH,
                Plain,
                b"\xff\x15\x10\x00\x00\x00\x0f\x0b",
            ),
            (
                "call rax on a persistent stack",
                NEAR,
                Touched,
                b"\xff\xd0\x0f\x0b",
            ),
            (
                "call [rbx] through persistent memory, loads recorded",
                NEAR,
                TouchedLoads,
                b"\xff\x13\x0f\x0b",
            ),
            ("jmp rax", NEAR, Plain, b"\xff\xe0"),
            (
                "jmp [rax*8+table]",
                NEAR,
                Plain,
                b"\xff\x24\xc5\x00\x10\x00\x20",
            ),
            ("jmp fs:[rax]", NEAR, Plain, b"\x64\xff\x20"),
            ("jmp gs:[rax]", NEAR, Plain, b"\x65\xff\x20"),
            ("jmp rax in high code", HIGH, Plain, b"\xff\xe0"),
            ("ret", NEAR, Plain, b"\xc3"),
            ("ret n", NEAR, Plain, b"\xc2\x10\x00"),
            ("ret in high code", HIGH, Plain, b"\xc3"),
            ("ret on a persistent stack", NEAR, Touched, b"\xc2\x10\x00"),
            (
                "ret on a persistent stack, loads recorded",
                NEAR,
                TouchedLoads,
                b"\xc2\x10\x00",
            ),
            ("far return: not supported", NEAR, Plain, b"\xcb"),
        ],
    ),
    (
        "copy",
        &[
            (
                "plain code is copied",
                NEAR,
                Plain,
                b"\x48\x8b\x44\x24\x08\xf3\xa4\x0f\x0b",
            ),
            (
                "rip-relative, in reach",
                NEAR,
                Plain,
                b"\x01\x05\x10\x00\x00\x00\x0f\x0b",
            ),
            (
                "rip-relative, out of reach",
                HIGH,
                Plain,
                b"\x01\x05\x10\x00\x00\x00\x0f\x0b",
            ),
            (
                "rip-relative lea, out of reach",
                HIGH,
                Plain,
                b"\x48\x8d\x05\x10\x00\x00\x00\x0f\x0b",
            ),
            (
                "rip-relative cmpxchg16b, out of reach",
                HIGH,
                Plain,
                b"\x48\x0f\xc7\x0d\x10\x00\x00\x00\x0f\x0b",
            ),
            (
                "rip-relative with ah, out of reach",
                HIGH,
                Plain,
                b"\x88\x25\x10\x00\x00\x00\x0f\x0b",
            ),
            (
                "gs operand",
                NEAR,
                Plain,
                b"\x65\x48\x8b\x04\x25\x28\x00\x00\x00\x0f\x0b",
            ),
            (
                "gs operand with base and index",
                NEAR,
                Plain,
                b"\x65\x89\x4c\x83\x10\x0f\x0b",
            ),
            (
                "lea ignores gs",
                NEAR,
                Plain,
                b"\x65\x48\x8d\x04\x0b\x0f\x0b",
            ),
            (
                "fs operand is copied",
                NEAR,
                Plain,
                b"\x64\x48\x8b\x04\x25\x28\x00\x00\x00\x0f\x0b",
            ),
            (
                "rdgsbase",
                NEAR,
                Plain,
                b"\xf3\x48\x0f\xae\xc8\xf3\x41\x0f\xae\xc9\x0f\x0b",
            ),
            (
                "wrgsbase",
                NEAR,
                Plain,
                b"\xf3\x48\x0f\xae\xd8\xf3\x41\x0f\xae\xd9\x0f\x0b",
            ),
            ("string with gs: not supported", NEAR, Plain, b"\x65\xac"),
            ("load of gs: not supported", NEAR, Plain, b"\x8e\xe8"),
            ("syscall", NEAR, Plain, b"\x0f\x05\x0f\x0b"),
            ("syscall in high code", HIGH, Plain, b"\x0f\x05\x0f\x0b"),
            (
                "xbegin aborts",
                NEAR,
                Plain,
                b"\xc7\xf8\x02\x00\x00\x00\x0f\x0b\x90\x0f\x0b",
            ),
            ("int3", NEAR, Plain, b"\xcc\x0f\x0b"),
            ("undecodable", NEAR, Plain, b"\x0f\xff\xff\x06"),
        ],
    ),
    (
        "pm",
        &[
            ("store", NEAR, Touched, b"\x48\x89\x43\x08\x0f\x0b"),
            (
                "store of rcx through rax",
                NEAR,
                Touched,
                b"\x48\x89\x08\x0f\x0b",
            ),
            (
                "store with a 32-bit address",
                NEAR,
                Touched,
                b"\x67\x89\x44\x8b\x10\x0f\x0b",
            ),
            ("store through fs", NEAR, Touched, b"\x64\x89\x03\x0f\x0b"),
            (
                "store, rip-relative",
                HIGH,
                Touched,
                b"\x89\x05\x10\x00\x00\x00\x0f\x0b",
            ),
            ("read, modify, write", NEAR, Touched, b"\x11\x03\x0f\x0b"),
            (
                "cmpxchg: whether it stored",
                NEAR,
                Touched,
                b"\xf0\x48\x0f\xb1\x0b\x0f\x0b",
            ),
            (
                "masked by k3",
                NEAR,
                Touched,
                b"\x62\xf1\x7e\x4b\x7f\x03\x0f\x0b",
            ),
            (
                "compressed by k1",
                NEAR,
                Touched,
                b"\x62\xf2\x7d\x49\x8b\x03\x0f\x0b",
            ),
            (
                "masked by the signs of ymm9",
                NEAR,
                Touched,
                b"\xc4\xe2\x35\x2e\x03\x0f\x0b",
            ),
            ("maskmovdqu", NEAR, Touched, b"\x66\x0f\xf7\xc1\x0f\x0b"),
            ("maskmovq", NEAR, Touched, b"\x0f\xf7\xc1\x0f\x0b"),
            ("movnti", NEAR, Touched, b"\x48\x0f\xc3\x03\x0f\x0b"),
            ("movntdq", NEAR, Touched, b"\x66\x44\x0f\xe7\x03\x0f\x0b"),
            (
                "vmovntdq, 512 bits",
                NEAR,
                Touched,
                b"\x62\x61\x7d\x48\xe7\x03\x0f\x0b",
            ),
            ("movdir64b", NEAR, Touched, b"\x66\x0f\x38\xf8\x03\x0f\x0b"),
            ("xsave64", NEAR, Touched, b"\x48\x0f\xae\x23\x0f\x0b"),
            ("rep movsb", NEAR, Touched, b"\xf3\xa4\x0f\x0b"),
            ("push", NEAR, Touched, b"\x50\x0f\x0b"),
            ("pop to memory", NEAR, Touched, b"\x8f\x03\x0f\x0b"),
            (
                "bts with a bit number in a register",
                NEAR,
                Touched,
                b"\xf0\x48\x0f\xab\x03\x0f\x0b",
            ),
            (
                "scatter",
                NEAR,
                Touched,
                b"\x62\x72\x7d\x42\xa0\x04\x8b\x0f\x0b",
            ),
            (
                "load, loads recorded",
                NEAR,
                TouchedLoads,
                b"\x48\x8b\x03\x0f\x0b",
            ),
            (
                "gather by k2, loads recorded",
                NEAR,
                TouchedLoads,
                b"\x62\xf2\x7d\x4a\x90\x04\x8b\x0f\x0b",
            ),
            (
                "gather by ymm2, loads recorded",
                NEAR,
                TouchedLoads,
                b"\xc4\xe2\x6d\x90\x04\x8b\x0f\x0b",
            ),
            ("sfence", NEAR, Plain, b"\x0f\xae\xf8\x0f\x0b"),
            ("mfence", NEAR, Plain, b"\x0f\xae\xf0\x0f\x0b"),
            ("clwb", NEAR, Plain, b"\x66\x0f\xae\x73\x40\x0f\x0b"),
            (
                "clflushopt, rip-relative",
                HIGH,
                Plain,
                b"\x66\x0f\xae\x3d\x10\x00\x00\x00\x0f\x0b",
            ),
            ("locked", NEAR, Plain, b"\xf0\xff\x03\x0f\x0b"),
            ("xchg is locked", NEAR, Plain, b"\x87\x03\x0f\x0b"),
            (
                "locked, rip-relative, out of reach",
                HIGH,
                Plain,
                b"\xf0\xff\x05\x10\x00\x00\x00\x0f\x0b",
            ),
        ],
    ),
    (
        "checked",
        &[
            ("a short block", NEAR, Checked, b"\x48\xff\xc0\x0f\x0b"),
            (
                "a block ends after a store",
                NEAR,
                Checked,
                b"\x48\x89\x03\x48\xff\xc0\x0f\x0b",
            ),
            (
                "eight bytes and more",
                NEAR,
                Checked,
                b"\x48\xb8\x11\x22\x33\x44\x55\x66\x77\x88\xc3",
            ),
            ("in high code", HIGH, Checked, b"\x48\xff\xc0\x0f\x0b"),
        ],
    ),
    (
        "calls",
        &[
            ("a watched function", NEAR, Entered, b"\x55\x0f\x0b"),
            (
                "a watched function in high code",
                HIGH,
                Entered,
                b"\x55\x0f\x0b",
            ),
            (
                "where watched functions have returned to",
                NEAR,
                Returned,
                b"\x85\xc0\x0f\x0b",
            ),
        ],
    ),
];
