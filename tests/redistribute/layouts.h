// tests/redistribute/layouts.h: which layouts are tried: every one of a family, or random ones.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <random>
#include <unordered_set>
#include <vector>

#include "placement/spec.h"
#include "tests/placement/brute.h"

namespace tessera::judge {

using brute::mesh_of;

inline Spec spec_of(const Mesh& mesh, Shape shape, std::string_view placements,
                    DType dtype = DType::kF64) {
  return value_or_throw(
      Spec::make(mesh, std::move(shape), dtype, value_or_throw(parse_placements(placements))));
}

/// Distinct specs of one shape on one mesh.
class SpecSet {
 public:
  SpecSet(Mesh mesh, Shape shape) : mesh_(std::move(mesh)), shape_(std::move(shape)) {}

  template <class Form>
  void add(const Form& form) {
    StatusOr<Spec> spec = Spec::make(mesh_, shape_, DType::kF64, form);
    if (spec.ok() && known_.insert(*spec).second) specs_.push_back(*std::move(spec));
  }
  std::vector<Spec> take() { return std::move(specs_); }

 private:
  struct Hash {
    std::size_t operator()(const Spec& spec) const { return spec.hash(); }
  };
  Mesh mesh_;
  Shape shape_;
  std::unordered_set<Spec, Hash> known_;
  std::vector<Spec> specs_;
};

/// Every choice of one entry of `choices` per axis, as a list.
template <class T>
std::vector<std::vector<T>> products_of(const std::vector<T>& choices, int count) {
  std::vector<std::vector<T>> lists{{}};
  for (int i = 0; i < count; ++i) {
    std::vector<std::vector<T>> longer;
    for (const auto& list : lists) {
      for (const T& choice : choices) {
        longer.push_back(list);
        longer.back().push_back(choice);
      }
    }
    lists = std::move(longer);
  }
  return lists;
}

/// What stands before an axis in a level list, and the grain of its cut.
struct Form {
  std::int64_t block = 0;
  std::int64_t run = 0;
  std::int64_t grain = 1;
};
inline constexpr Form kForms[] = {{0, 0, 1}, {0, 0, 2}, {0, 0, 3}, {0, 2, 1},
                                  {0, 3, 1}, {2, 0, 1}, {2, 0, 2}};

/// Where an axis goes: a dim with a form, Partial, or nowhere.
struct Use {
  int dim = -1;
  Form form;
  std::optional<ReduceOp> op;
};

/// R, S, SS with every factor that decodes, grains and runs of 2 and 3, P(sum), P(max): all
/// products over the mesh axes, in all orders of the axes that cut one dim.
inline std::vector<Spec> every_layout(const Mesh& mesh, const Shape& shape) {
  const int ndim = static_cast<int>(shape.size());
  std::int64_t most = 1;
  for (int a = 0; a + 1 < mesh.ndim(); ++a) most *= mesh.size(mesh.ndim() - 1 - a);
  Placements placements{Replicate{}, Partial{}, Partial{ReduceOp::kMax}};
  std::vector<Use> uses{{}, {-1, {}, ReduceOp::kSum}, {-1, {}, ReduceOp::kMax}};
  for (int d = 0; d < ndim; ++d) {
    placements.push_back(Shard{d});
    const std::int64_t factors =
        most * std::max<std::int64_t>(2, shape[static_cast<std::size_t>(d)]);
    for (std::int64_t k = 2; k <= factors; ++k) placements.push_back(StridedShard{d, k});
    for (const Form& form : kForms) uses.push_back({d, form, std::nullopt});
  }
  SpecSet specs(mesh, shape);
  for (const Placements& list : products_of(placements, mesh.ndim())) specs.add(list);
  std::vector<int> order(static_cast<std::size_t>(mesh.ndim()));
  std::iota(order.begin(), order.end(), 0);
  do {
    for (const std::vector<Use>& list : products_of(uses, mesh.ndim())) {
      Layout layout{std::vector<Levels>(shape.size()),
                    std::vector<std::optional<ReduceOp>>(static_cast<std::size_t>(mesh.ndim()))};
      for (const int axis : order) {
        const Use& use = list[static_cast<std::size_t>(axis)];
        layout.partial[static_cast<std::size_t>(axis)] = use.op;
        if (use.dim < 0) continue;
        Levels& levels = layout.dims[static_cast<std::size_t>(use.dim)];
        if (use.form.block > 0) levels.push_back(Level::of_block(use.form.block));
        if (use.form.run > 0) levels.push_back(Level::of_run(use.form.run));
        levels.push_back(Level::of_axis(axis, use.form.grain));
      }
      specs.add(layout);
    }
  } while (std::next_permutation(order.begin(), order.end()));
  return specs.take();
}

// ---- random ones

/// Fixed, unless the environment asks for another run; printed.
inline std::uint32_t seed_of(const char* what) {
  const char* asked = std::getenv("TESSERA_TEST_SEED");
  const auto seed = asked != nullptr ? static_cast<std::uint32_t>(std::strtoul(asked, nullptr, 10))
                                     : std::uint32_t{20261};
  std::printf("%s: seed %u (TESSERA_TEST_SEED sets another)\n", what, seed);
  return seed;
}

enum class WithPartial : std::uint8_t { kNo, kYes };

/// Random levels per axis: blocks, runs and grains; a placement list says about half of them.
inline Layout random_layout(const Mesh& mesh, int ndim, std::mt19937& random,
                            WithPartial with_partial) {
  Layout layout{std::vector<Levels>(static_cast<std::size_t>(ndim)),
                std::vector<std::optional<ReduceOp>>(static_cast<std::size_t>(mesh.ndim()))};
  const auto small = [&] { return 2 + static_cast<std::int64_t>(random() % 3); };
  std::vector<int> axes(static_cast<std::size_t>(mesh.ndim()));
  std::iota(axes.begin(), axes.end(), 0);
  std::shuffle(axes.begin(), axes.end(), random);
  const bool plain = random() % 2 == 0;
  for (const int axis : axes) {
    const auto choice = random() % (ndim == 0 ? 2 : 8);
    if (choice == 0) continue;
    if (choice == 1) {
      if (with_partial == WithPartial::kNo) continue;
      layout.partial[static_cast<std::size_t>(axis)] = static_cast<ReduceOp>(random() % 5);
      continue;
    }
    Levels& levels = layout.dims[random() % static_cast<unsigned>(ndim)];
    if (choice == 2) levels.push_back(Level::of_block(small()));
    if (choice == 3 && !plain) levels.push_back(Level::of_run(small()));
    if (choice == 4 && !plain) levels.push_back(Level::of_block(small(), small()));
    levels.push_back(Level::of_axis(axis, choice == 5 && !plain ? small() : 1));
  }
  return layout;
}

inline Shape random_shape(int ndim, std::int64_t longest, std::mt19937& random) {
  Shape shape;
  for (int d = 0; d < ndim; ++d) {
    shape.push_back(static_cast<std::int64_t>(random() % static_cast<unsigned>(longest + 1)));
  }
  return shape;
}

/// A spec for `shape` on `mesh`; sometimes the axes of `like` stay as they are there.
inline Spec random_spec(const Mesh& mesh, const Shape& shape, std::mt19937& random,
                        WithPartial with_partial = WithPartial::kYes) {
  return value_or_throw(
      Spec::make(mesh, shape, DType::kF64,
                 random_layout(mesh, static_cast<int>(shape.size()), random, with_partial)));
}

}  // namespace tessera::judge
