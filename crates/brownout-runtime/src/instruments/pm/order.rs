//! Flushes and fences.

use crate::fatal;
use crate::instruments::Resumption;
use crate::instruments::events::calling_context;
use crate::instruments::pm::candidates;
use crate::instruments::pm::site::{SiteKind, site};
use crate::translator::context::Context;
use crate::wire;
use crate::wire::Head;
use brownout_ring::{flush, kind};

/// Distance from the target's address of a candidate to where it is flushed, given the distance to its alias:
/// flushing needs the right to read.
pub(crate) fn flush_delta(delta: u64) -> u64 {
    if wire::wants_loads() { delta } else { 0 }
}

/// Records a flush or fence before it takes effect, so that nothing that depends on it can be recorded earlier.
pub fn order(context: &mut Context) -> Resumption {
    let site = &site(context.argument);
    context.pc = site.pc;
    let caller = calling_context::context_of(context);
    match site.kind {
        SiteKind::Fence(flags) => {
            let head = Head {
                kind: kind::FENCE,
                flags,
                pc: site.pc,
                context: caller,
                addr: 0,
            };
            context.wire.record_short(head, &[]);
            context.areas.events.unordered = 0;
        }
        SiteKind::Flush(flags) => {
            let near = context
                .areas
                .events
                .address
                .wrapping_sub(context.areas.pm.near_start)
                < context.areas.pm.near_len;
            let delta = if near {
                Some(context.areas.pm.near_delta)
            } else {
                candidates::find(context.areas.events.address).map(|mapping| mapping.delta)
            };
            let volatile = if delta.is_none() { flush::VOLATILE } else { 0 };
            context.areas.events.memory = context
                .areas
                .events
                .address
                .wrapping_add(delta.map_or(0, flush_delta));
            let head = Head {
                kind: kind::FLUSH,
                flags: flags | volatile,
                pc: site.pc,
                context: caller,
                addr: context.areas.events.address,
            };
            context.wire.record_short(head, &[]);
            context.areas.events.unordered = 1;
        }
        kind => fatal::fault(format_args!(
            "site {:#x} of kind {kind:?} orders nothing",
            site.pc
        )),
    }
    Resumption::InPlace
}
