//! Locked instructions on other memory: they are fences, though nothing in the target says that they are meant to be.
//!
//! If a real fence follows, the locked instruction usually just came first, and nothing relies on it;
//! [`accidental_orders`](super::accidental_orders) describes when something does.

use brownout_model::{Access, LINE, Pending, PmAddress};

use crate::attribution::{Attribution, Origin};
use crate::follower::Follower;
use crate::follower::accidental_orders::AccidentallyOrdered;
use crate::follower::pointers::PointerKind;
use crate::site_keys::SiteKey;

impl<A: Attribution> Follower<A> {
    /// A locked instruction on other memory. What the C library executes when a thread or the process ends is no fence
    /// that anybody could rely on.
    #[inline(never)]
    pub(crate) fn locked(&mut self, by: Access, site: SiteKey) {
        let leaving = self.guarantees.threads[by.thread.index()].leaving;
        if leaving || self.guarantees.sites.origin(site) == Origin::ThreadRuntime {
            return;
        }
        for pending in self.tracker.pending(by.thread) {
            let line = pending.line();
            let (role, begun, time) = match *pending {
                Pending::Flush { time, tag, .. } => {
                    let mut stores = self.tracker.live(line);
                    if stores.any(|store| store.tag.is_judged() && store.time <= time) {
                        continue;
                    }
                    ("flush", tag, time)
                }
                Pending::NonTemporal { time, .. } => {
                    let mut stores = self.tracker.live(line);
                    match stores.find(|store| store.time == time) {
                        Some(store) if !store.tag.is_judged() => ("store", store.tag.site, time),
                        _ => continue,
                    }
                }
            };
            if self.guarantees.sites.is_users(begun) {
                let line = self.tracker.address(line);
                let thread = &mut self.guarantees.threads[by.thread.index()];
                if thread.accidental.are_none() {
                    self.guarantees.threads_with_accidents += 1;
                }
                thread.accidental.add(AccidentallyOrdered {
                    role,
                    site: begun,
                    time: time.0,
                    fence: site,
                    fence_time: by.time.0,
                    lines: vec![(line, by.time.0)],
                    relying: None,
                    count: 1,
                });
            }
        }
        self.tracker.fence(&mut self.guarantees, by);
        self.guarantees.threads[by.thread.index()].fenced(site, by.time.0);
        self.judge_pointers(by, site);
    }

    /// A real fence follows locked instructions that came first.
    #[inline(never)]
    pub(crate) fn really_fenced(&mut self, by: Access) {
        self.guarantees.threads[by.thread.index()]
            .accidental
            .fenced();
        self.guarantees.threads_with_accidents -= 1;
    }

    /// Pointers of a thread are guaranteed while there are accidental orders.
    #[inline(never)]
    pub(crate) fn rely_on_accidents(&mut self, by: Access) {
        let pointers = std::mem::take(&mut self.guarantees.pointers.guaranteed);
        let ready = pointers
            .iter()
            .filter(|pointer| pointer.by.thread == by.thread);
        for pointer in ready {
            let target = self.target(pointer);
            let is_number = pointer.kind == PointerKind::Word && target.offset == pointer.value;
            if is_number && self.guarantees.sites.stores_other_numbers(pointer.site) {
                continue;
            }
            let line = PmAddress {
                offset: target.offset - target.offset % LINE,
                ..target
            };
            for thread in &mut self.guarantees.threads {
                thread
                    .accidental
                    .pointed_to(line, pointer.site, pointer.time);
            }
        }
        self.guarantees.pointers.guaranteed = pointers;
    }
}
