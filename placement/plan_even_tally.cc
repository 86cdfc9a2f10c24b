// Even cuts write a dim's index as digits: {4, 2} cut 16 elements into a digit of 4, one of 2 and a
// rest of 2. A layout ties some digits to coords, which are digits of mesh axes in turn, and leaves
// others free. What a rank holds under two layouts is then a product: of the free digits' sizes
// where both layouts tie a digit to equal coords, and else nothing. So a rank's counts depend on
// which of its coords' digits are equal, and how many ranks have which equal is combinatorics. An
// axis that leaves all to one coord ties its digits to those of that coord.
#include "placement/plan_even_tally.h"

#include <algorithm>
#include <array>

#include "absl/container/inlined_vector.h"

namespace tessera {
namespace {

// Beyond these, classes are counted by coords.
constexpr std::size_t kMostDigits = 64;
constexpr std::size_t kMostMeeting = 6;  // whose coords are compared with one another

using Mask = std::uint32_t;  // of overlaps
static_assert(kMaxOverlaps <= 32);

/// A step of a list of levels. Sizes of 1 are left out.
struct Cut {
  int axis = -1;  ///< -1: every coord has all pieces
  std::int64_t size = 1;
};
using Cuts = absl::InlinedVector<Cut, 6>;

/// Numbers at which digits end, as products of the digits so far; ascending, without 1.
class Borders {
 public:
  /// True if it was not known.
  bool add(std::int64_t border) {
    const auto at = std::lower_bound(all_.begin(), all_.end(), border);
    if (at != all_.end() && *at == border) return false;
    all_.insert(at, border);
    return true;
  }
  bool nest() const {
    std::int64_t before = 1;
    for (const std::int64_t border : all_) {
      if (border % before != 0) return false;
      before = border;
    }
    return true;
  }
  /// Of the digit that ends there.
  std::size_t place_of(std::int64_t border) const {
    return static_cast<std::size_t>(std::lower_bound(all_.begin(), all_.end(), border) -
                                    all_.begin());
  }
  std::int64_t digit(std::size_t place) const {
    return place == 0 ? all_[0] : all_[place] / all_[place - 1];
  }
  std::size_t size() const { return all_.size(); }
  std::int64_t last() const { return all_.empty() ? 1 : all_.back(); }
  const std::int64_t* begin() const { return all_.data(); }
  const std::int64_t* end() const { return all_.data() + all_.size(); }

 private:
  absl::InlinedVector<std::int64_t, 8> all_;
};

/// The coord to which an axis leaves all.
struct Owner {
  int axis = 0;
  std::int64_t coord = 0;
};

/// A list of one dim that some overlap speaks of.
struct List {
  const Levels* levels = nullptr;
  Cuts cuts;
  absl::InlinedVector<Owner, 2> owners;
  absl::InlinedVector<int, 8> tied;  ///< of each of the dim's digits: an axis' digit, or -1
};
struct Dim {
  std::int64_t size = 0;
  absl::InlinedVector<List, 6> lists;
  Borders borders;
  std::int64_t rest() const { return size / borders.last(); }
};

/// Two axes' digits that these overlaps want to be equal; or one that they want to be `value`.
struct Pair {
  int first = 0, second = 0;
  std::int64_t value = 0;
  Mask wanted_by = 0;
  bool joins(const Pair& other) const {
    return first == other.first && second == other.second && value == other.value;
  }
};
constexpr int kValue = -1;  // stands for a digit
/// Ranks whose coords agree as these overlaps want.
struct Agreeing {
  Mask overlaps = 0;
  std::int64_t num_ranks = 0;
};
using AllAgreeing = absl::InlinedVector<Agreeing, 8>;

void add_to(AllAgreeing& all, const Agreeing& more) {
  if (more.num_ranks == 0) return;
  for (Agreeing& known : all) {
    if (known.overlaps != more.overlaps) continue;
    known.num_ranks += more.num_ranks;
    return;
  }
  all.push_back(more);
}

/// Digits that pairs join, all of one size, and a value that some of them should have.
class Meeting {
 public:
  Meeting(int first, std::int64_t size, std::span<const Pair> pairs) : digits_{first}, size_(size) {
    for (std::size_t i = 0; i < digits_.size() && digits_.size() <= kMostMeeting; ++i) {
      for (const Pair& pair : pairs) {
        if (pair.second == kValue) continue;
        if (pair.first == digits_[i]) take(pair.second);
        if (pair.second == digits_[i]) take(pair.first);
      }
    }
    num_digits_ = digits_.size();
    for (const Pair& pair : pairs) {
      if (!has(pair.first)) continue;
      if (pair.second == kValue) take_value(pair.value);
      pairs_.push_back({place(pair.first), place(pair.second), 0, pair.wanted_by});
    }
  }

