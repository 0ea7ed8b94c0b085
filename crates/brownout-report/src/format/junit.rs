//! JUnit XML, which continuous-integration servers display. A rule without findings is a passed test. A finding is a
//! failed test if it makes the check fail; otherwise it passes, with its text as output. A run that did not examine
//! everything is an error, and its rules without findings are skipped, also if it has findings. So are rules about recovery if
//! recovery failed because of what another rule reports, and rules whose findings are all suppressed or known from the baseline:
//! servers show what is skipped, and a passed test would say that there is no bug.

use std::io;

use quick_junit::{NonSuccessKind, TestCase, TestCaseStatus, TestSuite};

use super::Format;
use crate::{Finding, Problem, Report};

/// Why a rule about recovery without findings has not passed.
const FAILED_ELSEWHERE: &str = "recovery fails after crashes that findings of other rules cause";

/// What follows the number of findings that the baseline contains.
const KNOWN: &str = "known from the baseline";

/// JUnit XML.
#[derive(Clone, Copy, Debug)]
pub struct Junit;

impl Format for Junit {
    fn write(&self, report: &Report, out: &mut dyn io::Write) -> io::Result<()> {
        let mut suite = TestSuite::new("brownout");
        suite.add_test_cases(report.causes().map(|finding| case(report, finding)));
        let found = report.rules_with_findings();
        let problem = report.conclusion.problem();
        if let Some(problem) = &problem {
            suite.add_test_case(run_error(problem));
        }
        if report.known_before() > 0 {
            // Which rules they are of is not known any more.
            suite.add_test_case(known_before(report.known_before()));
        }
        let mut findings = report.findings().iter();
        let recovery_failed = findings.any(|finding| finding.confirmed == Some(true));
        let passed = report.rules.iter().filter(|rule| !found.contains(rule.id));
        suite.add_test_cases(passed.map(|rule| {
            let status = match (&problem, accepted(report, rule.id)) {
                // No findings in a run that is not conclusive are no success.
                (Some(problem), _) => skipped(problem.end.meaning()),
                (None, Some(accepted)) => skipped(&accepted),
                (None, None) if recovery_failed && rule.is_about_recovery() => {
                    skipped(FAILED_ELSEWHERE)
                }
                (None, None) => TestCaseStatus::success(),
            };
            let mut case = TestCase::new(rule.summary, status);
            case.set_classname(rule.id);
            case
        }));
        let mut notes: Vec<String> = report.file_sentences().collect();
        notes.extend(report.conclusion.left_out.sentences());
        if !notes.is_empty() {
            suite.set_system_out(notes.join("\n"));
        }
        if !report.subject.gaps.is_empty() {
            suite.set_system_err(report.subject.gaps.join("\n"));
        }
        let mut junit = quick_junit::Report::new("brownout");
        junit.add_test_suite(suite);
        let text = junit.to_string().map_err(io::Error::other)?;
        out.write_all(text.as_bytes())
    }
}

/// The test that stands for the run itself.
fn run_error(problem: &Problem) -> TestCase {
    let mut status = TestCaseStatus::non_success(NonSuccessKind::Error);
    status
        .set_type(problem.end.as_str())
        .set_message(problem.end.meaning())
        .set_description(problem.text.as_str());
    let mut case = TestCase::new("run", status);
    case.set_classname("brownout");
    case
}

/// How many findings of a rule the user has accepted, if there are any.
fn accepted(report: &Report, rule: &str) -> Option<String> {
    let of_rule = |finding: &&Finding| finding.rule == rule;
    let suppressed = report.suppressed().iter().map(|one| &one.finding);
    let counts = [
        (report.known().iter().filter(of_rule).count(), KNOWN),
        (suppressed.filter(of_rule).count(), "suppressed"),
    ];
    let present = counts.iter().filter(|(count, _)| *count > 0);
    let texts: Vec<String> = present
        .map(|(count, how)| format!("{count} {how}"))
        .collect();
    (!texts.is_empty()).then(|| texts.join(", "))
}

/// The test that stands for findings of an earlier run of which only the number is left.
fn known_before(count: usize) -> TestCase {
    let mut case = TestCase::new("baseline", skipped(&format!("{count} {KNOWN}")));
    case.set_classname("brownout");
    case
}

