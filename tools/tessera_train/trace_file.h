// tools/tessera_train/trace_file.h: the file of --trace. Its place is claimed before training
// starts; it appears under its name when it is whole.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "io/file.h"
#include "placement/mesh.h"
#include "runtime/call/trace.h"

namespace tessera {

class TraceFile {
 public:
  /// Errors: io_error naming the flag, the path and what the system said.
  static StatusOr<TraceFile> create(const std::string& path);
  /// Writes the parts of any of the ranks. Errors: io_error.
  Status add(std::string_view part) { return writer_->add(part); }
  Status finish();

 private:
  explicit TraceFile(AtomicFile file);

  std::unique_ptr<AtomicFile> file_;  ///< where it lies is known to the writer
  std::unique_ptr<TraceWriter> writer_;
};

/// Runs a rank's training with its trace on. However it ends, `part` is this rank's part.
void run_traced(World& world, const Mesh& mesh, std::string& part,
                const std::function<void()>& train);

/// Ranks as threads: the parts of all ranks, also of a run that failed.
Status write_trace(TraceFile& file, std::span<const std::string> parts);

/// Ranks as processes: rank 0 writes the trace of all to `path`. After a failure each rank that
/// still lives writes its own to "path.rank3". Collective: yes, over the world. Throws Error.
void run_traced_process(World& world, const Mesh& mesh, const std::string& path,
                        const std::function<void()>& train);

}  // namespace tessera
