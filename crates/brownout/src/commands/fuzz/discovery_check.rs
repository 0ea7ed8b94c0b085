//! Examines what the workers of a campaign find: recordings, by lint, the search for races and crash testing; failures of the program, by
//! where it was.
//!
//! A finding is reported once in a campaign, with the input and the image that show it. The results on an input are kept if it shows a
//! finding that no input before has shown.

use std::fs;
use std::path::{Path, PathBuf};

use brownout_crash::failing_frames;
use brownout_fuzz::executor::ExecutionEnd;
use brownout_fuzz::{
    Discovery, FuzzCampaign, ImageId, ImageOrigin, Misbehaviour, StartImage, TargetDescription,
    rules,
};
use brownout_recovery::{End, StartString, signal_text};
use brownout_report::{
    Evidence, Finding, Frame, Reason, ReasonKind, RuleInfo, Severity, Sources, Stack, role,
};

use crate::commands::check::{look_for_races, test_crashes};
use crate::console::Console;
use crate::crash_test::{CrashSymbols, Plan, PointFilters};
use crate::decisions::Decisions;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::lint_run::{LintRun, lint};
use crate::output_directory::{OutputDirectory, TRACE};
use crate::quantity::number_of;
use crate::results::Results;
use crate::settings::Settings;

/// The names of the input and of the persistent files beside results.
const INPUT: &str = "input";
const IMAGE: &str = "image";
/// The folder with inputs on which the program fails.
const FAILURES: &str = "failures";

/// What the message of a bug says that becomes a warning because of its starting image.
const SOLVED_IMAGE: &str = "; the persistent files on which the program started were solved for, and no run may be able to leave them";

/// Examines discoveries, one after the other.
pub struct DiscoveryChecker<'a> {
    campaign: &'a FuzzCampaign,
    target: &'a TargetDescription,
    settings: &'a Settings,
    plan: Option<&'a Plan>,
    directory: &'a OutputDirectory,
    root: PathBuf,
    results: Results,
    /// What the command does, for results that are not finished.
    doing: &'static str,
    console: &'a Console,
    linted: u64,
    /// Inputs whose crashes were tested, completely or in part, and those after which recovery failed without a crash.
    crash_tested: u64,
    partly_tested: u64,
    refused: Vec<(u64, Reason)>,
    /// Inputs whose crashes were not tested because the time limit was reached.
    put_off: u64,
    failures: Vec<String>,
}

impl<'a> DiscoveryChecker<'a> {
    pub fn new(
        campaign: &'a FuzzCampaign,
        target: &'a TargetDescription,
        settings: &'a Settings,
        plan: Option<&'a Plan>,
        directory: &'a OutputDirectory,
        results: Results,
        doing: &'static str,
        console: &'a Console,
    ) -> Self {
        let root = target.input.parent().map(Path::to_owned);
        Self {
            campaign,
            target,
            settings,
            plan,
            directory,
            root: root.unwrap_or_default(),
            results,
            doing,
            console,
            linted: 0,
            crash_tested: 0,
            partly_tested: 0,
            refused: Vec::new(),
            put_off: 0,
            failures: Vec::new(),
        }
    }

    pub fn root(&self) -> &Path {
        &self.root
    }

    pub fn findings(&self) -> usize {
        self.results.findings.len()
    }

    /// Notes that something could not be examined.
    pub fn note_failure(&mut self, failure: &Failure) {
        let sentence = failure.sentence();
        self.console.warn(&sentence);
        if !self.failures.contains(&sentence) {
            self.failures.push(sentence);
        }
    }

    pub fn check(&mut self, discovery: Discovery) -> Result<(), Failure> {
        self.check_with(discovery, self.plan)
    }

    /// Examines without testing crashes, which the next process that continues the campaign does.
    pub fn check_briefly(&mut self, discovery: Discovery) -> Result<(), Failure> {
        self.check_with(discovery, None)
    }

