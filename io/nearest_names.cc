#include "io/nearest_names.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "io/json.h"

namespace tessera {
namespace {

// Names from a document may be of any length; beyond this many letters they are not told apart.
constexpr std::size_t kLongestName = 64;
constexpr std::size_t kMostNames = 3;

/// Letters to insert, leave out or change (Levenshtein).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j < row.size(); ++j) row[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t change = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, change});
    }
  }
  return row[b.size()];
}

}  // namespace

std::string nearest_names(std::string_view name, std::span<const std::string> known) {
  if (known.empty()) return "there is none";
  std::vector<std::pair<std::size_t, std::string_view>> near;
  for (const std::string& each : known) {
    const std::string_view start = std::string_view(each).substr(0, kLongestName);
    near.emplace_back(distance(name.substr(0, kLongestName), start), each);
  }
  std::sort(near.begin(), near.end());
  near.resize(std::min(near.size(), kMostNames));
  std::string text;
  for (const auto& [far, each] : near) {
    text += (text.empty() ? "the nearest names are " : ", ") + in_quotes(each);
  }
  return text;
}

}  // namespace tessera
