#include "kernels/array.h"

#include <bit>
#include <set>
#include <thread>

#include "kernels/bfloat16.h"
#include "kernels/memory_use.h"
#include "tests/kernels/sample_arrays.h"

namespace tessera {
namespace {

using testing::error_of;
using testing::random_values;

std::vector<double> counting(std::int64_t count) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i);
  return values;
}

TEST_CASE("values that an integer dtype does not hold become its nearest", "[kernels][array]") {
  const double inf = std::numeric_limits<double>::infinity();
  const std::vector<double> given = {inf, -inf, 0x1p63, -0x1p70, std::nan("")};
  const Array wide = Array::from_values({5}, DType::kI64, given);
  const std::int64_t* at = wide.data<std::int64_t>();
  CHECK(at[0] == std::numeric_limits<std::int64_t>::max());
  CHECK(at[1] == std::numeric_limits<std::int64_t>::min());
  CHECK(at[2] == std::numeric_limits<std::int64_t>::max());
  CHECK(at[3] == std::numeric_limits<std::int64_t>::min());
  CHECK(at[4] == 0);
  CHECK(Array::from_values({5}, DType::kU8, given).to_vector() ==
        std::vector<double>{255, 0, 255, 0, 0});
}

TEST_CASE("bfloat16 rounds to nearest even and keeps NaN and infinities", "[kernels][bfloat16]") {
  CHECK(static_cast<float>(BFloat16(1.0F)) == 1.0F);
  CHECK(static_cast<float>(BFloat16(1.00390625F)) == 1.0F);       // a tie: the even neighbour below
  CHECK(static_cast<float>(BFloat16(1.01171875F)) == 1.015625F);  // a tie: the even neighbour above
  CHECK(static_cast<float>(BFloat16(1.0039064F)) == 1.0078125F);
  CHECK(std::isnan(static_cast<float>(BFloat16(std::nanf("")))));
  CHECK(std::isinf(static_cast<float>(BFloat16(3.4e38F))));
  CHECK(BFloat16(-0.0F).bits == 0x8000);
  BFloat16 low_payload(std::bit_cast<float>(0x7f800001U));  // rounding must not make it infinite
  CHECK(std::isnan(static_cast<float>(low_payload)));
}

TEST_CASE("from_values converts to every dtype and to_vector reads back", "[kernels][array]") {
  const std::vector<double> values = {0, 1, -2, 3};
  for (const DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kI64, DType::kI32}) {
    CAPTURE(std::string(name_of(dtype)));
    CHECK(Array::from_values({2, 2}, dtype, values).to_vector() == values);
  }
  CHECK(Array::from_values({2, 2}, DType::kBool, values).to_vector() ==
        std::vector<double>{0, 1, 1, 1});
  CHECK(error_of([&] { Array::from_values({3}, DType::kF32, values); }) ==
        "from_values: 4 values for shape [3] (3 elements)");
}

TEST_CASE("views alias the storage", "[kernels][array]") {
  const Array x = Array::from_values({3, 4}, DType::kF32, counting(12));
  const Array part = x.slice(1, 1, 3);
  CHECK(part.to_vector() == std::vector<double>{1, 2, 5, 6, 9, 10});
  CHECK(part.transpose(0, 1).to_vector() == std::vector<double>{1, 5, 9, 2, 6, 10});
  CHECK(part.storage() == x.storage());
  CHECK_FALSE(part.is_contiguous());
  CHECK(x.slice(0, 1, 2).is_contiguous());
  part.data<float>()[0] = 100.0F;
  CHECK(x.to_vector()[1] == 100.0);
  CHECK(x.slice(0, 3, 3).num_elements() == 0);
  CHECK(error_of([&] { x.slice(0, 2, 4); }) ==
        "slice: [2, 4) of dim 0 of an array of shape [3, 4]");
  CHECK(error_of([&] { x.transpose(0, 2); }) ==
        "transpose: dims 0 and 2 of an array of shape [3, 4]");
}

TEST_CASE("as_strided refuses strides that leave the storage", "[kernels][array]") {
  const Array x = Array::from_values({12}, DType::kF32, counting(12));
  CHECK(x.as_strided({3, 2}, {4, 1}, 2).to_vector() == std::vector<double>{2, 3, 6, 7, 10, 11});
  CHECK(x.as_strided({3}, {-1}, 2).to_vector() == std::vector<double>{2, 1, 0});
  CHECK(x.as_strided({0, 5}, {100, 100}, 12).num_elements() == 0);
  CHECK(
      error_of([&] {
        x.as_strided({3, 2}, {4, 1}, 3);
      }) ==
      "as_strided: shape [3, 2] with strides [4, 1] at offset 3 leaves the storage of 12 elements");
  CHECK_FALSE(error_of([&] { x.as_strided({3}, {-1}, 1); }).empty());
  CHECK_FALSE(error_of([&] { x.as_strided({2}, {std::int64_t{1} << 62}, 8); }).empty());
  CHECK_FALSE(error_of([&] { x.as_strided({1}, {1, 1}, 0); }).empty());
}

