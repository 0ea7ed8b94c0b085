//! The specification of the rules: for each, runs it reports and similar runs it does not report.

mod durability;
mod fences;
mod files;
mod flushes;
mod hostile;
mod libraries;
mod locks;
mod oracles;
mod ordering;
mod pointers;
mod processes;
mod target_run;
mod transactions;
mod unchanged;
mod ways_to_observe;
