//! One file per output format.

mod baseline_file;
mod change_lines;
mod github;
mod html;
mod human;
mod json_lines;
mod junit;
mod sarif;

use std::io;

use crate::Report;

pub use baseline_file::BaselineFile;
pub use change_lines::ChangeLines;
pub use github::Github;
pub use html::Html;
pub use human::Human;
pub use json_lines::{
    JsonLines, ParseError, SuppressedLines, parse_json_lines, parse_suppressed_lines,
};
pub use junit::Junit;
pub use sarif::Sarif;

/// An output format.
pub trait Format {
    fn write(&self, report: &Report, out: &mut dyn io::Write) -> io::Result<()>;

    /// The report as text.
    fn to_text(&self, report: &Report) -> String {
        let mut bytes = Vec::new();
        self.write(report, &mut bytes)
            .expect("writing to memory cannot fail");
        String::from_utf8_lossy(&bytes).into_owned()
    }
}
