//! Numbers that are the same in each run, for samples of what cannot be tried in full (Marsaglia's xorshift64).

/// The number after another one, which is not 0.
pub(super) fn next(state: u64) -> u64 {
    let state = state ^ (state << 13);
    let state = state ^ (state >> 7);
    state ^ (state << 17)
}
