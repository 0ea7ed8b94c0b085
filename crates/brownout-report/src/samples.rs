//! Sample findings for the unit tests.

use crate::{
    ByteRange, Category, Evidence, Finding, Frame, Mistake, RuleInfo, RulePolicy, Severity, Stack,
    Value,
};

/// The policy of a rule about stores that are not persistent in time.
const fn unpersisted(clarity: u8) -> RulePolicy {
    of_mistake(Mistake::UnpersistedStore { clarity })
}

/// The policy of a rule that reports this.
pub(crate) const fn of_mistake(mistake: Mistake) -> RulePolicy {
    RulePolicy {
        mistake,
        ..RulePolicy::NONE
    }
}

pub(crate) const FLUSH_RULE: RuleInfo = RuleInfo {
    id: "missing-flush",
    severity: Severity::Bug,
    category: Category::Durability,
    pedantic: false,
    policy: unpersisted(0),
    summary: "a store that is never flushed",
    explanation: "## What it does\n\nFinds stores that are never flushed.\n",
};

pub(crate) const FENCE_RULE: RuleInfo = RuleInfo {
    id: "redundant-fence",
    severity: Severity::Performance,
    category: Category::Performance,
    pedantic: false,
    policy: RulePolicy::NONE,
    summary: "a fence with nothing to order",
    explanation: "## What it does\n\nFinds fences that order nothing.\n",
};

pub(crate) const WARNING_RULE: RuleInfo = RuleInfo {
    id: "transient-data",
    severity: Severity::Warning,
    category: Category::Durability,
    pedantic: false,
    policy: unpersisted(2),
    summary: "a store to what is never flushed",
    explanation: "## What it does\n\nFinds stores to data that is never flushed.\n",
};

pub(crate) const FAILED_RULE: RuleInfo = RuleInfo {
    id: "recovery-failed",
    severity: Severity::Bug,
    category: Category::Atomicity,
    pedantic: false,
    policy: RulePolicy::NONE,
    summary: "recovery fails",
    explanation: "",
};

pub(crate) fn frame(function: &str, file: &str, line: u32) -> Frame {
    Frame {
        function: Some(function.into()),
        file: Some(file.into()),
        line: Some(line),
        column: None,
        module: "/home/u/kv/kv".into(),
        offset: 0x1149,
        inlined: false,
        recursive: false,
        wrapper: false,
    }
}

pub(crate) fn stack(role: &str, frames: Vec<Frame>) -> Stack {
    Stack {
        role: role.into(),
        frames,
    }
}

pub(crate) fn finding_at(rule: &RuleInfo, file: &str, line: u32) -> Finding {
    let frames = vec![frame("put", file, line), frame("main", file, 90)];
    let evidence = Evidence {
        ranges: vec![ByteRange {
            file: "/mnt/pmem/pool".into(),
            offset: 64,
            len: 8,
        }],
        values: vec![Value::new("stored", &[1, 0, 0, 0, 0, 0, 0, 0])],
        events: vec![12],
        ..Evidence::default()
    };
    Finding::new(
        rule,
        format!("{} here", rule.summary),
        vec![stack("store", frames)],
        evidence,
    )
}

/// A store in `put` at line 7 of `/home/u/kv/kv.c` that is never flushed.
pub(crate) fn finding() -> Finding {
    finding_at(&FLUSH_RULE, "/home/u/kv/kv.c", 7)
}