  bool is_small() const { return digits_.size() <= kMostMeeting && one_value_; }
  std::span<const int> digits() const { return {digits_.data(), num_digits_}; }

  /// How many values of all its digits agree in which way: every partition of the digits into
  /// those of equal values is looked at.
  AllAgreeing agreeing(Mask all) const {
    AllAgreeing found;
    std::array<int, kMostMeeting> group{};
    partition(1, 1, group, all, found);
    return found;
  }

 private:
  bool has(int digit) const {
    return std::find(digits_.begin(), digits_.end(), digit) != digits_.end();
  }
  void take(int digit) {
    if (!has(digit)) digits_.push_back(digit);
  }
  void take_value(std::int64_t value) {
    one_value_ = one_value_ && (!value_ || *value_ == value);
    value_ = value;
    take(kValue);
  }
  int place(int digit) const {
    return static_cast<int>(std::find(digits_.begin(), digits_.end(), digit) - digits_.begin());
  }
  /// Digits before `next` are in `groups` groups.
  void partition(std::size_t next, int groups, std::array<int, kMostMeeting>& group, Mask all,
                 AllAgreeing& found) const {
    if (groups > size_) return;
    if (next == digits_.size()) {
      add_to(found, {agree(group, all), num_values(groups)});
      return;
    }
    for (int each = 0; each <= groups; ++each) {
      group[next] = each;
      partition(next + 1, std::max(groups, each + 1), group, all, found);
    }
  }
  Mask agree(const std::array<int, kMostMeeting>& group, Mask all) const {
    for (const Pair& pair : pairs_) {
      const bool equal = group[static_cast<std::size_t>(pair.first)] ==
                         group[static_cast<std::size_t>(pair.second)];
      if (!equal) all &= ~pair.wanted_by;
    }
    return all;
  }
  /// Of so many groups with values that differ, one of which may be known.
  std::int64_t num_values(int groups) const {
    std::int64_t count = 1;
    for (int each = value_ ? 1 : 0; each < groups; ++each) count *= size_ - each;
    return count;
  }

  absl::InlinedVector<int, kMostMeeting + 2> digits_;  ///< the value behind them
  absl::InlinedVector<Pair, 8> pairs_;                 ///< by places in digits_
  std::int64_t size_;
  std::size_t num_digits_ = 1;
  std::optional<std::int64_t> value_;
  bool one_value_ = true;
};

class EvenTally {
 public:
  EvenTally(const Spec& tensor, std::span<const Overlap> overlaps)
      : mesh_(tensor.mesh()), shape_(view_of(tensor.global_shape())), overlaps_(overlaps) {}

  std::optional<std::vector<RankClass>> run() {
    if (!read_lists() || !find_digits()) return std::nullopt;
    constants_.assign(overlaps_.size(), 1);
    for (const Dim& dim : dims_) {
      for (std::size_t k = 0; k < overlaps_.size(); ++k) count(dim, k);
    }
    return classes();
  }

 private:
  bool read_lists() {
    dims_.resize(shape_.size());
    for (std::size_t d = 0; d < dims_.size(); ++d) {
      dims_[d].size = shape_[d];
      if (shape_[d] == 0) return false;
      for (const Overlap& overlap : overlaps_) {
        for (const Layout* layout : {overlap.a, overlap.b, overlap.also}) {
          if (layout != nullptr && !read(layout->dims[d], dims_[d])) return false;
        }
      }
    }
    return true;
  }
  bool read(const Levels& levels, Dim& dim) const {
    for (const List& known : dim.lists) {
      if (known.levels == &levels) return true;
    }
    List list{.levels = &levels, .cuts = {}, .owners = {}, .tied = {}};
    std::int64_t length = dim.size;
    for (const Level& level : levels) {
      if (const auto owner = owner_of(level, length)) {
        list.owners.push_back(*owner);
        continue;
      }
      const std::int64_t chunk = even_chunk(level, length);
      if (chunk == 0) return false;
      const int axis = level.kind == Level::Kind::kAxis ? level.axis : -1;
      if (chunk < length) list.cuts.push_back({axis, length / chunk});
      length = chunk;
    }
    dim.lists.push_back(std::move(list));
    return true;
  }
  /// Where an axis of several ranks leaves all of a piece to one of them.
  std::optional<Owner> owner_of(const Level& level, std::int64_t length) const {
    if (level.kind != Level::Kind::kAxis || mesh_.size(level.axis) == 1) return std::nullopt;
    if (!level.sizes) {
      return length <= level.grain ? std::optional(Owner{level.axis, 0}) : std::nullopt;
    }
    const std::optional<std::int64_t> owner = level.sizes.owner();
    if (!owner || level.sizes.total() != length) return std::nullopt;
    return Owner{level.axis, *owner};
  }
  /// 0 where a piece is not cut into chunks of one length, or not all coords have one.
  std::int64_t even_chunk(const Level& level, std::int64_t length) const {
    if (level.sizes) return 0;
    if (level.kind == Level::Kind::kBlock && length <= level.grain) return length;
    if (level.kind == Level::Kind::kRun) return length % level.count == 0 ? level.count : 0;
    const std::int64_t parts =
        level.kind == Level::Kind::kAxis ? mesh_.size(level.axis) : level.count;
    if (length % parts != 0) return 0;
    return parts == 1 || length / parts % level.grain == 0 ? length / parts : 0;
  }

