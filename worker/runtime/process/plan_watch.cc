#include "worker/runtime/process/plan_watch.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/machine/multiplies_bfloat16.h"
#include "common/job_data/csv_head.h"
#include "common/job_data/data_head.h"
#include "common/plan/memory/memory_plan.h"
#include "common/plan/size/data_size.h"
#include "common/text/format_bytes.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr uint64_t kSlackBytes = uint64_t{64} << 20;
// Most bytes that a byte of a packed image file is taken to unpack to, whatever the file's header
// says.
constexpr uint64_t kMostUnpacked = 64;

// Returns the file's size; 0 if the file is not on this machine.
uint64_t FileBytes(const std::string& path) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(path, error);
  return error ? 0 : bytes;
}

}  // namespace

TaskAllowance AllowanceOf(const v1::JobSpec& spec) {
  if (spec.compute().device() == v1::ComputeSpec::CUDA) return {};
  DataSize data = ReadDataHead(spec, DataLook::kCheap);
  // The number of values of a column is only assumed; it is at most the number of examples.
  if (data.examples > 0 && data.cardinality == 0 && data.keys > 0) {
    data.rows = std::max(data.rows, data.examples * data.keys);
  }
  if (spec.data().has_idx()) {
    data.bytes =
        std::min(data.bytes, kMostUnpacked * (FileBytes(spec.data().idx().images()) +
                                              FileBytes(spec.validation().idx().images())));
  }
  const MemoryPlan plan = PlanMemory(spec, data, {.multiply_bf16 = MultipliesBFloat16()});
  TaskAllowance allowance;
  allowance.planned_bytes = plan.worker_own_bytes();
  const uint64_t mapped = plan.worker_bytes() - plan.worker_own_bytes();
  // While an array grows, memory holds it twice, and its file beside it; the same goes for unpacked
  // files. Numbers of CSV files take twice their bytes until they are prepared.
  uint64_t reading = 2 * data.bytes;
  if (spec.data().has_csv()) {
    reading += 2 * (data.bytes + ReadCsvHead(spec.data().csv()).unpacked_bytes +
                    ReadCsvHead(spec.validation().csv()).unpacked_bytes);
  }
  allowance.most_bytes =
      allowance.planned_bytes + allowance.planned_bytes / 4 + kSlackBytes + mapped + reading;
  return allowance;
}

PlanWatch::PlanWatch(Options options) : options_(std::move(options)), thread_([this] { Run(); }) {}

PlanWatch::~PlanWatch() {
  {
    absl::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  thread_.join();
}

void PlanWatch::Run() {
  const TaskAllowance allowance = options_.allowance();
  if (allowance.planned_bytes == 0) return;
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      if (mutex_.AwaitWithTimeout(absl::Condition(&stopping_), options_.period)) return;
    }
    const uint64_t taken = options_.taken_bytes();
    if (taken <= allowance.most_bytes) continue;
    options_.exceeded(absl::ResourceExhaustedError(absl::StrCat(
        "the task has taken ", FormatBytes(taken), " of memory; its plan is at most ",
        FormatBytes(allowance.planned_bytes), ", and ", FormatBytes(allowance.most_bytes),
        " is allowed. Its data or model differ from what the plan assumed: compare with "
        "`muster plan`, make batches smaller, or spread the job over more workers")));
    return;
  }
}

}  // namespace muster
