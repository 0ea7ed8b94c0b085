//! Tiles (AMX) that are stored to candidates or loaded from them: rows with a stride between them.
//!
//! The runtime lets the CPU store the tile to memory of its own, and stores the rows from there; loads go the other way.

use super::effective_address::effective_address;
use crate::arch::instruments::pm::emulate::{BadAccess, load, store_bytes};
use crate::arch::translator::translate::number;
use crate::instruments::pm::site::PmSite;
use crate::translator::context::Context;
use core::arch::asm;
use iced_x86::Register;

const ROW: usize = 64;
const ROWS: usize = 16;

/// A tile in memory, row by row.
#[repr(C, align(64))]
struct Rows([[u8; ROW]; ROWS]);

/// What the configuration says about a tile.
struct Shape {
    rows: usize,
    row_bytes: usize,
    /// Rows that were done when the instruction faulted.
    done: usize,
}

/// The shape of a tile. Without one the instruction is undefined.
fn shape(tile: Register) -> Result<Shape, BadAccess> {
    #[repr(C, align(64))]
    struct Config([u8; 64]);
    const START_ROW: usize = 1;
    const ROW_BYTES: usize = 16;
    const ROW_COUNTS: usize = 48;
    let mut config = Config([0; 64]);
    // SAFETY: stores 64 bytes; the target has executed an instruction on tiles, so the CPU has them.
    unsafe { asm!("sttilecfg [{}]", in(reg) config.0.as_mut_ptr(), options(nostack)) };
    let index = tile.number();
    let row_bytes = &config.0[ROW_BYTES + 2 * index..ROW_BYTES + 2 * index + 2];
    let shape = Shape {
        rows: usize::from(config.0[ROW_COUNTS + index]).min(ROWS),
        row_bytes: usize::from(row_bytes[0]).min(ROW),
        done: usize::from(config.0[START_ROW]),
    };
    if shape.rows == 0 || shape.row_bytes == 0 {
        return Err(BadAccess::Undefined);
    }
    Ok(shape)
}

/// An instruction on a tile, whose number must be known to the assembler, with rows 64 bytes apart.
macro_rules! with_tile {
    ($before:literal, $after:literal, $tile:expr, $rows:expr) => {{
        macro_rules! run {
            ($name:literal) => {
                // SAFETY: the target has executed an instruction on tiles, so the CPU has them; the memory is a local
                // variable that is large enough.
                unsafe {
                    asm!(concat!($before, $name, $after), base = in(reg) $rows, stride = in(reg) ROW,
                         options(nostack))
                }
            };
        }
        match $tile {
            Register::TMM0 => run!("tmm0"),
            Register::TMM1 => run!("tmm1"),
            Register::TMM2 => run!("tmm2"),
            Register::TMM3 => run!("tmm3"),
            Register::TMM4 => run!("tmm4"),
            Register::TMM5 => run!("tmm5"),
            Register::TMM6 => run!("tmm6"),
            _ => run!("tmm7"),
        }
    }};
}

/// Where the first row is, and how far the others are from each other.
fn place(context: &Context, site: &PmSite) -> (u64, u64) {
    let insn = &site.insn;
    let stride = match insn.memory_index() {
        Register::None => 0,
        index => context.cpu.gpr[usize::from(number(index))]
            .wrapping_mul(u64::from(insn.memory_index_scale())),
    };
    (
        effective_address(insn, context).wrapping_sub(stride),
        stride,
    )
}

/// `tilestored`.
pub fn store(context: &mut Context, site: &PmSite) -> Result<(), BadAccess> {
    let tile = site.insn.op1_register();
    let Shape {
        rows,
        row_bytes,
        done,
    } = shape(tile)?;
    let (first, stride) = place(context, site);
    let mut copy = Rows([[0; ROW]; ROWS]);
    with_tile!(
        "tilestored [{base} + {stride}*1], ",
        "",
        tile,
        copy.0.as_mut_ptr()
    );
    for row in done..rows {
        let at = first.wrapping_add(stride.wrapping_mul(row as u64));
        store_bytes(context, 0, at, &copy.0[row][..row_bytes])?;
    }
    Ok(())
}

/// `tileloadd`, `tileloaddt1`.
pub fn fill(context: &mut Context, site: &PmSite) -> Result<(), BadAccess> {
    let tile = site.insn.op0_register();
    let Shape {
        rows,
        row_bytes,
        done,
    } = shape(tile)?;
    let (first, stride) = place(context, site);
    let mut copy = Rows([[0; ROW]; ROWS]);
    for row in done..rows {
        let at = first.wrapping_add(stride.wrapping_mul(row as u64));
        load(context, at, &mut copy.0[row][..row_bytes])?;
    }
    with_tile!(
        "tileloadd ",
        ", [{base} + {stride}*1]",
        tile,
        copy.0.as_ptr()
    );
    Ok(())
}
