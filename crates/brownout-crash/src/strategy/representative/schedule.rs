//! Which update behaviours are tried, and in which order.
//!
//! First the representatives of all groups. The first instance of a representative may be the update of an object that is still empty,
//! where nothing can go wrong, so an update of an object that was updated before follows, and the last update of that shape. Then come
//! members of groups whose stores are at code that no behaviour before them has tried: a behaviour that only invalidates an object hides
//! behind one that fills it, and an update behind an insertion that calls the same function. Where a representative fails, the members of
//! its group come next, so that every location with the mistake is named. Of each behaviour the images that differ most from program order
//! come first, the others after those of all behaviours in line.
//!
//! Code counts as tried if a crash loses one of its stores: a behaviour may last so long that not all of its stores are tried.
//!
//! Images are built in batches, each in one pass over the run.

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;

use brownout_model::StoreNumber;
use brownout_trace::EventIndex;
use rustc_hash::{FxHashMap, FxHashSet};

use super::behaviour_code::RunCode;
use super::behaviour_trials::{BehaviourTrials, Identity};
use super::images::{BehaviourPlan, CrashModel, FoundImage, PlannedImage, build, plan};
use super::losable_stores::BehaviourTimes;
use super::members::Members;
use crate::coverage::TrialPurpose;
use crate::crash_point::CrashPoint;
use crate::error::CrashError;
use crate::failure_point::{PointKind, Scope, StackId};
use crate::object_types::{StoreTypes, TypedShare};
use crate::persistent_files::PersistentFiles;
use crate::progress::ProgressObserver;
use crate::recorded_run::RecordedRun;
use crate::strategy::{ProposedCrash, StrategyInput, TriedBehaviour};
use crate::symbols::Symbols;
use crate::tested_behaviours::{EarlierTests, TestedBehaviour, TestedBehaviours};
use crate::trial::Trial;
use crate::update_behaviour::{
    BehaviourNumber, RunStores, TriedUpdate, UpdateBehaviours, read_stores,
};

/// Images of the first batch, and of the largest.
const FIRST_BATCH: usize = 128;
const LARGEST_BATCH: usize = 4096;
/// Updates that a trial names.
const MOST_UPDATES: usize = 64;

/// A behaviour whose images are to be built.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    pub(super) behaviour: BehaviourNumber,
    pub(super) group: usize,
    /// Whether its images that differ most were proposed.
    pub(super) begun: bool,
}

/// The update behaviours of a run, and what is left to try of them.
pub(super) struct Schedule {
    run: RecordedRun,
    files: PersistentFiles,
    model: CrashModel,
    stores: RunStores,
    types: StoreTypes,
    behaviours: UpdateBehaviours,
    /// Representatives, and other images of what was begun.
    tasks: VecDeque<Task>,
    /// Further instances, and members at other code.
    members: Members,
    /// The groups whose behaviours a number belongs to.
    groups_of: FxHashMap<u64, usize>,
    /// Crashes that are built and not proposed.
    ready: VecDeque<ProposedCrash>,
    known: HashSet<CrashPoint>,
    /// How many crashes were built that no one else tries.
    built: u64,
    /// The failure points at which a crash in program order is proposed.
    points: HashSet<(PointKind, Option<StackId>)>,
    /// The behaviours with images that no other has.
    with_images: HashSet<BehaviourNumber>,
    /// How many have none.
    without_images: u64,
    /// The behaviours of which a crash can leave states that are not tried.
    sampled: HashSet<BehaviourNumber>,
    /// How many are left out because an earlier run has tested them.
    remembered: u64,
    trials: BehaviourTrials,
    batch: usize,
    /// Whether crashes in program order are tried by others.
    leaves_out_earlier_states: bool,
    /// Whether images are missing because the observer stopped their construction.
    is_cut: bool,
}

/// What a schedule is made from.
pub(super) struct ScheduleInput {
    run: RecordedRun,
    files: PersistentFiles,
    scope: Scope,
    model: CrashModel,
    memory: Option<TestedBehaviours>,
}

impl ScheduleInput {
    pub(super) fn of(input: &StrategyInput<'_>) -> Self {
        Self {
            run: input.run.clone(),
            files: input.survey.files.clone(),
            scope: input.survey.points.scope().clone(),
            model: CrashModel {
                profile: input.profile,
                tearing: input.tearing,
            },
            memory: input.memory.cloned(),
        }
    }
}

