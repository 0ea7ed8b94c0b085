//! The symbolizer on programs that the tests compile.

mod compile;
mod source_lines;
mod unusable_files;
