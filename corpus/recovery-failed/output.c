/* A transfer between two accounts in two steps. Recovery checks nothing and prints the balances: they must be those
 * before the transfer or those after it. */
// check: --after deposit --expect-one-of {folder}/../recovery-failed/output
// recover: {program} {dir}/pool print
#include "../recovery.h"

struct bank {
  uint64_t savings, cash;
};

__attribute__((noinline)) static void deposit(struct bank *bank) { SET(bank->savings, 100); }

static void transfer(struct bank *bank, uint64_t amount) {
  SET(bank->savings, bank->savings - amount); // expect: recovery-failed
  SET(bank->cash, bank->cash + amount); // missing-store: recovery-failed
}

static int print(const struct bank *bank) {
  printf("savings %d cash %d\n", (int)bank->savings, (int)bank->cash);
  return 0;
}

int main(int argc, char **argv) {
  struct bank *bank = (struct bank *)map_pool(argv[1]);
  if (argc > 2)
    return print(bank);
  deposit(bank);
  transfer(bank, 30);
  return 0;
}
