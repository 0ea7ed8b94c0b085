//! A system call with its arguments redirected from candidates.
//!
//! Results that the kernel would write into a candidate go to a buffer first and are then stored like
//! any other store, so that order and value are right even if other threads store there. Calls without an entry in
//! [`output`] work on the alias, and what they changed is found by comparing, unless they are known to write
//! nothing.

use crate::arch::instruments::pm::emulate;
use crate::instruments::pm::candidates;
use crate::instruments::pm::kernel::outputs::{BY_ADDRESS, Extent, is_silent, output};
use crate::instruments::pm::kernel::store::{put, record_changes, store};
use crate::sys;
use crate::sys::{is_err, linux};
use crate::translator::context::Context;
use crate::{target_memory, wire};
use alloc::vec::Vec;

/// Bytes compared around an argument of a call that is not in the table.
const WINDOW: u64 = 4096;

/// A result that goes to a buffer first.
struct Bounce {
    /// Where the target has its buffer.
    to: u64,
    buffer: Vec<u8>,
    extent: Extent,
}

pub struct Call {
    nr: u32,
    args: [u64; 6],
    bounces: Vec<Bounce>,
    /// Buffers that are filled one after the other: where the target has them, their length, and ours
    /// for those in candidates.
    scattered: Vec<(u64, u64, Option<Vec<u8>>)>,
    /// Memory before the call: target address, alias, bytes.
    windows: Vec<(u64, u64, Vec<u8>)>,
    /// Rewritten structures, kept alive for the call.
    structures: Vec<Vec<u64>>,
    /// Message headers: the target's, and ours in `structures`.
    headers: Vec<(u64, usize)>,
}

impl Call {
    /// The call with all arguments that point into candidates replaced.
    pub fn redirected(nr: u32, args: [u64; 6]) -> Call {
        let mut call = Call {
            nr,
            args,
            bounces: Vec::new(),
            scattered: Vec::new(),
            windows: Vec::new(),
            structures: Vec::new(),
            headers: Vec::new(),
        };
        call.redirect();
        call
    }

    pub fn args(&self) -> &[u64; 6] {
        &self.args
    }

    /// Replaces arguments that point into candidates.
    fn redirect(&mut self) {
        if BY_ADDRESS.contains(&self.nr) || self.is_plain_futex() {
            return;
        }
        match self.nr {
            linux::__NR_readv
            | linux::__NR_preadv
            | linux::__NR_preadv2
            | linux::__NR_process_vm_readv => {
                self.redirect_vector(1, true);
            }
            linux::__NR_writev | linux::__NR_pwritev | linux::__NR_pwritev2 => {
                self.redirect_vector(1, false)
            }
            linux::__NR_process_vm_writev if self.args[0] == u64::from(sys::getpid()) => {
                self.redirect_vector(3, true)
            }
            linux::__NR_recvmsg | linux::__NR_sendmsg => {
                let at = self.args[1];
                if let Some(copy) = self.redirect_message(at, self.nr == linux::__NR_recvmsg) {
                    self.args[1] = copy;
                }
            }
            _ => {}
        }
        for index in 0..6 {
            let address = self.args[index];
            let Some(mapping) = candidates::find(address) else {
                continue;
            };
            match output(self.nr, index) {
                Some(extent) if mapping.observes(true) => self.bounce(index, extent),
                _ => self.window(index, &mapping),
            }
        }
        if self.nr == linux::__NR_recvmmsg {
            self.redirect_messages();
        }
    }

    /// Waiting on a word needs no right to write it, and both sides must use the same address.
    fn is_plain_futex(&self) -> bool {
        self.nr == linux::__NR_futex && !wire::wants_loads()
    }

    fn bounce(&mut self, index: usize, extent: Extent) {
        let len = match extent {
            Extent::Result { limit } => self.args[limit],
            Extent::Fixed(len) => len,
            Extent::Elements { count, size } | Extent::Array { count, size } => {
                u64::from(self.args[count] as u32) * size
            }
        };
        // Longer requests than memory could hold fail in the kernel anyway.
        let mut buffer = alloc::vec![0u8; len.min(1 << 30) as usize];
        let to = self.args[index];
        if matches!(extent, Extent::Array { .. }) {
            read(to, &mut buffer);
        }
        self.args[index] = buffer.as_mut_ptr() as u64;
        if let Extent::Result { limit } = extent {
            self.args[limit] = buffer.len() as u64;
        }
        self.bounces.push(Bounce { to, buffer, extent });
    }

    fn window(&mut self, index: usize, mapping: &candidates::Candidate) {
        let address = self.args[index];
        let alias = address.wrapping_add(mapping.delta);
        self.args[index] = alias;
        if !is_silent(self.nr) {
            self.compare_later(address, mapping);
        }
    }

    /// Remembers what is at `address`, to find what the kernel changes.
    fn compare_later(&mut self, address: u64, mapping: &candidates::Candidate) {
        let alias = address.wrapping_add(mapping.delta);
        let mut before = alloc::vec![0u8; WINDOW.min(mapping.end - address) as usize];
        let got = target_memory::read_into(alias, &mut before);
        before.truncate(got);
        if mapping.observes(true) {
            self.windows.push((address, alias, before));
        }
    }

