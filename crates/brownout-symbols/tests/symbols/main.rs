//! Tests of the symbolizer with programs that the tests compile.

mod callees;
mod compile;
mod source_lines;
mod stores;
mod types;
mod unusable_files;
