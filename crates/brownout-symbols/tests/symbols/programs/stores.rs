//! Stores through Rust references and pointers, and into enumerations.

use std::hint::black_box;

#[repr(C)]
pub struct Node {
    pub key: u64,
    pub next: *mut Node,
    pub value: Value,
}

#[repr(C, u32)]
pub enum Value {
    Nothing,
    Number(u64),
    Range { start: u64, end: u64 },
}

#[inline(never)]
#[unsafe(no_mangle)]
pub fn set_key(node: &mut Node, key: u64) {
    node.key = key;
}

#[inline(never)]
#[unsafe(no_mangle)]
pub fn set_end(node: &mut Node, new: u64) {
    if let Value::Range { end, .. } = &mut node.value {
        *end = new;
    }
}

#[inline(never)]
#[unsafe(no_mangle)]
pub unsafe fn set_next(node: *mut Node, new: *mut Node) {
    unsafe { (*(*node).next).next = new }
}

fn main() {
    let mut other = Node {
        key: 1,
        value: Value::Range { start: 2, end: 3 },
        next: std::ptr::null_mut(),
    };
    let mut node = Node {
        key: 1,
        value: Value::Number(2),
        next: &mut other,
    };
    set_key(black_box(&mut node), 2);
    set_end(black_box(&mut other), 4);
    unsafe { set_next(black_box(&mut node), std::ptr::null_mut()) };
    node.value = Value::Nothing;
    black_box(&mut node);
}
