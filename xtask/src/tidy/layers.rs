//! Which parts of the code may name which: the translator no instrument, only `arch/` the instructions and registers of
//! one architecture, and only `sys` and `arch` libc.

use super::rust_code::{code_of, identifiers};

/// Folder of the instruments.
const INSTRUMENTS: &str = "crates/brownout-runtime/src/instruments/";

/// The file with the registry of instruments.
pub const REGISTRY: &str = "crates/brownout-runtime/src/instruments/registry.rs";

/// What the translator may use of the wire: its descriptor, threads and processes. The rest is what instruments are asked for, and
/// they offer it as hooks.
const WIRE_OF_TRANSLATOR: &[&str] = &[
    "announce_process",
    "attach",
    "descriptor",
    "enter_process",
    "forget_spares",
    "process",
    "set_alone",
    "Birth",
    "Head",
    "Producer",
];

/// Names that only files under an `arch/` folder may use. The names of flush instructions are not among them: they
/// are words of the trace and of the model.
const X86_NAMES: &[&str] = &[
    "iced_x86",
    "x86",
    "x86_64",
    "naked_asm",
    "global_asm",
    "asm",
    "_xgetbv",
    "__cpuid",
    "__cpuid_count",
    "rax",
    "rbx",
    "rcx",
    "rdx",
    "rsi",
    "rdi",
    "rbp",
    "rsp",
    "rip",
    "rflags",
    "eflags",
    "RAX",
    "RBX",
    "RCX",
    "RDX",
    "RSI",
    "RDI",
    "RBP",
    "RSP",
    "RIP",
    "xmm",
    "ymm",
    "zmm",
    "gregs",
    "app_gs",
    "fs_base",
    "gs_base",
    "r8",
    "r9",
    "r10",
    "r11",
    "r12",
    "r13",
    "r14",
    "r15",
    "R8",
    "R9",
    "R10",
    "R11",
    "R12",
    "R13",
    "R14",
    "R15",
    "xsave",
    "xsave_area",
    "vsyscall",
    "is_canonical",
    "next_ip",
    "arch_prctl",
    "modify_ldt",
    "X86_64",
    "EM_X86_64",
    "MACHINE_X86_64",
    // System calls that only x86-64 has.
    "__NR_access",
    "__NR_arch_prctl",
    "__NR_creat",
    "__NR_dup2",
    "__NR_epoll_wait",
    "__NR_fork",
    "__NR_lstat",
    "__NR_mkdir",
    "__NR_modify_ldt",
    "__NR_open",
    "__NR_pause",
    "__NR_pipe",
    "__NR_poll",
    "__NR_readlink",
    "__NR_rename",
    "__NR_rmdir",
    "__NR_select",
    "__NR_stat",
    "__NR_time",
    "__NR_unlink",
    "__NR_vfork",
];

/// How the names of the compiler's intrinsics for x86-64 begin.
const INTRINSICS: [&str; 3] = ["_mm_", "_mm256_", "_mm512_"];

/// The names of the instruments: their modules.
pub fn instrument_names<'a>(files: impl IntoIterator<Item = &'a String>) -> Vec<String> {
    let mut names: Vec<String> = files
        .into_iter()
        .filter_map(|path| path.strip_prefix(INSTRUMENTS))
        .filter_map(|below| below.split(['/', '.']).next())
        .filter(|name| *name != "mod" && *name != "registry")
        .map(str::to_owned)
        .collect();
    names.sort();
    names.dedup();
    names
}

/// The instruments in the registry, by the names of their lines.
pub fn registered(registry: &str) -> Vec<String> {
    let code = code_of(registry);
    let lines = code.lines().skip_while(|line| *line != "registry! {");
    let lines = lines.skip(1).take_while(|line| *line != "}");
    lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, _)| name.trim().to_owned())
        .collect()
}

