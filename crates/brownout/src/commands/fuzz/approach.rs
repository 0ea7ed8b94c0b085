//! How the inputs of a campaign come about: by mutation, by solving, or both.

use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::thread;

use brownout_engine::CLIENT_DIVIDER;
use brownout_fuzz::{
    Dictionary, Grammar, InputParts, SearchOrder, SymbolicBytes, SymbolicKind, SymbolicOptions,
    binary_strings, strings,
};
use brownout_recovery::StartString;

use super::target::{PLACE, has_place};
use crate::arguments::{CampaignArgs, FuzzArgs, SymexArgs};
use crate::crash_test::program_file;
use crate::failure::Failure;

/// The recording of a path contains the symbolic files, so they cannot be large.
const LARGEST_IMAGE: u64 = 64 << 20;

/// How inputs come about.
pub struct Approach {
    pub tokens: Vec<Vec<u8>>,
    pub grammar: Option<Grammar>,
    pub longest_input: usize,
    /// The number of workers.
    pub jobs: usize,
    pub symbolic: Option<SymbolicOptions>,
    /// Whether the program is a server, and the input what its clients send.
    pub is_server: bool,
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
        if arguments.server {
            tokens.push(CLIENT_DIVIDER.to_vec());
        }
        if let Some(program) = campaign.command.first() {
            tokens.extend(binary_strings(&program_file(Path::new(program))));
        }
        let longest_input = usize::try_from(arguments.longest_input).unwrap_or(usize::MAX);
        let jobs = jobs(campaign);
        let symbolic = match arguments.symex {
            true => Some(SymbolicOptions {
                sources: sources(&arguments.symbolic, campaign)?,
                workers: 1,
                query_time: arguments.query_time,
                order: SearchOrder::Pm,
                longest_input,
            }),
            false => None,
        };
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
            is_server: arguments.server,
            doing: "fuzzing the program",
        })
    }

    /// Solving.
    pub fn of_symex(arguments: &SymexArgs) -> Result<Self, Failure> {
        let campaign = &arguments.campaign;
        let longest_input = usize::try_from(arguments.longest_input).unwrap_or(usize::MAX);
        let jobs = jobs(campaign);
        Ok(Self {
            tokens: Vec::new(),
            grammar: None,
            longest_input,
            jobs,
            symbolic: Some(SymbolicOptions {
                sources: sources(&arguments.symbolic, campaign)?,
                workers: jobs,
                query_time: arguments.query_time,
                order: arguments.search.into(),
                longest_input,
            }),
            is_server: false,
            doing: "solving for inputs of the program",
        })
    }

    /// What is symbolic.
    pub fn sources(&self) -> &[SymbolicBytes] {
        { self.symbolic.as_ref() }.map_or(&[], |options| &options.sources)
    }

    /// The input to begin with if there are no seeds and inputs are solved for: what the user gives the program, with some bytes to be
    /// solved.
    pub fn first_input(&self, campaign: &CampaignArgs) -> Option<Vec<u8>> {
        let sources = self.sources();
        let read = sources.iter().find_map(|source| match &source.kind {
            SymbolicKind::Stdin => Some(unknown()),
            SymbolicKind::File(path) if path == Path::new(PLACE) => Some(unknown()),
            SymbolicKind::File(path) => Some(std::fs::read(path).unwrap_or_else(|_| unknown())),
            _ => None,
        });
        let values = strings(sources).map(|string| match string {
            StartString::Argument(number) => {
                let argument = campaign.command.get(*number as usize);
                argument.map(|text| text.as_bytes().to_vec())
            }
            StartString::Variable(name) => {
                std::env::var_os(name).map(|text| text.as_bytes().to_vec())
            }
        });
        let parts = InputParts {
            strings: values.map(Option::unwrap_or_default).collect(),
            rest: read.unwrap_or_default(),
        };
        (!sources.is_empty()).then(|| parts.join())
    }
}

fn jobs(campaign: &CampaignArgs) -> usize {
    campaign.jobs.map_or_else(
        || thread::available_parallelism().map_or(1, |number| number.get()),
        |jobs| jobs as usize,
    )
}

/// Bytes that are solved for.
fn unknown() -> Vec<u8> {
    const LENGTH: usize = 32;
    let mut bytes = vec![b'A'; LENGTH];
    bytes[LENGTH - 1] = b'\n';
    bytes
}

/// What is symbolic: what the user says, or the input.
fn sources(
    given: &[SymbolicBytes],
    campaign: &CampaignArgs,
) -> Result<Vec<SymbolicBytes>, Failure> {
    let has_place = has_place(&campaign.command);
    if given.is_empty() {
        let kind = match has_place {
            true => SymbolicKind::File(PathBuf::from(PLACE)),
            false => SymbolicKind::Stdin,
        };
        return Ok(vec![SymbolicBytes::all(kind)]);
    }
    let mut sources: Vec<SymbolicBytes> = Vec::new();
    let mut input = None;
    for source in given {
        let refused = |why: &str| Failure::NotSymbolic {
            input: source.text(),
            why: why.to_owned(),
        };
        let kind = match &source.kind {
            SymbolicKind::Stdin if has_place => {
                return Err(refused(
                    "the input of the program is the file in place of @@; write file:@@",
                ));
            }
            SymbolicKind::File(path) if path == Path::new(PLACE) && !has_place => {
                return Err(refused("no argument of the program contains @@"));
            }
            SymbolicKind::File(path) if path != Path::new(PLACE) => {
                if has_place {
                    return Err(refused(
                        "a campaign has one input, which is the file in place of @@; leave @@ out",
                    ));
                }
                SymbolicKind::File(absolute(path)?)
            }
            SymbolicKind::Start(StartString::Argument(number)) => {
                let argument = campaign.command.get(*number as usize);
                let Some(argument) = argument else {
                    return Err(refused("the program has no such argument"));
                };
                if argument.as_bytes().windows(2).any(|pair| pair == b"@@") {
                    return Err(refused("this argument is the path of the input"));
                }
                source.kind.clone()
            }
            SymbolicKind::Image(path) if !path.is_file() => {
                return Err(refused("there is no such file"));
            }
            SymbolicKind::Image(path) => {
                let size = std::fs::metadata(path).map_or(0, |file| file.len());
                if size > LARGEST_IMAGE {
                    return Err(refused(
                        "it is larger than 64 MiB; try the program on a smaller file",
                    ));
                }
                SymbolicKind::Image(absolute(path)?)
            }
            other => other.clone(),
        };
        if let SymbolicKind::Stdin | SymbolicKind::File(_) = kind {
            let known = input.get_or_insert_with(|| kind.clone());
            if *known != kind {
                return Err(refused(
                    "a campaign has one input; give one of stdin and file:PATH",
                ));
            }
        }
        sources.push(SymbolicBytes {
            kind,
            range: source.range.clone(),
        });
    }
    Ok(sources)
}

/// A path without symbolic links, as the engine names files.
fn absolute(path: &Path) -> Result<PathBuf, Failure> {
    let absolute = std::fs::canonicalize(path).or_else(|_| std::path::absolute(path));
    absolute.map_err(Failure::CurrentDirectory)
}
