/* Locks that have no functions of their own, and atomic instructions that are no locks.
 *
 * With an argument, it is a directory for a file that is mapped. Each case stores its number to the file's first word, then to
 * its second word wherever the letters of `crates/brownout/tests/locks.rs` have an s.
 *
 * @build pie static musl
 * @flags -D_GNU_SOURCE -pthread
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include "check.h"

static volatile uint64_t *file;

static void begins(uint64_t number) { file[0] = number; }
static void store(void) { file[8]++; }

/* The value before; it never stores through the compiler's own idea of a lock. */
static uint32_t exchange(volatile uint32_t *word, uint32_t value) {
  __asm__ volatile("xchgl %0, %1" : "+r"(value), "+m"(*word) : : "memory");
  return value;
}

static int compare_exchange(volatile uint64_t *word, uint64_t old, uint64_t new_value) {
  uint8_t done;
  __asm__ volatile("lock cmpxchgq %3, %1; sete %0" : "=q"(done), "+m"(*word), "+a"(old) : "r"(new_value) : "memory", "cc");
  return done;
}

static void spin_lock(void) {
  static volatile uint32_t word;
  for (int i = 0; i < 2; i++) {
    check(exchange(&word, 1) == 0);
    store();
    store();
    word = 0;
    store();
  }
}

static void version_lock(void) {
  static volatile uint64_t word = 6;
  for (uint64_t version = 6; version < 10; version += 2) {
    check(compare_exchange(&word, version, version + 1));
    store();
    word = version + 2;
    store();
  }
}

static void optimistic_lock(void) {
  static volatile uint64_t word = 4;
  check(compare_exchange(&word, 4, 6));
  store();
  __asm__ volatile("lock addq $2, %0" : "+m"(word) : : "memory", "cc");
  store();
}

static void bit_lock(void) {
  static volatile uint32_t word = 0x50;
  uint8_t was_set;
  __asm__ volatile("lock btsl $3, %1; setc %0" : "=q"(was_set), "+m"(word) : : "memory", "cc");
  check(!was_set);
  store();
  __asm__ volatile("lock btrl $3, %0" : "+m"(word) : : "memory", "cc");
  store();
}

/* The bit is in the second word from the operand's address. */
static void numbered_bit_lock(void) {
  static volatile uint32_t words[4];
  uint8_t was_set;
  uint32_t number = 35;
  __asm__ volatile("lock btsl %2, %1; setc %0" : "=q"(was_set), "+m"(words) : "r"(number) : "memory", "cc");
  check(!was_set && words[1] == 8);
  store();
  words[1] = 0;
  store();
}

static void readers_and_writer(void) {
  static volatile uint32_t word;
  uint32_t reader = 4, gone = (uint32_t)-4;
  __asm__ volatile("lock xaddl %0, %1" : "+r"(reader), "+m"(word) : : "memory", "cc");
  check(reader == 0);
  store();
  __asm__ volatile("lock xaddl %0, %1" : "+r"(gone), "+m"(word) : : "memory", "cc");
  store();
  uint8_t was_set;
  __asm__ volatile("lock btsl $0, %1; setc %0" : "=q"(was_set), "+m"(word) : : "memory", "cc");
  check(!was_set);
  store();
  __asm__ volatile("lock andl $-2, %0" : "+m"(word) : : "memory", "cc");
  store();
}

static void failed_attempts(void) {
  static volatile uint32_t word = 1;
  static volatile uint64_t other = 1;
  check(exchange(&word, 1) == 1);
  store();
  check(!compare_exchange(&other, 0, 1));
  store();
  word = 0;
  other = 0;
  store();
}

static void published_pointers(void) {
  static struct node { struct node *next; } nodes[32] __attribute__((aligned(256)));
  static volatile uint64_t head;
  for (int i = 0; i < 32; i += 8) {
    nodes[i].next = (struct node *)head;
    check(compare_exchange(&head, (uint64_t)nodes[i].next, (uint64_t)&nodes[i]));
    store();
  }
  while (head != 0) {
    struct node *first = (struct node *)head;
    check(compare_exchange(&head, (uint64_t)first, (uint64_t)first->next));
    store();
  }
}

static void without_stores(void) {
  static volatile uint32_t word;
  for (int i = 0; i < 1000; i++) {
    check(exchange(&word, 1) == 0);
    word = 0;
  }
  store();
}

static void nested(void) {
  static volatile uint32_t outer, inner;
  check(exchange(&outer, 1) == 0);
  store();
  check(exchange(&inner, 1) == 0);
  store();
  inner = 0;
  store();
  outer = 0;
  store();
}

static void lock_in_the_file(void) {
  volatile uint64_t *word = &file[16];
  check(compare_exchange(word, 0, 1));
  store();
  *word = 0;
  store();
}

/* Both processes have the lock, each its own copy. */
static void forked(void) {
  static volatile uint32_t word;
  check(exchange(&word, 1) == 0);
  store();
  pid_t child = fork();
  check(child >= 0);
  if (child == 0) {
    store();
    word = 0;
    store();
    _exit(0);
  }
  int status;
  check(waitpid(child, &status, 0) == child && status == 0);
  store();
  word = 0;
  store();
}

/* The other thread takes the lock before the first one has another event. */
static volatile uint32_t handed;
static atomic_int turn;

static void *takes_over(void *argument) {
  (void)argument;
  while (atomic_load(&turn) != 1) sched_yield();
  check(exchange(&handed, 1) == 0);
  atomic_store_explicit(&turn, 2, memory_order_release);
  while (atomic_load(&turn) != 3) sched_yield();
  handed = 0;
  return NULL;
}

static void handed_over(void) {
  pthread_t thread;
  check(pthread_create(&thread, NULL, takes_over, NULL) == 0);
  check(exchange(&handed, 1) == 0);
  store();
  handed = 0;
  atomic_store_explicit(&turn, 1, memory_order_release);
  while (atomic_load(&turn) != 2) sched_yield();
  store();
  atomic_store_explicit(&turn, 3, memory_order_release);
  check(pthread_join(thread, NULL) == 0);
}

int main(int argc, char **argv) {
  static void (*const cases[])(void) = {
      spin_lock,       version_lock,       optimistic_lock, bit_lock, numbered_bit_lock, readers_and_writer,
      failed_attempts, published_pointers, without_stores,  nested,   lock_in_the_file,  forked,
      handed_over,
  };
  char path[4096];
  snprintf(path, sizeof path, "%s/file", argc > 1 ? argv[1] : "/tmp");
  int fd = argc > 1 ? open(path, O_RDWR | O_CREAT, 0600) : memfd_create("file", 0);
  check(fd >= 0 && ftruncate(fd, 4096) == 0);
  file = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  check(file != MAP_FAILED);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    begins(i + 1);
    cases[i]();
  }
  begins(0);
  say("done");
  return 0;
}
