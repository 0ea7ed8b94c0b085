//! Instructions whose results are not the same in each run.

use brownout_ring::input;
use iced_x86::{Instruction, Mnemonic};

/// What an instruction uses that is not the same in each run, by [`input`].
pub fn input_of(insn: &Instruction) -> Option<u32> {
    match insn.mnemonic() {
        Mnemonic::Rdtsc | Mnemonic::Rdtscp => Some(input::TIME),
        Mnemonic::Rdrand | Mnemonic::Rdseed => Some(input::RANDOM),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions};

    fn of(bytes: &[u8]) -> Option<u32> {
        input_of(&Decoder::new(64, bytes, DecoderOptions::NONE).decode())
    }

    #[test]
    fn clocks_and_random_numbers_are_inputs() {
        assert_eq!(of(&[0x0f, 0x31]), Some(input::TIME), "rdtsc");
        assert_eq!(of(&[0x0f, 0x01, 0xf9]), Some(input::TIME), "rdtscp");
        assert_eq!(of(&[0x0f, 0xc7, 0xf0]), Some(input::RANDOM), "rdrand eax");
        assert_eq!(of(&[0x0f, 0xc7, 0xf8]), Some(input::RANDOM), "rdseed eax");
        assert_eq!(of(&[0x90]), None);
    }
}
