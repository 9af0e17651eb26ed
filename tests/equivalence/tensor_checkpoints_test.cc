// A checkpoint of any mesh and ZeRO stage, on either road, goes on on any other, through files of
// shares and of partitions.
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/run_checkpoints.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

struct Way {
  bool on_servers = false;
  uint32_t tensor = 1;
  uint32_t data = 1;
  uint32_t stage = 0;
  // Data ranks of a shard group; 0: all.
  uint32_t shard = 0;
  // Perceptrons, which have no sequences, do without.
  uint32_t context = 1;
  v1::ParallelismSpec::ContextExchange exchange = v1::ParallelismSpec::RING;
  // Only models with experts have ways with several.
  uint32_t expert = 1;
};

constexpr Way kWays[] = {
    {.tensor = 1, .data = 1},
    {.tensor = 1, .data = 3, .stage = 2},
    {.tensor = 2, .data = 2},
    {.tensor = 2, .data = 2, .stage = 3},
    {.tensor = 2, .data = 4, .stage = 1, .shard = 2},
    {.tensor = 4, .data = 2, .stage = 2},
    {.tensor = 8, .data = 1},
    {.tensor = 1, .data = 2, .context = 2},
    {.tensor = 2, .data = 1, .stage = 3, .context = 2, .exchange = v1::ParallelismSpec::HEADS},
    {.on_servers = true, .tensor = 1, .data = 2},
    {.on_servers = true, .tensor = 2, .data = 2},
    {.on_servers = true, .tensor = 4, .data = 1, .stage = 3},
    {.on_servers = true, .tensor = 1, .data = 2, .context = 2},
    {.on_servers = true, .tensor = 2, .data = 1, .stage = 3, .context = 2},
    {.data = 2, .expert = 2},
    {.tensor = 2, .data = 4, .stage = 2, .expert = 2},
    {.data = 4, .stage = 3, .shard = 2, .expert = 4},
    {.data = 2, .stage = 1, .context = 2, .expert = 2},
    {.on_servers = true, .tensor = 2, .data = 2, .expert = 2},
    {.on_servers = true, .data = 2, .stage = 3, .context = 2, .expert = 4},
};

std::vector<Way> WaysOf(const v1::JobSpec& spec) {
  std::vector<Way> ways;
  for (const Way& way : kWays) {
    if (way.expert == 1 || spec.model().transformer().has_moe()) ways.push_back(way);
  }
  return ways;
}

std::string WayName(const Way& way) {
  return absl::StrCat(way.on_servers ? "servers" : "all-reduce", ", tensor ", way.tensor, ", data ",
                      way.data, ", stage ", way.stage, ", context ", way.context, ", expert ",
                      way.expert);
}

TrainedValues TrainInWay(const v1::JobSpec& spec, const Way& way, const RunOptions& options) {
  v1::JobSpec divided = OnMesh(spec, way.tensor, way.data, way.stage, way.shard);
  if (way.context > 1 && spec.model().has_transformer()) {
    divided = InContext(divided, way.context, way.exchange);
  }
  if (way.expert > 1) divided.mutable_parallelism()->set_expert(way.expert);
  return SameOfAllRanks(way.on_servers ? TrainOnServers(divided, options)
                                       : TrainByAllReduce(ByAllReduce(divided), options));
}

class TensorCheckpointsTest : public ::testing::TestWithParam<TensorShape> {
 protected:
  // Goes on from each way on the one chosen for it, which differs with the shape, or on all others.
  // Every way is chosen for one.
  void ExpectToGoOn(bool chosen);
};

void TensorCheckpointsTest::ExpectToGoOn(bool chosen) {
  const TempFolder folder;
  v1::JobSpec spec = TensorJob(GetParam(), folder);
  spec.set_micro_batches(2);
  spec.mutable_clipping()->set_by_global_norm(0.05);
  spec.mutable_checkpoint()->set_every_steps(4);
  spec.mutable_stop()->set_steps(8);
  if (GetParam() == TensorShape::kExperts) {
    // Otherwise of a number that nothing divides, and of blocks that context ranks do not.
    spec.mutable_model()->mutable_transformer()->mutable_moe()->set_experts(8);
  }
  const std::vector<Way> ways = WaysOf(spec);
  const TrainedValues expected = TrainLocally(spec);
  const size_t distance = GetParam() == TensorShape::kGpt2    ? 1
                          : GetParam() == TensorShape::kLlama ? 3
                                                              : 7;
  for (size_t from = 0; from < ways.size(); ++from) {
    const Way& first = ways[from];
    SCOPED_TRACE(absl::StrCat("from ", WayName(first)));
    RunCheckpoints checkpoints;
    RunOptions options;
    options.checkpoints = &checkpoints;
    ExpectClose(TrainInWay(spec, first, options), expected, 1e-5);
    options.from = 4;
    for (size_t to = 0; to < ways.size(); ++to) {
      if ((to == (from + distance) % ways.size()) != chosen) continue;
      const Way& next = ways[to];
      SCOPED_TRACE(absl::StrCat("to ", WayName(next)));
      ExpectClose(TrainInWay(spec, next, options), expected, 1e-5);
      if (HasFailure()) return;
    }
  }
}

TEST_P(TensorCheckpointsTest, GoOnOnEveryMeshStageAndRoad) { ExpectToGoOn(/*chosen=*/true); }

TEST_P(TensorCheckpointsTest, GoOnOnEveryMeshStageAndRoadExhaustive) {
  ExpectToGoOn(/*chosen=*/false);
}

INSTANTIATE_TEST_SUITE_P(Shapes, TensorCheckpointsTest,
                         ::testing::Values(TensorShape::kGpt2, TensorShape::kLlama,
                                           TensorShape::kPerceptron, TensorShape::kExperts),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace muster
