//! The program of a campaign: its command with the path of the input in place of `@@`.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::time::Duration;

use brownout_engine::{ThreadSchedule, WatchedFunction};
use brownout_fuzz::{CampaignFile, SymbolicBytes, SymbolicKind, TargetDescription, strings};
use brownout_recovery::{SandboxServerCommand, check_command};
use rustix::fs::{Access, access};

use super::approach::Approach;
use crate::arguments::{CampaignArgs, SEND_INPUT, SERVE_SANDBOX};
use crate::crash_test::{program_file, shell_word};
use crate::failure::Failure;
use crate::settings::Settings;

/// What stands for the path of the input.
pub const PLACE: &str = "@@";
/// The name of the input in the results directory. It exists in sandboxes only.
const INPUT: &str = ".input";
/// The seed of the order in which threads run.
const SCHEDULE: u64 = 1;

/// The program that is to be fuzzed, with results in the directory `root`.
pub fn describe_target(
    arguments: &CampaignArgs,
    approach: &Approach,
    settings: &Settings,
    root: &Path,
) -> Result<TargetDescription, Failure> {
    let own = settings.own_functions().map(WatchedFunction::named);
    let here = std::env::current_dir().map_err(Failure::CurrentDirectory)?;
    let mut target = describe(
        (&arguments.command, approach.is_server),
        settings,
        approach.sources(),
        (root, &here),
        arguments.timeout,
    )?;
    target.watch.extend(own);
    target.fork_at.clone_from(&arguments.fork_at);
    Ok(target)
}

/// The program of a campaign, as its file describes it.
pub fn from_file(
    file: &CampaignFile,
    root: &Path,
    timeout: Duration,
    settings: &Settings,
) -> Result<TargetDescription, Failure> {
    let words = |texts: &[String]| texts.iter().map(OsString::from).collect::<Vec<_>>();
    let symbolic: Vec<SymbolicBytes> = (file.symbolic.iter())
        .filter_map(|text| SymbolicBytes::parse(text).ok())
        .collect();
    let command = words(&file.command);
    let directory = file.directory();
    describe(
        (&command, file.is_server),
        settings,
        &symbolic,
        (root, &directory),
        timeout,
    )
}

fn describe(
    (command, is_server): (&[OsString], bool),
    settings: &Settings,
    symbolic: &[SymbolicBytes],
    (root, directory): (&Path, &Path),
    timeout: Duration,
) -> Result<TargetDescription, Failure> {
    let named = symbolic.iter().find_map(|source| match &source.kind {
        SymbolicKind::File(path) if path != Path::new(PLACE) => Some(path.clone()),
        _ => None,
    });
    let is_named = named.is_some();
    let input = named.unwrap_or_else(|| root.join(INPUT));
    let input_text = text(input.as_os_str())?;
    let words: Vec<String> = command
        .iter()
        .map(|argument| Ok(text(argument)?.replace(PLACE, &input_text)))
        .collect::<Result<_, Failure>>()?;
    let has_place = has_place(command);
    if is_server && has_place {
        return Err(Failure::InputTwice);
    }
    let is_standard_input = !is_named && !has_place && !is_server;
    if let Some(program) = command.first() {
        let file = directory.join(program_file(Path::new(program)));
        let refused = |why: &str| Failure::FuzzedProgram {
            program: program.clone(),
            why: why.to_owned(),
        };
        if !file.is_file() {
            return Err(refused("there is no such program"));
        }
        if access(&file, Access::EXEC_OK).is_err() {
            return Err(refused("it is not executable"));
        }
    }
    let quoted: Vec<String> = words.iter().map(|word| shell_word(word)).collect();
    // The shell must not be what is killed by a signal.
    let mut command_line = format!("exec {}", quoted.join(" "));
    if is_server {
        command_line = with_client(&input_text, &quoted.join(" "), "")?;
    }
    if is_standard_input {
        command_line.push_str(&format!(" < {}", shell_word(&input_text)));
    }
    check_command(&command_line, directory).map_err(|source| Failure::Command {
        option: "PROGRAM",
        source,
    })?;
    let rules = brownout_lint::watched_functions();
    let races = brownout_race::watched_functions();
    let watch = rules.chain(races).map(|function| WatchedFunction {
        name: function.name.into(),
        arguments: function.arguments,
    });
    let locks = settings.locks.iter();
    let locks = locks.map(|lock| WatchedFunction::named(lock.function.text().to_owned()));
    Ok(TargetDescription {
        command: words.into_iter().map(OsString::from).collect(),
        command_line,
        directory: directory.to_owned(),
        input,
        is_standard_input,
        strings: strings(symbolic).cloned().collect(),
        is_server,
        patterns: settings.patterns.clone(),
        watch: watch.chain(locks).collect(),
        time_limit: timeout,
        schedule: ThreadSchedule::of_seed(SCHEDULE),
        fork_at: None,
        server: SandboxServerCommand::this_executable(SERVE_SANDBOX),
    })
}

/// Whether a command is given the path of its input.
pub fn has_place(command: &[OsString]) -> bool {
    command.iter().any(|argument| {
        let argument = argument.to_str();
        argument.is_some_and(|argument| argument.contains(PLACE))
    })
}

/// The command line of a server with a client beside it, which sends the input.
pub fn with_client(input: &str, server: &str, options: &str) -> Result<String, Failure> {
    let own = std::env::current_exe().map_err(Failure::OwnProgram)?;
    let own = text(own.as_os_str())?;
    Ok(format!(
        "exec {} {SEND_INPUT} {options} {} {server}",
        shell_word(&own),
        shell_word(input)
    ))
}

fn text(argument: &OsStr) -> Result<String, Failure> {
    let text = argument.to_str().map(str::to_owned);
    text.ok_or_else(|| Failure::ArgumentNotUtf8 {
        argument: argument.to_owned(),
    })
}
