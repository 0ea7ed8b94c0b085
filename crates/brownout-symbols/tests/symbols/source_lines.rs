//! Programs compiled in all common ways. Function, file and line must be exact in each.

use std::path::Path;

use crate::compile::{Program, line_of};
use brownout_symbols::{Probe, SourceFrame, Symbolizer};

const C: &str = "pool.c";
const CXX: &str = "pool.cc";
const RUST: &str = "pool.rs";

fn frames(symbolizer: &mut Symbolizer, program: &Program, probe: Probe) -> Vec<SourceFrame> {
    let module = symbolizer.add_module(&program.path, program.build_id().as_ref());
    symbolizer.frames(module, probe).to_vec()
}

/// `(function, line, inlined)` of each frame.
fn summary(frames: &[SourceFrame]) -> Vec<(Option<&str>, Option<u32>, bool)> {
    frames
        .iter()
        .map(|f| (f.function.as_deref(), f.line, f.inlined))
        .collect()
}

/// Checks the frames that every build with full debug information must give.
fn assert_full(symbolizer: &mut Symbolizer, program: &Program) {
    let inner = frames(symbolizer, program, program.instruction("in_store"));
    assert_eq!(
        summary(&inner),
        [
            (Some("store"), Some(line_of(C, "in_store")), true),
            (Some("insert"), Some(line_of(C, "in_insert")), true),
            (Some("transact"), Some(line_of(C, "in_transact")), false),
        ]
    );
    assert!(inner[0].file.as_ref().unwrap().ends_with(C));
    assert_eq!(inner[0].module, program.path);
    assert_eq!(inner[0].offset, program.address("in_store"));

    let after = frames(symbolizer, program, program.instruction("after_call"));
    let after_line = line_of(C, "after_call");
    assert_eq!(summary(&after), [(Some("twice"), Some(after_line), false)]);

    let call = frames(symbolizer, program, program.return_address("after_call"));
    let call_line = line_of(C, "first_call");
    assert_eq!(summary(&call), [(Some("twice"), Some(call_line), false)]);
    assert_eq!(call[0].offset, program.address("after_call"));

    assert!(
        symbolizer.problems().is_empty(),
        "{:?}",
        symbolizer.problems()
    );
}

#[test]
fn dwarf_4_and_5_at_each_optimisation_level() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        for level in ["-O0", "-O2"] {
            let program = Program::compile(C, &[version, level]);
            assert_full(&mut Symbolizer::new(), &program);
        }
    }
}

#[test]
fn position_independent_and_fixed_programs() {
    for kind in ["-static-pie", "-pie", "-no-pie", "-static"] {
        let program = Program::compile(C, &["-g", kind, "-fPIE"]);
        assert_full(&mut Symbolizer::new(), &program);
    }
}

#[test]
fn compressed_sections() {
    for option in ["-gz=zlib", "-gz=zlib-gnu"] {
        let program = Program::compile(C, &["-gdwarf-5", option]);
        assert_full(&mut Symbolizer::new(), &program);
    }
}

#[test]
fn zstd_compressed_sections() {
    let program = Program::compile(C, &["-gdwarf-5"]);
    program.tool("objcopy", &["--compress-debug-sections=zstd"]);
    assert_full(&mut Symbolizer::new(), &program);
}

#[test]
fn split_units_in_dwo_files() {
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let program = Program::compile(C, &[version, "-gsplit-dwarf"]);
        assert!(program.dwo_files() > 0);
        assert_full(&mut Symbolizer::new(), &program);
    }
}

#[test]
fn split_units_in_a_package() {
    let program = Program::compile(C, &["-gdwarf-4", "-gsplit-dwarf"]);
    program.package_dwo_files();
    assert_eq!(program.dwo_files(), 0);
    assert_full(&mut Symbolizer::new(), &program);
}

/// The dwp of binutils in Debian 12 supports only DWARF 4; rustc packs version 5 itself.
#[test]
fn rust_names_and_split_units_in_a_package() {
    for version in ["-Cdwarf-version=4", "-Cdwarf-version=5"] {
        let options = [
            version,
            "--edition=2024",
            "-g",
            "-O",
            "-Csplit-debuginfo=packed",
        ];
        let program = Program::compile(RUST, &options);
        assert!(program.path.with_extension("dwp").exists());
        let mut symbolizer = Symbolizer::new();
        let found = frames(&mut symbolizer, &program, program.instruction("in_method"));
        let method_line = Some(line_of(RUST, "in_method"));
        let outer_line = Some(line_of(RUST, "in_transact"));
        assert_eq!(
            summary(&found),
            [
                (Some("pool::Map<T>::insert"), method_line, true),
                (Some("pool::pool::transact"), outer_line, false),
            ]
        );
    }
}

