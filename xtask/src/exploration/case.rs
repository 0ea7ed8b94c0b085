//! One case: a script whose target is recorded once, and whose recovery is explored by brownout and run natively on every crash
//! image.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Result, bail};

use super::explored::{Explored, ExploredRecovery, Reads};
use super::machine::Machine;
use super::native::{
    CertainBytes, Ended, NativeBehaviours, NativeRuns, behaviours, images_after, images_inside,
};
use super::recorded;
use super::script::{POOL, Script, Variant, digest};
use crate::test_directory::output_of;
use seeded_random::SeededRandom;

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

/// Runs the case with this number of this seed, in an empty directory.
pub fn run(programs: &Programs, seed: u64, number: u64, directory: &Path) -> Result<Counts> {
    let variant = Variant::ALL[(number % Variant::ALL.len() as u64) as usize];
    let mut random = SeededRandom::new(seed.wrapping_mul(0x1_0000_0001).wrapping_add(number));
    loop {
        let script = Script::random(&mut random, variant);
        let case = Case {
            programs,
            script: &script,
            directory,
            // Every other case of a variant.
            jobs: 1 + number / Variant::ALL.len() as u64 % 2,
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
    /// Recoveries that the exploration runs at the same time.
    jobs: u64,
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
        let machine = Machine::new(profile, tears, self.script.initial.clone());
        let Some(images) = images_after(machine, &effects, MOST_IMAGES) else {
            return Ok(None);
        };
        if !images.contains(&final_pool) {
            bail!("what the target leaves is none of the crash images");
        }

        // Recovery passes on what the target leaves.
        let expected = self.recover([final_pool].into())?;
        let expected = expected.into_values().next().map(|(_, printed)| printed);
        self.write_script(digest(&expected.unwrap_or_default()))?;
        let mut native = self.recover(images)?;
        let depth = self.script.variant.depth();
        for _ in 1..depth {
            let Some(mut images) = images_inside(self.script, &native, MOST_IMAGES)? else {
                return Ok(None);
            };
            images.retain(|image| !native.contains_key(image));
            native.extend(self.recover(images)?);
        }
        let certain = CertainBytes::of(native.keys());
        let behaviours = behaviours(native.values(), &certain)?;
        let explored = self.explore(behaviours.values().any(|(status, _)| *status != 0))?;
        compare(&behaviours, &certain, &explored, self.script.variant)?;
        let failing = behaviours.values().filter(|(status, _)| *status != 0);
        Ok(Some(Counts {
            cases: 1,
            images: native.len() as u64,
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

    /// Runs recovery natively on each image.
    fn recover(&self, images: BTreeSet<Vec<u8>>) -> Result<NativeRuns> {
        let (pool, file) = (self.path("native-pool"), self.path("images"));
        fs::write(&pool, vec![0; POOL])?;
        let all: Vec<u8> = images.iter().flatten().copied().collect();
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
        let ended: Vec<Ended> = ended.collect::<Result<_>>()?;
        if ended.len() != images.len() {
            bail!("{} of {} recoveries have ended", ended.len(), images.len());
        }
        Ok(images.into_iter().zip(ended).collect())
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
            .args(["--strategy", "exhaustive", "--no-narrowing"])
            .args(["--jobs", &self.jobs.to_string()])
            .args([
                "--tearing",
                if self.script.tears { "words" } else { "whole" },
            ])
            .args(["--model", self.script.profile])
            .args(["--depth", &self.script.variant.depth().to_string()])
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

/// Fails unless the exploration has seen exactly these behaviours, and has run each once. If recovery crashes, too, runs are
/// repeated once more is known to differ, and those before have been asked for fewer bytes. If it reads in an imprecise way, more bytes
/// count as read, and there may be a run for each of their values.
fn compare(
    native: &NativeBehaviours,
    certain: &CertainBytes,
    explored: &Explored,
    variant: Variant,
) -> Result<()> {
    let depth = variant.depth();
    let mut seen: BTreeSet<&Reads> = BTreeSet::new();
    for trial in &explored.trials {
        let ExploredRecovery {
            reads,
            status,
            output,
        } = trial;
        let reads = reads.as_ref().map(|reads| certain.without(reads));
        let is_part = |(all, ended): &(&Reads, &Ended)| {
            depth > 1
                && ended.0 == *status
                && reads.as_ref().is_some_and(|reads| is_part_of(reads, all))
        };
        let has_more = |(known, _): &(&Reads, &Ended)| {
            !variant.is_precise()
                && reads
                    .as_ref()
                    .is_some_and(|reads| known.iter().all(|read| reads.contains(read)))
        };
        let exact = reads.as_ref().and_then(|reads| native.get_key_value(reads));
        let exact = exact.or_else(|| native.iter().find(has_more));
        let known = match &reads {
            Some(_) => exact.or_else(|| native.iter().find(is_part)),
            // What a recovery that passes has printed is not kept.
            None => native.iter().find(|(_, (known, transcript))| match output {
                Some(_) => trial.may_print(transcript),
                None => known == status,
            }),
        };
        let Some((_, (native_status, transcript))) = known else {
            bail!("brownout has seen what no crash leads to: {trial:?}");
        };
        let is_exact = reads.is_none() || exact.is_some();
        let has_other_output = !trial.may_print(transcript);
        if status != native_status || is_exact && has_other_output {
            bail!(
                "natively recovery prints {transcript} and exits with {native_status}: {trial:?}"
            );
        }
        seen.extend(exact.map(|(reads, _)| reads));
    }
    let missing: Vec<&String> = native
        .iter()
        .filter(|(reads, _)| !seen.contains(reads))
        .map(|(_, (_, transcript))| transcript)
        .collect();
    if !missing.is_empty() {
        bail!(
            "{} of {} behaviours were not explored: {missing:?}",
            missing.len(),
            native.len()
        );
    }
    let is_once = explored.executions == native.len() as u64;
    if depth == 1 && variant.is_precise() && !is_once {
        bail!(
            "{} executions for {} behaviours",
            explored.executions,
            native.len()
        );
    }
    Ok(())
}

/// Whether these are some of all reads, in the same order.
fn is_part_of(reads: &Reads, all: &Reads) -> bool {
    let mut all = all.iter();
    reads.iter().all(|read| all.any(|other| other == read))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn native() -> NativeBehaviours {
        let ended = [(0, "l0:00;"), (5, "l0:01;l8:02;"), (0, "l0:00;")];
        let ended = ended.map(|(status, transcript)| (status, transcript.to_owned()));
        behaviours(ended.iter(), &certain()).unwrap()
    }

    /// The first bytes differ.
    fn certain() -> CertainBytes {
        let images = [0, 1].map(|value| {
            let mut image = vec![value; POOL];
            image[16..].fill(0);
            image
        });
        CertainBytes::of(images.iter())
    }

    fn trial(reads: Option<&[(u64, u8)]>, status: i64, output: Option<&str>) -> ExploredRecovery {
        ExploredRecovery {
            reads: reads.map(<[_]>::to_vec),
            status,
            output: output.map(str::to_owned),
        }
    }

    fn error(trials: Vec<ExploredRecovery>, executions: u64) -> String {
        error_of(Variant::Loads, trials, executions)
    }

    fn error_of(variant: Variant, trials: Vec<ExploredRecovery>, executions: u64) -> String {
        let explored = Explored {
            trials,
            executions,
            is_complete: true,
        };
        compare(&native(), &certain(), &explored, variant)
            .map_or_else(|error| error.to_string(), |()| String::new())
    }

    #[test]
    fn every_difference_is_an_error() {
        let failing: &[(u64, u8)] = &[(0, 1), (8, 2)];
        let passing: &[(u64, u8)] = &[(0, 0)];
        let passed = || trial(Some(passing), 0, None);
        let failed = || trial(Some(failing), 5, Some("l0:01;l8:02;"));
        let confirmed = trial(None, 5, Some("l0:01;l8:02;"));
        let harmless = trial(None, 0, None);
        assert_eq!(error(vec![passed(), failed(), confirmed, harmless], 2), "");
        assert!(error(vec![passed()], 1).contains("1 of 2 behaviours were not explored"));
        assert!(error(vec![passed(), failed()], 3).contains("3 executions for 2"));
        let other = trial(Some(&[(0, 7)]), 0, None);
        assert!(error(vec![passed(), failed(), other], 2).contains("no crash leads to"));
        let wrong_status = trial(Some(passing), 3, Some("l0:00;"));
        assert!(error(vec![wrong_status, failed()], 2).contains("exits with 0"));
        let wrong_output = trial(Some(failing), 5, Some("l0:01;"));
        assert!(error(vec![passed(), wrong_output], 2).contains("natively recovery prints"));
        let shortened = trial(Some(failing), 5, Some("l0:01;l…"));
        assert_eq!(error(vec![passed(), shortened], 2), "");
        let wrong_beginning = trial(Some(failing), 5, Some("l1:…"));
        assert!(error(vec![passed(), wrong_beginning], 2).contains("natively recovery prints"));
    }

    /// A store of what was there before makes no byte differ: whether brownout observes reads of it does not matter.
    #[test]
    fn reads_of_bytes_that_are_the_same_in_all_images_are_not_compared() {
        let ended = [(0, "l0:00;p32:00;"), (5, "l0:01;p32:00;")];
        let ended = ended.map(|(status, transcript)| (status, transcript.to_owned()));
        let native = behaviours(ended.iter(), &certain()).unwrap();
        let explored = |passing: &[(u64, u8)], failing: &[(u64, u8)]| Explored {
            trials: vec![
                trial(Some(passing), 0, None),
                trial(Some(failing), 5, Some("l0:01;p32:00;")),
            ],
            executions: 2,
            is_complete: true,
        };
        let (without, with) = (
            explored(&[(0, 0)], &[(0, 1)]),
            explored(&[(0, 0), (32, 0)], &[(0, 1), (32, 0)]),
        );
        for explored in [without, with] {
            compare(&native, &certain(), &explored, Variant::Loads).unwrap();
        }
        let impossible = explored(&[(0, 0), (32, 7)], &[(0, 1)]);
        assert!(compare(&native, &certain(), &impossible, Variant::Loads).is_err());
    }

    #[test]
    fn runs_before_more_was_observed_have_read_a_part() {
        let failing: &[(u64, u8)] = &[(0, 1), (8, 2)];
        let all = || {
            vec![
                trial(Some(&[(0, 0)]), 0, None),
                trial(Some(failing), 5, Some("l0:01;l8:02;")),
            ]
        };
        let part = |status| vec![trial(Some(&[(8, 2)]), status, Some("l0:01;l8:02;"))];
        assert_eq!(
            error_of(Variant::Interrupted, [part(5), all()].concat(), 3),
            ""
        );
        assert!(
            error_of(Variant::Interrupted, [part(4), all()].concat(), 3)
                .contains("no crash leads to")
        );
        assert!(error([part(5), all()].concat(), 2).contains("no crash leads to"));
        assert!(error_of(Variant::Interrupted, part(5), 1).contains("were not explored"));
    }

    #[test]
    fn more_may_count_as_read_if_it_is_not_known_how_much_is() {
        let passing = |other| trial(Some(&[(9, other), (0, 0)]), 0, None);
        let failing = |status| trial(Some(&[(8, 2), (9, 1), (0, 1)]), status, None);
        let error = |trials| error_of(Variant::Imprecise, trials, 3);
        assert_eq!(error(vec![passing(0), passing(1), failing(5)]), "");
        assert!(
            error(vec![passing(0), passing(1)]).contains("1 of 2 behaviours were not explored")
        );
        assert!(error(vec![passing(0), failing(6)]).contains("exits with 5"));
        let other = trial(Some(&[(9, 0)]), 0, None);
        assert!(error(vec![passing(0), failing(5), other]).contains("no crash leads to"));
    }
}
