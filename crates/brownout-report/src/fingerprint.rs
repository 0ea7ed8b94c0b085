//! Fingerprints: when two findings are the same.
//!
//! A finding is identified by its rule and its symbolised stacks. A frame contributes its function, its file name
//! without directories and the text of its source line, regardless of white space. Where a file has several lines with
//! the same text, it also contributes which of them it is. Columns, line numbers, directories and addresses are
//! ignored, so that another checkout, load address or order of events does not change the fingerprint, nor does an edit of
//! other lines. Also ignored is [library code](Frame::is_library): which `memcpy` the C library chooses depends on the
//! processor, and the names of its frames depend on whether its debug symbols are installed.
//!
//! A frame whose source file cannot be read contributes its line number instead of the text. For such findings there is
//! a second, *lineless* fingerprint without the numbers: it survives edits above the finding, which a baseline needs, but
//! two findings in one function have the same.
//!
//! Of crash findings, the stores that cause them are ignored, which depend on how long was searched for them, and so is the stack of a
//! recovery that did not end. Also ignored are loads of recovery with the stores that they can see: they explain how it got there.
//!
//! A race is identified by its store: which loads a run shows depends on the order of its threads.
//!
//! A frame without a line contributes its function and module name. Only if a stack has no line at all, its
//! offsets into modules are included, because nothing else would distinguish its findings. Such fingerprints
//! are valid for one build of the module.

use std::collections::BTreeSet;
use std::fmt;
use std::hash::Hasher;

use serde::{Deserialize, Serialize};
use siphasher::sip::SipHasher13;

use crate::stack::{base_name, role};
use crate::{FindingId, Frame, Sources, Stack};

/// A fingerprint that is the same for findings that differ only in line numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinelessId(String);

impl fmt::Display for LinelessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

/// The fingerprint with the text of source lines, where it is known.
pub(crate) fn by_text(rule: &str, stacks: &[Stack], sources: &Sources) -> FindingId {
    FindingId(hash(rule, stacks, Grade::Text(sources)))
}

/// The fingerprint with line numbers.
pub(crate) fn exact(rule: &str, stacks: &[Stack]) -> FindingId {
    FindingId(hash(rule, stacks, Grade::Exact))
}

pub(crate) fn lineless(rule: &str, stacks: &[Stack]) -> LinelessId {
    LinelessId(hash(rule, stacks, Grade::Lineless))
}

/// The fingerprint of one of several findings that have the fingerprint `shared`.
pub(crate) fn with(shared: &FindingId, distinction: &BTreeSet<String>) -> FindingId {
    let mut hasher = SipHasher13::new();
    write_text(&mut hasher, shared.as_str());
    for text in distinction {
        write_text(&mut hasher, text);
    }
    FindingId(format!("{:016x}", hasher.finish()))
}

#[derive(Clone, Copy)]
enum Grade<'a> {
    Text(&'a Sources),
    Exact,
    Lineless,
}

fn hash(rule: &str, stacks: &[Stack], grade: Grade<'_>) -> String {
    let mut hasher = SipHasher13::new();
    write_text(&mut hasher, rule);
    let is_crash = stacks
        .first()
        .is_some_and(|stack| stack.role == role::FAILURE_POINT);
    let explains = |stack: &Stack| stack.is_of_source() || is_crash && stack.is_of_open_read();
    let identifying = stacks.iter().filter(|stack| !explains(stack));
    for stack in identifying.filter(|stack| identifies(rule, stack)) {
        let frames = relevant_frames(stack);
        hasher.write_u64(frames.len() as u64);
        write_text(&mut hasher, &stack.role);
        let has_lines = frames.iter().any(|frame| frame.line.is_some());
        for frame in frames {
            write_frame(&mut hasher, frame, grade, has_lines);
        }
    }
    format!("{:016x}", hasher.finish())
}

/// Whether the stack is the same in each run: the search for causes may find other stores, and a recovery that does not end is
/// interrupted anywhere.
fn identifies(rule: &str, stack: &Stack) -> bool {
    // Which loads a run shows depends on its schedule.
    if rule == "persistency-race" {
        return stack.role == role::STORE;
    }
    let interrupted_anywhere = rule == "recovery-hung" && stack.role == role::RECOVERY;
    !stack.is_of_cause() && !interrupted_anywhere
}

