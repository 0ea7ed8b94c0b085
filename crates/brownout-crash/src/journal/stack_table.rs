//! Stacks of failed recoveries, each of which the journal has once.
//!
//! Thousands of recoveries fail at a few failure points and in a few lines of recovery, and their stacks are most of what is known about
//! them. A line with a stack gives it a number, by which later lines name it.

use std::collections::HashMap;

use brownout_report::Frame;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Defines a stack.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct StackLine {
    defines_stack: u64,
    frames: Vec<Frame>,
}

/// How every line with a stack begins.
const LINE_START: &str = "{\"defines_stack\":";

/// The stacks that a journal has, for one who writes it.
#[derive(Debug, Default)]
pub(super) struct WrittenStacks {
    /// By their frames as text.
    numbers: HashMap<String, u64>,
}

impl WrittenStacks {
    /// Those that an earlier run has written.
    pub(super) fn read(journal: &str) -> Result<Self, serde_json::Error> {
        let lines = journal.lines().filter(|line| line.starts_with(LINE_START));
        let stacks = lines.map(|line| {
            let StackLine {
                defines_stack,
                frames,
            } = serde_json::from_str(line)?;
            let frames = serde_json::to_value(&frames)?;
            Ok((frames.to_string(), defines_stack))
        });
        Ok(Self {
            numbers: stacks.collect::<Result<_, serde_json::Error>>()?,
        })
    }

    /// Replaces the stacks of a trial by their numbers. Returns the lines that must come before it.
    pub(super) fn replace(
        &mut self,
        trial: &mut Value,
    ) -> Result<Vec<StackLine>, serde_json::Error> {
        let mut new = Vec::new();
        for stack in stacks_of(trial) {
            if stack.as_array().is_none_or(Vec::is_empty) {
                continue;
            }
            let next = self.numbers.len() as u64;
            let number = *self.numbers.entry(stack.to_string()).or_insert(next);
            let frames = std::mem::replace(stack, number.into());
            if number == next {
                new.push(StackLine {
                    defines_stack: number,
                    frames: serde_json::from_value(frames)?,
                });
            }
        }
        Ok(new)
    }
}

/// The stacks that a journal has, for one who reads it.
#[derive(Debug, Default)]
pub(super) struct ReadStacks {
    stacks: HashMap<u64, Value>,
}

impl ReadStacks {
    pub(super) fn define(&mut self, line: StackLine) -> Result<(), serde_json::Error> {
        let frames = serde_json::to_value(line.frames)?;
        self.stacks.insert(line.defines_stack, frames);
        Ok(())
    }

    /// Replaces the numbers in a trial by their stacks.
    pub(super) fn restore(&self, trial: &mut Value) -> Result<(), serde_json::Error> {
        for stack in stacks_of(trial) {
            if let Some(number) = stack.as_u64() {
                let known = self.stacks.get(&number);
                let known = known.ok_or_else(|| {
                    serde_json::Error::custom(format_args!("stack {number} is not defined"))
                })?;
                stack.clone_from(known);
            }
        }
        Ok(())
    }
}

/// Where the stacks of a trial are: those of the failure point, of the recovery that failed and of interrupted ones.
fn stacks_of(trial: &mut Value) -> Vec<&mut Value> {
    let mut stacks = Vec::new();
    let failure = trial.get_mut("failure").and_then(Value::as_object_mut);
    for (name, value) in failure.into_iter().flatten() {
        match name.as_str() {
            "stack" | "recovery" => stacks.push(value),
            "interrupted" => {
                let recoveries = value.as_array_mut().into_iter().flatten();
                stacks.extend(recoveries.filter_map(|one| one.get_mut("stack")));
            }
            _ => {}
        }
    }
    stacks
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn frames(line: u32) -> Value {
        let frame = Frame {
            function: Some("recover".into()),
            line: Some(line),
            ..Frame::default()
        };
        serde_json::to_value([frame]).unwrap()
    }

    fn trial(stack: &Value, recovery: &Value) -> Value {
        let interrupted = json!([{ "stack": stack, "line": "a.c:7" }, { "line": "" }]);
        json!({ "event": 7, "failure": { "stack": stack, "recovery": recovery, "interrupted": interrupted } })
    }

    #[test]
    fn a_stack_is_written_once_and_read_wherever_it_is_named() {
        let whole = [trial(&frames(1), &frames(2)), trial(&frames(3), &frames(1))];
        let mut written = WrittenStacks::default();
        let mut read = ReadStacks::default();
        let mut counts = Vec::new();
        for whole in whole {
            let mut line = whole.clone();
            let new = written.replace(&mut line).unwrap();
            counts.push(new.len());
            assert!(!line.to_string().contains("recover\""));
            for stack in new {
                read.define(stack).unwrap();
            }
            read.restore(&mut line).unwrap();
            assert_eq!(line, whole);
        }
        assert_eq!(counts, [2, 1]);
    }

    #[test]
    fn a_run_that_continues_knows_the_stacks_of_the_earlier_one() {
        let mut earlier = WrittenStacks::default();
        let new = earlier.replace(&mut trial(&frames(1), &frames(2))).unwrap();
        let lines = new.iter().map(|line| serde_json::to_string(line).unwrap());
        let journal: Vec<String> = lines.chain(["{\"event\":7}".to_owned()]).collect();
        let mut continued = WrittenStacks::read(&journal.join("\n")).unwrap();
        let known = continued
            .replace(&mut trial(&frames(2), &frames(1)))
            .unwrap();
        assert_eq!(known, []);
    }

    #[test]
    fn trials_without_failures_have_no_stacks() {
        let mut passed = json!({ "event": 7, "failure": null });
        assert_eq!(WrittenStacks::default().replace(&mut passed).unwrap(), []);
        let mut failed = json!({ "failure": { "stack": [], "line": "" } });
        let whole = failed.clone();
        assert_eq!(WrittenStacks::default().replace(&mut failed).unwrap(), []);
        assert_eq!(failed, whole);
    }

    #[test]
    fn an_unknown_number_is_an_error() {
        let error = ReadStacks::default().restore(&mut trial(&json!(4), &json!([])));
        assert!(
            error
                .unwrap_err()
                .to_string()
                .starts_with("stack 4 is not defined")
        );
    }
}
