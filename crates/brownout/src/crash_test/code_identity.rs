//! What identifies the code of a calling context in other builds, as long as it does not change: functions and the text of source lines.
//!
//! Line numbers and addresses change when other code does, so they do not count. Where the source cannot be read, or is newer than the
//! program, the content of the whole program counts. Code of libraries does not count, unless there is no other.

use std::fs;
use std::path::Path;

use brownout_report::{Frame, Sources};
use rustc_hash::FxHashMap;
use xxhash_rust::xxh3::xxh3_128;

/// Identifies the code of stacks.
pub struct CodeIdentity {
    sources: Sources,
    /// By path.
    modules: FxHashMap<String, String>,
    /// Whether a source file, the first path, is as old as the program, the second.
    built_from: FxHashMap<(String, String), bool>,
}

impl Default for CodeIdentity {
    fn default() -> Self {
        Self {
            sources: Sources::on_disk(),
            modules: FxHashMap::default(),
            built_from: FxHashMap::default(),
        }
    }
}

impl CodeIdentity {
    /// The code of a stack, innermost frame first.
    pub fn of(&mut self, stack: &[Frame]) -> String {
        let has_own = stack.iter().any(|frame| !frame.is_library());
        let frames = stack
            .iter()
            .filter(|frame| !(has_own && frame.is_library()));
        let lines: Vec<String> = frames.map(|frame| self.of_frame(frame)).collect();
        lines.join("\n")
    }

    fn of_frame(&mut self, frame: &Frame) -> String {
        let function = frame.function.as_deref().unwrap_or_default();
        let file = frame.file.as_deref().unwrap_or_default();
        match self.sources.line_identity(frame) {
            Some(text) if self.is_built_from(file, &frame.module) => {
                // Where the sources are differs from machine to machine.
                format!("{function} {}: {text}", file_name(file))
            }
            _ => {
                let module = self.modules.entry(frame.module.clone());
                let content = module.or_insert_with(|| digest(Path::new(&frame.module)));
                format!("{content} {:#x}", frame.offset)
            }
        }
    }

    fn is_built_from(&mut self, source: &str, module: &str) -> bool {
        let key = (source.to_owned(), module.to_owned());
        *self.built_from.entry(key).or_insert_with(|| {
            let changed = |path: &str| fs::metadata(path).and_then(|found| found.modified());
            matches!((changed(source), changed(module)), (Ok(source), Ok(module)) if source <= module)
        })
    }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Of the content of a program; of a path where there is none to read.
fn digest(program: &Path) -> String {
    match fs::read(program) {
        Ok(content) => format!("{:032x}", xxh3_128(&content)),
        Err(_) => program.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, SystemTime};

    const STORE: &str = "  e->key = key;\n";

    /// The identity of a store on `line` of a source with this text; the program is `younger` than the source.
    fn code(text: &str, line: u32, younger: i64) -> String {
        let root = tempfile::tempdir().unwrap();
        let path = |name: &str| root.path().join(name).to_str().unwrap().to_owned();
        fs::write(path("map.c"), text).unwrap();
        fs::write(path("map"), "ELF").unwrap();
        let now = SystemTime::now();
        let seconds = Duration::from_secs(younger.unsigned_abs());
        let built = match younger < 0 {
            true => now - seconds,
            false => now + seconds,
        };
        let program = fs::File::options().write(true).open(path("map")).unwrap();
        program.set_modified(built).unwrap();
        let frame = Frame {
            function: Some("insert".to_owned()),
            file: Some(path("map.c")),
            line: Some(line),
            module: path("map"),
            offset: u64::from(line),
            ..Frame::default()
        };
        CodeIdentity::default().of(&[frame])
    }

    #[test]
    fn a_line_that_moves_is_the_same_and_one_that_changes_is_not() {
        let moved = format!("\n\n{STORE}");
        assert_eq!(code(STORE, 1, 1), code(&moved, 3, 1));
        assert_ne!(code(STORE, 1, 1), code("  e->key = 0;\n", 1, 1));
    }

    #[test]
    fn a_source_that_is_newer_than_the_program_does_not_count() {
        assert_ne!(code(STORE, 1, 1), code(STORE, 1, -60));
        // The program is the same, but not the address.
        assert_ne!(code(STORE, 1, -60), code(&format!("\n{STORE}"), 2, -60));
        assert_eq!(code(STORE, 1, -60), code("something else\n", 1, -60));
    }
}
