//! A program of the corpus: its source, how it is built and run, and what it must yield.
//!
//! Directives stand before the first line of code, one a line, behind the comment that says what the
//! program shows:
//!
//! | directive | meaning |
//! |---|---|
//! | `// variants: NAME…` | build once for each name, with `-DVARIANT_NAME` (Rust: `--cfg variant="NAME"`) |
//! | `// build: FLAG…` | further flags of the compiler |
//! | `// compilers: NAME…` | of `gcc` and `clang`; both unless said |
//! | `// levels: LEVEL…` | of `O0` to `O3`; `O0 O2` unless said |
//! | `// args: ARG…` | the program's arguments; `{dir}/pool` unless said |
//! | `// env: NAME=VALUE` | a variable of the program's environment; may stand several times |
//! | `// check: OPTION…` | further options of `brownout check` |
//! | `// recover: COMMAND` | the recovery, run on each crash image: `{program} {dir}/pool check` where the program is its own |
//! | `// exit: STATUS` | the exit status of `brownout check`, which then reports no bug; 1 if it reports one, 0 otherwise unless said |
//! | `// client: COMMAND` | if the recovery is a server: what is run against it |
//! | `// causes: NUMBER` | how many findings the report must have; joined ones count as one |
//!
//! `{dir}` in arguments, variables, options and commands is a directory that is empty before each run. In options and
//! commands, `{program}` is the program as it was built and `{folder}` is where its source lies. A program
//! must end with exit status 0, natively and under brownout.

use std::fs;
use std::path::{Path, PathBuf};

use crate::annotation::{self, Annotation};
use crate::build::{Build, Compiler, Level};
use crate::error::{Error, Result};

/// The language of a source file, by its extension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Language {
    C,
    Cpp,
    Rust,
}

impl Language {
    fn of(path: &Path) -> Option<Language> {
        match path.extension()?.to_str()? {
            "c" => Some(Language::C),
            "cpp" => Some(Language::Cpp),
            "rs" => Some(Language::Rust),
            _ => None,
        }
    }
}

/// A source file and all it says.
#[derive(Clone, Debug)]
pub struct Program {
    pub source: PathBuf,
    /// `folder/stem`.
    pub name: String,
    pub language: Language,
    pub builds: Vec<Build>,
    /// Flags of the compiler.
    pub flags: Vec<String>,
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Options of `brownout check`.
    pub options: Vec<String>,
    /// The command that recovers from a crash, if crashes are tested.
    pub recover: Option<String>,
    /// The exit status of `brownout check`, if its findings do not determine it.
    pub exit: Option<i32>,
    /// The command that is run against the recovery while that serves.
    pub client: Option<String>,
    /// How many findings there must be that no other finding explains.
    pub causes: Option<usize>,
    pub annotations: Vec<Annotation>,
}

impl Program {
    pub fn read(source: &Path) -> Result<Program> {
        let source = fs::canonicalize(source).map_err(Error::io(source))?;
        let text = fs::read_to_string(&source).map_err(Error::io(&source))?;
        Program::parse(&source, &text)
    }

    /// Reads directives and annotations out of `text`, the content of `source`.
    pub fn parse(source: &Path, text: &str) -> Result<Program> {
        let language = Language::of(source).ok_or_else(|| Error::Language {
            path: source.to_owned(),
        })?;
        let problem = |line: u32, problem: String| Error::Source {
            path: source.to_owned(),
            line,
            problem,
        };
        let mut header = Header::default();
        for (line, text) in directives(text) {
            header.take(text).map_err(|what| problem(line, what))?;
        }
        if header.client.is_some() && header.recover.is_none() {
            return Err(problem(1, "`client` needs `recover`".to_owned()));
        }
        let builds = header.builds(language);
        let annotations = annotation::parse(text)
            .map_err(|malformed| problem(malformed.line, malformed.problem))?;
        for annotation in &annotations {
            if let Some(tag) = annotation.scope.stray_tag(&builds) {
                let what = format!("no build of this program has the tag {tag:?}");
                return Err(problem(annotation.line, what));
            }
        }
        Ok(Program {
            source: source.to_owned(),
            name: name_of(source),
            language,
            builds,
            flags: header.flags,
            args: header.args.unwrap_or_else(|| vec!["{dir}/pool".to_owned()]),
            env: header.env,
            options: header.options,
            recover: header.recover,
            exit: header.exit,
            client: header.client,
            causes: header.causes,
            annotations,
        })
    }
}

