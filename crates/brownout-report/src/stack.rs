//! Symbolised stacks.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Roles of the stacks of findings of crash testing and of races.
pub mod role {
    /// The store that a finding is about.
    pub const STORE: &str = "store";
    /// Where a store becomes durable.
    pub const PERSIST: &str = "persist";
    /// Where another store takes its place before.
    pub const OVERWRITE: &str = "overwrite";
    /// A store of a thread that depends on what it has read.
    pub const DEPENDENT_STORE: &str = "dependent store";
    pub const FAILURE_POINT: &str = "failure point";
    /// Where power is lost inside recovery, after it was lost at a failure point.
    pub const INTERRUPTED_RECOVERY: &str = "interrupted recovery";
    pub const RECOVERY: &str = "recovery";
    /// Where the target was when it was killed.
    pub const FAILURE: &str = "failure";
    /// A store that recovery cannot handle without those that are missing.
    pub const STORE_PRESENT: &str = "store that is there";
    /// A store without which recovery does not pass.
    pub const STORE_MISSING: &str = "store that is missing";
    /// A load of recovery that can see several stores, or of a thread that can see what a crash can lose.
    pub const LOAD: &str = "load";
    /// The store whose bytes such a load has read.
    pub const STORE_READ: &str = "store that was read";
    /// A store whose bytes it can read instead.
    pub const STORE_NOT_READ: &str = "store that was not read";
    /// A flush of such a store that no fence follows.
    pub const UNFENCED_FLUSH: &str = "flush without a fence";
}

/// A calling context that belongs to a finding.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stack {
    /// What happened there: `store`, `flush`, `fence` and so on, depending on the rule.
    pub role: String,
    /// Innermost first.
    pub frames: Vec<Frame>,
}

/// One frame of a stack. Paths that are not valid Unicode contain replacement characters, because JSON cannot
/// represent them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Frame {
    pub function: Option<String>,
    pub file: Option<String>,
    pub line: Option<u32>,
    pub column: Option<u32>,
    /// The path of the program or library; a name in brackets if it is not a file.
    pub module: String,
    /// The address in the module, as `addr2line` and `objdump` take it.
    pub offset: u64,
    /// Whether the function was inlined into that of the next frame.
    pub inlined: bool,
    /// Whether the function only flushes, fences, copies or syncs for its callers.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub wrapper: bool,
    /// Whether recursive calls that lead back to this call are folded, so that the stack stands for all depths of recursion.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub recursive: bool,
}

impl Stack {
    /// Whether it belongs to a store that was found to cause a crash finding.
    pub(crate) fn is_of_cause(&self) -> bool {
        matches!(
            self.role.as_str(),
            role::STORE_PRESENT | role::STORE_MISSING
        )
    }

    /// Whether it shows what recovery can read: it explains a crash finding, and does not identify it.
    pub(crate) fn is_of_open_read(&self) -> bool {
        self.role == role::LOAD || self.is_of_source()
    }

    /// Whether it belongs to what recovery can read.
    pub(crate) fn is_of_source(&self) -> bool {
        matches!(
            self.role.as_str(),
            role::STORE_READ | role::STORE_NOT_READ | role::UNFENCED_FLUSH
        )
    }
}

impl Frame {
    /// `file:line`, or `file:line:column` if the column is known.
    pub fn source(&self) -> Option<String> {
        let file = self.file.as_ref()?;
        let line = self.line?;
        Some(match self.column {
            Some(column) => format!("{file}:{line}:{column}"),
            None => format!("{file}:{line}"),
        })
    }

    /// What a list of frames adds to the location.
    pub fn remark(&self) -> &'static str {
        match (self.inlined, self.recursive) {
            (true, _) => " (inlined)",
            (false, true) => " … recursion",
            (false, false) => "",
        }
    }

    /// The last component of the module's path.
    pub fn module_name(&self) -> &str {
        base_name(&self.module)
    }
}

/// `function at file:line`, or `function (module)`, or `module+0x1234`.
impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let module = &self.module;
        match (&self.function, self.source()) {
            (Some(function), Some(source)) => write!(f, "{function} at {source}"),
            (Some(function), None) => write!(f, "{function} ({module})"),
            (None, Some(source)) => write!(f, "{source}"),
            (None, None) => write!(f, "{module}+{:#x}", self.offset),
        }
    }
}

/// The last component of a path.
pub(crate) fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_shows_the_most_precise_location() {
        let mut frame = Frame {
            module: "/lib/x.so".into(),
            offset: 0x1234,
            ..Frame::default()
        };
        assert_eq!(frame.to_string(), "/lib/x.so+0x1234");
        frame.function = Some("f".into());
        assert_eq!(frame.to_string(), "f (/lib/x.so)");
        frame.file = Some("x.c".into());
        frame.line = Some(7);
        assert_eq!(frame.to_string(), "f at x.c:7");
        frame.column = Some(3);
        assert_eq!(frame.to_string(), "f at x.c:7:3");
    }
}
