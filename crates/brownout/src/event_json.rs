//! Events and frames as JSON. Addresses are hexadecimal strings, because a JSON number cannot represent all of them
//! exactly. Lengths and offsets are numbers.

use std::path::Path;

use brownout_symbols::SourceFrame;
use brownout_trace::{
    Address, Definitions, Event, EventKind, FileId, Mapping, ProcessEnd, ProcessId, Sync,
};
use serde_json::{Map, Value, json};

use crate::event_text::store_attributes;
use crate::terminal_text::Hex;

/// One event as an object.
pub fn event(event: &Event<'_>, definitions: &Definitions, frames: &[SourceFrame]) -> Value {
    let mut object = Map::new();
    let mut put = |name: &str, value: Value| {
        object.insert(name.to_owned(), value);
    };
    put("event", event.index.0.into());
    put("process", event.process.0.into());
    put("thread", event.thread.0.into());
    put("kind", event.kind.class().name().into());
    if event.pc.0 != 0 {
        put("pc", event.pc.to_string().into());
    }
    let Value::Object(details) = details(event, definitions) else {
        unreachable!("details are always an object");
    };
    object.extend(details);
    if !frames.is_empty() {
        let frames: Vec<Value> = frames.iter().map(frame).collect();
        object.insert("frames".to_owned(), frames.into());
    }
    Value::Object(object)
}

/// One frame, with the same fields as everywhere in brownout's JSON output.
pub fn frame(frame: &SourceFrame) -> Value {
    json!({
        "function": frame.function,
        "file": frame.file.as_deref().map(text),
        "line": frame.line,
        "column": frame.column,
        "module": text(&frame.module),
        "offset": frame.offset,
        "inlined": frame.inlined,
    })
}

/// How a process ended.
pub fn end(end: ProcessEnd) -> Value {
    match end {
        ProcessEnd::Exited { status } => json!({ "status": status }),
        ProcessEnd::Signaled { signal } => json!({ "signal": signal }),
        _ => json!({}),
    }
}

/// A path as text; bytes that are not UTF-8 are replaced.
pub fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn hex(bytes: &[u8]) -> String {
    Hex(bytes).to_string()
}

fn word(value: &u64) -> String {
    format!("{value:#x}")
}

/// The fields of an event that depend on its kind.
fn details(event: &Event<'_>, definitions: &Definitions) -> Value {
    let at = |addr: Address| file_location(definitions, event.process, addr);
    let path = |file: FileId| definitions.file(file).map(|file| text(&file.path));
    match event.kind {
        EventKind::Store { .. }
        | EventKind::Load { .. }
        | EventKind::Flush { .. }
        | EventKind::Fence { .. }
        | EventKind::KernelWrite { .. } => access_json(&event.kind, at),
        EventKind::FileWrite {
            file,
            offset,
            bytes,
            syscall,
        } => json!({
            "path": path(file),
            "offset": offset,
            "bytes": hex(bytes),
            "syscall": syscall,
        }),
        EventKind::Content {
            file,
            offset,
            bytes,
        } => json!({
            "path": path(file),
            "offset": offset,
            "bytes": hex(bytes),
        }),
        EventKind::FileResize { file, len } => json!({ "path": path(file), "length": len }),
        EventKind::Sync(sync) => sync_json(sync, at, path),
        EventKind::Map(mapping) => map_json(&mapping, path),
        EventKind::Unmap { addr, len } => json!({ "address": addr.to_string(), "length": len }),
        EventKind::Remap {
            old,
            old_len,
            new,
            new_len,
        } => json!({
            "address": old.to_string(),
            "length": old_len,
            "new_address": new.to_string(),
            "new_length": new_len,
        }),
        EventKind::Protect {
            addr,
            len,
            writable,
        } => json!({
            "address": addr.to_string(),
            "length": len,
            "writable": writable,
        }),
        EventKind::Note { text } => json!({ "text": text }),
        EventKind::Call { function, args } => json!({
            "function": definitions.function(function),
            "arguments": args.as_slice().iter().map(word).collect::<Vec<_>>(),
        }),
        EventKind::Return { function, value } => json!({
            "function": definitions.function(function),
            "result": value.map(|words| words.each_ref().map(word)),
        }),
        _ => process_json(&event.kind),
    }
}