TEST_CASE("try_view aliases where strides allow it and is null elsewhere", "[kernels][array]") {
  const Array x = Array::from_values({4, 6}, DType::kF64, counting(24));
  // Every pair of a stored form and a new shape: a view must read as the row-major values do.
  const std::vector<Array> sources = {x,
                                      x.transpose(0, 1),
                                      x.slice(1, 0, 3),
                                      x.slice(0, 1, 3),
                                      x.as_strided({4, 6}, {0, 1}, 0),
                                      x.as_strided({2, 2, 6}, {12, 6, 1}, 0),
                                      x.as_strided({2, 3, 2}, {12, 4, 2}, 0)};
  const std::vector<Shape> shapes = {{24},         {4, 6},       {6, 4},       {2, 2, 6}, {2, 12},
                                     {1, 12},      {12},         {3, 4},       {2, 6},    {2, 2, 3},
                                     {4, 3, 1},    {4, 1, 3, 1}, {2, 2, 2, 3}, {6, 2},    {2, 3, 2},
                                     {2, 3, 2, 1}, {12, 2}};
  int views = 0;
  int refusals = 0;
  for (const Array& source : sources) {
    for (const Shape& shape : shapes) {
      if (num_elements(shape) != source.num_elements()) continue;
      CAPTURE(to_string(source.shape()), to_string(source.strides()), to_string(shape));
      const Array view = source.try_view(shape);
      // By brute force: is there any stride per dim with which the values' addresses come out
      // right?
      if (view.is_null()) {
        ++refusals;
        continue;
      }
      ++views;
      CHECK(view.storage() == source.storage());
      CHECK(view.to_vector() == source.to_vector());
    }
  }
  CHECK(views >= 20);
  CHECK(refusals >= 5);
  CHECK(x.transpose(0, 1).try_view({24}).is_null());
  CHECK(x.slice(1, 0, 3).try_view({12}).is_null());
  CHECK_FALSE(x.slice(1, 0, 3).try_view({2, 2, 3}).is_null());
  CHECK_FALSE(x.transpose(0, 1).try_view({2, 3, 2, 2}).is_null());
  CHECK(Array::zeros({0, 3}, DType::kF32).try_view({5, 0}).shape() == Shape{5, 0});
  CHECK(error_of([&] { x.try_view({5}); }) ==
        "view: shape [5] does not hold the 24 elements of [4, 6]");
}

TEST_CASE("sizes that cannot be addressed are errors", "[kernels][array]") {
  const std::int64_t huge = std::int64_t{1} << 40;
  CHECK_FALSE(error_of([&] { Array::empty({huge, huge}, DType::kF32); }).empty());
  CHECK_FALSE(error_of([&] { Array::empty({std::int64_t{1} << 61}, DType::kF64); }).empty());
  CHECK_FALSE(error_of([&] { Array::empty({-1}, DType::kF64); }).empty());
  CHECK(error_of([&] { Array::empty({std::int64_t{1} << 50}, DType::kF32); }) ==
        "allocate: no memory for a buffer of 4503599627370496 bytes");
}

TEST_CASE("the pool reuses released blocks and aligns all", "[kernels][allocator]") {
  const std::shared_ptr<Allocator> pool = make_pool_allocator();
  for (const std::size_t bytes : {std::size_t{0}, std::size_t{1}, std::size_t{64}, std::size_t{65},
                                  std::size_t{1000}, std::size_t{100000}, std::size_t{3} << 20}) {
    CAPTURE(bytes);
    void* first = pool->allocate(bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(first) % (bytes >= (2U << 20) ? 2U << 20 : 64U) == 0);
    std::memset(first, 1, bytes);
    void* other = pool->allocate(bytes);
    CHECK(first != other);
    pool->release(first, bytes);
    CHECK(pool->allocate(bytes) == first);
    pool->release(other, bytes);
    pool->release(first, bytes);
  }
}

