#include "tests/benchmarks/collectives/collectives_rank.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

// Sums in place grow by the number of ranks with every call: by 16^24 = 2^96 at most.
constexpr int kBatchCalls = 24;
constexpr int kStuckSeconds = 180;
constexpr size_t kPattern = 61;

// Position i holds (i mod 61) + rank + 1: a chunk in the wrong place, of the wrong rank or added
// twice shows.
void Fill(float* data, size_t count, int rank) {
  for (size_t i = 0; i < count; i += kPattern) {
    const size_t n = std::min(kPattern, count - i);
    for (size_t j = 0; j < n; ++j) data[i + j] = static_cast<float>(j + rank + 1);
  }
}

// How many values are not what `calls` calls in a row, in place, make of what Fill wrote: the sum
// over the ranks, times their number for each call after the first. All exact in f32.
size_t CountWrong(const float* data, size_t count, int ranks, int calls) {
  const float growth = std::pow(static_cast<float>(ranks), static_cast<float>(calls - 1));
  float expected[kPattern];
  for (size_t i = 0; i < kPattern; ++i) {
    expected[i] = (i * ranks + ranks * (ranks + 1) / 2) * growth;
  }
  size_t wrong = 0;
  for (size_t i = 0; i < count; i += kPattern) {
    const size_t n = std::min(kPattern, count - i);
    for (size_t j = 0; j < n; ++j) wrong += data[i + j] != expected[j];
  }
  return wrong;
}

// What calls have cost this rank's process.
struct Cost {
  double processor_us = 0;
  double switches = 0;
};

Cost CostSoFar() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  const auto microseconds = [](const timeval& time) { return time.tv_sec * 1e6 + time.tv_usec; };
  return {.processor_us = microseconds(usage.ru_utime) + microseconds(usage.ru_stime),
          .switches = static_cast<double>(usage.ru_nvcsw)};
}

// One batch; appends the duration of each call, in microseconds.
absl::Status RunBatch(MeasuredGroup& group, float* data, size_t count, int calls,
                      std::vector<float>& durations, Cost& cost) {
  Fill(data, count, group.rank());
  MUSTER_RETURN_IF_ERROR(group.Barrier());
  const Cost start = CostSoFar();
  for (int i = 0; i < calls; ++i) {
    alarm(kStuckSeconds);
    const auto before = std::chrono::steady_clock::now();
    MUSTER_RETURN_IF_ERROR(group.AllReduce());
    const auto after = std::chrono::steady_clock::now();
    durations.push_back(std::chrono::duration<float, std::micro>(after - before).count());
    MUSTER_RETURN_IF_ERROR(group.BetweenCalls());
  }
  const Cost end = CostSoFar();
  cost.processor_us += end.processor_us - start.processor_us;
  cost.switches += end.switches - start.switches;
  if (const size_t wrong = CountWrong(data, count, group.size(), calls); wrong > 0) {
    return absl::InternalError(absl::StrCat("rank ", group.rank(), ": ", wrong, " of ", count,
                                            " sums are wrong after ", calls, " calls"));
  }
  // Gloo may still be sending from this memory to ranks that are behind.
  return group.Barrier();
}

absl::Status RunBatches(MeasuredGroup& group, float* data, size_t count, int calls,
                        std::vector<float>& durations, Cost& cost) {
  for (int done = 0; done < calls; done += kBatchCalls) {
    MUSTER_RETURN_IF_ERROR(
        RunBatch(group, data, count, std::min(kBatchCalls, calls - done), durations, cost));
  }
  return absl::OkStatus();
}

// The mean over the ranks, by the very calls that were measured.
absl::Status TakeMeans(MeasuredGroup& group, std::vector<float>& durations) {
  MUSTER_ASSIGN_OR_RETURN(float* data, group.Open(durations.size()));
  std::copy(durations.begin(), durations.end(), data);
  MUSTER_RETURN_IF_ERROR(group.AllReduce());
  for (size_t i = 0; i < durations.size(); ++i) durations[i] = data[i] / group.size();
  return absl::OkStatus();
}

// Of all ranks together, by a call like those that were measured.
absl::Status TakeSum(MeasuredGroup& group, Cost& cost) {
  MUSTER_ASSIGN_OR_RETURN(float* data, group.Open(2));
  data[0] = static_cast<float>(cost.processor_us);
  data[1] = static_cast<float>(cost.switches);
  MUSTER_RETURN_IF_ERROR(group.AllReduce());
  cost = {.processor_us = data[0], .switches = data[1]};
  return absl::OkStatus();
}

}  // namespace

absl::Status MeasureAllReduce(MeasuredGroup& group, const std::string& name,
                              const std::vector<CollectivesCase>& cases, std::ostream& out) {
  if (group.size() < 2 || group.size() > 16 || (group.size() & (group.size() - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a world of ", group.size(), " cannot be measured: expected 2, 4, 8 or 16 ranks"));
  }
  for (const CollectivesCase& one : cases) {
    const size_t count = one.bytes / sizeof(float);
    MUSTER_ASSIGN_OR_RETURN(float* data, group.Open(count));
    std::vector<float> durations;
    Cost cost;
    MUSTER_RETURN_IF_ERROR(RunBatches(group, data, count, one.warm_up_calls, durations, cost));
    durations.clear();
    cost = {};
    MUSTER_RETURN_IF_ERROR(RunBatches(group, data, count, one.calls, durations, cost));
    MUSTER_RETURN_IF_ERROR(TakeMeans(group, durations));
    MUSTER_RETURN_IF_ERROR(TakeSum(group, cost));
    if (group.rank() != 0) continue;
    out << "case " << name << " " << one.bytes;
    for (const float duration : durations) out << absl::StreamFormat(" %.3f", duration);
    out << absl::StreamFormat("\ncost %s %d %.3f %.3f", name, one.bytes,
                              cost.processor_us / one.calls, cost.switches / one.calls)
        << std::endl;
  }
  return absl::OkStatus();
}

int EndOfRank(const absl::Status& status, std::ostream& out) {
  if (status.ok()) {
    out << "end" << std::endl;
    return EXIT_SUCCESS;
  }
  // One line, whatever the message holds.
  out << "error " << absl::StrReplaceAll(status.message(), {{"\n", " "}}) << std::endl;
  return EXIT_FAILURE;
}

}  // namespace muster
