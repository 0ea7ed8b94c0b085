//! Parts of trials that many trials have in common, each of which the journal has once.
//!
//! Thousands of recoveries fail at a few failure points and in a few lines of recovery, after a few series of updates. Their stacks and
//! updates are most of what is known about them. A line with such a part gives it a number, by which later lines name it. Which of the
//! updates are lost differs from trial to trial, and stays with the trial.

use std::collections::HashMap;

use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// Defines a part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct PartLine {
    defines: u64,
    part: Value,
}

/// How every line with a part begins.
const LINE_START: &str = "{\"defines\":";

/// Fields of an update, and of the updates of a trial.
const IS_LOST: &str = "is_lost";
const PART: &str = "part";
const LOST: &str = "lost";

/// The parts that a journal has, for one who writes it.
#[derive(Debug, Default)]
pub(super) struct WrittenParts {
    /// By their text.
    numbers: HashMap<String, u64>,
    /// Those whose lines are still to be written.
    new: Vec<PartLine>,
}

impl WrittenParts {
    /// Those that an earlier run has written.
    pub(super) fn read(journal: &str) -> Result<Self, serde_json::Error> {
        let lines = journal.lines().filter(|line| line.starts_with(LINE_START));
        let parts = lines.map(|line| {
            let PartLine { defines, part } = serde_json::from_str(line)?;
            Ok((part.to_string(), defines))
        });
        Ok(Self {
            numbers: parts.collect::<Result<_, serde_json::Error>>()?,
            new: Vec::new(),
        })
    }

    /// Replaces parts of a trial by their numbers. Returns the lines that must come before it.
    pub(super) fn replace(&mut self, trial: &mut Value) -> Vec<PartLine> {
        let Some(failure) = failure_of(trial) else {
            return Vec::new();
        };
        for stack in stacks_of(failure) {
            if has_elements(stack) {
                let number = self.number(stack.take());
                *stack = number.into();
            }
        }
        if let Some(updates) = failure.get_mut("updates").filter(|all| has_elements(all)) {
            let lost = without_losses(updates);
            let number = self.number(updates.take());
            *updates = json!({ PART: number, LOST: lost });
        }
        std::mem::take(&mut self.new)
    }

    fn number(&mut self, part: Value) -> u64 {
        let next = self.numbers.len() as u64;
        let number = *self.numbers.entry(part.to_string()).or_insert(next);
        if number == next {
            self.new.push(PartLine {
                defines: number,
                part,
            });
        }
        number
    }
}

/// The parts that a journal has, for one who reads it.
#[derive(Debug, Default)]
pub(super) struct ReadParts {
    parts: HashMap<u64, Value>,
}

impl ReadParts {
    pub(super) fn define(&mut self, line: PartLine) {
        self.parts.insert(line.defines, line.part);
    }

    /// Replaces the numbers in a trial by their parts.
    pub(super) fn restore(&self, trial: &mut Value) -> Result<(), serde_json::Error> {
        let Some(failure) = failure_of(trial) else {
            return Ok(());
        };
        for stack in stacks_of(failure) {
            if let Some(number) = stack.as_u64() {
                *stack = self.part(number)?;
            }
        }
        if let Some(updates) = failure.get_mut("updates")
            && let Some(number) = updates.get(PART).and_then(Value::as_u64)
        {
            let lost = updates[LOST].as_array().into_iter().flatten();
            let lost: Vec<u64> = lost.filter_map(Value::as_u64).collect();
            *updates = self.part(number)?;
            set_losses(updates, &lost);
        }
        Ok(())
    }

    fn part(&self, number: u64) -> Result<Value, serde_json::Error> {
        let part = self.parts.get(&number).cloned();
        part.ok_or_else(|| serde_json::Error::custom(format_args!("part {number} is not defined")))
    }
}

fn failure_of(trial: &mut Value) -> Option<&mut Map<String, Value>> {
    trial.get_mut("failure").and_then(Value::as_object_mut)
}

