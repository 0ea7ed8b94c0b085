//! What a recovery prints: its accesses, in order, with the bytes that it has read or stored.

use std::collections::BTreeSet;

use anyhow::{Context, Result};

use super::explored::{Reads, from_hex};
use super::machine::Effect;
use super::script::{Access, READS};

/// The accesses of a recovery.
pub fn accesses(transcript: &str) -> Result<Vec<Access>> {
    let printed = transcript.split_terminator(';').map(|access| {
        let (offset, bytes) = access
            .get(1..)
            .and_then(|rest| rest.split_once(':'))
            .with_context(|| format!("{access:?} is not an access"))?;
        Ok(Access {
            kind: access.chars().next().unwrap_or_default(),
            offset: offset.parse()?,
            bytes: from_hex(bytes)?,
        })
    });
    printed.collect()
}

/// The bytes that a recovery has read, each once, if it had not stored them before.
pub fn first_reads(transcript: &str) -> Result<Reads> {
    let mut known = BTreeSet::new();
    let mut reads = Reads::new();
    for access in accesses(transcript)? {
        let is_read = access.kind == 'x' || READS.contains(access.kind);
        let is_store = "snr".contains(access.kind);
        if !is_read && !is_store {
            continue;
        }
        for (at, byte) in (access.offset..).zip(access.bytes) {
            let is_first = known.insert(at);
            if is_first && is_read {
                reads.push((at, byte));
            }
        }
    }
    Ok(reads)
}

/// What a recovery has done to the pool, with the number of the thread: from access number `split` on, another one than before.
/// `flushes_wait`: whether this machine has flushes that wait for a fence.
pub fn effects(transcript: &str, split: usize, flushes_wait: bool) -> Result<Vec<(u64, Effect)>> {
    let mut effects = Vec::new();
    for (number, access) in accesses(transcript)?.into_iter().enumerate() {
        let thread = u64::from(number >= split);
        let Access {
            kind,
            offset,
            bytes,
        } = access;
        let store = |bytes| Effect::Store {
            offset,
            bytes,
            non_temporal: kind == 'n',
        };
        match kind {
            's' | 'n' | 'r' => effects.push((thread, store(bytes))),
            'x' => {
                let both = [Effect::Fence, store(incremented(&bytes))];
                effects.extend(both.map(|effect| (thread, effect)));
            }
            'w' | 'c' => {
                let is_immediate = kind == 'c' || !flushes_wait;
                let flush = Effect::Flush {
                    offset,
                    is_immediate,
                };
                effects.push((thread, flush));
            }
            'f' | 'm' => effects.push((thread, Effect::Fence)),
            'y' => effects.push((thread, Effect::Sync(offset..offset + 1))),
            _ => {}
        }
    }
    Ok(effects)
}

/// The number that these bytes are, plus one.
fn incremented(bytes: &[u8]) -> Vec<u8> {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    let sum = u64::from_le_bytes(word).wrapping_add(1);
    sum.to_le_bytes()[..bytes.len()].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_those_before_own_stores() {
        let reads = first_reads("l6:010203;w3:01;s2:0909;p0:00010203;x0:05;").unwrap();
        assert_eq!(reads, [(6, 1), (7, 2), (8, 3), (0, 0), (1, 1)]);
        assert!(accesses("l6;").is_err());
    }

    #[test]
    fn what_recovery_prints_has_effects() {
        let found = effects("l0:00;s8:01;w8:02;x16:ff0000ff;n24:02;y0:00;", 3, true).unwrap();
        let store = |offset, bytes: &[u8], non_temporal| Effect::Store {
            offset,
            bytes: bytes.to_vec(),
            non_temporal,
        };
        let flush = |is_immediate| Effect::Flush {
            offset: 8,
            is_immediate,
        };
        let expected = [
            store(8, &[1], false),
            flush(false),
            Effect::Fence,
            store(16, &[0, 1, 0, 255], false),
            store(24, &[2], true),
            Effect::Sync(0..1),
        ];
        let threads = [0, 0, 1, 1, 1, 1];
        let expected: Vec<_> = threads.into_iter().zip(expected).collect();
        assert_eq!(found, expected);
        assert_eq!(effects("w8:00;", 9, false).unwrap(), [(0, flush(true))]);
        assert_eq!(effects("c8:00;", 9, true).unwrap(), [(0, flush(true))]);
    }
}