/// The frames that are not library code, or all frames if there are no others.
fn relevant_frames(stack: &Stack) -> Vec<&Frame> {
    let is_program = |frame: &&Frame| !frame.is_library();
    let program: Vec<&Frame> = stack.frames.iter().filter(is_program).collect();
    if program.is_empty() {
        return stack.frames.iter().collect();
    }
    program
}

fn write_frame(hasher: &mut impl Hasher, frame: &Frame, grade: Grade<'_>, has_lines: bool) {
    write_text(hasher, frame.function.as_deref().map_or("", without_clone));
    let exact = !matches!(grade, Grade::Lineless);
    match (&frame.file, frame.line) {
        (Some(file), Some(line)) => {
            write_text(hasher, base_name(file));
            if let Grade::Text(sources) = grade
                && let Some(text) = sources.line_text(file, line)
            {
                write_text(hasher, &text.words);
                return hasher.write_u32(text.earlier);
            }
            hasher.write_u64(if exact { line.into() } else { 0 });
        }
        _ => {
            write_text(hasher, frame.module_name());
            // Code outside of files has a bare address, which differs in each run.
            let included = exact && !has_lines && !frame.module.starts_with('[');
            hasher.write_u64(if included { frame.offset } else { 0 });
        }
    }
}

/// Writes the length first, so that different lists of strings never look the same.
fn write_text(hasher: &mut impl Hasher, text: &str) {
    hasher.write_u64(text.len() as u64);
    hasher.write(text.as_bytes());
}

