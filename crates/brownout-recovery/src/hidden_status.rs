//! Commands whose exit status says nothing about what their parts have found.
//!
//! The exit status of `check | cat` is that of `cat`, and that of `check; echo done` or `check || true` is always 0. A shell can be asked
//! for another rule (`set -o pipefail`, `set -e`), and a command can look at `$?` or `PIPESTATUS`; then nothing is hidden. Of several
//! commands in a row the last one decides, so others do not matter, unless it passes whatever they have found. What only passes on
//! what it reads, such as `cat` and `tee`, always passes.
//!
//! Can miss: script files, commands that another program than a shell interprets, and last commands that could fail and never do.
//! Can be wrong: a `|` between the patterns of a `case`.

use crate::shells::is_shell;

/// What hides how the parts of a command have ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HiddenStatus {
    /// The status is that of the last part of a pipeline.
    ByPipeline,
    /// The last part of a pipeline always passes, so that nothing can fail.
    AlwaysByPipeline,
    /// The status is that of a last command which has nothing to do with the others.
    ByLastCommand,
    /// The last command always passes, so that nothing can fail.
    Always,
}

/// What a command says about the statuses of pipelines.
const LOOKS_AT_PIPELINES: [&str; 2] = ["pipefail", "PIPESTATUS"];
/// What a command says that looks at statuses, or ends at the first one that is not 0.
const LOOKS_AT_STATUSES: [&str; 3] = ["$?", "trap", "errexit"];
/// What ends a compound command, whose status is that of the last command in it.
const CLOSING: [&str; 5] = ["done", "fi", "esac", "}", ")"];
/// What stands before a command in a compound command.
const OPENING: [&str; 11] = [
    "do", "then", "else", "elif", "if", "while", "until", "time", "!", "{", "(",
];
/// Commands with the status of the one before.
const SAME_STATUS: [&str; 2] = ["exit", "exit $?"];
/// Commands that always pass.
const ALWAYS_PASSING: [&str; 7] = ["true", ":", "echo", "printf", "sleep", "sync", "wait"];
/// Commands that show or remove something, whatever the commands before them have found.
const SHOWING: [&str; 5] = ["cat", "tail", "head", "ls", "rm"];
/// Commands that pass on, show or keep what they read, whatever that is: at the end of a pipeline they always pass.
const PASSING_ON: [&str; 16] = [
    "cat", "cut", "fold", "head", "less", "logger", "more", "nl", "sort", "tac", "tail", "tee",
    "tr", "ts", "uniq", "wc",
];
/// Commands that prepare others and check nothing.
const PREPARING: [&str; 10] = [
    "cd", "export", "set", "ulimit", "umask", "mkdir", "cp", "mv", "unset", "ln",
];

/// What hides how the parts of a command end, if something does.
pub fn hidden_status(command: &str) -> Option<HiddenStatus> {
    hidden_in(command, is_errexit(command))
}

/// The same, of a command in a shell that may end at the first status that is not 0.
fn hidden_in(command: &str, ends_at_failure: bool) -> Option<HiddenStatus> {
    let words = shell_words::split(command).unwrap_or_default();
    let hidden_in_script = || {
        let mut scripts = (0..words.len()).filter_map(|at| script_of_shell(&words[at..]));
        scripts.find_map(|script| hidden_in(script, ends_at_failure))
    };
    let looks_at_pipelines = LOOKS_AT_PIPELINES.iter().any(|word| command.contains(word));
    let hidden = hidden_by_last_command(command, ends_at_failure).or_else(hidden_in_script);
    hidden.filter(|hidden| !hidden.is_by_pipeline() || !looks_at_pipelines)
}

