//! One case: a script whose target is recorded once, and whose recovery is explored by brownout and run natively on every crash
//! image.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};

use super::explored::{Explored, Reads, Trial};
use super::machine::Machine;
use super::random::Random;
use super::recorded;
use super::script::{POOL, Script, Variant, digest};
use crate::test_directory::output_of;

/// Crash images of a case, at most: another script takes the place of one that has more.
const MOST_IMAGES: usize = 1200;
const LIMIT: Duration = Duration::from_secs(300);

/// What the cases run.
pub struct Programs<'a> {
    pub brownout: &'a Path,
    /// The interpreter of scripts.
    pub script: &'a Path,
}

/// What was compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    pub cases: u64,
    /// Different crash images, on each of which recovery ran natively.
    pub images: u64,
    /// Different sequences of bytes that recovery has read.
    pub behaviours: u64,
    /// Those of them after which recovery fails.
    pub failing: u64,
    /// Recoveries that the exploration ran.
    pub executions: u64,
    /// Cases in which stores can be torn.
    pub torn: u64,
}

impl Counts {
    pub fn add(&mut self, other: &Counts) {
        self.cases += other.cases;
        self.images += other.images;
        self.behaviours += other.behaviours;
        self.failing += other.failing;
        self.executions += other.executions;
        self.torn += other.torn;
    }
}

/// What recovery does after it has read certain bytes: its status and what it prints.
type NativeBehaviours = BTreeMap<Reads, (i64, String)>;

/// Runs the case with this number of this seed, in an empty directory.
pub fn run(programs: &Programs, seed: u64, number: u64, directory: &Path) -> Result<Counts> {
    let variant = Variant::ALL[(number % Variant::ALL.len() as u64) as usize];
    let mut random = Random::new(seed.wrapping_mul(0x1_0000_0001).wrapping_add(number));
    loop {
        let script = Script::random(&mut random, variant);
        let case = Case {
            programs,
            script: &script,
            directory,
        };
        // With too many images, another script is tried.
        if let Some(counts) = case.run()? {
            return Ok(counts);
        }
    }
}

struct Case<'a> {
    programs: &'a Programs<'a>,
    script: &'a Script,
    directory: &'a Path,
}

