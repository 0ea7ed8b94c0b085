//! Rust panics: caught, in threads, with payloads, through many frames with destructors.
use std::cell::Cell;
use std::panic::{catch_unwind, resume_unwind};

thread_local!(static DROPPED: Cell<u32> = const { Cell::new(0) });

struct Guard;

impl Drop for Guard {
    fn drop(&mut self) {
        DROPPED.with(|dropped| dropped.set(dropped.get() + 1));
    }
}

fn deep(depth: u32) -> u32 {
    let _guard = Guard;
    if depth == 0 {
        std::panic::panic_any(42u32);
    }
    deep(depth - 1) + 1
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    for _ in 0..200 {
        let payload = catch_unwind(|| deep(20)).unwrap_err();
        assert_eq!(*payload.downcast::<u32>().unwrap(), 42);
    }
    println!("{}", DROPPED.with(Cell::get));
    let threads: Vec<_> = (0..16u32).map(|i| std::thread::spawn(move || if i % 2 == 0 { deep(i) } else { i })).collect();
    let results: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
    println!("{}", results.iter().filter(|result| result.is_err()).count());
    let again = catch_unwind(|| resume_unwind(catch_unwind(|| deep(3)).unwrap_err()));
    println!("{}", again.is_err());
    let text: Vec<u32> = vec![1, 2, 3];
    println!("{:?}", catch_unwind(|| text[text.len() + 1]).is_err());
}
