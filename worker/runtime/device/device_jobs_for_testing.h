#ifndef MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_JOBS_FOR_TESTING_H_
#define MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_JOBS_FOR_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "common/checkpoint/memory_storage.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"

namespace muster {

// Small jobs by all-reduce whose ranks are threads with emulated devices. They train on sequences
// of random tokens, of which each data rank has its share, and leave a checkpoint.

inline constexpr int64_t kVocabulary = 29;
inline constexpr int64_t kLength = 7;
inline constexpr uint64_t kSteps = 3;
// Divisible by all numbers of ranks.
inline constexpr int64_t kSequences = 12;

// With a tied head and biases.
inline constexpr char kTied[] = "layers: 2 width: 16 heads: 2 context: 7 dropout: 0.1";

struct DeviceTestJob {
  uint32_t stage = 0;
  int ranks = 1;
  // The ranks that compute a transformer together, and whether they divide tokens.
  int tensor = 1;
  bool sequence = true;
  // The stages of a pipeline, and their order.
  int pipeline = 1;
  std::string schedule = "ONE_F_ONE_B";
  // The ranks of a shard group; 0: all.
  int shard = 0;
  int micro_batches = 1;
  std::string type = "F32";
  std::string transformer = kTied;
  double max_norm = 0;
  // Memory for units that stay gathered.
  int kept_bytes = 0;
  // More of ComputeSpec.
  std::string compute;
  // True if documents share sequences.
  bool packed = false;
  // True if all tokens are the same.
  bool one_token = false;
  // The ranks that share out sequences, and their exchange.
  int context = 1;
  std::string exchange = "RING";
  // The ranks that share out experts.
  int expert = 1;
  // The tokens of a sequence.
  int64_t length = kLength;
};

v1::JobSpec SpecOf(const DeviceTestJob& job);
v1::TablesSchema SchemaOf(const DeviceTestJob& job);

// The results that training left.
struct Trained {
  // By step, summed over the ranks.
  std::vector<double> losses;
  std::vector<double> norms;
  // The sums of all steps over the ranks that report loads (docs/experts.md).
  RouterSums router_sums;
  std::vector<uint64_t> expert_loads;
  // The checkpoint's, in flat order.
  std::vector<float> weights;
  std::vector<float> optimizer_state;
  std::vector<uint64_t> steps;
  // Bytes that rank 0 sent.
  uint64_t bytes_sent = 0;
  uint64_t other_bytes_sent = 0;
  uint64_t tensor_bytes_sent = 0;
  uint64_t stage_bytes_sent = 0;
  float loss_scale = 1;
};

// Where a job's checkpoints are, and the one to start from.
struct Checkpoints {
  MemoryStorage storage;
  std::string restore_uri;
  uint64_t clock = 0;
  // Each training has a folder of its own.
  int trainings = 0;
};

// Trains `steps` steps from the checkpoint to start from, and leaves the next one. Fails the test
// on any error.
Trained Train(const DeviceTestJob& job, Checkpoints& checkpoints, uint64_t steps = kSteps);
Trained Train(const DeviceTestJob& job);
// Train(job), which is run once in a process: for what several tests compare with.
const Trained& TrainOnce(const DeviceTestJob& job);

void ExpectSameBits(const Trained& actual, const Trained& expected);
// Expects weights and losses, relatively, within `bound`, and optimizer state within ten times
// that.
void ExpectNear(const Trained& actual, const Trained& expected, double bound);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_DEVICE_DEVICE_JOBS_FOR_TESTING_H_
