//! Replays a recorded path symbolically: what the target computed, as expressions over its input, and what the path requires of the input.
//!
//! Concrete values come from the recording, so that only instructions with symbolic operands are interpreted. Each register, flag and byte
//! that replay has an expression for is compared with the recorded value. A difference is a fault of brownout; the value is then what it
//! was.

use std::rc::Rc;

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register, RflagsBits, UsedMemory,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::flags::{Flag, FlagName};
use super::machine::{Memory, REGISTERS, ThreadState};
use super::semantics::{InstructionReplay, Unmodelled, gpr_number};
use super::system_calls::Written;
use crate::expression::Dag;
use crate::path::{PathBuilder, ReplayQuestions, ReplayedPath};
use crate::recording::{Bytes, Damaged, Record, Records};
use crate::variables::{SymbolicSources, VariableTable};

/// What replay needs to know of an instruction.
struct DecodedSite {
    insn: Instruction,
    reads_gprs: u32,
    writes_gprs: u32,
    reads_vectors: Vec<usize>,
    /// Register, bytes that are written, whether the rest is cleared.
    writes_vectors: Vec<(usize, usize)>,
    reads_masks: u32,
    writes_masks: u32,
    reads_flags: Vec<FlagName>,
    writes_flags: Vec<FlagName>,
    memory: Vec<UsedMemory>,
    /// The bytes of an element, if it is a repeated string instruction.
    repeated: Option<u64>,
    is_indirect: bool,
}

impl DecodedSite {
    fn decode(pc: u64, code: &[u8]) -> Self {
        let insn = Decoder::with_ip(64, code, pc, DecoderOptions::NONE).decode();
        let mut factory = InstructionInfoFactory::new();
        let info = factory.info(&insn);
        let mut site = DecodedSite {
            reads_gprs: 0,
            writes_gprs: 0,
            reads_vectors: Vec::new(),
            writes_vectors: Vec::new(),
            reads_masks: 0,
            writes_masks: 0,
            reads_flags: flags(insn.rflags_read() | kept_flags(&insn)),
            writes_flags: flags(insn.rflags_modified()),
            memory: info.used_memory().to_vec(),
            repeated: is_repeated(&insn).then(|| insn.memory_size().size() as u64),
            is_indirect: matches!(
                insn.flow_control(),
                FlowControl::IndirectBranch | FlowControl::IndirectCall
            ),
            insn,
        };
        for used in info.used_registers() {
            let (register, access) = (used.register(), used.access());
            let (reads, writes) = (reads(access), writes(access));
            if register.is_gpr() {
                let bit = 1 << gpr_number(register);
                site.reads_gprs |= if reads { bit } else { 0 };
                site.writes_gprs |= if writes { bit } else { 0 };
                // What is written in part, or perhaps not at all, may keep what it was.
                if writes && register.size() < 4 || access == OpAccess::CondWrite {
                    site.reads_gprs |= bit;
                }
            } else if register.is_vector_register() {
                let number = register.number();
                if reads {
                    site.reads_vectors.push(number);
                }
                if writes {
                    site.writes_vectors.push((number, register.size()));
                }
            } else if register.is_k() {
                let bit = 1 << register.number();
                site.reads_masks |= if reads { bit } else { 0 };
                site.writes_masks |= if writes { bit } else { 0 };
            }
        }
        site
    }

