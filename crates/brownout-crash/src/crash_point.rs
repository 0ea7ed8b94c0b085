//! A crash: the instant at which power is lost, and which stores have reached persistent memory by then.
//!
//! Without a choice a crash leaves every store before its event, in program order, as in Mumak §4.1. With a choice it
//! leaves one of the states of the persistency model (Jaaru, Figs. 9 and 10): each line holds its content after some of its
//! stores, independently of all other lines. If stores can be [torn](Tearing), a line may also have some words of a store.
//!
//! Recovery may crash, too (Jaaru §3): after the crash of the target, recovery runs until it is interrupted, and so on.

use std::fmt;

use brownout_model::{ByteMask, LINE, Profile, Tearing};
use serde::{Deserialize, Serialize};

/// A crash image, named by what leads to it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct CrashPoint {
    /// The crash is before this event.
    pub event: u64,
    /// Which stores before the event are present; `None` if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// The crashes of the recoveries after it, one after the other; none if recovery is not interrupted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub interruptions: Vec<Interruption>,
}

impl CrashPoint {
    /// A crash that leaves every store before `event`.
    pub fn program_order(event: u64) -> Self {
        Self::chosen(event, None)
    }

    /// A crash before `event` of the target alone.
    pub fn chosen(event: u64, choice: Option<Choice>) -> Self {
        Self {
            event,
            choice,
            interruptions: Vec::new(),
        }
    }

    /// Whether it leaves every store of the target before its event, and nothing else.
    pub fn is_in_program_order(&self) -> bool {
        self.choice.is_none() && self.interruptions.is_empty()
    }
}

/// A crash inside recovery.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Interruption {
    /// How many stores, flushes, fences and other actions on persistent memory recovery had completed.
    pub actions: u64,
    /// A digest of these actions, which shows whether another run has done the same.
    pub digest: u64,
    /// Which of its stores are present; `None` if all are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
}

/// The one profile of all choices among crash points; `None` if all are in program order.
pub fn common_profile<'a>(
    points: impl IntoIterator<Item = &'a CrashPoint>,
) -> Result<Option<Profile>, ImpossibleChoice> {
    let mut choices = points.into_iter().filter_map(|point| point.choice.as_ref());
    let Some(first) = choices.next() else {
        return Ok(None);
    };
    if let Some(other) = choices.find(|choice| choice.profile != first.profile) {
        return Err(ImpossibleChoice::OtherProfile {
            choice: other.profile.clone(),
            followed: first.profile.clone(),
        });
    }
    first.profile().map(Some)
}

/// One state of the persistency model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Choice {
    /// Name of the persistency profile that allows the state.
    pub profile: String,
    /// Whether the state may have some words of a store.
    #[serde(default, skip_serializing_if = "is_whole", with = "tearing_name")]
    pub tearing: Tearing,
    /// The state of all lines that are not listed.
    pub others: OtherLines,
    /// Ordered by file and line, each line once.
    pub lines: Vec<LineChoice>,
}

/// The state of the lines that a choice does not list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OtherLines {
    /// All their stores before the event are present.
    Newest,
    /// Only the stores are present that every crash leaves.
    Guaranteed,
}

/// The state of one line.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct LineChoice {
    /// Number of the persistent file, in the order in which the files were first mapped.
    pub file: usize,
    /// Offset of the line's first byte in the file.
    pub offset: u64,
    /// How many of the line's stores are present: the first so many of those before the event, counted from the start of
    /// the trace.
    pub stores: u64,
    /// Numbers of stores, from 0, for which the opposite holds. Only non-temporal stores are not ordered with the
    /// other stores to their line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub exceptions: Vec<u64>,
    /// Of the stores that are absent, those of which some words are present, ordered by number.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub torn: Vec<TornStore>,
}

/// A store of which some words of a line are present.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct TornStore {
    /// Number of the store among those to the line, from 0.
    pub store: u64,
    /// The aligned 8-byte words of the line that are present: bit *n* represents word *n*.
    pub words: u8,
}

impl LineChoice {
    /// The state of a line of whose first `total` stores these are absent, each given once; some words of those that are `torn` are
    /// present.
    pub fn without(
        (file, offset): (usize, u64),
        total: u64,
        mut absent: Vec<u64>,
        torn: Vec<TornStore>,
    ) -> Self {
        absent.sort_unstable();
        let mut stores = total;
        while absent.pop_if(|last| *last + 1 == stores).is_some() {
            stores -= 1;
        }
        Self {
            file,
            offset,
            stores,
            exceptions: absent,
            torn,
        }
    }

    /// Whether the line's store with this number, from 0, is present as a whole.
    pub fn has(&self, number: u64) -> bool {
        (number < self.stores) != self.exceptions.contains(&number)
    }

