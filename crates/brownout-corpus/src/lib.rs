//! A corpus: small programs with the findings they must yield written on the offending lines.
//!
//! ```c
//! /* The count is stored again and nothing flushes it. */
//! // variants: clwb clflushopt clflush
//! #include "../pm.h"
//!
//! int main(int argc, char **argv) {
//!   struct line *pm = pool(argc, argv);
//!   STORE(pm[0].word[0], 1);
//!   PERSIST(pm[0]);
//!   STORE(pm[0].word[0], 2); // expect: missing-flush
//!   return 0;
//! }
//! ```
//!
//! Matching is two-way: a finding without an annotation fails, and so does an annotation without a
//! finding. A finding belongs to the line of the first frame, in its first stack, that lies in the program's
//! own source file, so that a finding inside `pmem_persist` is expected where the program calls it. A
//! program without annotations must yield nothing.
//!
//! The pieces, in the order in which they are used:
//!
//! | | |
//! |---|---|
//! | [`Program`] | a source file with its [directives](program) and [annotations](annotation) |
//! | [`Build`] | one way to build it: compiler, optimisation, variant |
//! | [`Harness`] | where programs are built and run, natively and under `brownout check` |
//! | [`matching`] | findings against annotations |
//!
//! To test brownout with other programs, put them in a folder and call [`discover`], or name the folder with
//! `cargo xtask corpus --dir`. This crate uses only brownout's command line and its JSON lines, so the corpus stays
//! independent of the code that it tests.

#![forbid(unsafe_code)]

pub mod annotation;
mod build;
mod compile;
mod error;
mod finding;
mod harness;
pub mod matching;
mod mismatch;
pub mod program;
mod run;

pub use build::{Build, BuildScope, Compiler, Level};
pub use error::{Error, Result};
pub use finding::{ReportedFinding, ReportedSeverity, read_findings};
pub use harness::{Built, CorpusOutcome, Harness};
pub use matching::{line_of, lines_of};
pub use mismatch::Mismatch;
pub use program::{Language, Program, discover};
