//! New inputs from old ones: AFL's havoc, splicing and tokens, by LibAFL, and mutations of lines.

use std::num::NonZero;

use libafl::HasMetadata as _;
use libafl::corpus::{Corpus as _, InMemoryCorpus, Testcase};
use libafl::inputs::BytesInput;
use libafl::mutators::{HavocScheduledMutator, Mutator, Tokens, havoc_mutations, tokens_mutations};
use libafl::state::{HasCorpus as _, HasMaxSize as _, HasRand as _, StdState};
use libafl_bolts::rands::{Rand, StdRand};
use libafl_bolts::tuples::Merge as _;

use crate::error::FuzzError;
use crate::grammar::Grammar;
use crate::line_recombination::LineSource;

type MutationState =
    StdState<InMemoryCorpus<BytesInput>, BytesInput, StdRand, InMemoryCorpus<BytesInput>>;

/// A random number below `limit`; 0 if that is 0.
pub fn below(limit: usize, rand: &mut impl Rand) -> usize {
    NonZero::new(limit).map_or(0, |limit| rand.below(limit))
}

/// A random element.
pub fn pick<'a, T>(all: &'a [T], rand: &mut impl Rand) -> Option<&'a T> {
    all.get(below(all.len(), rand))
}

/// What the mutations of all workers know at the start.
#[derive(Clone, Debug)]
pub struct MutationOptions {
    pub tokens: Vec<Vec<u8>>,
    pub grammar: Option<Grammar>,
    pub longest_input: usize,
}

/// The mutations of one worker.
pub struct Mutations {
    state: MutationState,
    havoc: Box<dyn Mutator<BytesInput, MutationState>>,
    lines: LineSource,
    inputs: Vec<Vec<u8>>,
    has_grammar: bool,
}

impl Mutations {
    pub fn new(options: &MutationOptions, seed: u64) -> Result<Self, FuzzError> {
        let mut state = StdState::new(
            StdRand::with_seed(seed),
            InMemoryCorpus::new(),
            InMemoryCorpus::new(),
            &mut (),
            &mut (),
        )
        .map_err(failed)?;
        state.set_max_size(options.longest_input);
        state.add_metadata(Tokens::from(options.tokens.iter()));
        let mutations = havoc_mutations().merge(tokens_mutations());
        Ok(Self {
            state,
            havoc: Box::new(HavocScheduledMutator::new(mutations)),
            lines: LineSource::new(options.grammar.clone(), &options.tokens),
            inputs: Vec::new(),
            has_grammar: options.grammar.is_some(),
        })
    }

    /// Learns an input of the corpus, with which others are combined.
    pub fn learn(&mut self, input: &[u8]) -> Result<(), FuzzError> {
        self.lines.learn(input);
        self.inputs.push(input.to_vec());
        let case = Testcase::new(BytesInput::new(input.to_vec()));
        self.state.corpus_mut().add(case).map_err(failed)?;
        Ok(())
    }

    /// Learns tokens that the target knows.
    pub fn learn_tokens(&mut self, tokens: &[Vec<u8>]) {
        if let Some(known) = self.state.metadata_map_mut().get_mut::<Tokens>() {
            known.add_tokens(tokens);
        }
    }

    pub fn rand(&mut self) -> &mut impl Rand {
        self.state.rand_mut()
    }

    /// A mutation of an input.
    pub fn mutate(&mut self, input: &[u8]) -> Result<Vec<u8>, FuzzError> {
        let share = match self.lines.is_useful() {
            // A grammar is what the user knows about inputs; the rest finds what the program does with others.
            true if self.has_grammar => 15,
            true => 11,
            false => 1,
        };
        let rand = self.state.rand_mut();
        if below(16, rand) < share {
            let other = pick(&self.inputs, rand).map_or(&[][..], Vec::as_slice);
            let mut mutated = self.lines.mutate(input, other, rand);
            mutated.truncate(self.state.max_size());
            return Ok(mutated);
        }
        let mut mutated = BytesInput::new(input.to_vec());
        self.havoc
            .mutate(&mut self.state, &mut mutated)
            .map_err(failed)?;
        Ok(mutated.into())
    }
}

fn failed(error: libafl::Error) -> FuzzError {
    FuzzError::Mutation(error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(tokens: &[&str]) -> MutationOptions {
        MutationOptions {
            tokens: tokens
                .iter()
                .map(|token| token.as_bytes().to_vec())
                .collect(),
            grammar: None,
            longest_input: 256,
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_inputs_and_none_is_too_long() {
        let inputs = |seed| {
            let mut mutations = Mutations::new(&options(&["magic"]), seed).unwrap();
            mutations.learn(b"set a 1\n").unwrap();
            let inputs = (0..500).map(|_| mutations.mutate(b"set a 1\n").unwrap());
            inputs.collect::<Vec<_>>()
        };
        let first = inputs(1);
        assert_eq!(first, inputs(1));
        assert_ne!(first, inputs(2));
        assert!(first.iter().all(|input| input.len() <= 256));
        let has = |token: &[u8]| {
            let mut all = first.iter();
            all.any(|input| input.windows(token.len()).any(|part| part == token))
        };
        assert!(has(b"magic"));
    }

    #[test]
    fn an_empty_input_can_be_mutated() {
        let mut mutations = Mutations::new(&options(&[]), 9).unwrap();
        mutations.learn(b"").unwrap();
        let grown = (0..200).map(|_| mutations.mutate(b"").unwrap());
        assert!(grown.into_iter().any(|input| !input.is_empty()));
    }
}
