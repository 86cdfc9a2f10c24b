#include "tests/fuzz/call_mutation.h"

#include <algorithm>
#include <array>
#include <limits>

namespace tessera::testing {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

constexpr std::int64_t kBoundaries[] = {kLeast,
                                        kLeast + 1,
                                        -(1LL << 62),
                                        -(1LL << 32),
                                        -(1LL << 31) - 1,
                                        -(1LL << 31),
                                        (1LL << 31) - 1,
                                        1LL << 31,
                                        1LL << 32,
                                        (1LL << 53) + 1,
                                        1LL << 60,
                                        1LL << 61,
                                        (1LL << 62) - 1,
                                        1LL << 62,
                                        (1LL << 62) + 1,
                                        kMost / 3,
                                        kMost - 1,
                                        kMost,
                                        -100,
                                        100,
                                        65536,
                                        1000003,
                                        3074457345618258603};
constexpr double kNumbers[] = {0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               0.5,
                               -0.75,
                               2.0,
                               3.0,
                               300.0,
                               255.0,
                               256.0,
                               -300.0,
                               2.5e9,
                               1099511627776.0,
                               9007199254740993.0,
                               9.3e18,
                               -9.3e18,
                               1e300,
                               -1e300,
                               5e-324,
                               1e-9,
                               kInfinity,
                               -kInfinity,
                               kNaN,
                               1e39,
                               70000.0};
constexpr DType kDTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16,
                             DType::kI64, DType::kI32, DType::kU8,   DType::kBool};
constexpr std::int64_t kSizes[] = {0, 1, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 33};
constexpr std::int64_t kHugeSizes[] = {1LL << 31, 1LL << 40, (1LL << 61) - 1, 1LL << 62, kMost};
constexpr std::string_view kWords[] = {
    "",         "none",      "mean",   "sum",       "batchmean", "prod",      "amax",     "amin",
    "left",     "right",     "floor",  "trunc",     "ij",        "xy",        "constant", "reflect",
    "nonsense", "ab,bc->ac", "ij->ji", "ij->i",     "i,i->",     "...a->...", "aa->a",    "ij,jk",
    "->",       ",->",       "a.b->c", "replicate", "circular",  "tanh",      "erf"};

std::int64_t any_number(Choices& choices) {
  if (choices.one_in(2)) return static_cast<std::int64_t>(choices.below(12)) - 4;
  return choices.pick<std::int64_t>(kBoundaries);
}

void change_list(Shape& list, Choices& choices) {
  const std::uint64_t way = choices.below(6);
  if (way == 0 || list.empty()) {
    list.push_back(any_number(choices));
  } else if (way == 1) {
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(choices.below(list.size())));
  } else if (way == 2 && choices.one_in(4)) {
    list.assign(40 + choices.below(60), any_number(choices));
  } else if (way == 2) {
    list.assign(choices.below(5), any_number(choices));
  } else if (way == 3) {
    std::swap(list[choices.below(list.size())], list[choices.below(list.size())]);
  } else {
    list[choices.below(list.size())] = any_number(choices);
  }
}

AttrValue of_type(AttrDef::Type type, const AttrValue* old, Choices& choices) {
  switch (type) {
    case AttrDef::Type::kBool: {
      const bool* held = old != nullptr ? std::get_if<bool>(old) : nullptr;
      return held != nullptr ? !*held : choices.one_in(2);
    }
    case AttrDef::Type::kInt:
      return any_number(choices);
    case AttrDef::Type::kDouble:
      return choices.pick<double>(kNumbers);
    case AttrDef::Type::kInts: {
      const Shape* held = old != nullptr ? std::get_if<Shape>(old) : nullptr;
      Shape list = held != nullptr ? *held : Shape{};
      change_list(list, choices);
      return AttrValue(std::in_place_type<Shape>, std::move(list));
    }
    case AttrDef::Type::kDType:
      return choices.pick<DType>(kDTypes);
    case AttrDef::Type::kString:
      return std::string(choices.pick<std::string_view>(kWords));
  }
  return {};
}

void change_attr(MutatedCall& call, Choices& choices) {
  const std::vector<AttrDef>& defs = call.op->def.attrs;
  if (defs.empty()) return;
  const AttrDef& def = defs[choices.below(defs.size())];
  const AttrValue* old = call.attrs.find(def.name);
  if (old == nullptr && def.default_value) old = &*def.default_value;
  if (choices.one_in(40)) {
    Attrs rest;
    for (const auto& [name, value] : call.attrs) {
      if (name != def.name) rest.set(name, value);
    }
    call.attrs = rest;
    return;
  }
  const auto type = choices.one_in(40) ? static_cast<AttrDef::Type>(choices.below(6)) : def.type;
  call.attrs.set(def.name, of_type(type, old, choices));
}

/// Attributes that lists and sizes are made of often hold a size of an operand: both change.
void change_size_everywhere(MutatedCall& call, Choices& choices) {
  const TensorMeta& meta = call.operands[choices.below(call.operands.size())];
  if (meta.shape.empty()) return;
  const std::int64_t old = meta.shape[choices.below(meta.shape.size())];
  const std::int64_t size = choices.pick<std::int64_t>(kSizes);
  for (TensorMeta& each : call.operands)
    std::replace(each.shape.begin(), each.shape.end(), old, size);
  if (choices.one_in(2)) return;
  Attrs attrs;
  for (const auto& [name, value] : call.attrs) {
    AttrValue changed = value;
    if (Shape* list = std::get_if<Shape>(&changed)) {
      std::replace(list->begin(), list->end(), old, size);
    }
    attrs.set(name, std::move(changed));
  }
  call.attrs = attrs;
}

