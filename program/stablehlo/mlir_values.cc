// Types and numbers of MLIR's text.
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_format.h"
#include "io/json.h"
#include "placement/spec.h"
#include "program/stablehlo/mlir_statement.h"

namespace tessera::stablehlo {
namespace {

constexpr std::size_t kMostIntegers = std::size_t{1} << 20;

struct ElementType {
  std::string_view name;
  DType dtype;
  bool exact;
};
// Those that are not exact are held in a type of as many bytes.
constexpr ElementType kElementTypes[] = {{"f64", DType::kF64, true},
                                         {"f32", DType::kF32, true},
                                         {"bf16", DType::kBF16, true},
                                         {"f16", DType::kF16, true},
                                         {"i64", DType::kI64, true},
                                         {"i32", DType::kI32, true},
                                         {"ui8", DType::kU8, true},
                                         {"i1", DType::kBool, true},
                                         {"ui64", DType::kI64, false},
                                         {"ui32", DType::kI32, false},
                                         {"index", DType::kI64, false},
                                         {"i16", DType::kF16, false},
                                         {"ui16", DType::kF16, false},
                                         {"i8", DType::kU8, false},
                                         {"i4", DType::kU8, false},
                                         {"ui4", DType::kU8, false},
                                         {"f8E4M3FN", DType::kU8, false},
                                         {"f8E5M2", DType::kU8, false},
                                         {"f8E4M3", DType::kU8, false},
                                         {"f8E3M4", DType::kU8, false},
                                         {"f8E4M3FNUZ", DType::kU8, false},
                                         {"f8E5M2FNUZ", DType::kU8, false},
                                         {"f8E4M3B11FNUZ", DType::kU8, false},
                                         {"f8E8M0FNU", DType::kU8, false},
                                         {"complex<f32>", DType::kF64, false}};

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\n')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\n')) text.remove_suffix(1);
  return text;
}

/// The numbers in a literal's text, whatever brackets stand between them.
StatusOr<std::vector<std::int64_t>> integers_in(const MlirText& text, std::string_view literal) {
  std::vector<std::int64_t> numbers;
  const char* at = literal.data();
  const char* const end = at + literal.size();
  while (at != end) {
    if (*at == ' ' || *at == ',' || *at == '[' || *at == ']' || *at == '\n') {
      ++at;
      continue;
    }
    std::int64_t number = 0;
    const auto [stop, error] = std::from_chars(at, end, number);
    const std::size_t offset = static_cast<std::size_t>(at - text.text.data());
    if (error != std::errc()) return text.error(offset, "expected whole numbers of 64 bits");
    if (numbers.size() == kMostIntegers) {
      return text.error(offset, absl::StrFormat("more than %d numbers", kMostIntegers));
    }
    numbers.push_back(number);
    at = stop;
  }
  return numbers;
}

double from_bits(std::uint64_t bits, DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return std::bit_cast<double>(bits);
    case DType::kF32:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)));
    case DType::kBF16:
      return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits << 16)));
    case DType::kF16: {
      // Only what has no decimal text is printed as bits: infinities and NaN.
      const bool is_nan = (bits & 0x3FF) != 0;
      const double infinity = std::numeric_limits<double>::infinity();
      if (is_nan) return std::numeric_limits<double>::quiet_NaN();
      return (bits & 0x8000) != 0 ? -infinity : infinity;
    }
    default:
      return static_cast<double>(bits);
  }
}

}  // namespace

std::optional<double> literal_number(std::string_view literal, DType dtype) {
  if (literal == "true") return 1;
  if (literal == "false") return 0;
  const char* const end = literal.data() + literal.size();
  if (literal.starts_with("0x")) {
    std::uint64_t bits = 0;
    const auto [stop, error] = std::from_chars(literal.data() + 2, end, bits, 16);
    if (error != std::errc() || stop != end) return std::nullopt;
    return from_bits(bits, dtype);
  }
  double number = 0;
  const auto [stop, error] = std::from_chars(literal.data(), end, number);
  if (error != std::errc() || stop != end || literal.empty()) return std::nullopt;
  return number;
}

StatusOr<TensorType> parse_tensor_type(const MlirText& text, const Token& token) {
  TensorType type;
  std::string_view rest = trimmed(token.text);
  const auto refuse = [&](const std::string& why) {
    return text.error(token.offset,
                      "tensor<" + std::string(token.text.substr(0, 60)) + ">: " + why);
  };
  for (;;) {
    std::int64_t size = 0;
    const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (rest.starts_with('?')) return refuse("a size that is not known; all must be");
    if (error != std::errc() || stop == rest.data() + rest.size() || *stop != 'x') break;
    if (std::ssize(type.shape) == kMaxDims) {
      return refuse(absl::StrFormat("more than %d dims", kMaxDims));
    }
    type.shape.push_back(size);
    rest.remove_prefix(static_cast<std::size_t>(stop - rest.data()) + 1);
  }
  const std::string_view name = trimmed(rest.substr(0, rest.find(',')));
  for (const ElementType& element : kElementTypes) {
    if (element.name != name) continue;
    type.dtype = element.dtype;
    if (!element.exact) type.stand_in = std::string(name);
    const Status fits = check_tensor_size(view_of(type.shape), type.dtype);
    if (!fits.ok()) return refuse(std::string(message_of(fits)));
    return type;
  }
  std::string names;
  for (const ElementType& element : kElementTypes) {
    names += (names.empty() ? "" : ", ") + std::string(element.name);
  }
  return refuse("its element type is none of " + names);
}

StatusOr<std::vector<std::int64_t>> integers_of(const MlirText& text, Nodes nodes) {
  if (nodes.empty()) return std::vector<std::int64_t>();
  const Node& first = nodes[0];
  if (first.kind == Node::Kind::kToken) {
    const Token& token = first.token;
    if (token.kind == Token::Kind::kDense || token.kind == Token::Kind::kNumber) {
      return integers_in(text, token.text);
    }
    if (token.kind == Token::Kind::kArray) {
      const std::size_t colon = token.text.find(':');
      if (colon == std::string_view::npos) return std::vector<std::int64_t>();
      return integers_in(text, token.text.substr(colon + 1));
    }
  }
  if (!first.is_group('[')) {
    return text.error(first.token.offset, describe(first.token) + ": expected a list of numbers");
  }
  std::vector<std::int64_t> numbers;
  for (const Node& node : first.inside) {
    if (node.is(',')) continue;
    TSR_ASSIGN_OR_RETURN(const std::int64_t number, integer_of(text, Nodes(&node, 1)));
    numbers.push_back(number);
  }
  return numbers;
}

StatusOr<std::int64_t> integer_of(const MlirText& text, Nodes nodes) {
  const std::size_t offset = nodes.empty() ? 0 : nodes[0].token.offset;
  if (!nodes.empty() && !nodes[0].is_group('[')) {
    TSR_ASSIGN_OR_RETURN(const std::vector<std::int64_t> numbers, integers_of(text, nodes));
    if (numbers.size() == 1) return numbers[0];
  }
  return text.error(offset, "expected one whole number");
}

}  // namespace tessera::stablehlo
