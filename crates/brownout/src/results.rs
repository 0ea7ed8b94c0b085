//! Collects the findings of all analyses, then writes and prints them and derives the exit code.

use std::collections::HashSet;
use std::path::Path;

use brownout_crash::rules::UNPERSISTED_READ;
use brownout_race::PERSISTENCY_RACE;
use brownout_report::{
    Baseline, Conclusion, Covered, CrashCoverage, Evidence, Finding, FindingId, LeftOut,
    ReadsSummary, Reason, ReasonKind, Report, RuleInfo, Subject, SymbolicCoverage,
};

use crate::console::Console;
use crate::crash_test::{CrashTest, Refused, is_coverage_sentence, unfinished};
use crate::decisions::Decisions;
use crate::earlier_findings::{self, FindingsOf, earlier_findings};
use crate::earlier_reasons;
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output::{self, Stream};
use crate::next_step::next_step;
use crate::output_directory::{FINDINGS, OutputDirectory};
use crate::race_run::{RaceRun, is_race_sentence};
use crate::rules;
use crate::settings::Settings;
use crate::shortfall::{Shortfall, conclude};
use crate::stored_results::{read_findings, read_suppressed};
use crate::suspects::{self, LintSuspect};
use crate::trace_file::TraceFile;
use crate::trace_notes::TraceNotes;
use crate::unrecorded_changes::Comparison;
use crate::wrapper_functions::WrapperFunctions;

/// The findings of the analyses so far.
pub struct Results {
    pub subject: Subject,
    pub findings: Vec<Finding>,
    /// Findings of earlier results about other runs than that of the trace.
    of_other_runs: Vec<Finding>,
    pub shortfalls: Vec<Shortfall>,
    /// Reasons of earlier results that these contain. They prevent the run from passing, too.
    pub carried: Vec<Reason>,
    /// What was examined, one sentence each.
    tested: Vec<String>,
    /// Whether the rules of lint were applied.
    pub linted: bool,
    /// Whether races were looked for.
    pub raced: bool,
    /// Whether the target ran on generated inputs.
    pub fuzzed: bool,
    crash: Option<CrashCoverage>,
    /// Whether reads of recovery that can see several stores were examined.
    examined_reads: bool,
    pub left_out: LeftOut,
    /// What recovery opens and reads.
    reads: Option<ReadsSummary>,
    /// What symbolic execution has done.
    pub symbolic: Option<SymbolicCoverage>,
    /// The functions of the target at whose callers findings are shown.
    pub wrappers: WrapperFunctions,
    /// What earlier results that these contain say about findings known from a baseline.
    known: Baseline,
    /// The recovery command, if there is one.
    pub recovery: Option<String>,
    /// A persistency profile that fits the target better than the one in use.
    pub better_profile: Option<&'static str>,
    /// Steps that the threads of the target have made under a schedule.
    pub steps: u64,
}

impl Results {
    pub fn new(subject: Subject, findings: Vec<Finding>) -> Self {
        Self {
            subject,
            findings,
            of_other_runs: Vec::new(),
            shortfalls: Vec::new(),
            carried: Vec::new(),
            tested: Vec::new(),
            linted: false,
            raced: false,
            fuzzed: false,
            crash: None,
            examined_reads: false,
            left_out: LeftOut::default(),
            reads: None,
            symbolic: None,
            wrappers: WrapperFunctions::default(),
            known: Baseline::default(),
            recovery: None,
            better_profile: None,
            steps: 0,
        }
    }

    /// The findings of lint, the functions at whose callers they are shown, and what was examined.
    pub fn of_lint(
        subject: Subject,
        findings: Vec<Finding>,
        wrappers: WrapperFunctions,
        tested: String,
    ) -> Self {
        Self {
            wrappers,
            tested: vec![tested],
            linted: true,
            ..Self::new(subject, findings)
        }
    }

    /// No findings yet, for the target recorded in `trace`.
    pub fn about(trace: &TraceFile, settings: &Settings) -> Self {
        let gaps = trace.incomplete_reason().into_iter().collect();
        Self::new(subject(trace, settings, gaps), Vec::new())
    }

    /// Keeps what the directory says about other runs than that of its trace, which no analysis of the trace finds again.
    fn keep_other_runs(
        &mut self,
        directory: &OutputDirectory,
        of: FindingsOf,
    ) -> Result<(), Failure> {
        let mut kept = earlier_findings(directory, of)?;
        kept.retain(|finding| finding.is_of_other_run());
        self.wrappers.learn(&kept);
        self.of_other_runs.extend(kept);
        Ok(())
    }

