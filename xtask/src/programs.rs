//! Our own test programs under `tests/programs/`: each says in its opening comment how it is built and
//! how it must end, and is built here in every variant it names.
//!
//! A directive is a line of the opening comment that starts with `@`:
//!
//! | directive | meaning |
//! |---|---|
//! | `@build V…` | variants to build, of `pie` (the default) `nopie` `static` `static-pie` `musl` `musl-static` |
//! | `@flags F…` | further flags of the compiler |
//! | `@lib NAME F…` | builds the same source, with `-DLIB -shared F…`, as `libNAME.so` in the program's folder |
//! | `@args A…`, `@env N=V`, `@stdin TEXT` | how it is run; `{build}` is the program's folder, `\n` a line end |
//! | `@exit N`, `@signal SIGX` | how it must end; exit 0 unless said |
//! | `@stderr` | its standard error is compared too |
//! | `@slow` | not part of the core run |
//! | `@limit SECONDS` | time it may take, 60 unless said |
//! | `@threaded` | (exactness) threads race: it is run many times |
//! | `@varying` | (exactness) final files differ from run to run, so they are compared with the trace only |
//! | `@missed BYTES` | (exactness) a known miss: so many bytes of the final files may not be in the trace |

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail};

use crate::parallel;
use crate::shell::{find_program, root, target_dir};
use crate::signal_names::signal_number;
use crate::test_directory::End;

/// A way to build and link a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    Pie,
    NoPie,
    Static,
    StaticPie,
    Musl,
    MuslStatic,
}

impl Variant {
    const ALL: [Variant; 6] = [
        Variant::Pie,
        Variant::NoPie,
        Variant::Static,
        Variant::StaticPie,
        Variant::Musl,
        Variant::MuslStatic,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Variant::Pie => "pie",
            Variant::NoPie => "nopie",
            Variant::Static => "static",
            Variant::StaticPie => "static-pie",
            Variant::Musl => "musl",
            Variant::MuslStatic => "musl-static",
        }
    }

    fn flags(self) -> &'static [&'static str] {
        match self {
            Variant::Pie => &["-fPIE", "-pie"],
            Variant::NoPie => &["-fno-pie", "-no-pie"],
            Variant::Static | Variant::MuslStatic => &["-fno-pie", "-no-pie", "-static"],
            Variant::StaticPie => &["-fPIE", "-static-pie"],
            Variant::Musl => &[],
        }
    }

    fn is_musl(self) -> bool {
        matches!(self, Variant::Musl | Variant::MuslStatic)
    }
}

/// A source file and what its opening comment says.
#[derive(Debug)]
pub struct Program {
    pub source: PathBuf,
    /// The folder under `tests/programs/`.
    pub group: String,
    pub name: String,
    pub variants: Vec<Variant>,
    pub flags: Vec<String>,
    pub libraries: Vec<(String, Vec<String>)>,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    pub stdin: String,
    pub end: End,
    pub stderr: bool,
    pub slow: bool,
    pub limit: Duration,
    pub threaded: bool,
    pub varying: bool,
    pub missed: u64,
}

/// A program built in one variant.
pub struct Built<'a> {
    pub program: &'a Program,
    pub variant: Variant,
    pub path: PathBuf,
}

impl Built<'_> {
    /// The program's arguments with `{build}` filled in.
    pub fn args(&self) -> Vec<String> {
        let folder = self
            .path
            .parent()
            .unwrap_or(Path::new(""))
            .display()
            .to_string();
        self.program
            .args
            .iter()
            .map(|arg| arg.replace("{build}", &folder))
            .collect()
    }

    /// `group/name`, with the variant unless it is the ordinary one.
    pub fn title(&self) -> String {
        let Program { group, name, .. } = self.program;
        match self.variant {
            Variant::Pie => format!("{group}/{name}"),
            variant => format!("{group}/{name} ({})", variant.name()),
        }
    }
}

