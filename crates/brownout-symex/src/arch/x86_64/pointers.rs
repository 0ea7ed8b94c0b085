//! Pointers in the code of one function: which registers may point to persistent memory at each instruction.

use iced_x86::{
    Decoder, DecoderOptions, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess,
    OpKind, Register,
};
use rustc_hash::{FxHashMap, FxHashSet};

use super::control_flow::modifies_pm;
use super::semantics::gpr_number;
use crate::pm_code::{CodeEffect, FileFacts, ImportMeaning, PmOperationKind, RegisterSet};

const RAX: usize = 0;
const RCX: usize = 1;
const RDI: usize = 7;
const R8: usize = 8;
/// The registers of arguments, in their order: rdi, rsi, rdx, rcx, r8, r9.
const ARGUMENT_NUMBERS: [usize; 6] = [RDI, 6, 2, RCX, R8, 9];
const ARGUMENTS: RegisterSet = 1 << RDI | 1 << 6 | 1 << 2 | 1 << RCX | 1 << R8 | 1 << 9;
/// The registers that a call does not keep.
const LOST: RegisterSet = ARGUMENTS | 1 << RAX | 1 << 10 | 1 << 11;
/// Of the flags of `mmap`: the mapping has no file.
const MAP_ANONYMOUS: u64 = 0x20;

/// What ELF files for this processor say, and what messages call it.
pub const ARCHITECTURE_NAME: &str = "x86-64";
pub const ARCHITECTURE: object::Architecture = object::Architecture::X86_64;

/// The registers that may point to persistent memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerState(RegisterSet);

impl PointerState {
    pub fn new(registers: RegisterSet) -> Self {
        Self(registers)
    }

    fn has(self, register: Register) -> bool {
        register.is_gpr() && self.0 >> gpr_number(register) & 1 != 0
    }
}

/// The instructions of a function, by blocks.
pub struct FunctionCode {
    insns: Vec<Instruction>,
    /// Where blocks begin, by index.
    starts: Vec<usize>,
    /// The blocks that can follow each one.
    successors: Vec<Vec<usize>>,
}

/// The slot through which an instruction calls or jumps.
fn called_slot(insn: &Instruction) -> Option<u64> {
    let indirect = matches!(
        insn.flow_control(),
        FlowControl::IndirectBranch | FlowControl::IndirectCall
    );
    (indirect && insn.is_ip_rel_memory_operand()).then(|| insn.memory_displacement64())
}

impl FunctionCode {
    pub fn new(address: u64, code: &[u8]) -> Self {
        let decoder = Decoder::with_ip(64, code, address, DecoderOptions::NONE);
        let insns: Vec<Instruction> = decoder.into_iter().collect();
        let index_of = |pc: u64| insns.binary_search_by_key(&pc, Instruction::ip).ok();
        let direct = |insn: &Instruction| {
            matches!(
                insn.flow_control(),
                FlowControl::ConditionalBranch | FlowControl::UnconditionalBranch
            )
        };
        let mut starts: Vec<usize> = vec![0];
        for (index, insn) in insns.iter().enumerate() {
            if direct(insn) {
                starts.extend(index_of(insn.near_branch_target()));
            }
            if insn.flow_control() != FlowControl::Next && !is_call(insn) {
                starts.push(index + 1);
            }
        }
        starts.retain(|&start| start < insns.len());
        starts.sort_unstable();
        starts.dedup();
        let block_at = |start: usize| starts.binary_search(&start).ok();
        let mut successors = vec![Vec::new(); starts.len()];
        let mut has_jump_table = false;
        for (block, next) in successors.iter_mut().enumerate() {
            let end = starts.get(block + 1).copied().unwrap_or(insns.len());
            let last = &insns[end - 1];
            if direct(last) {
                let to = index_of(last.near_branch_target()).and_then(block_at);
                next.extend(to);
            }
            let goes_on = !matches!(
                last.flow_control(),
                FlowControl::UnconditionalBranch
                    | FlowControl::IndirectBranch
                    | FlowControl::Return
                    | FlowControl::Interrupt
                    | FlowControl::Exception
            );
            if goes_on && block + 1 < starts.len() {
                next.push(block + 1);
            }
            has_jump_table |= last.flow_control() == FlowControl::IndirectBranch;
        }
        if has_jump_table {
            // Where such a jump goes is not known: to any block that nothing else leads to.
            let reached: FxHashSet<usize> = successors.iter().flatten().copied().collect();
            let others: Vec<usize> = (1..starts.len())
                .filter(|it| !reached.contains(it))
                .collect();
            for (block, next) in successors.iter_mut().enumerate() {
                let end = starts.get(block + 1).copied().unwrap_or(insns.len());
                if insns[end - 1].flow_control() == FlowControl::IndirectBranch {
                    next.extend(&others);
                }
            }
        }
        Self {
            insns,
            starts,
            successors,
        }
    }