    /// The findings, with those of other runs that no analysis has found now.
    fn with_other_runs(&self, settings: &Settings) -> Vec<Finding> {
        let mut all = self.findings.clone();
        for finding in &self.of_other_runs {
            match all.iter_mut().find(|known| known.id == finding.id) {
                Some(known) if finding.shows_more_than(known) => known.clone_from(finding),
                Some(_) => {}
                None if settings.levels.is_off(&finding.rule) => {}
                None => all.push(finding.clone()),
            }
        }
        all
    }

    /// Prevents the run from passing.
    pub fn fall_short(&mut self, code: ExitCode, reason: Reason) {
        self.shortfalls.push(Shortfall { code, reason });
    }

    /// Adds the result of crash testing.
    pub fn add_crash_test(
        &mut self,
        tested: Result<CrashTest, Refused>,
        suspects: &[LintSuspect],
        settings: &Settings,
        console: &Console,
    ) {
        match tested {
            Ok(mut test) => {
                // Recoveries that do not read the files, or that always pass, show nothing about them.
                let shows_nothing = |reason: &Reason| {
                    matches!(
                        reason.kind,
                        ReasonKind::NothingRead | ReasonKind::HiddenStatus
                    )
                };
                if !test.shortfalls.iter().any(shows_nothing) {
                    console.remark(&test.summary);
                    self.tested.push(test.summary);
                }
                let unopened = test.left_out.unopened_sentence();
                for sentence in test.left_out.sentences() {
                    if Some(&sentence) == unopened.as_ref() {
                        console.warn(sentence);
                    } else {
                        console.remark(sentence);
                    }
                }
                self.left_out = test.left_out;
                for why in test.shortfalls {
                    self.fall_short(ExitCode::NothingTested, why);
                }
                let proofs = test.judged.iter_mut();
                for proof in proofs.filter_map(|judged| judged.verdict.proof.as_mut()) {
                    if let Some(failure) = &mut proof.failure {
                        self.wrappers.mark_frames(&mut failure.stack);
                    }
                }
                suspects::apply(&test.judged, suspects, &mut self.findings);
                suspects::mark_read(&test.read_findings, &mut self.findings);
                self.reads = test.reads;
                self.examined_reads = test.examined_reads;
                self.crash = Some(test.coverage);
                self.add(settings.levels.apply(test.findings), test.gaps, console);
            }
            Err(Refused { why, code }) => self.fall_short(code, why),
        }
    }

    /// Notes patterns that match no file of the run: what the user wants to be tested with them was not.
    /// Patterns of a configuration file need not concern each program.
    pub fn note_unmatched(&mut self, unmatched: Option<String>, settings: &Settings) {
        match unmatched {
            Some(why) if settings.patterns_are_configured => self.subject.gaps.push(why),
            Some(why) => {
                let reason = Reason::new(ReasonKind::UnmatchedPattern, why);
                self.fall_short(ExitCode::NothingTested, reason);
            }
            None => {}
        }
    }

    /// Takes over what the notes of the trace say about the recording.
    pub fn note(&mut self, notes: &TraceNotes) {
        for why in &notes.unrecorded {
            let reason = Reason::new(ReasonKind::UnrecordedProgram, why);
            self.fall_short(ExitCode::NothingTested, reason);
        }
        for why in &notes.lost {
            let why = format!("{why}; what they say about the program is not known");
            self.fall_short(ExitCode::NothingTested, Reason::other(why));
        }
        for gap in &notes.gaps {
            if !self.subject.gaps.contains(gap) {
                self.subject.gaps.push(gap.clone());
            }
        }
    }

    /// Takes over what comparing the files with the trace has shown.
    pub fn compared(&mut self, comparison: Comparison, console: &Console) {
        for why in comparison.changed {
            self.fall_short(ExitCode::NothingTested, Reason::other(why));
        }
        self.add(Vec::new(), comparison.gap.into_iter().collect(), console);
    }

