/* A transfer between two accounts in one step: recovery prints the balances before it or those after it. */
// check: --after deposit --expect-one-of {folder}/../recovery-failed/output
// recover: {program} {dir}/pool print
#include "../recovery.h"

struct bank {
  uint64_t savings_and_cash;
};

__attribute__((noinline)) static void deposit(struct bank *bank) { SET(bank->savings_and_cash, 100ull << 32); }

static void transfer(struct bank *bank, uint64_t amount) {
  SET(bank->savings_and_cash, bank->savings_and_cash - (amount << 32) + amount);
}

static int print(const struct bank *bank) {
  printf("savings %d cash %d\n", (int)(bank->savings_and_cash >> 32), (int)bank->savings_and_cash);
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
