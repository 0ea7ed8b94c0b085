//! Commands whose exit status a pipeline hides.
//!
//! The exit status of `check | cat` is that of `cat`, whatever `check` has found. A shell can be asked for another rule
//! (`set -o pipefail`); a command that does so, or that looks at `PIPESTATUS`, hides nothing.
//!
//! Can miss: pipelines in a script file, and in commands that another program than a shell interprets. Can be wrong: a `|` between the
//! patterns of a `case`.

/// Programs that run the text after their option `-c`.
const SHELLS: [&str; 6] = ["sh", "bash", "dash", "ash", "ksh", "zsh"];

/// What a command says about the statuses of pipelines.
const LOOKS_AT_STATUSES: [&str; 2] = ["pipefail", "PIPESTATUS"];

/// Whether the exit status of a command is that of the last part of a pipeline.
pub fn is_pipeline(command: &str) -> bool {
    if LOOKS_AT_STATUSES.iter().any(|word| command.contains(word)) {
        return false;
    }
    let words = shell_words::split(command).unwrap_or_default();
    has_pipe(command) || script_of_shell(&words).is_some_and(is_pipeline)
}

/// The text that a shell among the words is given with `-c`.
fn script_of_shell(words: &[String]) -> Option<&str> {
    let is_shell = |word: &String| {
        let name = word.rsplit('/').next();
        name.is_some_and(|name| SHELLS.contains(&name))
    };
    let shell = words.iter().position(is_shell)?;
    let after = &words[shell + 1..];
    let is_command = |word: &String| {
        let letters = word.strip_prefix('-');
        letters.is_some_and(|letters| !letters.starts_with('-') && letters.contains('c'))
    };
    let option = after.iter().position(is_command)?;
    // A word that is no option is a script, whose arguments follow.
    let is_of_shell = after[..option].iter().all(|word| word.starts_with('-'));
    after
        .get(option + 1)
        .filter(|_| is_of_shell)
        .map(String::as_str)
}

/// Whether a shell reads a `|` between two commands, other than in a substitution, whose status counts for nothing.
fn has_pipe(command: &str) -> bool {
    let mut rest = command.chars().peekable();
    let (mut substitutions, mut in_backticks) = (0_u32, false);
    let mut before = ' ';
    while let Some(character) = rest.next() {
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
            ')' => substitutions = substitutions.saturating_sub(1),
            '|' if rest.peek() == Some(&'|') => {
                rest.next();
            }
            '|' if before != '>' && substitutions == 0 && !in_backticks => return true,
            _ => {}
        }
        before = character;
    }
    false
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
            "./check {pm} | cat",
            "./check {pm}|tee log",
            "./check {pm} 2>&1 | tail -1; true",
            "(./check {pm} | cat)",
            "a=$(x | y); ./check \"$a\" | cat",
            "sh -c './check {pm} | cat'",
            "timeout 5 /bin/bash -ec \"./check | cat\"",
        ] {
            assert!(is_pipeline(command), "{command}");
        }
    }

    #[test]
    fn other_commands_have_their_own_status() {
        for command in [
            "./check {pm}",
            "./check {pm} || exit 1",
            "./check '|' \"a | b\" \\|",
            "./check >| log",
            "./check # | cat",
            "test \"$(./show {pm} | wc -l)\" -eq 3",
            "test `./show {pm} | wc -l` -eq 3",
            "x=$(./show {pm} | (cat | wc -l)) && ./check $x",
            "grep 'a | b' log",
            "sh -c './check || exit 1'",
            "bash -c 'set -o pipefail; ./check | cat'",
            "bash -o pipefail -c './check | cat'",
            "bash -c './check | cat; exit ${PIPESTATUS[0]}'",
            "sh check.sh -c 'a | b'",
        ] {
            assert!(!is_pipeline(command), "{command}");
        }
    }
}