    fn check_with(&mut self, discovery: Discovery, plan: Option<&Plan>) -> Result<(), Failure> {
        match discovery {
            Discovery::Path {
                case,
                image,
                input,
                trace,
            } => self.check_path(case, (&input, image), &trace, plan),
            Discovery::Misbehaviour(misbehaviour) => self.add_misbehaviour(&misbehaviour),
            Discovery::Failed(error) => Err(error.into()),
        }
    }

    fn check_path(
        &mut self,
        case: u64,
        (input, image): (&[u8], ImageId),
        trace: &Path,
        plan: Option<&Plan>,
    ) -> Result<(), Failure> {
        let name = OutputDirectory::input_part_name(case);
        let mut directory = OutputDirectory::claim(&self.directory.file(&name))?;
        let decisions = Decisions::read(self.settings)?;
        let (subject, silent) = (self.results.subject.clone(), Console::silent());
        let doing = "examining an input";
        Results::new(subject, Vec::new()).replace_earlier(
            &decisions,
            self.settings,
            &mut directory,
            doing,
        )?;
        let kept = directory.file(TRACE);
        let is_put_off = plan.is_none() && self.plan.is_some();
        let moved = match is_put_off {
            // The recording is needed again.
            true => fs::copy(trace, &kept).map(drop),
            false => fs::rename(trace, &kept),
        };
        moved.map_err(|source| Failure::Written {
            path: kept.clone(),
            source,
        })?;
        let mut part = self.check_trace(case, &kept, &directory, &decisions, plan, &silent)?;
        self.linted += 1;
        match is_put_off {
            true => self.put_off += 1,
            false => self.campaign.examined(case)?,
        }
        self.note_evidence(&mut part.findings, &name, (input, image));
        if !self.is_solved(image) {
            self.forget_doubtful(&part.findings);
        }
        let new = self.results.add_input(&part, &name);
        if new.is_empty() {
            directory.abandon();
        } else {
            self.write_case(&name, input, image)?;
            part.conclude_part(decisions, self.settings, &directory, &silent)?;
        }
        self.announce(&new)
    }

    /// Lints a recording, looks for races in it, and tests its crashes.
    fn check_trace(
        &mut self,
        case: u64,
        trace: &Path,
        directory: &OutputDirectory,
        decisions: &Decisions,
        plan: Option<&Plan>,
        silent: &Console,
    ) -> Result<Results, Failure> {
        let LintRun {
            subject,
            findings,
            wrappers,
            tested,
            suspects,
            suspected_stores,
            nothing_persistent,
            better_profile,
            ..
        } = lint(trace, self.settings, silent)?;
        for file in &subject.files {
            let known = &mut self.results.subject.files;
            if !known.iter().any(|known| known.path == file.path) {
                known.push(file.clone());
            }
        }
        self.results.better_profile = self.results.better_profile.or(better_profile);
        let mut part = Results::of_lint(subject, findings, wrappers, tested);
        if nothing_persistent.is_some() {
            return Ok(part);
        }
        look_for_races(directory, None, self.settings, &mut part, silent)?;
        if let Some(plan) = plan {
            let test = (plan, (&suspects[..], &suspected_stores));
            test_crashes(test, self.settings, decisions, directory, &mut part, silent)?;
            self.note_crash_test(case, &part);
        }
        Ok(part)
    }

    /// Counts what a crash test of one input came to.
    fn note_crash_test(&mut self, case: u64, part: &Results) {
        let mut shortfalls = part.shortfalls.iter();
        let refused = shortfalls.find(|shortfall| {
            !matches!(
                shortfall.reason.kind,
                ReasonKind::CoverageGap | ReasonKind::UndecidedTrials
            )
        });
        match refused {
            Some(refused) => self.refused.push((case, refused.reason.clone())),
            None => {
                self.crash_tested += 1;
                self.partly_tested += u64::from(!part.shortfalls.is_empty());
            }
        }
    }

