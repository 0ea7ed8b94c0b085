//! The less frequent kinds of events: their fields are stored row by row, their bytes in the column of values.

use super::op;
use crate::error::Flaw;
use crate::event::{
    Arguments, CallArguments, EventKind, Mapping, ProcessOrigin, Sync, ThreadParent,
};
use crate::fields::{FieldReader, FieldWriter};
use crate::ids::{Address, EventIndex, FileId, FunctionId, ProcessId, ThreadId};
use crate::summary::{put_end, take_end};

/// The operation code of a rare kind; `None` for the plain kinds, which have their own columns.
pub(crate) fn op(kind: &EventKind<'_>) -> Option<u8> {
    Some(match kind {
        EventKind::Store { .. }
        | EventKind::Load { .. }
        | EventKind::Flush { .. }
        | EventKind::Fence { .. } => return None,
        EventKind::KernelWrite { .. } => op::KERNEL_WRITE,
        EventKind::FileWrite { .. } => op::FILE_WRITE,
        EventKind::FileResize { .. } => op::FILE_RESIZE,
        EventKind::Sync(Sync::Msync { .. }) => op::MSYNC,
        EventKind::Sync(Sync::Fsync { .. }) => op::FSYNC,
        EventKind::Sync(Sync::Fdatasync { .. }) => op::FDATASYNC,
        EventKind::Sync(Sync::SyncFileRange { .. }) => op::SYNC_FILE_RANGE,
        EventKind::Sync(Sync::Syncfs { .. }) => op::SYNCFS,
        EventKind::Map(_) => op::MAP,
        EventKind::Unmap { .. } => op::UNMAP,
        EventKind::Remap { .. } => op::REMAP,
        EventKind::Content { .. } => op::CONTENT,
        EventKind::Protect { .. } => op::PROTECT,
        EventKind::Module { .. } => op::MODULE,
        EventKind::ThreadStart { parent: None } => op::THREAD_START,
        EventKind::ThreadStart { parent: Some(_) } => op::CHILD_THREAD_START,
        EventKind::ThreadExit => op::THREAD_EXIT,
        EventKind::ThreadJoin { .. } => op::THREAD_JOIN,
        EventKind::LockAcquire { .. }
        | EventKind::LockRelease {
            exchanged: true, ..
        } => op::LOCK,
        EventKind::LockRelease { shared: false, .. } => op::LOCK_RELEASE,
        EventKind::LockRelease { shared: true, .. } => op::LOCK_RELEASE_SHARED,
        EventKind::ProcessStart { .. } => op::PROCESS_START,
        EventKind::ProcessExit { .. } => op::PROCESS_EXIT,
        EventKind::Note { .. } => op::NOTE,
        EventKind::Call { .. } => op::CALL,
        EventKind::Return { value: Some(_), .. } => op::RETURN,
        EventKind::Return { value: None, .. } => op::LEFT,
    })
}

/// The length of the variable-length bytes in an event.
pub(crate) fn payload_len(kind: &EventKind<'_>) -> usize {
    match kind {
        EventKind::Store { bytes, .. }
        | EventKind::Load { bytes, .. }
        | EventKind::KernelWrite { bytes, .. }
        | EventKind::FileWrite { bytes, .. }
        | EventKind::Content { bytes, .. } => bytes.len(),
        EventKind::Module { path, build_id, .. } => path.as_os_str().len() + build_id.len(),
        EventKind::ProcessStart { exe, args, .. } => exe.as_os_str().len() + args.as_bytes().len(),
        EventKind::Note { text } => text.len(),
        _ => 0,
    }
}

