//! The stack of a stopped thread.
//!
//! Follows the tables that compilers emit for exceptions, as the engine does for events, through signal handlers. Code
//! without tables is assumed to keep frame pointers. After a call to an address without code, unwinding continues at
//! the caller.

use gimli::{
    BaseAddresses, CfaRule, EhFrame, EhFrameHdr, Encoding, EvaluationResult, Format, LittleEndian,
    Location, RegisterRule, UnwindContext, UnwindExpression, UnwindSection, Value,
};
use rustix::process::Pid;

use super::modules::{AddressSpace, ModuleCache, UnwindTables};
use crate::RawFrame;
use crate::arch::{INSTRUCTION_POINTER, Registers, STACK_POINTER};

/// Deeper stacks are cut: infinite recursion has as many frames as fit into memory.
const DEEPEST: usize = 200;

type Reader<'a> = gimli::EndianSlice<'a, LittleEndian>;

/// The registers of a caller.
struct Caller {
    registers: Registers,
    /// It was interrupted at its instruction, rather than calling from there.
    is_exact: bool,
}

/// The stack of a thread with these registers, innermost frame first.
pub fn unwind(process: Pid, registers: Registers, cache: &mut ModuleCache) -> Vec<RawFrame> {
    let Ok(space) = AddressSpace::of(process) else {
        return Vec::new();
    };
    let mut frames = Vec::new();
    let mut registers = registers;
    let mut is_exact = true;
    while frames.len() < DEEPEST {
        let pc = registers.0[INSTRUCTION_POINTER];
        if pc == 0 && !is_exact {
            break;
        }
        frames.push(frame(&space, pc, !is_exact, cache));
        let Some(caller) = caller(&space, &registers, is_exact, cache) else {
            break;
        };
        // Each caller has a higher stack pointer; otherwise the stack is damaged.
        let is_higher = caller.registers.0[STACK_POINTER] > registers.0[STACK_POINTER];
        if !is_higher && !caller.is_exact {
            break;
        }
        (registers, is_exact) = (caller.registers, caller.is_exact);
    }
    frames
}

fn frame(space: &AddressSpace, pc: u64, is_return: bool, cache: &mut ModuleCache) -> RawFrame {
    let Some(mapping) = space.mapping_at(pc) else {
        return RawFrame {
            module: None,
            build_id: Vec::new(),
            offset: pc,
            is_return,
        };
    };
    let tables = space.tables(mapping, cache);
    RawFrame {
        module: Some(mapping.path.clone()),
        build_id: tables.map_or_else(|_| Vec::new(), |tables| tables.build_id.clone()),
        offset: pc - mapping.range.start + mapping.offset,
        is_return,
    }
}

fn caller(
    space: &AddressSpace,
    registers: &Registers,
    is_exact: bool,
    cache: &mut ModuleCache,
) -> Option<Caller> {
    let pc = registers.0[INSTRUCTION_POINTER];
    // The return address of a call that is the last instruction of a function belongs to the next function.
    let inside = if is_exact { pc } else { pc - 1 };
    if is_exact && !space.is_code(inside) {
        return returned(space, registers);
    }
    let by_tables = space.mapping_at(inside).and_then(|mapping| {
        let tables = space.tables(mapping, cache).ok()?;
        let offset = inside - mapping.range.start + mapping.offset;
        let address = tables.address_of(offset)?;
        UnwindStep {
            space,
            registers,
            tables: &tables,
        }
        .take(address)
    });
    match by_tables {
        Some(Ok(caller)) => Some(caller),
        Some(Err(StackEnd)) => None,
        None => by_frame_pointer(space, registers),
    }
}

/// A function that was called at an address without code has not executed anything yet.
fn returned(space: &AddressSpace, registers: &Registers) -> Option<Caller> {
    let registers = registers.caller_at_entry(|address| space.read(address))?;
    Some(Caller {
        registers,
        is_exact: false,
    })
}

