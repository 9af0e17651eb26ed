// Memory of workers and devices under the stages of ZeRO.
#include <algorithm>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/plan/memory/memory_plan.h"
#include "common/plan/memory/plan_jobs_for_testing.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

std::string ZeroStageIs(int stage, int workers, const std::string& more = "") {
  return absl::StrCat("workers: ", workers, " micro_batches: 2 parallelism { zero { stage: ", stage,
                      " ", more, " } } ");
}

// By stage, of N ranks, as docs/parallelism/zero.md has it; but for padding, which is less than a
// hundredth.
TEST(ZeroPlanTest, StagesOfZeroHaveTheirModelStates) {
  for (const int N : {2, 4}) {
    const double divided = 1.0 / N;
    const double f32[] = {16, 8 + 8 * divided, 4 + 12 * divided, 16 * divided};
    for (int stage = 0; stage <= 3; ++stage) {
      SCOPED_TRACE(absl::StrCat("stage ", stage, " of ", N));
      const MemoryPlan plan = PlanOf(Gpt(ZeroStageIs(stage, N)));
      const auto state = static_cast<double>(plan.worker_state_bytes());
      EXPECT_GE(state, f32[stage] * kGpt);
      EXPECT_LE(state, 1.01 * f32[stage] * kGpt);
    }
    // With a head of its own all matrices are computed with in 16 bits, but for the embedding and
    // positions.
    const auto in_half = [&](int stage) {
      v1::JobSpec spec = Gpt(absl::StrCat(ZeroStageIs(stage, N), "compute { type: BF16 }"));
      spec.mutable_model()->mutable_transformer()->set_separate_head(true);
      return static_cast<double>(PlanOf(spec).worker_state_bytes());
    };
    constexpr uint64_t kHead = 256 * 384, kWide = kGpt + kHead - kGptMatrices;
    const double half[] = {18, 6 + 12 * divided, 2 + 16 * divided, 16 * divided};
    for (int stage = 0; stage <= 3; ++stage) {
      SCOPED_TRACE(absl::StrCat("stage ", stage, " of ", N));
      const double expected = half[stage] * kGptMatrices + f32[stage] * kWide;
      EXPECT_GE(in_half(stage), expected);
      EXPECT_LE(in_half(stage), 1.01 * expected);
    }
  }
}

TEST(ZeroPlanTest, StepsThatAreComparedNeedGradientsOnceMore) {
  const std::string part = "gradients of another data rank's examples";
  EXPECT_EQ(WorkerOf(Gpt(ZeroStageIs(0, 2))).count(part), 0);
  for (int stage = 0; stage <= 3; ++stage) {
    const uint64_t bytes = WorkerOf(Gpt(ZeroStageIs(stage, 2) + "verify_every: 9"))[part];
    // Of units in flight, one block and the embedding, to which the head is tied.
    const uint64_t elements = stage < 2 ? kGpt : 12 * 384 * 384 + 13 * 384 + 512 * 384;
    EXPECT_GE(bytes, 4 * elements) << stage;
    EXPECT_LE(bytes, 4 * elements * 101 / 100) << stage;
  }
}

TEST(ZeroPlanTest, OffloadedStateIsOnDisk) {
  for (const int workers : {1, 2, 4}) {
    const MemoryPlan in_memory = PlanOf(Gpt(ZeroStageIs(3, workers)));
    EXPECT_EQ(in_memory.disk_bytes, 0);
    const MemoryPlan plan = PlanOf(Gpt(ZeroStageIs(3, workers, "offload: OPTIMIZER_STATE")));
    EXPECT_GE(plan.disk_bytes, 8 * kGpt / workers);
    EXPECT_LE(plan.disk_bytes, 8 * kGpt / workers * 101 / 100);
    EXPECT_EQ(plan.disk_bytes % 4096, 0);
    // At most 32 MiB of the state are mapped, and all of it if it is smaller.
    const uint64_t window = std::min<uint64_t>(32 * kMiB, plan.disk_bytes);
    EXPECT_EQ(ByName(plan.worker)["optimizer state, mapped from its file"], window);
    EXPECT_EQ(plan.worker_bytes() - plan.worker_own_bytes(),
              in_memory.worker_bytes() - in_memory.worker_own_bytes() + window);
    const uint64_t state = in_memory.worker_own_bytes() - plan.worker_own_bytes();
    EXPECT_LE(state, plan.disk_bytes);
    EXPECT_GT(state + 4096, plan.disk_bytes);
    EXPECT_LT(plan.worker_state_bytes(), in_memory.worker_state_bytes());
  }
  EXPECT_EQ(PlanOf(Gpt("workers: 2 stop { evaluate_only: true } parallelism { zero { stage: 3 "
                       "offload: OPTIMIZER_STATE } }"))
                .disk_bytes,
            0);
}

