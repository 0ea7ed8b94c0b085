/* Transfers by io_uring: reads into persistent memory, plain, vectored and with registered buffers, and writes to the mapped
 * file. A kernel without io_uring does the same by system calls. */
#include <linux/io_uring.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include "pm.h"

enum { PAGE = 4096, LENGTH = 32 * PAGE, ENTRIES = 8 };

static struct io_uring_params params;
static char *sq, *cq;
static struct io_uring_sqe *requests;
static int ring = -1;

#define AT(base, offset) ((_Atomic unsigned *)((base) + (offset)))

static void set_up(void) {
  ring = (int)syscall(SYS_io_uring_setup, ENTRIES, &params);
  if (ring < 0) return;
  int prot = PROT_READ | PROT_WRITE;
  size_t sq_size = params.sq_off.array + params.sq_entries * 4, cq_size = params.cq_off.cqes + params.cq_entries * 16;
  sq = mmap(NULL, sq_size, prot, MAP_SHARED, ring, IORING_OFF_SQ_RING);
  cq = mmap(NULL, cq_size, prot, MAP_SHARED, ring, IORING_OFF_CQ_RING);
  requests = mmap(NULL, params.sq_entries * 64, prot, MAP_SHARED, ring, IORING_OFF_SQES);
  check(sq != MAP_FAILED && cq != MAP_FAILED && requests != MAP_FAILED);
}

/* Puts a request into the ring, which is submitted later. */
static void ask(int opcode, int fd, void *address, unsigned length, off_t offset, unsigned long name) {
  unsigned tail = *AT(sq, params.sq_off.tail), slot = tail & *AT(sq, params.sq_off.ring_mask);
  memset(&requests[slot], 0, 64);
  requests[slot] = (struct io_uring_sqe){.opcode = (unsigned char)opcode, .fd = fd, .addr = (uintptr_t)address,
                                         .len = length, .off = (unsigned long)offset, .user_data = name};
  *AT(sq, params.sq_off.array + slot * 4) = slot;
  *AT(sq, params.sq_off.tail) = tail + 1;
}

/* Submits all and waits; each must have transferred as much as its name says in its upper half. */
static void go(unsigned count) {
  check(syscall(SYS_io_uring_enter, ring, count, count, IORING_ENTER_GETEVENTS, NULL, 0) == count);
  for (unsigned i = 0; i < count; i++) {
    unsigned head = *AT(cq, params.cq_off.head);
    check(head != *AT(cq, params.cq_off.tail));
    struct io_uring_cqe *done = (struct io_uring_cqe *)(cq + params.cq_off.cqes) + (head & *AT(cq, params.cq_off.ring_mask));
    check((unsigned long)done->res == done->user_data >> 32);
    *AT(cq, params.cq_off.head) = head + 1;
  }
}

static unsigned long name(unsigned long length, int number) { return length << 32 | (unsigned)number; }

int main(int argc, char **argv) {
  static char text[2 * PAGE], spare[64];
  const char *directory = directory_of(argc, argv);
  int source = pm_open(directory, "source", sizeof text);
  for (size_t i = 0; i < sizeof text; i++) text[i] = (char)noise();
  check(pwrite(source, text, sizeof text, 0) == sizeof text);
  set_up(); /* before there is any persistent memory */
  int fd = pm_open(directory, "file", LENGTH);
  char *map = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  check(map != MAP_FAILED);
  memset(map, 3, 8 * PAGE);
  struct iovec parts[3] = {{map + 9 * PAGE - 5, 100}, {spare, 50}, {map + 10 * PAGE, 500}};
  struct iovec registered = {map + 12 * PAGE, 2 * PAGE};
  int fixed = 0;
  for (int round = 0; round < 20; round++) {
    char *at = map + round * 300;
    if (ring < 0) {
      check(pread(source, at, 700, 10) == 700 && preadv(source, parts, 3, round) == 650);
      check(pread(source, map + 12 * PAGE + round, 5000, 1) == 5000);
      check(pwrite(fd, text, 300, 20 * PAGE + round) == 300 && pwritev(fd, parts, 3, 22 * PAGE) == 650);
      continue;
    }
    ask(IORING_OP_READ, source, at, 700, 10, name(700, round));
    ask(IORING_OP_READV, source, parts, 3, round, name(650, round + 100));
    go(2);
    check(memcmp(at, text + 10, 700) == 0);
    if (round == 0) /* not all file systems allow it */
      fixed = syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, &registered, 1) == 0;
    ask(fixed ? IORING_OP_READ_FIXED : IORING_OP_READ, source, map + 12 * PAGE + round, 5000, 1, name(5000, round));
    go(1);
    at[1] = (char)round; /* the program stores next to it */
    ask(IORING_OP_WRITE, fd, text, 300, 20 * PAGE + round, name(300, round));
    go(1);
    ask(IORING_OP_WRITEV, fd, parts, 3, 22 * PAGE, name(650, round));
    go(1);
  }
  char path[4096];
  snprintf(path, sizeof path, "%s/source", directory);
  check(unlink(path) == 0);
  return 0;
}
