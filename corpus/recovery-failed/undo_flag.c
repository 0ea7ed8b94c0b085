/* An undo log is marked as valid by a store that is not durable before the balances change. Every failure point passes, and so
 * does each of them with the mark lost, for both balances have changed then. Only between the two stores in place does a
 * crash without the mark leave a sum that nothing restores. */
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct bank {
  struct {
    uint64_t valid, old[2], open;
  } log __attribute__((aligned(64)));
  struct line balance[2];
};

static void transfer(struct bank *bank, uint64_t amount) {
  uint64_t from = bank->balance[0].word[0], to = bank->balance[1].word[0];
  SET(bank->log.old[0], from);
  SET(bank->log.old[1], to);
  STORE(bank->log.valid, 1); // expect: dirty-overwrite // missing-store: recovery-failed
  STORE(bank->balance[0].word[0], from - amount);
  STORE(bank->balance[1].word[0], to + amount); // expect: recovery-failed
  PERSIST(bank->balance[0]);
  PERSIST(bank->balance[1]);
  SET(bank->log.valid, 0);
}

static int recover(struct bank *bank) {
  if (bank->log.valid) {
    SET(bank->balance[0].word[0], bank->log.old[0]);
    SET(bank->balance[1].word[0], bank->log.old[1]);
    SET(bank->log.valid, 0);
  }
  REQUIRE(!bank->log.open || bank->balance[0].word[0] + bank->balance[1].word[0] == 100);
  return 0;
}

int main(int argc, char **argv) {
  struct bank *bank = (struct bank *)map_pool(argv[1]);
  if (argc > 2)
    return recover(bank);
  SET(bank->balance[0].word[0], 50);
  SET(bank->balance[1].word[0], 50);
  SET(bank->log.open, 1);
  for (uint64_t amount = 1; amount < 4; amount++)
    transfer(bank, amount);
  return 0;
}