TEST(ZeroPlanTest, IsForTheFewestRanksThatDivideAnew) {
  const MemoryPlan least = PlanOf(Gpt(ZeroStageIs(3, 2)));
  const MemoryPlan plan = PlanOf(Gpt(absl::StrCat(ZeroStageIs(3, 4), " min_workers: 2")));
  for (const char* name : {"slice of parameters", "slice of optimizer state"}) {
    EXPECT_EQ(ByName(plan.worker)[name], ByName(least.worker)[name]) << name;
  }
  // Whatever their number, the ranks take the same micro-batches.
  EXPECT_EQ(ByName(plan.worker)["activations kept"],
            ByName(PlanOf(Gpt(ZeroStageIs(3, 4))).worker)["activations kept"]);
}

// The largest two files at once are those of two ranks and of three, whoever comes or goes.
TEST(ZeroPlanTest, WhileRanksDivideAnewThereAreTwoFilesOnDisk) {
  const auto disk = [](int workers, const std::string& more) {
    return PlanOf(Gpt(absl::StrCat(ZeroStageIs(2, workers, "offload: OPTIMIZER_STATE"), more)))
        .disk_bytes;
  };
  EXPECT_EQ(disk(4, " min_workers: 2"), disk(2, "") + disk(3, ""));
  EXPECT_EQ(disk(4, " min_workers: 4"), disk(4, ""));
  EXPECT_EQ(PlanOf(Gpt(absl::StrCat(ZeroStageIs(2, 4), " min_workers: 2"))).disk_bytes, 0u);
}

// Where activations are small, the moment with two slices is the peak.
TEST(ZeroPlanTest, CountsNewSlicesWhereStepsTakeLess) {
  const auto extra = [](int context, const std::string& more) {
    v1::JobSpec spec = Gpt(absl::StrCat(ZeroStageIs(3, 3, more), " min_workers: 1"));
    spec.mutable_model()->mutable_transformer()->set_context(context);
    spec.mutable_model()->mutable_transformer()->set_layers(24);
    return ByName(PlanOf(spec).worker)["new slice while the workers change"];
  };
  EXPECT_EQ(extra(4096, ""), 0u) << "activations are more";
  EXPECT_GT(extra(16, ""), 0u);
  EXPECT_GT(extra(16, ""), extra(16, "offload: OPTIMIZER_STATE"));
  EXPECT_GT(extra(16, "redundancy: 1") + 8 * kMiB, extra(16, "")) << "the copy is always there";
  EXPECT_EQ(ByName(PlanOf(Gpt(ZeroStageIs(3, 3))).worker)["new slice while the workers change"],
            0u);
}

TEST(ZeroPlanTest, UnitsInFlightAreNoModelState) {
  constexpr uint64_t kBlock = 12 * 384 * 384 + 13 * 384, kEmbedding = 2 * 256 * 384;
  std::map<std::string, uint64_t> parts = WorkerOf(Gpt(ZeroStageIs(3, 4)));
  // Two blocks, and the embedding with its positions, which the head reads, too.
  const uint64_t in_flight = 4 * (2 * kBlock + kEmbedding);
  for (const char* name :
       {"gathered parameters of units in flight", "gradients of units in flight"}) {
    EXPECT_GE(parts[name], in_flight);
    EXPECT_LE(parts[name], in_flight + in_flight / 100);
  }
  EXPECT_EQ(parts.count("parameters") + parts.count("gradients"), 0);
  const MemoryPlan plan = PlanOf(Gpt(ZeroStageIs(3, 4)));
  EXPECT_EQ(plan.worker_bytes() - plan.worker_own_bytes(),
            3 * (parts["gathered parameters of units in flight"] +
                 parts["gradients of units in flight"]) +
                parts["rings that other ranks have made, if on one machine"]);
}

TEST(ZeroPlanTest, ATiedHeadHasACopyInSixteenBits) {
  for (const int stage : {1, 2, 3}) {
    std::map<std::string, uint64_t> parts =
        WorkerOf(Gpt(absl::StrCat(ZeroStageIs(stage, 2), "compute { type: BF16 }")));
    EXPECT_EQ(parts["16-bit weights"], 2 * 256 * 384);
  }
}

// Weights, Adam's state and sums of another slice, apart from the model states.
TEST(ZeroPlanTest, ACopyOfASliceIsPlannedApart) {
  for (const int stage : {1, 2, 3}) {
    const MemoryPlan without = PlanOf(Gpt(ZeroStageIs(stage, 4)));
    const MemoryPlan with = PlanOf(Gpt(ZeroStageIs(stage, 4, "redundancy: 1")));
    EXPECT_EQ(with.worker_state_bytes(), without.worker_state_bytes());
    const auto copy = static_cast<double>(with.worker_own_bytes() - without.worker_own_bytes());
    EXPECT_GE(copy, 16.0 / 4 * kGpt);
    EXPECT_LE(copy, 1.01 * 16 / 4 * kGpt);
  }
}

