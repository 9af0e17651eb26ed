// Memory of jobs that compute on devices.
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/plan/memory/memory_plan.h"
#include "common/plan/memory/plan_jobs_for_testing.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

TEST(DevicePlanTest, WhatDevicesComputeTakesNoneOfTheHostsMemory) {
  for (const std::string type : {"F32", "BF16"}) {
    v1::JobSpec spec = Gpt(absl::StrCat("compute { type: ", type, " }"));
    spec.mutable_data()->set_holdout(0.1);
    const std::map<std::string, uint64_t> processors = WorkerOf(spec);
    spec.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
    std::map<std::string, uint64_t> parts = WorkerOf(spec);
    for (const std::string name : {"activations kept", "activations of one block", "logits",
                                   "kernels' scratch", "evaluation", "16-bit weights"}) {
      EXPECT_EQ(parts.erase(name), 0u) << name;
    }
    EXPECT_EQ(parts.erase("CUDA's own"), 1u);
    // By all-reduce the host has a copy of weights and state alone, at the peak.
    EXPECT_EQ(parts.count("gradients"), 0u);
    EXPECT_EQ(parts.count("optimizer state"), 1u);
    // The rest is as on processors.
    for (const auto& [name, bytes] : parts) EXPECT_EQ(processors.at(name), bytes) << name;
  }
}

TEST(DevicePlanTest, DevicesSumTheirGradientsAmongThemselves) {
  const std::map<std::string, uint64_t> one = WorkerOf(Gpt("compute { device: CUDA }"));
  const MemoryPlan four = PlanOf(Gpt("workers: 4 compute { device: CUDA }"));
  std::map<std::string, uint64_t> parts = ByName(four.worker);
  EXPECT_EQ(parts.at("parameters") + parts.at("optimizer state"), 12 * kGpt);
  // A smaller part of the batch, and what talking to each other adds.
  parts["data"] = one.at("data");
  parts["program and libraries"] -= 2 * kMiB;
  for (const char* name : {"groups of ranks", "rings to other ranks, if on one machine",
                           "rings that other ranks have made, if on one machine"}) {
    EXPECT_GT(parts[name], 0u);
    parts.erase(name);
  }
  EXPECT_EQ(parts, one);
}

TEST(DevicePlanTest, GradientsOfDevicesPassThroughTheHostOnTheirWayToServers) {
  v1::JobSpec spec = Gpt("compute { device: CUDA }");
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_EQ(WorkerOf(spec).at("gradients"), 4 * kGpt);
}

// tests/plan compares all of it with what the engine takes.
TEST(DevicePlanTest, DevicesHaveWhatTheyCompute) {
  EXPECT_TRUE(PlanOf(Gpt()).device.empty());
  v1::JobSpec spec = Gpt("compute { type: BF16 device: CUDA }");
  const std::map<std::string, uint64_t> parts = ByName(PlanOf(spec).device);
  EXPECT_EQ(parts.at("parameters"), 4 * kGpt);
  EXPECT_EQ(parts.at("16-bit weights"), 2 * kGpt);
  EXPECT_EQ(parts.at("gradients"), 4 * kGpt);
  EXPECT_EQ(parts.at("optimizer state"), 8 * kGpt);
  EXPECT_EQ(parts.at("activations"),
            2048 * (6 * (2 * (3 * 384 + 1152 + 2 * 1536) + 4 * (2 * 384 + 4 + 6)) + (4 + 2) * 384 +
                    4 * 2));
  EXPECT_EQ(parts.at("logits"), 2048 * 256 * 4);
  EXPECT_EQ(parts.at("CUDA's own"), 1280 * kMiB);
  EXPECT_EQ(parts.count("NCCL's own"), 0u);
  EXPECT_EQ(ByName(PlanOf(Gpt("workers: 2 compute { device: CUDA }")).device)["NCCL's own"],
            512 * kMiB);
  spec.mutable_compute()->set_recompute(v1::ComputeSpec::FULL);
  EXPECT_LT(ByName(PlanOf(spec).device)["activations"], parts.at("activations") / 2);
  // Servers step the parameters there.
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  EXPECT_EQ(ByName(PlanOf(spec).device)["optimizer state"], 0u);
}

}  // namespace
}  // namespace muster