/// Whether a shell that is asked to is to end at the first status that is not 0, or the command looks at statuses itself.
fn is_errexit(command: &str) -> bool {
    let mut words = command.split(|c: char| c.is_whitespace() || ";'\"".contains(c));
    let mut before = "";
    let is_option = words.any(|word| {
        let is_of_shell = before == "set" || is_shell(before.rsplit('/').next().unwrap_or(before));
        before = word;
        let letters = word.strip_prefix('-').filter(|rest| !rest.starts_with('-'));
        is_of_shell && letters.is_some_and(|letters| letters.contains('e'))
    });
    is_option || LOOKS_AT_STATUSES.iter().any(|word| command.contains(word))
}

/// The text that a shell, the first of the words, is given with `-c`.
fn script_of_shell(words: &[String]) -> Option<&str> {
    let (shell, arguments) = words.split_first()?;
    if !is_shell(shell.rsplit('/').next()?) {
        return None;
    }
    let mut is_given = false;
    let mut arguments = arguments.iter();
    while let Some(argument) = arguments.next() {
        match argument.strip_prefix(['-', '+']) {
            // A long option.
            Some(letters) if letters.starts_with('-') => {}
            Some(letters) => {
                is_given |= letters.contains('c');
                // The name of an option follows, as in `-o errexit`.
                if letters.ends_with(['o', 'O']) {
                    arguments.next();
                }
            }
            // Without `-c` it is a script file, whose arguments follow.
            None => return Some(argument.as_str()).filter(|_| is_given),
        }
    }
    None
}

/// What hides the status of the command that decides, among several in a row.
fn hidden_by_last_command(command: &str, ends_at_failure: bool) -> Option<HiddenStatus> {
    let mut commands = commands_in_row(command);
    let mut hides_others = None;
    while let Some(last) = commands.pop() {
        if let Some(part) = last.end_of_pipeline() {
            let always_passes = PASSING_ON.contains(&first_word(part))
                || hides_others == Some(HiddenStatus::Always);
            return Some(match always_passes {
                true => HiddenStatus::AlwaysByPipeline,
                false => HiddenStatus::ByPipeline,
            });
        }
        let text = without_opening(&last.text);
        if text.is_empty() || CLOSING.contains(&text) || SAME_STATUS.contains(&text) {
            continue;
        }
        let alternative = last.alternative();
        if let Some(hidden) = hidden_by(text) {
            hides_others.get_or_insert(hidden);
        } else if let Some(hidden) = alternative.filter(|text| !waits(text)).and_then(hidden_by) {
            return Some(hides_others.unwrap_or(hidden));
        } else if hides_others.is_none() || ends_here(text) || alternative.is_some_and(ends_here) {
            return None;
        } else if !prepares(text) && (last.is_background || !ends_at_failure) {
            return hides_others;
        }
    }
    None
}

fn first_word(text: &str) -> &str {
    text.split_whitespace().next().unwrap_or_default()
}

/// A command without the words and parentheses of the compound command around it.
fn without_opening(text: &str) -> &str {
    let mut text = text.trim().trim_start_matches('(').trim_end_matches(')');
    while let Some(word) = OPENING.iter().find(|word| **word == first_word(text)) {
        text = text[word.len()..].trim_start();
    }
    text
}

/// Whether the status of a command has nothing to do with those before: then it hides them.
fn hidden_by(text: &str) -> Option<HiddenStatus> {
    let always_passes = match first_word(text) {
        "exit" => text.split_whitespace().nth(1) == Some("0"),
        // With an operand, it has the status of that process.
        "wait" => text.trim() == "wait",
        word => ALWAYS_PASSING.contains(&word),
    };
    match always_passes {
        true => Some(HiddenStatus::Always),
        false => SHOWING
            .contains(&first_word(text))
            .then_some(HiddenStatus::ByLastCommand),
    }
}

/// Whether a command takes time: in place of one that failed, it is meant to exceed the time limit.
fn waits(text: &str) -> bool {
    first_word(text) == "sleep"
}

/// Whether a command ends the shell: some status before it is looked at, or it would always end.
fn ends_here(text: &str) -> bool {
    ["exit", "return"].contains(&first_word(text))
}

