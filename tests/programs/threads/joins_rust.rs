//! Rust threads that are joined, by handle and by the end of a scope, and one that is not.
//!
//! With an argument, it is the file to which it appends who started whom (`start CHILD PARENT`) and who joined whom
//! (`join JOINER JOINED`).
use std::fs::{File, read_link};
use std::io::Write;
use std::sync::{OnceLock, mpsc};
use std::thread;

static RELATIONS: OnceLock<File> = OnceLock::new();

fn own_id() -> u32 {
    let task = read_link("/proc/thread-self").unwrap();
    task.file_name().unwrap().to_str().unwrap().parse().unwrap()
}

fn relation(verb: &str, first: u32, second: u32) {
    if let Some(mut file) = RELATIONS.get() {
        file.write_all(format!("{verb} {first} {second}\n").as_bytes()).unwrap();
    }
}

fn started(parent: u32) -> u32 {
    let id = own_id();
    relation("start", id, parent);
    id
}

fn main() {
    if let Some(path) = std::env::args_os().nth(1) {
        RELATIONS.set(File::options().create(true).append(true).open(path).unwrap()).unwrap();
    }
    let main = own_id();
    let threads: Vec<_> = (0..8).map(|_| thread::spawn(move || started(main))).collect();
    for thread in threads {
        relation("join", main, thread.join().unwrap());
    }
    // The handle of a thread of a scope joins; the end of the scope alone waits on a counter.
    let inner = thread::scope(|scope| scope.spawn(move || started(main)).join().unwrap());
    relation("join", main, inner);
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || sender.send(started(main)).unwrap());
    receiver.recv().unwrap();
    println!("all joined");
}
