/* A redo log is applied before it is committed: after a crash nobody finishes what was begun. */
// variants: clwb clflush
// recover: {program} {dir}/pool check
#include "../recovery.h"

struct ledger {
  uint64_t committed;
  uint64_t new_debit, new_credit;
  uint64_t debit, credit;
};

static void book(struct ledger *ledger, uint64_t amount) {
  SET(ledger->new_debit, ledger->debit + amount);
  SET(ledger->new_credit, ledger->credit + amount);
  SET(ledger->debit, ledger->new_debit); // expect: recovery-failed
  SET(ledger->committed, 1); // missing-store: recovery-failed
  SET(ledger->credit, ledger->new_credit);
  SET(ledger->committed, 0);
}

static int recover(struct ledger *ledger) {
  if (ledger->committed) {
    SET(ledger->debit, ledger->new_debit);
    SET(ledger->credit, ledger->new_credit);
    SET(ledger->committed, 0);
  }
  REQUIRE(ledger->debit == ledger->credit);
  return 0;
}

int main(int argc, char **argv) {
  struct ledger *ledger = (struct ledger *)map_pool(argv[1]);
  if (argc > 2)
    return recover(ledger);
  for (uint64_t i = 1; i < 4; i++)
    book(ledger, i);
  return 0;
}
