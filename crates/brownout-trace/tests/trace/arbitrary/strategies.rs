//! What arbitrary events are made of.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use proptest::collection::vec;
use proptest::prelude::*;

use super::kind::Kind;

/// Mostly small numbers and close addresses, as in real programs, but sometimes any number.
pub fn number() -> BoxedStrategy<u64> {
    prop_oneof![
        4 => 0..4u64,
        4 => (0..64u64).prop_map(|line| 0x7f00_0000_0000 + line * 24),
        1 => any::<u64>(),
        1 => (0..64u32).prop_map(|shift| 1 << shift),
    ]
    .boxed()
}

pub fn small() -> BoxedStrategy<u32> {
    prop_oneof![9 => 0..3u32, 1 => any::<u32>()].boxed()
}

fn bytes() -> BoxedStrategy<Vec<u8>> {
    prop_oneof![
        4 => any::<[u8; 8]>().prop_map(Vec::from),
        4 => vec(any::<u8>(), 0..70),
        1 => vec(any::<u8>(), 4000..9000),
    ]
    .boxed()
}

pub fn text() -> BoxedStrategy<Vec<u8>> {
    vec(
        prop_oneof![Just(b'/'), Just(b'.'), Just(0), any::<u8>()],
        0..20,
    )
    .boxed()
}

pub fn path() -> BoxedStrategy<PathBuf> {
    let path = text().prop_map(|bytes| OsString::from_vec(bytes).into());
    path.boxed()
}

/// Accesses to memory.
fn frequent() -> BoxedStrategy<Kind> {
    prop_oneof![
        4 => (number(), bytes(), any::<u8>(), any::<bool>(), any::<bool>()).prop_map(
            |(addr, bytes, flavor, locked, string)| {
                Kind::Store { addr, bytes, flavor, locked, string }
            }
        ),
        1 => (number(), bytes()).prop_map(|(addr, bytes)| Kind::Load { addr, bytes }),
        2 => (number(), any::<u8>(), any::<bool>())
            .prop_map(|(addr, kind, volatile)| Kind::Flush { addr, kind, volatile }),
        2 => any::<u8>().prop_map(|kind| Kind::Fence { kind }),
    ]
    .boxed()
}

/// System calls on files.
fn files() -> BoxedStrategy<Kind> {
    prop_oneof![
        (number(), bytes(), any::<u16>()).prop_map(|(addr, bytes, syscall)| Kind::KernelWrite {
            addr,
            bytes,
            syscall
        }),
        (small(), number(), bytes(), any::<u16>()).prop_map(|(file, offset, bytes, syscall)| {
            Kind::FileWrite {
                file,
                offset,
                bytes,
                syscall,
            }
        }),
        (small(), number()).prop_map(|(file, len)| Kind::FileResize { file, len }),
        (number(), number(), any::<bool>()).prop_map(|(addr, len, asynchronous)| Kind::Msync {
            addr,
            len,
            asynchronous
        }),
        (any::<u8>(), small(), number(), number()).prop_map(|(kind, file, offset, len)| {
            Kind::FileSync {
                kind,
                file,
                offset,
                len,
            }
        }),
        (small(), number(), bytes()).prop_map(|(file, offset, bytes)| Kind::Content {
            file,
            offset,
            bytes
        }),
    ]
    .boxed()
}

/// Changes of mappings.
fn mappings() -> BoxedStrategy<Kind> {
    prop_oneof![
        (
            number(),
            number(),
            small(),
            number(),
            number(),
            any::<u32>(),
            any::<bool>()
        )
            .prop_map(|(addr, len, file, offset, file_len, prot, dax)| {
                Kind::Map {
                    addr,
                    len,
                    file,
                    offset,
                    file_len,
                    prot,
                    dax,
                }
            }),
        (number(), number()).prop_map(|(addr, len)| Kind::Unmap { addr, len }),
        (number(), number(), number(), number()).prop_map(|(old, old_len, new, new_len)| {
            Kind::Remap {
                old,
                old_len,
                new,
                new_len,
            }
        }),
        (number(), number(), any::<bool>()).prop_map(|(addr, len, writable)| Kind::Protect {
            addr,
            len,
            writable
        }),
    ]
    .boxed()
}

/// Modules, threads, processes and notes.
fn processes() -> BoxedStrategy<Kind> {
    prop_oneof![
        (number(), number(), number(), path(), text()).prop_map(
            |(addr, len, file_offset, path, build_id)| {
                Kind::Module {
                    addr,
                    len,
                    file_offset,
                    path,
                    build_id,
                }
            }
        ),
        proptest::option::of((any::<u32>(), number()))
            .prop_map(|parent| Kind::ThreadStart { parent }),
        Just(Kind::ThreadExit),
        any::<u32>().prop_map(|joined| Kind::ThreadJoin { joined }),
        (number(), 1..=8u8, any::<bool>()).prop_map(|(word, size, shared)| Kind::LockAcquire {
            word,
            size,
            shared
        }),
        (number(), any::<bool>(), any::<bool>()).prop_map(|(word, shared, exchanged)| {
            Kind::LockRelease {
                word,
                shared,
                exchanged,
            }
        }),
        (
            any::<u32>(),
            proptest::option::of(small()),
            any::<bool>(),
            path(),
            text()
        )
            .prop_map(|(pid, parent, fork, exe, args)| Kind::ProcessStart {
                pid,
                parent,
                fork,
                exe,
                args
            }),
        (any::<bool>(), any::<i32>())
            .prop_map(|(signaled, number)| Kind::ProcessExit { signaled, number }),
        "\\PC{0,20}".prop_map(|text| Kind::Note { text }),
    ]
    .boxed()
}

/// Calls of watched functions.
fn calls() -> BoxedStrategy<Kind> {
    prop_oneof![
        (small(), vec(number(), 0..=6)).prop_map(|(function, args)| Kind::Call { function, args }),
        (small(), proptest::option::of([number(), number()]))
            .prop_map(|(function, value)| Kind::Return { function, value }),
    ]
    .boxed()
}

pub fn kind() -> BoxedStrategy<Kind> {
    prop_oneof![10 => frequent(), 2 => files(), 2 => mappings(), 2 => processes(), 2 => calls()]
        .boxed()
}
