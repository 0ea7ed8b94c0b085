//! The table of libraries: which code is theirs, which of their functions can be watched, and what frames of their
//! functions say.
//!
//! Everything that brownout knows about a library by name is in its row. The types of a row are described in
//! [`library`](crate::Library) and [`function`](crate::Function); nothing here is logic.

use crate::frame_name::{FrameMeaning, FrameName};
use crate::function::{
    Acquired, AllocatedSize, AllocationResult, FreedObject, Function, LockFunction, LockOrder,
    OrderFunction, Purpose,
};
use crate::identifier::ObjectIdentifier;
use crate::library::{Library, LibraryRole};
use crate::memory_function::{
    LogCall, MemoryEffect, MemoryFunction, PoolNames, SourceCalls, StoredLength,
};
use crate::transaction::TxFunction;

/// All known libraries. If two rows match the same name or path, the first one counts.
pub const LIBRARIES: &[Library] = &[
    Library {
        role: LibraryRole::CLibrary,
        modules: &["libc.so", "libc-", "ld-linux", "ld-musl", "libpthread"],
        // glibc is built in its own directory, so its paths are relative.
        start_files: &["libc_start_call_main.h", "libc-start.c"],
        functions: &[
            // The `join` of C++ and Rust threads calls `pthread_join`.
            joins("pthread_join"),
            joins("pthread_tryjoin_np"),
            joins("pthread_timedjoin_np"),
            joins("pthread_clockjoin_np"),
            joins("thrd_join"),
            // A C library calls `exit` itself when `main` returns.
            outputs("write"),
            outputs("writev"),
            outputs("send"),
            outputs("sendto"),
            outputs("sendmsg"),
            outputs("sendmmsg"),
            leaves("exit"),
            leaves("_exit"),
            leaves("_Exit"),
            leaves("quick_exit"),
            leaves("pthread_exit"),
            leaves("thrd_exit"),
            ordered(
                "pthread_mutex_lock",
                0,
                LockFunction::Exclusive,
                LockOrder::Certain,
            ),
            lock("pthread_mutex_trylock", 0, LockFunction::Exclusive),
            lock("pthread_mutex_timedlock", 0, LockFunction::Exclusive),
            lock("pthread_mutex_clocklock", 0, LockFunction::Exclusive),
            ordered(
                "pthread_mutex_unlock",
                0,
                LockFunction::Release,
                LockOrder::Certain,
            ),
            lock("pthread_rwlock_rdlock", 0, LockFunction::Shared),
            lock("pthread_rwlock_tryrdlock", 0, LockFunction::Shared),
            lock("pthread_rwlock_timedrdlock", 0, LockFunction::Shared),
            lock("pthread_rwlock_clockrdlock", 0, LockFunction::Shared),
            lock("pthread_rwlock_wrlock", 0, LockFunction::Exclusive),
            lock("pthread_rwlock_trywrlock", 0, LockFunction::Exclusive),
            lock("pthread_rwlock_timedwrlock", 0, LockFunction::Exclusive),
            lock("pthread_rwlock_clockwrlock", 0, LockFunction::Exclusive),
            lock("pthread_rwlock_unlock", 0, LockFunction::Release),
            ordered(
                "pthread_spin_lock",
                0,
                LockFunction::Exclusive,
                LockOrder::Certain,
            ),
            lock("pthread_spin_trylock", 0, LockFunction::Exclusive),
            ordered(
                "pthread_spin_unlock",
                0,
                LockFunction::Release,
                LockOrder::Certain,
            ),
            lock("pthread_cond_wait", 1, LockFunction::Wait),
            lock("pthread_cond_timedwait", 1, LockFunction::Wait),
            lock("pthread_cond_clockwait", 1, LockFunction::Wait),
            lock("mtx_lock", 0, LockFunction::Exclusive),
            lock("mtx_trylock", 0, LockFunction::Exclusive),
            lock("mtx_timedlock", 0, LockFunction::Exclusive),
            lock("mtx_unlock", 0, LockFunction::Release),
            lock("cnd_wait", 1, LockFunction::Wait),
            lock("cnd_timedwait", 1, LockFunction::Wait),
            // The condition variables, `call_once` and shared mutexes of C++ call these.
            orders("pthread_cond_signal", 0, OrderFunction::Signal),
            orders("pthread_cond_broadcast", 0, OrderFunction::Signal),
            orders("cnd_signal", 0, OrderFunction::Signal),
            orders("cnd_broadcast", 0, OrderFunction::Signal),
            orders("sem_wait", 0, OrderFunction::SemaphoreWait),
            orders("sem_trywait", 0, OrderFunction::SemaphoreWait),
            orders("sem_timedwait", 0, OrderFunction::SemaphoreWait),
            orders("sem_clockwait", 0, OrderFunction::SemaphoreWait),
            orders("sem_post", 0, OrderFunction::SemaphorePost),
            Function {
                arguments: 3,
                ..orders("sem_init", 0, OrderFunction::SemaphoreInit)
            },
            orders("sem_open", 3, OrderFunction::SemaphoreOpen),
            orders("pthread_barrier_wait", 0, OrderFunction::Barrier),
            orders("pthread_once", 0, OrderFunction::Once),
            orders("call_once", 0, OrderFunction::Once),
        ],
        frames: &[
            frame("memcpy", FrameMeaning::Copy),
            frame("memmove", FrameMeaning::Copy),
            frame("memset", FrameMeaning::Copy),
            frame("mempcpy", FrameMeaning::Copy),
            frame("memccpy", FrameMeaning::Copy),
            frame("bcopy", FrameMeaning::Copy),
            frame("bzero", FrameMeaning::Copy),
            frame("strcpy", FrameMeaning::Copy),
            frame("strncpy", FrameMeaning::Copy),
            frame("stpcpy", FrameMeaning::Copy),
            frame("stpncpy", FrameMeaning::Copy),
            frame("strcat", FrameMeaning::Copy),
            frame("strncat", FrameMeaning::Copy),
            frame("pthread_", FrameMeaning::Lock),
            frame("sem_", FrameMeaning::Lock),
            frame("lll_lock_", FrameMeaning::Lock),
            frame("_start", FrameMeaning::Start),
            frame("__libc_start_", FrameMeaning::Start),
        ],
        memory: &[
            memory("mmap", MemoryEffect::Maps),
            memory("mmap64", MemoryEffect::Maps),
            memory("msync", MemoryEffect::Syncs),
            memory("fsync", MemoryEffect::Syncs),
            memory("fdatasync", MemoryEffect::Syncs),
            stores("memcpy", 0, StoredLength::Argument(2)),
            stores("memmove", 0, StoredLength::Argument(2)),
            stores("memset", 0, StoredLength::Argument(2)),
            stores("mempcpy", 0, StoredLength::Argument(2)),
            stores("memccpy", 0, StoredLength::Argument(3)),
            stores("bcopy", 1, StoredLength::Argument(2)),
            stores("bzero", 0, StoredLength::Argument(1)),
            stores("strncpy", 0, StoredLength::Argument(2)),
            stores("stpncpy", 0, StoredLength::Argument(2)),
            stores("strcpy", 0, StoredLength::Text),
            stores("stpcpy", 0, StoredLength::Text),
            stores("strcat", 0, StoredLength::Text),
            stores("strncat", 0, StoredLength::Text),
            stores("sprintf", 0, StoredLength::Text),
            stores("snprintf", 0, StoredLength::Text),
            stores("read", 1, StoredLength::Argument(2)),
            stores("pread", 1, StoredLength::Argument(2)),
            stores("recv", 1, StoredLength::Argument(2)),
        ],
        ..NONE
    },
    // The containers of libpmemobj-cpp, which is a header-only library.
    Library {
        role: LibraryRole::Structures,
        headers: &[
            "/libpmemobj++/container/",
            "/libpmemobj++/experimental/concurrent_map.hpp",
            "/libpmemobj++/experimental/inline_string.hpp",
            "/libpmemobj++/experimental/mpsc_queue.hpp",
            "/libpmemobj++/experimental/radix_tree.hpp",
        ],
        ..NONE
    },
    // The rest of libpmemobj-cpp. Its `pool::create` calls `pmemobj_create`, and its locks call those of libpmemobj.
    Library {
        role: LibraryRole::Bindings,
        headers: &["/libpmemobj++/"],
        frames: &[frame("::snapshot", FrameMeaning::ExplicitSnapshot)],
        source_calls: Some(SourceCalls {
            header: "libpmemobj++",
            log: Some(LogCall {
                name: "pmem::obj::transaction::snapshot",
                takes_length: false,
            }),
            ..NO_CALLS
        }),
        ..NONE
    },
    // The C++ standard library.
    Library {
        role: LibraryRole::Wrapper,
        headers: &["/include/c++/"],
        memory: &[
            memory("size", MemoryEffect::ComputesAddressAsMethod),
            memory("length", MemoryEffect::ComputesAddressAsMethod),
            memory("data", MemoryEffect::ComputesAddressAsMethod),
            memory("c_str", MemoryEffect::ComputesAddressAsMethod),
        ],
        ..NONE
    },
    // Threading Building Blocks before oneTBB; the locks that are not here are compiled into the target from headers.
    Library {
        modules: &["libtbb.so"],
        functions: &[
            tbb(
                "_ZN3tbb16spin_rw_mutex_v323internal_acquire_writerEv",
                LockFunction::Exclusive,
                Acquired::Always,
            ),
            tbb(
                "_ZN3tbb16spin_rw_mutex_v327internal_try_acquire_writerEv",
                LockFunction::Exclusive,
                Acquired::IfTrue,
            ),
            tbb(
                "_ZN3tbb16spin_rw_mutex_v323internal_release_writerEv",
                LockFunction::Release,
                Acquired::Always,
            ),
            tbb(
                "_ZN3tbb16spin_rw_mutex_v323internal_acquire_readerEv",
                LockFunction::Shared,
                Acquired::Always,
            ),
            tbb(
                "_ZN3tbb16spin_rw_mutex_v327internal_try_acquire_readerEv",
                LockFunction::Shared,
                Acquired::IfTrue,
            ),
            tbb(
                "_ZN3tbb16spin_rw_mutex_v323internal_release_readerEv",
                LockFunction::Release,
                Acquired::Always,
            ),
        ],
        headers: &["/include/tbb/", "/include/oneapi/tbb/"],
        ..NONE
    },
    // The runtime libraries of GCC, and the intrinsics of GCC and Clang.
    Library {
        modules: &["libstdc++.so", "libgcc_s.so"],
        functions: &[
            orders("__cxa_guard_acquire", 0, OrderFunction::GuardAcquire),
            orders("__cxa_guard_release", 0, OrderFunction::GuardRelease),
        ],
        headers: &["/lib/gcc/", "/lib/clang/"],
        memory: &[
            memory("_mm_clwb", MemoryEffect::FlushesLine),
            memory("_mm_clflushopt", MemoryEffect::FlushesLine),
            memory("_mm_clflush", MemoryEffect::FlushesLine),
        ],
        ..NONE
    },
    // Rust.
    Library {
        headers: &["/rustc/", "/compiler_builtins"],
        memory: &[
            memory("len", MemoryEffect::ComputesAddressAsMethod),
            memory("as_ptr", MemoryEffect::ComputesAddressAsMethod),
            memory("add", MemoryEffect::ComputesAddress),
            memory("sub", MemoryEffect::ComputesAddress),
            memory("offset", MemoryEffect::ComputesAddress),
            memory("cast", MemoryEffect::ComputesAddress),
            memory("as_mut_ptr", MemoryEffect::ComputesAddress),
        ],
        ..NONE
    },
    Library {
        role: LibraryRole::Structures,
        modules: &["libpmemobj.so"],
        prefixes: &[
            "pmemobj_",
            "_pobj_",
            "palloc_",
            "pmalloc_",
            "ulog_",
            "memblock_",
            "lane_",
        ],
        sources: &["/src/libpmemobj/"],
        functions: &[
            creates_pool("pmemobj_create"),
            creates_pool("pmemobj_createU"),
            tx("pmemobj_open", 2, TxFunction::Pool),
            tx("pmemobj_close", 1, TxFunction::Pool),
            tx("pmemobj_tx_begin", 2, TxFunction::Begin),
            tx("pmemobj_tx_commit", 0, TxFunction::Commit),
            tx("pmemobj_tx_abort", 1, TxFunction::Abort),
            tx("pmemobj_tx_end", 0, TxFunction::End),
            tx("pmemobj_tx_process", 0, TxFunction::Process),
            tx("pmemobj_tx_lock", 2, TxFunction::Other),
            tx("pmemobj_tx_xlock", 3, TxFunction::Other),
            tx("pmemobj_tx_add_range", 4, TxFunction::Add),
            tx("pmemobj_tx_add_range_direct", 2, TxFunction::AddDirect),
            tx("pmemobj_tx_xadd_range", 5, TxFunction::Add),
            tx("pmemobj_tx_xadd_range_direct", 3, TxFunction::AddDirect),
            tx("pmemobj_tx_alloc", 2, allocates(0)),
            tx("pmemobj_tx_zalloc", 2, allocates(0)),
            tx("pmemobj_tx_xalloc", 3, allocates(0)),
            tx("pmemobj_tx_realloc", 4, allocates(2)),
            tx("pmemobj_tx_zrealloc", 4, allocates(2)),
            tx("pmemobj_tx_strdup", 2, COPIES),
            tx("pmemobj_tx_xstrdup", 3, COPIES),
            tx("pmemobj_tx_wcsdup", 2, COPIES),
            tx("pmemobj_tx_xwcsdup", 3, COPIES),
            tx("pmemobj_tx_free", 2, TxFunction::Free),
            tx("pmemobj_tx_xfree", 3, TxFunction::Free),
            tx("pmemobj_tx_publish", 2, TxFunction::Other),
            tx("pmemobj_tx_xpublish", 3, TxFunction::Other),
            allocates_identified("pmemobj_alloc"),
            allocates_identified("pmemobj_xalloc"),
            allocates_identified("pmemobj_zalloc"),
            allocates_identified("pmemobj_realloc"),
            allocates_identified("pmemobj_zrealloc"),
            copies_identified("pmemobj_strdup"),
            copies_identified("pmemobj_wcsdup"),
            frees("pmemobj_free", 1, FreedObject::Identified(0)),
            frees("pmemobj_defer_free", 3, FreedObject::Offset(2)),
            tx("pmemobj_reserve", 4, TxFunction::Reserve),
            tx("pmemobj_xreserve", 4, TxFunction::Reserve),
            // `pmemobj_root` calls it.
            tx("pmemobj_root_construct", 2, TxFunction::Root),
            // The first argument is the pool.
            ordered(
                "pmemobj_mutex_lock",
                1,
                LockFunction::Exclusive,
                LockOrder::ByCLibrary,
            ),
            lock("pmemobj_mutex_trylock", 1, LockFunction::Exclusive),
            lock("pmemobj_mutex_timedlock", 1, LockFunction::Exclusive),
            ordered(
                "pmemobj_mutex_unlock",
                1,
                LockFunction::Release,
                LockOrder::ByCLibrary,
            ),
            lock("pmemobj_rwlock_rdlock", 1, LockFunction::Shared),
            lock("pmemobj_rwlock_tryrdlock", 1, LockFunction::Shared),
            lock("pmemobj_rwlock_timedrdlock", 1, LockFunction::Shared),
            lock("pmemobj_rwlock_wrlock", 1, LockFunction::Exclusive),
            lock("pmemobj_rwlock_trywrlock", 1, LockFunction::Exclusive),
            lock("pmemobj_rwlock_timedwrlock", 1, LockFunction::Exclusive),
            lock("pmemobj_rwlock_unlock", 1, LockFunction::Release),
            lock("pmemobj_cond_wait", 2, LockFunction::Wait),
            lock("pmemobj_cond_timedwait", 2, LockFunction::Wait),
            orders("pmemobj_cond_signal", 1, OrderFunction::Signal),
            orders("pmemobj_cond_broadcast", 1, OrderFunction::Signal),
        ],
        frames: &[
            frame("pmemobj_persist", FrameMeaning::ThinEntry),
            frame("pmemobj_xpersist", FrameMeaning::ThinEntry),
            frame("pmemobj_flush", FrameMeaning::ThinEntry),
            frame("pmemobj_xflush", FrameMeaning::ThinEntry),
            frame("pmemobj_drain", FrameMeaning::ThinEntry),
            frame("pmemobj_memcpy", FrameMeaning::ThinEntry),
            frame("pmemobj_memmove", FrameMeaning::ThinEntry),
            frame("pmemobj_memset", FrameMeaning::ThinEntry),
            frame("pmemobj_memcpy_persist", FrameMeaning::ThinEntry),
            frame("pmemobj_memmove_persist", FrameMeaning::ThinEntry),
            frame("pmemobj_memset_persist", FrameMeaning::ThinEntry),
            frame("pmemobj_memcpy_nodrain", FrameMeaning::ThinEntry),
            frame("pmemobj_memmove_nodrain", FrameMeaning::ThinEntry),
            frame("pmemobj_memset_nodrain", FrameMeaning::ThinEntry),
        ],
        memory: &[
            memory("pmemobj_create", MemoryEffect::ReturnsPersistent),
            memory("pmemobj_open", MemoryEffect::ReturnsPersistent),
            memory("pmemobj_pool_by_oid", MemoryEffect::ReturnsPersistent),
            memory("pmemobj_pool_by_ptr", MemoryEffect::ReturnsPersistent),
            memory("pmemobj_reserve", MemoryEffect::ReturnsPersistent),
            memory("pmemobj_volatile", MemoryEffect::ReturnsPersistent),
            memory("pmemobj_direct", MemoryEffect::ReturnsPersistent),
            memory("D_RW", MemoryEffect::ComputesAddress),
            memory("D_RO", MemoryEffect::ComputesAddress),
            memory("DIRECT_RW", MemoryEffect::ComputesAddress),
            memory("DIRECT_RO", MemoryEffect::ComputesAddress),
        ],
        pool_variables: &["_pobj_cached_pool"],
        source_calls: Some(SourceCalls {
            header: "libpmemobj",
            flush: Some("pmemobj_flush"),
            persist: Some("pmemobj_persist"),
            log: Some(LOG_BY_C),
            pool: Some(PoolNames {
                ty: "PMEMobjpool",
                variable: "pop",
                of_address: "pmemobj_pool_by_ptr",
            }),
            ..NO_CALLS
        }),
        identifier: Some(ObjectIdentifier {
            ty: "pmemoid",
            offset: "off",
            typed_by: "_type",
            conversions: &["pmemobj_direct", "pmemobj_direct_inline"],
        }),
        ..NONE
    },
    // Allocators whose heaps programs also keep in persistent memory.
    Library {
        modules: &["libmemkind.so", "libvmem.so"],
        functions: &[
            allocates_memory("memkind_malloc", 2, AllocatedSize::Argument(1)),
            allocates_memory("memkind_calloc", 3, AllocatedSize::Product(1, 2)),
            allocates_memory("memkind_realloc", 3, AllocatedSize::Argument(2)),
            frees("memkind_free", 2, FreedObject::Address(1)),
            allocates_memory("vmem_malloc", 2, AllocatedSize::Argument(1)),
            allocates_memory("vmem_calloc", 3, AllocatedSize::Product(1, 2)),
            allocates_memory("vmem_realloc", 3, AllocatedSize::Argument(2)),
            allocates_memory("vmem_aligned_alloc", 3, AllocatedSize::Argument(2)),
            allocates_memory("vmem_strdup", 2, AllocatedSize::Unknown),
            frees("vmem_free", 2, FreedObject::Address(1)),
        ],
        ..NONE
    },
    Library {
        role: LibraryRole::Structures,
        modules: &["libpmemblk.so"],
        prefixes: &["pmemblk_"],
        sources: &["/src/libpmemblk/"],
        functions: &[
            creates_pool("pmemblk_create"),
            creates_pool("pmemblk_createU"),
        ],
        ..NONE
    },
    Library {
        role: LibraryRole::Structures,
        modules: &["libpmemlog.so"],
        prefixes: &["pmemlog_"],
        sources: &["/src/libpmemlog/"],
        functions: &[
            creates_pool("pmemlog_create"),
            creates_pool("pmemlog_createU"),
        ],
        ..NONE
    },
    Library {
        role: LibraryRole::Structures,
        modules: &["libpmempool.so"],
        prefixes: &["pmempool_"],
        sources: &["/src/libpmempool/"],
        ..NONE
    },
    Library {
        role: LibraryRole::Carrier,
        modules: &["libpmem.so"],
        prefixes: &["pmem_"],
        sources: &["/src/libpmem/"],
        memory: &[memory("pmem_map_file", MemoryEffect::ReturnsPersistent)],
        source_calls: Some(SourceCalls {
            header: "libpmem.h",
            flush: Some("pmem_flush"),
            persist: Some("pmem_persist"),
            drain: Some("pmem_drain"),
            ..NO_CALLS
        }),
        ..NONE
    },
    Library {
        role: LibraryRole::Carrier,
        modules: &["libpmem2.so"],
        prefixes: &["pmem2_"],
        sources: &["/src/libpmem2/"],
        memory: &[memory(
            "pmem2_map_get_address",
            MemoryEffect::ReturnsPersistent,
        )],
        ..NONE
    },
    // What the libraries of PMDK share. The directories have common names, so the path must name the project too.
    Library {
        role: LibraryRole::Shared,
        project: "/pmdk",
        sources: &["/src/common/", "/src/core/"],
        ..NONE
    },
];

