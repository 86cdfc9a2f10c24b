// Exchanges as calls: several tensors in one, arrays that one side lacks, gathers in place.
#include "runtime/call/signature.h"
#include "tests/runtime/ranks.h"
#include "tests/support/on_world.h"

namespace tessera {
namespace {

using testing::complaints_of;
using testing::on_world;
using testing::values_here;
using Notes = std::vector<std::string>;
using Values = std::vector<double>;

/// `count` elements from `src` of `peer`'s line to `dst`.
Transfer stretch(std::int64_t peer, const Run& run) { return {peer, 0, {{run}}}; }

std::shared_ptr<const ExchangeBoxes> share(ExchangeBoxes boxes, const Shape& cut_from) {
  boxes.cut_from.assign(boxes.into.size(), cut_from);
  return std::make_shared<const ExchangeBoxes>(std::move(boxes));
}

Status prepared(std::vector<ExchangePart> parts) {
  CollectiveCall call{.of = ExchangeCall{.parts = std::move(parts)}};
  return prepare(call, {0, 2});
}

Array zeros(std::int64_t size, DType dtype = DType::kF32) { return Array::zeros({size}, dtype); }

}  // namespace

TEST_CASE("an exchange that does not fit its arrays is refused before anything is sent",
          "[runtime][exchange]") {
  const Transfer own = stretch(0, {0, 0, 2}), far = stretch(2, {0, 0, 2});
  const auto none = share({}, {});
  CHECK(prepared({}) == invalid_argument("exchange: no parts; allowed: one or more"));
  CHECK(prepared({{Array(), Array(), none}}) ==
        invalid_argument("exchange: a part has no boxes or no array"));
  CHECK(prepared({{zeros(2), zeros(2), nullptr}}) ==
        invalid_argument("exchange: a part has no boxes or no array"));
  CHECK(prepared({{Array(), zeros(2), share({.from = {own}}, {})}}) ==
        invalid_argument("exchange: a part has boxes but no array for them"));
  CHECK(prepared({{zeros(2), Array(), share({.into = {own}}, {2})}}) ==
        invalid_argument("exchange: a part has boxes but no array for them"));
  CHECK(prepared({{zeros(2), zeros(2), share({.into = {far}}, {2})}}) ==
        invalid_argument("exchange: a box names peer 2, outside the group's ranks [0, 2)"));
  CHECK(prepared({{zeros(2), zeros(2, DType::kF64), none}}) ==
        invalid_argument("exchange: in F32 [2] and out F64 [2] must have one dtype"));
  const Array line = zeros(4);
  CHECK(prepared({{line.slice(0, 0, 3), line.slice(0, 1, 4), none}}) ==
        invalid_argument(
            "exchange: in and out overlap; allowed: the same array, or no element in common"));
  CHECK(prepared({{zeros(2), zeros(2),
                   std::make_shared<ExchangeBoxes>(ExchangeBoxes{.into = {own}})}}) ==
        invalid_argument("exchange: 1 boxes come with 0 shapes of the arrays they are cut from"));
  CHECK(prepared({{line, line, none}}).ok());
}

TEST_CASE("one exchange carries tensors of several types, some of which a rank only gives or takes",
          "[runtime][exchange]") {
  // Rank 0 gives the first tensor to rank 1 and takes the second from it; both swap the third.
  for (const std::int64_t size : {3, 20'000}) {
    const auto complaints = complaints_of(2, [&](World& world, Notes& notes) {
      const std::int64_t self = world.rank(), other = 1 - self;
      const Transfer whole = stretch(other, {0, 0, size});
      const auto filled = [&](DType dtype, double value) {
        return on_world(world, Array::from_values({size}, dtype, Values(size, value)));
      };
      const Array first = filled(DType::kF32, 5), second = filled(DType::kI64, 7);
      const auto tenth = [](std::int64_t rank) { return rank == 0 ? 10.0 : 11.0; };
      const Array third = filled(DType::kF64, tenth(self));
      const auto give = share({.from = {whole}}, {}), take = share({.into = {whole}}, {size});
      const auto swap = share({.into = {whole}, .from = {whole}}, {size});
      const Array got = filled(self == 0 ? DType::kI64 : DType::kF32, 0);
      const Array swapped = filled(DType::kF64, 0);
      ExchangeCall call;
      if (self == 0) {
        call.parts = {{first, Array(), give}, {Array(), got, take}, {third, swapped, swap}};
      } else {
        call.parts = {{Array(), got, take}, {second, Array(), give}, {third, swapped, swap}};
      }
      everyone(world).start({.of = std::move(call)}, {})->wait();
      if (values_here(got) != Values(size, self == 0 ? 7 : 5)) notes.push_back("one way");
      if (values_here(swapped) != Values(size, tenth(other))) notes.push_back("both ways");
      const Event& event = world.events().events().back();
      if (event.bytes_sent != size * (self == 0 ? 12 : 16)) notes.push_back("bytes sent");
      if (event.bytes_received != size * (self == 0 ? 16 : 12)) notes.push_back("bytes received");
    });
    CHECK(complaints == Notes{});
  }
}

TEST_CASE("an exchange may gather into the array that it reads", "[runtime][exchange]") {
  for (const std::int64_t each : {2, 30'000}) {
    const auto complaints = complaints_of(3, [&](World& world, Notes& notes) {
      Values values(3 * each, -1), expected;
      for (std::int64_t i = 0; i < 3 * each; ++i) {
        if (i / each == world.rank()) values[i] = static_cast<double>(i % 1000);
        expected.push_back(static_cast<double>(i % 1000));
      }
      const Array array = on_world(world, Array::from_values({3 * each}, DType::kF32, values));
      ExchangeBoxes boxes;
      for (std::int64_t peer = 0; peer < 3; ++peer) {
        if (peer == world.rank()) continue;
        boxes.into.push_back(stretch(peer, {peer * each, peer * each, each}));
        boxes.from.push_back(stretch(peer, {world.rank() * each, world.rank() * each, each}));
      }
      ExchangeCall call;
      call.parts = {{array, array, share(std::move(boxes), {3 * each})}};
      everyone(world).start({.of = std::move(call)}, {})->wait();
      if (values_here(array) != expected) notes.push_back("values");
    });
    CHECK(complaints == Notes{});
  }
}

TEST_CASE("elements on which no box lands stay as they were", "[runtime][exchange]") {
  for (const std::int64_t size : {3, 30'000}) {
    const auto complaints = complaints_of(2, [&](World& world, Notes& notes) {
      const std::int64_t other = 1 - world.rank();
      const auto filled = [&](std::int64_t count, double value) {
        return on_world(world, Array::from_values({count}, DType::kF32, Values(count, value)));
      };
      const Array given = filled(size, static_cast<double>(world.rank())),
                  kept = filled(2 * size, 7);
      ExchangeCall call;
      call.parts = {{given, kept,
                     share({.into = {stretch(other, {0, size, size})},
                            .from = {stretch(other, {0, size, size})}},
                           {size})}};
      everyone(world).start({.of = std::move(call)}, {})->wait();
      Values expected(size, 7);
      expected.resize(2 * size, static_cast<double>(other));
      if (values_here(kept) != expected) notes.push_back("values");
    });
    CHECK(complaints == Notes{});
  }
}

TEST_CASE("ranks with other numbers of tensors in a bucket learn of it", "[runtime][exchange]") {
  const Status status =
      testing::launch(2, {}, [](World& world, std::string&) {
        ExchangeCall call;
        call.parts.assign(world.rank() == 0 ? 2 : 3, {zeros(2), zeros(2), share({}, {})});
        everyone(world).start({.of = std::move(call)}, {})->wait();
      }).first;
  CHECK(status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(testing::contains(status, "collective mismatch (plan)"));
}

}  // namespace tessera
