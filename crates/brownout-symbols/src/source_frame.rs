//! One frame of a symbolised stack.

use std::fmt;
use std::path::{Path, PathBuf};

/// A function and a location in its source.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SourceFrame {
    /// The demangled name.
    pub function: Option<String>,
    /// Offset of the address in `function`; only if the name comes from a symbol table and the line is
    /// unknown.
    pub function_offset: Option<u64>,
    pub file: Option<PathBuf>,
    pub line: Option<u32>,
    pub column: Option<u32>,
    /// The path of the program or library.
    pub module: PathBuf,
    /// The address in the module, as `addr2line` and `objdump` take it; the file offset if the module
    /// could not be read.
    pub offset: u64,
    /// Whether the function was inlined into that of the next frame.
    pub inlined: bool,
}

impl SourceFrame {
    /// A frame with only module and offset.
    pub fn bare(module: &Path, offset: u64) -> Self {
        Self {
            function: None,
            function_offset: None,
            file: None,
            line: None,
            column: None,
            module: module.to_owned(),
            offset,
            inlined: false,
        }
    }

    /// `file:line`, or `file:line:column` if the column is known.
    pub fn source(&self) -> Option<String> {
        let file = self.file.as_ref()?.display();
        let line = self.line?;
        Some(match self.column {
            Some(column) => format!("{file}:{line}:{column}"),
            None => format!("{file}:{line}"),
        })
    }
}

/// `function at file:line`, or `function+0x12 (module)`, or `module+0x1234`.
impl fmt::Display for SourceFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let module = self.module.display();
        match (&self.function, self.source()) {
            (Some(function), Some(source)) => write!(f, "{function} at {source}"),
            (Some(function), None) => {
                write!(f, "{function}")?;
                if let Some(offset) = self.function_offset {
                    write!(f, "+{offset:#x}")?;
                }
                write!(f, " ({module})")
            }
            (None, Some(source)) => write!(f, "{source}"),
            (None, None) => write!(f, "{module}+{:#x}", self.offset),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_shows_the_most_precise_location() {
        let mut frame = SourceFrame::bare(Path::new("/lib/x.so"), 0x1234);
        assert_eq!(frame.to_string(), "/lib/x.so+0x1234");
        frame.function = Some("f".into());
        frame.function_offset = Some(0x10);
        assert_eq!(frame.to_string(), "f+0x10 (/lib/x.so)");
        frame.file = Some("x.c".into());
        frame.line = Some(7);
        assert_eq!(frame.to_string(), "f at x.c:7");
        frame.column = Some(3);
        assert_eq!(frame.to_string(), "f at x.c:7:3");
    }
}
