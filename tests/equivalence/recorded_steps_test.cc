// Every kind of job that ranks compute together moves, to the byte and in order, what is planned.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "common/job/job_road.h"
#include "common/job/validation/job_validator.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/equivalence/expected_traffic.h"
#include "tests/equivalence/tensor_jobs.h"

namespace muster {
namespace {

using Parallelism = v1::ParallelismSpec;

// One choice for each option of a job.
using Choice = std::vector<int>;

enum Option {
  kRanks,
  kShape,
  kByAllReduce,
  kTensor,
  kContextRanks,
  kSequence,
  kSchedule,
  kZero,
  kShard,
  kMicroBatches,
  kCompute,
  kRecompute,
  kOptions
};
constexpr int kChoices[kOptions] = {2, 5, 2, 3, 4, 2, 6, 4, 2, 2, 3, 2};
constexpr int kMostChoices = 6;

// Returns the job of one of the shapes with these choices.
v1::JobSpec JobOf(const Choice& choice, const std::vector<v1::JobSpec>& shapes) {
  v1::JobSpec spec = shapes[choice[kShape]];
  spec.set_workers(choice[kRanks] == 0 ? 4 : 8);
  if (choice[kByAllReduce] == 1) spec = ByAllReduce(spec);
  Parallelism& parallelism = *spec.mutable_parallelism();
  parallelism.set_tensor(1u << choice[kTensor]);
  if (choice[kContextRanks] > 0) {
    parallelism.set_context(2);
    parallelism.set_context_exchange(
        static_cast<Parallelism::ContextExchange>(choice[kContextRanks]));
  }
  if (choice[kSequence] == 1) parallelism.set_sequence(false);
  if (choice[kSchedule] > 0) {
    parallelism.set_pipeline(2);
    parallelism.set_pipeline_schedule(
        static_cast<Parallelism::PipelineSchedule>(choice[kSchedule]));
  }
  if (choice[kZero] > 0) parallelism.mutable_zero()->set_stage(choice[kZero]);
  if (choice[kShard] == 1) parallelism.mutable_zero()->set_shard(2);
  spec.set_micro_batches(choice[kMicroBatches] == 0 ? 1 : 4);
  if (choice[kCompute] == 1) spec.mutable_compute()->set_type(v1::ComputeSpec::BF16);
  if (choice[kCompute] == 2) spec.mutable_compute()->set_type(v1::ComputeSpec::F16);
  if (choice[kRecompute] == 1) spec.mutable_compute()->set_recompute(v1::ComputeSpec::FULL);
  // Some jobs do not clip, some have several buckets, and some send servers 16 bits.
  if (choice[kRecompute] == 1) spec.clear_clipping();
  if (choice[kByAllReduce] == 1 && choice[kZero] == 0 && choice[kCompute] == 0) {
    spec.mutable_update()->set_first_bucket_bytes(2000);
    spec.mutable_update()->set_bucket_bytes(6000);
  }
  if (spec.model().transformer().has_moe() &&
      (choice[kMicroBatches] == 1 || choice[kByAllReduce] == 0)) {
    // Ranks share out experts where they can.
    v1::JobSpec shared_out = spec;
    shared_out.mutable_parallelism()->set_expert(2);
    shared_out.mutable_model()->mutable_transformer()->mutable_moe()->set_experts(6);
    if (ValidateJob(shared_out).ok()) return shared_out;
  }
  if (choice[kByAllReduce] == 0 && choice[kRecompute] == 1) {
    v1::JobSpec half = spec;
    half.mutable_update()->set_wire(v1::UpdateSpec::BF16);
    if (ValidateJob(half).ok()) return half;
  }
  return spec;
}

// Calls `visitor` with a number for each two choices of different options.
template <typename Visitor>
void ForEachPair(const Choice& choice, Visitor visitor) {
  for (int a = 0; a < kOptions; ++a) {
    for (int b = a + 1; b < kOptions; ++b) {
      visitor(((a * kMostChoices + choice[a]) * kOptions + b) * kMostChoices + choice[b]);
    }
  }
}

// Returns jobs that are allowed and have, together, each two choices that any allowed job has.
std::vector<v1::JobSpec> CoverOfPairs(const std::vector<v1::JobSpec>& shapes) {
  std::vector<Choice> allowed;
  std::vector<bool> open(kOptions * kMostChoices * kOptions * kMostChoices);
  Choice choice(kOptions);
  for (bool more = true; more;) {
    if (ValidateJob(JobOf(choice, shapes)).ok()) {
      ForEachPair(choice, [&](int pair) { open[pair] = true; });
      allowed.push_back(choice);
    }
    int option = 0;
    while (option < kOptions && ++choice[option] == kChoices[option]) choice[option++] = 0;
    more = option < kOptions;
  }
  std::vector<v1::JobSpec> cover;
  while (true) {
    const Choice* best = nullptr;
    int most = 0;
    for (const Choice& job : allowed) {
      int covered = 0;
      ForEachPair(job, [&](int pair) { covered += open[pair] ? 1 : 0; });
      if (covered <= most) continue;
      most = covered;
      best = &job;
    }
    if (best == nullptr) return cover;
    ForEachPair(*best, [&](int pair) { open[pair] = false; });
    cover.push_back(JobOf(*best, shapes));
  }
}

// The jobs of the cover are dealt out to these tests, which run side by side.
constexpr size_t kParts = 8;

class RecordedStepsTest : public ::testing::TestWithParam<size_t> {
 protected:
  const TempFolder folder_;
};

TEST_P(RecordedStepsTest, RanksCallWhatIsPlanned) {
  std::vector<v1::JobSpec> shapes;
  for (const TensorShape shape :
       {TensorShape::kGpt2, TensorShape::kLlama, TensorShape::kPerceptron, TensorShape::kExperts}) {
    shapes.push_back(PipelineJob(shape, folder_, /*blocks=*/4));
    shapes.back().mutable_stop()->set_steps(2);
  }
  shapes.push_back(PipelineJob(TensorShape::kLlama, folder_, /*blocks=*/4));
  shapes.back().mutable_stop()->set_steps(2);
  shapes.back().mutable_adapter()->set_rank(2);
  for (const char* target : {"query", "value", "gate", "down"}) {
    shapes.back().mutable_adapter()->add_targets(target);
  }
  const std::vector<v1::JobSpec> cover = CoverOfPairs(shapes);
  EXPECT_GT(cover.size(), 2 * kParts);
  for (const bool by_all_reduce : {false, true}) {
    EXPECT_TRUE(std::any_of(cover.begin(), cover.end(), [by_all_reduce](const v1::JobSpec& job) {
      return job.parallelism().expert() > 1 && TrainsByAllReduce(job) == by_all_reduce;
    })) << "ranks share out experts on either road";
  }
  for (size_t i = GetParam(); i < cover.size(); i += kParts) {
    SCOPED_TRACE(absl::StrCat("job ", i, ": ", cover[i].ShortDebugString()));
    ExpectPredictedTraffic(cover[i]);
  }
}

INSTANTIATE_TEST_SUITE_P(Parts, RecordedStepsTest, ::testing::Range(size_t{0}, kParts));

// Models as small as these fit into the window of jobs, not into these windows.
TEST(PullWindowTest, UnitsBeyondTheWindowArePulledWhenItIsPlanned) {
  const TempFolder folder;
  for (const auto& [shape, window] : {std::pair<TensorShape, uint64_t>(TensorShape::kGpt2, 0),
                                      {TensorShape::kGpt2, 10'000},
                                      {TensorShape::kGpt2, 20'000},
                                      {TensorShape::kPerceptron, 500}}) {
    SCOPED_TRACE(absl::StrCat(NameOf(shape), ", window ", window));
    v1::JobSpec spec = PipelineJob(shape, folder, /*blocks=*/4);
    spec.mutable_stop()->set_steps(2);
    for (const uint32_t tensor : {1, 2}) ExpectPredictedTraffic(OnMesh(spec, tensor, 2), window);
  }
}

}  // namespace
}  // namespace muster
