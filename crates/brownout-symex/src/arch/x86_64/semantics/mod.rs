//! What instructions of x86-64 do to expressions.
//!
//! A [`InstructionReplay`] is one instruction of the path, with the registers before it and the values that it reads. Only instructions
//! with a symbolic operand come here. What is not modelled returns [`Unmodelled`], and replay then lets its operands be what they were in
//! the recorded run.

mod bits;
mod integer;
mod lanes;
mod mask;
mod operand;
mod shift;
mod string;
mod string_compare;
mod vector;
mod vector_arithmetic;

pub use operand::gpr_number;

use iced_x86::{ConditionCode, Instruction, Mnemonic};

use crate::arch::x86_64::flags::{ConditionName, Flag, FlagName, FlagSource, comparison, flag};
use crate::arch::x86_64::machine::{Memory, ThreadState};
use crate::arch::x86_64::system_calls::{ARGUMENTS, system_call};
use crate::expression::{BinaryOperation, Dag, Expr};
use crate::path::{ConcretisationCause, ConstraintKind, PathBuilder};
use crate::recording::Bytes;
use crate::variables::SymbolicSources;

const RAX: usize = 0;
/// Bytes of one write that are looked at.
const MOST_SENT: u64 = 1 << 20;

/// The instruction is not modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unmodelled;

type Modelled = Result<(), Unmodelled>;

/// One instruction of the path.
pub struct InstructionReplay<'a, 'r> {
    pub dag: &'a mut Dag,
    pub thread: &'a mut ThreadState,
    pub memory: &'a mut Memory<'r>,
    pub sources: &'a mut SymbolicSources<'r>,
    pub path: &'a mut PathBuilder,
    pub insn: &'a Instruction,
    pub loads: &'a [Bytes<'a>],
    pub vectors: &'a [(u8, &'a [u8])],
    pub masks: &'a [(u8, u64)],
}

impl InstructionReplay<'_, '_> {
    /// Does to the symbolic state what the instruction does.
    pub fn execute(&mut self) -> Modelled {
        // What changes no value lets the address depend on the input, too.
        if changes_nothing(self.insn.mnemonic()) {
            return Ok(());
        }
        self.resolve_addresses();
        let modelled = self.execute_resolved();
        if let Some(table) = self.path.table.take()
            && !table.is_used
        {
            self.concretise(table.address, ConcretisationCause::Address);
        }
        modelled
    }

    fn execute_resolved(&mut self) -> Modelled {
        use Mnemonic as M;
        let mnemonic = self.insn.mnemonic();
        match mnemonic {
            M::Vzeroupper | M::Vzeroall => {
                self.clear_vectors(mnemonic == M::Vzeroall);
                Ok(())
            }
            _ if self.insn.is_string_instruction() && self.insn.rep_form() => self.string(),
            M::Lodsb | M::Lodsw | M::Lodsd | M::Lodsq => self.string(),
            _ if self.insn.is_jcc_short_or_near() => {
                self.branch();
                Ok(())
            }
            _ => {
                let tried = self.integer(mnemonic);
                let tried = tried.or_else(|_| self.shift(mnemonic));
                let tried = tried.or_else(|_| self.bit(mnemonic));
                let tried = tried.or_else(|_| self.string_comparison(mnemonic));
                let tried = tried.or_else(|_| self.vector(mnemonic));
                tried.or_else(|_| self.mask(mnemonic))
            }
        }
    }

    /// A conditional branch: where it goes is a constraint of the path.
    fn branch(&mut self) {
        let condition = self.condition(self.insn.condition_code());
        let taken = self.dag.value(condition) != 0;
        let (target, next) = (self.insn.near_branch_target(), self.insn.next_ip());
        let other = if taken { next } else { target };
        let kind = ConstraintKind::Branch { taken, other };
        self.constrain(condition, kind);
    }

    /// The name under which a concretisation is counted.
    fn cause_name(&self, cause: ConcretisationCause) -> String {
        match cause {
            ConcretisationCause::Instruction => {
                format!("{:?}", self.insn.mnemonic()).to_lowercase()
            }
            ConcretisationCause::Address => "addresses".to_owned(),
            ConcretisationCause::SystemCall => "arguments of system calls".to_owned(),
            ConcretisationCause::Count => "lengths of string instructions".to_owned(),
        }
    }

    /// A condition has the value that it has in the recorded run.
    pub(super) fn constrain(&mut self, condition: Expr, kind: ConstraintKind) {
        if self.dag.constant_value(condition).is_some() {
            return;
        }
        let holds = match self.dag.value(condition) {
            0 => self.dag.not(condition),
            _ => condition,
        };
        if let ConstraintKind::Concretised(cause) = kind {
            self.path.count(self.cause_name(cause));
        }
        self.path.add(holds, self.insn.ip(), kind);
    }

