//! Functions as users name them: by symbol, or by a source line in the function.

use std::path::Path;

use brownout_symbols::Symbolizer;

use crate::failure::Failure;

/// The symbol of the function that `name` names in `program`.
pub fn symbol(option: &'static str, name: &str, program: &Path) -> Result<String, Failure> {
    let Some((file, line)) = source_line(name) else {
        return Ok(name.to_owned());
    };
    let mut symbolizer = Symbolizer::new();
    let module = symbolizer.add_module(program, None);
    let found = symbolizer.function_at_line(module, Path::new(file), line);
    found.ok_or_else(|| Failure::NoFunctionAtLine {
        option,
        name: name.to_owned(),
        program: program.to_owned(),
    })
}

/// Parses `FILE:LINE`. A C++ name may contain colons, but does not end with a colon and a number.
fn source_line(name: &str) -> Option<(&str, u32)> {
    let (file, line) = name.rsplit_once(':')?;
    let line = line.parse().ok()?;
    (!file.is_empty() && !file.ends_with(':')).then_some((file, line))
}

/// The file that a shell would run for `command`; the command itself if there is none.
pub fn program_file(command: &Path) -> std::path::PathBuf {
    if command.components().count() > 1 {
        return command.to_owned();
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut candidates = std::env::split_paths(&path).map(|directory| directory.join(command));
    candidates
        .find(|candidate| candidate.is_file())
        .unwrap_or_else(|| command.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn source_lines_are_distinguished_from_names() {
        assert_eq!(source_line("src/kv.c:120"), Some(("src/kv.c", 120)));
        assert_eq!(source_line("kv_put"), None);
        assert_eq!(source_line("kv::put"), None);
        assert_eq!(source_line("kv::5"), None);
        assert_eq!(source_line(":5"), None);
    }
}
