#include "tools/tessera_train/trace_file.h"

#include <utility>

#include "runtime/gather_texts.h"

namespace tessera {
namespace {

Status name_flag(const Status& status) {
  if (status.ok()) return status;
  return Status(status.code(), to_absl("--trace " + std::string(message_of(status))));
}

// The failure that led here is what the user is told; a trace that cannot be written is no news.
void write_own_part(const std::string& path, const std::string& part) {
  StatusOr<TraceFile> file = TraceFile::create(path);
  if (file.ok()) static_cast<void>(write_trace(*file, {&part, 1}));
}

}  // namespace

TraceFile::TraceFile(AtomicFile file)
    : file_(std::make_unique<AtomicFile>(std::move(file))),
      writer_(std::make_unique<TraceWriter>([to = file_.get()](std::string_view text) {
        return name_flag(to->append(std::as_bytes(std::span(text.data(), text.size()))));
      })) {}

StatusOr<TraceFile> TraceFile::create(const std::string& path) {
  StatusOr<AtomicFile> file = AtomicFile::create(path);
  if (!file.ok()) return name_flag(file.status());
  return TraceFile(*std::move(file));
}

Status TraceFile::finish() {
  TSR_RETURN_IF_ERROR(writer_->finish());
  return name_flag(file_->commit());
}

void run_traced(World& world, const Mesh& mesh, std::string& part,
                const std::function<void()>& train) {
  start_trace(world);
  try {
    train();
  } catch (...) {
    part = trace_part(world, mesh);
    throw;
  }
  part = trace_part(world, mesh);
}

Status write_trace(TraceFile& file, std::span<const std::string> parts) {
  for (const std::string& part : parts) {
    if (!part.empty()) TSR_RETURN_IF_ERROR(file.add(part));
  }
  return file.finish();
}

void run_traced_process(World& world, const Mesh& mesh, const std::string& path,
                        const std::function<void()>& train) {
  std::optional<TraceFile> file;
  if (world.rank() == 0) file = value_or_throw(TraceFile::create(path));
  gather_texts(world, "");  // where there is no file, no rank starts
  std::string part;
  try {
    run_traced(world, mesh, part, train);
  } catch (...) {
    write_own_part(path + ".rank" + std::to_string(world.rank()), part);
    throw;
  }
  collect_texts(world, part, [&](std::string_view text) { throw_if_error(file->add(text)); });
  if (file) throw_if_error(file->finish());
}

}  // namespace tessera
