//! The analysis of one function: the address of each store, and the arguments of each call.

use std::collections::{BTreeMap, HashMap};

use brownout_libraries::converts_identifier;

use super::blocks::Blocks;
use super::code_module::CodeModule;
use super::frames::FrameRange;
use super::state::State;
use super::value::{Base, Value};
use super::variables::InFrame;
use crate::arch::{
    CLOBBERED_BY_CALLS, Flow, GENERAL_REGISTERS, InstructionEffect, PARAMETERS, REGISTERS, RESULTS,
    Source,
};
use crate::types::{DataTypes, FrameBase, TypedModuleId};

/// How often a block is analysed at most. Values change only a few times; the limit is for damaged debug information.
const MOST_VISITS: u32 = 32;

/// How often a function is analysed at most, each time with what the last time has learned.
const MOST_ROUNDS: u32 = 3;

/// What is known of the values in a function.
#[derive(Debug, Default)]
pub(crate) struct FunctionFlow {
    /// The address to which each instruction stores.
    pub(crate) stores: HashMap<u64, Value>,
    /// The registers before each call, by the address that it returns to.
    pub(crate) calls: HashMap<u64, [Value; REGISTERS]>,
    /// The registers before each jump out of the function: a call in place of its return.
    pub(crate) tail_calls: Vec<[Value; REGISTERS]>,
}

pub(super) struct Analysis<'a> {
    module: &'a CodeModule,
    id: TypedModuleId,
    pub(super) types: &'a mut DataTypes,
    pub(super) blocks: Blocks,
    pub(super) frame_base: FrameBase,
    pub(super) in_frame: Vec<InFrame>,
    /// Values that variables give registers before an instruction.
    pub(super) described: BTreeMap<u64, Vec<(u16, Value)>>,
    /// What unknown values turned out to be, later in the function: where they were stored, or which variable they became.
    learned: HashMap<(u64, u16), Value>,
    /// What unknown values would be, if they were addresses in the objects that lie at a known distance from them.
    near: HashMap<(u64, u16), Vec<Value>>,
}

/// Analyses a function, or a part of one.
pub(crate) fn analyse(
    module: &CodeModule,
    id: TypedModuleId,
    types: &mut DataTypes,
    range: &FrameRange,
) -> FunctionFlow {
    let variables = types.function_at(id, range.code.start).unwrap_or_default();
    let mut analysis = Analysis {
        module,
        id,
        types,
        blocks: Blocks::of(&module.imports, &range.code),
        frame_base: variables.frame_base,
        in_frame: Vec::new(),
        described: BTreeMap::new(),
        learned: HashMap::new(),
        near: HashMap::new(),
    };
    let mut start = State::at_start(range);
    analysis.describe(&variables, range, &mut start);
    let mut states = BTreeMap::new();
    for _ in 0..MOST_ROUNDS {
        let known = analysis.learned.len();
        start.registers = start.registers.map(|value| analysis.resolved(value));
        states = analysis.fixed_point(range.code.start, start.clone());
        if analysis.learned.len() == known {
            break;
        }
    }
    analysis.collect(states)
}

