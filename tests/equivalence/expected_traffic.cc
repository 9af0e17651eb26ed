#include "tests/equivalence/expected_traffic.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "client/compare/traffic_prediction.h"
#include "common/job/job_road.h"
#include "common/mesh/job_mesh.h"
#include "gtest/gtest.h"
#include "proto/schema.pb.h"
#include "tests/equivalence/training_run.h"
#include "worker/runtime/training/prepared_job.h"

namespace muster {

void ExpectPredictedTraffic(const v1::JobSpec& job) {
  SCOPED_TRACE(
      absl::StrCat(job.parallelism().ShortDebugString(), " ", job.compute().ShortDebugString()));
  const PreparedJob prepared = PrepareJob(job).value();
  const bool by_all_reduce = TrainsByAllReduce(job);
  const auto predicted =
      by_all_reduce ? PredictAllReduceTraffic(*prepared.schema, job, AllReduceWay::kSharedMemory)
                    : PredictServerTraffic(*prepared.schema, {}, job, AllReduceWay::kSharedMemory);
  ASSERT_EQ(predicted.status(), absl::OkStatus());
  const RunResult run = by_all_reduce ? TrainByAllReduce(job, {}) : TrainOnServers(job, {});
  ASSERT_EQ(run.counters.size(), predicted->workers.size());
  const auto steps = static_cast<double>(prepared.total_steps);
  uint64_t tensor_bytes = 0;
  for (size_t slot = 0; slot < run.counters.size(); ++slot) {
    SCOPED_TRACE(slot);
    const StrategyCounters& counters = run.counters[slot];
    const WorkerTraffic& all = predicted->workers[slot];
    const WorkerTraffic& tensor = predicted->tensor[slot];
    const WorkerTraffic& stages = predicted->pipeline[slot];
    const double sent = all.sent - tensor.sent - stages.sent;
    const double received = all.received - tensor.received - stages.received;
    EXPECT_EQ(by_all_reduce ? counters.bytes_sent : counters.bytes_pushed, steps * sent);
    EXPECT_EQ(by_all_reduce ? counters.bytes_received : counters.bytes_pulled, steps * received);
    EXPECT_EQ(counters.tensor_bytes_sent, steps * tensor.sent);
    EXPECT_EQ(counters.tensor_bytes_received, steps * tensor.received);
    EXPECT_EQ(counters.stage_bytes_sent, steps * stages.sent);
    EXPECT_EQ(counters.stage_bytes_received, steps * stages.received);
    if (SizeAlong(Axis::kPipeline, job) > 1) {
      EXPECT_GT(counters.stage_bytes_sent, 0);
    }
    tensor_bytes += counters.tensor_bytes_sent;
  }
  // A stage may have layers of which tensor ranks exchange nothing; not all have.
  if (SizeAlong(Axis::kTensor, job) > 1) {
    EXPECT_GT(tensor_bytes, 0);
  }
}

}  // namespace muster
