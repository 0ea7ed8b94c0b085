//! The registers that a case starts with: general ones, flags, and an image for `xrstor`.

use std::arch::x86_64::{__cpuid_count, _xgetbv};

use seeded_random::SeededRandom;

/// State components that cases use: x87, SSE, AVX, mask registers, AVX-512.
pub const COMPONENTS: u64 = 0xe7;

/// Offsets in the standard form of the `xsave` area.
#[derive(Clone, Copy, Debug)]
pub struct Areas {
    /// Components that the processor has and the system enables.
    pub components: u64,
    pub avx: usize,
    pub masks: usize,
    pub zmm_high: usize,
    pub zmm_16: usize,
    pub len: usize,
}

impl Areas {
    #[target_feature(enable = "xsave")]
    fn enabled() -> u64 {
        // SAFETY: register 0 exists wherever `xsave` is enabled, which the caller has checked.
        unsafe { _xgetbv(0) }
    }

    pub fn of_this_machine() -> Areas {
        assert!(
            std::is_x86_feature_detected!("xsave"),
            "the processor has no xsave"
        );
        // SAFETY: the feature was just found.
        let components = unsafe { Areas::enabled() } & COMPONENTS;
        let region = |component: u32| {
            if components >> component & 1 == 0 {
                return (0, 0);
            }
            let leaf = __cpuid_count(0xd, component);
            (leaf.ebx as usize, leaf.eax as usize)
        };
        let places = [region(2), region(5), region(6), region(7)];
        let len = places
            .iter()
            .map(|(at, len)| at + len)
            .max()
            .unwrap_or(0)
            .max(576);
        Areas {
            components,
            avx: places[0].0,
            masks: places[1].0,
            zmm_high: places[2].0,
            zmm_16: places[3].0,
            len,
        }
    }

    /// The same area of which only some components are used.
    pub fn limited_to(mut self, components: u64) -> Areas {
        self.components &= components;
        self
    }

    /// The places of the 16-byte pieces of a vector register, lowest first, as far as the machine has them.
    pub fn vector(&self, register: usize) -> Vec<usize> {
        let has = |component: u32| self.components >> component & 1 != 0;
        let mut pieces = Vec::new();
        if register >= 16 {
            if has(7) {
                pieces.extend((0..4).map(|piece| self.zmm_16 + 64 * (register - 16) + 16 * piece));
            }
            return pieces;
        }
        pieces.push(160 + 16 * register);
        if has(2) {
            pieces.push(self.avx + 16 * register);
        }
        if has(6) {
            pieces.extend((0..2).map(|piece| self.zmm_high + 32 * register + 16 * piece));
        }
        pieces
    }

    pub fn mask(&self, register: usize) -> Option<usize> {
        (self.components >> 5 & 1 != 0).then(|| self.masks + 8 * register)
    }
}

/// CF PF AF ZF SF OF DF
pub const FLAGS: u64 = 0x1 | 0x4 | 0x10 | 0x40 | 0x80 | 0x800 | 0x400;

pub fn random_flags(random: &mut SeededRandom) -> u64 {
    let mut flags = random.word() & FLAGS;
    if random.chance(70) {
        flags &= !0x400;
    }
    flags | 0x202
}

pub fn random_mxcsr(random: &mut SeededRandom) -> u32 {
    // All exceptions masked; rounding, flush to zero, denormals are zero at random.
    let mut mxcsr = 0x1f80 | random.word() as u32 & 0xe040;
    if random.chance(50) {
        mxcsr &= !0x8040;
    }
    if random.chance(10) {
        mxcsr &= !(random.word() as u32 & 0x1f80);
    }
    mxcsr
}

pub fn random_x87_control(random: &mut SeededRandom) -> u16 {
    let control =
        0x37f ^ (random.word() as u16 & 0xf00 & if random.chance(50) { 0 } else { 0xffff });
    if random.chance(5) {
        control & !(random.word() as u16 & 0x3f)
    } else {
        control
    }
}

/// An image in the standard form with random contents.
pub fn random_image(random: &mut SeededRandom, areas: &Areas) -> Vec<u8> {
    let mut image = vec![0; areas.len];
    image[0..2].copy_from_slice(&random_x87_control(random).to_le_bytes());
    // The top of the x87 stack; no pending exceptions. The abridged tags.
    image[3] = (random.below(8) as u8) << 3;
    image[4] = if random.chance(60) {
        0xff
    } else {
        random.word() as u8
    };
    image[24..28].copy_from_slice(&random_mxcsr(random).to_le_bytes());
    for register in 0..8 {
        let number = match random.below(4) {
            0 => random.around(1000) as f64,
            1 => f64::from_bits(random.word()),
            _ => random.around(1 << 40) as f64 / 1024.0,
        };
        image[32 + 16 * register..42 + 16 * register].copy_from_slice(&extended(number));
    }
    for register in 0..32 {
        for piece in areas.vector(register) {
            let lanes = &mut image[piece..piece + 16];
            match random.below(4) {
                0 => lanes.chunks_mut(4).for_each(|lane| {
                    lane.copy_from_slice(&(random.around(1 << 20) as f32 / 64.0).to_le_bytes());
                }),
                1 => lanes.chunks_mut(8).for_each(|lane| {
                    lane.copy_from_slice(&(random.around(1 << 40) as f64 / 64.0).to_le_bytes());
                }),
                _ => random.fill(lanes),
            }
        }
    }
    for at in (0..8).filter_map(|register| areas.mask(register)) {
        image[at..at + 8].copy_from_slice(&random.word().to_le_bytes());
    }
    image[512..520].copy_from_slice(&areas.components.to_le_bytes());
    image
}

/// A number in the x87's 80-bit format.
fn extended(number: f64) -> [u8; 10] {
    let bits = number.to_bits();
    let (sign, exponent, fraction) = (bits >> 63, bits >> 52 & 0x7ff, bits << 12 >> 1);
    let (exponent, significand) = match exponent {
        0 => (0, fraction),
        0x7ff => (0x7fff, 1 << 63 | fraction),
        _ => (exponent + 16383 - 1023, 1 << 63 | fraction),
    };
    let mut bytes = [0; 10];
    bytes[..8].copy_from_slice(&significand.to_le_bytes());
    bytes[8..].copy_from_slice(&((sign << 15 | exponent) as u16).to_le_bytes());
    bytes
}