impl Case<'_> {
    /// `None` if there are too many crash images.
    fn run(&self) -> Result<Option<Counts>> {
        let Script { profile, tears, .. } = *self.script;
        let pool = self.path("pool");
        let final_pool = self.record()?;
        let dump = self.brownout(&["dump", "--format", "json"], &[self.path("trace")])?;
        let effects = recorded::effects(&dump, &pool)?;
        recorded::check(&effects, &self.script.target)?;
        let mut machine = Machine::new(profile, tears, self.script.initial.clone());
        // Crashes are tested once something was stored.
        let mut images = BTreeSet::new();
        for (thread, effect) in &effects {
            machine.apply(*thread, effect);
            let possible = match machine.has_stores() {
                true => machine.images(MOST_IMAGES),
                false => Some(BTreeSet::new()),
            };
            match possible {
                Some(possible) if images.len() + possible.len() <= MOST_IMAGES => {
                    images.extend(possible);
                }
                _ => return Ok(None),
            }
        }
        if !images.contains(&final_pool) {
            bail!("what the target leaves is none of the crash images");
        }

        // Recovery passes on what the target leaves.
        let expected = self.recover(&[&final_pool])?.remove(0).1;
        self.write_script(digest(&expected))?;
        let images: Vec<&Vec<u8>> = images.iter().collect();
        let native = self.recover(&images)?;
        let certain = CertainBytes::of(&images);
        let behaviours = behaviours(native, &certain)?;
        let explored = self.explore(behaviours.values().any(|(status, _)| *status != 0))?;
        compare(&behaviours, &certain, &explored)?;
        let failing = behaviours.values().filter(|(status, _)| *status != 0);
        Ok(Some(Counts {
            cases: 1,
            images: images.len() as u64,
            behaviours: behaviours.len() as u64,
            failing: failing.count() as u64,
            executions: explored.executions,
            torn: u64::from(tears),
        }))
    }

    /// Records the target; what it leaves of the pool.
    fn record(&self) -> Result<Vec<u8>> {
        self.write_script(0)?;
        let pool = self.path("pool");
        fs::write(&pool, &self.script.initial)?;
        let words: [OsString; 10] = [
            self.programs.brownout.into(),
            "record".into(),
            "-q".into(),
            "--pm".into(),
            pool.clone().into(),
            "-o".into(),
            self.path("trace").into(),
            "--".into(),
            self.programs.script.into(),
            self.path("script").into(),
        ];
        let words = [&words[..], &[pool.clone().into(), "run".into()]].concat();
        output_of(&words, LIMIT)?;
        Ok(fs::read(&pool)?)
    }

    /// Runs recovery natively on each image: its status and what it prints.
    fn recover(&self, images: &[&Vec<u8>]) -> Result<Vec<(i64, String)>> {
        let (pool, file) = (self.path("native-pool"), self.path("images"));
        fs::write(&pool, vec![0; POOL])?;
        let all: Vec<u8> = images
            .iter()
            .flat_map(|image| image.iter().copied())
            .collect();
        fs::write(&file, all)?;
        let words: [OsString; 5] = [
            self.programs.script.into(),
            self.path("script").into(),
            pool.into(),
            "each".into(),
            file.into(),
        ];
        let output = String::from_utf8(output_of(&words, LIMIT)?)?;
        let lines: Vec<&str> = output.lines().collect();
        let ended = lines.chunks(2).map(|pair| match pair {
            [transcript, status] => Ok((status.parse()?, (*transcript).to_owned())),
            _ => bail!("recovery has printed nothing"),
        });
        let ended: Vec<(i64, String)> = ended.collect::<Result<_>>()?;
        if ended.len() != images.len() {
            bail!("{} of {} recoveries have ended", ended.len(), images.len());
        }
        Ok(ended)
    }

    /// Explores recovery.
    fn explore(&self, fails: bool) -> Result<Explored> {
        let (script, pool) = (self.path("script"), self.path("pool"));
        let program = self.programs.script.display();
        let recover = format!("{program} {} {} recover", script.display(), pool.display());
        let out = self.path("out");
        let mut command = Command::new(self.programs.brownout);
        command
            .arg("crash")
            .arg(self.path("trace"))
            .args(["--strategy", "exhaustive", "--no-narrowing", "--jobs", "1"])
            .args([
                "--tearing",
                if self.script.tears { "words" } else { "whole" },
            ])
            .args(["--model", self.script.profile])
            .args(["--recover", &recover])
            .arg("--out")
            .arg(&out);
        let output = command.stdin(Stdio::null()).output()?;
        let remarks = String::from_utf8_lossy(&output.stderr);
        if output.status.code() != Some(i32::from(fails)) {
            bail!("{command:?} ended with {}: {remarks}", output.status);
        }
        let explored = Explored::read(&out)?;
        if !explored.is_complete {
            bail!("the exploration is not complete: {remarks}");
        }
        Ok(explored)
    }

    fn brownout(&self, words: &[&str], paths: &[PathBuf]) -> Result<String> {
        let mut all: Vec<OsString> = vec![self.programs.brownout.into()];
        all.extend(words.iter().map(OsString::from));
        all.extend(paths.iter().map(OsString::from));
        Ok(String::from_utf8(output_of(&all, LIMIT)?)?)
    }

    fn write_script(&self, expected: u64) -> Result<()> {
        Ok(fs::write(self.path("script"), self.script.text(expected))?)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }
}

/// The bytes of the pool that are the same in all crash images: to read them is no choice.
struct CertainBytes(Vec<Option<u8>>);

impl CertainBytes {
    fn of(images: &[&Vec<u8>]) -> CertainBytes {
        let is_same = |at: usize| images.iter().all(|image| image[at] == images[0][at]);
        let bytes = (0..POOL).map(|at| is_same(at).then(|| images[0][at]));
        CertainBytes(bytes.collect())
    }

    /// The reads without those of bytes that are certain.
    fn without(&self, reads: &Reads) -> Reads {
        let mut reads = reads.clone();
        reads.retain(|&(at, byte)| self.0.get(at as usize) != Some(&Some(byte)));
        reads
    }
}

/// What recovery does after it has read certain bytes, of those that differ between crashes.
fn behaviours(native: Vec<(i64, String)>, certain: &CertainBytes) -> Result<NativeBehaviours> {
    let mut found = NativeBehaviours::new();
    for (status, transcript) in native {
        let reads = certain.without(&first_reads(&transcript)?);
        let other = found.insert(reads, (status, transcript.clone()));
        if let Some(other) = other.filter(|other| *other != (status, transcript.clone())) {
            bail!(
                "after the same reads, recovery prints {transcript} and {}",
                other.1
            );
        }
    }
    Ok(found)
}

/// The bytes that a recovery has read, each once, if it had not stored them before.
fn first_reads(transcript: &str) -> Result<Reads> {
    let mut known = BTreeSet::new();
    let mut reads = Reads::new();
    for access in transcript.split_terminator(';') {
        let is_store = access.starts_with('s');
        let (offset, bytes) = access[1..].split_once(':').context("an access has bytes")?;
        let offset: u64 = offset.parse()?;
        for (at, byte) in (offset..).zip(super::explored::from_hex(bytes)?) {
            if known.insert(at) && !is_store {
                reads.push((at, byte));
            }
        }
    }
    Ok(reads)
}

