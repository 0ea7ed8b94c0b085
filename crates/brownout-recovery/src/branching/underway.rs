//! Runs that are under way, so that runners side by side do not find out the same at the same time.
//!
//! Images that come one after the other often make recovery read the same bytes. While a runner runs recovery on one of them, another
//! runner would not know yet how it ends on the next one, and would run it, too. It should take another image meanwhile, and this one when
//! its end is known.

use std::sync::Arc;

use brownout_trace::replay::Content;

use super::host::common_start;
use super::messages::BranchOutcome;
use super::question_tree::NodeNumber;
use super::{CommonStart, SharedStarts, SharedTree, image_bytes, lock};
use crate::RecoveryTask;

/// What a run will find out: what recovery does after this answer.
pub(super) type Unknown = (NodeNumber, Box<[u8]>);

/// A run that is under way, until this is dropped.
#[derive(Debug)]
pub(crate) struct RunUnderway {
    tree: SharedTree,
    finds_out: Option<Unknown>,
}

impl RunUnderway {
    /// A run of recovery on an image begins, unless it is known how it ends.
    pub(crate) fn begin(
        tree: &SharedTree,
        image: &[Option<Content>],
    ) -> Result<Self, Arc<BranchOutcome>> {
        let mut held = lock(tree);
        let (path, end) = held.follow(|question| image_bytes(question, image));
        if let Some(end) = end {
            return Err(end);
        }
        let last = path.into_iter().next_back();
        let finds_out = last.map(|(node, bytes)| (node, bytes.into_boxed_slice()));
        held.underway.extend(finds_out.clone());
        Ok(Self {
            tree: Arc::clone(tree),
            finds_out,
        })
    }
}

impl Drop for RunUnderway {
    fn drop(&mut self) {
        if let Some(found_out) = &self.finds_out {
            lock(&self.tree).underway.remove(found_out);
        }
    }
}

/// A run that a runner has yet to begin.
#[derive(Debug)]
pub struct PlannedRun {
    starts: Arc<SharedStarts>,
    start: CommonStart,
    image: Vec<Option<Content>>,
}

impl PlannedRun {
    pub fn new(starts: &Arc<SharedStarts>, image: &[Option<Content>], task: &RecoveryTask) -> Self {
        Self {
            starts: Arc::clone(starts),
            start: common_start(image, task),
            image: image.to_vec(),
        }
    }

    /// Whether a run is under way that may show how this one ends.
    pub fn is_underway(&self) -> bool {
        let Some(tree) = self.starts.known_tree(&self.start) else {
            return false;
        };
        let tree = lock(&tree);
        let (path, end) = tree.follow(|question| image_bytes(question, &self.image));
        let Some((node, bytes)) = path.into_iter().next_back().filter(|_| end.is_none()) else {
            return false;
        };
        tree.underway.contains(&(node, bytes.into_boxed_slice()))
    }
}

#[cfg(test)]
mod tests {
    use std::ops::Range;
    use std::sync::Mutex;
    use std::time::Duration;

    use super::super::messages::Question;
    use super::super::question_tree::{QuestionTree, ROOT};
    use super::*;
    use crate::{ByteRanges, End};

    fn image(bytes: [u8; 2]) -> Vec<Option<Content>> {
        let mut content = Content::default();
        content.resize(2);
        content.write(0, &bytes);
        vec![Some(content)]
    }

    fn question(offset: u64) -> Question {
        let all: Range<usize> = 0..1;
        Question {
            file: 0,
            offset,
            len: 1,
            open: vec![all],
        }
    }

    fn end() -> BranchOutcome {
        BranchOutcome {
            end: End::Exited(0),
            stdout: Vec::new(),
            stderr: Vec::new(),
            other_inputs: Vec::new(),
        }
    }

    #[test]
    fn a_run_is_under_way_as_long_as_one_may_show_how_it_ends() {
        let task = RecoveryTask {
            environment: Vec::new(),
            operations: 0..=0,
            time_limit: Duration::from_secs(1),
        };
        let mut differing = ByteRanges::exact();
        differing.insert(0..2);
        let starts = Arc::new(SharedStarts::new([differing].into(), true));
        let planned = |bytes| PlannedRun::new(&starts, &image(bytes), &task).is_underway();
        assert!(!planned([1, 1]), "nothing is known");
        let tree = starts.tree(&common_start(&image([1, 1]), &task), &image([1, 1]));
        let tree: Arc<Mutex<QuestionTree>> = tree.unwrap();
        lock(&tree).begin(question(0)).unwrap();
        let run = RunUnderway::begin(&tree, &image([1, 1])).unwrap();
        assert!(planned([1, 1]) && planned([1, 2]));
        assert!(!planned([2, 1]), "it reads something else first");
        lock(&tree).end(ROOT, &[1], end()).unwrap();
        assert!(!planned([1, 2]), "its end is known");
        drop(run);
        assert!(RunUnderway::begin(&tree, &image([1, 3])).is_err());
        drop(RunUnderway::begin(&tree, &image([2, 0])).unwrap());
        assert!(!planned([2, 1]), "the run is over and has shown nothing");
    }
}
