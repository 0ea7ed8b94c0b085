//! Operands: reads and writes of registers and memory, and the addresses of memory operands.

use iced_x86::{OpKind, Register};

use super::{InstructionReplay, Modelled, Unmodelled};
use crate::arch::x86_64::machine::small_leaf;
use crate::expression::Expr;
use crate::path::{ConcretisationCause, TableLoad};

const RSP: usize = 4;

impl InstructionReplay<'_, '_> {
    /// The width of an operand in bits.
    pub(super) fn width(&self, operand: u32) -> u32 {
        let bytes = match self.insn.op_kind(operand) {
            OpKind::Register => self.insn.op_register(operand).size(),
            OpKind::Memory => self.insn.memory_size().size(),
            OpKind::Immediate8 => 1,
            OpKind::Immediate16 | OpKind::Immediate8to16 => 2,
            OpKind::Immediate32 | OpKind::Immediate8to32 => 4,
            _ => 8,
        };
        8 * bytes as u32
    }

    /// An operand of an instruction of general-purpose registers. Immediates have the width of the first operand.
    pub(super) fn read(&mut self, operand: u32) -> Result<Expr, Unmodelled> {
        match self.insn.op_kind(operand) {
            OpKind::Register => self.register(self.insn.op_register(operand)),
            OpKind::Memory => {
                let size = self.insn.memory_size().size();
                self.load(size)
            }
            OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 => {
                let target = self.insn.near_branch_target();
                Ok(self.dag.constant(64, u128::from(target)))
            }
            OpKind::FarBranch16 | OpKind::FarBranch32 => Err(Unmodelled),
            _ if self.insn.try_immediate(operand).is_ok() => {
                let value = self.insn.immediate(operand);
                let width = self.width(0);
                let value = value as i64 as i128 as u128;
                Ok(self.dag.constant(width, value))
            }
            _ => Err(Unmodelled),
        }
    }

    pub(super) fn write(&mut self, operand: u32, value: Expr) -> Modelled {
        match self.insn.op_kind(operand) {
            OpKind::Register => self.set_register(self.insn.op_register(operand), value),
            OpKind::Memory => {
                let addr = self.address();
                self.store(addr, value);
                Ok(())
            }
            _ => Err(Unmodelled),
        }
    }

    /// All 64 bits of a general-purpose register.
    pub(super) fn gpr(&mut self, number: usize) -> Expr {
        match self.thread.gprs[number] {
            Some(expr) => expr,
            None => {
                let value = self.thread.registers[number];
                self.dag.constant(64, u128::from(value))
            }
        }
    }

    pub(super) fn set_gpr(&mut self, number: usize, value: Expr) {
        if number == RSP {
            // Pushes, calls and returns change it without being replayed.
            self.concretise(value, ConcretisationCause::Address);
            self.thread.gprs[number] = None;
            return;
        }
        // Also if it is a constant: the recorded value is that before the instruction.
        self.thread.gprs[number] = Some(value);
    }

    pub(super) fn register(&mut self, register: Register) -> Result<Expr, Unmodelled> {
        if !register.is_gpr() {
            return Err(Unmodelled);
        }
        let full = self.gpr(gpr_number(register));
        let low = if is_high(register) { 8 } else { 0 };
        Ok(self.dag.extract(full, low, 8 * register.size() as u32))
    }

    pub(super) fn set_register(&mut self, register: Register, value: Expr) -> Modelled {
        if !register.is_gpr() {
            return Err(Unmodelled);
        }
        let number = gpr_number(register);
        let old = self.gpr(number);
        let new = match register.size() {
            8 => value,
            4 => self.dag.zero_extend(value, 64),
            2 => {
                let rest = self.dag.extract(old, 16, 48);
                self.dag.concat(rest, value)
            }
            _ if is_high(register) => {
                let (rest, low) = (self.dag.extract(old, 16, 48), self.dag.extract(old, 0, 8));
                let low = self.dag.concat(value, low);
                self.dag.concat(rest, low)
            }
            _ => {
                let rest = self.dag.extract(old, 8, 56);
                self.dag.concat(rest, value)
            }
        };
        self.set_gpr(number, new);
        Ok(())
    }

    /// Where the memory operand is in the recorded run.
    pub(super) fn address(&self) -> u64 {
        let memory = (0..self.insn.op_count())
            .find(|&operand| self.insn.op_kind(operand) == OpKind::Memory)
            .unwrap_or(0);
        let value = |register: Register, _, _| Some(self.concrete(register));
        self.insn.virtual_address(memory, 0, value).unwrap_or(0)
    }

