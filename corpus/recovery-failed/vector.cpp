/* A vector grows by one before the new element is constructed. */
// recover: {program} {dir}/pool check
#include "../recovery.h"
#include <new>

struct Celsius {
  explicit Celsius(uint64_t degrees) {
    SET(kelvin, degrees + 273); // missing-store: recovery-failed
  }
  uint64_t kelvin;
};

template <typename T> class Vector {
public:
  void emplace_back(uint64_t argument) {
    uint64_t place = size;
    SET(size, place + 1); // expect: recovery-failed
    new (&elements[place]) T(argument);
  }
  const T *begin() const { return elements; }
  const T *end() const { return elements + size; }

private:
  uint64_t size;
  T elements[16];
};

int main(int argc, char **argv) {
  auto *vector = reinterpret_cast<Vector<Celsius> *>(map_pool(argv[1]));
  if (argc > 2) {
    for (const Celsius &temperature : *vector)
      REQUIRE(temperature.kelvin >= 273);
    return 0;
  }
  for (uint64_t degrees = 20; degrees < 24; degrees++)
    vector->emplace_back(degrees);
  return 0;
}