/// Fails unless the exploration has seen exactly these behaviours, and has run each once.
fn compare(native: &NativeBehaviours, certain: &CertainBytes, explored: &Explored) -> Result<()> {
    let mut seen: BTreeSet<Reads> = BTreeSet::new();
    for trial in &explored.trials {
        let Trial {
            reads,
            status,
            output,
        } = trial;
        let reads = reads.as_ref().map(|reads| certain.without(reads));
        let known = match &reads {
            Some(reads) => native.get(reads),
            None => native
                .values()
                .find(|(_, transcript)| output.as_ref() == Some(transcript)),
        };
        let Some((native_status, transcript)) = known else {
            bail!("brownout has seen what no crash leads to: {trial:?}");
        };
        if status != native_status || output.as_ref().is_some_and(|output| output != transcript) {
            bail!(
                "natively recovery prints {transcript} and exits with {native_status}: {trial:?}"
            );
        }
        seen.extend(reads);
    }
    let missing: Vec<&String> = native
        .iter()
        .filter(|(reads, _)| !seen.contains(*reads))
        .map(|(_, (_, transcript))| transcript)
        .collect();
    if !missing.is_empty() {
        bail!(
            "{} of {} behaviours were not explored: {missing:?}",
            missing.len(),
            native.len()
        );
    }
    if explored.executions != native.len() as u64 {
        bail!(
            "{} executions for {} behaviours",
            explored.executions,
            native.len()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native() -> NativeBehaviours {
        let ended = [(0, "l0:00;"), (5, "l0:01;l8:02;"), (0, "l0:00;")];
        let ended = ended.map(|(status, transcript)| (status, transcript.to_owned()));
        behaviours(ended.into(), &certain(16)).unwrap()
    }

    /// All bytes from some offset on are zero in all images, those before are not.
    fn certain(from: usize) -> CertainBytes {
        let images = [0, 1].map(|value| {
            let mut image = vec![value; POOL];
            image[from..].fill(0);
            image
        });
        CertainBytes::of(&images.each_ref())
    }

    fn trial(reads: Option<&[(u64, u8)]>, status: i64, output: Option<&str>) -> Trial {
        Trial {
            reads: reads.map(<[_]>::to_vec),
            status,
            output: output.map(str::to_owned),
        }
    }

    fn error(trials: Vec<Trial>, executions: u64) -> String {
        let explored = Explored {
            trials,
            executions,
            is_complete: true,
        };
        compare(&native(), &certain(16), &explored)
            .map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn reads_are_those_before_own_stores_of_bytes_that_differ() {
        let reads = first_reads("l6:010203;s2:0909;p0:00010203;x0:05;").unwrap();
        assert_eq!(reads, [(6, 1), (7, 2), (8, 3), (0, 0), (1, 1)]);
        let certain = certain(7);
        assert_eq!(certain.without(&vec![(6, 0), (7, 0), (8, 0)]), [(6, 0)]);
        assert_eq!(certain.without(&reads), reads, "these bytes cannot be read");
    }

    #[test]
    fn every_difference_is_an_error() {
        let failing: &[(u64, u8)] = &[(0, 1), (8, 2)];
        let passing: &[(u64, u8)] = &[(0, 0)];
        let passed = || trial(Some(passing), 0, None);
        let failed = || trial(Some(failing), 5, Some("l0:01;l8:02;"));
        let confirmed = trial(None, 5, Some("l0:01;l8:02;"));
        assert_eq!(error(vec![passed(), failed(), confirmed], 2), "");
        assert!(error(vec![passed()], 1).contains("1 of 2 behaviours were not explored"));
        assert!(error(vec![passed(), failed()], 3).contains("3 executions for 2"));
        let other = trial(Some(&[(0, 7)]), 0, None);
        assert!(error(vec![passed(), failed(), other], 2).contains("no crash leads to"));
        let wrong_status = trial(Some(passing), 3, Some("l0:00;"));
        assert!(error(vec![wrong_status, failed()], 2).contains("exits with 0"));
        let wrong_output = trial(Some(failing), 5, Some("l0:01;"));
        assert!(error(vec![passed(), wrong_output], 2).contains("natively recovery prints"));
    }

    #[test]
    fn a_recovery_that_depends_on_more_than_its_reads_is_detected() {
        let ended = [(0, "l0:00;l9:00;"), (3, "l0:00;l9:00;")];
        let ended = ended.map(|(status, transcript)| (status, transcript.to_owned()));
        assert!(behaviours(ended.into(), &certain(9)).is_err());
    }
}
