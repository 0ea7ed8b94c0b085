/* An exception that nobody catches ends the program by abort.
 *
 * @signal SIGABRT
 * @stderr
 */
#include <stdexcept>

int main() { throw std::runtime_error("nobody"); }
