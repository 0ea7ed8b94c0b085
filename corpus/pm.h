/* What the programs share: a pool, and stores, flushes and fences as macros, so that the line of each
 * instruction is the line of the program that uses it.
 *
 * STORE, FLUSH, FENCE and PERSIST do what the variant says: `clwb` (which is meant when there are no
 * variants), `clflushopt`, `clflush`, which is in order by itself, so that FENCE does nothing, and `nt`, in
 * which stores go around the cache, so that FLUSH does nothing. The macros named after instructions are
 * the same in every variant. */
#ifndef PM_H
#define PM_H

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* One cache line. */
struct line {
  uint64_t word[8];
} __attribute__((aligned(64)));

enum { POOL_LINES = 1024, POOL_SIZE = POOL_LINES * 64 };

/* Maps the file at `path`, made if need be. */
static inline struct line *map_pool(const char *path) {
  int fd = open(path, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate(fd, POOL_SIZE) != 0)
    exit(1);
  void *map = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (map == MAP_FAILED)
    exit(1);
  close(fd);
  return (struct line *)map;
}

/* On a CPU without clwb, clflushopt takes its place: it is ordered in the same way. */
#if defined(NO_CLWB)
#define CLWB(place) CLFLUSHOPT(place)
#else
#define CLWB(place) __asm__ volatile("clwb %0" : "+m"(*(volatile char *)&(place))::"memory")
#endif
#define CLFLUSHOPT(place) __asm__ volatile("clflushopt %0" : "+m"(*(volatile char *)&(place))::"memory")
#define CLFLUSH(place) __asm__ volatile("clflush %0" : "+m"(*(volatile char *)&(place))::"memory")
#define SFENCE() __asm__ volatile("sfence" ::: "memory")
#define MFENCE() __asm__ volatile("mfence" ::: "memory")
#define MOV(place, value) (*(volatile __typeof__(place) *)&(place) = (value))
#define MOVNTI(place, value) __asm__ volatile("movnti %1, %0" : "=m"(place) : "r"((uint64_t)(value)) : "memory")
#define LOCK_INC(place) __asm__ volatile("lock incq %0" : "+m"(place)::"memory", "cc")
#define XCHG(place, value)                                                                        \
  do {                                                                                            \
    uint64_t exchanged = (value);                                                                 \
    __asm__ volatile("xchgq %1, %0" : "+m"(place), "+r"(exchanged)::"memory");                    \
  } while (0)

#if defined(VARIANT_nt)
#define STORE(place, value) MOVNTI(place, value)
#define FLUSH(place) ((void)0)
#define FENCE() SFENCE()
#elif defined(VARIANT_clflush)
#define STORE(place, value) MOV(place, value)
#define FLUSH(place) CLFLUSH(place)
#define FENCE() ((void)0)
#else
#define STORE(place, value) MOV(place, value)
#if defined(VARIANT_clflushopt)
#define FLUSH(place) CLFLUSHOPT(place)
#else
#define FLUSH(place) CLWB(place)
#endif
#define FENCE() SFENCE()
#endif

#define PERSIST(place) \
  do {                 \
    FLUSH(place);      \
    FENCE();           \
  } while (0)

#endif