/// What is wrong with the names that one file of Rust code uses.
pub fn check(path: &str, text: &str, instruments: &[String]) -> Vec<String> {
    let mut problems = Vec::new();
    let code = code_of(text);
    for (number, line) in (1..).zip(code.lines()) {
        if is_translator(path)
            && let Some(name) = named_instrument(line, instruments)
        {
            problems.push(format!(
                "line {number}: the translator names the instrument `{name}`"
            ));
        }
        if is_translator(path)
            && let Some(name) = option_of_instrument(line)
        {
            problems.push(format!(
                "line {number}: `wire::{name}` is for instruments; give them a hook"
            ));
        }
        if is_neutral(path)
            && !is_test(path)
            && let Some((name, _)) = identifiers(line).find(|(word, _)| is_x86(word))
        {
            problems.push(format!(
                "line {number}: `{name}` is x86-64's and belongs under `arch/`"
            ));
        }
        if is_layered(path) && !is_system_layer(path) && names_libc(line) {
            problems.push(format!(
                "line {number}: libc is for `sys`; use rustix, or wrap it there"
            ));
        }
    }
    problems
}

fn is_x86(word: &str) -> bool {
    X86_NAMES.contains(&word) || INTRINSICS.iter().any(|prefix| word.starts_with(prefix))
}

fn is_test(path: &str) -> bool {
    path.contains("/tests/") || path.ends_with("/tests.rs")
}

fn is_translator(path: &str) -> bool {
    let Some(below) = path.strip_prefix("crates/brownout-runtime/src/") else {
        return false;
    };
    let mut folders = below.split('/');
    match folders.next() {
        Some("translator") => true,
        Some("arch") => folders.nth(1) == Some("translator"),
        _ => false,
    }
}

/// Whether a file must compile for any architecture.
fn is_neutral(path: &str) -> bool {
    let is_source = path.starts_with("crates/") && path.contains("/src/");
    is_source && !path.contains("/arch/")
}

/// Whether a file makes system calls through rustix and the `sys` module of its crate.
fn is_layered(path: &str) -> bool {
    is_neutral(path) || path.starts_with("xtask/src/")
}

/// Whether a file wraps system calls for the rest of its crate.
fn is_system_layer(path: &str) -> bool {
    path.ends_with("/sys.rs") || path.contains("/sys/")
}

fn names_libc(line: &str) -> bool {
    identifiers(line).any(|(word, after)| word == "libc" && after.starts_with("::"))
}

/// An instrument that the code names: the folder of all of them, a path through one, its area in a context or its code, or a
/// name with its own in it.
fn named_instrument<'a>(line: &str, instruments: &'a [String]) -> Option<&'a str> {
    const PERSISTENT_MEMORY: &str = "pm";
    let all = identifiers(line).any(|(word, _)| word == "instruments");
    if all {
        return Some("instruments");
    }
    let is_pm = |word: &str| {
        word.split('_').any(|part| part == PERSISTENT_MEMORY)
            || word
                .strip_prefix("Pm")
                .is_some_and(|rest| rest.starts_with(char::is_uppercase))
    };
    instruments.iter().map(String::as_str).find(|name| {
        identifiers(line).any(|(word, after)| {
            let is_path = after.starts_with("::");
            word == *name && (is_path || is_field(line, word, after))
                || *name == PERSISTENT_MEMORY && is_pm(word)
        })
    })
}

/// What a line uses of the wire that is no business of the translator.
fn option_of_instrument(line: &str) -> Option<&str> {
    let wire = identifiers(line).filter(|(word, after)| *word == "wire" && after.starts_with("::"));
    let named = wire.flat_map(|(_, after)| {
        // `wire::name`, or the names in `wire::{…}`.
        let names = identifiers(after).map(|(word, _)| word);
        let count = if after.starts_with("::{") {
            usize::MAX
        } else {
            1
        };
        names.take(count)
    });
    named
        .filter(|name| *name != "self")
        .find(|name| !WIRE_OF_TRANSLATOR.contains(name))
}

