//! What the rest of brownout does with the findings of a rule: with which others they are joined, whether crash testing tries them, and
//! how they are repaired.
//!
//! This is part of the description of a rule, so that a new rule needs no change elsewhere.

/// How findings of a rule are treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RulePolicy {
    pub mistake: Mistake,
    /// What crash images lose to try a finding; `None` if they cannot show it.
    pub tried: Option<TriedLoss>,
    /// Whether a finding is left out if a pointer announced its store too early: the pointer is the mistake.
    pub is_implied_by_pointer: bool,
    pub repair: RuleRepair,
}

impl RulePolicy {
    /// For a rule whose findings stand for themselves, are not tried and have no repair.
    pub const NONE: Self = Self {
        mistake: Mistake::Other,
        tried: None,
        is_implied_by_pointer: false,
        repair: RuleRepair::None,
    };
}

/// What a rule reports, as far as findings are joined with others or explain them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mistake {
    /// A store that is not persistent in time. Of several rules about it, the one with the smallest number names the mistake best.
    UnpersistedStore { clarity: u8 },
    /// The same, if the first stack is that of a pointer to what was stored.
    UnpersistedTarget { clarity: u8 },
    /// A flush or non-temporal store that no fence follows.
    MissingFence,
    /// A flush or non-temporal store that is ordered by accident.
    AccidentalFence,
    /// An order that is open. It names no store that is a mistake.
    OpenOrder,
    #[default]
    Other,
}

impl Mistake {
    /// Whether it is a store that is not persistent in time.
    pub(crate) fn is_unpersisted_store(self) -> bool {
        self.clarity() < u8::MAX
    }

    /// How well it names the mistake; smaller is clearer.
    pub(crate) fn clarity(self) -> u8 {
        match self {
            Self::UnpersistedStore { clarity } | Self::UnpersistedTarget { clarity } => clarity,
            _ => u8::MAX,
        }
    }

    /// Whether it explains a failed recovery only if its store is missing.
    pub(crate) fn explains_missing_only(self) -> bool {
        self.is_unpersisted_store() || matches!(self, Self::MissingFence | Self::AccidentalFence)
    }
}

/// What crash images lose to try a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TriedLoss {
    /// The stores of the finding. `forever`: they are never durable.
    Stores { forever: bool },
    /// Some of what one fence orders.
    SomeOfFence,
}

/// How `brownout fix` repairs the findings of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleRepair {
    /// A flush after the store, with a fence if that is needed.
    Flush,
    /// The same, if the user names the finding or the rule. Otherwise this is why not.
    FlushOnRequest(&'static str),
    /// The same, but always with a fence if crash testing has confirmed the finding.
    FlushBeforeLaterStore,
    /// A flush and a fence after the store.
    FlushAndFence,
    /// Flushes after the stores into the target of a pointer, and a fence after the last one.
    FlushTarget,
    /// A fence after the flush. `is_locked`: now, a locked instruction orders it.
    Fence {
        is_locked: bool,
    },
    /// An entry in the log of the transaction.
    LogEntry,
    /// The statement is removed if the user asks for that. Findings with smaller ranks are tried first.
    Removal {
        rank: u8,
        of_log_entry: bool,
    },
    /// Only the author can repair it. This is why.
    ByHand(&'static str),
    None,
}

impl RuleRepair {
    /// Whether findings are repaired without being named.
    pub fn is_automatic(self) -> bool {
        match self {
            Self::Flush
            | Self::FlushBeforeLaterStore
            | Self::FlushAndFence
            | Self::FlushTarget
            | Self::Fence { .. }
            | Self::LogEntry => true,
            Self::FlushOnRequest(_) | Self::Removal { .. } | Self::ByHand(_) | Self::None => false,
        }
    }

    /// Whether findings are repaired if they are named.
    pub fn is_on_request(self) -> bool {
        matches!(self, Self::FlushOnRequest(_))
    }
}
