//! `mfence-for-flush`: an `mfence` orders flushes, for which `sfence` suffices.
//!
//! Never reports an `mfence` that nothing waits for: it may order loads, or is a `redundant-fence`.

use brownout_report::{Category, RuleInfo, Severity};
use brownout_trace::FenceKind;

use crate::rule::Rule;
use crate::rule_inputs::Fence;
use crate::tally::{Key, Occurrence, Tally};

#[derive(Default)]
pub(crate) struct MfenceForFlush;

impl Rule for MfenceForFlush {
    const INFO: &'static RuleInfo = &RuleInfo {
        id: "mfence-for-flush",
        severity: Severity::Warning,
        category: Category::Performance,
        pedantic: false,
        summary: "an mfence orders flushes, for which sfence suffices",
        explanation: "## What it does … ## Why is this bad? … ## Example … ## Fix …",
    };

    #[inline]
    fn fence(&mut self, fence: &Fence<'_>, found: &mut Tally) {
        if fence.kind != FenceKind::Mfence || fence.ordered == 0 {
            return;
        }
        let key = Key::single(fence.site, fence.file);
        found.add(key, fence.time, || Occurrence {
            message: "sfence suffices to order these flushes".to_owned(),
            sites: vec![("fence", fence.site, fence.time)],
            ..Occurrence::default()
        });
    }
}
