/* C++ exceptions through many frames, with destructors, nested, rethrown, out of callbacks of C, and across threads.
 *
 * @build pie static
 */
#include <cstdlib>
#include <exception>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

static int destroyed;

struct Guard {
  ~Guard() { destroyed++; }
};

static int deep(int n) {
  Guard guard;
  std::string text(static_cast<size_t>(n), 'x');
  if (n == 0) throw std::runtime_error("bottom");
  return deep(n - 1) + static_cast<int>(text.size());
}

static int compare(const void *a, const void *b) {
  if (*static_cast<const int *>(a) == 3) throw 42;
  return *static_cast<const int *>(a) - *static_cast<const int *>(b);
}

static void nested(int level) {
  try {
    if (level == 0) throw std::logic_error("inner");
    nested(level - 1);
  } catch (...) {
    std::throw_with_nested(std::runtime_error("level " + std::to_string(level)));
  }
}

static int unwind(const std::exception &error) {
  try {
    std::rethrow_if_nested(error);
  } catch (const std::exception &inner) {
    return 1 + unwind(inner);
  }
  return 1;
}

int main() {
  for (int i = 0; i < 300; i++) {
    try {
      deep(30);
    } catch (const std::exception &error) {
      if (std::string(error.what()) != "bottom") return 1;
    }
  }
  std::cout << destroyed << '\n';
  int numbers[] = {5, 3, 1};
  try {
    std::qsort(numbers, 3, sizeof(int), compare);
  } catch (int value) {
    std::cout << value << '\n';
  }
  try {
    nested(5);
  } catch (const std::exception &error) {
    std::cout << unwind(error) << ' ' << error.what() << '\n';
  }
  std::vector<std::exception_ptr> caught(8);
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 8; i++)
    threads.emplace_back([&caught, i] {
      try {
        deep(static_cast<int>(i));
      } catch (...) {
        caught[i] = std::current_exception();
      }
    });
  for (auto &thread : threads) thread.join();
  int rethrown = 0;
  for (auto &error : caught) try {
      std::rethrow_exception(error);
    } catch (const std::runtime_error &) {
      rethrown++;
    }
  std::cout << rethrown << '\n';
}