    /// Adds what the directory says about crashes of the same trace, which lint does not test.
    pub fn keep_crash_test(
        &mut self,
        directory: &OutputDirectory,
        trace: &Path,
        settings: &Settings,
    ) -> Result<(), Failure> {
        if !has_results_about(directory, trace) {
            return Ok(());
        }
        let is_off = |rule: &str| settings.levels.is_off(rule);
        let kept = earlier_findings::keep_crash_test(directory, &mut self.findings, is_off)?;
        self.wrappers.learn(&kept);
        self.findings.extend(kept);
        self.keep_known(directory, FindingsOf::CrashTesting)?;
        self.keep_other_runs(directory, FindingsOf::Lint)?;
        let run = directory.run_file()?;
        self.examined_reads = run.in_force.applied(UNPERSISTED_READ.id);
        self.subject.crash_options = run.crash_options;
        let conclusion = run.conclusion;
        self.keep_sentences(&conclusion, FindingsOf::CrashTesting);
        self.keep_coverage(conclusion);
        Ok(())
    }

    /// Adds what the directory says about races in the same trace, which lint does not look for.
    pub fn keep_races(&mut self, directory: &OutputDirectory, trace: &Path) -> Result<(), Failure> {
        if !has_results_about(directory, trace) {
            return Ok(());
        }
        let kept = earlier_findings(directory, FindingsOf::Races)?;
        self.wrappers.learn(&kept);
        self.findings.extend(kept);
        self.keep_known(directory, FindingsOf::Races)?;
        let run = directory.run_file()?;
        self.raced = run.in_force.applied(PERSISTENCY_RACE.id);
        self.keep_sentences(&run.conclusion, FindingsOf::Races);
        Ok(())
    }

    /// Adds what the directory says about everything but races in the same trace.
    pub fn keep_all_but_races(
        &mut self,
        directory: &OutputDirectory,
        trace: &Path,
    ) -> Result<(), Failure> {
        if !has_results_about(directory, trace) {
            return Ok(());
        }
        let kept = earlier_findings(directory, FindingsOf::OtherThanRaces)?;
        self.wrappers.learn(&kept);
        self.findings.extend(kept);
        self.keep_known(directory, FindingsOf::OtherThanRaces)?;
        self.keep_other_runs(directory, FindingsOf::Races)?;
        let run = directory.run_file()?;
        self.examined_reads = run.in_force.applied(UNPERSISTED_READ.id);
        self.linted = run.in_force.linted();
        self.subject.files = run.files;
        self.subject.crash_options = run.crash_options;
        self.subject.not_judged = run.not_judged;
        self.keep_sentences(&run.conclusion, FindingsOf::OtherThanRaces);
        self.keep_coverage(run.conclusion);
        let is_of_races = |reason: &Reason| reason.kind == ReasonKind::NoRacesTested;
        self.carried.retain(|reason| !is_of_races(reason));
        Ok(())
    }

    /// Adds the result of the search for races.
    pub fn add_races(&mut self, run: RaceRun, console: &Console) {
        if run.untested.is_none() && run.nothing_persistent.is_none() {
            self.raced = true;
            self.tested.push(run.tested);
        }
        for sentence in &run.remarks {
            console.remark(sentence);
        }
        self.wrappers.add(run.wrappers);
        self.add(run.findings, run.gaps, console);
    }

    /// Adds what the directory says about other analyses of the same trace, which a crash test does not repeat. `fresh` is what lint
    /// finds now.
    pub fn keep_trace_analyses(
        &mut self,
        directory: &OutputDirectory,
        trace: &Path,
        fresh: &[Finding],
    ) -> Result<(), Failure> {
        if !has_results_about(directory, trace) {
            return Ok(());
        }
        let run = directory.run_file()?;
        let mut kept = earlier_findings(directory, FindingsOf::TraceAnalyses)?;
        earlier_findings::forget_crash_test(&mut kept, &run.in_force.rules(rules::all()), fresh);
        earlier_findings::complete(&mut kept, fresh.iter());
        self.wrappers.learn(&kept);
        self.findings.extend(kept);
        self.keep_other_runs(directory, FindingsOf::CrashTesting)?;
        if self.subject.files.is_empty() {
            self.subject.files = run.files;
        }
        if self.subject.not_judged.is_empty() {
            self.subject.not_judged = run.not_judged;
        }
        self.keep_sentences(&run.conclusion, FindingsOf::TraceAnalyses);
        self.carried = earlier_reasons::of_trace_analyses(&run.conclusion);
        self.raced = run.in_force.applied(PERSISTENCY_RACE.id);
        if run.in_force.linted() {
            self.linted = true;
            self.subject.model = run.model;
            self.subject.patterns = run.pm;
        }
        self.keep_known(directory, FindingsOf::TraceAnalyses)
    }

