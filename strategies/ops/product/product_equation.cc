#include "strategies/ops/product/product_equation.h"

#include <algorithm>
#include <map>

#include "kernels/elementwise.h"
#include "kernels/matmul.h"
#include "kernels/reduce.h"

namespace tessera::ops {
namespace {

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool has(std::string_view letters, char letter) {
  return letters.find(letter) != std::string_view::npos;
}

/// The letters of one term, with `count` digits where its ellipsis stands.
StatusOr<std::string> read_term(std::string_view term, std::size_t count) {
  std::string letters;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (term.substr(i).starts_with("...")) {
      for (std::size_t d = count; d-- > 0;) letters += static_cast<char>('0' + d);
      i += 2;
      continue;
    }
    if (!is_letter(term[i])) {
      return invalid_argument("equation term '" + std::string(term) + "' has '" +
                              std::string(1, term[i]) + "'; allowed are letters and one ...");
    }
    if (has(letters, term[i])) {
      return invalid_argument("equation term '" + std::string(term) + "' has '" +
                              std::string(1, term[i]) +
                              "' twice; take the diagonal first, or name the dims apart");
    }
    letters += term[i];
  }
  return letters;
}

std::vector<std::string> split_terms(std::string_view text) {
  std::vector<std::string> terms(1);
  for (const char c : text) {
    if (c == ',') {
      terms.emplace_back();
    } else {
      terms.back() += c;
    }
  }
  return terms;
}

/// Digits, then letters that stand once, in order of the alphabet.
std::string implicit_result(const Equation& equation) {
  std::map<char, int> counts;
  for (const std::string& term : equation.operands) {
    for (const char letter : term) ++counts[letter];
  }
  std::string digits, letters;
  for (const auto& [letter, count] : counts) {
    if (!is_letter(letter)) {
      digits.insert(digits.begin(), letter);
    } else if (count == 1) {
      letters += letter;
    }
  }
  return digits + letters;
}

std::map<char, std::int64_t> sizes_of(const Equation& equation, std::span<const Shape> shapes) {
  std::map<char, std::int64_t> sizes;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (std::size_t d = 0; d < shapes[i].size(); ++d) {
      const auto [at, added] = sizes.emplace(equation.operands[i][d], shapes[i][d]);
      if (!added && at->second == 1) at->second = shapes[i][d];
    }
  }
  return sizes;
}

Status check_sizes(const Equation& equation, std::span<const Shape> shapes) {
  const std::map<char, std::int64_t> sizes = sizes_of(equation, shapes);
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    for (std::size_t d = 0; d < shapes[i].size(); ++d) {
      const char letter = equation.operands[i][d];
      if (shapes[i][d] == sizes.at(letter) || shapes[i][d] == 1) continue;
      return invalid_argument("operand " + std::to_string(i) + " " + to_string(shapes[i]) +
                              " has " + std::to_string(shapes[i][d]) + " elements along '" +
                              std::string(1, letter) + "', where another has " +
                              std::to_string(sizes.at(letter)));
    }
  }
  for (const char letter : equation.result) {
    if (sizes.contains(letter)) continue;
    return invalid_argument("the result has '" + std::string(1, letter) +
                            "', which no operand has");
  }
  return absl::OkStatus();
}

/// An array with a letter for each dim.
struct Term {
  Array array;
  std::string letters;
};

/// `term` with its dims in the order of `letters`.
Array ordered(const Term& term, std::string_view letters) {
  Shape shape, strides;
  for (const char letter : letters) {
    const std::size_t at = term.letters.find(letter);
    shape.push_back(term.array.shape()[at]);
    strides.push_back(term.array.strides()[at]);
  }
  return term.array.as_strided(shape, strides, term.array.offset());
}

/// Without the dims that `drop` holds for; those are of size 1.
template <class Drop>
Term without(const Term& term, const Drop& drop) {
  Term rest{term.array, {}};
  Shape shape, strides;
  for (std::size_t d = 0; d < term.letters.size(); ++d) {
    if (drop(d)) continue;
    rest.letters += term.letters[d];
    shape.push_back(term.array.shape()[d]);
    strides.push_back(term.array.strides()[d]);
  }
  rest.array = term.array.as_strided(shape, strides, term.array.offset());
  return rest;
}

