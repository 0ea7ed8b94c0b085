/* AMX tiles stored to persistent memory and loaded from it, with strides that cross pages and the edge of the mapping. */
#include <sys/syscall.h>
#include "pm.h"

enum { PAGE = 4096, LENGTH = 64 * PAGE };

static void configure(int rows, int row_bytes) {
  unsigned char config[64] __attribute__((aligned(64))) = {1};
  for (int tile = 0; tile < 8; tile++) {
    config[16 + 2 * tile] = (unsigned char)row_bytes;
    config[48 + tile] = (unsigned char)rows;
  }
  __asm__ volatile("ldtilecfg %0" ::"m"(config));
}

#define STORE(tile, at, stride) __asm__ volatile("tilestored %%" tile ", (%0,%1,1)" ::"r"(at), "r"((long)(stride)) : "memory")
#define LOAD(tile, at, stride) __asm__ volatile("tileloadd (%0,%1,1), %%" tile ::"r"(at), "r"((long)(stride)) : "memory")

static void use_tiles(char *map) {
  static char in[16][64] __attribute__((aligned(64))), out[16][64];
  for (int round = 0; round < 12; round++) {
    int rows = round % 16 + 1, row_bytes = round % 3 == 2 ? 64 : 4 * (round % 15 + 1);
    configure(rows, row_bytes);
    for (unsigned i = 0; i < sizeof in; i++) ((char *)in)[i] = (char)noise();
    LOAD("tmm0", in, 64);
    LOAD("tmm7", in, 0);
    char *at = map + PAGE * (1 + round * 2) + round * 7;
    STORE("tmm0", at, 64 + round * 5);
    STORE("tmm7", at + 40, 300); /* across pages */
    __asm__ volatile("tilestored %%tmm0, 16(%0,%1,4)" ::"r"(at + 2500), "r"(33L) : "memory");
    STORE("tmm0", map + LENGTH - 200 - round, 80); /* from the mapping to behind it */
    STORE("tmm0", map + LENGTH + 900, -100);       /* and backwards into it */
    memset(out, 0, sizeof out);
    LOAD("tmm3", at + 2500 + 16, 33 * 4);
    STORE("tmm3", out, 64);
    for (int row = 0; row < rows; row++) /* what the strides left of it */
      check(memcmp(out[row], at + 2500 + 16 + row * 132, (size_t)row_bytes) == 0);
  }
  __asm__ volatile("tilerelease");
}

int main(int argc, char **argv) {
  int fd = pm_open(directory_of(argc, argv), "file", LENGTH);
  char *map = mmap(NULL, LENGTH + PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  check(mmap(map, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) == map);
  map[0] = 1;
  if (cpu_has("amx") && syscall(SYS_arch_prctl, 0x1023, 18) == 0) use_tiles(map);
  memcpy(map + PAGE * 40, map + LENGTH, PAGE); /* what came to lie behind */
  return 0;
}
