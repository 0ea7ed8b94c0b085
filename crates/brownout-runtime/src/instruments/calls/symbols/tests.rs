//! Functions are found in files as compilers and linkers make them, and damaged files do no harm.

use super::*;
use brownout_ring::watch;
use std::boxed::Box;
use std::os::unix::fs::FileExt;
use std::process::Command;

/// A table of functions, one argument each.
fn table(names: &[&str]) -> WatchedFunctions {
    let mut bytes = Vec::new();
    for name in names {
        bytes.extend(watch::head(1, watch::Order::Unknown, name).expect("a usable name"));
        bytes.extend(name.as_bytes());
    }
    WatchedFunctions::of(Box::leak(bytes.into_boxed_slice()))
}

/// The file offset and length of the first executable segment, and the distance to its addresses.
fn code_of(bytes: &[u8]) -> (u64, u64, u64) {
    let (at, count) = (u64_at(bytes, 32) as usize, usize::from(bytes[56]));
    let headers = bytes[at..].chunks(PROGRAM_HEADER as usize).take(count);
    for header in headers {
        if u32_at(header, 0) == PT_LOAD && header[4] & 1 != 0 {
            let offset = u64_at(header, 8);
            return (offset, u64_at(header, 32), u64_at(header, 16) - offset);
        }
    }
    panic!("no code");
}

/// Compiles C code, and finds `names` in it as if it were mapped at 0x10000000.
fn found_in(code: &str, options: &[&str], names: &[&str]) -> Vec<Found> {
    let dir = tempfile::tempdir().unwrap();
    let (source, built) = (dir.path().join("code.c"), dir.path().join("code"));
    std::fs::write(&source, code).unwrap();
    let status = Command::new("cc")
        .args(options)
        .arg(&source)
        .arg("-o")
        .arg(&built)
        .status()
        .unwrap();
    assert!(status.success());
    let (offset, len, _) = code_of(&std::fs::read(&built).unwrap());
    let mapping = MappedCode {
        start: 0x1000_0000,
        len: len.next_multiple_of(PAGE),
        offset: offset & !(PAGE - 1),
    };
    let file = std::fs::File::open(&built).unwrap();
    let read = |buffer: &mut [u8], at: u64| file.read_at(buffer, at).unwrap_or(0);
    find(&read, &mapping, &table(names))
}

const CODE: &str = "
    __attribute__((noinline)) static int hidden(int x) { return x * 3; }
    int shown(int x) { return hidden(x) + 1; }
    int longer_shown(int x) { return x; }
    int data = 1;
    int main(void) { return shown(data) + longer_shown(data); }
";

fn functions(found: &[Found]) -> Vec<u32> {
    let mut functions: Vec<u32> = found.iter().map(|found| found.function).collect();
    functions.sort_unstable();
    functions.dedup();
    functions
}

#[test]
fn exported_and_local_functions_are_found_where_they_are_mapped() {
    let names = ["hidden", "shown", "longer_shown", "absent", "data"];
    let found = found_in(CODE, &["-O1", "-g"], &names);
    assert_eq!(functions(&found), [0, 1, 2]);
    for found in found {
        assert!((0x1000_0000..0x1000_2000).contains(&found.address));
    }
}

#[test]
fn a_name_that_is_the_end_of_another_is_told_from_it() {
    let found = found_in(
        CODE,
        &["-O1", "-static", "-Wl,-O2"],
        &["shown", "longer_shown"],
    );
    let addresses = |function| -> Vec<u64> {
        let of = found.iter().filter(|found| found.function == function);
        of.map(|found| found.address).collect()
    };
    assert_eq!(addresses(0).len(), 1);
    assert_eq!(addresses(1).len(), 1);
    assert_ne!(addresses(0), addresses(1));
}

#[test]
fn a_stripped_library_still_tells_what_it_exports() {
    let options = ["-O1", "-shared", "-fPIC", "-s"];
    let found = found_in(CODE, &options, &["hidden", "shown"]);
    assert_eq!(functions(&found), [1]);
}

#[test]
fn files_that_are_cut_off_or_no_elf_hold_nothing() {
    let bytes = std::fs::read("/proc/self/exe").unwrap();
    let mapping = MappedCode {
        start: 0x1000_0000,
        len: 1 << 40,
        offset: code_of(&bytes).0 & !(PAGE - 1),
    };
    let table = table(&["main"]);
    let all = |buffer: &mut [u8], at: u64| read_of(&bytes, buffer, at);
    assert!(!find(&all, &mapping, &table).is_empty());
    for len in (0..4096).step_by(61).chain([bytes.len() / 2]) {
        let cut = &bytes[..len];
        let read = |buffer: &mut [u8], at: u64| read_of(cut, buffer, at);
        find(&read, &mapping, &table);
    }
    let damaged: Vec<u8> = bytes.iter().map(|byte| byte ^ 0x55).collect();
    let mut headers = bytes[..64].to_vec();
    headers.extend(&damaged[64..]);
    let read = |buffer: &mut [u8], at: u64| read_of(&headers, buffer, at);
    assert_eq!(find(&read, &mapping, &table), []);
}

fn read_of(bytes: &[u8], buffer: &mut [u8], at: u64) -> usize {
    let rest = usize::try_from(at).ok().and_then(|at| bytes.get(at..));
    let rest = rest.unwrap_or_default();
    let len = rest.len().min(buffer.len());
    buffer[..len].copy_from_slice(&rest[..len]);
    len
}
