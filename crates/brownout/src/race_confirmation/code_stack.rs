//! Where code is, independently of where it is mapped: what identifies a site in another run of the program.

use brownout_engine::CodeLocation;
use brownout_trace::{AppPc, Definitions, Event, ProcessId};

/// The file and offset of an instruction; `None` if it is in no file.
pub fn code_location(
    process: ProcessId,
    pc: AppPc,
    definitions: &Definitions,
) -> Option<CodeLocation> {
    let module = definitions.module_at(process, pc)?;
    let inside = pc.0.wrapping_sub(module.addr.0);
    Some(CodeLocation {
        path: module.path.clone(),
        offset: inside.wrapping_add(module.file_offset),
    })
}

/// The instruction of an event and the return addresses of its calling context, innermost first, up to the first that is in no
/// file. Empty if the instruction is in none.
pub fn code_stack(event: &Event<'_>, definitions: &Definitions) -> Vec<CodeLocation> {
    let process = definitions.process(event.process);
    let frames = process
        .into_iter()
        .flat_map(|process| process.context_frames(event.context));
    std::iter::once(event.pc)
        .chain(frames)
        .map_while(|pc| code_location(event.process, pc, definitions))
        .collect()
}
