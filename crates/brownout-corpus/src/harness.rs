//! Builds programs, runs each natively and under `brownout check`, and compares findings with annotations.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::build::Build;
use crate::compile::{compile, is_up_to_date};
use crate::error::{Error, Result};
use crate::finding::{ReportedFinding, ReportedSeverity, read_findings};
use crate::matching;
use crate::mismatch::Mismatch;
use crate::program::Program;
use crate::run::{Ended, run};

/// Compiling and running a program of a few lines takes far less, also on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(120);
/// The time limit of the crash tests of a program, below [`LIMIT`].
const TIME_LIMIT: &str = "100s";

/// Where programs are built and run.
#[derive(Clone, Debug)]
pub struct Harness {
    /// The `brownout` under test.
    pub brownout: PathBuf,
    /// Built programs are kept here and built again when a source is newer.
    pub built: PathBuf,
    /// Runs get directories of their own here; best in memory, because pools are flushed often.
    pub scratch: PathBuf,
    /// Seen by every source as a macro, in Rust as a `cfg` in lower case: what the CPU lacks (`NO_CLWB`).
    pub defines: Vec<String>,
}

/// A program built in one way.
#[derive(Clone, Debug)]
pub struct Built<'a> {
    pub program: &'a Program,
    pub build: &'a Build,
    pub path: PathBuf,
}

impl Built<'_> {
    pub fn title(&self) -> String {
        format!("{} {}", self.program.name, self.build)
    }
}

/// What came of one program in one build.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CorpusOutcome {
    /// It yielded exactly what is written in it.
    AsExpected {
        findings: usize,
    },
    Mismatched(Vec<Mismatch>),
    /// It did not run, natively or under brownout, as a program of the corpus has to.
    Broken(String),
}

impl Harness {
    /// Compiles `program` unless that has been done since the last change of a source or header.
    pub fn build<'a>(&self, program: &'a Program, build: &'a Build) -> Result<Built<'a>> {
        // By the whole path of the source: programs of two corpora may have one name.
        let below = program.source.strip_prefix("/").unwrap_or(&program.source);
        let folder = self.built.join(below);
        let path = folder.join(build.to_string());
        let built = Built {
            program,
            build,
            path,
        };
        if !is_up_to_date(&built.path, &program.source) {
            fs::create_dir_all(&folder).map_err(Error::io(&folder))?;
            compile(&built, &self.defines)?;
        }
        Ok(built)
    }

    /// Runs it natively, then under `brownout check`, and compares.
    pub fn judge(&self, built: &Built) -> Result<CorpusOutcome> {
        if let Some(complaint) = self.try_natively(built)? {
            return Ok(CorpusOutcome::Broken(complaint));
        }
        let scratch = self.scratch_dir()?;
        let out = scratch.path().join("out");
        let command = self.check_command(built, &out, &[], &pools(scratch.path())?);
        let checked = run_program(command, built, scratch.path())?;
        let exit = built.program.exit;
        let expected = |code: &i32| exit.map_or((0..=1).contains(code), |exit| *code == exit);
        let Some(status) = checked.code().filter(expected) else {
            return Ok(CorpusOutcome::Broken(format!(
                "check: {}",
                checked.describe()
            )));
        };
        let file = out.join("findings.jsonl");
        let text = fs::read_to_string(&file).map_err(Error::io(&file))?;
        Ok(compare(built, status, &read_findings(&text)?))
    }

    /// `brownout check` of it with further options, in `scratch`, with its results in `scratch/out`.
    pub fn check(&self, built: &Built, options: &[&str], scratch: &Path) -> Result<Command> {
        let dir = pools(scratch)?;
        let mut command = self.check_command(built, &scratch.join("out"), options, &dir);
        append_program(&mut command, built, scratch, &dir);
        Ok(command)
    }

    /// Runs it natively; what is wrong with that, if anything.
    pub fn try_natively(&self, built: &Built) -> Result<Option<String>> {
        let scratch = self.scratch_dir()?;
        let ended = run_program(Command::new("/usr/bin/env"), built, scratch.path())?;
        let fine = ended.code() == Some(0);
        Ok((!fine).then(|| format!("natively: {}", ended.describe())))
    }