    /// Memory that the instruction writes or not, as a mask says.
    fn kept_memory(
        &self,
        registers: &[u64; REGISTERS],
    ) -> impl Iterator<Item = (u64, u64)> + use<'_> {
        let registers = *registers;
        use Mnemonic as M;
        // These are said to write all.
        let is_masked = matches!(
            self.insn.mnemonic(),
            M::Vpmaskmovd | M::Vpmaskmovq | M::Vmaskmovps | M::Vmaskmovpd
        );
        let is_kept = move |access| match access {
            OpAccess::CondWrite | OpAccess::ReadCondWrite => true,
            _ => is_masked && writes(access),
        };
        let kept = self
            .memory
            .iter()
            .filter(move |used| is_kept(used.access()));
        kept.filter(|_| self.repeated.is_none())
            .filter_map(move |used| self.range(used, &registers))
            .chain(self.far_bit(&registers))
    }

    /// Where the elements of a gather or a scatter are, whether its mask has them or not.
    fn elements(&self, registers: &[u64; REGISTERS], vectors: &[(u8, &[u8])]) -> Vec<(u64, u64)> {
        let mut found = Vec::new();
        for used in { self.memory.iter() }.filter(|used| used.index().is_vector_register()) {
            let number = used.index().number();
            let indices = vectors.iter().find(|it| usize::from(it.0) == number);
            let Some((_, indices)) = indices else {
                continue;
            };
            let index_size = if self.insn.is_vsib64() { 8 } else { 4 };
            for element in 0..indices.len() / index_size {
                let value = |register: Register, element: usize, size: usize| {
                    if !register.is_vector_register() {
                        return Some(recorded(register, registers));
                    }
                    let bytes = indices.get(element * size..(element + 1) * size)?;
                    Some(match *bytes {
                        [a, b, c, d] => i32::from_le_bytes([a, b, c, d]) as i64 as u64,
                        _ => u64::from_le_bytes(bytes.try_into().ok()?),
                    })
                };
                let addr = used.virtual_address(element, value);
                found.extend(addr.map(|addr| (addr, used.memory_size().size() as u64)));
            }
        }
        found
    }

    /// Whether the instruction saves the vector registers to memory (true) or restores them (false), and where.
    fn saved_registers(&self, registers: &[u64; REGISTERS]) -> Option<(bool, u64)> {
        use Mnemonic as M;
        let saves = match self.insn.mnemonic() {
            M::Xsave | M::Xsave64 | M::Xsavec | M::Xsavec64 | M::Xsaveopt | M::Xsaveopt64 => true,
            M::Fxsave | M::Fxsave64 => true,
            M::Xrstor | M::Xrstor64 | M::Fxrstor | M::Fxrstor64 => false,
            _ => return None,
        };
        let value = |register, _, _| Some(recorded(register, registers));
        Some((saves, self.insn.virtual_address(0, 0, value)?))
    }

    /// The byte of the bit that a bit test with a register as index reads. It may lie outside of the memory operand.
    fn far_bit(&self, registers: &[u64; REGISTERS]) -> Option<(u64, u64)> {
        use Mnemonic as M;
        let is_bit_test = matches!(self.insn.mnemonic(), M::Bt | M::Bts | M::Btr | M::Btc);
        if !is_bit_test
            || self.insn.op_kind(0) != OpKind::Memory
            || self.insn.op_kind(1) != OpKind::Register
        {
            return None;
        }
        let (start, _) = self.range(self.memory.first()?, registers)?;
        let index = self.insn.op_register(1);
        let unused = 64 - 8 * index.size() as u32;
        let bit = (registers[gpr_number(index)] << unused) as i64 >> unused;
        Some((start.wrapping_add((bit >> 3) as u64), 1))
    }

    /// Whether a repeated instruction reads symbolic bytes. The recording has only the first ones of a long sequence.
    fn repeats_over_symbolic(&self, registers: &[u64; REGISTERS], memory: &Memory<'_>) -> bool {
        let read = self.memory.iter().filter(|used| reads(used.access()));
        self.repeated.is_some()
            && read
                .filter_map(|used| self.range(used, registers))
                .any(|(addr, len)| memory.has_symbolic(addr, len) || memory.has_unread(addr, len))
    }

    /// Where an access to memory is, and how long.
    fn range(&self, used: &UsedMemory, registers: &[u64; REGISTERS]) -> Option<(u64, u64)> {
        let value = |register, _, _| Some(recorded(register, registers));
        // What a repeated instruction uses has no size: it depends on the count.
        let size = { self.repeated }.unwrap_or(used.memory_size().size() as u64);
        if used.index().is_vector_register() || size == 0 {
            return None;
        }
        let addr = used.virtual_address(0, value)?;
        if self.repeated.is_none() {
            return Some((addr, size));
        }
        let count = registers[1];
        let len = count.checked_mul(size).filter(|&len| len > 0)?;
        const DIRECTION: u64 = 1 << 10;
        match registers[16] & DIRECTION {
            0 => Some((addr, len)),
            _ => Some((addr.wrapping_sub(len - size), len)),
        }
    }
}

/// The value of a register that is a part of an address.
fn recorded(register: Register, registers: &[u64; REGISTERS]) -> u64 {
    match register {
        Register::FS => registers[17],
        Register::GS => registers[18],
        _ if register.is_gpr64() => registers[gpr_number(register)],
        _ if register.is_gpr32() => registers[gpr_number(register)] & 0xffff_ffff,
        _ => 0,
    }
}

fn is_repeated(insn: &Instruction) -> bool {
    insn.is_string_instruction() && (insn.has_rep_prefix() || insn.has_repne_prefix())
}

