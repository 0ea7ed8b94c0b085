//! Compiles the programs of the corpus.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::SystemTime;

use crate::build::{Build, Compiler, Level};
use crate::error::{Error, Result};
use crate::harness::{Built, LIMIT};
use crate::program::Language;
use crate::run::run;

/// Newer than its source and than what all programs share: the files in the folder above the program's.
pub(crate) fn is_up_to_date(path: &Path, source: &Path) -> bool {
    let time = |path: &Path| -> Option<SystemTime> { fs::metadata(path).ok()?.modified().ok() };
    let shared = source
        .ancestors()
        .nth(2)
        .and_then(|dir| fs::read_dir(dir).ok());
    let newest = shared
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .chain([source.to_owned()])
        .filter_map(|path| time(&path))
        .max();
    time(path)
        .zip(newest)
        .is_some_and(|(built, newest)| built > newest)
}

pub(crate) fn compile(built: &Built, defines: &[String]) -> Result<()> {
    // Under another name until it is complete: a compiler that is stopped leaves a piece.
    let unfinished = built.path.with_extension("unfinished");
    let mut command = compiler(built.program.language, built.build);
    for define in defines {
        if built.build.compiler == Compiler::Rustc {
            command.arg("--cfg").arg(define.to_lowercase());
        } else {
            command.arg(format!("-D{define}"));
        }
    }
    command
        .arg(&built.program.source)
        .args(&built.program.flags)
        .arg("-o")
        .arg(&unfinished);
    let ended = run(&mut command, &built.path.with_extension("log"), LIMIT)?;
    if ended.code() != Some(0) {
        return Err(Error::Compile {
            command: format!("{command:?}"),
            output: ended.output,
        });
    }
    fs::rename(&unfinished, &built.path).map_err(Error::io(&unfinished))
}

/// The compiler with what it needs for `build`. Warnings are errors: a corpus shows mistakes with persistent
/// memory, not others.
fn compiler(language: Language, build: &Build) -> Command {
    let mut command = Command::new(match (build.compiler, language) {
        (Compiler::Rustc, _) => "rustc",
        (Compiler::Gcc, Language::Cpp) => "g++",
        (Compiler::Gcc, _) => "gcc",
        (Compiler::Clang, Language::Cpp) => "clang++",
        (Compiler::Clang, _) => "clang",
    });
    if build.compiler == Compiler::Rustc {
        let level = match build.level {
            Level::O0 => "opt-level=0",
            Level::O1 => "opt-level=1",
            Level::O2 => "opt-level=2",
            Level::O3 => "opt-level=3",
        };
        command.args(["--edition=2024", "-g", "-D", "warnings", "-C", level]);
        if let Some(variant) = &build.variant {
            command.arg("--cfg").arg(format!("variant={variant:?}"));
        }
        return command;
    }
    command
        .args([
            "-g",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-parameter",
            "-D_GNU_SOURCE",
        ])
        .arg(format!("-{}", build.level.tag()));
    if let Some(variant) = &build.variant {
        command.arg(format!("-DVARIANT_{variant}"));
    }
    command
}
