//! Tables, code and stacks that lie: a made-up module, whole and then with bytes changed at random.

use crate::instruments::unwind::{
    CodeMap, ContextNumber, ContextTree, Memory, Registers, StackCache, Unwinder,
};
use crate::translator::space::ModuleAt;

const BASE: u64 = 0x40_0000;
const CODE: usize = 0x200;
const HEADER: usize = 0x400;
const EH_FRAME: usize = 0x500;
const IMAGE_BYTES: usize = 0x800;
const STACK: u64 = 0x7fff_0000;
const STACK_WORDS: usize = 64;

/// A module of three functions, and a stack.
struct Image {
    bytes: Vec<u8>,
    stack: Vec<u64>,
}

/// One function: where its code starts and ends, and its frame description's instructions.
struct Function {
    code: std::ops::Range<usize>,
    instructions: &'static [u8],
}

const FUNCTIONS: [Function; 3] = [
    // push %rbp; mov %rsp, %rbp: rbp is saved, then the CFA is rbp + 16.
    Function {
        code: CODE..CODE + 0x40,
        instructions: &[0x41, 0x0e, 0x10, 0x86, 0x02, 0x43, 0x0d, 0x06],
    },
    // Realigned: the CFA is the word at rbp - 8, rbp is saved where rbp points.
    Function {
        code: CODE + 0x40..CODE + 0x80,
        instructions: &[0x0f, 0x03, 0x76, 0x78, 0x06, 0x10, 0x06, 0x02, 0x76, 0x00],
    },
    // Procedure linkage: rsp + 8, and 8 more in the last five bytes of each sixteen.
    Function {
        code: CODE + 0x80..CODE + 0xc0,
        instructions: &[
            0x0f, 0x0b, 0x77, 0x08, 0x80, 0x00, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22,
        ],
    },
];

impl Image {
    fn new(with_header: bool) -> Self {
        let mut bytes = vec![0; IMAGE_BYTES];
        let mut put = |at: usize, data: &[u8]| bytes[at..at + data.len()].copy_from_slice(data);
        put(0, b"\x7fELF\x02\x01");
        put(32, &64_u64.to_le_bytes());
        put(54, &56_u16.to_le_bytes());
        put(56, &(1 + u16::from(with_header)).to_le_bytes());
        let mut segment = |index: usize, kind: u32, offset: usize, len: usize| {
            let at = 64 + index * 56;
            put(at, &kind.to_le_bytes());
            put(at + 4, &5_u32.to_le_bytes());
            put(at + 8, &(offset as u64).to_le_bytes());
            put(at + 16, &(BASE + offset as u64).to_le_bytes());
            put(at + 32, &(len as u64).to_le_bytes());
        };
        segment(0, 1, 0, IMAGE_BYTES);
        segment(1, 0x6474_e550, HEADER, 12 + FUNCTIONS.len() * 8);
        put(CODE, &[0xe8; 0xc0]);

        let relative = |to: usize, from: usize| (to as i32 - from as i32).to_le_bytes();
        put(HEADER, &[1, 0x1b, 0x03, 0x3b]);
        put(HEADER + 4, &relative(EH_FRAME, HEADER + 4));
        put(HEADER + 8, &(FUNCTIONS.len() as u32).to_le_bytes());
        // The CFA is rsp + 8, the return address the word below.
        put(
            EH_FRAME,
            &[
                0x14, 0, 0, 0, 0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 0x10, 1, 0x1b,
            ],
        );
        put(EH_FRAME + 17, &[0x0c, 0x07, 0x08, 0x90, 0x01]);
        let mut at = EH_FRAME + 24;
        for (index, function) in FUNCTIONS.iter().enumerate() {
            let entry = HEADER + 12 + index * 8;
            put(entry, &relative(function.code.start, HEADER));
            put(entry + 4, &relative(at, HEADER));
            put(at, &0x24_u32.to_le_bytes());
            put(at + 4, &relative(at + 4, EH_FRAME));
            put(at + 8, &relative(function.code.start, at + 8));
            put(at + 12, &(function.code.len() as u32).to_le_bytes());
            put(at + 17, function.instructions);
            at += 0x28;
        }
        Self {
            bytes,
            stack: vec![0; STACK_WORDS],
        }
    }

    fn context(&self, regs: &Registers) -> Vec<u64> {
        let (mut unwinder, mut tree) = (Unwinder::new(), ContextTree::new());
        let mut stack = StackCache::new();
        let mut ask =
            || unwinder.context(regs, self, self, &mut stack, &mut tree, &mut |_, _, _| {});
        let context: ContextNumber = ask();
        assert_eq!(context, ask(), "a walk gives the same result again");
        tree.return_addresses(context).collect()
    }
}