/// The flags that an instruction changes only if a count is not zero.
fn kept_flags(insn: &Instruction) -> u32 {
    use Mnemonic as M;
    let shifts = matches!(
        insn.mnemonic(),
        M::Shl | M::Sal | M::Shr | M::Sar | M::Rol | M::Ror | M::Rcl | M::Rcr | M::Shld | M::Shrd
    );
    let last = insn.op_count().saturating_sub(1);
    let by_register = shifts && insn.op_register(last) == Register::CL;
    match by_register || is_repeated(insn) {
        true => insn.rflags_modified(),
        false => 0,
    }
}

fn reads(access: OpAccess) -> bool {
    use OpAccess::{CondRead, Read, ReadCondWrite, ReadWrite};
    matches!(access, Read | CondRead | ReadWrite | ReadCondWrite)
}

fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

fn flags(bits: u32) -> Vec<FlagName> {
    let all = [
        (RflagsBits::CF, FlagName::Carry),
        (RflagsBits::PF, FlagName::Parity),
        (RflagsBits::ZF, FlagName::Zero),
        (RflagsBits::SF, FlagName::Sign),
        (RflagsBits::OF, FlagName::Overflow),
    ];
    let named = all.into_iter().filter(|(bit, _)| bits & bit != 0);
    named.map(|(_, name)| name).collect()
}

/// The number of the system call that ends handlers of signals.
const RT_SIGRETURN: u64 = 15;
/// A path with more expressions is cut off there.
const MOST_EXPRESSIONS: usize = 2 << 20;
/// After how many records it is asked whether replay is to stop.
const BETWEEN_STOPS: usize = 256;

/// The replay of one path.
struct Replay<'a> {
    dag: Dag,
    sources: SymbolicSources<'a>,
    threads: FxHashMap<u32, ThreadState>,
    thread: u32,
    sites: FxHashMap<u32, Rc<DecodedSite>>,
    memory: Memory<'a>,
    path: PathBuilder,
    executed: FxHashSet<u64>,
    indirect: FxHashSet<(u64, u64)>,
    /// The thread's last instruction was an indirect branch.
    from: Option<u64>,
    loads: Vec<Bytes<'a>>,
    vectors: Vec<(u8, &'a [u8])>,
    masks: Vec<(u8, u64)>,
}

/// Replays the records of a path.
pub fn replay<'a>(
    records: &'a [u8],
    variables: &'a mut VariableTable,
    questions: ReplayQuestions<'a>,
) -> Result<ReplayedPath, Damaged> {
    let mut replay = Replay {
        dag: Dag::default(),
        sources: SymbolicSources {
            variables,
            is_symbolic: questions.is_symbolic,
        },
        threads: FxHashMap::default(),
        thread: 0,
        sites: FxHashMap::default(),
        memory: Memory::default(),
        path: PathBuilder::default(),
        executed: FxHashSet::default(),
        indirect: FxHashSet::default(),
        from: None,
        loads: Vec::new(),
        vectors: Vec::new(),
        masks: Vec::new(),
    };
    let mut is_cut_off = false;
    for (number, record) in Records::new(records).enumerate() {
        is_cut_off = replay.dag.len() > MOST_EXPRESSIONS
            || number % BETWEEN_STOPS == 0 && (questions.stop)();
        if is_cut_off {
            break;
        }
        replay.record(record?, questions.is_own);
    }
    let Replay {
        dag,
        path,
        executed,
        indirect,
        memory,
        ..
    } = replay;
    Ok(ReplayedPath {
        dag,
        constraints: path.constraints,
        concretised: path.concretised,
        mismatches: path.mismatches,
        overwritten: path.overwritten,
        sent: path.sent,
        steps: path.steps,
        symbolic_steps: path.symbolic_steps,
        executed,
        indirect,
        memory: memory.into_symbolic(),
        is_cut_off,
    })
}

impl<'a> Replay<'a> {
    fn record(&mut self, record: Record<'a>, is_own: &dyn Fn(u64) -> bool) {
        match record {
            Record::Site { number, pc, code } => {
                let site = DecodedSite::decode(pc, code);
                self.sites.insert(number, Rc::new(site));
            }
            Record::Step {
                number,
                mask,
                values,
            } => self.step(number, mask, values, is_own),
            Record::Load(load) => self.loads.push(load),
            Record::Store(stored) => self.stored(stored),
            Record::Page(page) => self.memory.add_page(page.addr, page.bytes),
            Record::Vector { number, bytes } => self.vectors.push((number, bytes)),
            Record::Mask { number, value } => self.masks.push((number, value)),
            Record::Thread(thread) => {
                self.thread = thread;
                self.from = None;
            }
            Record::Symbolic { source, offset, at } => {
                self.memory.forget_pages();
                if let Some(thread) = self.threads.get_mut(&self.thread) {
                    // The call that the thread is making has read this.
                    thread.awaited = None;
                }
                self.memory.set_unread(at.addr, source, offset, at.bytes);
            }
            Record::Kernel { addr, len } => {
                self.memory.forget_pages();
                self.memory.clear(addr, len);
            }
            Record::Call { .. } => self.memory.forget_pages(),
            Record::Signal => {
                self.memory.forget_pages();
                self.threads.entry(self.thread).or_default().enter_handler();
                self.from = None;
            }
        }
    }