// Each rank has the values of its own files once more: weights and two of state, of its slice, or
// of its part of what all ranks have.
TEST(ZeroPlanTest, ValuesOfACheckpointAreCopiedWhileItIsWritten) {
  for (const uint32_t stage : {0, 2}) {
    for (const bool offloads : {false, true}) {
      if (stage == 0 && offloads) continue;
      v1::JobSpec spec = Gpt(ZeroStageIs(stage, 4, offloads ? "offload: OPTIMIZER_STATE" : ""));
      EXPECT_EQ(WorkerOf(spec).count("copy of a checkpoint's values"), 0);
      const uint64_t on_disk = PlanOf(spec).disk_bytes;
      spec.mutable_checkpoint()->set_every_steps(10);
      const uint64_t copy =
          WorkerOf(spec).at("copy of a checkpoint's values") + PlanOf(spec).disk_bytes - on_disk;
      EXPECT_NEAR(copy, 12 * kGpt / 4, 0.01 * kGpt);
      EXPECT_EQ(PlanOf(spec).disk_bytes > on_disk, offloads);
      // An evaluation may be better than all before.
      spec.mutable_checkpoint()->set_every_steps(0);
      EXPECT_EQ(WorkerOf(spec).count("copy of a checkpoint's values"), 0);
      spec.mutable_evaluation()->set_every_steps(10);
      EXPECT_EQ(WorkerOf(spec).count("copy of a checkpoint's values"), 1);
      spec.mutable_checkpoint()->set_keep_best(false);
      EXPECT_EQ(WorkerOf(spec).count("copy of a checkpoint's values"), 0);
    }
  }
}

TEST(ZeroPlanTest, AJobWhoseShardGroupIsOneRankIsPlannedAsStage0) {
  const MemoryPlan whole = PlanOf(Gpt("workers: 1 micro_batches: 2"));
  EXPECT_EQ(PlanOf(Gpt(ZeroStageIs(3, 1))).worker_bytes(), whole.worker_bytes());
  const MemoryPlan two = PlanOf(Gpt("workers: 2 micro_batches: 2"));
  EXPECT_EQ(PlanOf(Gpt(ZeroStageIs(2, 2, "shard: 1"))).worker_bytes(), two.worker_bytes());
}

// The host has as much while a checkpoint is written as a device has under stages: slices, and
// nothing of gradients. The device has what a rank on processors has in its own memory.
TEST(ZeroPlanTest, DevicesHaveSlicesUnderStages) {
  for (const uint32_t stage : {1, 2, 3}) {
    const v1::JobSpec on_host = Gpt(ZeroStageIs(stage, 2));
    v1::JobSpec spec = on_host;
    spec.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
    const MemoryPlan plan = PlanOf(spec);
    std::map<std::string, uint64_t> processors = WorkerOf(on_host);
    std::map<std::string, uint64_t> device = ByName(plan.device);
    for (const std::string name :
         {"slice of parameters", "gathered parameters", "gathered parameters of units in flight",
          "gradients", "gradients of units in flight", "slice of sums of gradients",
          "slice of optimizer state"}) {
      EXPECT_EQ(device.count(name), processors.count(name)) << name;
      // Arrays begin at multiples of 256 bytes.
      EXPECT_NEAR(device[name], processors[name], 512) << name;
    }
    EXPECT_EQ(device.at("NCCL's own"), 512 * kMiB);
    const std::map<std::string, uint64_t> host = ByName(plan.worker);
    EXPECT_NEAR(host.at("slice of parameters"), 2 * kGpt, 0.01 * kGpt);
    EXPECT_NEAR(host.at("slice of optimizer state"), 4 * kGpt, 0.01 * kGpt);
    EXPECT_EQ(host.count("gradients") + host.count("gradients of units in flight"), 0u);
  }
  const MemoryPlan groups =
      PlanOf(Gpt(absl::StrCat(ZeroStageIs(2, 4, "shard: 2"), "compute { device: CUDA }")));
  EXPECT_EQ(ByName(groups.device).at("NCCL's own"), 1024 * kMiB) << "a group of replicas, too";
}

TEST(ZeroPlanTest, DevicesArePlannedForTheFewestRanksThatDivideAnew) {
  const std::string on_device = " compute { device: CUDA }";
  MemoryPlan least = PlanOf(Gpt(absl::StrCat(ZeroStageIs(3, 2), on_device)));
  MemoryPlan plan = PlanOf(Gpt(absl::StrCat(ZeroStageIs(3, 4), " min_workers: 2", on_device)));
  for (const char* name : {"slice of parameters", "slice of optimizer state"}) {
    EXPECT_EQ(ByName(plan.device).at(name), ByName(least.device).at(name)) << name;
    EXPECT_EQ(ByName(plan.worker).at(name), ByName(least.worker).at(name)) << name;
  }
}

}  // namespace
}  // namespace muster