impl Memory for Image {
    fn read_u64(&self, addr: u64) -> Option<u64> {
        let offset = addr.checked_sub(STACK)?;
        if offset % 8 != 0 {
            return None;
        }
        self.stack.get(usize::try_from(offset / 8).ok()?).copied()
    }

    fn slice(&self, addr: u64, len: usize) -> Option<&[u8]> {
        let at = usize::try_from(addr.checked_sub(BASE)?).ok()?;
        self.bytes.get(at..at.checked_add(len)?)
    }
}

impl CodeMap for Image {
    fn epoch(&self) -> u32 {
        1
    }
    fn module_at(&self, pc: u64) -> Option<ModuleAt> {
        self.is_code(pc).then_some(ModuleAt {
            base: BASE,
            generation: 1,
        })
    }
    fn is_code(&self, pc: u64) -> bool {
        (BASE + CODE as u64..BASE + CODE as u64 + 0xc0).contains(&pc)
    }
}

fn code(offset: u64) -> u64 {
    BASE + CODE as u64 + offset
}

fn slot(index: u64) -> u64 {
    STACK + index * 8
}

/// Registers in the body of the first function, and a stack with all three of them on it.
fn all_three(image: &mut Image) -> Registers {
    let mut regs = Registers {
        pc: code(0x10),
        gpr: [0; 16],
    };
    regs.gpr[4] = slot(0);
    regs.gpr[5] = slot(4);
    // The first function's frame: saved rbp, return to the second.
    image.stack[4] = slot(10);
    image.stack[5] = code(0x50);
    // The second's: its CFA is kept below its rbp.
    image.stack[9] = slot(14);
    image.stack[10] = 0x1234;
    image.stack[13] = code(0x8f);
    // The third's, in the last bytes of sixteen: two words.
    image.stack[15] = code(0x20);
    // There rbp is no pointer, so that nothing can be read.
    regs
}

#[test]
fn the_module_as_made() {
    for with_header in [true, false] {
        let mut image = Image::new(with_header);
        let regs = all_three(&mut image);
        assert_eq!(image.context(&regs), [code(0x50), code(0x8f), code(0x20)]);
    }
}

#[test]
fn procedure_linkage_before_its_push() {
    let mut image = Image::new(true);
    let mut regs = Registers {
        pc: code(0x80),
        gpr: [0; 16],
    };
    regs.gpr[4] = slot(3);
    image.stack[3] = code(0x50);
    assert_eq!(image.context(&regs), [code(0x50)]);
}

#[test]
fn a_return_address_that_is_no_code_ends_the_chain() {
    let mut image = Image::new(true);
    let regs = all_three(&mut image);
    image.stack[13] = 0xdead_beef;
    assert_eq!(image.context(&regs), [code(0x50)]);
}

/// A cheap source of chance.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }
}

#[test]
fn no_byte_of_the_module_can_do_harm() {
    let mut chance = Chance(0x1234_5678_9abc_def1);
    for round in 0..1500 {
        let mut image = Image::new(round % 2 == 0);
        let mut regs = all_three(&mut image);
        for _ in 0..=chance.below(8) {
            // Mostly the tables, sometimes headers and code.
            let (from, len) =
                [(0, IMAGE_BYTES), (HEADER, 0x200), (EH_FRAME, 0x90)][chance.below(3)];
            let value = [0, 0x7f, 0x80, 0xff, chance.below(256)][chance.below(5)];
            image.bytes[from + chance.below(len)] = value as u8;
        }
        regs.pc = code(chance.below(0xc0) as u64);
        image.context(&regs);
    }
}

#[test]
fn no_word_of_the_stack_can_do_harm() {
    let mut chance = Chance(0xfeed_5678_9abc_def1);
    for _ in 0..500 {
        let mut image = Image::new(true);
        for word in &mut image.stack {
            *word = match chance.below(4) {
                0 => code(chance.below(0xd0) as u64),
                1 => slot(chance.below(STACK_WORDS + 2) as u64),
                2 => u64::MAX - chance.below(16) as u64,
                _ => chance.below(16) as u64,
            };
        }
        let mut regs = Registers {
            pc: code(chance.below(0xc0) as u64),
            gpr: [0; 16],
        };
        for register in &mut regs.gpr {
            *register = slot(chance.below(STACK_WORDS) as u64);
        }
        assert!(image.context(&regs).len() <= crate::instruments::unwind::stack::MAX_WALK + 1);
    }
}