    /// The last instruction has written memory.
    fn stored(&mut self, stored: Bytes<'_>) {
        self.memory.update(stored.addr, stored.bytes);
        if !self
            .memory
            .is_touched(stored.addr, stored.bytes.len() as u64)
        {
            return;
        }
        for (index, &byte) in stored.bytes.iter().enumerate() {
            let at = stored.addr.wrapping_add(index as u64);
            if let Some(expr) = self.memory.get(at)
                && self.dag.value(expr) != u128::from(byte)
            {
                let thread = self.threads.get(&self.thread);
                if !thread.is_some_and(|thread| thread.is_uncertain) {
                    let pc = thread.map_or(0, |thread| thread.last_pc);
                    self.path.mismatch(pc, "a stored byte");
                }
                self.memory.set(at, None);
            }
        }
    }

    fn step(&mut self, number: u32, mask: u32, values: &[u8], is_own: &dyn Fn(u64) -> bool) {
        let thread = self.threads.entry(self.thread).or_default();
        let (words, _) = values.as_chunks::<8>();
        let changed = (0..REGISTERS).filter(|register| mask >> register & 1 != 0);
        for (register, value) in changed.zip(words) {
            thread.registers[register] = u64::from_le_bytes(*value);
        }
        if let Some((addr, written)) = thread.awaited.take() {
            let result = thread.registers[0];
            // Small negative numbers are errors.
            let has_failed = (result as i64) < 0;
            let len = match written {
                Written::Result => result,
                Written::Bytes(len) => len,
            };
            if !has_failed {
                self.memory.forget_pages();
                self.memory.clear(addr, len);
            }
        }
        compare_registers(thread, &self.dag, &mut self.path);
        if let Some(site) = self.sites.get(&number).map(Rc::clone) {
            self.path.steps += 1;
            let pc = site.insn.ip();
            self.executed.insert(pc);
            if is_own(pc) {
                self.path.caller = pc;
            }
            if let Some(from) = self.from.take() {
                self.indirect.insert((from, pc));
            }
            if site.is_indirect {
                self.from = Some(pc);
            }
            self.execute(&site);
        }
        self.loads.clear();
        self.vectors.clear();
        self.masks.clear();
    }

    fn execute(&mut self, site: &DecodedSite) {
        let Some(thread) = self.threads.get_mut(&self.thread) else {
            return;
        };
        thread.last_pc = site.insn.ip();
        if let Some((saves, addr)) = site.saved_registers(&thread.registers) {
            match saves {
                true => thread.save_vectors(addr),
                false => thread.restore_vectors(addr),
            }
            return;
        }
        let mut kept: Vec<(u64, u64)> = site.kept_memory(&thread.registers).collect();
        let elements = site.elements(&thread.registers, &self.vectors);
        kept.extend(&elements);
        let loaded = self.loads.iter().map(|it| (it.addr, it.bytes.len() as u64));
        for (addr, len) in loaded.chain(kept.iter().copied()) {
            self.memory
                .read_sources(addr, len, &mut self.sources, &mut self.dag);
        }
        let is_call = site.insn.mnemonic() == Mnemonic::Syscall;
        let is_symbolic = is_symbolic(thread, &self.memory, site, &self.loads) || { kept.iter() }
            .any(|&(addr, len)| self.memory.has_symbolic(addr, len));
        if !is_call && (!is_symbolic || is_cleared(&site.insn)) {
            return clear_outputs(thread, &mut self.memory, site);
        }
        self.path.symbolic_steps += u64::from(is_symbolic);
        let gprs = thread.symbolic_gprs() & site.reads_gprs;
        let mut step = InstructionReplay {
            dag: &mut self.dag,
            thread,
            memory: &mut self.memory,
            sources: &mut self.sources,
            path: &mut self.path,
            insn: &site.insn,
            loads: &self.loads,
            vectors: &self.vectors,
            masks: &self.masks,
        };
        if is_call {
            step.system_call();
            let returns_from_handler = thread.registers[0] == RT_SIGRETURN;
            clear_outputs(thread, &mut self.memory, site);
            if returns_from_handler {
                thread.leave_handler();
            }
            return;
        }
        if step.execute() == Err(Unmodelled) {
            step.concretise_operands(gprs, &site.reads_vectors, &site.reads_flags);
            kept.into_iter()
                .for_each(|(addr, len)| step.concretise_memory(addr, len));
            clear_outputs(thread, &mut self.memory, site);
            let is_scatter = site.memory.iter().any(|used| writes(used.access()));
            if is_scatter {
                { elements.into_iter() }.for_each(|(addr, len)| self.memory.clear(addr, len));
            }
        }
    }
}

