/* The C++ library at work: containers, streams, regular expressions, futures, filesystem, locales.
 *
 * @flags -std=c++17 -O2
 */
#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <sstream>
#include <unordered_map>

int main() {
  std::unordered_map<std::string, int> counts;
  std::istringstream words("the quick brown fox jumps over the lazy dog the end");
  for (std::string word; words >> word;) counts[word]++;
  std::map<std::string, int> sorted(counts.begin(), counts.end());
  for (auto &[word, count] : sorted) std::cout << word << ' ' << count << '\n';
  std::vector<std::future<long>> parts;
  for (int i = 0; i < 6; i++)
    parts.push_back(std::async(std::launch::async, [i] {
      std::vector<long> numbers(10000);
      std::iota(numbers.begin(), numbers.end(), i);
      return std::accumulate(numbers.begin(), numbers.end(), 0L);
    }));
  long total = 0;
  for (auto &part : parts) total += part.get();
  std::cout << total << ' ' << std::regex_replace("a1b22", std::regex("[0-9]+"), "#") << '\n';
  std::filesystem::create_directories("x/y");
  std::ofstream("x/y/file") << 3.25 << ' ' << std::hex << 255;
  for (auto &entry : std::filesystem::recursive_directory_iterator("x")) total += entry.is_regular_file();
  auto shared = std::make_shared<int>(5);
  std::weak_ptr<int> weak = shared;
  shared.reset();
  std::cout << total << weak.expired() << '\n';
}
