//! Runs the campaign of a crash test, from the beginning or from where an earlier one ended.

use brownout_crash::journal::Head;
use brownout_crash::{
    Campaign, CampaignEnding, Collaborators, CrashError, Journal, PossibleReads, Progress,
    SharedStart, Sharing, StrategyInput, Suspect, TraceIdentity, stored_bytes_uses,
};
use brownout_recovery::{RecoveryRunner, RunnerPool, may_depend_on_event};

use super::monitor::CrashTestMonitor;
use super::plan::Plan;
use super::preparation::Prepared;
use super::recovery_reads::{ReadFindings, by_finding, most_read_first};
use super::remembering::{Decided, circumstances};
use super::resumption::{earlier_entries, open_journal};
use super::trial_results::TestedTrials;
use crate::behaviour_memory::BehaviourMemory;
use crate::console::Console;
use crate::failure::Failure;
use crate::output_directory::OutputDirectory;
use crate::suspects::LintSuspect;

/// What a campaign leaves.
pub struct CampaignResults {
    pub results: TestedTrials,
    pub journal: Journal,
    /// How the test ended, earlier campaigns included.
    pub ending: CampaignEnding,
    pub progress: Progress,
    /// What recovery does with the bytes that findings are about.
    pub read_findings: ReadFindings,
    /// The reads of recovery that can see several stores, if they are to be examined.
    pub possible_reads: Option<PossibleReads>,
    /// The behaviours that were decided, if they are to be remembered.
    pub decided: Decided,
    /// The runners, unless one of them still has a recovery that goes on after the time limit.
    pub runners: Option<Vec<RecoveryRunner>>,
}

const NO_PROGRAM: &str =
    "--recover names no program by its path, so a change of it would not be noticed";
const NO_FUNCTION: &str = "recovery behaves differently after reading the same bytes, or it is not known what it always reads";

/// Tries crashes until the strategy or the monitor ends it. `begin` is called when the test that is resumed is known to be the
/// same.
pub fn run_campaign(
    prepared: &mut Prepared,
    (plan, trace): (&Plan, TraceIdentity),
    suspects: &[LintSuspect],
    (directory, begin): (&OutputDirectory, &dyn Fn() -> Result<(), Failure>),
    monitor: &mut CrashTestMonitor,
    console: &Console,
) -> Result<CampaignResults, Failure> {
    let mut suspects: Vec<Suspect> = suspects.iter().map(|known| known.suspect.clone()).collect();
    let reads = &prepared.reads;
    let uses = stored_bytes_uses(&suspects, &prepared.run, &reads.observed)?;
    let read_findings = by_finding(&suspects, &uses);
    most_read_first(&mut suspects, &uses);
    let configuration = plan.configuration(trace);
    let memory = plan
        .memory
        .as_ref()
        .map(BehaviourMemory::read)
        .transpose()?;
    let is_exploring = plan.strategy.tries_all;
    let circumstances = circumstances(&configuration).filter(|_| is_exploring);
    let explored = memory.as_ref().zip(circumstances.as_ref());
    let explored = explored.map(|(memory, circumstances)| memory.explored.under(circumstances));
    let memory = memory.filter(|_| !is_exploring);
    let memory = memory.map(|memory| memory.tested.under(&configuration, plan.resume));
    let mut strategy = (plan.strategy.start)(StrategyInput {
        run: &prepared.run,
        survey: &prepared.survey,
        symbols: &mut prepared.symbols,
        occurrences: plan.occurrences,
        max_states: plan.max_states,
        depth: plan.depth,
        suspects: &suspects,
        profile: plan.profile,
        tearing: plan.tearing,
        memory: memory.as_ref(),
        explored: explored.as_ref(),
    })?;
    let head = Head {
        configuration,
        shards: vec![plan.shard],
        points: strategy.planned(),
    };
    let earlier = earlier_entries(directory, &head, plan)?;
    if plan.resume {
        begin()?;
    }
    let known_suspects = strategy.suspects();
    let (mut journal, earlier) =
        open_journal(directory, &head, earlier, known_suspects, plan, console)?;
    if reads.is_new {
        journal.reads(&reads.observed).map_err(CrashError::from)?;
    }
    let mut campaign = Campaign::new(
        &prepared.run,
        &prepared.survey.files,
        plan.shard,
        plan.counts_operations(),
        prepared.time_limit,
    );
    campaign.resume(earlier.trials);
    campaign.share_starts(SharedStart::new(sharing(plan), &prepared.survey));
    let mut pool = RunnerPool::new(std::mem::take(&mut prepared.runners));
    monitor.begin_trials()?;
    let ending = campaign.run(&mut Collaborators {
        strategy: &mut *strategy,
        pool: &mut pool,
        journal: &mut journal,
        symbols: &mut prepared.symbols,
        observer: monitor,
    })?;
    let progress = campaign.progress();
    let trials = campaign.into_trials();
    let shown = explored.and_then(|_| strategy.explored(&trials));
    Ok(CampaignResults {
        decided: Decided {
            tested: strategy.tested_behaviours(&trials),
            unknown: match (is_exploring, &circumstances, &shown) {
                (true, None, _) => Some(NO_PROGRAM),
                (true, Some(_), None) => Some(NO_FUNCTION),
                _ => None,
            },
            explored: shown.zip(circumstances),
        },
        journal,
        ending: match earlier.ending {
            Some(earlier) => earlier.continued(ending),
            None => ending,
        },
        progress,
        runners: pool.is_idle().then(|| pool.close()),
        results: TestedTrials {
            configuration: head.configuration,
            trials,
            suspects: strategy.suspects().to_vec(),
            causes: earlier.causes,
            explanations: earlier.explanations,
            reads: Some(prepared.reads.observed.clone()),
        },
        possible_reads: match plan.examines_reads {
            true => strategy.possible_reads(),
            false => None,
        },
        read_findings,
    })
}

/// When recoveries share their starts. Not if they may depend on the event at which power fails.
fn sharing(plan: &Plan) -> Sharing {
    match may_depend_on_event(&plan.recovery) {
        true => Sharing::Never,
        false => plan.sharing,
    }
}