/// All programs in the folders of `dir`, by name.
pub fn discover(dir: &Path) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for folder in entries(dir)? {
        if !folder.is_dir() {
            continue;
        }
        for source in entries(&folder)? {
            if Language::of(&source).is_some() {
                programs.push(Program::read(&source)?);
            }
        }
    }
    Ok(programs)
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>> {
    let mut paths = Vec::new();
    for entry in fs::read_dir(dir).map_err(Error::io(dir))? {
        paths.push(entry.map_err(Error::io(dir))?.path());
    }
    paths.sort();
    Ok(paths)
}

fn name_of(source: &Path) -> String {
    let part =
        |part: Option<&std::ffi::OsStr>| part.unwrap_or_default().to_string_lossy().into_owned();
    let folder = part(source.parent().and_then(Path::file_name));
    format!("{folder}/{}", part(source.file_name()))
}

/// The `//` comments before the first line of code, other than annotations and the documentation on top.
fn directives(text: &str) -> Vec<(u32, &str)> {
    let mut found = Vec::new();
    let mut in_block = false;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if in_block || line.starts_with("/*") {
            in_block = !line.ends_with("*/");
        } else if line.is_empty() || line.starts_with("//!") {
            continue;
        } else if let Some(directive) = line.strip_prefix("//") {
            found.push((number, directive.trim()));
        } else {
            break;
        }
    }
    found
}

#[derive(Default)]
struct Header {
    variants: Vec<String>,
    flags: Vec<String>,
    compilers: Vec<Compiler>,
    levels: Vec<Level>,
    args: Option<Vec<String>>,
    env: Vec<(String, String)>,
    options: Vec<String>,
    exit: Option<i32>,
    recover: Option<String>,
    client: Option<String>,
    causes: Option<usize>,
}

impl Header {
    fn take(&mut self, directive: &str) -> std::result::Result<(), String> {
        let (key, value) = directive
            .split_once(':')
            .ok_or_else(|| format!("{directive:?} is no directive"))?;
        let words: Vec<String> = value.split_whitespace().map(str::to_owned).collect();
        if words.is_empty() && key != "args" {
            return Err(format!("`{key}` says nothing"));
        }
        match key {
            "variants" => {
                let is_name =
                    |word: &String| word.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
                if let Some(word) = words.iter().find(|word| !is_name(word)) {
                    return Err(format!("{word:?} cannot name a variant"));
                }
                self.variants.extend(words);
            }
            "build" => self.flags.extend(words),
            "compilers" => self.compilers = named(&words, &Compiler::ALL, Compiler::tag)?,
            "levels" => self.levels = named(&words, &Level::ALL, Level::tag)?,
            "args" => self.args = Some(words),
            "env" => {
                let (name, value) = value
                    .trim()
                    .split_once('=')
                    .ok_or("`env` needs NAME=VALUE")?;
                self.env.push((name.to_owned(), value.to_owned()));
            }
            "check" => self.options.extend(words),
            "exit" => {
                let status = value.trim().parse();
                self.exit = Some(status.map_err(|_| "`exit` needs a number")?);
            }
            "recover" => self.recover = Some(value.trim().to_owned()),
            "client" => self.client = Some(value.trim().to_owned()),
            "causes" => {
                let number = value.trim().parse();
                self.causes = Some(number.map_err(|_| "`causes` needs a number")?);
            }
            _ => return Err(format!("there is no directive `{key}`")),
        }
        Ok(())
    }

    fn builds(&self, language: Language) -> Vec<Build> {
        let or = |own: &[Compiler], default: &[Compiler]| {
            if own.is_empty() { default } else { own }.to_vec()
        };
        let compilers = match language {
            Language::Rust => vec![Compiler::Rustc],
            Language::C | Language::Cpp => or(&self.compilers, &[Compiler::Gcc, Compiler::Clang]),
        };
        let levels: &[Level] = if self.levels.is_empty() {
            &[Level::O0, Level::O2]
        } else {
            &self.levels
        };
        let variants: Vec<Option<String>> = if self.variants.is_empty() {
            vec![None]
        } else {
            self.variants.iter().cloned().map(Some).collect()
        };
        let mut builds = Vec::new();
        for variant in &variants {
            for &compiler in &compilers {
                builds.extend(levels.iter().map(|&level| Build {
                    compiler,
                    level,
                    variant: variant.clone(),
                }));
            }
        }
        builds
    }
}