    /// The bytes of the line that are present of a store to it.
    pub fn present(&self, number: u64, stored: ByteMask) -> ByteMask {
        let torn = self.torn.iter().find(|torn| torn.store == number);
        match torn {
            _ if self.has(number) => stored,
            Some(torn) => stored.and(torn.bytes()),
            None => ByteMask::NONE,
        }
    }
}

impl TornStore {
    /// The bytes of all its words that are present.
    pub(crate) fn bytes(self) -> ByteMask {
        let words = (0..8).filter(|word| self.words >> word & 1 != 0);
        words.map(ByteMask::word).fold(ByteMask::NONE, ByteMask::or)
    }
}

fn is_whole(tearing: &Tearing) -> bool {
    *tearing == Tearing::Whole
}

/// [`Tearing`] by its name.
pub(crate) mod tearing_name {
    use brownout_model::Tearing;
    use serde::de::Error as _;
    use serde::{Deserialize as _, Deserializer, Serializer};

    pub fn serialize<S: Serializer>(tearing: &Tearing, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(tearing.name())
    }

    pub fn deserialize<'d, D: Deserializer<'d>>(from: D) -> Result<Tearing, D::Error> {
        let name = String::deserialize(from)?;
        let tearing = Tearing::named(&name);
        tearing.ok_or_else(|| D::Error::custom(format_args!("there is no tearing `{name}`")))
    }
}

impl Choice {
    /// The persistency profile that allows the state.
    pub fn profile(&self) -> Result<Profile, ImpossibleChoice> {
        Profile::named(&self.profile).ok_or_else(|| ImpossibleChoice::Profile(self.profile.clone()))
    }

    /// The state of a line, if it is listed.
    pub fn line(&self, file: usize, offset: u64) -> Option<&LineChoice> {
        let key = |line: &LineChoice| (line.file, line.offset);
        let at = self.lines.binary_search_by_key(&(file, offset), key);
        at.ok().map(|at| &self.lines[at])
    }

    /// Whether some words of a store are present, and others are not.
    pub fn has_torn_stores(&self) -> bool {
        self.lines.iter().any(|line| !line.torn.is_empty())
    }

    /// In a sentence, for people.
    pub fn describe(&self) -> String {
        let mut text = format!("under the model {}", self.profile);
        for alike in self.lines.chunk_by(LineChoice::continues_in) {
            text.push_str(", ");
            text.push_str(&describe_lines(alike));
        }
        text.push_str(match self.others {
            OtherLines::Newest => ", all other lines with all their stores",
            OtherLines::Guaranteed => ", all other lines with their guaranteed stores",
        });
        text
    }
}

impl LineChoice {
    /// Whether `next` is the next line of the same file in the same state.
    fn continues_in(&self, next: &LineChoice) -> bool {
        let is_next = self.file == next.file && self.offset + LINE == next.offset;
        is_next
            && self.stores == next.stores
            && self.exceptions == next.exceptions
            && self.torn.is_empty()
            && next.torn.is_empty()
    }
}

/// Neighbouring lines in the same state; there is at least one.
fn describe_lines(lines: &[LineChoice]) -> String {
    let [line, others @ ..] = lines else {
        return String::new();
    };
    let file = line.file + 1;
    let (place, their) = match others.last() {
        None => (format!("the line at {:#x}", line.offset), "its"),
        Some(last) => (
            format!("the lines {:#x}..{:#x}", line.offset, last.offset + LINE),
            "their",
        ),
    };
    let state = match (line.stores, others) {
        (0, _) => format!("without {their} stores"),
        (count, []) => format!("after {}", Stores(count)),
        (count, _) => format!("after {} each", Stores(count)),
    };
    let mut text = format!("{place} of persistent file {file} {state}");
    if !line.exceptions.is_empty() {
        let numbers: Vec<String> = line.exceptions.iter().map(u64::to_string).collect();
        text.push_str(&format!(" (except number {})", numbers.join(", ")));
    }
    for torn in &line.torn {
        let joint = match line.stores {
            0 => "except",
            _ => "and",
        };
        let words = torn.bytes().runs().map(|(start, len)| {
            let start = line.offset + start;
            format!("{start:#x}..{:#x}", start + len)
        });
        let words = words.collect::<Vec<String>>().join(", ");
        text.push_str(&format!(" {joint} the words {words} of "));
        match torn.store {
            0 => text.push_str("the first one"),
            next if next == line.stores => text.push_str("the next one"),
            number => text.push_str(&format!("number {number}")),
        }
    }
    text
}

struct Stores(u64);

impl fmt::Display for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            1 => write!(f, "1 store"),
            count => write!(f, "{count} stores"),
        }
    }
}

