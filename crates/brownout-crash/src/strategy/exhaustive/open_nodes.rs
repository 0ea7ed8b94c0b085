//! Reads of recovery that can see several stores, among all that was explored.
//!
//! For each place that recovery gets to, and for each state of the unit that it reads there, the latest crash time is looked at: a store
//! that can be lost then is the most overdue. Only crashes of the target are looked at, not those inside recoveries.

use std::collections::BTreeSet;

use brownout_model::{PmAddress, PossibleMemory, ReadSource};
use brownout_recovery::FirstRead;

use super::behaviours::{Next, NodeId, Read, ValueId};
use super::explorer::Explorer;
use super::situations::narrow;
use super::versions::Version;
use crate::effect::address;
use crate::possible_reads::PathDigest;

/// A read that can see several stores, after a crash at one time.
pub struct OpenNode {
    /// The number of the crash time.
    pub time: u32,
    /// How many reads lead there, and which they are.
    pub number: usize,
    pub path: PathDigest,
    pub read: FirstRead,
    pub at: PmAddress,
    pub sources: BTreeSet<ReadSource>,
    /// What the crash can have left if the read sees the oldest of its sources.
    pub memory: PossibleMemory,
}

impl Explorer {
    /// The reads that can see several stores.
    pub fn open_nodes(&mut self) -> Vec<OpenNode> {
        let nodes: Vec<NodeId> = self.behaviours.nodes().collect();
        let mut found = Vec::new();
        for node in nodes {
            if let Next::Read(read) = self.behaviours.next(node)
                && let Some(times) = self.behaviours.choice_times(node).cloned()
            {
                let unit = self.versions.unit_of(read);
                let versions = self.versions.of_target(unit, &self.behaviours);
                for (of_version, version) in versions {
                    let last = times.parts(of_version).last();
                    let last = last.filter(|_| version.is_open);
                    let time = last.map(|part| part.end - 1);
                    found.extend(time.and_then(|time| self.open_node(node, read, version, time)));
                }
            }
        }
        found
    }

    fn open_node(
        &mut self,
        node: NodeId,
        read: Read,
        version: Version,
        time: u32,
    ) -> Option<OpenNode> {
        let at = address(version.holder, read.offset);
        let path = self.behaviours.path(node);
        let unit = self.versions.unit_of(read);
        // Units are independent of each other.
        let mut of_unit = self.situations().memory(time, None, &self.behaviours);
        for &(earlier, value) in &path {
            if self.versions.unit_of(earlier) == unit {
                let at = address(version.holder, earlier.offset);
                narrow(&mut of_unit, at, self.behaviours.bytes(value));
            }
        }
        let len = u64::from(read.len);
        let oldest = of_unit.may_read(at, len).iter().last()?;
        let sources = of_unit.sources(at, len);
        let mut memory = self.memory_at(node, time);
        memory.choose(&oldest);
        Some(OpenNode {
            time,
            number: path.len(),
            path: self.digest(&path),
            read: first_read(read),
            at,
            sources,
            memory,
        })
    }

    fn digest(&self, path: &[(Read, ValueId)]) -> PathDigest {
        let none = PathDigest::default();
        path.iter().fold(none, |digest, &(read, value)| {
            digest.with(first_read(read), self.behaviours.bytes(value))
        })
    }
}

fn first_read(read: Read) -> FirstRead {
    FirstRead {
        file: read.file as usize,
        offset: read.offset,
        len: read.len.into(),
    }
}
