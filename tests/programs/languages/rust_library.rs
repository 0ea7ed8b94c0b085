//! The Rust library at work: collections, threads, channels, processes, files, formatting.
use std::collections::{BTreeMap, HashMap};
use std::io::Write;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let shared = Arc::new(Mutex::new(BTreeMap::new()));
    let (sender, receiver) = mpsc::channel();
    for number in 0..8u64 {
        let (shared, sender) = (shared.clone(), sender.clone());
        std::thread::spawn(move || {
            for step in 0..500u64 {
                *shared.lock().unwrap().entry(step % 50).or_insert(0) += number * step;
            }
            sender.send(number).unwrap();
        });
    }
    drop(sender);
    let mut finished: Vec<u64> = receiver.iter().collect();
    finished.sort();
    println!("{finished:?} {:?}", shared.lock().unwrap().iter().max_by_key(|(_, value)| **value));
    let words: HashMap<String, usize> = (0..1000).map(|n| (format!("w{n}"), n)).collect();
    println!("{}", words.values().sum::<usize>());
    let mut child = Command::new("tr").args(["a-z", "A-Z"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    child.stdin.take().unwrap().write_all(b"to upper case")?;
    println!("{}", String::from_utf8(child.wait_with_output()?.stdout)?);
    println!("{:?}", Command::new("./nowhere").status().unwrap_err().kind());
    std::fs::write("made", format!("{:>10.3e}|{:#x}|{:?}", 12345.678, 255, "q\"uote"))?;
    Ok(())
}
