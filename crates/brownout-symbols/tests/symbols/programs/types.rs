//! Types of Rust: structs, tuples, enumerations with and without data.

use std::hint::black_box;

#[repr(C)]
pub struct Node {
    pub key: u64,
    pub value: Value,
    pub next: *mut Node,
    pub pair: (u32, u32),
}

#[repr(C, u32)]
pub enum Value {
    Nothing,
    Number(u64),
    Range { start: u64, end: u64 },
}

fn main() {
    let mut node = Node {
        key: 1,
        value: Value::Range { start: 2, end: 3 },
        next: std::ptr::null_mut(),
        pair: (4, 5),
    };
    black_box(&mut node);
    node.value = Value::Number(7);
    black_box(&mut node);
    node.value = Value::Nothing;
    black_box(&mut node);
}