/// A store, load, flush, fence or write by the kernel.
fn access_json(kind: &EventKind<'_>, at: impl Fn(Address) -> Value) -> Value {
    match *kind {
        EventKind::Store {
            addr,
            bytes,
            flavor,
            locked,
            string,
        } => json!({
            "address": addr.to_string(),
            "bytes": hex(bytes),
            "flags": store_attributes(flavor, locked, string).collect::<Vec<_>>(),
            "at": at(addr),
        }),
        EventKind::Load { addr, bytes } => json!({
            "address": addr.to_string(),
            "bytes": hex(bytes),
            "at": at(addr),
        }),
        EventKind::KernelWrite {
            addr,
            bytes,
            syscall,
        } => json!({
            "address": addr.to_string(),
            "bytes": hex(bytes),
            "syscall": syscall,
            "at": at(addr),
        }),
        EventKind::Flush {
            addr,
            kind,
            volatile,
        } => json!({
            "address": addr.to_string(),
            "instruction": kind.name(),
            "volatile": volatile,
            "at": at(addr),
        }),
        EventKind::Fence { kind } => json!({ "instruction": kind.name() }),
        _ => json!({}),
    }
}

/// A module, a thread or a process.
fn process_json(kind: &EventKind<'_>) -> Value {
    match *kind {
        EventKind::Module {
            addr,
            len,
            file_offset,
            path,
            build_id,
        } => json!({
            "address": addr.to_string(),
            "length": len,
            "path": text(path),
            "offset": file_offset,
            "build_id": (!build_id.is_empty()).then(|| hex(build_id)),
        }),
        EventKind::ThreadStart { parent } => json!({
            "parent": parent.map(|parent| json!({
                "thread": parent.thread.0,
                "created": parent.created.0,
            })),
        }),
        EventKind::ThreadJoin { joined } => json!({ "joined": joined.0 }),
        EventKind::LockAcquire { word, size, shared } => {
            json!({ "word": word.to_string(), "size": size, "shared": shared })
        }
        EventKind::LockRelease {
            word,
            shared,
            exchanged,
        } => json!({ "word": word.to_string(), "shared": shared, "exchanged": exchanged }),
        EventKind::ProcessStart {
            pid,
            parent_pid,
            parent,
            origin,
            exe,
            args,
        } => json!({
            "pid": pid,
            "parent_pid": parent_pid,
            "parent": parent.map(|parent| parent.0),
            "origin": origin.name(),
            "exe": text(exe),
            "args": args.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>(),
        }),
        EventKind::ProcessExit { end: how } => json!({ "end": end(how) }),
        // The end of a thread, and kinds that have no fields here.
        _ => json!({}),
    }
}

fn sync_json(
    sync: Sync,
    at: impl Fn(Address) -> Value,
    path: impl Fn(FileId) -> Option<String>,
) -> Value {
    let call = sync.name();
    match sync {
        Sync::Msync {
            addr,
            len,
            asynchronous,
        } => json!({
            "call": call,
            "address": addr.to_string(),
            "length": len,
            "async": asynchronous,
            "at": at(addr),
        }),
        Sync::Fsync { file } | Sync::Fdatasync { file } | Sync::Syncfs { file } => {
            json!({ "call": call, "path": path(file) })
        }
        Sync::SyncFileRange { file, offset, len } => {
            json!({ "call": call, "path": path(file), "offset": offset, "length": len })
        }
        _ => json!({ "call": call }),
    }
}

fn map_json(mapping: &Mapping, path: impl Fn(FileId) -> Option<String>) -> Value {
    json!({
        "address": mapping.addr.to_string(),
        "length": mapping.len,
        "path": path(mapping.file),
        "offset": mapping.offset,
        "file_length": mapping.file_len,
        "prot": mapping.prot,
        "flags": mapping.flags,
        "dax": mapping.dax,
    })
}

/// The file mapped at an address, and the offset in it; null if there is none.
fn file_location(definitions: &Definitions, process: ProcessId, addr: Address) -> Value {
    let range = definitions
        .process(process)
        .and_then(|process| process.address_space().resolve(addr, 1));
    match range {
        Some(range) => json!({
            "path": definitions.file(range.file).map(|file| text(&file.path)),
            "offset": range.offset,
        }),
        None => Value::Null,
    }
}