    /// Keeps what the directory says about findings of some analyses that a baseline contained.
    pub fn keep_known(
        &mut self,
        directory: &OutputDirectory,
        of: FindingsOf,
    ) -> Result<(), Failure> {
        if directory.run_file()?.known == 0 {
            return Ok(());
        }
        let known = directory.baseline()?.unwrap_or_default();
        let listed = self.findings.iter().map(|finding| &finding.id);
        let listed: HashSet<&FindingId> = listed.collect();
        let known = known.filtered(|rule, id| of.are_of(rule) && !listed.contains(id));
        self.known = std::mem::take(&mut self.known).with_missing(&known);
        Ok(())
    }

    /// Adds what an analysis has examined.
    fn keep_sentences(&mut self, earlier: &Conclusion, of: FindingsOf) {
        let sentences = earlier.tested.iter();
        let kept = sentences.filter(|text| match of {
            FindingsOf::CrashTesting => is_coverage_sentence(text),
            FindingsOf::TraceAnalyses => !is_coverage_sentence(text),
            FindingsOf::Lint => !is_coverage_sentence(text) && !is_race_sentence(text),
            FindingsOf::Races => is_race_sentence(text),
            FindingsOf::OtherThanRaces => !is_race_sentence(text),
        });
        self.tested.extend(kept.cloned());
    }

    /// Takes over what an earlier crash test has tried. If it was not finished, or did not pass for another reason, this run does
    /// not pass either.
    fn keep_coverage(&mut self, earlier: Conclusion) {
        self.carried = earlier_reasons::of_crash_test(&earlier);
        self.left_out = earlier.left_out;
        self.reads = earlier.recovery_reads;
        let Some(coverage) = earlier.crash else {
            return;
        };
        let mut carried = self.carried.iter();
        let gap_is_known = carried
            .any(|reason| matches!(reason.kind, ReasonKind::CoverageGap | ReasonKind::CutShort));
        if !coverage.complete && coverage.part.is_none() && !gap_is_known {
            let Covered { tried, of } = coverage.failure_points;
            let why = "crash testing was not finished; `brownout crash --resume` continues";
            let gap = unfinished((tried, of), "failure point", why);
            self.fall_short(ExitCode::NothingTested, gap);
        }
        self.crash = Some(coverage);
    }

    /// Adds the findings of an analysis and what it could not examine.
    pub fn add(&mut self, findings: Vec<Finding>, gaps: Vec<String>, console: &Console) {
        self.findings.extend(findings);
        for gap in gaps {
            if !self.subject.gaps.contains(&gap) {
                console.warn(&gap);
                self.subject.gaps.push(gap);
            }
        }
    }

    /// The rules that were applied: those of lint only if the trace was linted, those of crash testing only if crashes were
    /// tested.
    fn rules(&self, settings: &Settings) -> Vec<RuleInfo> {
        let mut rules = rules::in_force(settings);
        rules.retain(|rule| {
            let applied = match rules::is_crash_rule(rule.id) {
                _ if rules::is_target_rule(rule.id) => self.fuzzed,
                _ if rule.id == UNPERSISTED_READ.id => self.examined_reads,
                true => self.crash.is_some(),
                false if rules::is_race_rule(rule.id) => self.raced,
                false => self.linted,
            };
            applied || self.findings.iter().any(|finding| finding.rule == rule.id)
        });
        rules
    }

    /// Writes what is known so far, for the case that the run is killed: `doing` is what comes next.
    pub fn write_unfinished(
        &self,
        decisions: &Decisions,
        settings: &Settings,
        directory: &OutputDirectory,
        doing: &str,
    ) -> Result<(), Failure> {
        let report = self.unfinished(decisions, settings, doing);
        finding_output::write_all(&report, directory)
    }

    /// Discards the results of an earlier run, and writes what is known so far in their place.
    pub fn replace_earlier(
        &self,
        decisions: &Decisions,
        settings: &Settings,
        directory: &mut OutputDirectory,
        doing: &str,
    ) -> Result<(), Failure> {
        let report = self.unfinished(decisions, settings, doing);
        directory.replace_results(&report)?;
        finding_output::write_all(&report, directory)
    }

    fn unfinished(&self, decisions: &Decisions, settings: &Settings, doing: &str) -> Report {
        let rules = self.rules(settings);
        let mut findings = self.with_other_runs(settings);
        self.wrappers.mark(&mut findings);
        let mut report = Report::new(self.subject.clone(), rules, findings);
        report.fail_on = settings.fail_on;
        report.keep_known(self.known.clone());
        decisions.apply_for_now(&mut report);
        report.join();
        report.conclusion = Conclusion {
            tested: self.tested.clone(),
            ..Conclusion::unfinished(doing)
        };
        report
    }

