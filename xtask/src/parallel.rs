//! Independent pieces of work on a few threads, results in the order of the pieces.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// As many threads as the machine has cores.
pub fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Applies `work` to each of `items` on `threads` threads.
pub fn map<T: Sync, R: Send>(items: &[T], threads: usize, work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    std::thread::scope(|scope| {
        for _ in 0..threads.clamp(1, items.len().max(1)) {
            scope.spawn(|| {
                while let Some((at, item)) = {
                    let at = next.fetch_add(1, Ordering::Relaxed);
                    items.get(at).map(|item| (at, item))
                } {
                    let result = work(item);
                    results.lock().expect("no thread panics with the lock")[at] = Some(result);
                }
            });
        }
    });
    let results = results
        .into_inner()
        .expect("no thread panics with the lock");
    results
        .into_iter()
        .map(|result| result.expect("every piece was worked on"))
        .collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_are_in_order() {
        let squares = super::map(&[1, 2, 3, 4, 5, 6, 7], 3, |n| n * n);
        assert_eq!(squares, [1, 4, 9, 16, 25, 36, 49]);
        assert!(super::map(&[(); 0], 4, |()| ()).is_empty());
    }
}
