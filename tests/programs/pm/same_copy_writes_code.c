/* The same instructions store to persistent memory and then to code that has already run, which lies between two
 * persistent files; and then to a page that may not be written. */
#include <setjmp.h>
#include "../code/generated.h"
#include "pm.h"

static void copy_bytes(void *to, const void *from) {
  long count = 64;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(count) : : "memory");
  check(count == 0);
}

static void copy_vector(void *to, const void *from) {
  __asm__ volatile("movups (%1), %%xmm0\nmovups %%xmm0, (%0)" : : "r"(to), "r"(from) : "xmm0", "memory");
}

static sigjmp_buf back;
static char *volatile refused;

static void handler(int signal, siginfo_t *info, void *context) {
  (void)context;
  check(signal == SIGSEGV && info->si_addr == refused);
  siglongjmp(back, 1);
}

enum { LEN = 64 << 10 };

int main(int argc, char **argv) {
  char *room = mmap(NULL, 3 * LEN, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(room != MAP_FAILED);
  int fd = pm_open(directory_of(argc, argv), "file", 2 * LEN);
  for (int i = 0; i < 2; i++)
    check(mmap(room + 2 * i * LEN, LEN, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, i * LEN) != MAP_FAILED);
  unsigned char *code = mmap(room + LEN, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  check(code == (unsigned char *)room + LEN);
  handle(SIGSEGV, handler, 0);
  for (int i = 0; i < 200; i++) {
    void (*copy)(void *, const void *) = i % 2 ? copy_bytes : copy_vector;
    unsigned char function[64] = {0};
    write_function(function, i);
    copy(room + 64 * i, function);
    copy(room + 2 * LEN + 64 * i, function);
    copy(code + 64 * (i % 5), function);
    copy(code + 4096 + 64 * (i % 3), function);
    check(call(code + 64 * (i % 5)) == i && call(code + 4096 + 64 * (i % 3)) == i);
    refused = room + LEN + 8192 + 64 * i;
    if (sigsetjmp(back, 1) == 0) {
      copy(refused, function);
      check(0);
    }
  }
  say("copied");
  return 0;
}