    /// Names the schedule under which the findings were made.
    pub fn name_schedule(&mut self, schedule: &str) {
        for finding in &mut self.findings {
            let details = &mut finding.evidence.details;
            details.insert(Evidence::SCHEDULE.to_owned(), schedule.to_owned());
        }
    }

    /// Adds what another schedule of the threads has shown, whose results are in the directory `results_in` inside of that of these
    /// results. Of a finding that is known, the schedule that shows most counts. Returns how many are new.
    pub fn add_schedule(&mut self, part: &Self, (schedule, results_in): (&str, &str)) -> usize {
        let mut new = 0;
        for finding in &part.findings {
            let mut finding = finding.clone();
            let details = &mut finding.evidence.details;
            details.insert(Evidence::RESULTS_IN.to_owned(), results_in.to_owned());
            let mut known = self.findings.iter_mut();
            match known.find(|known| known.id == finding.id) {
                Some(known) => known.add_run(finding),
                None => {
                    new += 1;
                    self.findings.push(finding);
                }
            }
        }
        for shortfall in &part.shortfalls {
            self.add_shortfall_of(schedule, shortfall.clone());
        }
        for gap in &part.subject.gaps {
            if !self.subject.gaps.contains(gap) {
                self.subject.gaps.push(gap.clone());
            }
        }
        self.wrappers.learn(&part.findings);
        self.raced |= part.raced;
        self.linted |= part.linted;
        new
    }

    /// Adds why another schedule does not pass. One schedule is enough to say so, besides the first: what a later command makes of
    /// the trace of the first decides nothing about the others.
    fn add_shortfall_of(&mut self, schedule: &str, mut shortfall: Shortfall) {
        let text = std::mem::take(&mut shortfall.reason.text);
        let is_of_program = shortfall.reason.kind == ReasonKind::UnrecordedProgram;
        let mut known = self.shortfalls.iter().map(|known| &known.reason);
        let is_known = known.any(|known| match known.is_of_other_schedule() {
            true => known.text.ends_with(&format!(": {text}")),
            false => is_of_program && known.text == text,
        });
        if is_known {
            return;
        }
        shortfall.reason.text = format!("schedule {schedule}: {text}");
        shortfall.reason.kind = match shortfall.code {
            ExitCode::TargetFailed => ReasonKind::OtherScheduleFailed,
            _ => ReasonKind::OtherSchedule,
        };
        self.shortfalls.push(shortfall);
    }

    /// Adds the findings on one input, whose results are in the directory `results_in` inside of that of these results. Of a finding that
    /// is known, the first input counts, unless this one shows more. Returns those that are new.
    pub fn add_input(&mut self, part: &Self, results_in: &str) -> Vec<Finding> {
        let mut new = Vec::new();
        for finding in &part.findings {
            let mut finding = finding.clone();
            let details = &mut finding.evidence.details;
            details.insert(Evidence::RESULTS_IN.to_owned(), results_in.to_owned());
            let mut known = self.findings.iter_mut();
            match known.find(|known| known.id == finding.id) {
                Some(known) => known.add_run(finding),
                None => {
                    new.push(finding.clone());
                    self.findings.push(finding);
                }
            }
        }
        self.wrappers.learn(&part.findings);
        self.raced |= part.raced;
        self.linted |= part.linted;
        if self.crash.is_none() {
            self.crash = part.crash.clone();
        }
        new
    }

    /// Takes over the findings of an earlier process of a campaign, also those that were suppressed or known then, and what they are about.
    pub fn continue_campaign(&mut self, directory: &OutputDirectory) -> Result<(), Failure> {
        let run = directory.run_file()?;
        self.findings = read_findings(directory)?;
        let suppressed = read_suppressed(directory)?.into_iter();
        self.findings
            .extend(suppressed.map(|suppressed| suppressed.finding));
        if run.known > 0 {
            self.known = directory.baseline()?.unwrap_or_default();
        }
        self.raced = run.in_force.applied(PERSISTENCY_RACE.id);
        self.examined_reads = run.in_force.applied(UNPERSISTED_READ.id);
        self.subject.files = run.files;
        self.crash = run.conclusion.crash;
        Ok(())
    }

