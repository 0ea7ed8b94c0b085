//! Translated code as text that does not depend on where it lies.

use crate::slot;
use crate::translator::cache::{CACHE, Fragment, JUMP_MISS, TABLE_CALL, TABLE_JUMP};
use iced_x86::{
    Decoder, DecoderOptions, Formatter, Instruction, IntelFormatter, OpKind, Register,
    SymbolResolver, SymbolResult,
};
use std::boxed::Box;
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::format;
use std::string::{String, ToString};
use std::vec::Vec;

/// A fragment, and the page of the code that it was made of.
pub struct Listing<'a> {
    fragment: &'a Fragment,
    page: u64,
}

impl<'a> Listing<'a> {
    pub fn new(fragment: &'a Fragment, page: u64) -> Listing<'a> {
        Listing { fragment, page }
    }

    fn code(&self) -> Vec<Instruction> {
        let (start, end) = (self.fragment.start(), self.fragment.end());
        // SAFETY: a fragment that was just translated lies in the cache, which is not written now.
        let bytes =
            unsafe { core::slice::from_raw_parts(start as *const u8, (end - start) as usize) };
        Decoder::with_ip(64, bytes, start, DecoderOptions::NONE)
            .iter()
            .collect()
    }

    /// The addresses in the fragment that its own code refers to.
    fn labels(&self, code: &[Instruction]) -> BTreeMap<u64, String> {
        let inside = |address: &u64| (self.fragment.start()..self.fragment.end()).contains(address);
        let mut labels: BTreeMap<u64, String> = BTreeMap::new();
        for insn in code {
            let mut targets = [insn.near_branch_target(), 0];
            let last = insn.op_count().saturating_sub(1);
            if matches!(
                insn.op_kind(last),
                OpKind::Immediate32 | OpKind::Immediate32to64
            ) {
                targets[1] = insn.immediate(last);
            }
            for target in targets.into_iter().filter(inside) {
                labels.insert(target, String::new());
            }
        }
        for (number, name) in labels.values_mut().enumerate() {
            *name = format!("L{}", number + 1);
        }
        labels
    }
}

impl Display for Listing<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let code = self.code();
        let labels = self.labels(&code);
        let names = Names {
            labels: labels.clone(),
            page: self.page,
        };
        let mut translated = IntelFormatter::with_options(Some(Box::new(names)), None);
        let names = Names {
            labels: BTreeMap::new(),
            page: self.page,
        };
        let mut original = IntelFormatter::with_options(Some(Box::new(names)), None);
        for formatter in [&mut translated, &mut original] {
            formatter
                .options_mut()
                .set_space_after_operand_separator(true);
            formatter.options_mut().set_hex_prefix("0x");
            formatter.options_mut().set_hex_suffix("");
            formatter.options_mut().set_branch_leading_zeros(false);
            formatter
                .options_mut()
                .set_small_hex_numbers_in_decimal(false);
            formatter.options_mut().set_rip_relative_addresses(false);
            formatter.options_mut().set_show_branch_size(false);
        }
        for insn in &code {
            if let Some(pc) = self.fragment.exact(insn.ip()) {
                let text = original_text(pc, &mut original);
                writeln!(out, "; +{:x}  {text}", pc - self.page)?;
            }
            if let Some(label) = labels.get(&insn.ip()) {
                writeln!(out, "{label}:")?;
            }
            let mut text = String::new();
            translated.format(insn, &mut text);
            match self.fragment.special(insn.ip()) {
                Some((_, repair)) => writeln!(out, "    {text:<50} ; if it faults: {repair:?}")?,
                None => writeln!(out, "    {text}")?,
            }
        }
        Ok(())
    }
}

/// The target's instruction at `pc`.
fn original_text(pc: u64, formatter: &mut IntelFormatter) -> String {
    // SAFETY: the tests map a whole page for each case, with the code at its start.
    let bytes = unsafe { core::slice::from_raw_parts(pc as *const u8, 16) };
    let insn = Decoder::with_ip(64, bytes, pc, DecoderOptions::NONE).decode();
    let mut text = String::new();
    formatter.format(&insn, &mut text);
    text
}

/// Gives addresses and numbers names.
struct Names {
    labels: BTreeMap<u64, String>,
    page: u64,
}

/// The name and offset of each slot of the context that generated code uses.
macro_rules! slots {
    ($($name:ident = $($path:ident).+;)+) => { [$((stringify!($name), slot!($($path).+))),+] };
}

fn slot(offset: u64) -> Option<String> {
    let slots = slots!(
        pc = pc; argument = argument; resume = resume; next_pc = next_pc;
        spill_rcx = cpu.spill_rcx; spill_rax = cpu.spill_rax; spill_scratch = cpu.spill_scratch;
        spill_flags = cpu.spill_flags; spill_r11 = cpu.spill_r11; target_gs = cpu.target_gs;
        to_link = to_link; to_indirect = to_indirect; to_indirect_call = to_indirect_call;
        to_syscall = to_syscall; to_resync = to_resync; to_unsupported = to_unsupported;
        to_stale = to_stale; to_hash = to_hash;
        address = areas.events.address; memory = areas.events.memory; extra = areas.events.extra;
        unordered = areas.events.unordered; lock = areas.events.lock; payload = areas.events.payload;
        size = areas.pm.size; return_to = areas.pm.return_to; to_begin = areas.pm.to_begin; to_begin_load = areas.pm.to_begin_load; branch_rcx = areas.pm.branch_rcx;
        to_end = areas.pm.to_end; to_emulate = areas.pm.to_emulate; to_order = areas.pm.to_order;
        to_call = areas.calls.to_call; to_return = areas.calls.to_return;
    );
    let (name, start) = slots
        .iter()
        .filter(|(_, start)| *start as u64 <= offset)
        .max_by_key(|(_, start)| *start)?;
    let rest = offset - *start as u64;
    Some(if rest == 0 {
        name.to_string()
    } else {
        format!("{name}+{rest}")
    })
}

impl SymbolResolver for Names {
    fn symbol(
        &mut self,
        insn: &Instruction,
        _operand: u32,
        instruction_operand: Option<u32>,
        address: u64,
        _address_size: u32,
    ) -> Option<SymbolResult<'_>> {
        let kind = instruction_operand.map(|operand| insn.op_kind(operand));
        let memory = kind == Some(OpKind::Memory);
        let in_context = !self.labels.is_empty() || (CACHE..CACHE + (1 << 30)).contains(&insn.ip());
        let name = if memory && insn.memory_segment() == Register::GS && in_context {
            slot(address)?
        } else if !memory && in_context && insn.memory_displacement64() == slot!(argument) as u64 {
            // Numbers of links and sites depend on what was translated before.
            "n".to_string()
        } else if let Some(label) = self.labels.get(&address) {
            label.clone()
        } else if memory && insn.memory_base() == Register::RCX && address == CACHE {
            "cache".to_string()
        } else if memory && insn.memory_base() == Register::RCX && address == CACHE + JUMP_MISS {
            "cache.jumps".to_string()
        } else if memory && address == TABLE_JUMP as u64 {
            "table.jumps".to_string()
        } else if memory && address == TABLE_CALL as u64 {
            "table.calls".to_string()
        } else if (self.page..self.page + 0x1000).contains(&address) {
            format!("code+{:x}", address - self.page)
        } else {
            return None;
        };
        Some(SymbolResult::with_string(address, name))
    }
}