    /// `brownout check` with all its options, before the program.
    fn check_command(&self, built: &Built, out: &Path, options: &[&str], dir: &Path) -> Command {
        let program = built.program;
        let folder = program.source.parent().unwrap_or(Path::new("/"));
        let places = [
            ("{dir}", dir),
            ("{program}", built.path.as_path()),
            ("{folder}", folder),
        ];
        let mut command = Command::new(&self.brownout);
        command
            .args([
                "check",
                "--quiet",
                "--pedantic",
                "--format",
                "json",
                "--out",
            ])
            .arg(out)
            .args(options)
            .args(program.options.iter().map(|word| fill(word, &places)));
        if let Some(recover) = &program.recover {
            // Programs are judged in parallel already.
            command.args(["--jobs", "1", "--recover", &fill_command(recover, &places)]);
            // On a busy machine, the default may end a test before it has tried everything. Other strategies have no limit.
            if !program.options.iter().any(|word| word == "--strategy") {
                command.args(["--time-limit", TIME_LIMIT]);
            }
        }
        if let Some(client) = &program.client {
            command.args(["--client", &fill_command(client, &places)]);
        }
        command.arg("--");
        command
    }

    fn scratch_dir(&self) -> Result<tempfile::TempDir> {
        fs::create_dir_all(&self.scratch).map_err(Error::io(&self.scratch))?;
        tempfile::tempdir_in(&self.scratch).map_err(Error::io(&self.scratch))
    }
}

fn compare(built: &Built, status: i32, findings: &[ReportedFinding]) -> CorpusOutcome {
    let Program {
        source,
        annotations,
        causes,
        ..
    } = built.program;
    let mut mismatches = matching::compare(source, annotations, built.build, findings);
    mismatches.extend(matching::compare_causes(*causes, findings));
    let has_bugs = findings
        .iter()
        .any(|finding| finding.severity == ReportedSeverity::Bug);
    if !mismatches.is_empty() {
        CorpusOutcome::Mismatched(mismatches)
    } else if has_bugs != (status == 1) {
        CorpusOutcome::Broken(format!(
            "check ends with status {status}, which does not fit its findings"
        ))
    } else {
        CorpusOutcome::AsExpected {
            findings: findings.len(),
        }
    }
}

/// The `{dir}` of a run, apart from other files that a run leaves.
fn pools(scratch: &Path) -> Result<PathBuf> {
    let dir = scratch.join("pools");
    fs::create_dir_all(&dir).map_err(Error::io(&dir))?;
    Ok(dir)
}

/// Runs the program as last arguments of `prefix`.
fn run_program(mut prefix: Command, built: &Built, scratch: &Path) -> Result<Ended> {
    let dir = pools(scratch)?;
    append_program(&mut prefix, built, scratch, &dir);
    run(&mut prefix, &scratch.join("log"), LIMIT)
}

/// Makes the program the last arguments of `prefix`, which runs in `scratch`.
fn append_program(prefix: &mut Command, built: &Built, scratch: &Path, dir: &Path) {
    let places = [("{dir}", dir)];
    let Program { args, env, .. } = built.program;
    prefix
        .arg(&built.path)
        .args(args.iter().map(|word| fill(word, &places)))
        .envs(env.iter().map(|(name, value)| (name, fill(value, &places))))
        .current_dir(scratch);
}

/// `word` with the path of each place instead of its name.
fn fill(word: &str, places: &[(&str, &Path)]) -> String {
    places.iter().fold(word.to_owned(), |word, (name, path)| {
        word.replace(name, &path.to_string_lossy())
    })
}

