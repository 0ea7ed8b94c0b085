//! The command that continues a crash test: the one that this process was started with, with `--resume` and a longer time
//! limit.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use clap::{Arg, CommandFactory as _};

use crate::arguments::Arguments;

/// How many times as long as this test the next may take.
const FACTOR: u32 = 10;
const LEAST: Duration = Duration::from_secs(600);

/// The command that continues this process's test, which had the given time limit. The last `target` arguments of the
/// process are the target and its arguments.
pub fn continuing_command(target: usize, limit: Duration) -> Option<String> {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let texts: Option<Vec<String>> = arguments
        .into_iter()
        .map(|argument| argument.into_string().ok())
        .collect();
    let pid = std::process::id().to_string();
    continued(&texts?, target, (limit * FACTOR).max(LEAST), &pid)
}

/// The command that tests crashes of the recorded run with the options of this process, which is a check. `accepted` is the end
/// of the target that is to count as success.
pub fn crash_command(target: usize, trace: &Path, accepted: Option<&str>) -> Option<String> {
    let arguments: Option<Vec<String>> = std::env::args_os()
        .skip(1)
        .map(|argument| argument.into_string().ok())
        .collect();
    let pid = std::process::id().to_string();
    crash_of(&arguments?, target, trace.to_str()?, accepted, &pid)
}

/// What `crash` makes of an option of `check`.
#[derive(Clone, Copy, PartialEq, Eq)]
struct CheckOption {
    is_of_crash: bool,
    takes_value: bool,
}

impl CheckOption {
    /// The option that a word names; `None` if it is none of `check`. An option of `check` that continues the check is none of
    /// a new test.
    fn named(word: &str) -> Option<Self> {
        let name = word.strip_prefix("--")?.split('=').next()?;
        let mut arguments = Arguments::command();
        // Options of the whole program belong to each command only then.
        arguments.build();
        let is_it = |known: &&Arg| {
            known
                .get_long_and_visible_aliases()
                .is_some_and(|all| all.contains(&name))
                || known
                    .get_all_aliases()
                    .is_some_and(|all| all.contains(&name))
        };
        let option = arguments
            .find_subcommand("check")?
            .get_arguments()
            .find(is_it)?;
        let mut of_crash = arguments.find_subcommand("crash")?.get_arguments();
        Some(Self {
            is_of_crash: name != "resume" && of_crash.any(|known| is_it(&known)),
            takes_value: option.get_action().takes_values(),
        })
    }
}

fn crash_of(
    arguments: &[String],
    target: usize,
    trace: &str,
    accepted: Option<&str>,
    pid: &str,
) -> Option<String> {
    let command = arguments.iter().position(|argument| argument == "check")?;
    let own = arguments.get(command + 1..arguments.len().checked_sub(target)?)?;
    let mut words = vec!["brownout".to_owned(), "crash".to_owned(), trace.to_owned()];
    let mut options = own.iter().filter(|option| *option != "--");
    while let Some(word) = options.next() {
        let option = CheckOption::named(word);
        let has_value = option.is_some_and(|option| option.takes_value) && !word.contains('=');
        let value = if has_value { options.next() } else { None };
        if option.is_none_or(|option| option.is_of_crash) {
            let kept = std::iter::once(word).chain(value);
            words.extend(kept.map(|word| with_pid(word, pid)));
        }
    }
    if let Some(end) = accepted {
        words.extend(["--target-success".to_owned(), end.to_owned()]);
    }
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    Some(words.join(" "))
}

/// The directory with the results has the number of the process that made it.
fn with_pid(option: &str, pid: &str) -> String {
    option.replace("{pid}", pid)
}

/// `None` if the command line is not one of a command that can resume.
fn continued(arguments: &[String], target: usize, limit: Duration, pid: &str) -> Option<String> {
    let resumable = |argument: &String| argument == "check" || argument == "crash";
    let command = arguments.iter().position(resumable)?;
    let (own, target) = arguments.split_at_checked(arguments.len().checked_sub(target)?)?;
    let mut words = vec!["brownout".to_owned()];
    words.extend(own.get(..=command)?.iter().cloned());
    // A sweep cannot be continued, only repeated.
    let is_sweep = |word: &String| word == "--schedules" || word.starts_with("--schedules=");
    if !own.iter().any(is_sweep) {
        words.push("--resume".to_owned());
    }
    words.push("--time-limit".to_owned());
    words.push(format!("{}m", limit.as_secs().div_ceil(60)));
    let mut options = own.get(command + 1..)?.iter();
    while let Some(option) = options.next() {
        match option.as_str() {
            "--time-limit" => {
                options.next();
            }
            "--resume" => {}
            other if other.starts_with("--time-limit=") => {}
            other => words.push(with_pid(other, pid)),
        }
    }
    words.extend(target.iter().cloned());
    let words: Vec<String> = words.iter().map(|word| quoted(word)).collect();
    Some(words.join(" "))
}

