// Views and writes, as a property: every view op, every op that writes, every cut. What one rank
// shows after a write through a view, or to what it is a view of, is shown by cut tensors too, or
// the call is refused and nothing has changed.
#include <functional>
#include <set>

#include "strategies/verify/verify_data.h"
#include "tests/dtensor/outcome.h"

namespace tessera::testing {
namespace {

using Operands = std::vector<DTensor>;

/// A view op with one of its samples.
struct ViewCall {
  const Op* op = nullptr;
  const Sample* sample = nullptr;
  std::string text() const { return op->def.name + " of " + describe(*sample); }
};
/// An op that writes operand 0, with attributes.
struct WriteCall {
  const Op* op = nullptr;
  Attrs attrs;
};

/// Of tensors of one floating operand, or of one and its like.
std::vector<ViewCall> view_calls(const OpTable& table) {
  std::vector<ViewCall> calls;
  for (const Op* op : table.ops()) {
    if (!op->def.is_view) continue;
    for (const Sample& sample : op->def.samples) {
      if (sample.dtypes.empty() && !sample.shapes[0].empty()) calls.push_back({op, &sample});
    }
  }
  return calls;
}

std::vector<WriteCall> write_calls(const OpTable& table) {
  std::vector<WriteCall> calls;
  for (const Op* op : table.ops()) {
    if (op->mutates()) calls.push_back({op, op->def.samples[0].attrs});
  }
  return calls;
}

DTensor whole(Rank& rank, const Array& values, const Mesh& mesh) {
  return tessera::distribute(rank.runtime, values, mesh,
                             Placements(static_cast<std::size_t>(mesh.ndim()), Replicate{}));
}

/// Operands after the written one, all whole: floating ones of its shape, indices of zeros of that
/// shape or of one dim, masks. None where the op takes none of these.
std::optional<Operands> others_for(Rank& rank, const WriteCall& write, const DTensor& written) {
  const Shape& shape = written.global_shape();
  const std::vector<ArgDef>& args = write.op->def.args;
  const Array values = random_values(shape, DType::kF64, 5);
  const Array index = Array::zeros(shape, DType::kI64);
  const Array mask = Array::from_values(
      shape, DType::kBool, std::vector<double>(static_cast<std::size_t>(num_elements(shape)), 1.0));
  Shape row = shape.empty() ? Shape{1} : Shape{shape[0]};
  const Array line = Array::zeros(row, DType::kI64);
  const std::vector<std::vector<Array>> choices = {{values, values, values},
                                                   {index, values},
                                                   {line, values},
                                                   {mask, values},
                                                   {values, index},
                                                   {values, line},
                                                   {mask, Array::zeros({}, DType::kF64)}};
  for (const std::vector<Array>& choice : choices) {
    if (choice.size() + 1 < args.size()) continue;
    std::vector<TensorMeta> metas = {{shape, DType::kF64}};
    for (std::size_t i = 1; i < args.size(); ++i) {
      metas.push_back({choice[i - 1].shape(), choice[i - 1].dtype()});
    }
    const StatusOr<Attrs> attrs = complete_attrs(*write.op, write.attrs);
    if (!attrs.ok() || !infer(*write.op, metas, *attrs).ok()) continue;
    Operands operands;
    for (std::size_t i = 1; i < args.size(); ++i) {
      operands.push_back(whole(rank, choice[i - 1], written.mesh()));
    }
    return operands;
  }
  return std::nullopt;
}

enum class Target : std::uint8_t { kView, kBase };

/// What a program left: the base, the view as it is read after the write, and the refusal if any.
struct Left {
  std::vector<double> base, view;
  std::string refused, unreadable;
};

/// Makes operand `operand` of a view of these values.
using Place = std::function<DTensor(const Array& values, std::size_t operand)>;

/// base → view → write to one of them → both are read.
std::optional<Left> run_program(Rank& rank, const ViewCall& view, const WriteCall& write,
                                Target target, const Place& place) {
  const DTensor base = place(random_values(view.sample->shapes[0], DType::kF64, 3), 0);
  Operands operands = {base};
  for (std::size_t i = 1; i < view.sample->shapes.size(); ++i) {
    operands.push_back(place(random_values(view.sample->shapes[i], DType::kF64, 4), i));
  }
  const DTensor seen = call(rank.runtime, view.op->def.name, operands, view.sample->attrs).back();
  const DTensor& written = target == Target::kView ? seen : base;
  const std::optional<Operands> others = others_for(rank, write, written);
  if (!others) return std::nullopt;
  Operands all = {written};
  all.insert(all.end(), others->begin(), others->end());
  Left left;
  left.refused = error_of([&] { call(rank.runtime, write.op->def.name, all, write.attrs); });
  left.base = full_tensor(base).to_vector();
  left.unreadable = error_of([&] { left.view = full_tensor(seen).to_vector(); });
  return left;
}

bool same(const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (!nearly_equal(a[i], b[i], DType::kF64)) return false;
  }
  return true;
}

/// "" where the cut program did as one rank's, or said why not and changed nothing.
std::string judge(const Left& cut, const Left& one, const Left& before) {
  if (!one.refused.empty()) {
    return cut.refused.empty() ? "one rank refuses: " + one.refused : "";
  }
  if (!cut.refused.empty()) {
    const bool clear = cut.refused.find("cannot be written in place") != std::string::npos ||
                       cut.refused.find("would have to move") != std::string::npos;
    if (!clear) return "refused: " + cut.refused;
    return same(cut.base, before.base) ? "" : "refused, but the base has changed";
  }
  if (!same(cut.base, one.base)) return "the base differs from one rank's";
  if (!cut.unreadable.empty()) {
    const bool clear = cut.unreadable.find("was written since") != std::string::npos;
    return clear ? "" : "unreadable: " + cut.unreadable;
  }
  return same(cut.view, one.view) ? "" : "the view differs from one rank's";
}

/// All problems of one mesh, and how many programs were right, refused, and told as stale.
struct Tally {
  std::vector<std::string> problems;
  std::int64_t right = 0, refused = 0, stale = 0;
  std::set<std::string> writes, views;
};

/// Whether a tensor of that shape can be cut so.
bool fits(const Shape& shape, const Placements& placements) {
  return std::all_of(placements.begin(), placements.end(), [&](const Placement& placement) {
    const Shard* shard = std::get_if<Shard>(&placement);
    return shard == nullptr || shard->dim < static_cast<int>(shape.size());
  });
}

/// How a view's operands are cut.
using Cuts = std::vector<Placements>;

/// The first operand every way that it can be, and the others whole; then these every way, too.
std::vector<Cuts> cuts_of(const ViewCall& view, const std::vector<Placements>& placements) {
  const std::vector<Shape>& shapes = view.sample->shapes;
  const Placements whole(placements[0].size(), Replicate{});
  std::vector<Cuts> all;
  for (const Placements& each : placements) {
    if (!fits(shapes[0], each)) continue;
    for (const Placements& other : placements) {
      const bool fit = std::all_of(shapes.begin() + 1, shapes.end(),
                                   [&](const Shape& shape) { return fits(shape, other); });
      if (!fit || (shapes.size() == 1 && other != whole)) continue;
      Cuts& cuts = all.emplace_back(shapes.size(), other);
      cuts[0] = each;
    }
    if (placements[0] != whole) all.emplace_back(shapes.size(), whole)[0] = each;
  }
  return all;
}

/// One program cut and on one rank, into the tally.
void try_one(Rank& rank, const ViewCall& view, const WriteCall& write, const Cuts& cuts,
             Tally& tally) {
  for (const Target target : {Target::kView, Target::kBase}) {
    const auto one = run_program(rank, view, write, target, [&](const Array& values, std::size_t) {
      return here(rank.runtime, copy_of(values));
    });
    const auto cut =
        run_program(rank, view, write, target, [&](const Array& values, std::size_t operand) {
          return rank.distribute(values, cuts[operand]);
        });
    if (!one || !cut) continue;
    const Left before{random_values(view.sample->shapes[0], DType::kF64, 3).to_vector()};
    const std::string problem = judge(*cut, *one, before);
    if (!problem.empty()) {
      tally.problems.push_back(view.text() + " (" + to_string(cuts.front()) + ", " +
                               to_string(cuts.back()) + "), " + write.op->def.name + " on the " +
                               (target == Target::kView ? "view: " : "base: ") + problem);
    }
    tally.refused += cut->refused.empty() ? 0 : 1;
    tally.stale += cut->unreadable.empty() ? 0 : 1;
    tally.right += problem.empty() && cut->refused.empty() && cut->unreadable.empty() ? 1 : 0;
    tally.writes.insert(write.op->def.name);
    tally.views.insert(view.op->def.name);
  }
}

Tally try_all(Rank& rank, const std::vector<Placements>& placements, std::size_t stride) {
  const OpTable& table = rank.runtime.ops();
  const std::vector<WriteCall> writes = write_calls(table);
  Tally tally;
  std::size_t turn = 0;
  for (const ViewCall& view : view_calls(table)) {
    for (const Cuts& cuts : cuts_of(view, placements)) {
      // Where the second operand is cut, too, each write is tried with some of the cuts.
      const bool apart =
          cuts.size() > 1 && cuts.back() != Placements(placements[0].size(), Replicate{});
      const std::size_t step = apart ? 7 * stride : stride;
      for (std::size_t w = turn++ % step; w < writes.size(); w += step) {
        try_one(rank, view, writes[w], cuts, tally);
      }
    }
  }
  return tally;
}

std::string first_of(const std::vector<std::string>& problems) {
  std::string text = std::to_string(problems.size()) + " problems";
  for (std::size_t i = 0; i < std::min<std::size_t>(problems.size(), 12); ++i) {
    text += "\n  " + problems[i];
  }
  return text;
}

}  // namespace

