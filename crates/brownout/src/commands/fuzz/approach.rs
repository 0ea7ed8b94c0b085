//! How the inputs of a campaign come about: by mutation, by solving, or both.

use std::path::{Path, PathBuf};
use std::thread;

use brownout_fuzz::{
    Dictionary, Grammar, SymbolicKind, SymbolicOptions, SymbolicSource, binary_strings,
};

use super::target::PLACE;
use crate::arguments::{CampaignArgs, FuzzArgs, SymexArgs};
use crate::crash_test::program_file;
use crate::failure::Failure;

/// How inputs come about.
pub struct Approach {
    pub tokens: Vec<Vec<u8>>,
    pub grammar: Option<Grammar>,
    pub longest_input: usize,
    /// The number of workers.
    pub jobs: usize,
    pub symbolic: Option<SymbolicOptions>,
    /// What the command does, for results that are not finished.
    pub doing: &'static str,
}

impl Approach {
    /// Mutation, and one worker that solves if `--symex` is given.
    pub fn of_fuzz(arguments: &FuzzArgs) -> Result<Self, Failure> {
        let campaign = &arguments.campaign;
        let mut tokens = match &arguments.dict {
            Some(path) => Dictionary::read(path)?.tokens,
            None => Vec::new(),
        };
        if let Some(program) = campaign.command.first() {
            tokens.extend(binary_strings(&program_file(Path::new(program))));
        }
        let longest_input = usize::try_from(arguments.longest_input).unwrap_or(usize::MAX);
        let jobs = jobs(campaign);
        let symbolic = arguments.symex.then(|| SymbolicOptions {
            sources: sources(&arguments.symbolic, campaign),
            workers: 1,
            query_time: arguments.query_time,
            longest_input,
        });
        Ok(Self {
            tokens,
            grammar: (arguments.grammar.as_deref())
                .map(Grammar::read)
                .transpose()?,
            longest_input,
            jobs: match symbolic {
                Some(_) => jobs.max(2),
                None => jobs,
            },
            symbolic,
            doing: "fuzzing the program",
        })
    }

    /// Solving.
    pub fn of_symex(arguments: &SymexArgs) -> Self {
        let campaign = &arguments.campaign;
        let longest_input = usize::try_from(arguments.longest_input).unwrap_or(usize::MAX);
        let jobs = jobs(campaign);
        Self {
            tokens: Vec::new(),
            grammar: None,
            longest_input,
            jobs,
            symbolic: Some(SymbolicOptions {
                sources: sources(&arguments.symbolic, campaign),
                workers: jobs,
                query_time: arguments.query_time,
                longest_input,
            }),
            doing: "solving for inputs of the program",
        }
    }
}

fn jobs(campaign: &CampaignArgs) -> usize {
    campaign.jobs.map_or_else(
        || thread::available_parallelism().map_or(1, |number| number.get()),
        |jobs| jobs as usize,
    )
}

/// What is symbolic: what the user says, or the input.
fn sources(given: &[SymbolicSource], campaign: &CampaignArgs) -> Vec<SymbolicSource> {
    if !given.is_empty() {
        return given.to_vec();
    }
    let has_place = campaign.command.iter().any(|argument| {
        let argument = argument.to_str();
        argument.is_some_and(|argument| argument.contains(PLACE))
    });
    let kind = match has_place {
        true => SymbolicKind::File(PathBuf::from(PLACE)),
        false => SymbolicKind::Stdin,
    };
    vec![SymbolicSource::all(kind)]
}
