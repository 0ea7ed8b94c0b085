//! The start of a process: loads the target and begins to translate it.

use crate::arch;
use crate::arch::translator::{cpu_features, gate};
use crate::hooks;
use crate::memory::{PAGE, page_down};
use crate::sys;
use crate::sys::{is_err, linux};
use crate::translator::cache::TRANSLATOR;
use crate::translator::context::Context;
use crate::translator::load;
use crate::translator::load::{Image, InitialStack, Refusal};
use crate::translator::signal;
use crate::translator::signal::Actions;
use crate::translator::space::SPACE;
use crate::translator::translate::Translator;
use crate::translator::{process, syscall};
use crate::{fatal, wire};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ffi::CStr;
use core::fmt::{self, Display};
use linux_raw_sys::auxvec;

// SAFETY: a section of zeroed memory, which the loader's layout puts behind what is written often.
#[unsafe(link_section = ".bss.tables")]
static ACTIONS: Actions = Actions::new();

/// Starts the program that the wire variable names. `stack` is the initial stack pointer.
///
/// # Safety
/// To be called once, by the process's first instruction.
pub unsafe fn start(stack: *mut u64) -> ! {
    // SAFETY: the caller's promise.
    let stack = unsafe { InitialStack::new(stack) };
    let hwcap2 = stack.auxiliary(auxvec::AT_HWCAP2).unwrap_or(0);
    if let Some(feature) = cpu_features::missing_feature(hwcap2) {
        fatal::unsupported(format_args!(
            "this machine lacks {feature}, which brownout needs: use Linux 5.9 or later on a CPU of 2013 or later, \
             and enable the feature if the kernel command line or the hypervisor disables it"
        ));
    }
    let Some(value) = stack.take_variable(brownout_ring::ENV) else {
        fatal::unsupported(format_args!(
            "this file is brownout's loader; run `brownout record -- PROGRAM` instead"
        ));
    };
    // The auxiliary vector points to the path for as long as the process lives.
    let Some((fd, path)) = parse(Box::leak(value.into_boxed_c_str())) else {
        fatal::unsupported(format_args!(
            "the variable {} is damaged",
            brownout_ring::ENV
        ));
    };
    if !wire::attach(fd) {
        fatal::unsupported(format_args!("descriptor {fd} is not brownout's wire"));
    }
    if hooks::fixes_random_bytes() {
        stack.pin_random_bytes();
    }
    process::protect_descriptor(fd);
    *TRANSLATOR.lock() = Some(Translator::new());
    hooks::create();
    signal::find_state_components();

    let program = open_and_map(path, &stack);
    let interpreter = program
        .interpreter
        .clone()
        .map(|name| (open_and_map(&name, &stack), name));
    if program.executable_stack {
        make_stack_executable();
    }
    if hooks::hides_vdso() {
        stack.hide_vdso();
    }
    let vdso = stack.auxiliary(auxvec::AT_SYSINFO_EHDR).and_then(move_vdso);
    let base = interpreter.as_ref().map_or(0, |(image, _)| image.bias);
    stack.describe(&program, base, path, vdso);
    process::set_auxiliary(stack.auxiliary_vector());
    set_name(path);
    process::set_executable(path);

    let context = Context::create();
    // SAFETY: fresh, and this is its thread.
    let context = unsafe { &mut *context };
    // SAFETY: contexts are never freed while their thread runs.
    unsafe { context.install() };
    ACTIONS.inherit();
    context.actions = &raw const ACTIONS;
    context.tid = sys::gettid();
    context.mask = sys::set_mask(!0);
    process::register(context);
    signal::install_for_thread(context);
    for signal in [signal::SIGSEGV, signal::SIGBUS, signal::SIGTRAP] {
        signal::install(signal, 0);
    }
    syscall::create_table();
    announce(
        context,
        path,
        &stack,
        &program,
        interpreter
            .as_ref()
            .map(|(image, name)| (image, name.as_c_str())),
    );
    hooks::process_started(context);
    signal::apply_mask(context.mask);

    let entry = interpreter.map_or(program.entry, |(image, _)| image.entry);
    context.cpu.set_stack_pointer(stack.pointer());
    context.pc = entry;
    match crate::translator::dispatch::with_translator(|translator| translator.block(entry)) {
        Ok(at) => context.resume = at,
        Err(_) => fatal::unsupported(format_args!(
            "the entry point {entry:#x} of the program is not executable"
        )),
    }
    // SAFETY: the context was installed and `resume` set above.
    unsafe { gate::enter() }
}

/// `FD:PATH`
fn parse(value: &'static CStr) -> Option<(i32, &'static CStr)> {
    let bytes = value.to_bytes_with_nul();
    let colon = bytes.iter().position(|&b| b == b':')?;
    let fd = core::str::from_utf8(&bytes[..colon]).ok()?.parse().ok()?;
    Some((fd, CStr::from_bytes_with_nul(&bytes[colon + 1..]).ok()?))
}

