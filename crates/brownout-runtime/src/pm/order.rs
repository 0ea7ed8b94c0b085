//! Flushes and fences.

use super::site::{SiteKind, site};
use super::{calls, mappings};
use crate::context::Context;
use crate::fatal;
use crate::wire::Head;
use brownout_ring::{flush, kind};

/// A flush or fence is about to happen: recorded before it takes effect, so that nothing that depends
/// on it can be recorded earlier.
pub fn order(context: &mut Context) {
    let site = site(context.argument);
    context.pc = site.pc;
    let caller = calls::context_of(context);
    match site.kind {
        SiteKind::Fence(flags) => {
            let head = Head { kind: kind::FENCE, flags, pc: site.pc, context: caller, addr: 0 };
            context.wire.record(head, &[]);
            context.dirty = 0;
        }
        SiteKind::Flush(flags) => {
            let mapping = mappings::find(context.ea);
            let volatile = if mapping.is_none() { flush::VOLATILE } else { 0 };
            context.alias = match mapping {
                Some(mapping) if crate::wire::wants_loads() => context.ea.wrapping_add(mapping.delta),
                _ => context.ea,
            };
            let head = Head { kind: kind::FLUSH, flags: flags | volatile, pc: site.pc, context: caller, addr: context.ea };
            context.wire.record(head, &[]);
            context.dirty = 1;
        }
        kind => fatal::fault(format_args!("site {:#x} of kind {kind:?} orders nothing", site.pc)),
    }
}