#[test]
fn debug_information_shared_through_dwz() {
    let program = Program::compile(C, &["-gdwarf-4"]);
    program.factor_out_with_dwz();
    assert_full(&mut Symbolizer::new(), &program);
}

#[test]
fn missing_split_units_leave_lines_and_outer_names() {
    let program = Program::compile(C, &["-gdwarf-5", "-O0", "-gsplit-dwarf"]);
    program.remove_dwo_files();
    let found = frames(
        &mut Symbolizer::new(),
        &program,
        program.instruction("in_store"),
    );
    let line = line_of(C, "in_store");
    assert_eq!(summary(&found), [(Some("transact"), Some(line), false)]);
}

#[test]
fn a_debug_file_by_build_id() {
    let program = Program::compile(C, &["-gdwarf-5", "-O2"]);
    let installed = program.install_debug_file();
    let mut symbolizer = Symbolizer::with_debug_directories(vec![installed]);
    assert_full(&mut symbolizer, &program);
}

#[test]
fn a_debug_file_by_debug_link() {
    let program = Program::compile(C, &["-gdwarf-5", "-O2", "-Wl,--build-id=none"]);
    program.split_debug_file_beside();
    assert_full(&mut Symbolizer::with_debug_directories(vec![]), &program);
}

#[test]
fn a_debug_link_to_a_file_of_another_build_is_not_followed() {
    let program = Program::compile(C, &["-gdwarf-5", "-O2", "-Wl,--build-id=none"]);
    let debug_file = program.split_debug_file_beside();
    let other = Program::compile(C, &["-gdwarf-5", "-O0", "-Wl,--build-id=none"]);
    std::fs::copy(&other.path, debug_file).unwrap();
    let found = frames(
        &mut Symbolizer::with_debug_directories(vec![]),
        &program,
        program.instruction("in_store"),
    );
    assert_eq!(found[0].line, None);
}

#[test]
fn without_debug_information_the_symbol_and_offset() {
    let program = Program::compile(C, &["-O2"]);
    program.tool("strip", &["--strip-debug", "-N", "in_store"]);
    let found = frames(
        &mut Symbolizer::new(),
        &program,
        program.instruction("in_store"),
    );
    let offset = program.address("in_store") - program.address("transact");
    assert_eq!(summary(&found), [(Some("transact"), None, false)]);
    assert_eq!(found[0].function_offset, Some(offset));
    assert_eq!(
        found[0].to_string(),
        format!("transact+{offset:#x} ({})", program.path.display())
    );
}

#[test]
fn a_stripped_library_still_has_its_dynamic_symbols() {
    let library = Program::compile(C, &["-O2", "-shared", "-fPIC"]);
    library.tool("strip", &[]);
    let found = frames(
        &mut Symbolizer::new(),
        &library,
        library.instruction("twice"),
    );
    assert_eq!(found[0].function.as_deref(), Some("twice"));
    assert_eq!(found[0].function_offset, Some(0));
}

#[test]
fn without_symbols_the_module_and_offset() {
    let program = Program::compile(C, &["-O2"]);
    program.tool("strip", &[]);
    let found = frames(
        &mut Symbolizer::new(),
        &program,
        program.instruction("in_store"),
    );
    assert_eq!(summary(&found), [(None, None, false)]);
    assert_eq!(
        found[0].to_string(),
        format!(
            "{}+{:#x}",
            program.path.display(),
            program.address("in_store")
        )
    );
}

#[test]
fn cpp_names_are_demangled_with_and_without_debug_information() {
    let program = Program::compile(CXX, &["-g", "-O2"]);
    let probe = program.instruction("in_method");
    let found = frames(&mut Symbolizer::new(), &program, probe);
    let name = "pool::Map<int>::insert(int)";
    let line = line_of(CXX, "in_method");
    assert_eq!(summary(&found), [(Some(name), Some(line), false)]);

    program.tool("strip", &["--strip-debug", "-N", "in_method"]);
    let found = frames(&mut Symbolizer::new(), &program, probe);
    assert_eq!(summary(&found), [(Some(name), None, false)]);
}

#[test]
fn an_offset_outside_every_segment_is_not_mapped() {
    let program = Program::compile(C, &["-g"]);
    let mut symbolizer = Symbolizer::new();
    let far = brownout_symbols::FileOffset(1 << 40);
    let found = frames(&mut symbolizer, &program, Probe::Instruction(far));
    assert_eq!(summary(&found), [(None, None, false)]);
    assert_eq!(found[0].offset, 1 << 40);
}

#[test]
fn adding_a_module_twice_gives_the_same_id() {
    let mut symbolizer = Symbolizer::new();
    let path = Path::new("/bin/true");
    assert_eq!(
        symbolizer.add_module(path, None),
        symbolizer.add_module(path, None)
    );
}
