#include "capture/capture.h"

#include <utility>

#include "capture/recorder.h"

namespace tessera {

Capture::Capture(Runtime& runtime, std::string name) {
  if (runtime.observer != nullptr) {
    throw Error(failed_precondition("capture: the Runtime is observed already; finish that first"));
  }
  recorder_ = std::make_unique<ProgramRecorder>(runtime, std::move(name));
}

Capture::~Capture() = default;

void Capture::declare(const DTensor& tensor, ValueRole role, const std::string& name,
                      const std::string& module) {
  recorder_->declare(tensor, role, name, module);
}

std::string Capture::name_of(const DTensor& tensor) { return recorder_->value_of(tensor); }

Program Capture::finish() { return recorder_->finish(); }

StatusOr<Program> capture(Runtime& runtime, const std::string& name,
                          const std::function<void()>& body) {
  try {
    Capture captured(runtime, name);
    body();
    return captured.finish();
  } catch (const Error& error) {
    return error.status();
  }
}

}  // namespace tessera