fn named<T: Copy>(
    words: &[String],
    all: &[T],
    name: impl Fn(T) -> &'static str,
) -> std::result::Result<Vec<T>, String> {
    words
        .iter()
        .map(|word| {
            let found = all.iter().copied().find(|&one| name(one) == word);
            found.ok_or_else(|| format!("{word:?} is not known here"))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Program> {
        Program::parse(Path::new("/corpus/missing-flush/twice.c"), text)
    }

    fn complaint(text: &str) -> String {
        parse(text).expect_err("the text is wrong").to_string()
    }

    #[test]
    fn a_program_without_directives_is_built_in_four_ways() {
        let program = parse("/* Purpose. */\nint main(void) { return 0; }\n").unwrap();
        let builds: Vec<String> = program.builds.iter().map(ToString::to_string).collect();
        assert_eq!(builds, ["gcc-O0", "gcc-O2", "clang-O0", "clang-O2"]);
        assert_eq!(program.name, "missing-flush/twice.c");
        assert_eq!(program.args, ["{dir}/pool"]);
    }

    #[test]
    fn directives_say_how_it_is_built_and_run() {
        let program = parse(
            "/* Purpose,\n * at length. */\n// variants: clwb nt\n// compilers: clang\n// levels: O3\n\
             // build: -lpmem -pthread\n// args: {dir}/a 3\n// env: A=1=2\n// check: --pm {dir}/a\n\n#include <x>\n",
        )
        .unwrap();
        let builds: Vec<String> = program.builds.iter().map(ToString::to_string).collect();
        assert_eq!(builds, ["clang-O3-clwb", "clang-O3-nt"]);
        assert_eq!(program.flags, ["-lpmem", "-pthread"]);
        assert_eq!(program.args, ["{dir}/a", "3"]);
        assert_eq!(program.env, [("A".to_owned(), "1=2".to_owned())]);
        assert_eq!(program.options, ["--pm", "{dir}/a"]);
    }

    #[test]
    fn a_recovery_is_a_command_as_it_is_written() {
        let program = parse(
            "/* P. */\n// recover: {program}  serve | cat\n// client: {program} 'a b'\nint x;\n",
        )
        .unwrap();
        assert_eq!(program.recover.as_deref(), Some("{program}  serve | cat"));
        assert_eq!(program.client.as_deref(), Some("{program} 'a b'"));
    }

    #[test]
    fn rust_has_one_compiler() {
        let source = Path::new("/corpus/clean/a.rs");
        let program =
            Program::parse(source, "//! Purpose.\n// levels: O2\nfn main() {}\n").unwrap();
        assert_eq!(program.builds.len(), 1);
        assert_eq!(program.builds[0].to_string(), "rustc-O2");
    }

    #[test]
    fn directives_end_where_code_begins() {
        let program = parse("/* P. */\nint x;\n// levels: O3\nint y;\n").unwrap();
        assert_eq!(program.builds.len(), 4);
    }

    #[test]
    fn slips_are_told_with_their_line() {
        assert!(
            complaint("/* P. */\n// flags: -g\nint x;\n")
                .contains("twice.c:2: there is no directive `flags`")
        );
        assert!(complaint("/* P. */\n// just prose\nint x;\n").contains(":2:"));
        assert!(complaint("/* P. */\n// levels: O9\nint x;\n").contains("O9"));
        assert!(complaint("/* P. */\n// variants: a-b\nint x;\n").contains("a-b"));
        assert!(complaint("/* P. */\n// build:\nint x;\n").contains("says nothing"));
        assert!(complaint("/* P. */\n// client: a\nint x;\n").contains("needs `recover`"));
        assert!(complaint("/* P. */\n// env: A\nint x;\n").contains("NAME=VALUE"));
        assert!(complaint("/* P. */\nint x; // expect[clwb]: a\n").contains("twice.c:2: no build"));
        assert!(complaint("/* P. */\nint x; // expect: A\n").contains("twice.c:2:"));
    }

    #[test]
    fn only_sources_are_programs() {
        let result = Program::parse(Path::new("/corpus/notes.md"), "");
        assert!(matches!(result, Err(Error::Language { .. })));
    }
}