/// Whether a command checks nothing.
fn prepares(text: &str) -> bool {
    let word = first_word(text);
    let is_assignment = text == word && word.contains('=') && !word.ends_with('$');
    is_assignment || PREPARING.contains(&word)
}

/// One of several commands in a row.
#[derive(Default)]
struct CommandInRow {
    text: String,
    /// Where in the text the part begins that follows the last `|`. Substitutions do not matter: their status counts for nothing.
    last_part: Option<usize>,
    /// Where in the text the part begins that runs if those before have failed: after `||`.
    alternative: Option<usize>,
    /// Whether it ends with `&`: nothing waits for it.
    is_background: bool,
}

impl HiddenStatus {
    fn is_by_pipeline(self) -> bool {
        matches!(self, Self::ByPipeline | Self::AlwaysByPipeline)
    }
}

impl CommandInRow {
    /// The last part of a pipeline.
    fn end_of_pipeline(&self) -> Option<&str> {
        self.last_part.map(|at| without_opening(&self.text[at..]))
    }

    fn alternative(&self) -> Option<&str> {
        self.alternative.map(|at| without_opening(&self.text[at..]))
    }
}

/// The commands between `;`, `&` and ends of lines, without what is in quotes and comments.
fn commands_in_row(command: &str) -> Vec<CommandInRow> {
    let mut commands = vec![CommandInRow::default()];
    let mut rest = command.chars().peekable();
    let (mut substitutions, mut in_backticks) = (0_u32, false);
    let mut before = ' ';
    while let Some(character) = rest.next() {
        let is_outside = substitutions == 0 && !in_backticks;
        let last = commands.len() - 1;
        match character {
            '\\' => {
                rest.next();
            }
            '\'' => {
                rest.by_ref().find(|&c| c == '\'');
            }
            '"' => skip_double_quotes(&mut rest),
            '#' if before.is_whitespace() => {
                rest.by_ref().find(|&c| c == '\n');
            }
            '`' => in_backticks = !in_backticks,
            '(' if before == '$' || substitutions > 0 => substitutions += 1,
            ')' if substitutions > 0 => substitutions -= 1,
            '|' | '&' if rest.peek() == Some(&character) => {
                rest.next();
                if is_outside {
                    commands[last].text.push(' ');
                    let end = commands[last].text.len();
                    commands[last].alternative = (character == '|').then_some(end);
                }
            }
            '|' if before != '>' && is_outside => {
                commands[last].text.push(' ');
                commands[last].last_part = Some(commands[last].text.len());
            }
            // Not `2>&1`, `&>log` or `|&`.
            '&' if ['>', '|'].contains(&before) || rest.peek() == Some(&'>') => {}
            ';' | '&' | '\n' if is_outside => {
                commands[last].is_background = character == '&';
                commands.push(CommandInRow::default());
            }
            other if is_outside => commands[last].text.push(other),
            _ => {}
        }
        before = character;
    }
    commands
}

