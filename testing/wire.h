// testing/wire.h: what a rank returns, as bytes, so that another process can read it.
// Knows numbers, enums, strings, containers, optionals, variants, tuples, Status, Array, and plain
// structs of those.
#pragma once

#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/array.h"
#include "placement/api.h"
#include "placement/ragged.h"
#include "placement/status.h"
#include "testing/arrays.h"

namespace tessera TSR_API {
namespace testing {

// ---- which kind of type

template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;
template <class T>
concept Tuple = requires {
  std::tuple_size<T>::value;
};
template <class T>
concept Container = requires(T t, typename T::value_type value) {
  t.begin();
  t.insert(t.end(), std::move(value));
};
template <class T>
inline constexpr bool kIsOptional = false;
template <class T>
inline constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
inline constexpr bool kIsVariant = false;
template <class... T>
inline constexpr bool kIsVariant<std::variant<T...>> = true;
template <class T>
inline constexpr bool kIsBlock = false;  ///< elements that may be copied at once
template <Plain T>
inline constexpr bool kIsBlock<std::vector<T>> = !std::is_same_v<T, bool>;
template <>
inline constexpr bool kIsBlock<std::string> = true;

// ---- the fields of a struct

struct Anything {
  template <class T>
  operator T() const noexcept;  // NOLINT: stands for any field
};
template <class T, class... Fields>
constexpr std::size_t num_fields() {
  if constexpr (requires { T{Fields{}..., Anything{}}; }) {
    return num_fields<T, Fields..., Anything>();
  } else {
    return sizeof...(Fields);
  }
}

/// References to all fields.
template <class T>
auto fields_of(T& value) {
  constexpr std::size_t kCount = num_fields<std::remove_const_t<T>>();
  static_assert(kCount <= 16, "a test's result has too many fields for wire.h");
#define TSR_FIELDS(count, ...)     \
  if constexpr (kCount == count) { \
    auto& [__VA_ARGS__] = value;   \
    return std::tie(__VA_ARGS__);  \
  }
  if constexpr (kCount == 0) return std::tie();
  TSR_FIELDS(1, a)
  TSR_FIELDS(2, a, b)
  TSR_FIELDS(3, a, b, c)
  TSR_FIELDS(4, a, b, c, d)
  TSR_FIELDS(5, a, b, c, d, e)
  TSR_FIELDS(6, a, b, c, d, e, f)
  TSR_FIELDS(7, a, b, c, d, e, f, g)
  TSR_FIELDS(8, a, b, c, d, e, f, g, h)
  TSR_FIELDS(9, a, b, c, d, e, f, g, h, i)
  TSR_FIELDS(10, a, b, c, d, e, f, g, h, i, j)
  TSR_FIELDS(11, a, b, c, d, e, f, g, h, i, j, k)
  TSR_FIELDS(12, a, b, c, d, e, f, g, h, i, j, k, l)
  TSR_FIELDS(13, a, b, c, d, e, f, g, h, i, j, k, l, m)
  TSR_FIELDS(14, a, b, c, d, e, f, g, h, i, j, k, l, m, n)
  TSR_FIELDS(15, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o)
  TSR_FIELDS(16, a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p)
#undef TSR_FIELDS
}

// ---- writing

template <class T>
void put(std::string& out, const T& value);

inline void put_bytes(std::string& out, const void* data, std::size_t bytes) {
  if (bytes != 0) out.append(static_cast<const char*>(data), bytes);
}
inline void put_array(std::string& out, const Array& array) {
  put(out, array.is_null());
  if (array.is_null()) return;
  put(out, array.dtype());
  put(out, array.shape());
  const Array here = to_host(array);
  const Array whole = here.is_contiguous() ? here : copy_of(here);
  put_bytes(out, whole.bytes(), static_cast<std::size_t>(whole.num_bytes()));
}

inline void put_sizes(std::string& out, const RaggedSizes& sizes) {
  std::vector<std::int64_t> list;
  for (std::int64_t c = 0; sizes && c < sizes.num_coords(); ++c) {
    const RaggedPart part = sizes.part_of(c);
    list.push_back(part.stop - part.start);
  }
  put(out, list);
}

template <class T>
void put(std::string& out, const T& value) {
  if constexpr (std::is_same_v<T, RaggedSizes>) {
    put_sizes(out, value);
  } else if constexpr (Plain<T>) {
    put_bytes(out, &value, sizeof(T));
  } else if constexpr (std::is_same_v<T, const char*>) {
    put(out, std::string(value));
  } else if constexpr (std::is_same_v<T, Status>) {
    put(out, value.code());
    put(out, std::string(message_of(value)));
  } else if constexpr (std::is_same_v<T, Array>) {
    put_array(out, value);
  } else if constexpr (kIsBlock<T>) {
    put(out, value.size());
    put_bytes(out, value.data(), value.size() * sizeof(typename T::value_type));
  } else if constexpr (Container<T>) {
    put(out, value.size());
    for (const auto& each : value) put<std::remove_cvref_t<decltype(each)>>(out, each);
  } else if constexpr (kIsOptional<T>) {
    put(out, value.has_value());
    if (value) put(out, *value);
  } else if constexpr (kIsVariant<T>) {
    put(out, value.index());
    std::visit([&](const auto& each) { put(out, each); }, value);
  } else if constexpr (Tuple<T>) {
    std::apply([&](const auto&... each) { (put(out, each), ...); }, value);
  } else {
    static_assert(std::is_aggregate_v<T>, "wire.h does not know this type of a test's result");
    std::apply([&](const auto&... each) { (put(out, each), ...); }, fields_of(value));
  }
}

// ---- reading

/// Takes values from the front of what put() wrote. Throws Error where it ends too early.
class WireReader {
 public:
  explicit WireReader(std::string_view bytes) : rest_(bytes) {}
  bool at_end() const noexcept { return rest_.empty(); }

