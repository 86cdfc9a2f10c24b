#include "strategies/verify.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "absl/strings/str_format.h"
#include "strategies/verify_faults.h"
#include "tools/placement_audit/command.h"
#include "tools/placement_audit/find_ops.h"
#include "tools/placement_audit/verify_report.h"

namespace tessera::audit {
namespace {

/// Each op by one of the threads; the order of the answer is that of `ops`.
std::vector<Verdict> verify_all(const OpTable& table, const std::vector<const Op*>& ops,
                                const VerifyOptions& options, Request::Mutants mutants) {
  std::vector<Verdict> verdicts(ops.size());
  std::atomic<std::size_t> next{0};
  const auto work = [&] {
    for (std::size_t i = next++; i < ops.size(); i = next++) {
      verdicts[i].op = ops[i];
      verdicts[i].report = verify(table, *ops[i], options);
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
  const std::size_t wanted = std::min<std::size_t>(std::thread::hardware_concurrency(), ops.size());
  for (std::size_t t = 1; t < wanted; ++t) threads.emplace_back(work);
  work();
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
  const auto start = std::chrono::steady_clock::now();
  VerifySummary summary{.verdicts = verify_all(table, chosen, options, request.mutants),
                        .seconds = 0.0,
                        .whole_table = request.names.empty()};
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  summary.seconds = took.count();
  std::string text = request.format == Format::kText       ? to_text(summary)
                     : request.format == Format::kMarkdown ? to_markdown(summary)
                                                           : json_line(to_json(summary));
  return Answer{.text = std::move(text), .checks_passed = summary.passed()};
}

}  // namespace tessera::audit