  /// Splits dims at all borders of their lists, and axes where those fall inside them, which may
  /// split other dims that they cut.
  bool find_digits() {
    of_axis_.resize(static_cast<std::size_t>(mesh_.ndim()));
    for (bool changed = true; changed;) {
      changed = false;
      for (Dim& dim : dims_) {
        for (const List& list : dim.lists) changed = add_borders(list, dim.borders) || changed;
      }
      if (!all_nest()) return false;
    }
    first_digit_.assign(of_axis_.size(), 0);
    for (std::size_t a = 0; a < of_axis_.size(); ++a) {
      first_digit_[a] = static_cast<int>(sizes_.size());
      for (std::size_t i = 0; i < of_axis_[a].size(); ++i) sizes_.push_back(of_axis_[a].digit(i));
    }
    for (Dim& dim : dims_) {
      for (List& list : dim.lists) tie(dim.borders, list);
    }
    return sizes_.size() <= kMostDigits;
  }
  bool add_borders(const List& list, Borders& of_dim) {
    bool changed = false;
    for (const Owner& owner : list.owners) {
      changed = borders_of(owner.axis).add(mesh_.size(owner.axis)) || changed;
    }
    std::int64_t begin = 1;
    for (const Cut& cut : list.cuts) {
      const std::int64_t end = begin * cut.size;
      changed = of_dim.add(end) || changed;
      if (cut.axis >= 0) changed = share_borders(begin, cut, of_dim) || changed;
      begin = end;
    }
    return changed;
  }
  Borders& borders_of(int axis) { return of_axis_[static_cast<std::size_t>(axis)]; }
  /// Between a dim and an axis that cuts it from `begin` on.
  bool share_borders(std::int64_t begin, const Cut& cut, Borders& of_dim) {
    Borders& of_axis = borders_of(cut.axis);
    bool changed = of_axis.add(cut.size);
    for (const std::int64_t border : of_dim) {
      const bool inside = border > begin && border < begin * cut.size && border % begin == 0;
      if (inside) changed = of_axis.add(border / begin) || changed;
    }
    for (const std::int64_t border : of_axis) changed = of_dim.add(begin * border) || changed;
    return changed;
  }
  bool all_nest() const {
    const auto nest = [](const Borders& borders) {
      return borders.size() <= kMostDigits && borders.nest();
    };
    return std::all_of(of_axis_.begin(), of_axis_.end(), nest) &&
           std::all_of(dims_.begin(), dims_.end(),
                       [&](const Dim& dim) { return nest(dim.borders); });
  }
  void tie(const Borders& of_dim, List& list) const {
    list.tied.assign(of_dim.size(), -1);
    std::int64_t begin = 1;
    for (const Cut& cut : list.cuts) {
      if (cut.axis >= 0) {
        int digit = first_digit_[static_cast<std::size_t>(cut.axis)];
        for (const std::int64_t border : of_axis_[static_cast<std::size_t>(cut.axis)]) {
          list.tied[of_dim.place_of(begin * border)] = digit++;
        }
      }
      begin *= cut.size;
    }
  }

