//! Running a target without a trace.

use super::*;
use crate::event_destination::LiveEvents;
use brownout_trace::{Definitions, Event, EventKind};
use std::sync::Mutex;

fn options(command: &[&str]) -> TargetOptions {
    TargetOptions {
        command: command.iter().map(OsString::from).collect(),
        loads: false,
        locks: false,
        shared_loads: false,
        reads: false,
        coverage: false,
        watch: Vec::new(),
        on_full: OnFull::Continue,
        repetition: None,
        hold: None,
        patch: None,
        schedule: None,
        symbolic: Vec::new(),
        client: None,
    }
}

#[test]
fn events_reach_a_consumer_with_their_definitions() {
    let _alone = crate::sys::signals::ONE_AT_A_TIME.lock().unwrap();
    let starts = Mutex::new(Vec::new());
    let mut next = 0;
    let consume = |event: &Event<'_>, definitions: &Definitions| {
        assert_eq!(event.index.0, next, "events are numbered in order");
        next += 1;
        if let EventKind::ProcessStart { .. } = event.kind {
            let process = definitions.process(event.process).unwrap();
            starts.lock().unwrap().push(process.exe.clone());
        }
    };
    let target = Target::prepare(&options(&["/bin/sh", "-c", "/bin/true; exit 3"])).unwrap();
    let run = target.run(LiveEvents::new(consume), &mut |_| ()).unwrap();
    assert_eq!(run.end, ProcessEnd::Exited { status: 3 });
    assert!(run.stopped.is_none() && run.destination.events() > 0);
    drop(run);
    let starts = starts.into_inner().unwrap();
    assert!(starts.len() >= 2, "the shell and what it ran: {starts:?}");
}

#[test]
fn events_can_be_discarded() {
    let _alone = crate::sys::signals::ONE_AT_A_TIME.lock().unwrap();
    let target = Target::prepare(&options(&["/bin/true"])).unwrap();
    let run = target.run(LiveEvents::discard(), &mut |_| ()).unwrap();
    assert_eq!(run.end, ProcessEnd::Exited { status: 0 });
    assert!(run.destination.events() > 0);
}
