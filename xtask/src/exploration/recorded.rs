//! What `brownout dump` shows of a target, checked against its script.
//!
//! Besides what the script says, a trace has the locked instructions of the C library, which are fences.

use std::path::Path;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::machine::Effect;
use super::script::Access;

/// The effects of a target on its pool, with the numbers of its threads.
pub fn effects(dump: &str, pool: &Path) -> Result<Vec<(u64, Effect)>> {
    let mut found = Vec::new();
    for line in dump.lines() {
        let event: Value = serde_json::from_str(line)?;
        if let Some(effect) = effect(&event, pool).with_context(|| line.to_owned())? {
            let thread = event["thread"].as_u64().context("an event has a thread")?;
            if has_flag(&event, "locked") {
                // A locked instruction is a fence before it stores.
                found.push((thread, Effect::Fence));
            }
            found.push((thread, effect));
        }
    }
    Ok(found)
}

fn effect(event: &Value, pool: &Path) -> Result<Option<Effect>> {
    let kind = event["kind"].as_str().unwrap_or_default();
    let offset = || -> Result<u64> {
        let at = &event["at"];
        if at["path"].as_str().map(Path::new) != Some(pool) {
            bail!("it is not in the pool");
        }
        at["offset"].as_u64().context("it has no offset")
    };
    let effect = match kind {
        "store" => Effect::Store {
            offset: offset()?,
            bytes: bytes(&event["bytes"])?,
            non_temporal: has_flag(event, "non-temporal"),
        },
        "flush" => Effect::Flush {
            offset: offset()?,
            is_immediate: event["instruction"] == "clflush",
        },
        "fence" => Effect::Fence,
        "sync" => {
            let start = offset()?;
            let length = event["length"].as_u64().context("it has no length")?;
            Effect::Sync(start..start + length)
        }
        "kernel-write" | "file-write" | "file-resize" | "remap" => {
            bail!("the script does not do this")
        }
        _ => return Ok(None),
    };
    Ok(Some(effect))
}

fn has_flag(event: &Value, name: &str) -> bool {
    let flags = event["flags"].as_array();
    flags.is_some_and(|flags| flags.iter().any(|flag| flag == name))
}

fn bytes(hex: &Value) -> Result<Vec<u8>> {
    let hex = hex.as_str().context("it has no bytes")?;
    super::explored::from_hex(hex)
}

/// Fails unless the trace has what the script says, in the same order, and besides only fences.
pub fn check(effects: &[(u64, Effect)], script: &[(u8, Access)]) -> Result<()> {
    let mut recorded = effects.iter().map(|(_, effect)| effect).peekable();
    for (_, access) in script {
        let is_fence = matches!(access.kind, 'f' | 'm');
        while !is_fence
            && recorded
                .next_if(|effect| **effect == Effect::Fence)
                .is_some()
        {}
        let found = recorded.next();
        let matches = match (access.kind, found) {
            ('f' | 'm', Some(Effect::Fence)) => true,
            (
                's' | 'r' | 'n',
                Some(Effect::Store {
                    offset,
                    bytes,
                    non_temporal,
                }),
            ) => {
                *offset == access.offset
                    && *bytes == access.bytes
                    && *non_temporal == (access.kind == 'n')
            }
            (
                'a' | 'x',
                Some(Effect::Store {
                    offset,
                    bytes,
                    non_temporal: false,
                }),
            ) => *offset == access.offset && bytes.len() == access.bytes.len(),
            (
                'w' | 'c',
                Some(Effect::Flush {
                    offset,
                    is_immediate,
                }),
            ) => *offset == access.offset && (*is_immediate || access.kind == 'w'),
            ('y', Some(Effect::Sync(range))) => range.contains(&access.offset),
            _ => false,
        };
        if !matches {
            bail!("the trace has {found:?} where the script has {access:?}");
        }
    }
    match recorded.find(|effect| **effect != Effect::Fence) {
        Some(more) => bail!("the trace has {more:?} after all of the script"),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_may_have_more_fences_and_nothing_else() {
        let store = |offset| Effect::Store {
            offset,
            bytes: vec![1],
            non_temporal: false,
        };
        let access = |kind, offset| {
            let bytes = vec![1];
            (
                0,
                Access {
                    kind,
                    offset,
                    bytes,
                },
            )
        };
        let script = [access('s', 3), access('f', 0), access('s', 5)];
        let of = |effects: &[Effect]| {
            let effects: Vec<_> = effects.iter().cloned().map(|effect| (1, effect)).collect();
            check(&effects, &script).is_ok()
        };
        let fence = Effect::Fence;
        assert!(of(&[store(3), fence.clone(), store(5)]));
        assert!(of(&[
            fence.clone(),
            store(3),
            fence.clone(),
            fence.clone(),
            store(5),
            fence.clone()
        ]));
        assert!(!of(&[store(3), store(5)]));
        assert!(!of(&[store(3), fence.clone(), store(4)]));
        assert!(!of(&[store(3), fence, store(5), store(5)]));
    }

    #[test]
    fn events_of_the_pool_are_taken() {
        let line = |kind: &str, rest: &str| {
            format!(
                r#"{{"event":1,"thread":7,"kind":"{kind}",{rest},"at":{{"path":"/p","offset":64}}}}"#
            )
        };
        let dump = [
            line("store", r#""bytes":"01ff","flags":["non-temporal"]"#),
            line("store", r#""bytes":"02","flags":["locked"]"#),
            line("flush", r#""instruction":"clwb""#),
            line("map", r#""length":1"#),
            line("sync", r#""length":4096"#),
        ];
        let found = effects(&dump.join("\n"), Path::new("/p")).unwrap();
        let store = |bytes: &[u8], non_temporal| Effect::Store {
            offset: 64,
            bytes: bytes.to_vec(),
            non_temporal,
        };
        let flush = Effect::Flush {
            offset: 64,
            is_immediate: false,
        };
        let expected = [
            store(&[1, 255], true),
            Effect::Fence,
            store(&[2], false),
            flush,
            Effect::Sync(64..4160),
        ];
        assert_eq!(found, expected.map(|effect| (7, effect)));
        assert!(effects(&dump[0], Path::new("/q")).is_err());
        assert!(effects(&line("file-write", r#""length":1"#), Path::new("/p")).is_err());
    }
}