/// Sums the letters that `keep` lacks.
Term summed(KernelContext& ctx, const Term& term, std::string_view keep) {
  std::vector<int> dims;
  for (std::size_t d = 0; d < term.letters.size(); ++d) {
    if (!has(keep, term.letters[d])) dims.push_back(static_cast<int>(d));
  }
  if (dims.empty()) return term;
  Term result;
  Shape shape;
  for (std::size_t d = 0; d < term.letters.size(); ++d) {
    if (!has(keep, term.letters[d])) continue;
    result.letters += term.letters[d];
    shape.push_back(term.array.shape()[d]);
  }
  result.array = Array::empty(shape, term.array.dtype(), ctx.allocator);
  kernels::reduce(ctx, ReduceOp::kSum, term.array, dims, result.array);
  return result;
}

std::int64_t product_of(const Array& array, std::size_t first, std::size_t count) {
  std::int64_t product = 1;
  for (std::size_t d = first; d < first + count; ++d) product *= array.shape()[d];
  return product;
}

/// a and b with the letters of `keep`, by one batch of products.
Term multiplied(KernelContext& ctx, const Term& a, const Term& b, std::string_view keep) {
  const Term left = summed(ctx, a, std::string(keep) + b.letters);
  const Term right = summed(ctx, b, std::string(keep) + a.letters);
  std::string batch, rows, columns, inner;
  for (const char letter : left.letters) {
    if (!has(right.letters, letter)) {
      rows += letter;
    } else {
      (has(keep, letter) ? batch : inner) += letter;
    }
  }
  for (const char letter : right.letters) {
    if (!has(left.letters, letter)) columns += letter;
  }
  const Array x = kernels::contiguous(ctx, ordered(left, batch + rows + inner));
  const Array y = kernels::contiguous(ctx, ordered(right, batch + inner + columns));
  const std::int64_t n = product_of(x, 0, batch.size());
  const std::int64_t m = product_of(x, batch.size(), rows.size());
  const std::int64_t k = product_of(x, batch.size() + rows.size(), inner.size());
  const std::int64_t p = product_of(y, batch.size() + inner.size(), columns.size());
  Term result{{}, batch + rows + columns};
  Shape shape(x.shape().begin(),
              x.shape().begin() + static_cast<std::ptrdiff_t>(batch.size() + rows.size()));
  shape.insert(shape.end(),
               y.shape().begin() + static_cast<std::ptrdiff_t>(batch.size() + inner.size()),
               y.shape().end());
  result.array = Array::empty(shape, x.dtype(), ctx.allocator);
  kernels::matmul(ctx, x.try_view({n, m, k}), y.try_view({n, k, p}),
                  result.array.try_view({n, m, p}));
  return result;
}

}  // namespace

StatusOr<Equation> parse_equation(std::string_view given, std::span<const Shape> shapes) {
  std::string text(given);
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const std::size_t arrow = text.find("->");
  const std::vector<std::string> terms = split_terms(text.substr(0, arrow));
  if (terms.size() != shapes.size()) {
    return invalid_argument("equation '" + text + "' has " + std::to_string(terms.size()) +
                            " terms for " + std::to_string(shapes.size()) + " operands");
  }
  Equation equation;
  std::size_t most = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const bool open = terms[i].find("...") != std::string::npos;
    const std::size_t named = terms[i].size() - (open ? 3 : 0);
    if (shapes[i].size() < named || (!open && shapes[i].size() != named) ||
        shapes[i].size() - named > 10) {
      return invalid_argument("operand " + std::to_string(i) + " " + to_string(shapes[i]) +
                              " has " + std::to_string(shapes[i].size()) + " dims, but its term '" +
                              terms[i] + "' is for " + (open ? "at least " : "") +
                              std::to_string(named));
    }
    most = std::max(most, shapes[i].size() - named);
    TSR_ASSIGN_OR_RETURN(std::string letters, read_term(terms[i], shapes[i].size() - named));
    equation.operands.push_back(std::move(letters));
  }
  if (arrow == std::string::npos) {
    equation.result = implicit_result(equation);
  } else {
    TSR_ASSIGN_OR_RETURN(equation.result, read_term(text.substr(arrow + 2), most));
  }
  TSR_RETURN_IF_ERROR(check_sizes(equation, shapes));
  return equation;
}

Shape result_shape(const Equation& equation, std::span<const Shape> shapes) {
  const std::map<char, std::int64_t> sizes = sizes_of(equation, shapes);
  Shape shape;
  for (const char letter : equation.result) shape.push_back(sizes.at(letter));
  return shape;
}

