//! What the code of a store says about its address, once for each site: what the pointer points to, or where it comes from.
//!
//! Where the pointer is a parameter of its function, the callers' code is asked, up the stack: so that a store in `memcpy`, or in a
//! helper that takes a `void *`, has the type of the pointer that was passed (Squint §4.4.2).

use std::path::{Path, PathBuf};

use brownout_symbols::{
    BuildId, DataTypeId, FileOffset, PointerBase, PointerTypes, PointerValue, TypedModuleId,
};
use brownout_trace::{AppPc, ContextId, Definitions, Event, EventKind, ProcessId};
use rustc_hash::FxHashMap;

/// How many callers are asked.
const FARTHEST_CALLER: usize = 16;

/// Where a pointer without a type comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Origin {
    pub(super) module: TypedModuleId,
    pub(super) base: PointerBase,
    /// The start of the function, if it is a parameter.
    function: Option<FileOffset>,
}

#[cfg(test)]
impl Origin {
    pub(super) fn of(module: TypedModuleId, base: PointerBase) -> Self {
        Self {
            module,
            base,
            function: None,
        }
    }
}

/// What the code says about the address of a store: `offset`, and some multiple of `stride`, behind something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StoreAddress {
    Object {
        ty: DataTypeId,
        offset: i64,
        stride: u64,
    },
    Origin {
        origin: Origin,
        offset: i64,
        stride: u64,
    },
    Unknown,
}

/// The addresses of the stores of all sites.
pub(super) struct StoreAddresses {
    pub(super) pointers: PointerTypes,
    /// The directory in which the target was started: paths of modules may be relative to it.
    directory: PathBuf,
    known: FxHashMap<(ProcessId, AppPc, ContextId), StoreAddress>,
    /// The file names of modules, to name types by.
    names: FxHashMap<TypedModuleId, String>,
}

/// An offset in the file of a module.
pub(super) type ModuleOffset = (TypedModuleId, FileOffset);

impl StoreAddresses {
    pub(super) fn new(directory: &Path) -> Self {
        Self {
            pointers: PointerTypes::new(),
            directory: directory.to_owned(),
            known: FxHashMap::default(),
            names: FxHashMap::default(),
        }
    }

    /// Must see every event: newly mapped code changes the meaning of addresses.
    pub(super) fn observe(&mut self, event: &Event<'_>) {
        if let EventKind::Module { .. } | EventKind::ProcessStart { .. } = event.kind {
            self.known
                .retain(|&(process, ..), _| process != event.process);
        }
    }

    pub(super) fn of(&mut self, event: &Event<'_>, definitions: &Definitions) -> StoreAddress {
        let site = (event.process, event.pc, event.context);
        if let Some(&known) = self.known.get(&site) {
            return known;
        }
        let found = self.find(event, definitions);
        let found = found.unwrap_or(StoreAddress::Unknown);
        self.known.insert(site, found);
        found
    }

    fn find(&mut self, event: &Event<'_>, definitions: &Definitions) -> Option<StoreAddress> {
        let mut at = self.location(definitions, event.process, event.pc)?;
        let mut value = self.pointers.store(at.0, at.1)?;
        let callers = definitions.context_frames(event.process, event.context);
        for caller in callers.take(FARTHEST_CALLER) {
            let PointerBase::Parameter(parameter) = value.base else {
                break;
            };
            let Some(call) = self.location(definitions, event.process, caller) else {
                break;
            };
            let Some(passed) = self.pointers.passed(call.0, call.1, parameter, at) else {
                break;
            };
            value = value.behind(passed);
            // The call is before the address that it returns to.
            at = (call.0, FileOffset(call.1.0.saturating_sub(1)));
        }
        Some(self.address(value, at))
    }

    fn address(&mut self, value: PointerValue, (module, at): ModuleOffset) -> StoreAddress {
        let PointerValue {
            base,
            offset,
            stride,
        } = value;
        match base {
            PointerBase::Object(ty) => StoreAddress::Object { ty, offset, stride },
            PointerBase::Parameter(_) => {
                let function = self.pointers.function_start(module, at);
                let origin = Origin {
                    module,
                    base,
                    function,
                };
                StoreAddress::Origin {
                    origin,
                    offset,
                    stride,
                }
            }
            PointerBase::Code(..) => {
                let origin = Origin {
                    module,
                    base,
                    function: None,
                };
                StoreAddress::Origin {
                    origin,
                    offset,
                    stride,
                }
            }
        }
    }

    /// The module and offset of an address.
    pub(super) fn location(
        &mut self,
        definitions: &Definitions,
        process: ProcessId,
        pc: AppPc,
    ) -> Option<ModuleOffset> {
        let module = definitions.module_at(process, pc)?;
        let within = pc.0 - module.addr.0;
        let offset = module.file_offset.saturating_add(within);
        let build_id = BuildId::new(&module.build_id);
        // Code that is not in a file has a name in brackets, which `join` must not change.
        let is_file = !module.path.as_os_str().as_encoded_bytes().starts_with(b"[");
        let id = if is_file && module.path.is_relative() {
            let path: PathBuf = self.directory.join(&module.path).components().collect();
            self.pointers.add_module(&path, build_id.as_ref())
        } else {
            self.pointers.add_module(&module.path, build_id.as_ref())
        };
        self.names.entry(id).or_insert_with(|| {
            let name = module.path.file_name().unwrap_or_default();
            name.to_string_lossy().into_owned()
        });
        Some((id, FileOffset(offset)))
    }

    /// The code that an origin is about, in words.
    pub(super) fn name_of(&self, origin: Origin) -> String {
        match (origin.base, origin.function) {
            (PointerBase::Code(at, _), _) => self.location_name((origin.module, at)),
            (PointerBase::Parameter(index), Some(at)) => {
                let function = self.location_name((origin.module, at));
                format!("{function} argument {}", index + 1)
            }
            _ => self.location_name((origin.module, FileOffset(0))),
        }
    }

    pub(super) fn location_name(&self, (module, FileOffset(at)): ModuleOffset) -> String {
        let module = self.names.get(&module).map_or("", |name| name);
        format!("{module}+{at:#x}")
    }
}
