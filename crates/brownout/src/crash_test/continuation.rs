//! The command that continues a crash test: the one that this process was started with, with `--resume` and a longer time
//! limit.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

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

/// Options of `check` that `crash` does not have, and whether a value follows.
const NOT_OF_CRASH: [(&str, bool); 6] = [
    ("--watch", true),
    ("--coverage", true),
    ("--coverage-format", true),
    ("--on-full", true),
    ("--loads", false),
    ("--resume", false),
];

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
    while let Some(option) = options.next() {
        let name = option.split('=').next().unwrap_or(option);
        match NOT_OF_CRASH.iter().find(|(known, _)| *known == name) {
            Some((_, true)) if name == option => {
                options.next();
            }
            Some(_) => {}
            None => words.push(with_pid(option, pid)),
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
    words.extend(["--resume".to_owned(), "--time-limit".to_owned()]);
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

    #[test]
    fn words_are_quoted_for_a_shell() {
        assert_eq!(quoted("a'b"), r"'a'\''b'");
        assert_eq!(quoted(""), "''");
        assert_eq!(quoted("/a/b-c"), "/a/b-c");
    }
}
