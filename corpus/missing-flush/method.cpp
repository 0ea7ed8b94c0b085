/* A class makes its members durable in one method and forgets it in another. */
// variants: clwb clflushopt clflush
#include "../pm.h"

class Account {
public:
  void deposit(uint64_t amount) {
    STORE(balance, balance + amount);
    PERSIST(balance);
  }
  void withdraw(uint64_t amount) {
    STORE(balance, balance - amount); // expect: missing-flush
  }

private:
  uint64_t balance;
};

int main(int argc, char **argv) {
  Account *account = reinterpret_cast<Account *>(map_pool(argv[1]));
  account->deposit(100);
  account->withdraw(30);
  return 0;
}