/// All programs of the folders of `tests/programs/` that `wanted` accepts, by name.
pub fn discover(wanted: impl Fn(&str) -> bool) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for group in fs::read_dir(root().join("tests/programs"))? {
        let group = group?.path();
        let group_name = group
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !group.is_dir() || !wanted(&group_name) {
            continue;
        }
        for source in fs::read_dir(&group)? {
            let source = source?.path();
            let extension = source.extension().unwrap_or_default();
            if extension == "c" || extension == "cpp" || extension == "rs" {
                let text = fs::read_to_string(&source)?;
                let program = parse(&source, &group_name, &text);
                programs.push(program.with_context(|| source.display().to_string())?);
            }
        }
    }
    programs.sort_by(|a, b| (&a.group, &a.name).cmp(&(&b.group, &b.name)));
    Ok(programs)
}

fn parse(source: &Path, group: &str, text: &str) -> Result<Program> {
    let name = source
        .file_stem()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let mut program = Program {
        source: source.to_owned(),
        group: group.to_owned(),
        name,
        variants: Vec::new(),
        flags: Vec::new(),
        libraries: Vec::new(),
        args: Vec::new(),
        env: Vec::new(),
        stdin: String::new(),
        end: End::Exit(0),
        stderr: false,
        slow: false,
        limit: Duration::from_secs(60),
        threaded: false,
        varying: false,
        missed: 0,
    };
    for line in opening_comment(text) {
        let Some(directive) = line.strip_prefix('@') else {
            continue;
        };
        let (word, rest) = directive.split_once(' ').unwrap_or((directive, ""));
        let words = || rest.split_whitespace().map(str::to_owned);
        match word {
            "build" => {
                for word in words() {
                    let variant = Variant::ALL
                        .into_iter()
                        .find(|variant| variant.name() == word);
                    program
                        .variants
                        .push(variant.with_context(|| format!("no variant {word:?}"))?);
                }
            }
            "flags" => program.flags.extend(words()),
            "lib" => {
                let name = words().next().context("@lib needs a name")?;
                program.libraries.push((name, words().skip(1).collect()));
            }
            "args" => program.args.extend(words()),
            "env" => {
                let (name, value) = rest.split_once('=').context("@env needs NAME=VALUE")?;
                program.env.push((name.to_owned(), value.to_owned()));
            }
            "stdin" => program.stdin = rest.replace("\\n", "\n"),
            "exit" => program.end = End::Exit(rest.trim().parse()?),
            "signal" => program.end = End::Signal(signal_number(rest.trim())?),
            "stderr" => program.stderr = true,
            "slow" => program.slow = true,
            "limit" => program.limit = Duration::from_secs(rest.trim().parse()?),
            "threaded" => program.threaded = true,
            "varying" => program.varying = true,
            "missed" => program.missed = rest.trim().parse()?,
            other => bail!("no directive @{other}"),
        }
    }
    if program.variants.is_empty() {
        program.variants.push(Variant::Pie);
    }
    Ok(program)
}

/// The lines of the comment that opens the file, without its decoration.
fn opening_comment(text: &str) -> Vec<&str> {
    let mut lines = Vec::new();
    for line in text.lines() {
        let line = line.trim();
        let body = line
            .strip_prefix("//!")
            .or_else(|| line.strip_prefix("/*"))
            .or_else(|| line.strip_prefix('*'));
        let Some(body) = body else { break };
        let (body, last) = match body.strip_suffix("*/") {
            Some(body) => (body, true),
            None => (body, body == "/"),
        };
        lines.push(body.trim());
        if last {
            break;
        }
    }
    lines
}

/// The compilers that `programs` need and the machine lacks.
pub fn missing_compilers(programs: &[Program]) -> Vec<&'static str> {
    let needs = |program: &Program| {
        let extension = program.source.extension().unwrap_or_default().to_owned();
        let mut needed = Vec::new();
        if program.variants.iter().any(|variant| variant.is_musl()) {
            needed.push("musl-gcc");
        }
        if extension != "rs" {
            needed.push(if extension == "cpp" { "g++" } else { "gcc" });
        }
        needed
    };
    let mut missing: Vec<_> = programs
        .iter()
        .flat_map(needs)
        .filter(|name| find_program(name).is_none())
        .collect();
    missing.sort_unstable();
    missing.dedup();
    missing
}