    /// The registers that calls of the function do not keep. Compilers know those of functions that call nothing.
    pub fn lost_registers(&self) -> RegisterSet {
        let mut factory = InstructionInfoFactory::new();
        let mut written = 0;
        for insn in &self.insns {
            let goes_on = matches!(
                insn.flow_control(),
                FlowControl::Next | FlowControl::ConditionalBranch | FlowControl::Return
            );
            let stays = insn.flow_control() == FlowControl::UnconditionalBranch
                && self
                    .insns
                    .binary_search_by_key(&insn.near_branch_target(), Instruction::ip)
                    .is_ok();
            if !goes_on && !stays {
                return LOST;
            }
            for used in factory.info(insn).used_registers() {
                if used.register().is_gpr() && writes(used.access()) {
                    written |= 1 << gpr_number(used.register());
                }
            }
        }
        written & LOST
    }

    /// Instructions that concern persistent memory whatever their operands are.
    pub fn pm_instructions(&self) -> impl Iterator<Item = u64> {
        let modifying = { self.insns.iter() }.filter(|insn| modifies_pm(insn.mnemonic()));
        modifying.map(Instruction::ip)
    }

    /// Jumps and calls through slots: where they are, and the slots.
    pub fn uses_of_slots(&self) -> impl Iterator<Item = (u64, u64)> {
        let insns = self.insns.iter();
        insns.filter_map(|insn| Some((insn.ip(), called_slot(insn)?)))
    }

    /// Stubs of imported functions: a jump through a slot, perhaps behind a landing pad.
    pub fn stubs<'a>(
        &'a self,
        slots: &'a FxHashMap<u64, String>,
    ) -> impl Iterator<Item = (u64, u64)> + 'a {
        self.insns
            .iter()
            .enumerate()
            .flat_map(move |(index, insn)| {
                let jump = insn.flow_control() == FlowControl::IndirectBranch;
                let slot = called_slot(insn).filter(|slot| jump && slots.contains_key(slot));
                let pad = index.checked_sub(1).map(|before| &self.insns[before]);
                let pad = pad.filter(|insn| insn.mnemonic() == Mnemonic::Endbr64);
                let starts = [Some(insn.ip()), pad.map(Instruction::ip)];
                let starts = starts.into_iter().flatten();
                slot.into_iter()
                    .flat_map(move |slot| starts.clone().map(move |start| (start, slot)))
            })
    }

    /// Addresses that the code computes.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        let computed = |insn: &&Instruction| {
            insn.mnemonic() == Mnemonic::Lea && insn.is_ip_rel_memory_operand()
        };
        self.insns
            .iter()
            .filter(computed)
            .map(Instruction::memory_displacement64)
    }

    /// Variables that the code accesses.
    pub fn variables(&self) -> impl Iterator<Item = u64> {
        let accesses = |insn: &&Instruction| insn.is_ip_rel_memory_operand();
        self.insns
            .iter()
            .filter(accesses)
            .map(Instruction::memory_displacement64)
    }

    /// Follows pointers from the start of the function on. `returns` says whether a function of the file returns one, `any_returns` whether
    /// a function that is called through a pointer can.
    pub fn follow(
        &self,
        start: PointerState,
        facts: &FileFacts<'_>,
        returns: &dyn Fn(usize) -> bool,
        any_returns: bool,
        places: &mut FxHashSet<(u8, i64)>,
        effects: &mut Vec<CodeEffect>,
    ) {
        let mut states: Vec<Option<RegisterSet>> = vec![None; self.starts.len()];
        let mut waiting: Vec<usize> = Vec::new();
        if let Some(first) = states.first_mut() {
            *first = Some(start.0);
            waiting.push(0);
        }
        let mut follower = Follower {
            factory: InstructionInfoFactory::new(),
            facts,
            returns,
            any_returns,
            places,
            effects,
            own: self.insns.first().map_or(0..0, |first| {
                first.ip()..self.insns.last().map_or(0, Instruction::next_ip)
            }),
            constants: [None; 16],
        };
        while let Some(block) = waiting.pop() {
            let mut state = PointerState(states[block].unwrap_or(0));
            let end = self
                .starts
                .get(block + 1)
                .copied()
                .unwrap_or(self.insns.len());
            follower.constants = [None; 16];
            for insn in &self.insns[self.starts[block]..end] {
                follower.step(insn, &mut state);
            }
            for &next in &self.successors[block] {
                let known = states[next];
                let joined = known.unwrap_or(0) | state.0;
                if known != Some(joined) {
                    states[next] = Some(joined);
                    waiting.push(next);
                }
            }
        }
    }
}

