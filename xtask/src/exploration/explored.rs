//! What an exploration has seen, from the journal and the results of `brownout crash`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// The bytes that a recovery has read, in order, each once: offset and value.
pub type Reads = Vec<(u64, u8)>;

/// How a recovery ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExploredRecovery {
    /// `None` if it ran natively, to confirm a failure or to try a finding of lint.
    pub reads: Option<Reads>,
    pub status: i64,
    /// What it printed, if it did not pass. brownout shortens long lines, and marks that with `…`.
    pub output: Option<String>,
}

impl ExploredRecovery {
    /// Whether it printed this, as far as its output is kept.
    pub fn may_print(&self, transcript: &str) -> bool {
        match self
            .output
            .as_deref()
            .map(|kept| (kept, kept.strip_suffix('…')))
        {
            None => true,
            Some((_, Some(beginning))) => transcript.starts_with(beginning),
            Some((whole, None)) => whole == transcript,
        }
    }
}

/// All that an exploration says about itself.
#[derive(Debug)]
pub struct Explored {
    pub trials: Vec<ExploredRecovery>,
    /// Recoveries that were run to learn what they read.
    pub executions: u64,
    pub is_complete: bool,
}

impl Explored {
    /// Reads a results directory.
    pub fn read(out: &Path) -> Result<Explored> {
        let run: Value = serde_json::from_str(&fs::read_to_string(out.join("run.json"))?)?;
        let crash = &run["crash"];
        let executions = crash["exploration"]["executions"].as_u64();
        let journal = fs::read_to_string(out.join("crash.jsonl"))?;
        let lines = journal.lines().skip(1);
        let lines =
            lines.map(|line| serde_json::from_str::<Value>(line).with_context(|| line.to_owned()));
        let mut trials = Vec::new();
        for line in lines {
            let line = line?;
            if !line["verdict"].is_null() {
                trials.push(trial(&line).with_context(|| line.to_string())?);
            }
        }
        Ok(Explored {
            trials,
            executions: executions
                .context("run.json does not say how many executions there were")?,
            is_complete: crash["complete"] == true,
        })
    }
}

fn trial(line: &Value) -> Result<ExploredRecovery> {
    let status = match &line["verdict"] {
        verdict if *verdict == "passed" => 0,
        verdict => verdict["failed"]
            .as_i64()
            .context("recovery has not exited")?,
    };
    let lines = line["failure"]["output"].as_array();
    let lines = lines.map(|lines| lines.iter().filter_map(Value::as_str));
    let observation = &line["observation"];
    let reads = match observation.is_null() {
        true => None,
        false => Some(
            observation["reads"]
                .as_str()
                .context("what recovery read is not known")?,
        ),
    };
    Ok(ExploredRecovery {
        reads: reads.map(decode).transpose()?,
        status,
        output: lines.map(|lines| lines.collect::<Vec<_>>().join("\n")),
    })
}

/// Reads as the journal has them: for each the number of the file, the offset, the length and the bytes, all numbers with 7 bits
/// in each byte, the lowest first.
fn decode(hex: &str) -> Result<Reads> {
    let encoded = from_hex(hex)?;
    let mut rest = &encoded[..];
    let mut reads = Reads::new();
    while !rest.is_empty() {
        let (file, offset, len) = (number(&mut rest)?, number(&mut rest)?, number(&mut rest)?);
        if file != 0 || rest.len() < len as usize {
            bail!("these are no reads of one file: {hex}");
        }
        let (bytes, left) = rest.split_at(len as usize);
        reads.extend((offset..).zip(bytes.iter().copied()));
        rest = left;
    }
    Ok(reads)
}

fn number(encoded: &mut &[u8]) -> Result<u64> {
    let mut number = 0;
    for shift in (0..).step_by(7) {
        let (&byte, rest) = encoded.split_first().context("a number is cut off")?;
        *encoded = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    Ok(number)
}

/// The bytes that pairs of hexadecimal digits stand for.
pub fn from_hex(text: &str) -> Result<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len() % 2 == 0);
    let digits = digits.with_context(|| format!("{text:?} is not hexadecimal"))?;
    Ok(digits
        .chunks(2)
        .map(|pair| (pair[0] << 4 | pair[1]) as u8)
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_decoded_byte_by_byte() {
        let reads = decode("0004020a0b00804001ff").unwrap();
        assert_eq!(reads, [(4, 10), (5, 11), (8192, 255)]);
        assert!(decode("0004020a").is_err());
        assert!(decode("0104010a").is_err());
        assert!(from_hex("0").is_err() && from_hex("0x").is_err());
    }

    #[test]
    fn a_trial_has_its_status_and_output() {
        let line = r#"{"verdict":{"failed":7},"failure":{"output":["l0:01;"]},"observation":{"reads":"00000101"}}"#;
        let found = trial(&serde_json::from_str(line).unwrap()).unwrap();
        let expected = ExploredRecovery {
            reads: Some(vec![(0, 1)]),
            status: 7,
            output: Some("l0:01;".to_owned()),
        };
        assert_eq!(found, expected);
        let passed = trial(&serde_json::json!({"verdict": "passed"})).unwrap();
        assert_eq!((passed.reads, passed.status), (None, 0));
        assert!(trial(&serde_json::json!({"verdict": "hung"})).is_err());
    }
}
