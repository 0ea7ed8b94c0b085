/* Code in a System V segment, and on the heap that brk gives: run, given up, and run again with other content. */
#include <sys/ipc.h>
#include <sys/shm.h>
#include "generated.h"

enum { PAGE = 4096 };

static void segment(void) {
  int id = shmget(IPC_PRIVATE, PAGE, IPC_CREAT | 0700);
  check(id >= 0);
  for (int round = 0; round < 3; round++) {
    unsigned char *code = shmat(id, NULL, SHM_EXEC);
    check(code != (void *)-1);
    write_function(code, round);
    check(call(code) == round);
    check(shmdt(code) == 0);
  }
  unsigned char *page = mmap(NULL, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  write_function(page, 7);
  check(call(page) == 7);
  check(shmat(id, page, SHM_EXEC | SHM_REMAP) == page);
  check(call(page) == 2); /* what the segment held */
  check(shmctl(id, IPC_RMID, NULL) == 0);
}

static void heap(void) {
  unsigned char *start = sbrk(0);
  unsigned char *code = (unsigned char *)(((uintptr_t)start + PAGE - 1) & ~(uintptr_t)(PAGE - 1));
  for (int round = 0; round < 3; round++) {
    check(brk(code + PAGE) == 0);
    check(mprotect(code, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC) == 0);
    write_function(code, round + 40);
    check(call(code) == round + 40);
    check(brk(start) == 0);
  }
}

int main(void) {
  segment();
  heap();
  say("ran");
  return 0;
}