fn is_call(insn: &Instruction) -> bool {
    matches!(
        insn.flow_control(),
        FlowControl::Call | FlowControl::IndirectCall
    )
}

struct Follower<'a> {
    factory: InstructionInfoFactory,
    facts: &'a FileFacts<'a>,
    returns: &'a dyn Fn(usize) -> bool,
    any_returns: bool,
    places: &'a mut FxHashSet<(u8, i64)>,
    effects: &'a mut Vec<CodeEffect>,
    /// The addresses of the function.
    own: std::ops::Range<u64>,
    /// Registers with values that are known, within a block.
    constants: [Option<u64>; 16],
}

impl Follower<'_> {
    fn step(&mut self, insn: &Instruction, state: &mut PointerState) {
        match insn.flow_control() {
            FlowControl::Call | FlowControl::IndirectCall => return self.call(insn, state),
            FlowControl::UnconditionalBranch | FlowControl::IndirectBranch => {
                let leaves = insn.op_kind(0) == OpKind::NearBranch64
                    && !self.own.contains(&insn.near_branch_target())
                    || called_slot(insn).is_some();
                if leaves {
                    // A call at the end of the function, which returns to its caller.
                    self.call(insn, state);
                    self.returned(*state);
                }
                return;
            }
            FlowControl::Return => return self.returned(*state),
            _ => {}
        }
        self.store(insn, *state);
        let result = self.result(insn, *state);
        let constant = constant(insn, &self.constants);
        let info = self.factory.info(insn);
        for used in info.used_registers() {
            let register = used.register();
            if !register.is_gpr() || !writes(used.access()) {
                continue;
            }
            let number = gpr_number(register);
            self.constants[number] = constant.filter(|_| register.size() >= 4);
            let keeps = used.access() == OpAccess::CondWrite || register.size() < 4;
            let bit = 1 << number;
            match result && register.size() == 8 {
                true => state.0 |= bit,
                false if keeps => {}
                false => state.0 &= !bit,
            }
        }
    }

    fn returned(&mut self, state: PointerState) {
        if state.has(Register::RAX) {
            self.effects.push(CodeEffect::Returns);
        }
    }

    /// Whether what the instruction computes is a pointer to persistent memory if a source is.
    fn result(&mut self, insn: &Instruction, state: PointerState) -> bool {
        use Mnemonic as M;
        let registers = |insn: &Instruction| {
            (0..insn.op_count())
                .filter(|&operand| insn.op_kind(operand) == OpKind::Register)
                .any(|operand| state.has(insn.op_register(operand)))
        };
        let of_address = state.has(insn.memory_base()) || state.has(insn.memory_index());
        match insn.mnemonic() {
            M::Lea => {
                let is_slot = insn.is_ip_rel_memory_operand()
                    && self.facts.slots.contains_key(&insn.memory_displacement64())
                    && self.facts.variables.contains(&insn.memory_displacement64());
                of_address || is_slot
            }
            M::Mov => match insn.op_kind(1) {
                OpKind::Memory => of_address || self.is_kept(insn),
                _ => state.has(insn.op_register(1)),
            },
            M::Add | M::Sub | M::And | M::Or | M::Xchg | M::Xadd | M::Inc | M::Dec => {
                registers(insn) || has_memory(insn) && self.is_kept(insn)
            }
            M::Andn | M::Neg | M::Not | M::Bzhi => registers(insn),
            _ if insn.mnemonic() == M::Lodsq => state.has(Register::RSI),
            _ if insn.op_count() == 2 && is_conditional_move(insn) => {
                registers(insn) || has_memory(insn) && (of_address || self.is_kept(insn))
            }
            _ => false,
        }
    }

    /// Whether the memory operand is a place that may hold a pointer to persistent memory.
    fn is_kept(&self, insn: &Instruction) -> bool {
        if insn.is_ip_rel_memory_operand() {
            return self.facts.variables.contains(&insn.memory_displacement64());
        }
        place(insn).is_some_and(|place| self.places.contains(&place))
    }

    /// Notes what the instruction stores, and where.
    fn store(&mut self, insn: &Instruction, state: PointerState) {
        let info = self.factory.info(insn);
        let to_pm = info.used_memory().iter().any(|used| {
            writes(used.access()) && (state.has(used.base()) || state.has(used.index()))
        });
        if to_pm {
            let kind = PmOperationKind::Store;
            self.effects.push(CodeEffect::Operation(insn.ip(), kind));
        }
        let is_pointer = insn.mnemonic() == Mnemonic::Mov
            && insn.op_kind(0) == OpKind::Memory
            && insn.op_kind(1) == OpKind::Register
            && insn.op_register(1).is_gpr64()
            && state.has(insn.op_register(1));
        if !is_pointer {
            return;
        }
        if insn.is_ip_rel_memory_operand() {
            let address = insn.memory_displacement64();
            self.effects.push(CodeEffect::Variable(address));
        } else if let Some(place) = place(insn) {
            self.places.insert(place);
        }
    }

    fn call(&mut self, insn: &Instruction, state: &mut PointerState) {
        let arguments = state.0 & ARGUMENTS;
        let direct = (insn.op_kind(0) == OpKind::NearBranch64).then(|| insn.near_branch_target());
        let slot = called_slot(insn).or_else(|| self.facts.stubs.get(&direct?).copied());
        let mut returns = false;
        let mut lost = LOST;
        if let Some(meaning) = slot.and_then(|slot| self.facts.meaning_of_slot(slot)) {
            returns = meaning.returns_pm || meaning.maps && self.maps_a_file();
            let stores_to = meaning.stores_to.and_then(|to| {
                let register = *ARGUMENT_NUMBERS.get(usize::from(to))?;
                (state.0 >> register & 1 != 0).then_some(to)
            });
            if meaning.is_operation || stores_to.is_some() {
                let kind = PmOperationKind::Call;
                self.effects.push(CodeEffect::Operation(insn.ip(), kind));
            }
            // What `memcpy` returns, and the address of a thread's variable.
            returns |= stores_to == Some(0)
                || meaning == ImportMeaning::default() && self.is_tls(slot, *state);
        } else if let Some(&callee) = direct.and_then(|to| self.facts.entries.get(&to)) {
            self.effects.push(CodeEffect::Call(callee, arguments));
            returns = (self.returns)(callee);
            lost = self.facts.lost[callee];
        } else if direct.is_none() {
            self.effects.push(CodeEffect::IndirectCall(arguments));
            returns = self.any_returns;
        }
        state.0 &= !lost;
        state.0 |= RegisterSet::from(returns) << RAX;
        for register in (0..16).filter(|register| lost >> register & 1 != 0) {
            self.constants[register] = None;
        }
    }

    /// Whether the call looks up a variable of a thread that holds where a pool is.
    fn is_tls(&self, slot: Option<u64>, state: PointerState) -> bool {
        let name = slot.and_then(|slot| self.facts.slots.get(&slot));
        name.is_some_and(|name| name == "__tls_get_addr") && state.has(Register::RDI)
    }

    /// Whether a call of `mmap` may map a file.
    fn maps_a_file(&self) -> bool {
        let is_anonymous = self.constants[RCX].is_some_and(|flags| flags & MAP_ANONYMOUS != 0);
        let has_no_file = self.constants[R8].is_some_and(|fd| fd as i32 == -1);
        !is_anonymous && !has_no_file
    }
}