    /// Names the input and the image that show findings.
    fn note_evidence(
        &self,
        findings: &mut [Finding],
        folder: &str,
        (input, image): (&[u8], ImageId),
    ) {
        let strings = self.target.valued(&self.target.parts(input));
        let is_solved = self.is_solved(image);
        for finding in findings {
            let details = &mut finding.evidence.details;
            for (string, value) in &strings {
                let name = match string {
                    StartString::Argument(number) => format!("argument {number}"),
                    StartString::Variable(name) => format!("variable {name}"),
                };
                details.insert(name, value.escape_ascii().to_string());
            }
            let started = self.started_on(image);
            details.insert(Evidence::STARTED_ON.to_owned(), started);
            if is_solved && finding.severity == Severity::Bug {
                finding.severity = Severity::Warning;
                finding.message.push_str(SOLVED_IMAGE);
            }
            details.insert(Evidence::INPUT.to_owned(), format!("{folder}/{INPUT}"));
            if self.has_files(image) {
                details.insert(Evidence::IMAGE.to_owned(), format!("{folder}/{IMAGE}"));
            }
        }
    }

    /// Findings that were doubtful because of their starting image are reported as what they are once a run on another one shows them.
    fn forget_doubtful(&mut self, shown: &[Finding]) {
        self.results.findings.retain(|known| {
            let is_doubtful = known.message.ends_with(SOLVED_IMAGE);
            !is_doubtful || shown.iter().all(|finding| finding.id != known.id)
        });
    }

    /// Whether bytes of an image, or of one that it comes from, were solved for.
    fn is_solved(&self, image: ImageId) -> bool {
        let chain = self.campaign.chain(image);
        let mut origins = chain.iter();
        origins.any(|origin| matches!(origin, ImageOrigin::Solved { .. }))
    }

    fn has_files(&self, image: ImageId) -> bool {
        let image = self.campaign.image(image);
        image.is_some_and(|image| !image.files.is_empty())
    }

