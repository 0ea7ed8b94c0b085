//! Replays a finding of `brownout fuzz` that is about the program itself: runs it again on the input and the persistent files of the
//! finding.
//!
//! A program that crashed or hung runs natively. For a finding of lint or of the search for races, the program is recorded again, and the
//! recording is examined.

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use brownout_crash::{CrashImage, failing_frames};
use brownout_fuzz::executor::Executor as _;
use brownout_fuzz::{CampaignFile, StartImage, StartPerRun, TargetDescription};
use brownout_model::Profile;
use brownout_recovery::{End, signal_text};
use brownout_report::{Evidence, Finding};

use super::check::look_for_races;
use super::fuzz::{target_description, with_client};
use crate::arguments::{ConfigArgs, FindingArgs, ReplayArgs};
use crate::console::Console;
use crate::crash_test::{CrashSymbols, PointFilters, shell_word};
use crate::exit_code::ExitCode;
use crate::failure::Failure;
use crate::lint_run::lint;
use crate::output_directory::{OutputDirectory, TRACE};
use crate::results::Results;
use crate::rules;
use crate::run_file::RunFile;
use crate::settings::Settings;

/// How long the program may run again, if the campaign does not say how long an execution may take.
const TIME_LIMIT: Duration = Duration::from_secs(5);

/// Whether a finding is replayed by running the program.
pub fn is_about_input(finding: &Finding) -> bool {
    let has_input = finding.evidence.details.contains_key(Evidence::INPUT);
    has_input && (rules::is_target_rule(&finding.rule) || finding.crash_token().is_none())
}

/// Runs the program of a campaign on the input and the persistent files of a finding. Exits with 1 if that shows the finding again.
pub fn replay(
    arguments: &ReplayArgs,
    finding: &Finding,
    console: &Console,
) -> Result<ExitCode, Failure> {
    let directory = &arguments.directory;
    let root = fs::canonicalize(directory).map_err(|source| Failure::Results {
        path: directory.to_owned(),
        source,
    })?;
    let Some(file) = CampaignFile::read(&root)? else {
        return Err(Failure::NotReplayed {
            finding: finding.id.to_string(),
            rule: finding.rule.clone(),
            why: "the results have no campaign.json",
        });
    };
    let detail = |name: &str| finding.evidence.details.get(name);
    let input = detail(Evidence::INPUT).map(|path| root.join(path));
    let input = input.unwrap_or_default();
    let bytes = fs::read(&input).map_err(|source| Failure::ResultsFile {
        path: input.clone(),
        source,
    })?;
    let files = file.paths();
    let image = match detail(Evidence::IMAGE) {
        Some(folder) => image(&root.join(folder), &files)?,
        None => StartImage::default(),
    };
    if let Some(kept) = &arguments.keep {
        return keep(&image, &files, kept);
    }
    let settings = settings(&root, &file, finding, console)?;
    let limit = file.options.timeout;
    let limit = limit.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    let mut target = target_description(&file, &root, limit.unwrap_or(TIME_LIMIT), &settings)?;
    let work = target.directory.clone();
    if arguments.gdb {
        let parts = target.parts(&bytes);
        let started = target.started_with(&parts);
        target.command_line = format!("{}{}", target.exports(&parts), under_gdb(&started)?);
        StartPerRun::new(target, &files)?.run_interactively(&image, &bytes)?;
        return Ok(ExitCode::Success);
    }
    let mut executor = StartPerRun::new(target, &files)?;
    let is_shown = match rules::is_target_rule(&finding.rule) {
        true => {
            let outcome = executor.diagnose(&image, &bytes)?;
            let mut symbols = CrashSymbols::new(&work, PointFilters::default());
            let frames = failing_frames(&outcome.frames, &mut symbols);
            let mut out = io::stdout().lock();
            let mut print = || -> io::Result<()> {
                out.write_all(&outcome.stdout)?;
                out.write_all(&outcome.stderr)?;
                writeln!(
                    out,
                    "the program {} on {}",
                    describe(outcome.end),
                    input.display()
                )?;
                frames
                    .iter()
                    .try_for_each(|frame| writeln!(out, "    {frame}"))
            };
            print().map_err(Failure::Output)?;
            match outcome.end {
                End::Exited(_) => false,
                End::TimedOut => finding.rule == brownout_fuzz::rules::TARGET_HUNG.id,
                End::Signaled(_) | End::OutOfMemory => {
                    finding.rule == brownout_fuzz::rules::TARGET_CRASHED.id
                }
            }
        }
        false => {
            let again = record_again(&mut executor, &image, &bytes, &settings)?;
            let is_shown = again.iter().any(|found| found.id == finding.id);
            let text = match is_shown {
                true => format!("{} is found again on {}", finding.rule, input.display()),
                false => format!("{} is not found again on {}", finding.rule, input.display()),
            };
            writeln!(io::stdout(), "{text}").map_err(Failure::Output)?;
            is_shown
        }
    };
    if !is_shown {
        console.warn("the result differs from the earlier one; the program may have changed");
    }
    Ok(match is_shown {
        true => ExitCode::BugsFound,
        false => ExitCode::Success,
    })
}

