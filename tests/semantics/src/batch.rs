//! A batch of cases: makes them, runs them, and compares what replay says with what the CPU did.
//!
//! Replay compares by itself the value of each expression with the recorded one. Here the expressions of the path of one input are
//! evaluated on another input, and compared with what the CPU leaves on that one: so an expression that is right by chance, or a value that
//! was taken for a constant without a constraint, is found, too.

use anyhow::{Result, ensure};
use brownout_symex::{
    ConcretisationCause, Constraint, ConstraintKind, Dag, Expr, ReplayQuestions, ReplayedPath,
    VariableTable, replay,
};
use iced_x86::Code;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::assembly::Assembly;
use crate::case::{BRANCH, Case};
use crate::forms;
use crate::host::Host;
use crate::layout::{CASE, OUTPUT};
use seeded_random::SeededRandom;

/// What cases are made of.
pub enum Content<'a> {
    /// One instruction each, in turn, from this one on.
    Instructions { codes: &'a [Code], from: usize },
    /// Several instructions each.
    Sequences(&'a [Code]),
}

/// What a batch has shown.
#[derive(Default)]
pub struct BatchResult {
    /// Cases in which replay and the CPU differ, each with its instructions.
    pub failures: Vec<String>,
    /// Instructions that replay took for what they were, each with the case in which it did.
    pub concretised: FxHashMap<Code, String>,
    /// Instructions of cases that were compared on the other input.
    pub compared: FxHashSet<Code>,
    pub cases: usize,
    pub cases_compared: usize,
    pub values: usize,
    pub steps: u64,
}

/// The two inputs of a batch, and which of their bytes are symbolic. The others are the same in both.
struct Inputs {
    recorded: Vec<u8>,
    other: Vec<u8>,
    is_symbolic: Vec<bool>,
}

impl Inputs {
    fn new(random: &mut SeededRandom, cases: usize) -> Self {
        let mut inputs = Inputs {
            recorded: Vec::new(),
            other: Vec::new(),
            is_symbolic: Vec::new(),
        };
        for _ in 0..cases {
            // How different the inputs of the case are, and how much of it is concrete.
            let changed = random.pick(&[100, 100, 30, 5]);
            let concrete = random.pick(&[0, 0, 20, 60]);
            let alike = random.pick(&[0, 0, 50]);
            let mut last = 0;
            for _ in 0..CASE / 8 {
                let value = match random.chance(alike) {
                    true => last,
                    false => operand(random),
                };
                last = value;
                let is_symbolic = !random.chance(concrete);
                let other = match is_symbolic && random.chance(changed) {
                    true => operand(random),
                    false => value,
                };
                inputs.recorded.extend(value.to_le_bytes());
                inputs.other.extend(other.to_le_bytes());
                inputs.is_symbolic.extend([is_symbolic; 8]);
            }
        }
        inputs
    }
}

/// Eight bytes that are interesting to arithmetic, as one number or several.
fn operand(random: &mut SeededRandom) -> u64 {
    match random.below(6) {
        0 => {
            let byte = random.pick(&[0, 1, 0x7f, 0x80, 0xff, b'a', b'0']);
            u64::from_le_bytes([byte; 8])
        }
        1 => {
            let edges = [0u8, 1, 0x7f, 0x80, 0xff];
            u64::from_le_bytes([0; 8].map(|_: u8| random.pick(&edges)))
        }
        _ => random.value(),
    }
}

/// Makes a batch from a seed and compares.
pub fn run(host: &Host, seed: u64, count: usize, content: &Content<'_>) -> Result<BatchResult> {
    let mut random = SeededRandom::new(seed);
    let mut assembly = Assembly::new();
    let mut cases = Vec::new();
    let mut tries = 0;
    while cases.len() < count {
        let number = cases.len();
        let case = match content {
            Content::Instructions { codes, from } => {
                let code = codes[(from + tries / TRIES) % codes.len()];
                Case::of_instruction(&mut random, &mut assembly, number, code)
            }
            Content::Sequences(codes) => {
                Case::of_sequence(&mut random, &mut assembly, number, codes)
            }
        };
        match case {
            // The next instruction's turn.
            Some(case) => {
                tries = (tries / TRIES + 1) * TRIES;
                cases.push(case);
            }
            None => tries += 1,
        }
    }
    let code = assembly.finish(forms::has_avx());
    let inputs = Inputs::new(&mut random, count);
    let native = host.run_natively(&code, &inputs.recorded)?;
    let other = host.run_natively(&code, &inputs.other)?;
    let (under_engine, records) = host.record(&code, &inputs.recorded)?;
    ensure!(
        native == under_engine,
        "the engine changes what the code leaves"
    );
    let mut variables = VariableTable::default();
    let is_symbolic = |_, offset: u64| inputs.is_symbolic.get(offset as usize) == Some(&true);
    let questions = ReplayQuestions {
        is_symbolic: &is_symbolic,
        is_own: &|_| true,
        stop: &|| false,
    };
    let path = replay(&records, &mut variables, questions)?;
    let mut judge = Judge::new(&path, &mut variables, &inputs, [&native, &other]);
    cases
        .iter()
        .enumerate()
        .for_each(|(number, case)| judge.judge(number, case));
    judge.mismatches(&cases);
    Ok(judge.result)
}

/// The number of the symbolic source.
const SOURCE: u32 = 0;
/// How often operands are chosen for an instruction before it is left out.
const TRIES: usize = 8;

struct Judge<'a> {
    path: &'a ReplayedPath,
    constraints: Vec<&'a Constraint>,
    /// Values on the other input.
    known: FxHashMap<Expr, u128>,
    native: [&'a [u8]; 2],
    result: BatchResult,
}

impl<'a> Judge<'a> {
    fn new(
        path: &'a ReplayedPath,
        variables: &mut VariableTable,
        inputs: &Inputs,
        native: [&'a [u8]; 2],
    ) -> Self {
        let mut known = FxHashMap::default();
        for (offset, &byte) in inputs.other.iter().enumerate() {
            let variable = variables.variable(SOURCE, offset as u64);
            if let Some(leaf) = path.dag.expression_of(variable) {
                known.insert(leaf, u128::from(byte));
            }
        }
        let mut constraints: Vec<&Constraint> = path.constraints.iter().collect();
        constraints.sort_by_key(|it| it.pc);
        Judge {
            path,
            constraints,
            known,
            native,
            result: BatchResult {
                steps: path.steps,
                ..BatchResult::default()
            },
        }
    }

    /// The constraints of a case, with what they are on the other input.
    fn constraints_of(&mut self, case: &Case) -> Vec<(&'a Constraint, bool)> {
        let start = self.constraints.partition_point(|it| it.pc < case.start);
        let end = self.constraints.partition_point(|it| it.pc < case.end);
        let of: Vec<&Constraint> = self.constraints[start..end].to_vec();
        of.into_iter()
            .map(|it| (it, evaluate(&self.path.dag, it.holds, &mut self.known) == 1))
            .collect()
    }

    fn judge(&mut self, number: usize, case: &Case) {
        self.result.cases += 1;
        let constraints = self.constraints_of(case);
        let mut holds = true;
        for (constraint, on_other) in constraints {
            match constraint.kind {
                ConstraintKind::Branch { .. } => {
                    let taken = self.native.map(|all| all[number * CASE + BRANCH]);
                    if (taken[0] == taken[1]) != on_other {
                        self.fail(case, &format!("the branch: it is taken like {taken:?}"));
                    }
                }
                ConstraintKind::Concretised(ConcretisationCause::Instruction) => {
                    let pc = constraint.pc;
                    if let [code] = case.codes[..]
                        && (case.tested.0..case.tested.1).contains(&pc)
                    {
                        let title = || case.title.clone();
                        self.result.concretised.entry(code).or_insert_with(title);
                    }
                }
                _ => {}
            }
            holds &= on_other;
        }
        if !holds {
            return;
        }
        self.result.cases_compared += 1;
        self.result.compared.extend(&case.codes);
        for output in &case.outputs {
            for index in 0..output.len {
                let at = number * CASE + output.offset + index;
                self.result.values += 1;
                let computed = match self.path.memory.get(&(OUTPUT + at as u64)) {
                    Some(&expr) => evaluate(&self.path.dag, expr, &mut self.known) as u8,
                    None => self.native[0][at],
                };
                let actual = self.native[1][at];
                if computed != actual {
                    let what = format!(
                        "byte {index} of {}: replay computes {computed:#x}, the CPU {actual:#x}",
                        output.name
                    );
                    return self.fail(case, &what);
                }
            }
        }
    }

    /// Mismatches of replay itself, by case.
    fn mismatches(&mut self, cases: &[Case]) {
        for mismatch in &self.path.mismatches {
            let at = mismatch.pc;
            let case = cases
                .iter()
                .find(|case| (case.start..case.end).contains(&at));
            match case {
                Some(case) => self.fail(case, &format!("replay differs in {}", mismatch.what)),
                None => {
                    let text = format!("replay differs in {} at {at:#x}", mismatch.what);
                    self.result.failures.push(text);
                }
            }
        }
    }

    fn fail(&mut self, case: &Case, what: &str) {
        self.result
            .failures
            .push(format!("{}\n    {what}", case.title));
    }
}

/// The value of an expression on the other input.
fn evaluate(dag: &Dag, of: Expr, known: &mut FxHashMap<Expr, u128>) -> u128 {
    dag.evaluate(of, known).expect("all variables have values")
}
