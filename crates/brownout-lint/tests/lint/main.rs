//! The rules' specification: for each, runs in which it fires and twins in which it is silent.

mod durability;
mod fences;
mod files;
mod flushes;
mod hostile;
mod libraries;
mod oracles;
mod ordering;
mod processes;
mod target_run;
mod transactions;
mod ways_to_observe;
