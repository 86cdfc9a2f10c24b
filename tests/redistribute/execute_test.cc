// A sample of the judged pairs, carried out by ranks as threads or as processes.
#include "tests/redistribute/executed.h"

using namespace tessera;  // NOLINT
using judge::mesh_of;
using judge::Pair;
using judge::spec_of;

namespace {

using Texts = std::vector<std::string>;

Mesh mesh_from(std::int64_t first_rank, std::initializer_list<std::int64_t> sizes) {
  const std::vector<std::int64_t> shape(sizes);
  return value_or_throw(Mesh::make(shape, {}, first_rank));
}

/// Random pairs on these meshes (any two where `between`), in all dtypes that carry their values.
std::vector<judge::Expected> random_pairs(const std::vector<Mesh>& meshes, int count,
                                          std::mt19937& random, judge::HeldCache& cache) {
  const DType exact[] = {DType::kF64,  DType::kF32, DType::kF64, DType::kF32,
                         DType::kBF16, DType::kI64, DType::kI32};
  std::vector<judge::Expected> pairs;
  while (static_cast<int>(pairs.size()) < count) {
    const Mesh& from = meshes[random() % meshes.size()];
    const Mesh& to = random() % 2 == 0 ? from : meshes[random() % meshes.size()];
    const int ndim = 1 + static_cast<int>(random() % 3);
    const Shape shape = judge::random_shape(ndim, ndim == 1 ? 40 : ndim == 2 ? 12 : 6, random);
    const Spec src = judge::random_spec(from, shape, random);
    const Spec dst = judge::random_spec(to, shape, random);
    DType dtype = exact[random() % std::size(exact)];
    const bool partial = src.has_partial() || dst.has_partial();
    if (partial || num_elements(shape) > 250) dtype = random() % 2 == 0 ? DType::kF64 : DType::kF32;
    pairs.push_back(judge::expected_of({src.with_dtype(dtype), dst.with_dtype(dtype)}, cache));
  }
  return pairs;
}

}  // namespace

TEST_CASE("random pairs end on four ranks as the judge computed", "[redistribute][execute]") {
  std::mt19937 random(judge::seed_of("executed pairs"));
  judge::HeldCache cache;
  const std::vector<Mesh> meshes = {mesh_of({4}), mesh_of({2, 2})};
  CHECK(judge::flaws_of(4, random_pairs(meshes, 1500, random, cache)) == Texts{});
}

TEST_CASE("random pairs between meshes end on four ranks as the judge computed",
          "[redistribute][execute][mesh]") {
  std::mt19937 random(judge::seed_of("executed pairs between meshes"));
  judge::HeldCache cache;
  const std::vector<Mesh> meshes = {Mesh(),
                                    mesh_from(2, {}),
                                    mesh_from(0, {2}),
                                    mesh_from(2, {2}),
                                    mesh_from(1, {3}),
                                    mesh_from(0, {3}),
                                    mesh_of({4}),
                                    mesh_of({2, 2})};
  CHECK(judge::flaws_of(4, random_pairs(meshes, 1500, random, cache)) == Texts{});
}

TEST_CASE("random pairs end on six and eight ranks as the judge computed",
          "[redistribute][execute]") {
  const int ranks = GENERATE(6, 8);
  if (testing::backend() == testing::Backend::kProcesses) return;
  std::mt19937 random(judge::seed_of("executed pairs"));
  judge::HeldCache cache;
  const std::vector<Mesh> meshes =
      ranks == 6
          ? std::vector<Mesh>{mesh_of({2, 3}), mesh_of({3, 2}), mesh_of({6}), mesh_of({5})}
          : std::vector<Mesh>{mesh_of({2, 2, 2}), mesh_of({8}), mesh_of({2, 4}), mesh_from(3, {4})};
  CHECK(judge::flaws_of(ranks, random_pairs(meshes, 600, random, cache)) == Texts{});
}

TEST_CASE("large tensors end as the judge computed", "[redistribute][execute]") {
  const Mesh mesh = mesh_of({2, 2}, {"dp", "tp"});
  const Shape shape{203, 151};
  judge::HeldCache cache;
  std::vector<judge::Expected> pairs;
  for (const char* from : {"S(0), S(1)", "SS(0,2), S(0)", "P, S(0)", "P, R", "P, P", "R, S(1)"}) {
    for (const char* to : {"S(1), S(0)", "S(0), S(0)", "R, R", "S(1), R", "R, P"}) {
      const Pair pair{spec_of(mesh, shape, from), spec_of(mesh, shape, to)};
      pairs.push_back(judge::expected_of(pair, cache));
      // Messages cut into many small chunks, where they are packed at all.
      pairs.push_back(judge::expected_of(pair, cache, {.pack_bytes = least_pack_bytes(4)}));
    }
  }
  CHECK(judge::flaws_of(4, pairs) == Texts{});
}
