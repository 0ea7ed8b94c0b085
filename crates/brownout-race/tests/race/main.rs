//! The specification of the search for races: runs that it reports, and similar runs that it does not report.

mod brute_force;
mod forced;
mod growth;
mod harm;
mod initialisation;
mod locksets;
mod order;
mod target_run;