TEST_CASE("the pool counts what it has handed out, now and at most", "[kernels][allocator]") {
  const std::shared_ptr<Allocator> pool = make_pool_allocator();
  const auto use = [&] { return memory_use_of(*pool); };
  CHECK(use().used_bytes == 0);
  void* large = pool->allocate(1024);
  CHECK(use().used_bytes == 1024);
  void* small = pool->allocate(60);  // a block of 64
  CHECK(use().used_bytes == 1088);
  pool->release(large, 1024);
  CHECK(use().used_bytes == 64);
  CHECK(use().peak_bytes == 1088);
  pool->release(small, 60);
  CHECK(use().used_bytes == 0);
  CHECK_THROWS_AS(pool->allocate(std::size_t{1} << 47), Error);
  CHECK(use().used_bytes == 0);
  CHECK(memory_use_of(*plain_allocator()).peak_bytes == 0);  // it does not count
}

TEST_CASE("pool blocks of all sizes are as large as asked", "[kernels][allocator]") {
  const std::shared_ptr<Allocator> pool = make_pool_allocator();
  std::mt19937 engine(3);
  struct Block {
    unsigned char* data;
    std::size_t bytes;
    unsigned char mark;
  };
  std::vector<Block> held;
  for (int i = 0; i < 3000; ++i) {
    const std::size_t bytes = engine() % (std::size_t{1} << (engine() % 18));
    auto* data = static_cast<unsigned char*>(pool->allocate(bytes));
    const auto mark = static_cast<unsigned char>(i);
    std::memset(data, mark, bytes);
    held.push_back({data, bytes, mark});
    if (engine() % 3 == 0) continue;
    const std::size_t at = engine() % held.size();
    const Block block = held[at];
    held[at] = held.back();
    held.pop_back();
    bool intact = true;
    for (std::size_t b = 0; b < block.bytes; ++b) intact = intact && block.data[b] == block.mark;
    REQUIRE(intact);
    pool->release(block.data, block.bytes);
  }
  for (const Block& block : held) pool->release(block.data, block.bytes);
}

TEST_CASE("a block may be released by another thread", "[kernels][allocator]") {
  const std::shared_ptr<Allocator> pool = make_pool_allocator();
  constexpr int kBlocks = 2000;
  std::vector<void*> blocks(kBlocks);
  for (int round = 0; round < 3; ++round) {
    for (void*& block : blocks) block = pool->allocate(256);
    CHECK(std::set<void*>(blocks.begin(), blocks.end()).size() == kBlocks);
    const auto release_half = [&](int first) {
      for (int i = first; i < kBlocks; i += 2)
        pool->release(blocks[static_cast<std::size_t>(i)], 256);
    };
    std::thread even(release_half, 0);
    std::thread odd(release_half, 1);
    even.join();
    odd.join();
  }
}

TEST_CASE("small blocks stay in a pool that keeps much", "[kernels][allocator]") {
  class Source final : public Allocator {
   public:
    void* allocate(std::size_t bytes) override {
      ++allocated;
      return plain_allocator()->allocate(bytes);
    }
    void release(void* data, std::size_t bytes) noexcept override {
      ++released;
      plain_allocator()->release(data, bytes);
    }
    int allocated = 0, released = 0;
  };
  const auto source = std::make_shared<Source>();
  const std::shared_ptr<Allocator> pool = make_pool_over(source);
  const auto use = [&](std::size_t bytes) { pool->release(pool->allocate(bytes), bytes); };
  for (const std::size_t mebibytes : {112, 28, 100, 64}) use(mebibytes << 20);
  CHECK(source->allocated == 3);  // 100 MiB fit the first block
  CHECK(source->released == 1);   // more than was in use at any time
  for (int i = 0; i < 10; ++i) use(1 << 16);
  CHECK(source->allocated == 4);
  CHECK(source->released == 1);
}

TEST_CASE("an array keeps its pool alive", "[kernels][allocator]") {
  Array x;
  {
    const std::shared_ptr<Allocator> pool = make_pool_allocator();
    x = Array::zeros({1000}, DType::kF32, pool);
  }
  CHECK(x.to_vector() == std::vector<double>(1000, 0.0));
}

TEST_CASE("storage counts writes and waits for its producer once", "[kernels][array]") {
  class Producer final : public Ready {
   public:
    explicit Producer(int& waits) : waits_(waits) {}
    void wait() override { ++waits_; }

   private:
    int& waits_;
  };
  int waits = 0;
  const Array x = Array::zeros({2}, DType::kF32);
  x.storage()->wait_ready();
  x.storage()->set_ready(std::make_shared<Producer>(waits));
  x.storage()->wait_ready();
  x.storage()->wait_ready();
  CHECK(waits == 1);
  const std::uint32_t before = x.storage()->version();
  x.storage()->bump_version();
  CHECK(x.slice(0, 0, 1).storage()->version() == before + 1);
}

}  // namespace
}  // namespace tessera
