/* Constructors, initialisers with arguments, destructors and atexit handlers run in their order.
 *
 * @build pie static musl
 */
#include "check.h"

__attribute__((constructor(101))) static void first(void) { say("first"); }
__attribute__((constructor(102))) static void second(void) { say("second"); }
__attribute__((destructor)) static void last(void) { say("last"); }
static void registered(void) { say("registered"); }
static void registered_later(void) { say("registered later"); }

int main(void) {
  atexit(registered);
  atexit(registered_later);
  say("main");
  return 0;
}