    /// How many failure points crash testing has tried.
    pub fn tried_failure_points(&self) -> u64 {
        let crash = self.crash.as_ref();
        crash.map_or(0, |coverage| coverage.failure_points.tried)
    }

    /// Adds a sentence about what was examined.
    pub fn add_tested(&mut self, sentence: String) {
        self.tested.push(sentence);
    }

    /// Writes the report of a part of the run to its directory, without printing it.
    pub fn conclude_part(
        self,
        decisions: Decisions,
        settings: &Settings,
        directory: &OutputDirectory,
        console: &Console,
    ) -> Result<(), Failure> {
        let (report, _, decided) = self.finish(decisions, settings, console);
        finding_output::write_all(&report, directory)?;
        decided
    }

    /// Writes the report to the directory, if there is one, prints it with what to do next, and returns the exit code.
    pub fn conclude(
        self,
        decisions: Decisions,
        settings: &Settings,
        directory: Option<&OutputDirectory>,
        stream: Stream,
        console: &Console,
    ) -> Result<ExitCode, Failure> {
        let (recovery, better_profile) = (self.recovery.clone(), self.better_profile);
        let (report, (code, shortfalls), decided) = self.finish(decisions, settings, console);
        // People read the findings even if they cannot be written.
        let written = directory.map_or(Ok(()), |directory| {
            finding_output::write_all(&report, directory)
        });
        // Before the findings, which have to be read in this light.
        for shortfall in &shortfalls {
            shortfall.print(console);
        }
        match finding_output::print(&report, settings, directory, stream) {
            // The verdict does not depend on how much of the findings is read.
            Err(failure) if failure.is_broken_pipe() => {}
            printed => printed?,
        }
        written.and(decided)?;
        if let Some(profile) = better_profile {
            console.remark(format_args!(
                "the program syncs its files and executes no flush instruction; use `--model {profile}` to check it as a \
                 program on ordinary storage"
            ));
        }
        if let Some(directory) = directory {
            let next = next_step(&report, directory, recovery.as_deref(), better_profile);
            directory.announce(next.as_deref(), console);
        }
        Ok(code)
    }

    /// The report, what the run exits with and why, and whether decisions could be kept.
    fn finish(
        mut self,
        decisions: Decisions,
        settings: &Settings,
        console: &Console,
    ) -> (Report, (ExitCode, Vec<Shortfall>), Result<(), Failure>) {
        for reason in std::mem::take(&mut self.carried) {
            let mut known = self.shortfalls.iter();
            if known.all(|known| known.reason.text != reason.text) {
                self.fall_short(earlier_reasons::exit_code(&reason), reason);
            }
        }
        self.findings = self.with_other_runs(settings);
        self.wrappers.mark(&mut self.findings);
        let doubts = self.reads.as_ref().map(|reads| &reads.doubts);
        if doubts.is_none_or(Vec::is_empty) {
            settings.levels.settle(&mut self.findings);
        }
        let rules = self.rules(settings);
        let mut report = Report::new(self.subject, rules, self.findings);
        report.fail_on = settings.fail_on;
        report.keep_known(self.known);
        let decided = decisions.apply(&mut report, settings, console);
        // Each finding that would be joined needs a suppression of its own.
        if !settings.gen_suppressions {
            report.join();
        }
        let (code, conclusion) = conclude(&report, &self.shortfalls, self.tested);
        report.conclusion = Conclusion {
            crash: self.crash,
            left_out: self.left_out,
            recovery_reads: self.reads,
            symbolic: self.symbolic,
            ..conclusion
        };
        (report, (code, self.shortfalls), decided)
    }
}

/// The target recorded in `trace`, and what could not be examined.
pub fn subject(trace: &TraceFile, settings: &Settings, gaps: Vec<String>) -> Subject {
    let command = trace.header().command.iter();
    Subject {
        command: command
            .map(|argument| argument.to_string_lossy().into_owned())
            .collect(),
        directory: Some(settings.directory.to_string_lossy().into_owned()),
        gaps,
        files: Vec::new(),
        not_judged: Vec::new(),
        accepted_ends: settings.accepted_ends(),
        model: Some(settings.model.name.to_owned()),
        patterns: settings.pattern_texts(),
        crash_options: Vec::new(),
    }
}

/// Whether the directory holds results about this trace.
fn has_results_about(directory: &OutputDirectory, trace: &Path) -> bool {
    directory.is_about(trace) && directory.file(FINDINGS).exists()
}
