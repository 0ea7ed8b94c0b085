//! Fuzzes a target: generates inputs *and* the persistent images that it starts on, and keeps those that take it along new paths through
//! persistent memory.
//!
//! Implements PMFuzz §3 and §4, on LibAFL's mutators. A test case is an input and a starting image. The image is none, the user's
//! files, what an earlier test case has left, or a crash image of an earlier test case. Each execution says how often the target went from
//! one operation on persistent memory to another, and which code it executed; test cases with something new are kept and mutated further.
//!
//! | file | idea |
//! |---|---|
//! | [`executor`], `fork_server`, `start_per_run` | runs one test case, and says what it did |
//! | `feedback` | what is new about an execution, and how much that counts (Algorithms 1 and 2) |
//! | `image`, `image_store` | starting images: a tree of changes, each image once |
//! | `crash_images` | images that a crash of a recorded test case leaves |
//! | `test_case`, `corpus`, `cover` | test cases that are kept, which of them is mutated next, and the fewest that cover everything |
//! | `pm_coverage` | the operations on persistent memory that test cases have reached, with source lines |
//! | `mutation`, `dictionary`, `binary_strings`, `grammar`, `line_recombination`, `input_to_state` | new inputs from old ones |
//! | `start_strings` | inputs that hold arguments and environment variables, too |
//! | `campaign`, `end_counts`, `worker`, `minimization` | the loop of each worker, and what workers share |
//! | `symbolic` | workers that solve for inputs instead of mutating them |
//! | `campaign_file`, `examination`, `figures`, `appended_lines` | what is kept on disk, so that a campaign can be continued |
//! | `rules` | crashes and hangs of the target |
//!
//! The caller examines recordings of test cases with new paths: see [`Discovery`].
//!
//! Deviates from PMFuzz: transitions are counted exactly, with 32 bits, not in a map that is indexed by a hash of them (Algorithm 1). The
//! test case to mutate is drawn at random, by weights that fall with its length and with how often it was chosen, not taken from a queue
//! with two priorities (Algorithm 2). What the target does before its input is counted once for each image, and united with each execution
//! on it. Executions may take 2 s, not 150 ms, unless the user says otherwise, and those that are cut off are not judged. Images are stored
//! as what they change, not compressed.
//!
//! Can miss: what no input within the time shows; interleavings of threads other than that of the schedule; input that does not come from
//! standard input, the input file, clients, arguments or environment variables.

mod appended_lines;
mod binary_strings;
mod campaign;
mod campaign_file;
mod corpus;
mod cover;
mod crash_images;
mod dictionary;
mod end_counts;
mod error;
mod examination;
pub mod executor;
mod feedback;
mod figures;
mod fork_server;
mod grammar;
mod image;
mod image_store;
mod input_to_state;
mod line_recombination;
mod minimization;
mod mutation;
mod pm_coverage;
pub mod rules;
mod start_per_run;
mod start_strings;
mod symbolic;
mod test_case;
mod worker;

pub use binary_strings::binary_strings;
pub use campaign::{
    CampaignOptions, CampaignStatus, Discovery, FuzzCampaign, Misbehaviour, SymbolicStatus,
};
pub use campaign_file::{CampaignFile, RunOptions};
pub use dictionary::{Dictionary, DictionaryError};
pub use end_counts::EndCounts;
pub use error::{FuzzError, is_full_disk};
pub use examination::{CaseCrashes, CaseExamination, CrashesTested};
pub use feedback::Novelty;
pub use figures::Figures;
pub use fork_server::ForkServer;
pub use grammar::{Grammar, GrammarError};
pub use image::{ImageId, ImageOrigin, StartImage};
pub use pm_coverage::ReachedOperation;
pub use start_per_run::{StartPerRun, TargetDescription};
pub use start_strings::InputParts;
pub use symbolic::{
    OperationLine, PmProgress, SearchOrder, SourceError, SymbolicBytes, SymbolicFigures,
    SymbolicKind, SymbolicOptions, UnsolvedCause, UnsolvedCounts, strings,
};
pub use test_case::TestCase;
