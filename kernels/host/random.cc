#include "kernels/random.h"

#include "absl/strings/str_format.h"
#include "kernels/dtype_switch.h"
#include "kernels/kernel_table.h"
#include "kernels/parallel_loop.h"
#include "kernels/random_draws.h"

namespace tessera::kernels {
namespace {

/// Where row `row` of the last dim begins, in the output's and in the whole tensor's elements.
struct RowPlace {
  std::int64_t offset = 0;
  std::int64_t global = 0;
};

RowPlace place_row(std::int64_t row, const Shape& global_shape,
                   std::span<const std::vector<std::int64_t>> global_index, const Array& out) {
  RowPlace place{0, 0};
  std::int64_t step = global_shape.back();
  for (std::size_t d = out.shape().size() - 1; d-- > 0;) {
    const std::int64_t coord = row % out.shape()[d];
    row /= out.shape()[d];
    place.offset += coord * out.strides()[d];
    place.global += global_index[d][static_cast<std::size_t>(coord)] * step;
    step *= global_shape[d];
  }
  return place;
}

}  // namespace

void cpu::random(KernelContext& ctx, const RandomSpec& spec, const Shape& global_shape,
                 std::span<const std::vector<std::int64_t>> global_index, const Array& out) {
  check_drawn(global_shape, global_index, out);
  require_random(spec, out.dtype());
  if (out.num_elements() == 0) return;
  const Sampler sampler(spec);
  visit_dtype(out.dtype(), [&]<class T>(TypeTag<T>) {
    T* to = out.data<T>();
    if (out.ndim() == 0) {
      *to = narrow<T>(spec, sampler.value(Draws(spec.seed, spec.stream).bits(0)));
      return;
    }
    const std::vector<std::int64_t>& last_index = global_index.back();
    const auto columns = static_cast<std::int64_t>(last_index.size());
    const std::int64_t stride = out.strides().back();
    // A draw costs about as much as ten plain elements.
    parallel_ranges(ctx.threads, out.num_elements() / columns, 1, columns * 10,
                    [&](std::int64_t begin, std::int64_t end) {
                      Draws draws(spec.seed, spec.stream);
                      for (std::int64_t row = begin; row < end; ++row) {
                        const RowPlace place = place_row(row, global_shape, global_index, out);
                        T* row_out = to + place.offset;
                        for (std::int64_t c = 0; c < columns; ++c) {
                          const std::int64_t at =
                              place.global + last_index[static_cast<std::size_t>(c)];
                          row_out[c * stride] = narrow<T>(spec, sampler.value(draws.bits(at)));
                        }
                      }
                    });
  });
}

std::uint64_t stream_of(std::string_view name) {
  std::uint64_t hash = 14695981039346656037U;
  for (const char letter : name) {
    hash ^= static_cast<unsigned char>(letter);
    hash *= 1099511628211U;
  }
  return hash;
}

}  // namespace tessera::kernels
