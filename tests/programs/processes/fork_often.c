/* A process that forks often, while a thread of it runs. Children take ways that the parent has not taken: direct and
 * indirect calls, code that they write themselves, handlers of signals, forks of their own.
 *
 * @flags -pthread
 */
#include <pthread.h>
#include "check.h"

enum { FORKS = 48 };

static volatile int stop;

static __attribute__((noinline)) unsigned mix(unsigned x, unsigned by) { return (x ^ x >> 5) * 31 + by; }

#define WAY(n)                                                                              \
  static __attribute__((noinline)) unsigned way##n(unsigned x) {                            \
    for (int i = 0; i < n + 3; i++) x = mix(x, n) + (x & 1 ? n * 7u : x >> (n + 1));         \
    return x;                                                                               \
  }
WAY(0) WAY(1) WAY(2) WAY(3) WAY(4) WAY(5)
static unsigned (*const ways[])(unsigned) = {way0, way1, way2, way3, way4, way5};

static void *spin(void *unused) {
  (void)unused;
  unsigned x = 1;
  while (!stop) x = ways[x % 3](x);
  return (void *)(uintptr_t)(x & 1);
}

/* mov eax, value; ret */
static unsigned run_written(unsigned char *code, unsigned value) {
  code[0] = 0xb8;
  memcpy(code + 1, &value, 4);
  code[5] = 0xc3;
  unsigned (*function)(void);
  memcpy(&function, &code, sizeof function);
  return function();
}

static volatile sig_atomic_t handled;
static void on_signal(int signal, siginfo_t *info, void *context) {
  (void)info, (void)context;
  handled = signal;
}

static int as_child(int number, unsigned char *code) {
  unsigned x = ways[number % 6](number);
  if (number % 4 == 1) check(run_written(code, 1000 + number) == 1000u + number);
  if (number % 4 == 2) {
    handle(SIGUSR1, on_signal, 0);
    raise(SIGUSR1);
    check(handled == SIGUSR1);
  }
  if (number % 4 == 3) {
    pid_t grandchild = fork();
    if (grandchild == 0) _exit(ways[(number + 1) % 6](x) & 63);
    check(exit_status(grandchild) == (int)(ways[(number + 1) % 6](x) & 63));
  }
  return x & 127;
}

int main(void) {
  unsigned char *code = mmap(0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(code != MAP_FAILED && run_written(code, 7) == 7);
  pthread_t thread;
  for (int i = 0; i < FORKS; i++) {
    if (i == FORKS / 12) check(pthread_create(&thread, 0, spin, 0) == 0);
    pid_t child = fork();
    if (child == 0) _exit(as_child(i, code));
    check(exit_status(child) == (int)(ways[i % 6](i) & 127));
    check(run_written(code, i) == (unsigned)i);
    if (i == FORKS / 2) {
      stop = 1;
      check(pthread_join(thread, 0) == 0);
    }
  }
  say("done");
  return 0;
}