impl Analysis<'_> {
    /// The states at the starts of blocks, when nothing changes any more.
    fn fixed_point(&mut self, start: u64, state: State) -> BTreeMap<u64, State> {
        let mut states = BTreeMap::from([(start, state)]);
        let mut visits: HashMap<u64, u32> = HashMap::new();
        let mut waiting = vec![start];
        while let Some(block) = waiting.pop() {
            let visits = visits.entry(block).or_default();
            *visits += 1;
            if *visits > MOST_VISITS {
                continue;
            }
            let mut state = states[&block].clone();
            for (next, state) in self.run(block, &mut state, &mut |_, _, _| {}) {
                match states.get_mut(&next) {
                    Some(known) => {
                        if known.join(&state, next) && !waiting.contains(&next) {
                            waiting.push(next);
                        }
                    }
                    None => {
                        states.insert(next, state);
                        waiting.push(next);
                    }
                }
            }
        }
        states
    }

    fn collect(&mut self, states: BTreeMap<u64, State>) -> FunctionFlow {
        let mut flow = FunctionFlow::default();
        for (block, mut state) in states {
            self.run(block, &mut state, &mut |at, analysis: &Self, state| {
                let instruction = &analysis.blocks.instructions[&at];
                if let Some(writes) = instruction.writes {
                    let mut value = analysis.address(state.sum(writes));
                    if instruction.repeats > 0 {
                        value = value.add(Value::multiple(instruction.repeats as i64));
                    }
                    flow.stores.insert(at, value);
                }
                if instruction.flow == Flow::Call {
                    let registers = state.registers.map(|value| analysis.address(value));
                    flow.calls.insert(at + instruction.len, registers);
                }
                let leaves = match instruction.flow {
                    Flow::Jump(target) | Flow::Branch(target) => {
                        !analysis.blocks.instructions.contains_key(&target)
                    }
                    Flow::Computed => analysis.blocks.computed.is_empty(),
                    Flow::Next | Flow::Call | Flow::End => false,
                };
                if leaves {
                    let registers = state.registers.map(|value| analysis.address(value));
                    flow.tail_calls.push(registers);
                }
            });
        }
        flow
    }

    /// Runs the block at `start`. Returns the states with which other blocks are entered.
    fn run(
        &mut self,
        start: u64,
        state: &mut State,
        seen: &mut dyn FnMut(u64, &Self, &State),
    ) -> Vec<(u64, State)> {
        let mut at = start;
        loop {
            for (register, value) in self.described.get(&at).cloned().into_iter().flatten() {
                let known = state.register(register);
                self.learn(known, value);
                state.set(register, self.better(known, value));
            }
            seen(at, self, state);
            let instruction = self.blocks.instructions[&at].clone();
            for step in &instruction.steps {
                self.step(at, state, step);
            }
            if instruction.flow == Flow::Call {
                self.call(at, at + instruction.len, state);
            }
            match *self.blocks.next(at, &instruction) {
                [next] if !self.blocks.starts.contains(&next) => at = next,
                ref next => return next.iter().map(|&next| (next, state.clone())).collect(),
            }
        }
    }

    /// Of what the analysis and a variable say about a register, what says more.
    fn better(&self, known: Value, described: Value) -> Value {
        let (Base::Object(known_type), Base::Object(described_type)) = (known.base, described.base)
        else {
            return described;
        };
        let apart = known.offset.wrapping_sub(described.offset);
        let is_inside = known.stride == 0
            && u64::try_from(apart)
                .is_ok_and(|offset| self.types.contains(known_type, offset, described_type));
        if is_inside { known } else { described }
    }

    fn step(&mut self, at: u64, state: &mut State, step: &InstructionEffect) {
        match step {
            InstructionEffect::Set(register, source) => {
                let value = self.evaluate(at, *register, state, source);
                state.set(*register, value);
            }
            InstructionEffect::Store { to, size, from } => {
                let address = state.sum(*to);
                let value = from.map(|register| state.register(register));
                if let Some(offset) = address.in_frame() {
                    state.store(at, offset, *size, value);
                }
                // A value that a variable or a member gets has its type, also where it was before.
                if let Some(untyped) = value.filter(|value| !value.has_type())
                    && let Some(typed) = self.typed_content(at, state, address)
                {
                    self.learn(untyped, typed);
                    if matches!(untyped.base, Base::Unknown { .. }) {
                        state.replace(untyped, typed);
                    }
                }
            }
        }
    }

    /// Notes what an unknown value is.
    fn learn(&mut self, value: Value, typed: Value) {
        if let Base::Unknown {
            at,
            register,
            factor: 1,
        } = value.base
            && (value.stride, typed.stride) == (0, 0)
            && matches!(typed.base, Base::Object(_))
        {
            if value.offset == 0 {
                self.learned.entry((at, register)).or_insert(typed);
                return;
            }
            let near = self.near.entry((at, register)).or_default();
            let typed = typed.plus(value.offset.wrapping_neg());
            if !near.contains(&typed) {
                near.push(typed);
            }
        }
    }

    /// A value as an address: of an unknown one, in the largest object near it. An allocator that hands out memory from its end, for
    /// one, has the end in a register, not the object.
    fn address(&self, value: Value) -> Value {
        let value = self.resolved(value);
        let Base::Unknown {
            at,
            register,
            factor: 1,
        } = value.base
        else {
            return value;
        };
        let near = self.near.get(&(at, register)).into_iter().flatten();
        let inside = near.filter_map(|near| {
            let Base::Object(ty) = near.base else {
                return None;
            };
            let address = near.plus(value.offset);
            let size = self.types.get(ty).size;
            let is_inside = u64::try_from(address.offset).is_ok_and(|offset| offset < size);
            let stride = value.stride;
            is_inside.then_some((size, Value { stride, ..address }))
        });
        inside
            .max_by_key(|&(size, _)| size)
            .map_or(value, |(_, address)| address)
    }

    /// A value, with what has been learned about it.
    fn resolved(&self, value: Value) -> Value {
        match value.base {
            Base::Unknown {
                at,
                register,
                factor: 1,
            } => match self.learned.get(&(at, register)) {
                Some(learned) => Value {
                    stride: value.stride,
                    ..learned.plus(value.offset)
                },
                None => value,
            },
            _ => value,
        }
    }

    /// What the instruction at `at` sets a register to.
    fn set_by(&self, at: u64, register: u16) -> Value {
        self.resolved(Value::of(Base::unknown(at, register)))
    }

    fn evaluate(&mut self, at: u64, register: u16, state: &State, source: &Source) -> Value {
        const WORD: u64 = 8;
        let unknown = self.set_by(at, register);
        match source {
            Source::Sum(sum) => state.sum(*sum),
            Source::Product(register, factor) => state.register(*register).times(*factor),
            Source::Multiple(factor) => Value::multiple(*factor),
            Source::Load { from, size: WORD } => {
                let loaded = self.load(at, state, state.sum(*from));
                loaded.unwrap_or(unknown)
            }
            Source::AddLoad { from } => {
                let loaded = self.load(at, state, state.sum(*from));
                state.register(register).add(loaded.unwrap_or(unknown))
            }
            Source::Unless(source) => {
                let other = self.evaluate(at, register, state, source);
                state.register(register).join(other, at, register)
            }
            Source::Load { .. } | Source::Unknown => unknown,
        }
    }

    /// The word at an address.
    fn load(&mut self, at: u64, state: &State, address: Value) -> Option<Value> {
        if let Some(offset) = address.in_frame() {
            let slot = state.slot(offset);
            if let Some(value) = slot.filter(|value| value.has_type()) {
                return Some(value);
            }
            return self.typed_content(at, state, address).or(slot);
        }
        let slot = address.known().map(|address| address as u64);
        if let Some(target) = slot.and_then(|slot| self.module.imports.address_in_slot(slot)) {
            return Some(Value::constant(target as i64));
        }
        self.typed_content(at, state, address)
    }

    /// What memory at an address holds, according to the type of the variable or object there.
    fn typed_content(&mut self, at: u64, state: &State, address: Value) -> Option<Value> {
        if let Some(offset) = address.in_frame() {
            return self.frame_content(at, state, offset).map(Value::of);
        }
        if let Some(address) = address.known() {
            let address = address as u64;
            let symbol = self.module.data.before(address);
            let (ty, offset) = self.types.global_at(self.id, at, address, symbol)?;
            let base = self.types.content(ty, i64::try_from(offset).ok()?, 0)?;
            return Some(Value::of(base));
        }
        let Base::Object(ty) = address.base else {
            return None;
        };
        let base = self.types.content(ty, address.offset, address.stride)?;
        Some(Value::of(base))
    }

    /// A call: its result, and what it leaves of the registers.
    fn call(&mut self, at: u64, returns_to: u64, state: &mut State) {
        let identifier = PARAMETERS.map(|register| state.register(register))[1];
        let vectors = GENERAL_REGISTERS as u16..REGISTERS as u16;
        for register in CLOBBERED_BY_CALLS.into_iter().chain(vectors) {
            state.set(register, self.set_by(at, register));
        }
        let imports = &self.module.imports;
        let name = imports.callee(returns_to).map(str::to_owned);
        let target = imports.target(returns_to);
        let name = name.or_else(|| self.types.function_name(self.id, target?));
        if let (Base::Identifier(ty), Some(true)) =
            (identifier.base, name.as_deref().map(converts_identifier))
        {
            let base = Base::Object(ty);
            state.set(RESULTS[0], Value { base, ..identifier });
            return;
        }
        let defined = target.and_then(|target| self.types.result_at(self.id, target));
        let result = defined.or_else(|| self.types.result_of(self.id, at, name.as_deref()?));
        let Some(ty) = result else {
            return;
        };
        for (register, offset) in RESULTS.into_iter().zip([0, 8]) {
            let is_whole = self.types.get(ty).size > offset as u64;
            if let (Some(base), true) = (self.types.content(ty, offset, 0), is_whole) {
                state.set(register, Value::of(base));
            }
        }
    }
}