    /// An expression has the value that it has in the recorded run.
    pub(super) fn concretise(&mut self, of: Expr, cause: ConcretisationCause) {
        if self.dag.constant_value(of).is_some() {
            return;
        }
        let value = self.dag.value(of);
        let constant = self.dag.constant(self.dag.width(of), value);
        let same = self.dag.eq(of, constant);
        self.constrain(same, ConstraintKind::Concretised(cause));
    }

    /// Lets every symbolic operand be what it was, because the instruction is not modelled.
    pub fn concretise_operands(&mut self, gprs: u32, vectors: &[usize], flags: &[FlagName]) {
        let cause = ConcretisationCause::Instruction;
        for register in (0..16).filter(|register| gprs >> register & 1 != 0) {
            if let Some(expr) = self.thread.gprs[register] {
                self.concretise(expr, cause);
            }
        }
        for &name in flags {
            let expr = self.flag(name);
            self.concretise(expr, cause);
        }
        for &number in vectors {
            let bytes: Vec<Expr> = self.thread.vectors[number]
                .iter()
                .flatten()
                .copied()
                .collect();
            bytes
                .into_iter()
                .for_each(|byte| self.concretise(byte, cause));
        }
        for load in self.loads {
            self.concretise_memory(load.addr, load.bytes.len() as u64);
        }
        for mask in 0..8 {
            let reads = self
                .masks
                .iter()
                .any(|(number, _)| usize::from(*number) == mask);
            if let Some(expr) = self.thread.masks[mask].filter(|_| reads) {
                self.concretise(expr, cause);
            }
        }
    }

    /// Lets the arguments of a system call be what they were, and counts symbolic bytes that leave the program.
    pub fn system_call(&mut self) {
        let number = self.thread.registers[RAX];
        let call = system_call(number);
        let registers = &ARGUMENTS[..call.arguments];
        for &register in registers {
            if let Some(expr) = self.thread.gprs[register] {
                self.concretise(expr, ConcretisationCause::SystemCall);
            }
        }
        let values = ARGUMENTS.map(|register| self.thread.registers[register]);
        /// Standard output and standard error: people and logs read them.
        const TERMINALS: [u64; 2] = [1, 2];
        if let Some((fd, at, len)) = call.sends
            && !TERMINALS.contains(&values[fd])
        {
            let (addr, len) = (values[at], values[len].min(MOST_SENT));
            self.memory.read_sources(addr, len, self.sources, self.dag);
            if self.memory.is_touched(addr, len) {
                let sent = (0..len).filter(|at| self.memory.get(addr.wrapping_add(*at)).is_some());
                self.path.sent += sent.count() as u64;
            }
        }
        self.thread.awaited = call.writes.map(|(to, written)| (values[to], written));
        self.thread.gprs[RAX] = None;
    }

    /// Lets every byte of a range be what it was.
    pub fn concretise_memory(&mut self, addr: u64, len: u64) {
        for index in 0..len {
            if let Some(byte) = self.memory.get(addr.wrapping_add(index)) {
                self.concretise(byte, ConcretisationCause::Instruction);
            }
        }
    }

    /// A flag as an expression of one bit.
    pub(super) fn flag(&mut self, name: FlagName) -> Expr {
        let recorded = self.thread.has_flag(name);
        let index = name as usize;
        let expr = match self.thread.flags[index] {
            Flag::Concrete => return self.dag.constant(1, u128::from(recorded)),
            Flag::Known(expr) => expr,
            Flag::Of(source) => flag(self.dag, name, source),
        };
        if (self.dag.value(expr) != 0) != recorded {
            self.path.mismatch(self.insn.ip(), "a flag");
            self.thread.flags[index] = Flag::Concrete;
            return self.dag.constant(1, u128::from(recorded));
        }
        self.thread.flags[index] = Flag::Known(expr);
        expr
    }

    /// A condition as an expression of one bit.
    pub(super) fn condition(&mut self, code: ConditionCode) -> Expr {
        use ConditionCode as C;
        use ConditionName as Name;
        let (name, negated) = match code {
            C::o => (Name::Overflow, false),
            C::no => (Name::Overflow, true),
            C::b => (Name::Below, false),
            C::ae => (Name::Below, true),
            C::e => (Name::Equal, false),
            C::ne => (Name::Equal, true),
            C::be => (Name::BelowOrEqual, false),
            C::a => (Name::BelowOrEqual, true),
            C::s => (Name::Sign, false),
            C::ns => (Name::Sign, true),
            C::p => (Name::Parity, false),
            C::np => (Name::Parity, true),
            C::l => (Name::Less, false),
            C::ge => (Name::Less, true),
            C::le => (Name::LessOrEqual, false),
            C::g => (Name::LessOrEqual, true),
            C::None => return self.dag.constant(1, 1),
        };
        let holds = self.plain_condition(name);
        if negated { self.dag.not(holds) } else { holds }
    }

