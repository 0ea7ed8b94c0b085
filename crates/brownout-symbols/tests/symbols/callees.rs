//! The function that a call instruction calls, which may differ from the function that runs.

use brownout_symbols::{FileOffset, Probe, Symbolizer};

use crate::compile::Program;

fn callee(program: &Program, label: &str) -> Option<String> {
    let Probe::ReturnAddress(offset) = program.return_address(label) else {
        unreachable!("a return address was asked for");
    };
    let mut symbolizer = Symbolizer::new();
    let module = symbolizer.add_module(&program.path, program.build_id().as_ref());
    symbolizer
        .callee(module, offset)
        .map(|name| name.to_string())
}

#[test]
fn imported_functions_are_found_through_stubs_and_slots() {
    for options in [
        &["-O0", "-fPIE", "-pie"][..],
        &["-O2", "-fno-pie", "-no-pie"],
        &["-O2", "-fcf-protection=full", "-Wl,-z,now"],
    ] {
        let program = Program::compile("calls.c", options);
        assert_eq!(callee(&program, "after_stub").as_deref(), Some("abs"));
        assert_eq!(callee(&program, "after_slot").as_deref(), Some("labs"));
    }
}

#[test]
fn functions_of_the_same_file_are_found_by_symbol() {
    let program = Program::compile("calls.c", &["-O0"]);
    assert_eq!(callee(&program, "after_local").as_deref(), Some("local"));
    let program = Program::compile("calls.c", &["-O2", "-no-pie"]);
    assert_eq!(callee(&program, "after_local").as_deref(), Some("local"));
}

#[test]
fn calls_through_pointers_have_no_callee() {
    let program = Program::compile("calls.c", &["-O0"]);
    assert_eq!(callee(&program, "after_pointer"), None);
    assert_eq!(callee(&program, "main"), None);
}

#[test]
fn an_offset_outside_the_file_has_no_callee() {
    let program = Program::compile("calls.c", &["-O0"]);
    let mut symbolizer = Symbolizer::new();
    let module = symbolizer.add_module(&program.path, program.build_id().as_ref());
    for offset in [0, 1, 5, u64::MAX] {
        assert_eq!(symbolizer.callee(module, FileOffset(offset)), None);
    }
}
