//! What the translator and the instruments make of fixed code, compared with the disassembly in `tests/`.
//!
//! `BLESS=1 cargo test -p brownout-runtime goldens` writes what is there now; read the difference before
//! it is committed. Addresses in the cache appear as labels, slots of the context by their names.

mod cases;
mod listing;

use crate::hooks;
use crate::sys;
use crate::sys::{is_err, linux};
use crate::translator::space::SPACE;
use crate::translator::translate::Translator;
use cases::View::{Checked, Entered, Returned, Touched, TouchedLoads};
use cases::{Case, FILES, NEAR};
use listing::Listing;
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

/// The cache lies at a fixed address, so there can be one translator: all is done in one test.
#[test]
fn translations_are_as_in_the_goldens() {
    hooks::create();
    let mut translator = Translator::new();
    let bless = std::env::var_os("BLESS").is_some();
    let mut different = Vec::new();
    for (file, cases) in FILES {
        let mut text = String::new();
        for case in *cases {
            text += &translation(&mut translator, case);
        }
        let path = format!(
            "{}/src/arch/x86_64/instruments/tests/{file}.txt",
            env!("CARGO_MANIFEST_DIR")
        );
        if bless {
            std::fs::write(&path, &text).expect("goldens can be written");
            continue;
        }
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        different.extend(changed_sections(&golden, &text));
    }
    text_of_entries(&mut translator, &mut different, bless);
    assert!(
        different.is_empty(),
        "translations differ from the goldens (BLESS=1 accepts them):\n{}",
        different.join("\n")
    );
}

/// Translates one case on a page of its own.
fn translation(translator: &mut Translator, case: &Case) -> String {
    let &(title, place, view, bytes) = case;
    let pc = place + 0x1000 * page_of(title);
    place_code(pc, bytes, view == Checked);
    if view == Touched {
        translator.instrumented.pm.stores(pc);
    }
    if matches!(view, Touched | TouchedLoads) {
        translator.instrumented.pm.touch(pc);
    }
    match view {
        Entered => translator.instrumented.calls.enter_at(pc, 7),
        Returned => assert!(translator.instrumented.calls.return_at(pc)),
        _ => {}
    }
    translator
        .instrumented
        .pm
        .record_loads(view == TouchedLoads);
    align_cache(translator);
    let at = translator.block(pc).expect("the code is executable");
    translator.instrumented.pm.record_loads(false);
    let fragment = translator.cache.fragment_at(at).expect("it was translated");
    format!("== {title}\n{}\n", Listing::new(fragment, pc & !0xfff))
}

/// A page for the code of a case, so that addresses in the goldens depend on nothing but its title.
fn page_of(title: &str) -> u64 {
    let hash = title.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    hash >> 32 & 0x3fff
}

/// Starts on a new cache line: padding depends on where in one the code lies.
fn align_cache(translator: &mut Translator) {
    let next = translator.cache.emitter().here();
    translator.cache.skip_to((next + 63) & !63);
}

/// The entries in front of blocks: for direct calls, indirect calls and jumps.
fn text_of_entries(translator: &mut Translator, different: &mut Vec<String>, bless: bool) {
    let mut text = String::new();
    let (called, jumped) = (NEAR + 0x800_0000, NEAR + 0x800_1000);
    for pc in [called, jumped] {
        place_code(pc, b"\x90\x0f\x0b", false);
    }
    align_cache(translator);
    let at = translator.call_entry(called).expect("executable");
    let fragment = translator.cache.fragment_at(at).expect("translated");
    text += &format!(
        "== entry of direct calls\n{}\n",
        Listing::new(fragment, called)
    );
    let at = translator.jump_entry(jumped).expect("executable");
    let fragment = translator.cache.fragment_at(at).expect("translated");
    text += &format!(
        "== entries of indirect calls and jumps\n{}\n",
        Listing::new(fragment, jumped)
    );
    let path = format!(
        "{}/src/arch/x86_64/instruments/tests/entries.txt",
        env!("CARGO_MANIFEST_DIR")
    );
    if bless {
        std::fs::write(&path, &text).expect("goldens can be written");
    } else {
        let golden = std::fs::read_to_string(&path).unwrap_or_default();
        different.extend(changed_sections(&golden, &text));
    }
}

/// Maps a page with the code and lets the translator know it.
fn place_code(pc: u64, bytes: &[u8], checked: bool) {
    let flags = linux::MAP_PRIVATE | linux::MAP_ANONYMOUS | linux::MAP_FIXED_NOREPLACE;
    let prot = linux::PROT_READ | linux::PROT_WRITE;
    // SAFETY: NOREPLACE leaves anything that is there alone; the page is then this test's.
    unsafe {
        let raw = sys::mmap(pc, 0x1000, prot, flags, -1, 0);
        assert!(!is_err(raw), "no room at {pc:#x}");
        core::ptr::copy_nonoverlapping(bytes.as_ptr(), pc as *mut u8, bytes.len());
    }
    let mut space = SPACE.lock();
    if checked {
        space.add_executable_stack(pc, pc + 0x1000);
    } else {
        let _ = space.add_executable(pc, pc + 0x1000, false);
    }
}

/// The sections of `text` that are not the same in `golden`, and titles that are gone.
fn changed_sections(golden: &str, text: &str) -> Vec<String> {
    let split = |text: &str| -> Vec<String> {
        text.split("== ").skip(1).map(ToString::to_string).collect()
    };
    let (old, new) = (split(golden), split(text));
    let title = |section: &str| section.lines().next().unwrap_or_default().to_string();
    let mut changed: Vec<String> = new
        .iter()
        .filter(|section| !old.contains(section))
        .cloned()
        .collect();
    let gone = old
        .iter()
        .filter(|section| new.iter().all(|other| title(other) != title(section)));
    changed.extend(gone.map(|section| format!("no longer there: {}", title(section))));
    changed
}
