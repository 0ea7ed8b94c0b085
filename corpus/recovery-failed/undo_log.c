/* An undo log counts an entry in before the old balance is in it: recovery restores what was never there. */
// variants: clwb clflushopt clflush nt
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct bank {
  uint64_t open, logged;
  struct {
    uint64_t account, balance;
  } log[2];
  uint64_t balance[2];
};

static void save(struct bank *bank, uint64_t account) {
  uint64_t entry = bank->logged;
  SET(bank->log[entry].account, account);
  SET(bank->logged, entry + 1); // expect: recovery-failed
  SET(bank->log[entry].balance, bank->balance[account]); // missing-store: recovery-failed
}

static void transfer(struct bank *bank, uint64_t amount) {
  save(bank, 0);
  SET(bank->balance[0], bank->balance[0] - amount);
  save(bank, 1);
  SET(bank->balance[1], bank->balance[1] + amount);
  SET(bank->logged, 0);
}

static int recover(struct bank *bank) {
  while (bank->logged > 0) {
    uint64_t entry = bank->logged - 1;
    SET(bank->balance[bank->log[entry].account], bank->log[entry].balance);
    SET(bank->logged, entry);
  }
  REQUIRE(!bank->open || bank->balance[0] + bank->balance[1] == 100);
  return 0;
}

int main(int argc, char **argv) {
  struct bank *bank = (struct bank *)map_pool(argv[1]);
  if (argc > 2)
    return recover(bank);
  SET(bank->balance[0], 50);
  SET(bank->balance[1], 50);
  SET(bank->open, 1);
  transfer(bank, 20);
  return 0;
}
