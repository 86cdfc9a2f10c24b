#include "runtime/call/signature_wire.h"

#include <cstring>
#include <type_traits>

#include "placement/reduce_op.h"

namespace tessera {
namespace {

class Writer {
 public:
  explicit Writer(std::string& bytes) : bytes_(bytes) {}
  template <class T>
  void value(T number) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof number);
  }
  void text(std::string_view text) {
    value(static_cast<std::uint32_t>(text.size()));
    bytes_.append(text);
  }
  template <class List>
  void list(const List& numbers) {
    value(static_cast<std::uint32_t>(numbers.size()));
    for (const std::int64_t number : numbers) value(number);
  }

 private:
  std::string& bytes_;
};

class Reader {
 public:
  explicit Reader(std::span<const char> bytes) : rest_(bytes) {}
  template <class T>
  T value() {
    T number{};
    if (!has(sizeof number)) return number;
    std::memcpy(&number, rest_.data(), sizeof number);
    rest_ = rest_.subspan(sizeof number);
    return number;
  }
  std::string text() {
    const auto size = value<std::uint32_t>();
    if (!has(size)) return {};
    std::string text(rest_.data(), size);
    rest_ = rest_.subspan(size);
    return text;
  }
  template <class List>
  List list() {
    const auto size = value<std::uint32_t>();
    List numbers;
    if (!has(size * sizeof(std::int64_t))) return numbers;
    for (std::uint32_t i = 0; i < size; ++i) numbers.push_back(value<std::int64_t>());
    return numbers;
  }
  /// Everything was there, and no more.
  bool is_whole() const { return good_ && rest_.empty(); }

 private:
  bool has(std::size_t bytes) {
    good_ = good_ && bytes <= rest_.size();
    return good_;
  }
  std::span<const char> rest_;
  bool good_ = true;
};

}  // namespace

void write_signature(const Signature& call, std::string& bytes) {
  Writer out(bytes);
  out.value(call.kind);
  out.value(call.dtype);
  out.value(call.reduce);
  out.value(static_cast<std::uint8_t>(call.fold));
  out.value(static_cast<std::int32_t>(call.root));
  out.value(call.sequence);
  out.value(call.extra);
  out.list(call.shape);
  out.list(call.send_splits);
  out.list(call.recv_splits);
  out.text(call.tensor);
  out.text(call.axes);
  out.text(call.site.file);
  out.value(call.site.line);
  out.value(call.device.kind);
  out.value(static_cast<std::int32_t>(call.device.ordinal));
}

StatusOr<Signature> read_signature(std::span<const char> bytes, std::set<std::string>& files) {
  Reader in(bytes);
  Signature call;
  call.kind = in.value<CollectiveCall::Kind>();
  call.dtype = in.value<DType>();
  call.reduce = in.value<ReduceOp>();
  call.fold = in.value<std::uint8_t>() != 0;
  call.root = in.value<std::int32_t>();
  call.sequence = in.value<std::uint64_t>();
  call.extra = in.value<std::uint64_t>();
  call.shape = in.list<Shape>();
  call.send_splits = in.list<std::vector<std::int64_t>>();
  call.recv_splits = in.list<std::vector<std::int64_t>>();
  call.tensor = in.text();
  call.axes = in.text();
  std::string file = in.text();
  call.site.line = in.value<std::uint32_t>();
  call.device.kind = in.value<DeviceId::Kind>();
  call.device.ordinal = in.value<std::int32_t>();
  const bool known = call.kind <= CollectiveCall::kLastKind && call.dtype <= kLastDType &&
                     call.reduce <= kLastReduceOp && call.device.kind <= DeviceId::Kind::kEmulated;
  if (!in.is_whole() || !known) return io_error("a peer's signature is malformed");
  call.site.file = files.insert(std::move(file)).first->c_str();
  return call;
}

}  // namespace tessera