  template <class T>
  T take() {
    if constexpr (std::is_same_v<T, RaggedSizes>) {
      const auto list = take<std::vector<std::int64_t>>();
      return list.empty() ? RaggedSizes() : RaggedSizes(std::span<const std::int64_t>(list));
    } else if constexpr (std::is_same_v<T, const char*>) {
      return kept(take<std::string>());
    } else if constexpr (std::is_same_v<T, Status>) {
      const auto code = take<absl::StatusCode>();
      return Status(code, to_absl(take<std::string>()));
    } else if constexpr (std::is_same_v<T, Array>) {
      return take_array();
    } else if constexpr (kIsOptional<T>) {
      return take<bool>() ? T(take<typename T::value_type>()) : T();
    } else if constexpr (kIsVariant<T>) {
      return take_variant<T>(take<std::size_t>());
    } else {
      T value{};
      take_into(value);
      return value;
    }
  }

 private:
  template <class T>
  void take_into(T& value) {
    if constexpr (Plain<T>) {
      take_bytes(&value, sizeof(T));
    } else if constexpr (kIsBlock<T>) {
      value.resize(checked_size(take<std::size_t>(), sizeof(typename T::value_type)));
      take_bytes(value.data(), value.size() * sizeof(typename T::value_type));
    } else if constexpr (Container<T>) {
      using Element = typename Mutable<typename T::value_type>::type;
      for (std::size_t left = take<std::size_t>(); left > 0; --left) {
        value.insert(value.end(), take<Element>());
      }
    } else if constexpr (Tuple<T>) {
      std::apply([&](auto&... each) { (fill(each), ...); }, value);
    } else {
      std::apply([&](auto&... each) { (fill(each), ...); }, fields_of(value));
    }
  }
  template <class T>
  void fill(T& value) {
    value = take<T>();
  }

  /// A map's element with a key that can be assigned.
  template <class T>
  struct Mutable {
    using type = T;
  };
  template <class K, class V>
  struct Mutable<std::pair<const K, V>> {
    using type = std::pair<K, V>;
  };

  template <class T, std::size_t I = 0>
  T take_variant(std::size_t index) {
    if constexpr (I + 1 < std::variant_size_v<T>) {
      if (index != I) return take_variant<T, I + 1>(index);
    }
    return T(std::in_place_index<I>, take<std::variant_alternative_t<I, T>>());
  }
  Array take_array() {
    if (take<bool>()) return {};
    const auto dtype = take<DType>();
    const Array array = Array::empty(take<Shape>(), dtype);
    take_bytes(array.bytes(), static_cast<std::size_t>(array.num_bytes()));
    return array;
  }
  void take_bytes(void* to, std::size_t bytes) {
    checked_size(bytes, 1);
    if (bytes != 0) std::memcpy(to, rest_.data(), bytes);
    rest_.remove_prefix(bytes);
  }
  std::size_t checked_size(std::size_t count, std::size_t each) const {
    if (count > rest_.size() / each) throw Error(internal_error("a rank's report ends too early"));
    return count;
  }
  /// Texts of source sites live as long as the program.
  static const char* kept(std::string text) {
    static std::set<std::string> texts;  // main thread only
    return texts.insert(std::move(text)).first->c_str();
  }

  std::string_view rest_;
};

template <class T>
std::string encode(const T& value) {
  std::string out;
  put(out, value);
  return out;
}
/// Throws Error unless `bytes` are one whole T.
template <class T>
T decode(std::string_view bytes) {
  WireReader reader(bytes);
  T value = reader.take<T>();
  if (!reader.at_end()) throw Error(internal_error("a rank's report is too long"));
  return value;
}

}  // namespace testing
}  // namespace tessera