StatusOr<std::string> rule_of(const Equation& equation, std::span<const Shape> shapes) {
  const std::map<char, std::int64_t> sizes = sizes_of(equation, shapes);
  if (sizes.size() > 26) {
    return invalid_argument("an equation of " + std::to_string(sizes.size()) +
                            " letters; at most 26 are taken");
  }
  if (shapes.size() == 1 && shapes[0].empty())
    return std::string("* -> * | lin A | mono A | prod A");
  std::map<char, char> names;
  for (const auto& [letter, size] : sizes) {
    names.emplace(letter, static_cast<char>('a' + static_cast<int>(names.size())));
  }
  std::string text, marks, product;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    text += i == 0 ? "" : ", ";
    product += (i == 0 ? "" : "*") + std::string(1, static_cast<char>('A' + i));
    for (std::size_t d = 0; d < shapes[i].size(); ++d) {
      const char letter = equation.operands[i][d];
      text += shapes[i][d] == sizes.at(letter) ? names.at(letter) : 'K';
    }
  }
  text += " -> ";
  for (const char letter : equation.result) text += names.at(letter);
  for (const auto& [letter, name] : names) {
    if (!has(equation.result, letter))
      marks += std::string(marks.empty() ? "" : " ") + name + ":sum";
  }
  const bool copies = marks.empty();
  if (!copies) text += " | " + marks;
  text += " | lin " + product;
  // Without sums a result is a product of elements, or a copy.
  if (copies) text += " | prod " + product;
  if (copies && shapes.size() == 1) text += " | mono A";
  return text;
}

std::string text_of(const Equation& equation) {
  std::string used;
  for (const std::string& term : equation.operands) used += term;
  std::map<char, char> names;
  const auto name_of = [&](char letter) {
    if (is_letter(letter)) return letter;
    for (char c = 'z'; !names.contains(letter); --c) {
      const bool taken = has(used, c) || std::any_of(names.begin(), names.end(), [c](auto& known) {
                           return known.second == c;
                         });
      if (!taken) names.emplace(letter, c);
      if (c == 'a') c = 'Z' + 1;
    }
    return names.at(letter);
  };
  std::string text;
  for (std::size_t i = 0; i < equation.operands.size(); ++i) {
    if (i > 0) text += ',';
    for (const char letter : equation.operands[i]) text += name_of(letter);
  }
  text += "->";
  for (const char letter : equation.result) text += name_of(letter);
  return text;
}

void run_equation(KernelContext& ctx, const Equation& equation, std::span<const Array> operands,
                  const Array& out) {
  std::vector<Shape> shapes;
  for (const Array& operand : operands) shapes.push_back(operand.shape());
  const std::map<char, std::int64_t> sizes = sizes_of(equation, shapes);
  std::vector<Term> terms;
  for (std::size_t i = 0; i < operands.size(); ++i) {
    Array array = operands[i];
    if (array.dtype() != out.dtype()) {
      const Array cast = Array::empty(array.shape(), out.dtype(), ctx.allocator);
      kernels::copy(ctx, array, cast);
      array = cast;
    }
    const Term term{array, equation.operands[i]};
    terms.push_back(without(term, [&](std::size_t d) {
      return array.shape()[d] == 1 && sizes.at(term.letters[d]) != 1;
    }));
  }
  Term result = terms[0];
  for (std::size_t i = 1; i < terms.size(); ++i) {
    std::string keep = equation.result;
    for (std::size_t later = i + 1; later < terms.size(); ++later) keep += terms[later].letters;
    result = multiplied(ctx, result, terms[i], keep);
  }
  result = summed(ctx, result, equation.result);
  kernels::copy(ctx, ordered(result, equation.result), out);
}

Var equation_gradient(GradContext& c, const Equation& equation, std::span<const Shape> shapes,
                      int operand) {
  const std::map<char, std::int64_t> sizes = sizes_of(equation, shapes);
  const auto own = static_cast<std::size_t>(operand);
  Equation back;
  std::vector<Var> operands = {c.cotangent(0)};
  back.operands.push_back(equation.result);
  std::string known = equation.result;
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    if (i == own) continue;
    operands.push_back(c.input(static_cast<int>(i)));
    back.operands.push_back(equation.operands[i]);
    known += equation.operands[i];
  }
  for (const char letter : equation.operands[own]) {
    if (has(known, letter)) back.result += letter;
  }
  Var grad = c.call_all("einsum", operands, {{"equation", text_of(back)}})[0];
  // A letter that only this operand has, or that the others have with size 1, was summed: its
  // cotangent repeats along it.
  Shape full;
  for (std::size_t d = 0; d < equation.operands[own].size(); ++d) {
    const char letter = equation.operands[own][d];
    full.push_back(sizes.at(letter));
    if (has(known, letter)) continue;
    grad = c.call("unsqueeze", {grad}, {{"dim", static_cast<std::int64_t>(d)}});
  }
  return c.shape(grad) == full ? grad : c.call("expand", {grad}, {{"size", full}});
}

}  // namespace tessera::ops
