/* An exception thrown by a SIGSEGV handler unwinds through the signal frame into the interrupted function.
 *
 * @flags -fnon-call-exceptions -fasynchronous-unwind-tables
 */
#include <csignal>
#include <iostream>

static void handler(int) { throw 7; }

static int fault(volatile int *where) {
  try {
    return *where;
  } catch (int value) {
    return value;
  }
}

int main() {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_NODEFER;
  sigaction(SIGSEGV, &action, nullptr);
  int sum = 0;
  for (int i = 0; i < 50; i++) sum += fault(reinterpret_cast<int *>(16));
  std::cout << sum << '\n';
}