fn skipped(why: &str) -> TestCaseStatus {
    let mut status = TestCaseStatus::skipped();
    status.set_message(why);
    status
}

fn case(report: &Report, finding: &Finding) -> TestCase {
    let text = description(report, finding);
    let frame = finding
        .primary_frame()
        .map(|frame| report.shown_frame(frame));
    // Servers identify a test across runs by its name, so the name must be stable and unique.
    let name = match frame {
        Some(frame) => format!("{frame} [{}]", finding.id),
        None => finding.id.to_string(),
    };
    let mut case = if report.fails_on(finding) {
        let mut status = TestCaseStatus::non_success(NonSuccessKind::Failure);
        status
            .set_type(finding.rule.as_str())
            .set_message(finding.message.as_str())
            .set_description(text.as_str());
        TestCase::new(name, status)
    } else {
        let mut case = TestCase::new(name, TestCaseStatus::success());
        case.set_system_out(text.as_str());
        case
    };
    case.set_classname(finding.rule.as_str());
    case
}

fn description(report: &Report, finding: &Finding) -> String {
    let times = if finding.count == 1 { "time" } else { "times" };
    let mut text = format!("{}\nseen {} {times}\n", finding.message, finding.count);
    for stack in &finding.stacks {
        text.push_str(&format!("{}:\n", stack.role));
        for frame in &stack.frames {
            text.push_str(&format!("  {}\n", report.shown_frame(frame)));
        }
    }
    for range in &finding.evidence.ranges {
        text.push_str(&format!("{range}\n"));
    }
    for (name, value) in &finding.evidence.details {
        text.push_str(&format!("{name}: {value}\n"));
    }
    if let Some(token) = finding.crash_token() {
        text.push_str(&format!("replay: {token}\n"));
    }
    for other in finding.other_locations() {
        let frame = report.shown_frame(other.frame);
        text.push_str(&format!("also {}: {frame}\n", other.rule));
    }
    for effect in report.explained_by(finding) {
        text.push_str(&format!("{} [{}]: ", effect.rule, effect.id));
        text.push_str(&description(report, effect));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{FENCE_RULE, FLUSH_RULE, WARNING_RULE, finding, finding_at};
    use crate::{Baseline, Conclusion, FailOn, RuleInfo, Sources, Subject, Suppressed};

    fn suite(findings: Vec<Finding>) -> TestSuite {
        let rules = vec![FLUSH_RULE, FENCE_RULE, WARNING_RULE];
        parsed(&Report::new(Subject::default(), rules, findings))
    }

    fn parsed(report: &Report) -> TestSuite {
        let text = Junit.to_text(report);
        let mut report = quick_junit::Report::deserialize_from_str(&text).unwrap();
        report.test_suites.remove(0)
    }

    #[test]
    fn bugs_fail_and_warnings_and_rules_without_findings_pass() {
        let suite = suite(vec![finding(), finding_at(&WARNING_RULE, "kv.c", 3)]);
        assert_eq!((suite.tests, suite.failures, suite.errors), (3, 1, 0));
        let failed = &suite.test_cases[0];
        assert_eq!(failed.classname.as_ref().unwrap().as_str(), "missing-flush");
        assert!(
            failed
                .name
                .as_str()
                .starts_with("put at /home/u/kv/kv.c:7 [")
        );
        let TestCaseStatus::NonSuccess { description, .. } = &failed.status else {
            panic!("{:?}", failed.status);
        };
        let description = description.as_ref().unwrap().as_str();
        assert!(
            description.contains("main at /home/u/kv/kv.c:90"),
            "{description}"
        );
    }

    #[test]
    fn the_findings_that_fail_the_check_are_failed_tests() {
        let findings = vec![
            finding(),
            finding_at(&FENCE_RULE, "kv.c", 5),
            finding_at(&WARNING_RULE, "kv.c", 3),
        ];
        for (fail_on, failures) in [
            (FailOn::Bug, 1),
            (FailOn::Performance, 2),
            (FailOn::Warning, 3),
            (FailOn::Never, 0),
        ] {
            let mut report = Report::new(Subject::default(), vec![], findings.clone());
            report.fail_on = fail_on;
            assert_eq!(parsed(&report).failures, failures, "{fail_on:?}");
        }
    }

    #[test]
    fn all_tests_pass_without_findings() {
        let suite = suite(vec![]);
        assert_eq!((suite.tests, suite.failures), (3, 0));
    }

    #[test]
    fn a_run_that_is_not_conclusive_is_an_error_and_its_rules_are_skipped() {
        let rules = vec![FLUSH_RULE, FENCE_RULE];
        let mut report = Report::new(Subject::default(), rules, vec![finding()]);
        report.conclusion = Conclusion::unfinished("linting");
        let text = Junit.to_text(&report);
        let mut report = quick_junit::Report::deserialize_from_str(&text).unwrap();
        let suite = report.test_suites.remove(0);
        assert_eq!((suite.tests, suite.failures, suite.errors), (3, 1, 1));
        assert_eq!(text.matches("<skipped").count(), 1, "{text}");
        assert!(text.contains("it ended while linting"), "{text}");
    }

    #[test]
    fn a_confirmed_finding_has_its_proof() {
        let mut bug = finding();
        let proof = "recovery exits with status 1 on the image of a crash";
        let details = &mut bug.evidence.details;
        details.insert(crate::Evidence::CONFIRMED.to_owned(), proof.to_owned());
        details.insert("last output".to_owned(), "slot 0 is damaged".to_owned());
        bug.replay = Some("crash4:4711:e30".to_owned());
        let text = Junit.to_text(&Report::new(Subject::default(), vec![], vec![bug]));
        for part in [proof, "slot 0 is damaged", "replay: crash4:4711:e30"] {
            assert!(text.contains(part), "{text}");
        }
    }

    #[test]
    fn a_confirmed_finding_leaves_no_rule_about_recovery_passed() {
        let rule = RuleInfo {
            id: "recovery-failed",
            ..FENCE_RULE
        };
        for (confirmed, skipped) in [(Some(true), 1), (Some(false), 0)] {
            let mut bug = finding();
            bug.confirmed = confirmed;
            let rules = vec![FLUSH_RULE, FENCE_RULE, rule];
            let text = Junit.to_text(&Report::new(Subject::default(), rules, vec![bug]));
            assert_eq!(text.matches("<skipped").count(), skipped, "{text}");
            assert!(!text.contains("<error"), "{text}");
        }
    }

    #[test]
    fn a_rule_whose_findings_are_accepted_is_skipped() {
        let skipped = |report: &Report| -> Vec<String> {
            let cases = parsed(report).test_cases.into_iter();
            let messages = cases.filter_map(|case| match case.status {
                TestCaseStatus::Skipped { message, .. } => Some(message?.as_str().to_owned()),
                _ => None,
            });
            messages.collect()
        };
        let rules = || vec![FLUSH_RULE, FENCE_RULE];
        let sources = Sources::on_disk();
        let mut report = Report::new(Subject::default(), rules(), vec![finding()]);
        assert_eq!(skipped(&report), [""; 0]);
        let baseline = Baseline::of(report.findings(), &sources);
        report.compare_with(&baseline, &sources);
        assert_eq!(skipped(&report), ["1 known from the baseline"]);
        let again = Report::new(Subject::default(), rules(), vec![]).with_known(2);
        assert_eq!(skipped(&again), ["2 known from the baseline"]);
        let suppressed = Suppressed {
            finding: finding(),
            reason: "fine".into(),
        };
        let report = report.with_suppressed(vec![suppressed]);
        assert_eq!(
            skipped(&report),
            ["1 known from the baseline, 1 suppressed"]
        );
    }

    #[test]
    fn names_may_contain_any_characters() {
        let mut bug = finding();
        bug.message = "<a & \"b\"> ]]> \x1b[1m \u{0}".into();
        bug.stacks[0].frames[0].function = Some("operator<<<char>&&".into());
        let suite = suite(vec![bug]);
        assert!(
            suite.test_cases[0]
                .name
                .as_str()
                .starts_with("operator<<<char>&&")
        );
    }
}
