#include "placement/placement.h"

#include <cctype>
#include <charconv>

#include "absl/strings/str_format.h"
#include "placement/reduce_op.h"

namespace tessera {
namespace {

std::string forms() {
  return "allowed are R, S(dim), S(dim;sizes), SS(dim,split_factor), O(coord), P(" +
         names_of_reduce_ops("|") + ")";
}

/// Reads placements character by character; columns count from 1.
class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  bool at_end() {
    skip_spaces();
    return at_ == text_.size();
  }
  bool take(char c) {
    skip_spaces();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  std::string_view word() {
    skip_spaces();
    const std::size_t first = at_;
    while (at_ < text_.size() &&
           (std::isalpha(static_cast<unsigned char>(text_[at_])) != 0 || text_[at_] == '_')) {
      ++at_;
    }
    return text_.substr(first, at_ - first);
  }
  template <class Integer>
  bool integer(Integer& value) {
    skip_spaces();
    const char* first = text_.data() + at_;
    const auto [stop, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error != std::errc()) return false;
    at_ += static_cast<std::size_t>(stop - first);
    return true;
  }
  Status error(std::string_view expected) {
    skip_spaces();
    const std::string seen =
        at_ == text_.size() ? "the end" : absl::StrFormat("'%s'", std::string(text_.substr(at_)));
    return invalid_argument(absl::StrFormat("placement '%s', column %d: %s expected, %s seen; %s",
                                            std::string(text_), static_cast<int>(at_) + 1,
                                            std::string(expected), seen, forms()));
  }

  StatusOr<Placement> placement() {
    skip_spaces();
    const std::size_t first = at_;
    const std::string_view letters = word();
    if (letters == "R") return Placement(Replicate{});
    if (letters == "P") return partial();
    if (letters == "S") return shard();
    if (letters == "O") return owned();
    if (letters == "SS" || letters == "_S") return strided_shard();
    at_ = first;
    return error("a placement");
  }

 private:
  void skip_spaces() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  StatusOr<Placement> shard() {
    Shard shard;
    if (!take('(')) return error("'('");
    if (!integer(shard.dim)) return error("a dim");
    if (take(';')) return ragged(shard.dim);
    if (!take(')')) return error("')'");
    return Placement(shard);
  }
  StatusOr<Placement> ragged(int dim) {
    std::vector<std::int64_t> sizes;
    do {
      skip_spaces();
      const std::size_t size_at = at_;
      std::int64_t size = 0;
      if (!integer(size) || size < 0) {
        at_ = size_at;
        return error("a size of at least 0");
      }
      sizes.push_back(size);
    } while (take(','));
    if (!take(')')) return error("')'");
    return Placement(Ragged{dim, RaggedSizes(std::span<const std::int64_t>(sizes))});
  }
  StatusOr<Placement> owned() {
    Owned owned;
    if (!take('(')) return error("'('");
    skip_spaces();
    const std::size_t coord_at = at_;
    if (!integer(owned.coord) || owned.coord < 0) {
      at_ = coord_at;
      return error("a coord of at least 0");
    }
    if (!take(')')) return error("')'");
    return Placement(owned);
  }
  StatusOr<Placement> strided_shard() {
    StridedShard shard;
    if (!take('(')) return error("'('");
    if (!integer(shard.dim)) return error("a dim");
    if (!take(',')) return error("','");
    skip_spaces();
    const std::size_t factor_at = at_;
    if (!integer(shard.split_factor) || shard.split_factor < 1) {
      at_ = factor_at;
      return error("a split factor of at least 1");
    }
    if (!take(')')) return error("')'");
    return Placement(shard);
  }
  StatusOr<Placement> partial() {
    if (!take('(')) return Placement(Partial{});
    skip_spaces();
    const std::size_t first = at_;
    const StatusOr<ReduceOp> op = parse_reduce_op(word());
    if (!op.ok()) {
      at_ = first;
      return error("a reduction");
    }
    if (!take(')')) return error("')'");
    return Placement(Partial{*op});
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

StatusOr<ReduceOp> parse_reduce_op(std::string_view name) {
  for (const ReduceOp op : kReduceOps) {
    if (name == name_of(op)) return op;
  }
  return invalid_argument(absl::StrFormat("reduction '%s' is not known; allowed are %s",
                                          std::string(name), names_of_reduce_ops(", ")));
}

std::string to_string(const Placement& placement) {
  if (const auto* shard = std::get_if<Shard>(&placement)) {
    return absl::StrFormat("S(%d)", shard->dim);
  }
  if (const auto* strided = std::get_if<StridedShard>(&placement)) {
    return absl::StrFormat("SS(%d,%d)", strided->dim, strided->split_factor);
  }
  if (const auto* partial = std::get_if<Partial>(&placement)) {
    return absl::StrFormat("P(%s)", std::string(name_of(partial->op)));
  }
  if (const auto* ragged = std::get_if<Ragged>(&placement)) {
    return absl::StrFormat("S(%d;%s)", ragged->dim, ragged->sizes ? ragged->sizes.to_string() : "");
  }
  if (const auto* owned = std::get_if<Owned>(&placement)) {
    return absl::StrFormat("O(%d)", owned->coord);
  }
  return "R";
}

std::string to_string(std::span<const Placement> placements) {
  std::string text = "(";
  for (const Placement& placement : placements) {
    if (text.size() > 1) text += ", ";
    text += to_string(placement);
  }
  return text + ")";
}

StatusOr<Placement> parse_placement(std::string_view text) {
  Reader reader(text);
  TSR_ASSIGN_OR_RETURN(const Placement placement, reader.placement());
  if (!reader.at_end()) return reader.error("the end");
  return placement;
}

StatusOr<Placements> parse_placements(std::string_view text) {
  Reader reader(text);
  const char closing = reader.take('(') ? ')' : reader.take('[') ? ']' : '\0';
  Placements placements;
  const auto closes = [&] { return closing == '\0' ? reader.at_end() : reader.take(closing); };
  if (!closes()) {
    while (true) {
      TSR_ASSIGN_OR_RETURN(Placement placement, reader.placement());
      placements.push_back(placement);
      if (closes()) break;
      if (!reader.take(',')) return reader.error("','");
    }
  }
  if (!reader.at_end()) return reader.error("the end");
  return placements;
}

}  // namespace tessera