    /// Writes an input and an image into a folder of the results directory.
    fn write_case(&self, folder: &str, input: &[u8], image: ImageId) -> Result<(), Failure> {
        let folder = self.directory.file(folder);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Failure::Written { path, source }
        };
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let path = folder.join(INPUT);
        fs::write(&path, input).map_err(failed(&path))?;
        let Some(StartImage { files }) = self.campaign.image(image) else {
            return Ok(());
        };
        let target = folder.join(IMAGE);
        let _ = fs::remove_dir_all(&target);
        for (content, path) in files.iter().zip(self.campaign.files()) {
            let Some(content) = content else { continue };
            let path = target.join(path.strip_prefix("/").unwrap_or(&path));
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(failed(parent))?;
            }
            content.write_file(&path).map_err(failed(&path))?;
        }
        Ok(())
    }

    /// Where an image comes from, in a phrase.
    fn started_on(&self, image: ImageId) -> String {
        let chain = self.campaign.chain(image);
        let mut phrases = chain.iter().map(|origin| match origin {
            ImageOrigin::Absent => "no persistent files".to_owned(),
            ImageOrigin::User => "the files of the user".to_owned(),
            ImageOrigin::Left { case, .. } => format!("input id:{case:06}"),
            ImageOrigin::Crash { case, event, .. } => {
                format!("a crash before event {event} of input id:{case:06}")
            }
            ImageOrigin::Solved { .. } => {
                "bytes that were solved for, which no run may be able to leave".to_owned()
            }
        });
        let first = phrases.next().unwrap_or_default();
        phrases.fold(first, |text, phrase| format!("{text}, then {phrase}"))
    }

    fn add_misbehaviour(&mut self, misbehaviour: &Misbehaviour) -> Result<(), Failure> {
        let Misbehaviour {
            input,
            image,
            end,
            outcome,
        } = misbehaviour;
        let mut symbols = CrashSymbols::new(&self.target.directory, PointFilters::default());
        let frames = failing_frames(&outcome.frames, &mut symbols);
        let (rule, message) = describe(*end, outcome.end);
        let mut finding = failure_finding(rule, message, frames);
        let output = String::from_utf8_lossy(&outcome.stderr);
        let lines: Vec<&str> = output.lines().rev().take(5).collect();
        if !lines.is_empty() {
            let lines: Vec<&str> = lines.into_iter().rev().collect();
            let details = &mut finding.evidence.details;
            details.insert(Evidence::LAST_OUTPUT.to_owned(), lines.join("\n"));
        }
        let folder = format!("{FAILURES}/{}", finding.id);
        let mut findings = self.settings.levels.apply(vec![finding]);
        self.note_evidence(&mut findings, &folder, (input, *image));
        if !self.is_solved(*image) {
            self.forget_doubtful(&findings);
        }
        let Some(finding) = findings.pop() else {
            return Ok(());
        };
        let mut known = self.results.findings.iter_mut();
        if let Some(known) = known.find(|known| known.id == finding.id) {
            known.count += 1;
            return Ok(());
        }
        self.write_case(&folder, input, *image)?;
        self.results.findings.push(finding.clone());
        self.announce(&[finding])
    }

    /// Prints new findings, and writes all, so that they are there whatever happens.
    fn announce(&self, new: &[Finding]) -> Result<(), Failure> {
        for finding in new {
            let line = finding.primary_frame().and_then(|frame| {
                let file = frame.file.as_deref()?;
                Some(format!(" at {}:{}", file, frame.line?))
            });
            self.console.remark(format_args!(
                "after {:.0} s: {}{}",
                self.campaign.elapsed().as_secs_f64(),
                finding.rule,
                line.unwrap_or_default()
            ));
        }
        let decisions = Decisions::read(self.settings)?;
        self.results
            .write_unfinished(&decisions, self.settings, self.directory, self.doing)
    }

    /// The findings of the campaign, and what was examined.
    pub fn finish(mut self) -> Results {
        let results = &mut self.results;
        results.add_tested(format!(
            "{} with a new path through persistent memory examined",
            match self.linted {
                1 => "1 input was".to_owned(),
                many => format!("{many} inputs were"),
            }
        ));
        results.linted |= self.linted > 0;
        if self.plan.is_some() {
            results.add_tested(format!(
                "crashes of {} were tested, of {} of them not all within --crash-budget",
                number_of(self.crash_tested, "input"),
                self.partly_tested
            ));
            if self.put_off > 0 {
                results.subject.gaps.push(format!(
                    "crash tests of {} were skipped because the time limit was reached; run the same command to continue",
                    number_of(self.put_off, "input")
                ));
            }
            match self.refused.first() {
                Some((case, reason)) if self.crash_tested > 0 => {
                    results.subject.gaps.push(format!(
                        "crashes of {} could not be tested; after id:{case:06}: {}",
                        number_of(self.refused.len() as u64, "input"),
                        reason.text
                    ));
                }
                Some((_, reason)) => {
                    let code = match reason.kind {
                        ReasonKind::RecoveryFailedWithoutCrash => ExitCode::TargetFailed,
                        _ => ExitCode::NothingTested,
                    };
                    results.fall_short(code, reason.clone());
                }
                None if self.crash_tested == 0 && self.linted > 0 => {
                    let why = "no crash was tested: the time limit was reached first";
                    let reason = Reason::new(ReasonKind::CoverageGap, why);
                    results.fall_short(ExitCode::NothingTested, reason);
                }
                None => {}
            }
        }
        for sentence in self.failures {
            let why = format!("an input could not be examined: {sentence}");
            results.fall_short(ExitCode::Usage, Reason::other(why));
        }
        self.results
    }
}

/// The rule and the message of a failure.
fn describe(end: ExecutionEnd, native: End) -> (&'static RuleInfo, String) {
    match (end, native) {
        (ExecutionEnd::TimedOut, _) => (
            &rules::TARGET_HUNG,
            "the program does not end on a generated input".to_owned(),
        ),
        (_, End::Signaled(signal)) => (
            &rules::TARGET_CRASHED,
            format!(
                "the program was killed by {} on a generated input",
                signal_text(signal)
            ),
        ),
        _ => (
            &rules::TARGET_CRASHED,
            "the program used more memory than it may on a generated input".to_owned(),
        ),
    }
}

fn failure_finding(rule: &RuleInfo, message: String, frames: Vec<Frame>) -> Finding {
    let stack = Stack {
        role: role::FAILURE.to_owned(),
        frames,
    };
    let mut finding = Finding::new(rule, message, vec![stack], Evidence::default());
    finding.identify(&Sources::on_disk());
    finding
}