    /// A register that is part of an address, as recorded.
    fn concrete(&self, register: Register) -> u64 {
        let registers = &self.thread.registers;
        match register {
            Register::FS => registers[17],
            Register::GS => registers[18],
            Register::RIP | Register::EIP => self.insn.next_ip(),
            _ if register.is_gpr64() => registers[gpr_number(register)],
            _ if register.is_gpr32() => registers[gpr_number(register)] & 0xffff_ffff,
            _ => 0,
        }
    }

    /// The address of the memory operand as an expression of 64 bits; without its segment for `lea`.
    pub(super) fn address_expression(&mut self, with_segment: bool) -> Expr {
        let insn = self.insn;
        if insn.is_ip_rel_memory_operand() {
            return self
                .dag
                .constant(64, u128::from(insn.memory_displacement64()));
        }
        let narrow = |register: Register| register.is_gpr32();
        let is_narrow = narrow(insn.memory_base()) || narrow(insn.memory_index());
        let displacement = insn.memory_displacement64();
        let mut sum = self.dag.constant(64, u128::from(displacement));
        if insn.memory_base().is_gpr() {
            let base = self.gpr(gpr_number(insn.memory_base()));
            sum = self.dag.add_of(sum, base);
        }
        if insn.memory_index().is_gpr() {
            let index = self.gpr(gpr_number(insn.memory_index()));
            let scale = self.dag.constant(64, u128::from(insn.memory_index_scale()));
            let index = self.binary(crate::expression::BinaryOperation::Mul, index, scale);
            sum = self.dag.add_of(sum, index);
        }
        if is_narrow {
            let low = self.dag.extract(sum, 0, 32);
            sum = self.dag.zero_extend(low, 64);
        }
        if with_segment && matches!(insn.memory_segment(), Register::FS | Register::GS) {
            let base = self.concrete(insn.memory_segment());
            let base = self.dag.constant(64, u128::from(base));
            sum = self.dag.add_of(sum, base);
        }
        sum
    }

    /// Loads from a small table become a choice between its entries; other symbolic addresses are what they were.
    pub(super) fn resolve_addresses(&mut self) {
        self.path.table = None;
        let insn = self.insn;
        if insn.mnemonic() == iced_x86::Mnemonic::Lea || !has_memory(insn) {
            return;
        }
        let parts = [insn.memory_base(), insn.memory_index()];
        let is_symbolic = |register: &Register| {
            register.is_gpr() && self.thread.gprs[gpr_number(*register)].is_some()
        };
        if !parts.iter().any(is_symbolic) {
            return;
        }
        let address = self.address_expression(true);
        if self.dag.constant_value(address).is_some() {
            return;
        }
        let recorded = self.address();
        if self.dag.value(address) != u128::from(recorded) {
            self.path.mismatch(insn.ip(), "an address");
            return;
        }
        let size = insn.memory_size().size();
        use iced_x86::Mnemonic as M;
        let only_reads = matches!(
            insn.mnemonic(),
            M::Test | M::Cmp | M::Push | M::Jmp | M::Call
        );
        let is_plain_load =
            !self.loads.is_empty() && (only_reads || insn.op_kind(0) != OpKind::Memory);
        if is_plain_load
            && size <= 8
            && let Some(entry) = self.table_entry(address, size)
        {
            self.path.table = Some(TableLoad {
                entry,
                address,
                is_used: false,
            });
            return;
        }
        self.concretise(address, ConcretisationCause::Address);
    }

    /// What a load reads if its address takes few values and memory is known at all of them.
    fn table_entry(&mut self, address: Expr, size: usize) -> Option<Expr> {
        let (leaf, bits) = small_leaf(self.dag, address)?;
        let here = self.dag.value(leaf);
        let mut entries = Vec::new();
        let mut elsewhere = Vec::new();
        for value in 0..1u128 << bits {
            let at = self.dag.value_if(address, leaf, value)? as u64;
            match self.known_memory(at, size) {
                Some(entry) => entries.push((value, entry)),
                None if value == here => return None,
                None => elsewhere.push(value),
            }
        }
        // Inputs that would read what is not known are left out.
        for &value in &elsewhere {
            let value = self.dag.constant(bits, value);
            let is_it = self.dag.eq(leaf, value);
            let kind = crate::path::ConstraintKind::Concretised(ConcretisationCause::Address);
            self.constrain(is_it, kind);
        }
        let mut counts = std::collections::HashMap::new();
        for (_, entry) in &entries {
            *counts.entry(*entry).or_insert(0) += 1;
        }
        let mut chosen = { counts.iter() }
            .max_by_key(|(entry, count)| (**count, **entry))?
            .0
            .to_owned();
        let most = chosen;
        for (value, entry) in entries {
            if entry != most {
                let value = self.dag.constant(bits, value);
                let is_it = self.dag.eq(leaf, value);
                chosen = self.dag.select(is_it, entry, chosen);
            }
        }
        Some(chosen)
    }

