//! The options of a crash test as words, so that a later command can test in the same way.

use std::path::Path;

use brownout_recovery::Readiness;
use clap::ValueEnum;

use super::{ConfigArgs, CrashTestArgs, FailurePointArgs};

/// Options and their values, as a command line has them.
#[derive(Debug, Default)]
struct Words(Vec<String>);

impl Words {
    fn option(&mut self, name: &str, value: Option<impl ToString>) {
        // In one word, because a value can begin with a hyphen.
        let word = value.map(|value| format!("{name}={}", value.to_string()));
        self.0.extend(word);
    }

    fn options<T: ToString>(&mut self, name: &str, values: &[T]) {
        for value in values {
            self.option(name, Some(value.to_string()));
        }
    }

    fn path(&mut self, name: &str, value: Option<&Path>) {
        let absolute = value.map(|path| std::path::absolute(path).unwrap_or(path.to_owned()));
        self.option(
            name,
            absolute.map(|path| path.to_string_lossy().into_owned()),
        );
    }

    fn choice(&mut self, name: &str, value: Option<impl ValueEnum>) {
        let value = value.and_then(|value| value.to_possible_value());
        self.option(name, value.map(|value| value.get_name().to_owned()));
    }

    fn switch(&mut self, name: &str, given: bool) {
        self.0.extend(given.then(|| name.to_owned()));
    }
}

/// The options that decide what a crash test can find, and those of the configuration file.
pub fn crash_options(crash: &CrashTestArgs, config: &ConfigArgs) -> Vec<String> {
    // Each option is named, so that a new one cannot be forgotten here.
    let CrashTestArgs {
        recover,
        recover_success,
        recover_time_limit,
        client,
        recover_ready,
        expect_output,
        expect_one_of,
        op,
        allow_network,
        memory_limit,
        file_size_limit,
        strategy,
        points,
        occurrences,
        max_states,
        tearing,
        depth,
        jobs,
        time_limit,
        no_narrowing,
        // What an earlier run has tested must be tested again, and how starts are shared changes no result.
        memory: _,
        shared_starts: _,
    } = crash;
    let mut words = Words::default();
    let milliseconds = |time: &std::time::Duration| format!("{}ms", time.as_millis());
    words.option("--recover", recover.as_ref());
    words.options("--recover-success", recover_success);
    words.option(
        "--recover-time-limit",
        recover_time_limit.as_ref().map(milliseconds),
    );
    words.option("--client", client.as_ref());
    words.option("--recover-ready", recover_ready.as_ref().map(sign));
    words.path("--expect-output", expect_output.as_deref());
    words.path("--expect-one-of", expect_one_of.as_deref());
    words.options("--op", op);
    words.switch("--allow-network", *allow_network);
    words.option("--memory-limit", *memory_limit);
    words.option("--file-size-limit", *file_size_limit);
    words.option("--strategy", strategy.map(|strategy| strategy.name));
    add_points(&mut words, points);
    words.option("--occurrences", *occurrences);
    words.option("--max-states", *max_states);
    words.choice("--tearing", *tearing);
    words.option("--depth", *depth);
    words.option("--jobs", *jobs);
    words.option("--time-limit", time_limit.as_ref().map(milliseconds));
    words.switch("--no-narrowing", *no_narrowing);
    words.path("--config", config.config.as_deref());
    words.option("--preset", config.preset.as_ref());
    words.0
}

fn add_points(words: &mut Words, points: &FailurePointArgs) {
    let FailurePointArgs {
        granularity,
        after,
        from_start,
        functions,
        files,
        modules,
    } = points;
    words.choice("--granularity", *granularity);
    words.option("--after", after.as_ref());
    words.switch("--from-start", *from_start);
    words.options("--in-function", functions);
    words.options("--in-file", files);
    words.options("--in-module", modules);
}

/// A sign of readiness, as the option takes it.
pub fn sign(ready: &Readiness) -> String {
    match ready {
        Readiness::Tcp(port) => format!("tcp:{port}"),
        Readiness::Unix(path) => format!("unix:{}", path.to_string_lossy()),
        Readiness::File(path) => format!("file:{}", path.to_string_lossy()),
        Readiness::Output(text) => format!("output:{text}"),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::arguments::FindingArgs;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        crash: CrashTestArgs,
        #[command(flatten)]
        findings: FindingArgs,
    }

    #[test]
    fn options_are_read_as_they_were_given() {
        let line = "x --recover ./check --recover-success 0,3 --recover-time-limit 2m --client ./client --recover-ready tcp:80 \
                    --expect-output /tmp/x --op set --op get --allow-network --memory-limit 1M --strategy exhaustive --granularity \
                    store --after create --from-start --in-function f --occurrences 3 --max-states 9 --tearing words --depth 2 --jobs 4 \
                    --time-limit 90s --no-narrowing --config /tmp/brownout.toml --preset ci";
        let given = Line::try_parse_from(line.split_whitespace()).unwrap();
        let words = crash_options(&given.crash, &given.findings.config);
        let again = std::iter::once("x".to_owned()).chain(words.clone());
        let again = Line::try_parse_from(again).unwrap();
        assert_eq!(crash_options(&again.crash, &again.findings.config), words);
        assert_eq!(again.crash.given(), given.crash.given());
        let count = line
            .split_whitespace()
            .filter(|word| word.starts_with("--"));
        // Each value of a list is a word of its own.
        assert_eq!(words.len(), count.count() + 1);
    }
}
