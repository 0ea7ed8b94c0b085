//! Expressions of programs that share parts or go deep: they take time and memory in proportion to the instructions.

use super::*;
use BinaryOperation as Op;

fn bytes(dag: &mut Dag, count: u32) -> Vec<Expr> {
    let values = (0..count).map(|it| (it, it.wrapping_mul(37) as u8));
    values
        .map(|(index, value)| dag.variable(Variable(index), value))
        .collect()
}

/// CRC-32 bit by bit, as compilers translate `crc = crc & 1 ? crc >> 1 ^ POLYNOMIAL : crc >> 1` with a conditional move.
fn crc32(dag: &mut Dag, input: &[Expr]) -> Expr {
    let mut crc = dag.constant(32, u128::from(u32::MAX));
    let polynomial = dag.constant(32, 0xedb8_8320);
    let one = dag.constant(32, 1);
    for &byte in input {
        let byte = dag.zero_extend(byte, 32);
        crc = dag.xor(crc, byte);
        for _ in 0..8 {
            let half = dag.binary(Op::Lshr, crc, one);
            let reduced = dag.xor(half, polynomial);
            let low = dag.and(crc, one);
            let is_even = dag.is_zero(low);
            crc = dag.select(is_even, half, reduced);
        }
    }
    dag.not(crc)
}

#[test]
fn a_checksum_with_conditional_moves_takes_linear_space() {
    let mut sizes = Vec::new();
    for count in [64, 128] {
        let mut dag = Dag::default();
        let input = bytes(&mut dag, count);
        let crc = crc32(&mut dag, &input);
        let plain: Vec<u8> = input.iter().map(|&it| dag.value(it) as u8).collect();
        assert_eq!(dag.value(crc), u128::from(crc32fast::hash(&plain)));
        sizes.push(dag.len());
    }
    assert!(sizes[1] < 3 * sizes[0], "{sizes:?}");
    assert!(sizes[1] < 400_000, "{sizes:?}");
}

/// Three words mixed by subtractions, rotations and exclusive ors, each of which uses the one before twice.
#[test]
fn a_hash_that_mixes_words_takes_linear_space() {
    let mut sizes = Vec::new();
    for rounds in [100, 200] {
        let mut dag = Dag::default();
        let input = bytes(&mut dag, 12);
        let mut words: Vec<Expr> = Vec::new();
        for part in input.chunks(4) {
            let word = part.iter().copied();
            words.push(word.reduce(|low, high| dag.concat(high, low)).unwrap());
        }
        for round in 0..rounds {
            let (a, b, c) = (round % 3, (round + 1) % 3, (round + 2) % 3);
            let distance = [4, 6, 8, 16, 19, 4][round % 6];
            let difference = dag.sub(words[a], words[c]);
            let (over, under) = (
                dag.extract(words[c], 0, 32 - distance),
                dag.extract(words[c], 32 - distance, distance),
            );
            let rotated = dag.concat(over, under);
            words[a] = dag.xor(difference, rotated);
            words[c] = dag.add_of(words[c], words[b]);
        }
        let low = dag.extract(words[0], 0, 8);
        assert_eq!(dag.value(low), dag.value(words[0]) & 0xff);
        sizes.push(dag.len());
    }
    assert!(sizes[1] < 3 * sizes[0], "{sizes:?}");
    assert!(sizes[1] < 400_000, "{sizes:?}");
}

#[test]
fn a_long_chain_is_built_and_taken_apart_without_deep_recursion() {
    const STEPS: usize = 100_000;
    let mut dag = Dag::default();
    let input = bytes(&mut dag, 8);
    let (mut sum, mut negated, mut turned) = {
        let wide = dag.zero_extend(input[0], 64);
        (wide, wide, wide)
    };
    for step in 0..STEPS {
        let next = dag.zero_extend(input[step % 8], 64);
        let (distance, constant) = (
            dag.constant(64, (step % 5) as u128),
            dag.constant(64, step as u128),
        );
        let shifted = dag.binary(Op::Shl, next, distance);
        sum = dag.xor(sum, shifted);
        sum = dag.add_of(sum, next);
        negated = dag.sub(constant, negated);
        turned = dag.not(turned);
        turned = dag.add_of(turned, constant);
    }
    for (whole, low) in [(sum, 0), (negated, 8), (turned, 3), (sum, 17)] {
        let part = dag.extract(whole, low, 8);
        assert_eq!(dag.value(part), dag.value(whole) >> low & 0xff);
        let wanted = dag.constant(64, 77);
        let same = dag.eq(whole, wanted);
        assert_eq!(dag.value(same), u128::from(dag.value(whole) == 77));
        assert_eq!(
            dag.variables(part).is_empty(),
            dag.constant_value(part).is_some()
        );
    }
    assert!(dag.len() < 20 * STEPS, "{}", dag.len());
}

#[test]
fn what_is_extracted_in_parts_is_joined_again() {
    let mut dag = Dag::default();
    let input = bytes(&mut dag, 8);
    let word = input.iter().copied();
    let word = word.reduce(|low, high| dag.concat(high, low)).unwrap();
    let parts: Vec<Expr> = (0..8).map(|it| dag.extract(word, 8 * it, 8)).collect();
    assert_eq!(parts, input);
    let again = parts.into_iter().reduce(|low, high| dag.concat(high, low));
    assert_eq!(again, Some(word));
}
