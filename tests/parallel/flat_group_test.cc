// Parameters in one flat buffer: where ranks are cut, and that a gather of the buffer is the gather
// of every parameter.
#include "parallel/flat_group.h"

#include "dtensor/ops.h"
#include "runtime/world.h"

namespace tessera::testing {
namespace {

FlatGroup group_of(std::vector<std::int64_t> sizes, std::vector<std::int64_t> blocks,
                   std::int64_t ranks) {
  return value_or_throw(flat_group(sizes, blocks, ranks));
}
std::string error_of(std::vector<std::int64_t> sizes, std::vector<std::int64_t> blocks,
                     std::int64_t ranks) {
  return std::string(message_of(flat_group(sizes, blocks, ranks).status()));
}

}  // namespace

TEST_CASE("cuts of a flat group fall between parameters or on their blocks", "[parallel][flat]") {
  CHECK(group_of({10, 6}, {1, 1}, 2).sizes.to_string() == "8,8");
  // The first stays whole, the second is cut in rows of 4.
  const FlatGroup mixed = group_of({10, 16, 3}, {10, 4, 3}, 4);
  CHECK(mixed.size == 29);
  CHECK(mixed.sizes.to_string() == "10,4,8,7");
  CHECK(mixed.parts[0].sizes.to_string() == "10,0,0,0");
  CHECK(mixed.parts[1].sizes.to_string() == "0,4,8,4");
  CHECK(mixed.parts[2].sizes.to_string() == "0,0,0,3");
  CHECK(mixed.parts[2].offset == 26);
  for (std::int64_t ranks = 1; ranks <= 9; ++ranks) {
    const FlatGroup group = group_of({7, 0, 130, 64, 1}, {7, 1, 32, 16, 1}, ranks);
    CAPTURE(ranks, group.sizes.to_string());
    CHECK(group.sizes.total() == 202);
    for (std::size_t i = 0; i < group.parts.size(); ++i) {
      const FlatPart& part = group.parts[i];
      const std::int64_t blocks[] = {7, 1, 32, 16, 1};
      CHECK(part.sizes.total() == part.size);
      for (const RaggedPart& held : part.sizes.parts()) CHECK(held.start % blocks[i] == 0);
    }
  }
}

TEST_CASE("a flat group that cannot be is refused", "[parallel][flat][errors]") {
  CHECK(error_of({4}, {1, 1}, 2) ==
        "flat_group: 1 sizes, 2 blocks, 2 ranks; a block for each size, and at least one rank are "
        "allowed");
  CHECK(error_of({4}, {0}, 2) ==
        "flat_group: parameter 0 has size 4 and block 0; a size of at least 0 and a block of at "
        "least 1 are allowed");
  CHECK(error_of({INT64_MAX}, {1}, 2) ==
        "flat_group: the parameters have more than 2^62 elements together");
}

TEST_CASE("one gather of the buffer gives every parameter whole", "[parallel][flat]") {
  const FlatGroup group = group_of({10, 16, 3}, {10, 4, 3}, 4);
  std::vector<std::vector<double>> gathered(4);
  std::vector<std::int64_t> received(4);
  throw_if_error(run_ranks(4, {}, [&](World& world) {
    Runtime runtime(world);
    const Mesh mesh = value_or_throw(Mesh::make(Shape{4}, {"fsdp"}));
    std::vector<double> values(29);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
    const DTensor flat = distribute(runtime, Array::from_values({29}, DType::kF64, values), mesh,
                                    Placements{Ragged{0, group.sizes}});
    const std::int64_t before = world.events().bytes_received();
    const DTensor all = redistribute(flat, {Replicate{}});
    const auto rank = static_cast<std::size_t>(world.rank());
    received[rank] = world.events().bytes_received() - before;
    gathered[rank] = all.local().to_vector();
  }));
  for (std::size_t rank = 0; rank < 4; ++rank) {
    const RaggedPart own = group.sizes.part_of(static_cast<std::int64_t>(rank));
    CHECK(received[rank] == 8 * (29 - (own.stop - own.start)));
    for (std::size_t i = 0; i < 29; ++i) CHECK(gathered[rank][i] == static_cast<double>(i));
  }
}

}  // namespace tessera::testing