fn by_frame_pointer(space: &AddressSpace, registers: &Registers) -> Option<Caller> {
    let registers = registers.caller_by_frame_pointer(|address| space.read(address))?;
    space
        .is_code(registers.0[INSTRUCTION_POINTER])
        .then_some(Caller {
            registers,
            is_exact: false,
        })
}

/// The outermost frame has no caller.
struct StackEnd;

/// A step from a frame to its caller by the tables of its file.
struct UnwindStep<'a> {
    space: &'a AddressSpace,
    registers: &'a Registers,
    tables: &'a UnwindTables,
}

impl UnwindStep<'_> {
    /// `None` if the tables do not cover the address.
    fn take(&self, address: u64) -> Option<Result<Caller, StackEnd>> {
        let tables = self.tables;
        let section = EhFrame::new(&tables.eh_frame.bytes, LittleEndian);
        let mut bases = BaseAddresses::default()
            .set_eh_frame(tables.eh_frame.address)
            .set_text(tables.text);
        if let Some(header) = &tables.eh_frame_header {
            bases = bases.set_eh_frame_hdr(header.address);
        }
        let by_header = tables.eh_frame_header.as_ref().and_then(|header| {
            let header = EhFrameHdr::new(&header.bytes, LittleEndian)
                .parse(&bases, 8)
                .ok()?;
            let table = header.table()?;
            let found = table.fde_for_address(&section, &bases, address, EhFrame::cie_from_offset);
            found.ok()
        });
        let entry = match by_header {
            Some(entry) => entry,
            None => section
                .fde_for_address(&bases, address, EhFrame::cie_from_offset)
                .ok()?,
        };
        let mut context = UnwindContext::new();
        let row = entry
            .unwind_info_for_address(&section, &bases, &mut context, address)
            .ok()?;
        let frame_address = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                self.register(register.0)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => self.evaluate(expression, &section, None)?,
        };
        let mut registers = *self.registers;
        registers.0[STACK_POINTER] = frame_address;
        for &(register, ref rule) in row.registers() {
            let value = match rule {
                RegisterRule::Undefined if register.0 as usize == INSTRUCTION_POINTER => {
                    return Some(Err(StackEnd));
                }
                RegisterRule::Offset(offset) => self
                    .space
                    .read(frame_address.wrapping_add_signed(*offset))?,
                RegisterRule::ValOffset(offset) => frame_address.wrapping_add_signed(*offset),
                RegisterRule::Register(other) => self.register(other.0)?,
                RegisterRule::Expression(expression) => {
                    self.space
                        .read(self.evaluate(expression, &section, Some(frame_address))?)?
                }
                RegisterRule::ValExpression(expression) => {
                    self.evaluate(expression, &section, Some(frame_address))?
                }
                RegisterRule::Constant(value) => *value,
                _ => continue,
            };
            if let Some(slot) = registers.0.get_mut(register.0 as usize) {
                *slot = value;
            }
        }
        Some(Ok(Caller {
            registers,
            is_exact: entry.is_signal_trampoline(),
        }))
    }

    fn register(&self, number: u16) -> Option<u64> {
        self.registers.0.get(number as usize).copied()
    }

    fn evaluate<'a>(
        &self,
        expression: &UnwindExpression<usize>,
        section: &EhFrame<Reader<'a>>,
        initial: Option<u64>,
    ) -> Option<u64> {
        let encoding = Encoding {
            address_size: 8,
            format: Format::Dwarf32,
            version: 4,
        };
        let mut evaluation = expression.get(section).ok()?.evaluation(encoding);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut result = evaluation.evaluate().ok()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresMemory {
                    address, size: 8, ..
                } => {
                    let value = Value::Generic(self.space.read(address)?);
                    evaluation.resume_with_memory(value).ok()?
                }
                EvaluationResult::RequiresRegister { register, .. } => {
                    let value = Value::Generic(self.register(register.0)?);
                    evaluation.resume_with_register(value).ok()?
                }
                _ => return None,
            };
        }
        match evaluation.result().first()?.location {
            Location::Address { address } => Some(address),
            _ => None,
        }
    }
}