TEST_CASE("writes through views and to their bases show as on one rank, or are refused",
          "[dtensor][aliasing][long]") {
  const Replicate R{};
  const std::vector<Placements> one_axis = {{R}, {Shard{0}}, {Shard{1}}, {Shard{2}}};
  const std::vector<Placements> two_axes = {
      {Shard{0}, Shard{1}}, {Shard{0}, Shard{0}}, {R, Shard{1}}, {Shard{1}, R}};
  struct Case {
    Shape mesh;
    std::vector<Placements> placements;
    std::size_t stride;  ///< every so-manieth write
  };
  for (const Case& each : {Case{{1}, one_axis, 5}, Case{{2}, one_axis, 1}, Case{{3}, one_axis, 7},
                           Case{{2, 2}, two_axes, 9}}) {
    if (!runs_here(num_elements(each.mesh))) continue;
    CAPTURE(to_string(each.mesh));
    const auto ranks = run_ranks(mesh_of_shape(each.mesh), [&](Rank& rank) {
      const Tally tally = try_all(rank, each.placements, each.stride);
      return std::tuple{tally.problems, tally.right,         tally.refused,
                        tally.stale,    tally.writes.size(), tally.views.size()};
    });
    for (const auto& [problems, right, refused, stale, writes, views] : ranks) {
      INFO(first_of(problems));
      CHECK(problems.empty());
      CAPTURE(right, refused, stale, writes, views);
      CHECK(views >= 30);
      CHECK(right > 200);
      if (each.stride == 1) CHECK(writes >= 90);
      // Not everything may hide behind a refusal.
      if (num_elements(each.mesh) > 1) CHECK((refused > 0 && stale > 0));
      CHECK(right > refused + stale);
    }
  }
}