const NONE: Library = Library {
    role: LibraryRole::Language,
    modules: &[],
    prefixes: &[],
    project: "",
    sources: &[],
    headers: &[],
    start_files: &[],
    functions: &[],
    frames: &[],
    memory: &[],
    pool_variables: &[],
    source_calls: None,
    identifier: None,
};

/// How C logs, also in a file that includes no header of a library itself.
pub(crate) const LOG_BY_C: LogCall = LogCall {
    name: "pmemobj_tx_add_range_direct",
    takes_length: true,
};

const NO_CALLS: SourceCalls = SourceCalls {
    header: "",
    flush: None,
    persist: None,
    drain: None,
    log: None,
    pool: None,
};

const fn memory(name: &'static str, effect: MemoryEffect) -> MemoryFunction {
    MemoryFunction { name, effect }
}

const fn stores(name: &'static str, to: u8, length: StoredLength) -> MemoryFunction {
    memory(name, MemoryEffect::Stores { to, length })
}

const fn tx(name: &'static str, arguments: u8, function: TxFunction) -> Function {
    Function {
        name,
        arguments,
        purpose: Purpose::Transaction(function),
    }
}

const fn allocates(size: usize) -> TxFunction {
    TxFunction::Allocate { size: Some(size) }
}

const COPIES: TxFunction = TxFunction::Allocate { size: None };

