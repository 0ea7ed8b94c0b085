//! The watched functions: those whose calls are recorded.

use crate::sys::linux;
use crate::wire;
use alloc::vec::Vec;
use brownout_ring as ring;
use brownout_ring::watch::Order;

/// Bytes by which most names can be ruled out.
const OPENING: usize = 4;

/// What names start with, but for those that are shorter: a bit for each hash. The names of all symbols of a program are
/// compared with it at every byte, so it must not grow with the number of functions.
struct Openings([u64; 64]);

impl Openings {
    fn bit(opening: &[u8; OPENING]) -> (usize, u64) {
        let hash = u32::from_le_bytes(*opening).wrapping_mul(0x9E37_79B1) >> 20;
        (hash as usize / 64, 1 << (hash % 64))
    }

    /// False if no name starts so; fast, and usually false.
    #[inline]
    fn may_hold(&self, opening: &[u8; OPENING]) -> bool {
        let (word, bit) = Openings::bit(opening);
        self.0[word] & bit != 0
    }
}

impl<'a> FromIterator<&'a [u8; OPENING]> for Openings {
    fn from_iter<I: IntoIterator<Item = &'a [u8; OPENING]>>(openings: I) -> Self {
        let mut bits = [0; 64];
        for opening in openings {
            let (word, bit) = Openings::bit(opening);
            bits[word] |= bit;
        }
        Openings(bits)
    }
}

/// A watched function.
#[derive(Clone, Copy, Debug)]
struct Watched {
    name: &'static [u8],
    arguments: u8,
    order: u8,
}

/// The table of watched functions; its numbers are those of the recorder.
pub struct WatchedFunctions {
    functions: Vec<Watched>,
    openings: Openings,
    has_short_names: bool,
}

impl WatchedFunctions {
    /// Reads the table from the wire.
    pub fn of_the_wire() -> WatchedFunctions {
        let mapped = wire::map(linux::PROT_READ, ring::WATCH_TABLE, ring::WATCH_BYTES);
        let Some(addr) = mapped else {
            return WatchedFunctions::of(&[]);
        };
        // SAFETY: just mapped, and never unmapped; the recorder wrote it before the target started.
        WatchedFunctions::of(unsafe {
            core::slice::from_raw_parts(addr as *const u8, ring::WATCH_BYTES)
        })
    }

    /// The table that is encoded in `bytes`.
    pub fn of(bytes: &'static [u8]) -> WatchedFunctions {
        let functions: Vec<Watched> = ring::watch::entries(bytes)
            .map(|entry| Watched {
                name: entry.name,
                arguments: entry.arguments,
                order: entry.order as u8,
            })
            .collect();
        let openings = functions
            .iter()
            .filter_map(|function| function.name.first_chunk())
            .collect();
        let has_short_names = functions.iter().any(|f| f.name.len() < OPENING);
        WatchedFunctions {
            functions,
            openings,
            has_short_names,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.functions.is_empty()
    }

    /// How many arguments of a function are recorded.
    pub fn arguments(&self, function: u32) -> u8 {
        self.functions
            .get(function as usize)
            .map_or(0, |function| function.arguments)
    }

    /// What a call of a function means for the order of threads.
    pub fn order(&self, function: u32) -> u8 {
        self.functions
            .get(function as usize)
            .map_or(Order::Unknown as u8, |function| function.order)
    }

    pub fn longest_name(&self) -> usize {
        let lengths = self.functions.iter().map(|function| function.name.len());
        lengths.max().unwrap_or(0)
    }

    /// Whether a name may be at the start of `text`; fast, and usually false.
    #[inline]
    pub fn may_open(&self, text: &[u8]) -> bool {
        self.has_short_names
            || text
                .first_chunk()
                .is_some_and(|opening| self.openings.may_hold(opening))
    }

    /// The functions whose whole name, ended by a NUL or a version, is at the start of `text`.
    pub fn named_at_start_of<'a>(&'a self, text: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
        let ends = |rest: &[u8]| matches!(rest.first(), Some(0 | b'@'));
        self.functions
            .iter()
            .enumerate()
            .filter(move |(_, function)| text.strip_prefix(function.name).is_some_and(ends))
            .map(|(number, _)| number as u32)
    }
}
