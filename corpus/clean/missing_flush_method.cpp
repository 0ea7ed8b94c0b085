/* Every method makes durable what it changes. */
// variants: clwb clflushopt clflush nt
#include "../pm.h"

class Account {
public:
  void deposit(uint64_t amount) { set(balance + amount); }
  void withdraw(uint64_t amount) { set(balance - amount); }

private:
  void set(uint64_t next) {
    STORE(balance, next);
    PERSIST(balance);
  }
  uint64_t balance;
};

int main(int argc, char **argv) {
  Account *account = reinterpret_cast<Account *>(map_pool(argv[1]));
  account->deposit(100);
  account->withdraw(30);
  return 0;
}
