/* Locks of C++ that the compiler writes out: atomic_flag, an exchanged atomic, and a lock for readers and writers.
 *
 * With an argument, it is a directory for a file that is mapped, as for `locks_atomic.c`.
 *
 * @flags -std=c++20
 */
#include <atomic>
#include <fcntl.h>
#include "check.h"

static volatile uint64_t *file;

static void begins(uint64_t number) { file[0] = number; }
static void store() { file[8] = file[8] + 1; }

static void flag() {
  static std::atomic_flag locked = ATOMIC_FLAG_INIT;
  while (locked.test_and_set(std::memory_order_acquire)) {
  }
  store();
  locked.clear(std::memory_order_release);
  store();
}

static void sequentially_consistent_flag() {
  static std::atomic<bool> locked;
  while (locked.exchange(true)) {
  }
  store();
  locked.store(false);
  store();
}

static void compared() {
  static std::atomic<int> word;
  int free = 0;
  check(word.compare_exchange_strong(free, 1, std::memory_order_acquire));
  store();
  free = 0;
  check(!word.compare_exchange_strong(free, 1));
  store();
  word.store(0, std::memory_order_release);
  store();
}

static void readers() {
  static std::atomic<unsigned> word;
  for (int i = 0; i < 2; i++) {
    word.fetch_add(2);
    store();
    word.fetch_sub(2);
    store();
  }
}

int main(int argc, char **argv) {
  void (*const cases[])() = {flag, sequentially_consistent_flag, compared, readers};
  char path[4096];
  snprintf(path, sizeof path, "%s/file", argc > 1 ? argv[1] : "/tmp");
  int fd = argc > 1 ? open(path, O_RDWR | O_CREAT, 0600) : memfd_create("file", 0);
  check(fd >= 0 && ftruncate(fd, 4096) == 0);
  file = (volatile uint64_t *)mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  check(file != MAP_FAILED);
  uint64_t number = 0;
  for (auto run : cases) {
    begins(++number);
    run();
  }
  begins(0);
  say("done");
  return 0;
}
