//! A panic that nobody catches ends the process with 101 and a message.
//!
//! @exit 101

fn main() {
    println!("before");
    let numbers: Vec<i32> = std::env::args().map(|word| word.len() as i32).collect();
    assert!(numbers.len() > 5, "too few: {}", numbers.len());
}