impl Schedule {
    /// Finds the update behaviours of a run; `None` if the observer stops it.
    pub(super) fn find(
        input: &ScheduleInput,
        symbols: &mut dyn Symbols,
        observer: &mut dyn ProgressObserver,
    ) -> Result<Option<Self>, CrashError> {
        let ScheduleInput {
            run, scope, model, ..
        } = input;
        let (stores, types, _) = read_stores(run, scope, model.profile, symbols, observer)?;
        if observer.stop() {
            return Ok(None);
        }
        let behaviours = UpdateBehaviours::find(&stores.order, &types);
        let mut schedule = Self {
            run: run.clone(),
            files: input.files.clone(),
            model: *model,
            stores,
            types,
            behaviours,
            tasks: VecDeque::new(),
            members: Members::default(),
            groups_of: FxHashMap::default(),
            ready: VecDeque::new(),
            known: HashSet::new(),
            built: 0,
            points: HashSet::new(),
            with_images: HashSet::new(),
            without_images: 0,
            sampled: HashSet::new(),
            remembered: 0,
            trials: BehaviourTrials::default(),
            batch: FIRST_BATCH,
            leaves_out_earlier_states: false,
            is_cut: false,
        };
        let [mut representatives, mut members] = schedule.choose();
        if let Some(memory) = &input.memory {
            schedule.leave_out_tested(memory, [&mut representatives, &mut members], symbols);
        }
        schedule.groups_of = representatives
            .iter()
            .chain(&members)
            .map(|task| (u64::from(task.behaviour.0), task.group))
            .collect();
        schedule.tasks = representatives.into();
        schedule.members = Members::new(members);
        Ok(Some(schedule))
    }

    /// The behaviours to try: representatives, and others after them.
    fn choose(&self) -> [Vec<Task>; 2] {
        let mut tried: FxHashSet<u32> = FxHashSet::default();
        let task = |behaviour, group| Task {
            behaviour,
            group,
            begun: false,
        };
        let code = |behaviour| {
            let numbers: Vec<StoreNumber> = self.behaviours.stores(behaviour).collect();
            BehaviourTimes::of(&numbers, &self.stores).code
        };
        let (mut representatives, mut members) = (Vec::new(), Vec::new());
        for (group, known) in self.behaviours.groups().iter().enumerate() {
            let behaviour = self.behaviours.representative(known);
            tried.extend(code(behaviour));
            representatives.push(task(behaviour, group));
        }
        for (group, known) in self.behaviours.groups().iter().enumerate() {
            for behaviour in self.behaviours.further_representatives(known) {
                tried.extend(code(behaviour));
                members.push(task(behaviour, group));
            }
        }
        // A behaviour may be a member of many groups.
        let mut considered: FxHashSet<BehaviourNumber> = FxHashSet::default();
        for (group, known) in self.behaviours.groups().iter().enumerate() {
            for behaviour in self.behaviours.members(known) {
                if !considered.insert(behaviour) {
                    continue;
                }
                let mut own = callers(self.behaviours.stores(behaviour), &self.stores);
                if own.all(|caller| tried.contains(&caller)) {
                    continue;
                }
                let before = tried.len();
                tried.extend(code(behaviour));
                if tried.len() > before {
                    members.push(task(behaviour, group));
                }
            }
        }
        [representatives, members]
    }

    /// Leaves out what earlier runs have tested, and identifies the rest for later runs.
    fn leave_out_tested(
        &mut self,
        memory: &TestedBehaviours,
        tasks: [&mut Vec<Task>; 2],
        symbols: &mut dyn Symbols,
    ) {
        let code = RunCode::of(&self.stores, symbols);
        let mut earlier = EarlierTests::new(memory);
        let Self {
            stores,
            types,
            behaviours,
            trials,
            remembered,
            ..
        } = self;
        let mut is_new = |task: &Task| {
            let numbers: Vec<StoreNumber> = behaviours.stores(task.behaviour).collect();
            let identity = Identity {
                shape: behaviours.named_shape(task.behaviour, &types.names),
                code: code.of_behaviour(&numbers, stores),
            };
            let is_covered = earlier.cover(&identity.shape, &identity.code);
            match is_covered {
                true => *remembered += 1,
                false => {
                    trials.identities.insert(task.behaviour, identity);
                }
            }
            !is_covered
        };
        for tasks in tasks {
            tasks.retain(&mut is_new);
        }
    }

    /// How many behaviours are left out because an earlier run has tested them.
    pub(super) fn remembered(&self) -> u64 {
        self.remembered
    }

    /// The behaviours that trials have decided.
    pub(super) fn tested_behaviours(&self, trials: &[Trial]) -> Vec<TestedBehaviour> {
        self.trials.decided(trials)
    }

    /// How many behaviours are tried, without those of which another one shows all.
    pub(super) fn behaviours(&self) -> u64 {
        self.groups_of.len() as u64 - self.without_images
    }

    /// How many of them are tried in some of their states only, as far as that is known.
    pub(super) fn sampled(&self) -> u64 {
        self.sampled.len() as u64
    }

    /// How the types of the objects were determined.
    pub(super) fn typed(&self) -> TypedShare {
        self.types.share_typed()
    }

    /// How many crashes are proposed or wait, as far as that is known: at least one for each behaviour.
    pub(super) fn planned(&self) -> u64 {
        self.built + (self.tasks.len() + self.members.len()) as u64
    }

