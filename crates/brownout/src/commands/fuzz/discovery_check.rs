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
    CaseCrashes, CaseExamination, Discovery, FuzzCampaign, ImageId, ImageOrigin, Misbehaviour,
    StartImage, TargetDescription, rules,
};
use brownout_recovery::{End, StartString, signal_text};
use brownout_report::{
    Evidence, Finding, Frame, Reason, ReasonKind, Reasons, RuleInfo, Severity, Sources, Stack, role,
};

use super::examinations;
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
use crate::unrecorded_changes::unrecorded_changes;

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
    /// Inputs that were examined but for their crashes, because the time limit was reached.
    put_off: Vec<(u64, CaseExamination)>,
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
            put_off: Vec::new(),
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
                content,
                input,
                trace,
            } => self.check_path(case, (&input, image, &content), &trace, plan),
            Discovery::Misbehaviour(misbehaviour) => self.add_misbehaviour(&misbehaviour),
            Discovery::Failed(error) => Err(error.into()),
        }
    }

    /// Examines a recording. It stays where it is until everything about it is written, so that it is examined again if this process is
    /// killed before.
    fn check_path(
        &mut self,
        case: u64,
        tested: (&[u8], ImageId, &StartImage),
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
        // A file that is there may be a link to the recording, into which a copy would be written.
        let _ = fs::remove_file(&kept);
        // File systems without hard links need the space twice for a moment.
        let linked = fs::hard_link(trace, &kept).or_else(|_| fs::copy(trace, &kept).map(drop));
        linked.map_err(|source| Failure::Written {
            path: kept.clone(),
            source,
        })?;
        let (mut part, examination) =
            self.check_trace(&kept, &directory, &decisions, plan, &silent)?;
        self.note_evidence(&mut part.findings, &name, tested);
        if !self.is_solved(tested.1) {
            self.forget_doubtful(&part.findings);
        }
        let new = self.results.add_input(&part, &name);
        // An earlier process may have examined it and been killed before it could say so.
        let mut known = self.results.findings.iter();
        if known.any(|finding| finding.results_in() == Some(name.as_str())) {
            self.write_case(&name, tested)?;
            part.conclude_part(decisions, self.settings, &directory, &silent)?;
        } else {
            self.remove_case(&name);
            directory.discard();
        }
        self.announce(&new)?;
        match plan.is_none() && self.plan.is_some() {
            true => self.put_off.push((case, examination)),
            false => self.campaign.examined(case, examination)?,
        }
        Ok(())
    }

    /// Lints a recording, looks for races in it, and tests its crashes. Returns the results, and what they leave open.
    fn check_trace(
        &mut self,
        trace: &Path,
        directory: &OutputDirectory,
        decisions: &Decisions,
        plan: Option<&Plan>,
        silent: &Console,
    ) -> Result<(Results, CaseExamination), Failure> {
        let LintRun {
            subject,
            findings,
            wrappers,
            tested,
            suspects,
            suspected_stores,
            nothing_persistent,
            better_profile,
            trace,
            // One input need not store to all files, or use them.
            nothing_stored: _,
            unmatched_patterns: _,
        } = lint(trace, self.settings, silent)?;
        for file in &subject.files {
            let known = &mut self.results.subject.files;
            if !known.iter().any(|known| known.path == file.path) {
                known.push(file.clone());
            }
        }
        self.results.better_profile = self.results.better_profile.or(better_profile);
        let mut part = Results::of_lint(subject, findings, wrappers, tested);
        part.shortfalls.extend(trace.shortfall());
        part.note(trace.notes());
        let compared = unrecorded_changes(&trace, &self.settings.patterns, silent)?;
        part.compared(compared, silent);
        if nothing_persistent.is_none() {
            look_for_races(directory, None, self.settings, &mut part, silent)?;
        }
        let mut examination = CaseExamination {
            reasons: reasons(&part, 0),
            gaps: Vec::new(),
            crashes: None,
        };
        let before = part.shortfalls.len();
        match plan {
            Some(plan) if nothing_persistent.is_none() => {
                let test = (plan, (&suspects[..], &suspected_stores));
                test_crashes(test, self.settings, decisions, directory, &mut part, silent)?;
                examination.crashes = Some(CaseCrashes {
                    tried: part.tried_failure_points(),
                    reasons: reasons(&part, before),
                });
            }
            // Nothing can be lost.
            Some(_) => examination.crashes = Some(CaseCrashes::default()),
            None => {}
        }
        examination.gaps.clone_from(&part.subject.gaps);
        Ok((part, examination))
    }

    /// Names the input and the image that show findings.
    fn note_evidence(
        &self,
        findings: &mut [Finding],
        folder: &str,
        (input, image, content): (&[u8], ImageId, &StartImage),
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
            if !content.files.is_empty() {
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

    /// Writes an input and an image into a folder of the results directory.
    fn write_case(
        &self,
        folder: &str,
        (input, _, content): (&[u8], ImageId, &StartImage),
    ) -> Result<(), Failure> {
        let folder = self.directory.file(folder);
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |source| Failure::Written { path, source }
        };
        fs::create_dir_all(&folder).map_err(failed(&folder))?;
        let path = folder.join(INPUT);
        fs::write(&path, input).map_err(failed(&path))?;
        let target = folder.join(IMAGE);
        let _ = fs::remove_dir_all(&target);
        for (content, path) in content.files.iter().zip(self.campaign.files()) {
            let Some(content) = content else { continue };
            let path = target.join(path.strip_prefix("/").unwrap_or(&path));
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).map_err(failed(parent))?;
            }
            content.write_file(&path).map_err(failed(&path))?;
        }
        Ok(())
    }

    /// Removes what an earlier process may have written.
    fn remove_case(&self, folder: &str) {
        let folder = self.directory.file(folder);
        // What cannot be removed belongs to no finding.
        let _ = fs::remove_file(folder.join(INPUT));
        let _ = fs::remove_dir_all(folder.join(IMAGE));
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
            content,
            end,
            outcome,
        } = misbehaviour;
        let tested = (&input[..], *image, content);
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
        self.note_evidence(&mut findings, &folder, tested);
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
        self.write_case(&folder, tested)?;
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

    /// The findings of the campaign, and what was examined by this process and earlier ones.
    pub fn finish(mut self) -> Results {
        let put_off = self.put_off.len() as u64;
        let mut examined = self.campaign.examinations();
        examined.extend(self.put_off);
        let results = &mut self.results;
        examinations::conclude(&examined, self.plan.is_some(), results);
        if put_off > 0 {
            let why = format!(
                "crashes of {} were not tested because the time limit was reached; run the same command to continue",
                number_of(put_off, "input")
            );
            let reason = Reason::new(ReasonKind::CoverageGap, why);
            results.fall_short(ExitCode::NothingTested, reason);
        }
        for sentence in self.failures {
            let why = format!("an input could not be examined: {sentence}");
            results.fall_short(ExitCode::NothingTested, Reason::other(why));
        }
        self.results
    }
}

/// Why results do not pass, but for the first reasons.
fn reasons(part: &Results, skipped: usize) -> Reasons {
    let shortfalls = part.shortfalls.iter().skip(skipped);
    Reasons(
        shortfalls
            .map(|shortfall| shortfall.reason.clone())
            .collect(),
    )
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