/// A place on the stack that the memory operand is.
fn place(insn: &Instruction) -> Option<(u8, i64)> {
    let base = insn.memory_base();
    let on_stack = matches!(base, Register::RSP | Register::RBP);
    (on_stack && insn.memory_index() == Register::None)
        .then(|| (gpr_number(base) as u8, insn.memory_displacement64() as i64))
}

/// The value that the instruction gives its destination, if it is known.
fn constant(insn: &Instruction, known: &[Option<u64>; 16]) -> Option<u64> {
    use Mnemonic as M;
    let same = insn.op_count() == 2
        && insn.op_kind(1) == OpKind::Register
        && insn.op_register(0) == insn.op_register(1);
    match insn.mnemonic() {
        M::Mov if insn.try_immediate(1).is_ok() => Some(insn.immediate(1)),
        M::Mov if insn.op_kind(1) == OpKind::Register && insn.op_register(1).is_gpr() => {
            known[gpr_number(insn.op_register(1))]
        }
        M::Xor if same => Some(0),
        M::Or if insn.try_immediate(1).is_ok_and(|value| value as i32 == -1) => Some(u64::MAX),
        _ => None,
    }
}

fn has_memory(insn: &Instruction) -> bool {
    insn.op_kinds().any(|kind| kind == OpKind::Memory)
}

fn is_conditional_move(insn: &Instruction) -> bool {
    insn.condition_code() != iced_x86::ConditionCode::None
}

fn writes(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}