    /// Builds images until there are some to propose, all are built, or the observer stops it.
    pub(super) fn prepare(
        &mut self,
        observer: &mut dyn ProgressObserver,
    ) -> Result<ControlFlow<()>, CrashError> {
        while self.ready.is_empty() && self.has_more() {
            if self.is_cut || observer.stop() {
                return Ok(ControlFlow::Break(()));
            }
            let mut planned: Vec<PlannedImage> = Vec::new();
            let mut completed: Vec<BehaviourNumber> = Vec::new();
            while planned.len() < self.batch
                && let Some(task) = self.next_task()
            {
                let numbers: Vec<StoreNumber> = self.behaviours.stores(task.behaviour).collect();
                let BehaviourPlan {
                    first,
                    others,
                    is_sample,
                } = plan(task.behaviour, &numbers, &self.stores, self.model);
                self.sampled.extend(is_sample.then_some(task.behaviour));
                if task.begun {
                    planned.extend(others);
                    completed.push(task.behaviour);
                } else {
                    planned.extend(first);
                    let begun = Task {
                        begun: true,
                        ..task
                    };
                    self.tasks.push_back(begun);
                }
            }
            if self.leaves_out_earlier_states {
                planned.retain(|image| !image.is_earlier_state(&self.stores));
            }
            self.batch = (2 * self.batch).min(LARGEST_BATCH);
            let found = build(
                planned,
                &self.run,
                &self.files,
                self.model.profile,
                observer,
            )?;
            if observer.stop() {
                self.is_cut = true;
                return Ok(ControlFlow::Break(()));
            }
            self.sampled.extend(found.incomplete);
            let whole = completed.iter().copied();
            let whole = whole.filter(|behaviour| !self.sampled.contains(behaviour));
            self.trials.completed(whole);
            for image in found.images {
                self.trials.image(&image);
                if self.known.insert(image.crash.clone()) {
                    self.with_images.insert(image.planned.behaviour);
                    self.built += 1;
                    let crash = self.crash(image);
                    self.ready.push_back(crash);
                }
            }
            let has_images = |behaviour: &&BehaviourNumber| self.with_images.contains(*behaviour);
            let with_images = completed.iter().filter(has_images).count();
            self.without_images += (completed.len() - with_images) as u64;
        }
        Ok(ControlFlow::Continue(()))
    }

    fn has_more(&self) -> bool {
        self.is_cut || !self.tasks.is_empty() || self.members.len() > 0
    }

    /// Members of groups that fail, then representatives and what is left of them, then other members.
    fn next_task(&mut self) -> Option<Task> {
        if let Some(member) = self.members.pop_urgent() {
            return Some(member);
        }
        let is_new = |task: &Task| !task.begun;
        if self.tasks.front().is_some_and(is_new) {
            return self.tasks.pop_front();
        }
        self.members.pop().or_else(|| self.tasks.pop_front())
    }

    /// Crashes in program order, at failure points and between stores, are tried by others.
    pub(super) fn leave_out_earlier_states(&mut self) {
        self.leaves_out_earlier_states = true;
    }

    /// A crash is tried by others.
    pub(super) fn leave_out(&mut self, point: CrashPoint) {
        self.known.insert(point);
    }

    /// The next crashes to try.
    pub(super) fn next(&mut self, wave: usize) -> Vec<ProposedCrash> {
        let count = wave.min(self.ready.len());
        self.ready.drain(..count).collect()
    }

    pub(super) fn learn(&mut self, trial: &Trial) {
        let number = trial.behaviour.filter(|_| !trial.verdict.passed());
        if let Some(&group) = number.and_then(|number| self.groups_of.get(&number)) {
            self.members.group_fails(group);
        }
    }

    fn crash(&mut self, image: FoundImage) -> ProposedCrash {
        let FoundImage { planned, crash } = image;
        let point = (planned.point.kind, planned.point.stack);
        let purpose = match crash.is_in_program_order() {
            true if self.points.insert(point) => TrialPurpose::FailurePoint,
            true => TrialPurpose::Occurrence,
            false => TrialPurpose::UpdateBehaviour,
        };
        let behaviour = planned.behaviour;
        let event = |store| EventIndex(self.stores.order.store(store).issued.0);
        let before = planned.point.occurrence.event;
        let made = self.behaviours.stores(behaviour);
        let made = made.filter(|&store| planned.since <= event(store) && event(store) < before);
        let updates = made.map(|store| {
            let field = self.behaviours.field_name(behaviour, store, &self.types);
            TriedUpdate {
                event: event(store).0,
                field: field.unwrap_or_default(),
                is_lost: planned.loses(event(store)),
            }
        });
        let stack_at = |lost: EventIndex| {
            let mut stores = self.behaviours.stores(behaviour);
            let store = stores.find(|&store| event(store) == lost)?;
            let site = self.stores.stored(store).site;
            self.stores.site(site).stack
        };
        ProposedCrash {
            lost: planned.last_lost().and_then(stack_at),
            purpose,
            behaviour: Some(Arc::new(TriedBehaviour {
                number: behaviour.0.into(),
                updates: updates.take(MOST_UPDATES).collect(),
            })),
            point: crash,
            ..ProposedCrash::from(planned.point)
        }
    }
}

/// The code on whose behalf stores are made.
fn callers(
    numbers: impl Iterator<Item = StoreNumber>,
    stores: &RunStores,
) -> impl Iterator<Item = u32> {
    numbers.map(|number| {
        let site = stores.stored(number).site;
        stores.site(site).caller
    })
}