    /// Memory that a neighbouring load would read.
    fn known_memory(&mut self, addr: u64, size: usize) -> Option<Expr> {
        self.memory
            .read_sources(addr, size as u64, self.sources, self.dag);
        let mut value = None;
        for index in 0..size as u64 {
            let at = addr.wrapping_add(index);
            let byte = match self.memory.get(at) {
                Some(byte) => byte,
                None => {
                    let byte = self.memory.image(at)?;
                    self.dag.constant(8, u128::from(byte))
                }
            };
            value = Some(match value {
                None => byte,
                Some(low) => self.dag.concat(byte, low),
            });
        }
        value
    }

    /// The memory operand's value, of at most 16 bytes.
    pub(super) fn load(&mut self, size: usize) -> Result<Expr, Unmodelled> {
        if let Some(entry) = self.loaded_from_table(size) {
            return Ok(entry);
        }
        let addr = self.address();
        self.load_at(addr, size)
    }

    /// The memory operand's bytes.
    pub(super) fn loaded_bytes(&mut self, size: usize) -> Result<Vec<Expr>, Unmodelled> {
        if let Some(entry) = self.loaded_from_table(size) {
            return Ok(self.split(entry));
        }
        let addr = self.address();
        self.load_bytes(addr, size)
    }

    /// The memory operand's value if its address is one of a table. An access of another size than the operand takes the address for what
    /// it was.
    fn loaded_from_table(&mut self, size: usize) -> Option<Expr> {
        let table = self.path.table.as_mut()?;
        let fits = self.dag.width(table.entry) == 8 * size as u32;
        table.is_used |= fits;
        fits.then_some(table.entry)
    }

    /// The value at an address that the instruction reads.
    pub(super) fn load_at(&mut self, addr: u64, size: usize) -> Result<Expr, Unmodelled> {
        let mut value: Option<Expr> = None;
        for byte in self.load_bytes(addr, size)? {
            value = Some(match value {
                None => byte,
                Some(low) => self.dag.concat(byte, low),
            });
        }
        value.ok_or(Unmodelled)
    }

    /// The bytes at an address that the instruction reads.
    pub(super) fn load_bytes(&mut self, addr: u64, size: usize) -> Result<Vec<Expr>, Unmodelled> {
        (0..size as u64)
            .map(|index| {
                let at = addr.wrapping_add(index);
                let recorded = self.loads.iter().find_map(|load| load.at(at));
                let recorded = recorded.ok_or(Unmodelled)?;
                if let Some(byte) = self.memory.get(at) {
                    if self.dag.value(byte) == u128::from(recorded) {
                        return Ok(byte);
                    }
                    // Something else has written there.
                    self.memory.set(at, None);
                    self.path.overwritten += 1;
                }
                Ok(self.dag.constant(8, u128::from(recorded)))
            })
            .collect()
    }

    /// Stores a value of whole bytes.
    pub(super) fn store(&mut self, addr: u64, value: Expr) {
        for index in 0..self.dag.width(value) / 8 {
            let byte = self.dag.extract(value, 8 * index, 8);
            self.store_byte(addr.wrapping_add(u64::from(index)), byte);
        }
    }

    pub(super) fn store_byte(&mut self, addr: u64, byte: Expr) {
        let is_constant = self.dag.constant_value(byte).is_some();
        self.memory.set(addr, (!is_constant).then_some(byte));
    }
}

fn has_memory(insn: &iced_x86::Instruction) -> bool {
    insn.op_kinds().any(|kind| kind == OpKind::Memory)
}

/// The hardware's number of a general-purpose register of any width.
pub fn gpr_number(register: Register) -> usize {
    (register.full_register() as usize).wrapping_sub(Register::RAX as usize) & 15
}

fn is_high(register: Register) -> bool {
    matches!(
        register,
        Register::AH | Register::BH | Register::CH | Register::DH
    )
}