const fn creates_pool(name: &'static str) -> Function {
    Function {
        name,
        arguments: 1,
        purpose: Purpose::CreatePool,
    }
}

/// The arguments are the pool, where the identifier is to be stored, the size, and the number of the type.
const fn allocates_identified(name: &'static str) -> Function {
    identifies(name, AllocatedSize::Argument(2))
}

/// The arguments are the pool, where the identifier is to be stored, what is copied, and the number of the type.
const fn copies_identified(name: &'static str) -> Function {
    identifies(name, AllocatedSize::Unknown)
}

const fn identifies(name: &'static str, size: AllocatedSize) -> Function {
    Function {
        name,
        arguments: 4,
        purpose: Purpose::Allocate {
            size,
            result: AllocationResult::Identifier(1),
        },
    }
}

const fn allocates_memory(name: &'static str, arguments: u8, size: AllocatedSize) -> Function {
    Function {
        name,
        arguments,
        purpose: Purpose::Allocate {
            size,
            result: AllocationResult::Address,
        },
    }
}

const fn frees(name: &'static str, arguments: u8, freed: FreedObject) -> Function {
    Function {
        name,
        arguments,
        purpose: Purpose::Free(freed),
    }
}

const fn joins(name: &'static str) -> Function {
    Function {
        name,
        arguments: 1,
        purpose: Purpose::ThreadJoin,
    }
}