    /// Rewrites an array of buffers: candidates go to buffers of ours, or to their aliases.
    fn redirect_buffers(&mut self, at: u64, count: u64, output: bool) -> Option<u64> {
        let mut bytes = alloc::vec![0u8; count.min(1024) as usize * 16];
        if !read(at, &mut bytes) {
            return None;
        }
        let mut vector: Vec<u64> = bytes
            .chunks_exact(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
            .collect();
        for entry in vector.chunks_exact_mut(2) {
            let mapping = candidates::find(entry[0]);
            let bounced = output
                && mapping
                    .as_ref()
                    .is_some_and(|mapping| mapping.observes(true));
            let mut buffer = bounced.then(|| alloc::vec![0u8; entry[1].min(1 << 30) as usize]);
            if output {
                let place = buffer.as_mut().map(|buffer| buffer.as_mut_ptr() as u64);
                self.scattered.push((entry[0], entry[1], buffer));
                entry[0] = place.unwrap_or(entry[0]);
            } else if let Some(mapping) = mapping {
                entry[0] = entry[0].wrapping_add(mapping.delta);
            }
        }
        Some(self.keep(vector))
    }

    fn keep(&mut self, structure: Vec<u64>) -> u64 {
        let at = structure.as_ptr() as u64;
        self.structures.push(structure);
        at
    }

    fn redirect_vector(&mut self, index: usize, output: bool) {
        if let Some(vector) = self.redirect_buffers(self.args[index], self.args[index + 1], output)
        {
            self.args[index] = vector;
        }
    }

    /// A copy of a `struct msghdr` (seven words) with all that it points to out of candidates.
    fn redirect_message(&mut self, at: u64, output: bool) -> Option<u64> {
        let mut header = read_header(at)?;
        header[2] = self.redirect_buffers(header[2], header[3], output)?;
        for pointer in [0, 4] {
            if let Some(mapping) = candidates::find(header[pointer]) {
                self.compare_later(header[pointer], &mapping);
                header[pointer] = header[pointer].wrapping_add(mapping.delta);
            }
        }
        let copy = self.keep(header.to_vec());
        if output {
            self.headers.push((at, self.structures.len() - 1));
        }
        Some(copy)
    }

    /// `recvmmsg`: an array of headers, each with a count behind it. Its buffers work on their aliases.
    fn redirect_messages(&mut self) {
        const STRIDE: u64 = 64;
        for index in 0..self.args[2].min(1024) {
            let at = self.args[1] + index * STRIDE;
            let Some(header) = read_header(at) else {
                return;
            };
            let mut bytes = alloc::vec![0u8; header[3].min(1024) as usize * 16];
            if !read(header[2], &mut bytes) {
                return;
            }
            let mut vector: Vec<u64> = bytes
                .chunks_exact(8)
                .map(|word| u64::from_le_bytes(word.try_into().unwrap_or_default()))
                .collect();
            for entry in vector.chunks_exact_mut(2) {
                if let Some(mapping) = candidates::find(entry[0]) {
                    self.compare_later(entry[0], &mapping);
                    entry[0] = entry[0].wrapping_add(mapping.delta);
                }
            }
            let copy = self.keep(vector);
            // The header is at its alias by now, or the target's own; the kernel reads the pointer from
            // it, and `finish` puts it back.
            if target_memory::write(at + 16, &copy).is_ok() {
                self.structures
                    .push(alloc::vec![RESTORE, at + 16, header[2]]);
            }
        }
    }

    /// After the call: stores the results in the target's buffers.
    pub fn finish(&mut self, context: &mut Context, raw: u64) {
        for structure in &self.structures {
            if let [RESTORE, at, value] = structure[..] {
                // It could be written a moment ago.
                let _ = target_memory::write(at, &value);
            }
        }
        let result = if is_err(raw) { 0 } else { raw };
        for bounce in core::mem::take(&mut self.bounces) {
            let len = match bounce.extent {
                _ if is_err(raw) => 0,
                Extent::Result { .. } => raw,
                Extent::Fixed(len) => len,
                Extent::Elements { size, .. } => raw * size,
                Extent::Array { .. } => bounce.buffer.len() as u64,
            };
            let len = (len as usize).min(bounce.buffer.len());
            store(context, self.nr, bounce.to, &bounce.buffer[..len]);
        }
        let mut left = result;
        for (to, len, buffer) in core::mem::take(&mut self.scattered) {
            let filled = len.min(left);
            left -= filled;
            if let Some(buffer) = buffer {
                store(context, self.nr, to, &buffer[..filled as usize]);
            }
        }
        for (at, index) in core::mem::take(&mut self.headers) {
            let header = &self.structures[index];
            // Length of the name, length of control data, flags.
            for (field, len) in [(1, 4), (5, 8), (6, 4)] {
                let value = header[field].to_le_bytes();
                // The target's header could be read a moment ago.
                let _ = put(context, at + 8 * field as u64, &value[..len]);
            }
        }
        for (address, alias, before) in core::mem::take(&mut self.windows) {
            record_changes(context, self.nr, address, alias, &before);
        }
    }
}

/// Reads the target's memory, candidates included. False if that cannot be done.
fn read(at: u64, bytes: &mut [u8]) -> bool {
    emulate::load_bytes(at, bytes).is_ok()
}

fn read_header(at: u64) -> Option<[u64; 7]> {
    let mut bytes = [0u8; 56];
    read(at, &mut bytes).then(|| {
        core::array::from_fn(|word| {
            u64::from_le_bytes(bytes[8 * word..8 * word + 8].try_into().unwrap_or_default())
        })
    })
}

/// Marks an entry of `Call::structures` that says what to restore.
const RESTORE: u64 = u64::MAX;