void change_shape(Shape& shape, Choices& choices) {
  const std::uint64_t way = choices.below(9);
  const auto place = [&] { return static_cast<std::ptrdiff_t>(choices.below(shape.size() + 1)); };
  if (way == 0) {
    shape.insert(shape.begin() + place(), static_cast<std::int64_t>(choices.below(4)));
  } else if (way == 1 && choices.one_in(6)) {
    shape.assign(choices.below(static_cast<std::uint64_t>(kMaxDims) + 2), 1);
  } else if (way == 1) {
    shape.clear();
  } else if (shape.empty()) {
    shape.assign(1 + choices.below(3), choices.pick<std::int64_t>(kSizes));
  } else if (way == 2) {
    shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(choices.below(shape.size())));
  } else if (way == 3) {
    std::swap(shape[choices.below(shape.size())], shape[choices.below(shape.size())]);
  } else if (way == 4 && choices.one_in(3)) {
    shape[choices.below(shape.size())] = choices.pick<std::int64_t>(kHugeSizes);
  } else {
    shape[choices.below(shape.size())] = choices.pick<std::int64_t>(kSizes);
  }
}

void change_dtypes(MutatedCall& call, Choices& choices) {
  const DType dtype = choices.pick<DType>(kDTypes);
  const std::uint64_t way = choices.below(3);
  if (way == 0) {
    call.operands[choices.below(call.operands.size())].dtype = dtype;
    return;
  }
  for (TensorMeta& meta : call.operands) {
    if (way == 1 || is_floating(meta.dtype)) meta.dtype = dtype;
  }
}

/// Optional operands come and go, lists change their length.
void change_operands(MutatedCall& call, Choices& choices) {
  const std::vector<ArgDef>& args = call.op->def.args;
  if (args.back().kind == ArgDef::Kind::kList && choices.one_in(2)) {
    const std::size_t given = call.operands.size() - args.size() + 1;
    const std::size_t at = args.size() - 1 + choices.below(given);
    const TensorMeta meta = call.operands[at];
    const auto place = call.operands.begin() + static_cast<std::ptrdiff_t>(at);
    if (given > 1 && choices.one_in(2)) {
      call.operands.erase(place);
    } else {
      call.operands.insert(place, choices.one_in(64) ? 200 : 1, meta);
    }
    return;
  }
  TensorMeta& meta = call.operands[choices.below(call.operands.size())];
  if (meta.absent) {
    meta = call.operands[choices.below(call.operands.size())];
  } else {
    meta = TensorMeta{.shape = {}, .absent = true};
  }
}

void mutate(MutatedCall& call, Choices& choices) {
  const std::uint64_t way = choices.below(call.op->def.attrs.empty() ? 7 : 12);
  if (way >= 7) return change_attr(call, choices);
  if (call.operands.empty()) return;
  if (way <= 2) {
    TensorMeta& meta = call.operands[choices.below(call.operands.size())];
    if (!meta.absent) change_shape(meta.shape, choices);
  } else if (way == 3) {
    change_size_everywhere(call, choices);
  } else if (way == 4) {
    TensorMeta& meta = call.operands[choices.below(call.operands.size())];
    if (!meta.absent) meta.shape = call.operands[choices.below(call.operands.size())].shape;
  } else if (way == 5) {
    change_dtypes(call, choices);
  } else {
    change_operands(call, choices);
  }
}

bool could_be(const TensorMeta& meta) { return checked_num_elements(view_of(meta.shape)).ok(); }

}  // namespace

std::uint64_t Choices::below(std::uint64_t limit) {
  if (seeded_) return random_() % limit;
  std::uint64_t number = 0;
  for (std::uint64_t reach = 1; reach < limit && !bytes_.empty(); reach *= 256) {
    number = number * 256 + bytes_.front();
    bytes_ = bytes_.subspan(1);
  }
  return number % limit;
}

MutatedCall mutated_call(std::span<const Op* const> ops, Choices& choices) {
  MutatedCall call;
  call.op = choices.pick(ops);
  const std::span<const Sample> samples = call.op->def.samples;
  call.sample = &samples[choices.below(samples.size())];
  call.attrs = call.sample->attrs;
  for (std::size_t i = 0; i < call.sample->shapes.size(); ++i) {
    const std::vector<DType>& dtypes = call.sample->dtypes;
    call.operands.push_back(
        {call.sample->shapes[i], i < dtypes.size() ? dtypes[i] : DType::kF64, false});
  }
  while (call.operands.size() < call.op->def.args.size())
    call.operands.emplace_back().absent = true;
  for (std::uint64_t left = 1 + choices.below(4); left > 0; --left) {
    MutatedCall changed = call;
    mutate(changed, choices);
    if (std::all_of(changed.operands.begin(), changed.operands.end(), could_be)) call = changed;
  }
  return call;
}

std::string describe(const MutatedCall& call) {
  std::string text = call.op->def.name + "(";
  for (std::size_t i = 0; i < call.operands.size(); ++i) {
    const TensorMeta& meta = call.operands[i];
    text += i == 0 ? "" : ", ";
    text += meta.absent ? "none" : std::string(name_of(meta.dtype)) + to_string(meta.shape);
  }
  return text + (call.attrs.empty() ? "" : "; ") + call.attrs.to_string() + ")";
}

}  // namespace tessera::testing