/// Whether a word of a line is a field: `.word`, and not a method.
fn is_field(line: &str, word: &str, after: &str) -> bool {
    let before = &line[..line.len() - after.len() - word.len()];
    before.ends_with('.') && !after.starts_with('(')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(path: &str, text: &str) -> usize {
        check(path, text, &["calls".to_owned(), "pm".to_owned()]).len()
    }

    #[test]
    fn the_translator_names_no_instrument() {
        for translator in ["translator/dispatch.rs", "arch/x86_64/translator/gate.rs"] {
            let path = format!("crates/brownout-runtime/src/{translator}");
            assert_eq!(problems(&path, "use crate::instruments::pm;\n"), 1);
            assert_eq!(problems(&path, "fn f() { pm::fault() }\n"), 1);
            assert_eq!(problems(&path, "let x = context.to_pm_begin;\n"), 1);
            assert_eq!(problems(&path, "Exit::PmDone => calls::visit(),\n"), 1);
            assert_eq!(problems(&path, "context.areas.calls.open = 0;\n"), 1);
            assert_eq!(problems(&path, "slot!(areas.calls.open)\n"), 1);
            assert_eq!(problems(&path, "statistics.calls()\n"), 0);
            assert_eq!(
                problems(&path, "// pm::fault, instruments\nfn calls() {}\n"),
                0
            );
        }
        let test = "crates/brownout-runtime/src/translator/syscall/tests.rs";
        assert_eq!(problems(test, "use crate::instruments::pm;\n"), 1);
        let instrument = "crates/brownout-runtime/src/instruments/pm/mod.rs";
        assert_eq!(problems(instrument, "use crate::instruments::pm;\n"), 0);
    }

    #[test]
    fn the_translator_asks_the_wire_for_no_option_of_an_instrument() {
        let path = "crates/brownout-runtime/src/translator/start.rs";
        assert_eq!(problems(path, "if wire::schedule().is_some() {}\n"), 1);
        assert_eq!(problems(path, "use crate::wire::{Head, wants_fuzz};\n"), 1);
        assert_eq!(problems(path, "use crate::wire::{Birth, Head};\n"), 0);
        assert_eq!(problems(path, "let fd = crate::wire::descriptor();\n"), 0);
        let instrument = "crates/brownout-runtime/src/instruments/pm/mod.rs";
        assert_eq!(problems(instrument, "wire::schedule();\n"), 0);
    }

    #[test]
    fn an_architecture_is_named_only_under_arch() {
        let text = "use iced_x86::Decoder;\nfn f(rip: u64) {}\n";
        assert_eq!(
            problems("crates/brownout-runtime/src/translator/load.rs", text),
            2
        );
        assert_eq!(problems("crates/brownout-engine/src/drain.rs", text), 2);
        for line in ["core::arch::x86_64::f();\n", "_mm_sfence();\n"] {
            assert_eq!(problems("crates/brownout-engine/src/drain.rs", line), 1);
        }
        assert_eq!(
            problems("crates/brownout-runtime/src/arch/x86_64/encoder.rs", text),
            0
        );
        assert_eq!(
            problems("crates/brownout-runtime/src/unwind/tests.rs", text),
            0
        );
        assert_eq!(
            problems("crates/brownout/src/a.rs", "fn strip() {} // rip\n"),
            0
        );
    }

    #[test]
    fn libc_is_named_only_where_system_calls_are_wrapped() {
        let text = "fn f() { libc::getpid() }\n";
        let recovery = |name: &str| format!("crates/brownout-recovery/src/{name}");
        assert_eq!(problems(&recovery("tracer/mod.rs"), text), 1);
        for layer in ["sys.rs", "sys/signals.rs", "arch/x86_64.rs"] {
            assert_eq!(problems(&recovery(layer), text), 0, "{layer}");
        }
        assert_eq!(problems(&recovery("tracer/mod.rs"), "// libc::f\n"), 0);
        assert_eq!(problems("xtask/src/shell.rs", text), 1);
        assert_eq!(problems("xtask/src/sys.rs", text), 0);
    }

    #[test]
    fn registered_instruments_are_the_lines_of_the_registry() {
        let text = "macro_rules! registry {\n    ($x:ident) => {};\n}\n\nregistry! {\n    // note: a remark\n    patch: patch::A,\n    \
                    pm: pm::B,\n}\nconst C: u32 = 1;\n";
        assert_eq!(registered(text), ["patch", "pm"]);
    }

    #[test]
    fn instruments_are_the_modules_of_their_folder() {
        let files = [
            "mod.rs",
            "registry.rs",
            "pm/mod.rs",
            "pm/site.rs",
            "coverage.rs",
        ]
        .map(|name| format!("{INSTRUMENTS}{name}"));
        assert_eq!(instrument_names(&files), ["coverage", "pm"]);
    }
}