/// Compares what replay has computed with what was recorded.
fn compare_registers(thread: &mut ThreadState, dag: &Dag, path: &mut PathBuilder) {
    for (number, shadow) in thread.gprs.iter_mut().enumerate() {
        if let Some(expr) = *shadow
            && dag.value(expr) != u128::from(thread.registers[number])
        {
            *shadow = None;
            let (computed, recorded) = (dag.value(expr), thread.registers[number]);
            if !thread.is_uncertain {
                let what =
                    format!("general-purpose register {number}: {computed:#x}, not {recorded:#x}");
                path.mismatch(thread.last_pc, &what);
            }
        }
        // What an instruction has computed is here until now even if it is the same on all inputs.
        if shadow.is_some_and(|expr| dag.constant_value(expr).is_some()) {
            *shadow = None;
        }
    }
    for name in FlagName::ALL {
        let recorded = thread.registers[16] >> name.bit() & 1;
        if let Flag::Known(expr) = thread.flags[name as usize]
            && dag.value(expr) != u128::from(recorded)
        {
            thread.flags[name as usize] = Flag::Concrete;
            if !thread.is_uncertain {
                path.mismatch(thread.last_pc, &format!("the flag {name:?}"));
            }
        }
    }
    thread.is_uncertain = false;
}

/// Whether the result does not depend on the operands, which are the same register.
fn is_cleared(insn: &Instruction) -> bool {
    use Mnemonic as M;
    let last = insn.op_count().saturating_sub(1);
    let register = insn.op_register(last);
    // Narrow registers keep the rest, and masks what they leave out.
    let is_whole = !register.is_gpr() || register.size() >= 4;
    last >= 1
        && register != Register::None
        && register == insn.op_register(last - 1)
        && is_whole
        && insn.op_mask() == Register::None
        && matches!(
            insn.mnemonic(),
            M::Xor
                | M::Sub
                | M::Pxor
                | M::Vpxor
                | M::Vpxord
                | M::Vpxorq
                | M::Xorps
                | M::Vxorps
                | M::Pcmpeqb
                | M::Pcmpeqd
                | M::Pcmpeqw
        )
}

fn is_symbolic(
    thread: &ThreadState,
    memory: &Memory<'_>,
    site: &DecodedSite,
    loads: &[Bytes<'_>],
) -> bool {
    let is_loaded = |load: &Bytes<'_>| memory.has_symbolic(load.addr, load.bytes.len() as u64);
    thread.symbolic_gprs() & site.reads_gprs != 0
        || { site.reads_flags.iter() }.any(|&name| thread.flags[name as usize] != Flag::Concrete)
        || { site.reads_vectors.iter() }.any(|&number| thread.is_vector_symbolic(number))
        || (0..8).any(|mask| site.reads_masks >> mask & 1 != 0 && thread.masks[mask].is_some())
        || loads.iter().any(is_loaded)
        || site.repeats_over_symbolic(&thread.registers, memory)
}

/// What the instruction writes does not depend on the input any more.
fn clear_outputs(thread: &mut ThreadState, memory: &mut Memory<'_>, site: &DecodedSite) {
    for register in (0..16).filter(|register| site.writes_gprs >> register & 1 != 0) {
        thread.gprs[register] = None;
    }
    for &name in &site.writes_flags {
        thread.flags[name as usize] = Flag::Concrete;
    }
    for &(number, bytes) in &site.writes_vectors {
        // Forms that clear the rest have it zero, others keep it: iced names the whole register for the first.
        thread.vectors[number][..bytes].fill(None);
    }
    for mask in (0..8).filter(|mask| site.writes_masks >> mask & 1 != 0) {
        thread.masks[mask] = None;
    }
    if let Some((addr, len)) = site.far_bit(&thread.registers)
        && site.insn.mnemonic() != Mnemonic::Bt
    {
        memory.clear(addr, len);
    }
    for used in site.memory.iter().filter(|used| writes(used.access())) {
        if let Some((addr, len)) = site.range(used, &thread.registers) {
            memory.clear(addr, len);
        }
    }
}
