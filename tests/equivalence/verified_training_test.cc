// Data ranks that make one another's shares of a step come to the same bits, on every road, and a
// step that is verified changes nothing else.
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "common/mesh/job_mesh.h"
#include "gtest/gtest.h"
#include "proto/task_service.pb.h"
#include "tests/equivalence/tensor_jobs.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

// Expects that all slots told the same gradients of each share and part of the model, and others of
// other shares, at each of so many clocks.
void ExpectSharesAgree(const v1::JobSpec& spec, const RunResult& run, uint64_t clocks,
                       uint32_t opinions) {
  const Mesh mesh = MeshOf(spec);
  std::map<std::tuple<uint64_t, int, uint32_t>, std::set<uint64_t>> gradients;
  std::map<std::tuple<uint64_t, int, uint32_t>, uint32_t> told;
  for (uint32_t slot = 0; slot < spec.workers(); ++slot) {
    const int part = mesh.Position(static_cast<int>(slot), kModelAxes);
    for (const v1::VerifyStepRequest& request : run.verified[slot]) {
      if (request.attempt() + 2 < opinions) continue;
      for (const v1::ShareFingerprint& share : request.shares()) {
        gradients[{request.clock(), part, share.data_rank()}].insert(share.gradients());
        ++told[{request.clock(), part, share.data_rank()}];
      }
    }
  }
  EXPECT_EQ(gradients.size(), clocks * mesh.world_size());
  std::set<uint64_t> different;
  for (const auto& [key, of_share] : gradients) {
    SCOPED_TRACE(absl::StrCat("clock ", std::get<0>(key), ", part ", std::get<1>(key), ", share ",
                              std::get<2>(key)));
    EXPECT_EQ(of_share.size(), 1);
    EXPECT_EQ(told.at(key), opinions);
    different.insert(of_share.begin(), of_share.end());
  }
  EXPECT_EQ(different.size(), gradients.size());
}

enum class VerifiedRoad { kServers, kAllReduce };

RunResult RunOn(VerifiedRoad road, const v1::JobSpec& spec, const RunOptions& options) {
  return road == VerifiedRoad::kServers ? TrainOnServers(spec, options)
                                        : TrainByAllReduce(spec, options);
}

// Expects that each second of 6 steps can be verified, with three opinions, and that the run ends
// in the same weights as without.
void ExpectVerifiable(VerifiedRoad road, v1::JobSpec spec, RunOptions options) {
  spec.mutable_stop()->set_steps(6);
  spec.clear_evaluation();
  const RunResult before = RunOn(road, spec, options);
  spec.set_verify_every(2);
  options.further_shares = 1;
  const RunResult run = RunOn(road, spec, options);
  ASSERT_EQ(run.trained.size(), before.trained.size());
  for (size_t slot = 0; slot < run.trained.size(); ++slot) {
    EXPECT_EQ(run.trained[slot].values, before.trained[slot].values);
  }
  ExpectSharesAgree(spec, run, 3, 3);
}

class VerifiedModelsTest : public ::testing::TestWithParam<std::string> {
 protected:
  v1::JobSpec Job(uint32_t micro_batches) {
    v1::JobSpec spec = TinyJob(GetParam(), "adam", WriteTinyText(folder_));
    spec.set_workers(3);
    spec.set_micro_batches(micro_batches);
    spec.mutable_update()->set_deterministic(true);
    return spec;
  }
  RunOptions WithKeys(const v1::JobSpec& spec) {
    RunOptions options;
    options.keys = TrainAlone(spec, options).trained[0].keys;
    return options;
  }

  const TempFolder folder_;
};

TEST_P(VerifiedModelsTest, OnServers) {
  for (const uint32_t micro_batches : {1, 2}) {
    const v1::JobSpec spec = Job(micro_batches);
    ExpectVerifiable(VerifiedRoad::kServers, spec, WithKeys(spec));
  }
}

TEST_P(VerifiedModelsTest, ByAllReduceInEachStage) {
  for (const uint32_t micro_batches : {1, 2}) {
    v1::JobSpec spec = ByAllReduceInSmallBuckets(Job(micro_batches));
    const RunOptions options = WithKeys(spec);
    for (const uint32_t stage : {0, 1, 2, 3}) {
      SCOPED_TRACE(absl::StrCat("stage ", stage, " with ", micro_batches, " micro-batches"));
      spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
      ExpectVerifiable(VerifiedRoad::kAllReduce, spec, options);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, VerifiedModelsTest, ::testing::ValuesIn(ModelNames()),
                         [](const auto& info) { return info.param; });

class VerifiedMeshesTest : public ::testing::TestWithParam<TensorShape> {
 protected:
  const TempFolder folder_;
};

TEST_P(VerifiedMeshesTest, TensorRanksOnBothRoads) {
  const v1::JobSpec spec = OnMesh(TensorJob(GetParam(), folder_), /*tensor=*/2, /*data=*/3);
  ExpectVerifiable(VerifiedRoad::kServers, spec, {});
  for (const uint32_t stage : {0, 3}) {
    ExpectVerifiable(
        VerifiedRoad::kAllReduce,
        ByAllReduce(OnMesh(TensorJob(GetParam(), folder_), /*tensor=*/2, /*data=*/3, stage)), {});
  }
}

TEST_P(VerifiedMeshesTest, StagesOfAPipelineByAllReduce) {
  const v1::JobSpec spec =
      ByAllReduce(InPipeline(OnMesh(PipelineJob(GetParam(), folder_), /*tensor=*/1, /*data=*/2), 2,
                             v1::ParallelismSpec::ONE_F_ONE_B));
  ExpectVerifiable(VerifiedRoad::kAllReduce, spec, {});
}

INSTANTIATE_TEST_SUITE_P(Shapes, VerifiedMeshesTest,
                         ::testing::Values(TensorShape::kGpt2, TensorShape::kLlama),
                         [](const auto& info) { return NameOf(info.param); });

}  // namespace
}  // namespace muster