/// Appends the fields and bytes of a rare kind.
pub(crate) fn put(kind: &EventKind<'_>, fields: &mut Vec<u8>, values: &mut Vec<u8>) {
    match *kind {
        EventKind::Store { .. }
        | EventKind::Load { .. }
        | EventKind::Flush { .. }
        | EventKind::Fence { .. }
        | EventKind::ThreadStart { parent: None }
        | EventKind::ThreadExit => {}
        EventKind::ThreadStart {
            parent: Some(parent),
        } => put_all(fields, [u64::from(parent.thread.0), parent.created.0]),
        EventKind::ThreadJoin { joined } => fields.put(u64::from(joined.0)),
        EventKind::LockAcquire { word, size, shared } => {
            put_all(fields, [word.0, u64::from(size) << 1 | u64::from(shared)]);
        }
        EventKind::LockRelease {
            word,
            shared,
            exchanged: true,
        } => put_all(fields, [word.0, u64::from(shared)]),
        EventKind::LockRelease { word, .. } => fields.put(word.0),
        EventKind::KernelWrite {
            addr,
            bytes,
            syscall,
        } => {
            put_all(fields, [u64::from(syscall), addr.0, bytes.len() as u64]);
            values.extend_from_slice(bytes);
        }
        EventKind::FileWrite {
            file,
            offset,
            bytes,
            syscall,
        } => {
            fields.put(u64::from(syscall));
            put_file_range(fields, file, offset, bytes.len() as u64);
            values.extend_from_slice(bytes);
        }
        EventKind::Content {
            file,
            offset,
            bytes,
        } => {
            put_file_range(fields, file, offset, bytes.len() as u64);
            values.extend_from_slice(bytes);
        }
        EventKind::FileResize { file, len } => put_all(fields, [u64::from(file.0), len]),
        EventKind::Sync(sync) => put_sync(fields, sync),
        EventKind::Map(mapping) => put_mapping(fields, &mapping),
        EventKind::Unmap { addr, len } => put_all(fields, [addr.0, len]),
        EventKind::Remap {
            old,
            old_len,
            new,
            new_len,
        } => {
            put_all(fields, [old.0, old_len, new.0, new_len]);
        }
        EventKind::Protect {
            addr,
            len,
            writable,
        } => {
            put_all(fields, [addr.0, len, u64::from(writable)]);
        }
        EventKind::Module {
            addr,
            len,
            file_offset,
            path,
            build_id,
        } => {
            put_all(fields, [addr.0, len, file_offset]);
            fields.put_path(path);
            fields.put_bytes(build_id);
        }
        EventKind::ProcessStart { .. } => put_process_start(fields, kind),
        EventKind::ProcessExit { end } => put_end(fields, end),
        EventKind::Note { text } => fields.put_bytes(text.as_bytes()),
        EventKind::Call { function, ref args } => put_call(fields, function, args),
        EventKind::Return {
            function,
            value: Some(ref value),
        } => put_result(fields, function, value),
        EventKind::Return {
            function,
            value: None,
        } => fields.put(u64::from(function.0)),
    }
}

/// Appends the fields of a call. Calls are the most frequent of the rare kinds.
#[inline]
pub(crate) fn put_call(fields: &mut Vec<u8>, function: FunctionId, args: &CallArguments) {
    let args = args.as_slice();
    put_all(fields, [u64::from(function.0), args.len() as u64]);
    for &arg in args {
        fields.put(arg);
    }
}

/// Appends the fields of a return with a result.
#[inline]
pub(crate) fn put_result(fields: &mut Vec<u8>, function: FunctionId, value: &[u64; 2]) {
    put_all(fields, [u64::from(function.0), value[0], value[1]]);
}

