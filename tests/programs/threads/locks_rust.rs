//! Locks of the Rust standard library, whose fast paths are inlined.
//!
//! With an argument, it is a directory for a file that is mapped, as for `locks_atomic.c`.
use std::ffi::c_void;
use std::fs::OpenOptions;
use std::os::fd::AsRawFd;
use std::sync::{Mutex, RwLock};
use std::{env, process, ptr, thread};

unsafe extern "C" {
    fn mmap(at: *mut c_void, len: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut c_void;
}

struct Words(*mut u64);
unsafe impl Sync for Words {}

impl Words {
    fn begins(&self, number: u64) {
        unsafe { self.0.write_volatile(number) }
    }

    fn store(&self) {
        unsafe { self.0.add(8).write_volatile(self.0.add(8).read_volatile() + 1) }
    }
}

fn main() {
    let directory = env::args_os().nth(1);
    let path = match &directory {
        Some(directory) => std::path::Path::new(directory).join("file"),
        None => env::temp_dir().join(format!("locks_rust.{}", process::id())),
    };
    let file = OpenOptions::new().read(true).write(true).create(true).truncate(true).open(&path).unwrap();
    file.set_len(4096).unwrap();
    let at = unsafe { mmap(ptr::null_mut(), 4096, 3, 1, file.as_raw_fd(), 0) };
    assert_ne!(at as isize, -1);
    if directory.is_none() {
        std::fs::remove_file(&path).unwrap();
    }
    let words = Words(at.cast());

    words.begins(1);
    let mutex = Mutex::new(0);
    for _ in 0..2 {
        let mut held = mutex.lock().unwrap();
        words.store();
        *held += 1;
        drop(held);
        words.store();
    }

    words.begins(2);
    let both = RwLock::new(0);
    let reader = both.read().unwrap();
    words.store();
    drop(reader);
    words.store();
    let writer = both.write().unwrap();
    words.store();
    drop(writer);
    words.store();

    words.begins(3);
    let held = mutex.lock().unwrap();
    words.store();
    assert!(mutex.try_lock().is_err());
    words.store();
    drop(held);
    words.store();

    // Another thread waits while the lock is held, and marks it.
    words.begins(4);
    let held = mutex.lock().unwrap();
    words.store();
    thread::scope(|scope| {
        scope.spawn(|| *mutex.lock().unwrap() += 1);
        while !is_waiting(&mutex) {
            thread::yield_now();
        }
        words.store();
        drop(held);
        words.store();
    });
    assert_eq!(*mutex.lock().unwrap(), 3);
    words.begins(0);
    println!("done");
}

/// The first word of a mutex is 2 while a thread waits for it.
fn is_waiting(mutex: &Mutex<i32>) -> bool {
    let word = ptr::from_ref(mutex).cast::<u32>();
    unsafe { word.read_volatile() == 2 }
}
