// What pointwise functions are, without their code: rules are made of it, and devices find by it
// what they run.
#include "kernels/pointwise.h"

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_format.h"
#include "kernels/pointwise_activation.h"
#include "kernels/pointwise_elementary.h"
#include "kernels/pointwise_integers.h"
#include "kernels/pointwise_list.h"
#include "kernels/pointwise_losses.h"
#include "kernels/pointwise_pairs.h"
#include "placement/status.h"

namespace tessera::kernels {
namespace {

template <class Family, class Entry>
constexpr Pointwise function_of(int index) {
  return {.name = Family::kEntries.names[index],
          .num_operands = Entry::kOperands,
          .has_floating = kHasForm<Entry, double>,
          .has_integer = kHasForm<Entry, std::int64_t>,
          .family = Family::kFamily,
          .index = index,
          .divides_integers = kDivides<typename Entry::Integer>};
}
template <class Family>
constexpr auto functions_of() {
  using List = std::remove_cv_t<decltype(Family::kEntries)>;
  return []<int... at>(std::integer_sequence<int, at...>) {
    return std::array<Pointwise, sizeof...(at)>{
        function_of<Family, typename List::template Entry<at>>(at)...};
  }
  (std::make_integer_sequence<int, List::kSize>());
}

template <class Family>
constexpr auto kFunctions = functions_of<Family>();

template <class... Families>
const Pointwise* find_in(std::string_view name) noexcept {
  for (const std::span<const Pointwise> functions :
       {std::span<const Pointwise>(kFunctions<Families>)...}) {
    const auto at = std::find_if(functions.begin(), functions.end(),
                                 [&](const Pointwise& each) { return each.name == name; });
    if (at != functions.end()) return &*at;
  }
  return nullptr;
}

const Pointwise* find_function(std::string_view name) noexcept {
  using namespace scalar;
  return find_in<ElementaryFunctions, ElementarySlopes, ActivationFunctions, ActivationSlopes,
                 PairFunctions, PairSlopes, IntegerFunctions, LossFunctions>(name);
}

}  // namespace

bool has_pointwise_function(std::string_view name) noexcept {
  return find_function(name) != nullptr;
}

const Pointwise& pointwise_function(std::string_view name) {
  if (const Pointwise* found = find_function(name)) return *found;
  throw Error(internal_error(absl::StrFormat("no pointwise function '%s'", std::string(name))));
}

}  // namespace tessera::kernels
