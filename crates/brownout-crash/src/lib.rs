//! Crash testing on recorded traces: where a crash can happen, what it leaves, and whether the target's own recovery
//! copes with it.
//!
//! Implements Mumak §4.1 on traces: the target is never run again.
//!
//! | file | idea |
//! |---|---|
//! | `failure_point`, `even_sample`, `operation` | where crashes are tried, and how far the workload was then |
//! | `crash_point`, `effect`, `persistency` | a crash: its event and, under the persistency model, which stores are present |
//! | `recovery_run`, `interrupted_sites` | a recovery that crashes, too: what that leaves, and where it was |
//! | `image`, `persistent_files` | what a crash leaves |
//! | [`strategy`] | which crash points are tried; one file a strategy |
//! | `suspect` | findings of lint that crash images can confirm |
//! | `observed_reads`, `read_stores` | what recovery reads, and which stores of the target that concerns |
//! | `altered_copies` | whether recovery notices that something is wrong at all |
//! | `coverage` | how much was tried of what there is |
//! | `recorded_run`, `uncrashed_recovery`, `campaign`, `uniform_failures`, `recovery_environment`, `test_configuration`, `shard`, `journal`, `trial` | a whole test, and the result of each crash point |
//! | `narrow`, `minimize`, `cause` | which stores make the difference |
//! | `explanation`, `explained_read`, `unpersisted_reads`, `possible_reads`, `several_stores`, `recovery_loads`, `store_facts`, `history_follower` | which of several stores recovery has read, and which flush or fence is missing |
//! | `update_behaviour` | which stores update one object together, and which of these updates represent others |
//! | [`object_types`] | the type of the object that a store changes, and the field |
//! | `symbols`, `progress` | what the caller provides |
//! | `group`, `group_split`, `one_update`, `findings`, `rules`, `token` | what is reported, and what reproduces it |

mod altered_copies;
mod campaign;
mod cause;
mod changes;
mod coverage;
mod crash_point;
mod effect;
mod error;
mod even_sample;
mod explained_read;
mod explanation;
mod explored_behaviours;
mod failure_point;
mod findings;
mod function_set;
mod group;
mod group_split;
mod history_follower;
mod image;
mod interrupted_sites;
pub mod journal;
mod minimize;
mod narrow;
pub mod object_types;
mod observed_reads;
mod one_update;
mod operation;
mod persistency;
mod persistent_files;
mod pool_creation;
mod possible_reads;
mod postponed;
mod progress;
mod read_stores;
mod recorded_run;
mod recovery_environment;
mod recovery_loads;
mod recovery_run;
mod recovery_start;
mod retraction;
pub mod rules;
mod several_stores;
mod shard;
mod shared_start;
mod starting_contents;
mod store_facts;
pub mod strategy;
mod suspect;
mod symbols;
mod test_configuration;
mod tested_behaviours;
mod token;
mod torn_words;
mod trial;
mod uncrashed_recovery;
mod uniform_failures;
mod unpersisted_reads;
mod update_behaviour;

pub use altered_copies::{altered_copies, passes_on_all};
pub use campaign::{Campaign, Collaborators, Tried};
pub use cause::{Cause, Culprit};
pub use coverage::{CampaignEnd, CampaignEnding, Extent, TrialPurpose, recovered_images, tried};
pub use crash_point::{
    Choice, CrashPoint, ImpossibleChoice, Interruption, LineChoice, OtherLines, TornStore,
};
pub use error::CrashError;
pub use explained_read::{ExplainedRead, ExplainedSource, Explanation};
pub use explanation::explain;
pub use explored_behaviours::{ExploredBehaviours, ExploredPages};
pub use failure_point::{
    CallingContexts, FailurePoint, FailurePoints, Granularity, Leaf, Occurrence, PointKind, Scope,
    StackId, watched_functions,
};
pub use findings::{findings, line_of, representatives};
pub use group::{Group, group};
pub use group_split::split_by_cause;
pub use image::{ChosenImage, CrashImage, ImageBuilder, ImageDigest, LostBytes, TornBytes};
pub use journal::{Journal, JournalError};
pub use narrow::{InterruptedChain, Narrowed, SuspectedStores, interrupt, narrow};
pub use observed_reads::{ObservedReads, observe_reads, observe_reads_after};
pub use operation::Operation;
pub use persistent_files::PersistentFiles;
pub use pool_creation::PoolCreations;
pub use possible_reads::{PossibleRead, PossibleReads};
pub use progress::{Progress, ProgressObserver};
pub use read_stores::{StoredBytesUse, reads_changed_bytes, stored_bytes_uses};
pub use recorded_run::{RecordedRun, Survey};
pub use recovery_environment::CrashSituation;
pub use recovery_run::{
    ActionSite, InnerCrash, InnerCrashes, InterruptedImage, RecoveryRun, RecoveryStore,
};
pub use shard::Shard;
pub use shared_start::{SharedStart, Sharing, WorkLeft};
pub use starting_contents::{StartFollower, StartingContent, StartingContents};
pub use strategy::{
    ProposedCrash, STRATEGIES, Strategy, StrategyId, StrategyInfo, StrategyInput, TriedBehaviour,
};
pub use suspect::{
    NoImage, Suspect, SuspectImages, SuspectSite, SuspectStore, SuspectVerdict, Suspicion, judge,
    without_suspects,
};
pub use symbols::{Symbols, failing_frames};
pub use test_configuration::{TestConfiguration, TraceIdentity};
pub use tested_behaviours::{CodeDigest, TestedBehaviour, TestedBehaviours};
pub use token::{Token, TokenError};
pub use trial::{Failure, InterruptedRecovery, Trial, passed_in_order};
pub use uncrashed_recovery::{UncrashedRecovery, recover_without_crash};
pub use unpersisted_reads::{UnpersistedReads, unpersisted_reads};
pub use update_behaviour::{
    NamedShape, RepresentativeStatistics, StepDurations, TriedUpdate, TypeStatistics,
    UpdateStatistics, update_statistics,
};
