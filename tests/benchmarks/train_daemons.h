#ifndef MUSTER_TESTS_BENCHMARKS_TRAIN_DAEMONS_H_
#define MUSTER_TESTS_BENCHMARKS_TRAIN_DAEMONS_H_

#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "client/compare/roads.h"
#include "proto/job.pb.h"

namespace muster {

// A case of TrainCases trained by real daemons on this machine.
struct DaemonCase {
  // Such as "gpt-10m bf16 by all-reduce".
  std::string name;
  // The case, by name, and its type.
  std::string model;
  std::string type;
  std::string unit;
  // Tokens or samples of an example.
  double items_per_example = 1;
  Road::Kind road = Road::Kind::kBsp;
  int servers = 0;
  int workers = 1;
  // Of the spec's threads_per_worker.
  int threads() const {
    return workers * static_cast<int>(std::max(1u, spec.threads_per_worker()));
  }
  v1::JobSpec spec;
};

// Two workers on either road for the transformer of 10.8 million parameters in f32 and in bf16, and
// DeepFM through one server and one worker, which has two threads; the others have one. `text` is a
// file of bytes to train on. Of `quick` ones the fewest steps.
enum class DaemonSteps { kQuick, kFull };
std::vector<DaemonCase> DaemonCases(const std::string& text, DaemonSteps steps);

struct DaemonFigures {
  // Once warm.
  double items_per_second = 0;
  // Of a step, in seconds: its compute, and what it waited for the other side and for data.
  double compute = 0;
  double communication = 0;
  double waiting = 0;
  // Processor seconds of all workers and servers for 1000 items, start and end included.
  double processor_seconds_per_1000 = 0;
};

// Of turns of as many steps each.
DaemonFigures MeanOf(const std::vector<DaemonFigures>& turns);

// Starts daemons, trains and stops them. NotFound: programs are neither here nor beside this one.
absl::StatusOr<DaemonFigures> MeasureThroughDaemons(const DaemonCase& one);

// Writes some MiB of text as the cases need it.
absl::Status WriteBenchText(const std::string& path);

}  // namespace muster

#endif  // MUSTER_TESTS_BENCHMARKS_TRAIN_DAEMONS_H_