/// Writes the persistent files on which the program starts.
fn keep(image: &StartImage, files: &[PathBuf], target: &Path) -> Result<ExitCode, Failure> {
    if target.exists() {
        return Err(Failure::ImageExists {
            path: target.to_owned(),
        });
    }
    let image = CrashImage {
        files: image.files.to_vec(),
    };
    let written = image.write_to(target, files);
    let written = written.map_err(|source| Failure::Image {
        path: target.to_owned(),
        source,
    })?;
    let mut out = io::stdout().lock();
    for path in written {
        writeln!(out, "{}", path.display()).map_err(Failure::Output)?;
    }
    Ok(ExitCode::Success)
}

/// A command line that runs the program in the debugger, which stops where it is killed and shows the stack.
fn under_gdb(target: &TargetDescription) -> Result<String, Failure> {
    let input = match target.is_standard_input {
        true => format!(" < {}", target.input.display()),
        false => String::new(),
    };
    let words = target
        .command
        .iter()
        .map(|word| shell_word(&word.to_string_lossy()));
    let words: Vec<String> = words.collect();
    let debugger = format!(
        "gdb -q -ex {} -ex backtrace --args {}",
        shell_word(&format!("run{input}")),
        words.join(" ")
    );
    match target.is_server {
        true => with_client(&target.input.to_string_lossy(), &debugger, "--keep-running"),
        false => Ok(debugger),
    }
}

/// The persistent files in a folder of the results.
fn image(folder: &Path, files: &[PathBuf]) -> Result<StartImage, Failure> {
    let paths = files
        .iter()
        .map(|path| folder.join(path.strip_prefix("/").unwrap_or(path)));
    let paths: Vec<PathBuf> = paths.collect();
    StartImage::read(&paths).map_err(|source| Failure::ResultsFile {
        path: folder.to_owned(),
        source,
    })
}

/// The settings by which the campaign has judged: those of its directory and its configuration file, and the model that its results name.
fn settings(
    root: &Path,
    file: &CampaignFile,
    finding: &Finding,
    console: &Console,
) -> Result<Settings, Failure> {
    let run = RunFile::read(root)?;
    let arguments = FindingArgs {
        model: run.model.as_deref().and_then(Profile::named),
        // The finding may be one of a pedantic rule.
        pedantic: true,
        config: ConfigArgs {
            config: file.options.config.as_ref().map(PathBuf::from),
            preset: file.options.preset.clone(),
        },
        ..FindingArgs::default()
    };
    let patterns: Vec<OsString> = file.patterns.iter().map(OsString::from).collect();
    let directory = file.directory();
    let mut settings = Settings::of_directory(&directory, &arguments, &patterns, console)?;
    settings.levels.levels.remove(&finding.rule);
    Ok(settings)
}

/// Records the program once more, and returns what lint and the search for races find.
fn record_again(
    executor: &mut StartPerRun,
    image: &StartImage,
    input: &[u8],
    settings: &Settings,
) -> Result<Vec<Finding>, Failure> {
    let folder = tempfile::tempdir().map_err(Failure::TemporaryFile)?;
    let silent = Console::silent();
    let directory = OutputDirectory::claim(&folder.path().join("results"))?;
    let trace = directory.file(TRACE);
    executor.record(image, input, &trace)?;
    let run = lint(&trace, settings, &silent)?;
    let mut results = Results::of_lint(run.subject, run.findings, run.wrappers, run.tested);
    look_for_races(&directory, None, settings, &mut results, &silent)?;
    Ok(results.findings)
}

fn describe(end: End) -> String {
    match end {
        End::Exited(status) => format!("exited with status {status}"),
        End::Signaled(signal) => format!("was killed by {}", signal_text(signal)),
        End::TimedOut => "did not end in time".to_owned(),
        End::OutOfMemory => "used more memory than it may".to_owned(),
    }
}
