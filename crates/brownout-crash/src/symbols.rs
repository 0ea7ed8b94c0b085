//! What crash testing needs from its caller to name source lines: symbols.

use brownout_recovery::RawFrame;
use brownout_report::Frame;

use crate::failure_point::{CallingContexts, StackId};

/// Finds the source-level frames of calling contexts and modules.
pub trait Symbols: CallingContexts {
    /// The frames of a context, innermost first.
    fn frames(&mut self, stack: StackId) -> Vec<Frame>;

    /// The line that a failure point with these frames is about.
    fn line(&mut self, frames: &[Frame]) -> String;

    /// What identifies the code of a context in runs of other builds, as long as it does not change.
    fn code(&mut self, stack: StackId) -> String;

    /// The frames of a recovery that failed, innermost first.
    fn recovery_frames(&mut self, frames: &[RawFrame]) -> Vec<Frame>;
}

/// Where recovery failed, innermost frame first. A recovery that returned from its `main` failed nowhere in particular: what is left is
/// how the C library exits.
pub fn failing_frames(frames: &[RawFrame], symbols: &mut dyn Symbols) -> Vec<Frame> {
    let frames = symbols.recovery_frames(frames);
    if frames.iter().all(Frame::is_library) {
        return Vec::new();
    }
    frames
}
