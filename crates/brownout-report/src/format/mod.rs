//! One file an output format.

mod github;
mod html;
mod human;
mod json_lines;
mod junit;
mod sarif;

use std::io;

use crate::Report;

pub use github::Github;
pub use html::Html;
pub use human::Human;
pub use json_lines::{
    JsonLines, ParseError, SuppressedLines, parse_json_lines, parse_suppressed_lines,
};
pub use junit::Junit;
pub use sarif::Sarif;

/// A way to write a report down.
pub trait Format {
    fn write(&self, report: &Report, out: &mut dyn io::Write) -> io::Result<()>;

    /// The whole as text, for formats that are.
    fn to_text(&self, report: &Report) -> String {
        let mut bytes = Vec::new();
        self.write(report, &mut bytes)
            .expect("memory can be written to");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