TEST_CASE("a view made of a transposed cut tensor is read only, as some ranks copy",
          "[dtensor][aliasing]") {
  const auto ranks = run_ranks(mesh_of_shape({2}), [&](Rank& rank) {
    const DTensor x = rank.distribute(random_values({4, 6}, DType::kF64, 1), {Shard{0}});
    DTensor flat = reshape(transpose(x, 0, 1), {24});
    DTensor row = reshape(x, {24});
    std::vector<std::string> errors;
    errors.push_back(error_of([&] { fill_(flat, 1.0); }));
    errors.push_back(error_of([&] { fill_(row, 1.0); }));
    errors.push_back(error_of([&] { full_tensor(flat); }));
    errors.push_back(full_tensor(x).to_vector() == std::vector<double>(24, 1.0) ? "" : "x");
    return errors;
  });
  for (const std::vector<std::string>& errors : ranks) {
    CHECK(
        errors[0].starts_with("fill_: the operand cannot be written in place: it was given other "
                              "sizes while its elements were not in row-major order"));
    CHECK(errors[1] == "");
    CHECK(errors[2].find("was written since; take the view again") != std::string::npos);
    CHECK(errors[3] == "");
  }
}

TEST_CASE("what needs a gradient is not written through a view, nor lost to one",
          "[dtensor][aliasing][autograd]") {
  const auto ranks = run_ranks(mesh_of_shape({2}), [&](Rank& rank) {
    const Array values = random_values({4, 6}, DType::kF64, 1);
    DTensor x = rank.distribute(values, {Shard{0}});
    DTensor column = slice(x, 1, 0, 1);
    const DTensor w = rank.parameter(values, {Shard{0}});
    std::vector<std::string> errors;
    errors.push_back(error_of([&] { add_(column, slice(w, 1, 0, 1)); }));
    add_(x, w);  // x has a history from here on, which the older view knows nothing of
    errors.push_back(error_of([&] { sum(column); }));
    errors.push_back(error_of([&] { backward(sum(x)); }));
    errors.push_back(w.grad().defined() ? "" : "no gradient");
    return errors;
  });
  for (const std::vector<std::string>& errors : ranks) {
    CHECK(
        errors[0].starts_with("add_: the operand: a view cannot be written in place with values "
                              "that need a gradient"));
    CHECK(errors[1].find("was written through another alias since it was made") !=
          std::string::npos);
    CHECK(errors[2] == "");
    CHECK(errors[3] == "");
  }
}

}  // namespace tessera::testing
