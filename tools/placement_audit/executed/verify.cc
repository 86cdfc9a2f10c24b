#include "strategies/verify/verify.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/str_format.h"
#include "devices/devices.h"
#include "strategies/verify/verify_faults.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/executed/verify_report.h"
#include "tools/placement_audit/find_ops.h"

namespace tessera::audit {
namespace {

/// What a thread verifies on: a device has streams for one.
struct Place {
  std::shared_ptr<Device> device;
  KernelContext context = {};
};
StatusOr<std::vector<Place>> places_of(DeviceId::Kind kind, std::size_t num_threads) {
  std::vector<Place> places;
  for (std::size_t t = 0; t < num_threads; ++t) {
    TSR_ASSIGN_OR_RETURN(std::shared_ptr<Device> device,
                         make_device_of_rank(kind, static_cast<std::int64_t>(t)));
    KernelContext context;
    if (kind != DeviceId::Kind::kCpu) {
      context = {.device = device.get(), .allocator = device->make_allocator()};
    }
    places.push_back({std::move(device), std::move(context)});
  }
  return places;
}

/// Each op by one of the threads; the order of the answer is that of `ops`.
std::vector<Verdict> verify_all(const OpTable& table, const std::vector<const Op*>& ops,
                                const VerifyOptions& options, Request::Mutants mutants,
                                const std::vector<Place>& places) {
  std::vector<Verdict> verdicts(ops.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&](const Place& place) {
    VerifyOptions on_device = options;
    on_device.context = place.context;
    for (std::size_t i = next++; i < ops.size(); i = next++) {
      verdicts[i].op = ops[i];
      verdicts[i].report = verify(table, *ops[i], on_device);
      if (mutants == Request::Mutants::kSkip) continue;
      try {
        verdicts[i].mutants = judge_mutants(*ops[i], options);
        add(judge_faults(table, *ops[i], options), *verdicts[i].mutants);
      } catch (const std::exception&) {
        verdicts[i].mutants = MutantReport();  // the report says what the op refuses of its samples
      }
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t t = 1; t < places.size(); ++t) threads.emplace_back(work, places[t]);
  work(places[0]);
  for (std::thread& thread : threads) thread.join();
  return verdicts;
}

}  // namespace

StatusOr<Answer> verify_ops(const Request& request) {
  VerifyOptions options;
  if (!request.meshes.empty()) options.meshes = request.meshes;
  if (request.effort == Request::Effort::kFull) {
    options.dtypes = VerifyOptions::DTypes::kAll;
    if (request.meshes.empty()) {
      for (const Shape& mesh : {Shape{2, 3}, Shape{3, 2}, Shape{2, 2, 2}}) {
        options.meshes.push_back(mesh);
      }
    }
  }
  TSR_ASSIGN_OR_RETURN(const OpTable table, op_table(request));
  TSR_ASSIGN_OR_RETURN(const std::vector<const Op*> chosen, find_ops(table, request.names));
  TSR_ASSIGN_OR_RETURN(const DeviceId::Kind device, parse_device_kind("--device", request.device));
  const std::size_t threads =
      std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, chosen.size());
  TSR_ASSIGN_OR_RETURN(const std::vector<Place> places, places_of(device, threads));
  const auto start = std::chrono::steady_clock::now();
  VerifySummary summary{.verdicts = verify_all(table, chosen, options, request.mutants, places),
                        .seconds = 0.0,
                        .whole_table = request.names.empty(),
                        .device = request.device};
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  summary.seconds = took.count();
  std::string text = request.format == Format::kText       ? to_text(summary)
                     : request.format == Format::kMarkdown ? to_markdown(summary)
                                                           : json_line(to_json(summary));
  return Answer{.text = std::move(text), .checks_passed = summary.passed()};
}

}  // namespace tessera::audit