/// Reads what [`put`] appended for the operation code `op`. `values` returns the next bytes of the column of values.
pub(crate) fn take<'a>(
    op: u8,
    fields: &mut FieldReader<'a>,
    values: impl FnOnce(u64) -> Result<&'a [u8], Flaw>,
) -> Result<EventKind<'a>, Flaw> {
    Ok(match op {
        op::KERNEL_WRITE => {
            let syscall = fields.take_u16()?;
            let addr = Address(fields.take()?);
            EventKind::KernelWrite {
                addr,
                bytes: values(fields.take()?)?,
                syscall,
            }
        }
        op::FILE_WRITE => {
            let syscall = fields.take_u16()?;
            let (file, offset, len) = take_file_range(fields)?;
            EventKind::FileWrite {
                file,
                offset,
                bytes: values(len)?,
                syscall,
            }
        }
        op::CONTENT => {
            let (file, offset, len) = take_file_range(fields)?;
            EventKind::Content {
                file,
                offset,
                bytes: values(len)?,
            }
        }
        op::FILE_RESIZE => EventKind::FileResize {
            file: take_file(fields)?,
            len: fields.take()?,
        },
        op::MSYNC..=op::SYNCFS => EventKind::Sync(take_sync(op, fields)?),
        op::MAP => EventKind::Map(take_mapping(fields)?),
        op::UNMAP => EventKind::Unmap {
            addr: Address(fields.take()?),
            len: fields.take()?,
        },
        op::REMAP => EventKind::Remap {
            old: Address(fields.take()?),
            old_len: fields.take()?,
            new: Address(fields.take()?),
            new_len: fields.take()?,
        },
        op::PROTECT => EventKind::Protect {
            addr: Address(fields.take()?),
            len: fields.take()?,
            writable: fields.take_bool()?,
        },
        op::MODULE => EventKind::Module {
            addr: Address(fields.take()?),
            len: fields.take()?,
            file_offset: fields.take()?,
            path: fields.take_path()?,
            build_id: fields.take_bytes()?,
        },
        op::THREAD_START => EventKind::ThreadStart { parent: None },
        op::CHILD_THREAD_START => EventKind::ThreadStart {
            parent: Some(ThreadParent {
                thread: ThreadId(fields.take_u32()?),
                created: EventIndex(fields.take()?),
            }),
        },
        op::THREAD_JOIN => EventKind::ThreadJoin {
            joined: ThreadId(fields.take_u32()?),
        },
        op::LOCK => take_lock(fields)?,
        op::LOCK_ACQUIRE | op::LOCK_ACQUIRE_SHARED => EventKind::LockAcquire {
            word: Address(fields.take()?),
            size: LARGEST_LOCK,
            shared: op == op::LOCK_ACQUIRE_SHARED,
        },
        op::LOCK_RELEASE | op::LOCK_RELEASE_SHARED => EventKind::LockRelease {
            word: Address(fields.take()?),
            shared: op == op::LOCK_RELEASE_SHARED,
            exchanged: false,
        },
        op::THREAD_EXIT => EventKind::ThreadExit,
        op::PROCESS_START => take_process_start(fields)?,
        op::PROCESS_EXIT => EventKind::ProcessExit {
            end: take_end(fields)?,
        },
        op::NOTE => EventKind::Note {
            text: fields.take_str()?,
        },
        op::CALL => EventKind::Call {
            function: take_function(fields)?,
            args: take_call_arguments(fields)?,
        },
        op::RETURN | op::LEFT => EventKind::Return {
            function: take_function(fields)?,
            value: take_returned(op, fields)?,
        },
        _ => return Err(Flaw::BadField),
    })
}

/// Reads what a watched function has returned; nothing if it was left by a jump.
#[inline]
pub(super) fn take_returned(
    op: u8,
    fields: &mut FieldReader<'_>,
) -> Result<Option<[u64; 2]>, Flaw> {
    Ok(match op {
        op::RETURN => Some([fields.take()?, fields.take()?]),
        _ => None,
    })
}

fn put_all<const N: usize>(fields: &mut Vec<u8>, values: [u64; N]) {
    for value in values {
        fields.put(value);
    }
}

fn take_file(fields: &mut FieldReader<'_>) -> Result<FileId, Flaw> {
    fields.take_u32().map(FileId)
}

#[inline]
pub(super) fn take_function(fields: &mut FieldReader<'_>) -> Result<FunctionId, Flaw> {
    fields.take_u32().map(FunctionId)
}

#[inline]
pub(super) fn take_call_arguments(fields: &mut FieldReader<'_>) -> Result<CallArguments, Flaw> {
    let count = usize::try_from(fields.take()?).map_err(|_| Flaw::BadField)?;
    let mut args = CallArguments::zeros(count).ok_or(Flaw::BadField)?;
    for value in args.values_mut() {
        *value = fields.take()?;
    }
    Ok(args)
}

fn put_file_range(fields: &mut Vec<u8>, file: FileId, offset: u64, len: u64) {
    put_all(fields, [u64::from(file.0), offset, len]);
}

fn take_file_range(fields: &mut FieldReader<'_>) -> Result<(FileId, u64, u64), Flaw> {
    Ok((take_file(fields)?, fields.take()?, fields.take()?))
}

