//! The initial stack: arguments, environment, auxiliary vector.
//!
//! The loader was executed with the target's own arguments and environment plus one variable. The
//! kernel's stack can therefore be the target's, once that variable is out and the auxiliary vector
//! speaks of the target instead of the loader. Process titles, stack growth and limits then work as
//! without the engine.

use crate::translator::load::Image;
use alloc::ffi::CString;
use core::ffi::CStr;
use linux_raw_sys::auxvec;

/// The words the kernel put at the stack pointer.
pub struct InitialStack {
    argc: *mut u64,
}

impl InitialStack {
    /// # Safety
    /// `stack` must be the stack pointer at the process's first instruction.
    pub unsafe fn new(stack: *mut u64) -> InitialStack {
        InitialStack { argc: stack }
    }

    pub fn pointer(&self) -> u64 {
        self.argc as u64
    }

    fn word(&self, index: usize) -> u64 {
        // SAFETY: callers stay within the vectors, whose ends the kernel marked.
        unsafe { *self.argc.add(index) }
    }

    fn set_word(&self, index: usize, value: u64) {
        // SAFETY: as above.
        unsafe { *self.argc.add(index) = value };
    }

    pub fn argc(&self) -> usize {
        self.word(0) as usize
    }

    /// Pointers to the arguments.
    pub fn arguments(&self) -> impl Iterator<Item = &'static CStr> + '_ {
        (1..=self.argc()).map(|at| self.string(at))
    }

    fn environment_start(&self) -> usize {
        self.argc() + 2
    }

    fn string(&self, index: usize) -> &'static CStr {
        // SAFETY: the kernel made these words pointers to strings on the stack that nothing moves.
        unsafe { CStr::from_ptr(self.word(index) as *const core::ffi::c_char) }
    }

    fn environment_end(&self) -> usize {
        (self.environment_start()..)
            .find(|&at| self.word(at) == 0)
            .unwrap_or(0)
    }

    /// Pointers to the environment's strings.
    pub fn environment(&self) -> impl Iterator<Item = &'static CStr> + '_ {
        (self.environment_start()..self.environment_end()).map(|at| self.string(at))
    }

    /// Takes the variable `name` out of the environment and returns its value. Its text goes, too:
    /// `/proc/self/environ` shows it.
    pub fn take_variable(&self, name: &str) -> Option<CString> {
        let is_it = |at: &usize| {
            let text = self.string(*at).to_bytes();
            text.strip_prefix(name.as_bytes())
                .is_some_and(|rest| rest.first() == Some(&b'='))
        };
        let at = (self.environment_start()..self.environment_end()).find(is_it)?;
        let text = self.string(at);
        // Everything behind moves down by one word, auxiliary vector included.
        let end = self.auxiliary_end();
        for index in at..end {
            self.set_word(index, self.word(index + 1));
        }
        self.set_word(end, 0);
        let value = CString::new(text.to_bytes().get(name.len() + 1..)?).ok()?;
        // SAFETY: the string is on the stack, and nothing refers to it any more.
        unsafe { core::ptr::write_bytes(text.as_ptr().cast_mut(), 0, text.count_bytes()) };
        Some(value)
    }

    /// Index of the last word of the auxiliary vector.
    fn auxiliary_end(&self) -> usize {
        let start = self.environment_end() + 1;
        (start..)
            .step_by(2)
            .find(|&at| self.word(at) == 0)
            .map_or(start, |at| at + 1)
    }

    fn auxiliary_index(&self, kind: u32) -> Option<usize> {
        let start = self.environment_end() + 1;
        (start..self.auxiliary_end())
            .step_by(2)
            .find(|&at| self.word(at) == u64::from(kind))
    }

    /// The auxiliary vector, its end included.
    pub fn auxiliary_vector(&self) -> &[u64] {
        let (start, end) = (self.environment_end() + 1, self.auxiliary_end() + 1);
        // SAFETY: the words between the marks the kernel made.
        unsafe { core::slice::from_raw_parts(self.argc.add(start), end - start) }
    }

    pub fn auxiliary(&self, kind: u32) -> Option<u64> {
        self.auxiliary_index(kind).map(|at| self.word(at + 1))
    }

    fn set_auxiliary(&self, kind: u32, value: u64) {
        if let Some(at) = self.auxiliary_index(kind) {
            self.set_word(at + 1, value);
        }
    }

    /// Replaces the random bytes that the kernel gives each program by bytes that are the same in each run.
    pub fn pin_random_bytes(&self) {
        const RANDOM_BYTES: [u8; 16] = *b"brownout\x9e\x37\x79\xb9\x7f\x4a\x7c\x15";
        if let Some(at) = self.auxiliary(auxvec::AT_RANDOM).filter(|&at| at != 0) {
            // SAFETY: the kernel has put 16 bytes there, on the stack, and nothing has used them yet.
            unsafe { core::ptr::copy_nonoverlapping(RANDOM_BYTES.as_ptr(), at as *mut u8, 16) };
        }
    }

    /// The program does not find the vDSO.
    pub fn hide_vdso(&self) {
        if let Some(at) = self.auxiliary_index(auxvec::AT_SYSINFO_EHDR) {
            self.set_word(at, u64::from(auxvec::AT_IGNORE));
        }
    }

    /// Makes the auxiliary vector speak of the target.
    pub fn describe(&self, program: &Image, interpreter_base: u64, path: &CStr, vdso: Option<u64>) {
        self.set_auxiliary(auxvec::AT_PHDR, program.headers);
        self.set_auxiliary(auxvec::AT_PHNUM, program.header_count);
        self.set_auxiliary(auxvec::AT_BASE, interpreter_base);
        self.set_auxiliary(auxvec::AT_ENTRY, program.entry);
        self.set_auxiliary(auxvec::AT_EXECFN, path.as_ptr() as u64);
        if let Some(vdso) = vdso {
            self.set_auxiliary(auxvec::AT_SYSINFO_EHDR, vdso);
        }
    }
}