/// A function's name without the suffix that the compiler gives to clones (`f.constprop.0`, `f.cold`): whether
/// it creates clones depends on the rest of the program.
fn without_clone(function: &str) -> &str {
    const SUFFIXES: [&str; 5] = [".constprop", ".isra", ".part", ".cold", ".llvm"];
    SUFFIXES
        .iter()
        .filter_map(|suffix| function.find(suffix))
        .min()
        .map_or(function, |end| &function[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(function: &str, file: &str, line: u32) -> Frame {
        Frame {
            function: Some(function.into()),
            file: Some(file.into()),
            line: Some(line),
            column: Some(3),
            module: "/bin/program".into(),
            offset: 0x1000,
            inlined: false,
            recursive: false,
            wrapper: false,
        }
    }

    fn stack(frames: Vec<Frame>) -> Vec<Stack> {
        vec![Stack {
            role: "store".into(),
            frames,
        }]
    }

    #[test]
    fn fingerprints_are_stable_across_versions() {
        let stacks = stack(vec![frame("put", "/src/kv.c", 7)]);
        assert_eq!(exact("missing-flush", &stacks).as_str(), "56b8383ede772428");
    }

    #[test]
    fn directories_columns_addresses_and_clones_are_ignored() {
        let one = stack(vec![frame("put", "/home/a/kv.c", 7)]);
        let mut other = frame("put.constprop.0", "/home/b/kv.c", 7);
        other.column = None;
        other.offset = 0x2000;
        other.module = "/opt/program".into();
        assert_eq!(exact("r", &one), exact("r", &stack(vec![other])));
    }

    #[test]
    fn rule_role_function_file_and_line_are_included() {
        let base = stack(vec![frame("put", "kv.c", 7)]);
        let id = exact("r", &base);
        assert_ne!(id, exact("s", &base));
        assert_ne!(id, exact("r", &stack(vec![frame("get", "kv.c", 7)])));
        assert_ne!(id, exact("r", &stack(vec![frame("put", "log.c", 7)])));
        assert_ne!(id, exact("r", &stack(vec![frame("put", "kv.c", 8)])));
        let mut flush = base.clone();
        flush[0].role = "flush".into();
        assert_ne!(id, exact("r", &flush));
    }

    #[test]
    fn a_lineless_fingerprint_survives_an_edit_above_it() {
        let before = stack(vec![frame("put", "kv.c", 7)]);
        let after = stack(vec![frame("put", "kv.c", 9)]);
        assert_eq!(lineless("r", &before), lineless("r", &after));
        let elsewhere = stack(vec![frame("get", "kv.c", 7)]);
        assert_ne!(lineless("r", &before), lineless("r", &elsewhere));
    }

    #[test]
    fn frames_of_libraries_are_ignored() {
        let inside = |function: &str| Frame {
            function: Some(function.into()),
            module: "/lib/libc.so.6".into(),
            ..Frame::default()
        };
        let put = || frame("put", "kv.c", 7);
        let avx = vec![inside("__memmove_avx_unaligned"), put(), inside("start")];
        let debug = vec![frame("memcpy", "/usr/lib/gcc/x/include/x.h", 3), put()];
        assert_eq!(exact("r", &stack(avx)), exact("r", &stack(debug)));
    }

    #[test]
    fn what_differs_between_runs_of_crash_testing_is_ignored() {
        let of = |role: &str, line| Stack {
            role: role.into(),
            frames: vec![frame("put", "kv.c", line)],
        };
        let point = of(role::FAILURE_POINT, 3);
        let with = |rule, stack| exact(rule, &[point.clone(), stack]);
        let alone = exact("recovery-failed", std::slice::from_ref(&point));
        assert_eq!(with("recovery-failed", of(role::STORE_MISSING, 7)), alone);
        assert_eq!(with("recovery-failed", of(role::STORE_PRESENT, 7)), alone);
        assert_ne!(with("recovery-failed", of(role::RECOVERY, 7)), alone);
        for explaining in [
            role::LOAD,
            role::STORE_READ,
            role::STORE_NOT_READ,
            role::UNFENCED_FLUSH,
        ] {
            assert_eq!(
                with("recovery-failed", of(explaining, 7)),
                alone,
                "{explaining}"
            );
        }
        let hung = |line| with("recovery-hung", of(role::RECOVERY, line));
        assert_eq!(hung(7), hung(8));
    }

    #[test]
    fn offsets_are_included_only_if_no_line_is_known() {
        let bare = |module: &str, offset| Frame {
            module: module.into(),
            offset,
            ..Frame::default()
        };
        let of = |frames| exact("r", &stack(frames));
        assert_ne!(of(vec![bare("/bin/p", 1)]), of(vec![bare("/bin/p", 2)]));
        let start = || Frame {
            module: "/lib/libc.so.6".into(),
            ..frame("__libc_start_main", "libc-start.c", 360)
        };
        assert_ne!(
            of(vec![bare("/bin/p", 1), start()]),
            of(vec![bare("/bin/p", 2), start()])
        );
        let call = || frame("put", "kv.c", 7);
        assert_eq!(
            of(vec![bare("/opt/libcache.so", 1), call()]),
            of(vec![bare("/opt/libcache.so", 2), call()])
        );
        let libc = "/lib/libc.so.6";
        assert_ne!(of(vec![bare(libc, 1)]), of(vec![bare(libc, 2)]));
        assert_eq!(
            of(vec![bare("[unknown]", 1)]),
            of(vec![bare("[unknown]", 2)])
        );
    }

    #[test]
    fn the_text_of_the_line_counts_and_not_its_number() {
        let source = |lines: &'static str| Sources::from_fn(move |_| Ok(lines.to_owned()));
        let id = |lines, line| {
            by_text(
                "r",
                &stack(vec![frame("put", "kv.c", line)]),
                &source(lines),
            )
        };
        let before = id("a = 1;\nb = 2;\n", 2);
        assert_eq!(id("a = 1;\nnew();\n\tb  =  2;\n", 3), before);
        assert_ne!(id("a = 1;\nb = 3;\n", 2), before);
        let twice = "b = 2;\nc = 3;\nb = 2;\n";
        assert_ne!(id(twice, 1), id(twice, 3), "two bugs stay two");
        assert_eq!(id(twice, 1), before);
        let none = Sources::from_fn(|_| Err(std::io::ErrorKind::NotFound.into()));
        let stacks = stack(vec![frame("put", "kv.c", 2)]);
        assert_eq!(by_text("r", &stacks, &none), exact("r", &stacks));
    }
}
