//! Stores that one missing flush leaves behind.
//!
//! A store that is not persistent in time shows in several ways: it is never flushed, or too late, or a pointer to it is persistent
//! before, or it is overwritten before, or recovery reads it. The same line can do all of this in one run, and a function that fills an
//! object does it in each of its lines. Findings about such stores are one
//!
//! - if they name a store at the same line;
//! - if their stores were made by one call in one thread, without a fence in between, to the same cache line or to bytes that touch. One
//!   flush before the next fence would have persisted both. One call means that the function of one store is that of the other, or has
//!   called it, as a constructor calls those of its parts.
//!
//! Two functions that each forget a flush stay two findings, and so do two objects, two threads, and two calls with a fence in
//! between.
//!
//! Only the first occurrence of each finding is looked at. Can miss: lines of one object whose first
//! occurrences are in different calls; stores more than 255 events after the last fence and as far apart.

use std::collections::HashMap;

use super::Causes;
use super::one_call::is_one_call;
use crate::code_location::FrameLocation;
use crate::{ByteRange, Finding, Stack};

/// The size of a cache line.
const LINE: u64 = 64;

/// A store that a finding names.
struct UnpersistedStore<'a> {
    finding: usize,
    stack: &'a Stack,
    ranges: &'a [ByteRange],
    event: u64,
    thread: u32,
    /// Its thread executed no fence between this event and the store.
    unfenced_since: u64,
}

/// Unites the findings that one missing flush explains.
pub(super) fn unite(findings: &[Finding], causes: &mut Causes) {
    let mut by_location: HashMap<FrameLocation<'_>, usize> = HashMap::new();
    let mut stores: Vec<UnpersistedStore<'_>> = Vec::new();
    let findings = findings.iter().enumerate();
    for (number, finding) in findings.filter(|(_, one)| one.mistake.is_unpersisted_store()) {
        for stack in finding.stacks.iter().filter(|stack| is_store(stack)) {
            if let Some(location) = FrameLocation::of_stack(stack) {
                let first = *by_location.entry(location).or_insert(number);
                causes.unite(first, number);
            }
        }
        stores.extend(stores_of(number, finding));
    }
    stores.sort_by_key(|store| store.event);
    // For each thread, the stores after which it has not fenced yet.
    let mut open: HashMap<u32, Vec<&UnpersistedStore<'_>>> = HashMap::new();
    for store in &stores {
        let open = open.entry(store.thread).or_default();
        open.retain(|earlier| earlier.event >= store.unfenced_since);
        let same = open.iter().filter(|earlier| earlier.shares_flush(store));
        same.for_each(|earlier| causes.unite(earlier.finding, store.finding));
        open.push(store);
    }
}

/// The stores of a finding, as far as it is known which threads made them and when these had fenced.
fn stores_of(number: usize, finding: &Finding) -> impl Iterator<Item = UnpersistedStore<'_>> {
    let evidence = &finding.evidence;
    let stacks = finding.stacks.iter().zip(&evidence.events);
    let stores = stacks.filter(|(stack, _)| is_store(stack));
    let fences = evidence.unfenced_since.iter().zip(&evidence.store_threads);
    let stores = stores.zip(fences);
    stores.map(
        move |((stack, &event), (&unfenced_since, &thread))| UnpersistedStore {
            finding: number,
            stack,
            ranges: &evidence.ranges,
            event,
            thread,
            unfenced_since,
        },
    )
}

fn is_store(stack: &Stack) -> bool {
    stack.role == "store"
}

impl UnpersistedStore<'_> {
    /// Whether one flush persists this store and `later`, before which its thread has not fenced.
    fn shares_flush(&self, later: &Self) -> bool {
        let near = |one: &ByteRange| later.ranges.iter().any(|other| are_near(one, other));
        self.ranges.iter().any(near) && is_one_call(self.stack, later.stack)
    }
}

/// Whether bytes of two ranges are in one cache line, or touch.
fn are_near(one: &ByteRange, other: &ByteRange) -> bool {
    let end = |range: &ByteRange| range.offset.saturating_add(range.len);
    let last_line = |range: &ByteRange| end(range).saturating_sub(1) / LINE;
    let (first, second) = match one.offset <= other.offset {
        true => (one, other),
        false => (other, one),
    };
    one.file == other.file
        && (second.offset / LINE <= last_line(first) || second.offset <= end(first))
}
