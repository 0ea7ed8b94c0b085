//! A tree is rotated in place: half-way through, two nodes are each other's children, and recovery descends without end.
// recover: {program} {dir}/pool check
#[macro_use]
#[path = "../pm.rs"]
mod pm;

const LEFT: usize = 0;
const RIGHT: usize = 1;

#[collapse_debuginfo(yes)]
macro_rules! set {
    ($place:expr, $value:expr) => {
        store!($place, $value);
        flush!($place);
        fence!();
    };
}

/// The root is the left child of node 0. No child is 0.
fn rotate(pool: &mut [pm::Line], root: u64) {
    let pivot = pool[root as usize].word[RIGHT];
    let between = pool[pivot as usize].word[LEFT];
    set!(pool[pivot as usize].word[LEFT], root); // expect: recovery-crashed
    set!(pool[root as usize].word[RIGHT], between); // missing-store: recovery-crashed
    set!(pool[0].word[LEFT], pivot);
}

fn depth(pool: &[pm::Line], node: u64) -> u64 {
    if node == 0 {
        return 0;
    }
    let word = &pool[node as usize].word;
    1 + depth(pool, word[LEFT]).max(depth(pool, word[RIGHT]))
}

fn main() {
    let pool = pm::pool();
    if std::env::args().len() > 2 {
        println!("{}", depth(pool, pool[0].word[LEFT]));
        return;
    }
    for node in [3, 2, 1u64] {
        set!(pool[node as usize].word[RIGHT], (node + 1) % 4);
    }
    set!(pool[0].word[LEFT], 1);
    rotate(pool, 1);
}