const fn outputs(name: &'static str) -> Function {
    Function {
        name,
        arguments: 1,
        purpose: Purpose::Output,
    }
}

const fn leaves(name: &'static str) -> Function {
    Function {
        name,
        arguments: 0,
        purpose: Purpose::Leave,
    }
}

/// The address of the lock is the argument with index `lock`.
const fn lock(name: &'static str, lock: u8, function: LockFunction) -> Function {
    ordered(name, lock, function, LockOrder::Uncertain)
}

/// A lock of which more is known.
const fn ordered(
    name: &'static str,
    lock: u8,
    function: LockFunction,
    order: LockOrder,
) -> Function {
    Function {
        name,
        arguments: lock + 1,
        purpose: Purpose::Lock {
            function,
            lock,
            acquired: match function {
                LockFunction::Exclusive | LockFunction::Shared => Acquired::IfZero,
                _ => Acquired::Always,
            },
            order,
        },
    }
}

/// A member function of a lock.
const fn tbb(name: &'static str, function: LockFunction, acquired: Acquired) -> Function {
    Function {
        name,
        arguments: 1,
        purpose: Purpose::Lock {
            function,
            lock: 0,
            acquired,
            order: LockOrder::Uncertain,
        },
    }
}

/// The address of what the threads share is the argument with index `object`.
const fn orders(name: &'static str, object: u8, function: OrderFunction) -> Function {
    Function {
        name,
        arguments: object + 1,
        purpose: Purpose::Order { function, object },
    }
}

const fn frame(name: &'static str, meaning: FrameMeaning) -> FrameName {
    FrameName { name, meaning }
}