fn skip_double_quotes(rest: &mut impl Iterator<Item = char>) {
    while let Some(character) = rest.next() {
        match character {
            '"' => return,
            '\\' => {
                rest.next();
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_hides_the_status_of_its_first_commands() {
        for command in [
            "./check {pm} | grep fine",
            "./check {pm} | cat | ./verify",
            "./show {pm} && ./check {pm} | awk -f verify.awk",
            "sh -c './check {pm} | ./verify'",
        ] {
            let hidden = hidden_status(command);
            assert_eq!(hidden, Some(HiddenStatus::ByPipeline), "{command}");
        }
    }

    #[test]
    fn nothing_fails_if_the_end_of_a_pipeline_always_passes() {
        for command in [
            "./check {pm} | cat",
            "./check {pm}|tee log",
            "./check {pm} 2>&1 | tail -1; true",
            "./check {pm} | tail -1; echo done",
            "./check {pm} | tail -1; exit $?",
            "./verify {pm} | ./show | sort -u",
            "./check {pm} | grep fine; true",
            "./check {pm} |& cat",
            "cd build; ./check {pm} | cat",
            "./show {pm} && ./check {pm} | cat",
            "for file in {pm}; do ./check $file | cat; done",
            "(./check {pm} | cat)",
            "a=$(x | y); ./check \"$a\" | cat",
            "sh -c './check {pm} | cat'",
            "timeout 5 /bin/bash -ec \"./check | cat\"",
            "bash -o errexit -c './check | cat'",
            "bash -euo nounset -c './check | cat'",
            "bash --norc -c './check | cat'",
            "busybox sh -c './check | cat'",
        ] {
            let hidden = hidden_status(command);
            assert_eq!(hidden, Some(HiddenStatus::AlwaysByPipeline), "{command}");
        }
    }

    #[test]
    fn a_last_command_that_shows_something_hides_the_status_of_those_before() {
        for command in ["./check {pm} > log; cat log", "./check {pm}; rm -f log"] {
            let hidden = hidden_status(command);
            assert_eq!(hidden, Some(HiddenStatus::ByLastCommand), "{command}");
        }
    }

    #[test]
    fn nothing_fails_if_the_last_command_always_passes() {
        for command in [
            "./check {pm}; true",
            "./check {pm} || true",
            "./check {pm} || echo damaged",
            "./check {pm} && echo fine; echo done",
            "cd build; ./check {pm}\nexit 0",
            "if ./check {pm}; then echo fine; fi",
            "./check {pm} & sleep 0",
            "set -e; ./check {pm} & sleep 1",
            "set -e; ./check {pm} || true",
            "sh -c './check {pm}; echo done'",
            "(./check {pm}; exit 0)",
        ] {
            let hidden = hidden_status(command);
            assert_eq!(hidden, Some(HiddenStatus::Always), "{command}");
        }
    }

    #[test]
    fn other_commands_have_their_own_status() {
        for command in [
            "./check {pm}",
            "./check {pm} || exit 1",
            "./check {pm} >log 2>&1 && ./verify {pm}",
            "./show {pm} | sort > shown; ./check {pm}",
            "./show {pm} | sort > shown & ./check {pm}",
            "./show {pm} | sort > shown\n./check {pm}",
            "(./show {pm} | sort; ./check {pm})",
            "./check '|' \"a | b\" \\|",
            "./check >| log",
            "./check # | cat",
            "test \"$(./show {pm} | wc -l)\" -eq 3",
            "test `./show {pm} | wc -l` -eq 3",
            "x=$(./show {pm} | (cat | wc -l)) && ./check $x",
            "grep 'a | b' log",
            "sh -c './check || exit 1'",
            "sh -c './show | sort > shown; ./check'",
            "bash -c 'set -o pipefail; ./check | cat'",
            "bash -o pipefail -c './check | cat'",
            "bash -c './check | cat; exit ${PIPESTATUS[0]}'",
            "sh check.sh -c 'a | b'",
            "cat {pm}",
            "cd build; cat {pm}",
            "./check {pm} || true; ./verify {pm}",
            "./check {pm} || exit 1; echo fine",
            "./check {pm} || { echo damaged; exit 1; }; echo fine",
            "if ! ./check {pm}; then exit 1; fi; echo fine",
            "if ./check {pm}; then echo fine; else exit 1; fi",
            "./check {pm} && echo fine",
            "./check {pm} > log; status=$?; cat log; exit $status",
            "set -eu; ./check {pm}; echo fine",
            "sh -ec './check {pm}; echo fine'",
            "bash -o errexit -c './check {pm}; echo fine'",
            "true & ./check {pm}",
            "./check {pm} & wait $!",
            "./server {pm} & sleep 1; kill %1",
            "./check {pm} || sleep 60",
            "./check {pm} '; true'",
        ] {
            assert_eq!(hidden_status(command), None, "{command}");
        }
    }
}
