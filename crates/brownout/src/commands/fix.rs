//! `brownout fix`: repairs findings in the sources.

use std::io::Write as _;

use brownout_model::Profile;
use brownout_report::{Finding, Report, Severity};

use crate::arguments::{ConfigArgs, FindingArgs, FixArgs, Format};
use crate::console::{self, Console};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::finding_output;
use crate::fix::{
    FindingRepair, FixRequest, Rebuild, Repairs, RunningProof, is_on_request, prove_by_building,
    prove_by_running, repair_findings,
};
use crate::fix_output::{print_human, print_json};
use crate::output_directory::write_file;
use crate::rules;
use crate::settings::Settings;
use crate::stored_results::read_report;

pub fn run(arguments: &FixArgs, console: &Console) -> Result<ExitCode, Failure> {
    let (directory, mut report) = read_report(&arguments.directory)?;
    check_names(arguments, &report)?;
    let trace = directory.trace()?;
    let settings = settings(arguments, &report, console)?;
    let request = FixRequest {
        named: &arguments.findings,
        builds: arguments.build.is_some(),
        removes: arguments.performance,
    };
    let mut repairs = repair_findings(
        &report,
        request,
        (&arguments.directory, &trace),
        &settings,
        console,
    )?;
    if let Some(command) = &arguments.build {
        let rebuild = Rebuild {
            command,
            directory: arguments.build_dir.as_deref(),
            time_limit: arguments.build_time,
            results: &arguments.directory,
            report: &report,
            settings: &settings,
        };
        prove_by_building(&mut repairs, &rebuild, &trace, console)?;
    } else {
        let proof = RunningProof {
            results: &arguments.directory,
            report: &report,
            settings: &settings,
        };
        prove_by_running(&mut repairs, &proof, &trace, console)?;
    }
    let current = std::env::current_dir().map_err(Failure::CurrentDirectory)?;
    let here = repairs.diff_directory(&current);
    if here != current && !repairs.combined.is_empty() {
        console.remark(format_args!(
            "the paths of the patch are relative to {}: apply it there",
            here.display()
        ));
    }
    if let Some(path) = &arguments.patch {
        let diff = repairs.combined.diff(&here);
        write_file(path, |out| out.write_all(diff.as_bytes()))?;
    }
    let mut out = console::results();
    match arguments.format {
        // That there is nothing to repair is not known then.
        Format::Human if repairs.findings.is_empty() && !report.conclusion.is_conclusive() => {
            Ok(())
        }
        Format::Human => print_human(&repairs, &here, &mut out),
        Format::Json => print_json(&repairs, &here, &mut out),
    }
    .and_then(|()| out.flush())
    .map_err(Failure::Output)?;
    let code = match repairs.findings.is_empty() {
        true => nothing_to_repair(&report, console),
        false => conclude(arguments, &repairs, console)?,
    };
    // Last: a failure of this command says nothing about the results, unless they cannot be written.
    for repair in &repairs.findings {
        report.set_fix(&repair.finding.id, repair.source_fix(&here));
    }
    finding_output::write_all(&report, &directory)?;
    Ok(code)
}

/// The options by which the findings were judged, so that they are judged again in the same way.
fn settings(arguments: &FixArgs, report: &Report, console: &Console) -> Result<Settings, Failure> {
    let subject = &report.subject;
    let model = subject.model.as_deref().and_then(Profile::named);
    let known = |name: &str| {
        let mut words = subject.crash_options.iter();
        words.find_map(|word| word.strip_prefix(name)?.strip_prefix('='))
    };
    let given = arguments.config.clone();
    let config = ConfigArgs {
        config: given.config.or_else(|| known("--config").map(Into::into)),
        preset: given
            .preset
            .or_else(|| known("--preset").map(str::to_owned)),
    };
    let findings = FindingArgs {
        model,
        config,
        ..FindingArgs::default()
    };
    let patterns: Vec<_> = subject.patterns.iter().map(Into::into).collect();
    Settings::new(&findings, &patterns, console)
}

/// Without any finding, the reasons decide why there is none.
fn nothing_to_repair(report: &Report, console: &Console) -> ExitCode {
    match report.conclusion.problem() {
        None => ExitCode::Success,
        Some(problem) => {
            console.warn(format_args!(
                "no finding can be repaired, but that does not show that there is nothing to repair: {}",
                problem.text
            ));
            ExitCode::NothingTested
        }
    }
}

/// Fails if a name on the command line is that of no finding.
fn check_names(arguments: &FixArgs, report: &Report) -> Result<(), Failure> {
    for name in &arguments.findings {
        let is_of = |finding: &Finding| {
            finding.rule == *name || finding.id.as_str().starts_with(name.as_str())
        };
        if !report.findings().iter().any(is_of) {
            let path = arguments.directory.clone();
            return Err(match rules::all().iter().any(|rule| rule.id == name) {
                true => Failure::NoFindingOfRule {
                    path,
                    rule: name.clone(),
                },
                false => Failure::NoSuchFinding {
                    path,
                    finding: name.clone(),
                },
            });
        }
    }
    Ok(())
}

/// Applies the patch if that is asked for, and says how it ended.
fn conclude(
    arguments: &FixArgs,
    repairs: &Repairs,
    console: &Console,
) -> Result<ExitCode, Failure> {
    let is_counted =
        |repair: &&FindingRepair| !arguments.findings.is_empty() || repair.is_reparable();
    let counted: Vec<&FindingRepair> = repairs.findings.iter().filter(is_counted).collect();
    let is_shown = |repair: &&FindingRepair| repair.is_repaired() && repair.doubt.is_none();
    let all_repaired = counted.iter().all(is_shown);
    let adds_bug = repairs
        .added
        .iter()
        .any(|finding| finding.severity == Severity::Bug);
    // Findings of which none can be repaired are no success. Transient data is repaired only if it is named.
    let mut others = repairs
        .findings
        .iter()
        .filter(|repair| !is_on_request(&repair.finding.rule) && !repair.is_about_removal());
    let none_reparable = counted.is_empty() && others.next().is_some();
    if arguments.apply && !repairs.combined.is_empty() {
        // A proof by building was asked for: what it has not shown is not applied.
        let is_proven = |repair: &FindingRepair| {
            repair.refusal.is_none() && (arguments.build.is_none() || repair.doubt.is_none())
        };
        let parts = repairs.findings.iter();
        let is_shown = parts.filter(|repair| repair.is_in_patch).all(is_proven);
        match is_shown && !adds_bug {
            true => {
                repairs.combined.write(arguments.force)?;
                for file in &repairs.combined.files {
                    console.remark(format_args!("changed {}", file.path.display()));
                }
            }
            false => console.warn("the sources were not changed, because the patch is not proven"),
        }
    } else if !repairs.combined.is_empty() && arguments.build.is_none() {
        console.remark("to build and check the repaired program before you use the patch, give its build command with --build");
    }
    Ok(match all_repaired && !adds_bug && !none_reparable {
        true => ExitCode::Success,
        false => ExitCode::BugsFound,
    })
}