/// Why a choice names no crash image.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ImpossibleChoice {
    #[error("unknown model `{0}`")]
    Profile(String),
    #[error("this crash point is for the model {choice}, but the run is examined with {followed}")]
    OtherProfile { choice: String, followed: String },
    #[error("persistent file number {file} does not exist before event {event}")]
    File { file: usize, event: u64 },
    #[error(
        "no crash before event {event} leaves the line at {offset:#x} of persistent file number {file} in this state"
    )]
    Line {
        file: usize,
        offset: u64,
        event: u64,
    },
    #[error(
        "recovery did not do the same as before, so it cannot be interrupted at the same action; recovery, or something other than \
         the persistent files that it depends on, has changed"
    )]
    OtherRecovery,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_its_first_stores_except_some() {
        let line = LineChoice {
            file: 0,
            offset: 64,
            stores: 2,
            exceptions: vec![0, 3],
            torn: Vec::new(),
        };
        let present: Vec<bool> = (0..5).map(|number| line.has(number)).collect();
        assert_eq!(present, [false, true, false, true, false]);
    }

    #[test]
    fn a_torn_store_is_present_in_its_words() {
        let line = LineChoice {
            file: 0,
            offset: 64,
            stores: 1,
            exceptions: Vec::new(),
            torn: vec![TornStore { store: 1, words: 6 }],
        };
        // The store starts in word 1 and ends in word 3.
        let stored = ByteMask::range(12, 16);
        assert_eq!(line.present(0, stored), stored);
        assert_eq!(line.present(1, stored), ByteMask::range(12, 12));
        assert_eq!(line.present(2, stored), ByteMask::NONE);
    }

    #[test]
    fn torn_stores_are_described_by_their_words() {
        let line = |stores, torn| LineChoice {
            file: 0,
            offset: 0x40,
            stores,
            exceptions: Vec::new(),
            torn: vec![torn],
        };
        let described =
            |stores, store, words| describe_lines(&[line(stores, TornStore { store, words })]);
        assert_eq!(
            described(0, 0, 5),
            "the line at 0x40 of persistent file 1 without its stores except the words 0x40..0x48, 0x50..0x58 of the first one"
        );
        assert_eq!(
            described(1, 1, 6),
            "the line at 0x40 of persistent file 1 after 1 store and the words 0x48..0x58 of the next one"
        );
        assert_eq!(
            described(1, 3, 1),
            "the line at 0x40 of persistent file 1 after 1 store and the words 0x40..0x48 of number 3"
        );
    }

    #[test]
    fn crash_points_of_one_test_have_one_profile() {
        let point = |profile: Option<&str>| {
            let choice = profile.map(|profile| Choice {
                profile: profile.into(),
                tearing: Tearing::Whole,
                others: OtherLines::Newest,
                lines: Vec::new(),
            });
            CrashPoint::chosen(1, choice)
        };
        let of = |profiles: &[Option<&str>]| {
            let points: Vec<CrashPoint> = profiles.iter().copied().map(point).collect();
            common_profile(&points).map(|profile| profile.map(|profile| profile.name))
        };
        assert_eq!(of(&[None, None]), Ok(None));
        assert_eq!(of(&[None, Some("adr"), Some("adr")]), Ok(Some("adr")));
        assert!(matches!(
            of(&[Some("adr"), None, Some("eadr")]),
            Err(ImpossibleChoice::OtherProfile { .. })
        ));
    }

    #[test]
    fn neighbouring_lines_in_one_state_are_described_as_a_range() {
        let line = |offset, stores| LineChoice {
            file: 0,
            offset,
            stores,
            exceptions: Vec::new(),
            torn: Vec::new(),
        };
        let choice = Choice {
            profile: "adr".into(),
            tearing: Tearing::Whole,
            others: OtherLines::Newest,
            lines: vec![
                line(0x40, 0),
                line(0x80, 0),
                line(0xc0, 0),
                line(0x100, 2),
                line(0x140, 2),
                line(0x1c0, 0),
            ],
        };
        assert_eq!(
            choice.describe(),
            "under the model adr, the lines 0x40..0x100 of persistent file 1 without their stores, \
             the lines 0x100..0x180 of persistent file 1 after 2 stores each, \
             the line at 0x1c0 of persistent file 1 without its stores, all other lines with all their stores"
        );
    }

    #[test]
    fn a_choice_is_described_in_words() {
        let choice = Choice {
            profile: "adr".into(),
            tearing: Tearing::Whole,
            others: OtherLines::Newest,
            lines: vec![LineChoice {
                file: 0,
                offset: 64,
                stores: 1,
                exceptions: Vec::new(),
                torn: Vec::new(),
            }],
        };
        assert_eq!(
            choice.describe(),
            "under the model adr, the line at 0x40 of persistent file 1 after 1 store, all other lines with all their stores"
        );
    }
}