fn put_sync(fields: &mut Vec<u8>, sync: Sync) {
    match sync {
        Sync::Msync {
            addr,
            len,
            asynchronous,
        } => {
            put_all(fields, [addr.0, len, u64::from(asynchronous)]);
        }
        Sync::Fsync { file } | Sync::Fdatasync { file } | Sync::Syncfs { file } => {
            fields.put(u64::from(file.0));
        }
        Sync::SyncFileRange { file, offset, len } => put_file_range(fields, file, offset, len),
    }
}

fn take_sync(op: u8, fields: &mut FieldReader<'_>) -> Result<Sync, Flaw> {
    Ok(match op {
        op::MSYNC => Sync::Msync {
            addr: Address(fields.take()?),
            len: fields.take()?,
            asynchronous: fields.take_bool()?,
        },
        op::FSYNC => Sync::Fsync {
            file: take_file(fields)?,
        },
        op::FDATASYNC => Sync::Fdatasync {
            file: take_file(fields)?,
        },
        op::SYNCFS => Sync::Syncfs {
            file: take_file(fields)?,
        },
        op::SYNC_FILE_RANGE => {
            let (file, offset, len) = take_file_range(fields)?;
            Sync::SyncFileRange { file, offset, len }
        }
        _ => return Err(Flaw::BadField),
    })
}

fn put_mapping(fields: &mut Vec<u8>, mapping: &Mapping) {
    fields.put(mapping.addr.0);
    put_file_range(fields, mapping.file, mapping.offset, mapping.len);
    fields.put(mapping.file_len);
    fields.put(u64::from(mapping.prot));
    fields.put(u64::from(mapping.flags));
    fields.put(u64::from(mapping.dax));
    fields.put(u64::from(mapping.snapshot));
}

fn take_mapping(fields: &mut FieldReader<'_>) -> Result<Mapping, Flaw> {
    let addr = Address(fields.take()?);
    let (file, offset, len) = take_file_range(fields)?;
    Ok(Mapping {
        addr,
        len,
        file,
        offset,
        file_len: fields.take()?,
        prot: fields.take_u32()?,
        flags: fields.take_u32()?,
        dax: fields.take_bool()?,
        snapshot: fields.take_bool()?,
    })
}

fn put_process_start(fields: &mut Vec<u8>, start: &EventKind<'_>) {
    let EventKind::ProcessStart {
        pid,
        parent_pid,
        parent,
        origin,
        exe,
        args,
    } = *start
    else {
        return;
    };
    let parent = parent.map_or(0, |parent| u64::from(parent.0) + 1);
    let origin = match origin {
        ProcessOrigin::Exec => 0,
        ProcessOrigin::Fork => 1,
    };
    put_all(
        fields,
        [u64::from(pid), u64::from(parent_pid), parent, origin],
    );
    fields.put_path(exe);
    fields.put_bytes(args.as_bytes());
}

/// Bytes of the largest word of a lock.
const LARGEST_LOCK: u8 = 8;

/// The word, and twice the size plus whether it is shared. Size 0 is that of a release by an exchange.
fn take_lock<'a>(fields: &mut FieldReader<'a>) -> Result<EventKind<'a>, Flaw> {
    let word = Address(fields.take()?);
    let rest = fields.take()?;
    let shared = rest & 1 != 0;
    Ok(match u8::try_from(rest >> 1) {
        Ok(0) => EventKind::LockRelease {
            word,
            shared,
            exchanged: true,
        },
        Ok(size @ 1..=LARGEST_LOCK) => EventKind::LockAcquire { word, size, shared },
        _ => return Err(Flaw::BadField),
    })
}

fn take_process_start<'a>(fields: &mut FieldReader<'a>) -> Result<EventKind<'a>, Flaw> {
    let pid = fields.take_u32()?;
    let parent_pid = fields.take_u32()?;
    let parent = match fields.take()? {
        0 => None,
        number => Some(ProcessId(
            u32::try_from(number - 1).map_err(|_| Flaw::BadField)?,
        )),
    };
    let origin = if fields.take_bool()? {
        ProcessOrigin::Fork
    } else {
        ProcessOrigin::Exec
    };
    let exe = fields.take_path()?;
    let args = Arguments::from_bytes(fields.take_bytes()?);
    Ok(EventKind::ProcessStart {
        pid,
        parent_pid,
        parent,
        origin,
        exe,
        args,
    })
}
