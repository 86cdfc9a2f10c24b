// kernels/array.h: one rank's dense data: a buffer, shape, strides, dtype and device. Knows no
// mesh. Storage is shared and reference-counted; views alias it; a version counter records writes.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kernels/device.h"
#include "placement/api.h"
#include "placement/dtype.h"
#include "placement/shape.h"

namespace tessera TSR_API {

/// Where buffers come from: a World's pool, an MPI window, registered device memory.
/// Thread-safety: a buffer may be released by another thread than the one that asked for it.
class Allocator {
 public:
  virtual ~Allocator() = default;
  /// At least `bytes`, aligned to 64. Throws Error(ResourceExhausted) naming the size.
  virtual void* allocate(std::size_t bytes) = 0;
  virtual void release(void* data, std::size_t bytes) noexcept = 0;
  virtual Device& device() const noexcept { return cpu_device(); }
};
/// Plain aligned memory without a pool; large blocks advise huge pages.
std::shared_ptr<Allocator> plain_allocator();
/// Keeps released blocks by size class; blocks from 2 MiB up advise huge pages. One per rank.
std::shared_ptr<Allocator> make_pool_allocator();

/// Something that has to finish before a buffer may be read: an asynchronous collective or a device
/// event.
class Ready {
 public:
  virtual ~Ready() = default;
  virtual void wait() = 0;
};

/// A buffer with its allocator, readiness and write count.
class Storage {
 public:
  Storage(std::shared_ptr<Allocator> allocator, std::size_t bytes);
  ~Storage();
  Storage(const Storage&) = delete;
  Storage& operator=(const Storage&) = delete;

  std::byte* data() noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }
  Device& device() const noexcept { return *device_; }
  bool is_on_host() const noexcept { return is_on_host_; }
  const std::shared_ptr<Allocator>& allocator() const noexcept { return allocator_; }
  std::uint32_t version() const noexcept { return version_.load(std::memory_order_relaxed); }
  void bump_version() noexcept { version_.fetch_add(1, std::memory_order_relaxed); }
  /// Blocks until a pending producer is done; at once where there is none.
  void wait_ready();
  void set_ready(std::shared_ptr<Ready> ready);

 private:
  std::shared_ptr<Allocator> allocator_;
  Device* device_;
  bool is_on_host_;
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::atomic<std::uint32_t> version_{0};
  std::shared_ptr<Ready> ready_;
};

/// Elements `shape` of `dtype` at `offset` elements into a storage, `strides` in elements. A value
/// handle: copies alias. A default Array is null (no storage) and may only be assigned to.
class Array {
 public:
  Array() = default;
  /// Uninitialised, contiguous row-major.
  static Array empty(const Shape& shape, DType dtype,
                     const std::shared_ptr<Allocator>& allocator = plain_allocator());
  static Array zeros(const Shape& shape, DType dtype,
                     const std::shared_ptr<Allocator>& allocator = plain_allocator());
  /// Copies `values` (row-major), converting to `dtype`: integers stop at their limits, where NaN
  /// is 0.
  static Array from_values(const Shape& shape, DType dtype, std::span<const double> values);

  bool is_null() const noexcept { return storage_ == nullptr; }
  const Shape& shape() const noexcept { return shape_; }
  const Shape& strides() const noexcept { return strides_; }
  std::int64_t size(int dim) const { return shape_[static_cast<std::size_t>(dim)]; }
  int ndim() const noexcept { return static_cast<int>(shape_.size()); }
  DType dtype() const noexcept { return dtype_; }
  Device& device() const noexcept { return storage_->device(); }
  bool is_on_host() const noexcept { return storage_->is_on_host(); }
  std::int64_t num_elements() const noexcept { return tessera::num_elements(shape_); }
  std::int64_t num_bytes() const noexcept { return num_elements() * size_of(dtype_); }
  bool is_contiguous() const noexcept;

  /// An address of the array's device, for its kernels and copies.
  std::byte* bytes() const noexcept { return storage_->data() + offset_ * size_of(dtype_); }
  /// The first element; T is the C++ type of dtype() (double, float, BFloat16, int64_t, int32_t,
  /// bool), or std::byte. Errors: throws FailedPrecondition where the array does not lie on the
  /// host (see to_host()).
  template <class T>
  T* data() const {
    if (!is_on_host()) [[unlikely]]
      refuse_host_access();
    return reinterpret_cast<T*>(bytes());
  }
  const std::shared_ptr<Storage>& storage() const noexcept { return storage_; }
  std::int64_t offset() const noexcept { return offset_; }

  /// An alias with other sizes. Requires in-bounds strides (checked).
  Array as_strided(const Shape& shape, const Shape& strides, std::int64_t offset) const;
  /// Aliases elements [start, stop) of `dim`.
  Array slice(int dim, std::int64_t start, std::int64_t stop) const;
  Array transpose(int dim_a, int dim_b) const;
  /// An alias of `shape` if the strides allow it, else null.
  Array try_view(const Shape& shape) const;

  /// Row-major values as doubles, a device's through to_host(): for tests, printing and small
  /// reads.
  std::vector<double> to_vector() const;

 private:
  [[noreturn, gnu::cold]] void refuse_host_access() const;

  std::shared_ptr<Storage> storage_;
  std::int64_t offset_ = 0;
  Shape shape_;
  Shape strides_;
  DType dtype_ = DType::kF32;
};

/// Row-major strides of `shape`.
Shape contiguous_strides(const Shape& shape);

/// The array's values on the host, dense; an array of the host as it is. Blocks until its device
/// has them.
Array to_host(const Array& array);

/// What a kernel may use.
struct KernelContext {
  int threads = 1;                 ///< library threads this rank may run
  Device* device = &cpu_device();  ///< whose kernels run, on its compute stream
  std::shared_ptr<Allocator> allocator = plain_allocator();
  bool checked = false;  ///< verify indices and report the first bad position
};

/// A host array's values on the context's device, dense; on the processor the array as it is. Does
/// not block.
Array to_device(KernelContext& ctx, const Array& host);

}  // namespace tessera
