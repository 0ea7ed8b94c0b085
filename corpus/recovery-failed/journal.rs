//! A journal counts a record in before the record is written.
// variants: clwb clflush
// recover: {program} {dir}/pool check
#[macro_use]
#[path = "../pm.rs"]
mod pm;

fn append(pool: &mut [pm::Line], value: u64) {
    let count = pool[0].word[0];
    store!(pool[0].word[0], count + 1);
    flush!(pool[0]); // expect: recovery-failed
    fence!();
    store!(pool[1 + count as usize].word[0], value); // missing-store: recovery-failed
    flush!(pool[1 + count as usize]);
    fence!();
}

fn recover(pool: &[pm::Line]) {
    let count = pool[0].word[0] as usize;
    for (at, record) in (1..).zip(&pool[1..1 + count]) {
        assert_eq!(record.word[0], at * at);
    }
}

fn main() {
    let pool = pm::pool();
    if std::env::args().len() > 2 {
        return recover(pool);
    }
    for at in 1..5 {
        append(pool, at * at);
    }
}