fn has_elements(value: &Value) -> bool {
    value.as_array().is_some_and(|all| !all.is_empty())
}

/// The stacks of the failure point, of the recovery that failed and of interrupted ones.
fn stacks_of(failure: &mut Map<String, Value>) -> Vec<&mut Value> {
    let mut stacks = Vec::new();
    for (name, value) in failure {
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

/// Removes from updates whether they are lost. Returns the numbers of those that are, from 0.
fn without_losses(updates: &mut Value) -> Vec<u64> {
    let updates = updates.as_array_mut().into_iter().flatten();
    let updates = updates.filter_map(Value::as_object_mut).zip(0..);
    let lost = updates.filter_map(|(update, number)| {
        let is_lost = update.remove(IS_LOST);
        (is_lost == Some(Value::Bool(true))).then_some(number)
    });
    lost.collect()
}

fn set_losses(updates: &mut Value, lost: &[u64]) {
    let updates = updates.as_array_mut().into_iter().flatten();
    let updates = updates.filter_map(Value::as_object_mut).zip(0..);
    for (update, number) in updates {
        let is_lost = lost.contains(&number);
        update.insert(IS_LOST.to_owned(), is_lost.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(line: u32) -> Value {
        json!([{ "function": "recover", "line": line }])
    }

    fn updates(lost: [bool; 3]) -> Value {
        let update =
            |(event, is_lost)| json!({ "event": event, "field": "next", "is_lost": is_lost });
        (5..).zip(lost).map(update).collect()
    }

    fn trial(stack: &Value, recovery: &Value, updates: &Value) -> Value {
        let interrupted = json!([{ "stack": stack, "line": "a.c:7" }, { "line": "" }]);
        json!({
            "event": 7,
            "failure": { "stack": stack, "recovery": recovery, "interrupted": interrupted, "updates": updates },
        })
    }

    #[test]
    fn a_part_is_written_once_and_read_wherever_it_is_named() {
        let whole = [
            trial(&frames(1), &frames(2), &updates([true, false, true])),
            trial(&frames(3), &frames(1), &updates([false, true, false])),
        ];
        let mut written = WrittenParts::default();
        let mut read = ReadParts::default();
        let mut counts = Vec::new();
        for whole in whole {
            let mut line = whole.clone();
            let new = written.replace(&mut line);
            counts.push(new.len());
            assert!(!line.to_string().contains("recover\""));
            assert!(!line.to_string().contains("next"));
            for part in new {
                read.define(part);
            }
            read.restore(&mut line).unwrap();
            assert_eq!(line, whole);
        }
        assert_eq!(counts, [3, 1]);
    }

    #[test]
    fn a_run_that_continues_knows_the_parts_of_the_earlier_one() {
        let updates = updates([true; 3]);
        let mut earlier = WrittenParts::default();
        let new = earlier.replace(&mut trial(&frames(1), &frames(2), &updates));
        let lines = new.iter().map(|line| serde_json::to_string(line).unwrap());
        let journal: Vec<String> = lines.chain(["{\"event\":7}".to_owned()]).collect();
        let mut continued = WrittenParts::read(&journal.join("\n")).unwrap();
        let known = continued.replace(&mut trial(&frames(2), &frames(1), &updates));
        assert_eq!(known, []);
    }

    #[test]
    fn trials_without_failures_have_no_parts() {
        let mut passed = json!({ "event": 7, "failure": null });
        assert_eq!(WrittenParts::default().replace(&mut passed), []);
        let mut failed = json!({ "failure": { "stack": [], "line": "" } });
        let whole = failed.clone();
        assert_eq!(WrittenParts::default().replace(&mut failed), []);
        assert_eq!(failed, whole);
    }

    #[test]
    fn an_unknown_number_is_an_error() {
        let mut unknown = trial(&json!(4), &json!([]), &json!([]));
        let error = ReadParts::default().restore(&mut unknown).unwrap_err();
        assert_eq!(error.to_string(), "part 4 is not defined");
    }
}