/// The same in a command, which is split into words afterwards.
fn fill_command(command: &str, places: &[(&str, &Path)]) -> String {
    places
        .iter()
        .fold(command.to_owned(), |command, (name, path)| {
            command.replace(name, &shell_words::quote(&path.to_string_lossy()))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A harness whose `brownout` is a script that writes `findings` and ends with `status`.
    fn harness(dir: &Path, findings: &str, status: i32) -> Harness {
        use std::os::unix::fs::PermissionsExt;
        let brownout = dir.join("brownout");
        let script = format!(
            "#!/bin/sh\nwhile [ \"$1\" != --out ]; do shift; done\nmkdir \"$2\"\n\
             printf '%s' '{findings}' > \"$2/findings.jsonl\"\nexit {status}\n"
        );
        fs::write(&brownout, script).unwrap();
        fs::set_permissions(&brownout, fs::Permissions::from_mode(0o755)).unwrap();
        Harness {
            brownout,
            built: dir.join("built"),
            scratch: dir.join("scratch"),
            defines: Vec::new(),
        }
    }

    fn judged(text: &str, findings: &str, status: i32) -> Result<CorpusOutcome> {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().join("corpus/clean");
        fs::create_dir_all(&folder).unwrap();
        let source = folder.join("a.c");
        fs::write(&source, text).unwrap();
        let program = Program::read(&source).unwrap();
        let findings = findings.replace("SOURCE", &program.source.to_string_lossy());
        let harness = harness(dir.path(), &findings, status);
        let built = harness.build(&program, &program.builds[0])?;
        harness.judge(&built)
    }

    const CLEAN: &str = "/* P. */\n// compilers: gcc\nint main(void) { return 0; }\n";
    const BUGGY: &str = "/* P. */\n// compilers: gcc\nint main(void) { return 0; } // expect: a\n";
    const FOUND: &str = r#"{"rule":"a","severity":"bug","stacks":[{"frames":[{"function":null,"file":"SOURCE","line":3}]}]}"#;

    #[test]
    fn a_clean_program_without_findings_is_as_expected() {
        let verdict = judged(CLEAN, "", 0).unwrap();
        assert_eq!(verdict, CorpusOutcome::AsExpected { findings: 0 });
    }

    #[test]
    fn a_buggy_program_with_its_finding_is_as_expected() {
        let verdict = judged(BUGGY, FOUND, 1).unwrap();
        assert_eq!(verdict, CorpusOutcome::AsExpected { findings: 1 });
    }

    #[test]
    fn differences_are_mismatches() {
        assert!(
            matches!(judged(BUGGY, "", 0), Ok(CorpusOutcome::Mismatched(list)) if list.len() == 1)
        );
        assert!(
            matches!(judged(CLEAN, FOUND, 1), Ok(CorpusOutcome::Mismatched(list)) if list.len() == 1)
        );
    }

    #[test]
    fn the_status_must_fit_the_findings() {
        assert!(matches!(
            judged(BUGGY, FOUND, 0),
            Ok(CorpusOutcome::Broken(_))
        ));
        assert!(matches!(judged(CLEAN, "", 1), Ok(CorpusOutcome::Broken(_))));
        assert!(matches!(
            judged(CLEAN, "", 70),
            Ok(CorpusOutcome::Broken(_))
        ));
    }

    #[test]
    fn another_status_is_expected_where_the_program_says_so_and_no_bug_is_found() {
        let warning = FOUND.replace("bug", "warning");
        let text = BUGGY.replace("gcc\n", "gcc\n// exit: 3\n");
        let (found, warning) = (FOUND.replace(":3}", ":4}"), warning.replace(":3}", ":4}"));
        let verdict = judged(&text, &warning, 3).unwrap();
        assert_eq!(verdict, CorpusOutcome::AsExpected { findings: 1 });
        for (findings, status) in [(&warning, 0), (&warning, 1), (&found, 3)] {
            let verdict = judged(&text, findings, status).unwrap();
            assert!(matches!(verdict, CorpusOutcome::Broken(_)), "{verdict:?}");
        }
    }

    #[test]
    fn a_program_that_fails_on_its_own_is_broken() {
        let text = CLEAN.replace("return 0", "return 9");
        let verdict = judged(&text, "", 0).unwrap();
        assert!(
            matches!(verdict, CorpusOutcome::Broken(why) if why.contains("natively") && why.contains('9'))
        );
    }

    #[test]
    fn a_program_that_cannot_be_built_is_an_error_with_the_compilers_words() {
        let error = judged("/* P. */\nint main(void) { return x; }\n", "", 0).unwrap_err();
        assert!(matches!(&error, Error::Compile { output, .. } if output.contains("undeclared")));
    }

    fn check_arguments(header: &str) -> Vec<String> {
        let source = Path::new("/corpus/clean/a.c");
        let program = Program::parse(source, &format!("/* P. */\n{header}int x;\n")).unwrap();
        let built = Built {
            program: &program,
            build: &program.builds[0],
            path: "/built here/a".into(),
        };
        let harness = harness(tempfile::tempdir().unwrap().path(), "", 0);
        let command = harness.check_command(&built, Path::new("/out"), &[], Path::new("/pools"));
        // What follows the options that every check has, of which `--out` is the last.
        let given = command
            .get_args()
            .skip_while(|word| *word != "/out")
            .skip(1);
        given
            .map(|word| word.to_string_lossy().into_owned())
            .collect()
    }

    #[test]
    fn places_are_filled_into_options() {
        let given = check_arguments("// check: --pm {dir}/a --config {folder}/a.toml\n");
        let expected = ["--pm", "/pools/a", "--config", "/corpus/clean/a.toml", "--"];
        assert_eq!(given, expected);
    }

    #[test]
    fn a_recovery_is_one_argument_in_which_paths_stay_whole() {
        let given = check_arguments("// recover: {program} {dir}/a\n// client: {program} ask\n");
        let expected = [
            "--jobs",
            "1",
            "--recover",
            "'/built here/a' /pools/a",
            "--time-limit",
            TIME_LIMIT,
            "--client",
            "'/built here/a' ask",
            "--",
        ];
        assert_eq!(given, expected);
    }

    #[test]
    fn variants_reach_the_source() {
        let text = "/* P. */\n// variants: nt\n#ifndef VARIANT_nt\n#error\n#endif\nint main(void) { return 0; }\n";
        assert_eq!(
            judged(text, "", 0).unwrap(),
            CorpusOutcome::AsExpected { findings: 0 }
        );
    }
}
