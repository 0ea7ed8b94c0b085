/* Instructions whose operand lies partly in persistent memory and partly before or behind it: register states and scatters.
 *
 * @varying
 */
#include <immintrin.h>
#include <setjmp.h>
#include "pm.h"

enum { PAGE = 4096, LENGTH = 4 * PAGE, AROUND = 4 * PAGE };

static char plain[AROUND + LENGTH] __attribute__((aligned(4096)));
static char *map;

/* The same instruction at the edge and, at once, in plain memory: both must store the same. */
#define SAVE(text, at, mask) SAVE_TWICE(text, "", at, mask)
#define SAVE_TWICE(text, between, at, mask)                                                                        \
  do {                                                                                                             \
    char *edge_ = (at), *copy_ = plain + ((uintptr_t)edge_ & 63);                                                  \
    for (int i_ = 0; i_ < 11 * 1024; i_++) edge_[i_] = copy_[i_] = (char)(i_ * 3);                                 \
    memset(edge_ + 512, 0, 64), memset(copy_ + 512, 0, 64); /* the header must be valid */                         \
    __asm__ volatile("fninit\nfldpi\n" ::: "memory");                                                              \
    __asm__ volatile(text " (%0)\n" between text " (%1)" ::"D"(edge_), "S"(copy_), "a"(mask), "d"(0) : "memory");  \
    check(memcmp(edge_, copy_, 11 * 1024) == 0);                                                                   \
  } while (0)

static void states(char *edge, int distance) {
  SAVE("fxsave", edge - distance, 0);
  SAVE("fxsave64", edge - distance, 0);
  SAVE("fnstenv", edge - distance % 28 + 2, 0);
  SAVE_TWICE("fnsave", "frstor (%0)\n", edge - distance % 108 + 1, 0);
  if (!cpu_has("xsave")) return;
  for (unsigned mask = 1; mask < 256; mask = mask * 2 + 1) {
    SAVE("xsave", edge - distance, mask & 0xe7);
    SAVE("xsave64", edge - distance, mask & 0xe7);
    if (cpu_has("xsaveopt")) SAVE("xsaveopt", edge - distance, mask & 0xe7);
    if (cpu_has("xsavec")) SAVE("xsavec", edge - distance, mask & 0xe7);
    if (cpu_has("xsavec")) SAVE("xsavec64", edge - distance, mask & 0xe7);
  }
}

__attribute__((target("avx512f,avx512bw"))) static void scatters(char *edge) {
  for (int shift = -9; shift < 9; shift++) {
    long index[8] = {shift, 64 + shift, -64 + shift, shift * 100, 3, -3, shift * 7, 500};
    __m512i data = _mm512_set1_epi64((long)noise()), places = _mm512_loadu_si512(index);
    memset(edge - 1024, shift, 2048);
    memset(plain, shift, 2048);
    _mm512_i64scatter_epi64(edge, places, data, 1);
    _mm512_i64scatter_epi64(plain + 1024, places, data, 1);
    check(memcmp(edge - 1024, plain, 2048) == 0);
    _mm512_storeu_si512(edge + shift * 6, data);
    _mm512_mask_storeu_epi8(edge + shift, 0x5555aaaa3333cccc, places);
    _mm512_mask_compressstoreu_epi32(edge - 20 + shift, 0x5a5a, places);
  }
}

static sigjmp_buf back;
static siginfo_t last;

static void on_fault(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)context;
  last = *info;
  siglongjmp(back, 1);
}

/* Behind the mapping there is nothing: the state is not saved. */
static void faults(void) {
  char *end = map + LENGTH;
  check(munmap(end, AROUND) == 0);
  handle(SIGSEGV, on_fault, 0);
  for (int form = 0; form < 4; form++) {
    if (sigsetjmp(back, 1) == 0) {
      memset(end - 256, 0, 256);
      if (form == 0) __asm__ volatile("fxsave (%0)" ::"r"(end - 256) : "memory");
      if (form == 1) __asm__ volatile("fnsave (%0)" ::"r"(end - 100) : "memory");
      if (form == 2) __asm__ volatile("xsave (%0)" ::"r"(end - 256), "a"(7), "d"(0) : "memory");
      if (form == 3) __asm__ volatile("movups %%xmm0, (%0)" ::"r"(end - 7) : "memory");
      check(!"saved");
    }
    check((char *)last.si_addr >= end && (char *)last.si_addr < end + PAGE && last.si_code == SEGV_MAPERR);
  }
}

int main(int argc, char **argv) {
  int fd = pm_open(directory_of(argc, argv), "file", LENGTH);
  char *all = mmap(NULL, AROUND + LENGTH + AROUND, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  map = mmap(all + AROUND, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0);
  check(map == all + AROUND);
  for (int distance = 64; distance < 4096; distance = distance * 2 + 64) {
    states(map, distance);
    states(map + LENGTH, distance);
  }
  if (cpu_has("avx512bw")) {
    scatters(map);
    scatters(map + LENGTH);
  }
  faults();
  return 0;
}