/// Builds every variant of `programs` that is not up to date.
pub fn build(programs: &[Program]) -> Result<Vec<Built<'_>>> {
    let out = target_dir()?.join("programs");
    let pieces: Vec<Built> = programs
        .iter()
        .flat_map(|program| {
            program
                .variants
                .iter()
                .map(move |&variant| (program, variant))
        })
        .map(|(program, variant)| {
            let folder = out
                .join(&program.group)
                .join(&program.name)
                .join(variant.name());
            Built {
                program,
                variant,
                path: folder.join(&program.name),
            }
        })
        .collect();
    let results = parallel::map(&pieces, parallel::cores(), build_one);
    let failed: Vec<String> = results
        .into_iter()
        .filter_map(Result::err)
        .map(|error| format!("{error:#}"))
        .collect();
    if !failed.is_empty() {
        bail!(
            "{} programs cannot be built:\n{}",
            failed.len(),
            failed.join("\n")
        );
    }
    Ok(pieces)
}

fn build_one(piece: &Built) -> Result<()> {
    let Built {
        program,
        variant,
        path,
    } = piece;
    if is_up_to_date(path, &program.source)? {
        return Ok(());
    }
    let folder = path.parent().context("a built program has a folder")?;
    fs::create_dir_all(folder)?;
    for (name, flags) in &program.libraries {
        let mut command = compiler(program, *variant);
        command
            .args(["-DLIB", "-fPIC", "-shared"])
            .args(flags)
            .arg("-o")
            .arg(folder.join(format!("lib{name}.so")));
        compile(&mut command)?;
    }
    let mut command = compiler(program, *variant);
    if program
        .source
        .extension()
        .is_some_and(|extension| extension != "rs")
    {
        command.args(variant.flags());
    }
    compile(command.args(&program.flags).arg("-o").arg(path))
}

/// Newer than its source, the shared header, and the rules by which it is built.
fn is_up_to_date(path: &Path, source: &Path) -> Result<bool> {
    let time = |path: &Path| -> Result<SystemTime> { Ok(fs::metadata(path)?.modified()?) };
    let Ok(built) = time(path) else {
        return Ok(false);
    };
    let header = root().join("tests/programs/check.h");
    Ok(built > time(source)?
        && built > time(&header)?
        && built > time(&root().join("xtask/src/programs.rs"))?)
}

fn compiler(program: &Program, variant: Variant) -> Command {
    let extension = program.source.extension().unwrap_or_default();
    if extension == "rs" {
        let mut command = Command::new("rustc");
        command
            .args(["--edition=2024", "-O", "-g"])
            .arg(&program.source);
        return command;
    }
    let name = if extension == "cpp" {
        "g++"
    } else if variant.is_musl() {
        "musl-gcc"
    } else {
        "gcc"
    };
    let mut command = Command::new(name);
    command.args([
        "-O1",
        "-g",
        "-Wall",
        "-Wextra",
        "-Werror=implicit-function-declaration",
        "-D_GNU_SOURCE",
        "-pthread",
    ]);
    command
        .arg("-I")
        .arg(root().join("tests/programs"))
        .arg(&program.source);
    command
}

fn compile(command: &mut Command) -> Result<()> {
    let output = command
        .output()
        .with_context(|| format!("cannot run {}", command.get_program().display()))?;
    if !output.status.success() {
        bail!(
            "{command:?}: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Result<Program> {
        parse(
            Path::new("tests/programs/signals/nested.c"),
            "signals",
            text,
        )
    }

    #[test]
    fn the_opening_comment_holds_the_directives() {
        let program = parsed(
            "/* Signals nest.\n *\n * @build pie musl-static\n * @flags -lm\n * @signal SIGSEGV\n * @stdin a\\nb\n */\n/* @exit 3 */\n",
        )
        .unwrap();
        assert_eq!(program.name, "nested");
        assert_eq!(program.variants, [Variant::Pie, Variant::MuslStatic]);
        assert_eq!(program.flags, ["-lm"]);
        assert_eq!(program.end, End::Signal(11));
        assert_eq!(program.stdin, "a\nb");
    }

    #[test]
    fn a_one_line_comment_is_enough() {
        let program = parsed("/* Says hello. */\nint main(void) { return 0; }\n").unwrap();
        assert_eq!(program.variants, [Variant::Pie]);
        assert_eq!(program.end, End::Exit(0));
    }

    #[test]
    fn misspelt_directives_are_errors() {
        assert!(parsed("/* @biuld pie */\n").is_err());
        assert!(parsed("/* @build pei */\n").is_err());
        assert!(parsed("/* @signal SIGNONE */\n").is_err());
    }
}