fn open_and_map(path: &CStr, stack: &InitialStack) -> Image {
    let fd = sys::open(path, linux::O_RDONLY | linux::O_CLOEXEC);
    let result = if is_err(fd) {
        Err(Refusal::Open((-(fd as i64)) as u32))
    } else {
        load::map(fd as i32)
    };
    let image = match result {
        Ok(image) => {
            for &(addr, len, offset) in &image.code {
                let mut space = SPACE.lock();
                let ambiguous = space.add_executable(addr, addr + len, false);
                space.add_base(image.start, image.start + image.len);
                space.add_module(addr, addr + len, offset);
                drop(space);
                if ambiguous {
                    crate::translator::dispatch::with_translator(|translator| {
                        translator.cache.all_far = true
                    });
                }
                hooks::module_mapped(fd as i32, addr, len, offset);
            }
            image
        }
        Err(Refusal::Script {
            interpreter,
            argument,
        }) => process::exec_script(path, &interpreter, argument.as_deref(), stack),
        Err(refusal) => {
            fatal::unsupported(format_args!("cannot run {path:?}: {}", Reason(&refusal)))
        }
    };
    sys::close(fd as i32);
    image
}

/// Why a file cannot be run, in words.
struct Reason<'a>(&'a Refusal);

impl Display for Reason<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Refusal::Open(number) => {
                write!(
                    out,
                    "it cannot be opened or mapped ({})",
                    sys::Errno(*number)
                )
            }
            Refusal::Script { .. } => out.write_str("its interpreter is itself a script"),
            Refusal::NotExecutable => {
                out.write_str("it is neither an ELF program nor a script with a #! line")
            }
            Refusal::Foreign => write!(
                out,
                "it is for another machine or word size; only {} are supported",
                arch::PROGRAMS
            ),
            Refusal::Damaged => out.write_str("its ELF headers are damaged"),
        }
    }
}

/// The name of the process, as the kernel would have set it.
fn set_name(path: &CStr) {
    let bytes = path.to_bytes();
    let name = bytes.rsplit(|&b| b == b'/').next().unwrap_or(bytes);
    let mut short = [0u8; 16];
    let len = name.len().min(15);
    short[..len].copy_from_slice(&name[..len]);
    // SAFETY: the kernel reads 16 bytes.
    unsafe {
        crate::sys!(
            linux::__NR_prctl,
            linux_raw_sys::prctl::PR_SET_NAME,
            short.as_ptr()
        )
    };
}

/// Moves the vDSO and its data below 2 GiB, so that calls to it are as cheap as to any library.
fn move_vdso(vdso: u64) -> Option<u64> {
    let areas = vdso_areas()?;
    let (start, end) = (areas.first()?.0, areas.last()?.1);
    let place = SPACE.lock().place_low(end - start)?;
    for &(from, to) in &areas {
        let flags = linux::MREMAP_MAYMOVE | linux::MREMAP_FIXED;
        // SAFETY: the kernel supports moving these mappings; the place is free.
        let raw = unsafe {
            crate::sys!(
                linux::__NR_mremap,
                from,
                to - from,
                to - from,
                flags,
                place + (from - start)
            )
        };
        if is_err(raw) {
            return None;
        }
    }
    let moved = vdso - start + place;
    let len = areas
        .iter()
        .find(|(from, to)| (*from..*to).contains(&vdso))
        .map_or(PAGE, |(from, to)| to - from);
    let _ = SPACE
        .lock()
        .add_executable(page_down(moved), page_down(moved) + len, false);
    Some(moved)
}

/// The target was linked to run code on its stack.
fn make_stack_executable() {
    let Some(&(start, end)) = own_mappings(&[b"[stack]"])
        .as_deref()
        .and_then(<[_]>::first)
    else {
        return;
    };
    const PROT_GROWSDOWN: u32 = 0x0100_0000;
    let prot = linux::PROT_READ | linux::PROT_WRITE | linux::PROT_EXEC | PROT_GROWSDOWN;
    // SAFETY: adds a right to the stack that the target expects.
    unsafe { crate::sys!(linux::__NR_mprotect, end - PAGE, PAGE, prot) };
    // It grows downwards from here.
    const GROWTH: u64 = 8 << 20;
    SPACE.lock().add_executable_stack(start - GROWTH, end);
}

/// The mappings of the vDSO and its data, in order.
fn vdso_areas() -> Option<Vec<(u64, u64)>> {
    own_mappings(&[b"[vdso]", b"[vvar"])
}

/// Mappings of this process whose line in `/proc/self/maps` holds one of the names.
fn own_mappings(names: &[&[u8]]) -> Option<Vec<(u64, u64)>> {
    let text = sys::own_mappings();
    let mut areas = Vec::new();
    for line in text.split(|&b| b == b'\n') {
        let contains = |name: &&[u8]| line.windows(name.len()).any(|w| w == *name);
        if names.iter().any(contains) {
            let range = core::str::from_utf8(line.split(|&b| b == b' ').next()?).ok()?;
            let (from, to) = range.split_once('-')?;
            areas.push((
                u64::from_str_radix(from, 16).ok()?,
                u64::from_str_radix(to, 16).ok()?,
            ));
        }
    }
    Some(areas)
}

/// Announces the new process to the recorder.
fn announce(
    context: &mut Context,
    path: &CStr,
    stack: &InitialStack,
    program: &Image,
    interpreter: Option<(&Image, &CStr)>,
) {
    process::announce_exec(context, path, stack.arguments());
    process::announce_modules(context, program, path);
    if let Some((image, name)) = interpreter {
        process::announce_modules(context, image, name);
    }
}
