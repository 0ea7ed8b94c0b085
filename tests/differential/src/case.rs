//! A case: code and the state that it starts with. Cases are kept in files, so that all runs execute the same ones.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};

use crate::layout::{ARENA_BYTES, Region};

const MAGIC: &[u8; 8] = b"diffcas1";

#[derive(Clone, Debug)]
pub struct Case {
    /// What the case is about, for people.
    pub title: String,
    /// The slot that the code lies in.
    pub slot: usize,
    pub code: Vec<u8>,
    /// Length of each instruction of straight code; empty if the code branches.
    pub lengths: Vec<u8>,
    pub gpr: [u64; 16],
    pub flags: u64,
    pub fs_base: u64,
    pub gs_base: u64,
    /// For `xrstor`.
    pub image: Vec<u8>,
    /// Bytes of the arena that differ from the common contents: offset and bytes.
    pub patches: Vec<(usize, Vec<u8>)>,
}

/// The cases of one run.
#[derive(Clone, Debug)]
pub struct Cases {
    pub region: Region,
    /// What the arena holds at the start of each case, but for its patches.
    pub arena: Vec<u8>,
    pub cases: Vec<Case>,
}

impl Case {
    /// The arena's contents at the start of the case.
    pub fn contents(&self, arena: &[u8]) -> Vec<u8> {
        let mut contents = arena.to_vec();
        for (at, bytes) in &self.patches {
            contents[*at..at + bytes.len()].copy_from_slice(bytes);
        }
        contents
    }
}

impl Cases {
    pub fn save(&self, path: &Path) -> Result<()> {
        let mut out = Writer(MAGIC.to_vec());
        out.number(
            Region::ALL
                .iter()
                .position(|region| *region == self.region)
                .unwrap_or(0) as u64,
        );
        out.bytes(&self.arena);
        out.number(self.cases.len() as u64);
        for case in &self.cases {
            out.bytes(case.title.as_bytes());
            out.number(case.slot as u64);
            out.bytes(&case.code);
            out.bytes(&case.lengths);
            case.gpr.iter().for_each(|value| out.number(*value));
            [case.flags, case.fs_base, case.gs_base]
                .iter()
                .for_each(|value| out.number(*value));
            out.bytes(&case.image);
            out.number(case.patches.len() as u64);
            for (at, bytes) in &case.patches {
                out.number(*at as u64);
                out.bytes(bytes);
            }
        }
        fs::write(path, out.0).with_context(|| format!("cannot write {}", path.display()))
    }

    pub fn load(path: &Path) -> Result<Cases> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        let mut from = Reader(
            bytes
                .strip_prefix(MAGIC)
                .with_context(|| format!("{}: no cases", path.display()))?,
        );
        let region = *Region::ALL
            .get(from.number()? as usize)
            .context("no such region")?;
        let arena = from.bytes()?.to_vec();
        ensure!(
            arena.len() == ARENA_BYTES,
            "an arena of {} bytes",
            arena.len()
        );
        let count = from.number()?;
        let cases = (0..count).map(|_| from.case()).collect::<Result<_>>()?;
        Ok(Cases {
            region,
            arena,
            cases,
        })
    }
}

/// Appends numbers and byte strings.
#[derive(Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn number(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub fn bytes(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }
}

/// Takes off what a [`Writer`] wrote.
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.0.split_at_checked(len) else {
            bail!("the file is cut off")
        };
        self.0 = rest;
        Ok(taken)
    }

    pub fn number(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into()?))
    }

    pub fn bytes(&mut self) -> Result<&'a [u8]> {
        let len = self.number()? as usize;
        self.take(len)
    }

    fn case(&mut self) -> Result<Case> {
        let title = String::from_utf8(self.bytes()?.to_vec())?;
        let slot = self.number()? as usize;
        let code = self.bytes()?.to_vec();
        let lengths = self.bytes()?.to_vec();
        let mut gpr = [0; 16];
        for value in &mut gpr {
            *value = self.number()?;
        }
        let (flags, fs_base, gs_base) = (self.number()?, self.number()?, self.number()?);
        let image = self.bytes()?.to_vec();
        let patches = (0..self.number()?)
            .map(|_| Ok((self.number()? as usize, self.bytes()?.to_vec())))
            .collect::<Result<_>>()?;
        Ok(Case {
            title,
            slot,
            code,
            lengths,
            gpr,
            flags,
            fs_base,
            gs_base,
            image,
            patches,
        })
    }
}