    fn plain_condition(&mut self, name: ConditionName) -> Expr {
        use ConditionName as Name;
        // Flags of one subtraction are a comparison of its operands, which is easier to solve.
        let needed: &[FlagName] = match name {
            Name::Overflow | Name::Sign | Name::Parity => &[],
            Name::Below => &[FlagName::Carry],
            Name::Equal => &[FlagName::Zero],
            Name::BelowOrEqual => &[FlagName::Carry, FlagName::Zero],
            Name::Less => &[FlagName::Sign, FlagName::Overflow],
            Name::LessOrEqual => &[FlagName::Zero, FlagName::Sign, FlagName::Overflow],
        };
        let mut sources = needed.iter().map(|&flag| self.thread.flags[flag as usize]);
        if let Some(first @ Flag::Of(FlagSource::Difference { a, b, .. })) = sources.next()
            && sources.all(|source| source == first)
            && let Some(holds) = comparison(self.dag, name, a, b)
        {
            return holds;
        }
        match name {
            Name::Overflow => self.flag(FlagName::Overflow),
            Name::Below => self.flag(FlagName::Carry),
            Name::Equal => self.flag(FlagName::Zero),
            Name::Sign => self.flag(FlagName::Sign),
            Name::Parity => self.flag(FlagName::Parity),
            Name::BelowOrEqual => {
                let (carry, zero) = (self.flag(FlagName::Carry), self.flag(FlagName::Zero));
                self.dag.or(carry, zero)
            }
            Name::Less => {
                let (sign, overflow) = (self.flag(FlagName::Sign), self.flag(FlagName::Overflow));
                self.dag.xor(sign, overflow)
            }
            Name::LessOrEqual => {
                let less = self.plain_condition(Name::Less);
                let zero = self.flag(FlagName::Zero);
                self.dag.or(less, zero)
            }
        }
    }

    /// Sets all flags by what an operation did.
    pub(super) fn set_flags(&mut self, source: FlagSource) {
        self.thread.flags = [Flag::Of(source); 5];
    }

    pub(super) fn set_flag(&mut self, name: FlagName, to: Expr) {
        self.thread.flags[name as usize] = match self.dag.constant_value(to) {
            Some(_) => Flag::Concrete,
            None => Flag::Known(to),
        };
    }

    /// All flags are 0.
    pub(super) fn clear_flags(&mut self) {
        self.thread.flags = [Flag::Concrete; 5];
    }

    /// Flags that the instruction leaves undefined are what the processor computed.
    pub(super) fn undefined(&mut self, flags: &[FlagName]) {
        for &name in flags {
            self.thread.flags[name as usize] = Flag::Concrete;
        }
    }

    pub(super) fn binary(&mut self, operation: BinaryOperation, a: Expr, b: Expr) -> Expr {
        self.dag.binary(operation, a, b)
    }
}

/// Whether an instruction leaves all registers and memory as they are, wherever its memory operand is: a hint, a flush or a fence.
fn changes_nothing(mnemonic: Mnemonic) -> bool {
    use Mnemonic as M;
    matches!(
        mnemonic,
        M::Nop
            | M::Reservednop
            | M::Endbr64
            | M::Pause
            | M::Prefetch
            | M::Prefetcht0
            | M::Prefetcht1
            | M::Prefetcht2
            | M::Prefetchnta
            | M::Prefetchw
            | M::Prefetchwt1
            | M::Clflush
            | M::Clflushopt
            | M::Clwb
            | M::Cldemote
            | M::Sfence
            | M::Mfence
            | M::Lfence
    )
}

/// Forms of string instructions.
trait StringForm {
    /// Whether it is one of those that are modelled, with or without repetition.
    fn rep_form(&self) -> bool;
}

impl StringForm for Instruction {
    fn rep_form(&self) -> bool {
        use Mnemonic as M;
        // Some mnemonics also name vector instructions.
        self.op_count() == 2
            && matches!(
                self.mnemonic(),
                M::Movsb
                    | M::Movsw
                    | M::Movsd
                    | M::Movsq
                    | M::Stosb
                    | M::Stosw
                    | M::Stosd
                    | M::Stosq
                    | M::Cmpsb
                    | M::Cmpsw
                    | M::Cmpsd
                    | M::Cmpsq
                    | M::Scasb
                    | M::Scasw
                    | M::Scasd
                    | M::Scasq
            )
    }
}