  /// What an overlap counts of one dim, where all digits agree that have to.
  void count(const Dim& dim, std::size_t k) {
    const Overlap& overlap = overlaps_[k];
    const std::size_t d = static_cast<std::size_t>(&dim - dims_.data());
    const List& a = list_of(dim, overlap.a->dims[d]);
    const List& b = overlap.b != nullptr ? list_of(dim, overlap.b->dims[d]) : a;
    const List& also = overlap.also != nullptr ? list_of(dim, overlap.also->dims[d]) : a;
    const bool elements = overlap.of == Overlap::Of::kElements;
    for (const Owner& owner : a.owners) leave_to(owner, k);
    for (const Owner& owner : also.owners) leave_to(owner, k);
    if (elements) {
      for (const Owner& owner : b.owners) leave_to(owner, k);
    }
    std::int64_t& constant = constants_[k];
    for (std::size_t i = 0; i < dim.borders.size(); ++i) {
      join(a.tied[i], also.tied[i], k);
      if (elements) join(a.tied[i] >= 0 ? a.tied[i] : also.tied[i], b.tied[i], k);
      const bool holds_one = a.tied[i] >= 0 || also.tied[i] >= 0;
      const bool cuts = b.tied[i] >= 0;
      if (elements ? !holds_one && !cuts : !holds_one && cuts) constant *= dim.borders.digit(i);
      if (overlap.of == Overlap::Of::kInside && holds_one && !cuts) constant = 0;
    }
    if (elements) constant *= dim.rest();
  }
  static const List& list_of(const Dim& dim, const Levels& levels) {
    return *std::find_if(dim.lists.begin(), dim.lists.end(),
                         [&](const List& list) { return list.levels == &levels; });
  }
  /// An overlap wants two digits to be equal; -1 is any.
  void join(int x, int y, std::size_t k) {
    if (x >= 0 && y >= 0 && x != y) want({.first = std::min(x, y), .second = std::max(x, y)}, k);
  }
  void leave_to(const Owner& owner, std::size_t k) {
    const Borders& borders = borders_of(owner.axis);
    std::int64_t parts = mesh_.size(owner.axis), left = owner.coord;
    for (std::size_t i = 0; i < borders.size(); ++i) {
      parts /= borders.digit(i);
      const int digit = first_digit_[static_cast<std::size_t>(owner.axis)] + static_cast<int>(i);
      want({.first = digit, .second = kValue, .value = left / parts}, k);
      left %= parts;
    }
  }
  void want(Pair pair, std::size_t k) {
    pair.wanted_by = Mask{1} << k;
    for (Pair& known : pairs_) {
      if (!known.joins(pair)) continue;
      known.wanted_by |= pair.wanted_by;
      return;
    }
    pairs_.push_back(pair);
  }

  std::optional<std::vector<RankClass>> classes() const {
    const Mask all = (Mask{1} << overlaps_.size()) - 1;
    AllAgreeing agreeing{{all, 1}};
    std::int64_t others = mesh_.num_ranks();
    std::uint64_t done = 0;
    for (const Pair& pair : pairs_) {
      if ((done >> pair.first & 1) != 0) continue;
      const std::int64_t size = sizes_[static_cast<std::size_t>(pair.first)];
      const Meeting meeting(pair.first, size, pairs_);
      if (!meeting.is_small()) return std::nullopt;
      for (const int digit : meeting.digits()) {
        done |= std::uint64_t{1} << digit;
        others /= size;
      }
      agreeing = product(agreeing, meeting.agreeing(all));
    }
    std::vector<RankClass> made;
    made.reserve(agreeing.size());
    for (const Agreeing& each : agreeing) {
      RankClass& next = made.emplace_back();
      next.num_ranks = each.num_ranks * others;
      for (std::size_t k = 0; k < overlaps_.size(); ++k) {
        if ((each.overlaps >> k & 1) != 0) next.counts[k] = constants_[k];
      }
    }
    return made;
  }
  static AllAgreeing product(const AllAgreeing& a, const AllAgreeing& b) {
    AllAgreeing both;
    for (const Agreeing& x : a) {
      for (const Agreeing& y : b) {
        add_to(both, {x.overlaps & y.overlaps, x.num_ranks * y.num_ranks});
      }
    }
    return both;
  }

  const Mesh& mesh_;
  ShapeView shape_;
  std::span<const Overlap> overlaps_;
  absl::InlinedVector<Dim, 4> dims_;
  absl::InlinedVector<Borders, 4> of_axis_;
  absl::InlinedVector<int, 4> first_digit_;          ///< of each axis
  absl::InlinedVector<std::int64_t, 8> sizes_;       ///< of all axes' digits
  absl::InlinedVector<std::int64_t, 12> constants_;  ///< of each overlap
  absl::InlinedVector<Pair, 8> pairs_;
};

}  // namespace

std::optional<std::vector<RankClass>> even_tally(const Spec& tensor,
                                                 std::span<const Overlap> overlaps) {
  return EvenTally(tensor, overlaps).run();
}

}  // namespace tessera
