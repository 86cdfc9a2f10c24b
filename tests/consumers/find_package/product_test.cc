#include <catch2/catch.hpp>

#include "testing/ranks.h"
using namespace tessera;
using namespace tessera::testing;

TEST_CASE("a product whose contracted dim is cut over 4 ranks is that of one") {
  const Array x = random_values({5, 8}, DType::kF64, 1), w = random_values({8, 3}, DType::kF64, 2);
  const auto product = [&](Rank& rank) {
    const DTensor y = matmul(rank.distribute(x, {Shard{1}}), rank.distribute(w, {Shard{0}}));
    return full_tensor(y).to_vector();
  };
  const auto one = run_ranks({{"tp", 1}}, product), many = run_ranks({{"tp", 4}}, product);
  for (std::size_t i = 0; i < one[0].size(); ++i) CHECK(many[3][i] == Approx(one[0][i]));
}