/// As a shell reads it.
pub fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,@%+".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    fn command(arguments: &[&str], target: usize) -> Option<String> {
        let arguments: Vec<String> = arguments.iter().map(|text| (*text).to_owned()).collect();
        continued(&arguments, target, Duration::from_secs(600), "7")
    }

    #[test]
    fn the_same_command_goes_on_with_more_time() {
        assert_eq!(
            command(&["check", "--recover", "./a {pm}", "--", "./a", "pool"], 2).as_deref(),
            Some("brownout check --resume --time-limit 10m --recover './a {pm}' -- ./a pool")
        );
        assert_eq!(
            command(&["-q", "crash", "t", "--time-limit", "5", "--resume"], 0).as_deref(),
            Some("brownout -q crash --resume --time-limit 10m t")
        );
        assert_eq!(command(&["demo"], 0), None);
    }

    #[test]
    fn arguments_of_the_target_stay_and_the_directory_is_that_of_this_process() {
        let arguments = [
            "check",
            "--time-limit=1s",
            "--out",
            "o-{pid}",
            "./a",
            "--time-limit",
            "3",
        ];
        assert_eq!(
            command(&arguments, 3).as_deref(),
            Some("brownout check --resume --time-limit 10m --out o-7 ./a --time-limit 3")
        );
    }

    #[test]
    fn a_crash_test_of_the_trace_has_the_options_that_it_knows() {
        let arguments = [
            "check",
            "--watch",
            "f",
            "--loads",
            "--on-full=stop",
            "--out",
            "o-{pid}",
            "--recover",
            "./a {pm}",
            "--",
            "./a",
            "--loads",
        ];
        let arguments = arguments.map(str::to_owned);
        assert_eq!(
            crash_of(&arguments, 2, "o-7/trace", Some("SIGTERM"), "7").as_deref(),
            Some(
                "brownout crash o-7/trace --out o-7 --recover './a {pm}' --target-success SIGTERM"
            )
        );
        assert_eq!(crash_of(&arguments[1..], 2, "o-7/trace", None, "7"), None);
    }

    /// A value of an option of `check`, with which it is accepted together with `others`.
    fn accepted(option: &Arg, others: &[&str]) -> Option<Vec<String>> {
        let name = format!("--{}", option.get_long()?);
        let possible = option.get_possible_values();
        let possible = possible.iter().map(|value| value.get_name().to_owned());
        let usual = [
            "1", "5s", "1M", "SIGTERM", "bug", "adr", "prefix", "main", "output:x",
        ];
        let values = possible.chain(usual.map(str::to_owned));
        let words: Vec<Vec<String>> = match option.get_action().takes_values() {
            true => values.map(|value| vec![name.clone(), value]).collect(),
            false => vec![vec![name]],
        };
        words.into_iter().find(|words| {
            let program = ["brownout", "check", "--recover", "r"];
            let line = program.iter().chain(others).map(|word| (*word).to_owned());
            let line = line.chain(words.iter().cloned());
            let line = line.chain(["--".to_owned(), "./a".to_owned()]);
            Arguments::try_parse_from(line).is_ok()
        })
    }

    /// The words of a command as a shell reads them, which are arguments that brownout accepts.
    fn assert_accepted(command: &str) {
        let words = shell_words::split(command).unwrap();
        let parsed = Arguments::try_parse_from(&words);
        assert!(parsed.is_ok(), "{command}: {}", parsed.unwrap_err());
    }

    #[test]
    fn what_is_printed_is_accepted_whatever_the_options() {
        let definition = Arguments::command();
        let check = definition.find_subcommand("check").unwrap();
        let options = check
            .get_arguments()
            .filter(|option| !option.is_positional());
        let mut tried = 0;
        for option in options.filter(|option| option.get_long() != Some("recover")) {
            let needed: [&[&str]; 4] = [
                &[],
                &["--coverage", "c"],
                &["--client", "c"],
                &["--schedule", "1"],
            ];
            let found = needed
                .iter()
                .find_map(|others| Some((others, accepted(option, others)?)));
            let (others, words) = found.unwrap_or_else(|| panic!("no value for {option}"));
            let mut line: Vec<String> = ["check", "--recover", "r"].map(str::to_owned).to_vec();
            line.extend(others.iter().map(|word| (*word).to_owned()));
            line.extend(words);
            line.extend(["--".to_owned(), "./a".to_owned(), "--confirm".to_owned()]);
            let crash = crash_of(&line, 2, "o/trace", Some("SIGTERM"), "7").unwrap();
            assert_accepted(&crash);
            assert!(!crash.contains("./a"), "{crash}");
            let again = continued(&line, 2, Duration::from_secs(600), "7").unwrap();
            assert_accepted(&again);
            tried += 1;
        }
        assert!(tried > 30, "{tried} options");
    }

    #[test]
    fn a_sweep_is_repeated_and_not_continued() {
        assert_eq!(
            command(&["check", "--schedules", "3", "--recover", "r", "./a"], 1).as_deref(),
            Some("brownout check --time-limit 10m --schedules 3 --recover r ./a")
        );
    }

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("a'b"), r"'a'\''b'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("/a/b-c"), "/a/b-c");
    }
}
