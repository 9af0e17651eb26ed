#include "common/job/validation/device_validator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/job/validation/bad_job_for_testing.h"
#include "common/job/validation/job_validator.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

v1::ParallelismSpec& OnDevicesInParallel(v1::JobSpec& spec) {
  OnDevices(spec);
  return *spec.mutable_parallelism();
}

v1::ParallelismSpec& OnDevicesWithServers(v1::JobSpec& spec) {
  OnDevices(spec, v1::UpdateSpec::PARAMETER_SERVER);
  return *spec.mutable_parallelism();
}

v1::MoeSpec& WithExpertsOnServers(v1::JobSpec& spec) {
  OnDevicesWithServers(spec);
  v1::MoeSpec& moe = *spec.mutable_model()->mutable_transformer()->mutable_moe();
  moe.set_experts(4);
  moe.set_top_k(2);
  return moe;
}

class BadDeviceTest : public ::testing::TestWithParam<BadJob> {};

TEST_P(BadDeviceTest, IsRefusedByName) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    All, BadDeviceTest,
    ::testing::Values(
        BadJob{"OfNoKind",
               [](v1::JobSpec& s) {
                 s.mutable_compute()->set_device(static_cast<v1::ComputeSpec::Device>(7));
               },
               HasSubstr("compute.device is 7; it must be CPU or CUDA")},
        BadJob{"OtherModels",
               [](v1::JobSpec& s) { s.mutable_compute()->set_device(v1::ComputeSpec::CUDA); },
               HasSubstr("compute.device is CUDA; but only model.transformer")},
        BadJob{"OptimizerOfServersAlone",
               [](v1::JobSpec& s) {
                 OnDevices(s);
                 s.mutable_optimizer()->set_name("sgd");
               },
               AllOf(HasSubstr("optimizer.name is \"sgd\""), HasSubstr("adam and adamw"))},
        BadJob{"StateInHalfTheBytes",
               [](v1::JobSpec& s) {
                 OnDevices(s);
                 s.mutable_optimizer()->set_state_type(v1::OptimizerSpec::BF16);
               },
               AllOf(HasSubstr("optimizer.state_type is BF16; but compute.device is CUDA"),
                     HasSubstr("train on parameter servers"))},
        BadJob{"Averages",
               [](v1::JobSpec& s) {
                 OnDevices(s);
                 s.mutable_optimizer()->set_average_decay(0.5f);
               },
               AllOf(HasSubstr("optimizer.average_decay is 0.5; but compute.device is CUDA"),
                     HasSubstr("train on parameter servers"))},
        BadJob{"OneOrder",
               [](v1::JobSpec& s) {
                 OnDevices(s);
                 s.mutable_update()->set_deterministic(true);
               },
               AllOf(HasSubstr("update.deterministic is true"), HasSubstr("NCCL"))},
        BadJob{"HalfTheBytes",
               [](v1::JobSpec& s) {
                 OnDevices(s);
                 s.mutable_update()->set_wire(v1::UpdateSpec::BF16);
               },
               HasSubstr("update.wire is BF16; but compute.device is CUDA")},
        BadJob{"Redundancy",
               [](v1::JobSpec& s) {
                 v1::ZeroSpec& zero = *OnDevicesInParallel(s).mutable_zero();
                 zero.set_stage(3);
                 zero.set_redundancy(1);
               },
               AllOf(HasSubstr("parallelism.zero.redundancy is 1; but compute.device is CUDA"),
                     HasSubstr("set checkpoint.every_steps"))},
        BadJob{"Offload",
               [](v1::JobSpec& s) {
                 v1::ZeroSpec& zero = *OnDevicesInParallel(s).mutable_zero();
                 zero.set_stage(2);
                 zero.set_offload(v1::ZeroSpec::OPTIMIZER_STATE);
               },
               AllOf(HasSubstr("parallelism.zero.offload is OPTIMIZER_STATE; but compute.device "
                               "is CUDA"),
                     HasSubstr("leave it out"))},
        BadJob{"ExpertRanksOnServers",
               [](v1::JobSpec& s) { OnDevicesWithServers(s).set_expert(2); },
               AllOf(HasSubstr("parallelism.expert is 2; but compute.device is CUDA and "
                               "update.dense PARAMETER_SERVER"),
                     HasSubstr("take update.dense ALL_REDUCE"))},
        BadJob{"SelectionBiasOnServers",
               [](v1::JobSpec& s) { WithExpertsOnServers(s).set_selection_bias(true); },
               HasSubstr("moe.selection_bias is true; but compute.device is CUDA")},
        BadJob{"ChoicesOfAllDataRanksOnServers",
               [](v1::JobSpec& s) {
                 WithExpertsOnServers(s).set_auxiliary_scope(v1::MoeSpec::GLOBAL_BATCH);
                 s.mutable_update()->set_deterministic(true);
                 s.set_workers(2);
               },
               AllOf(HasSubstr("moe.auxiliary_scope is GLOBAL_BATCH"), HasSubstr("ALL_REDUCE"))},
        BadJob{"CapacityOfAllDataRanksOnServers",
               [](v1::JobSpec& s) {
                 WithExpertsOnServers(s).set_capacity_factor(1.5f);
                 s.mutable_update()->set_deterministic(true);
                 s.set_workers(2);
               },
               AllOf(HasSubstr("moe.capacity_factor is 1.5"), HasSubstr("compute.device CPU"))},
        BadJob{"ShardsOnServers",
               [](v1::JobSpec& s) { OnDevicesWithServers(s).mutable_zero()->set_stage(3); },
               AllOf(HasSubstr("parallelism.zero.stage is 3; but compute.device is CUDA and "
                               "update.dense PARAMETER_SERVER"),
                     HasSubstr("take update.dense ALL_REDUCE"))},
        BadJob{"TensorRanksOnServers",
               [](v1::JobSpec& s) { OnDevicesWithServers(s).set_tensor(2); },
               HasSubstr("parallelism.tensor is 2; but compute.device is CUDA and update.dense "
                         "PARAMETER_SERVER")},
        BadJob{"ContextRanksOnServers",
               [](v1::JobSpec& s) { OnDevicesWithServers(s).set_context(2); },
               HasSubstr("parallelism.context is 2; but compute.device is CUDA and update.dense "
                         "PARAMETER_SERVER")},
        BadJob{"StagesOnServers", [](v1::JobSpec& s) { OnDevicesWithServers(s).set_pipeline(2); },
               HasSubstr("parallelism.pipeline is 2; but compute.device is CUDA and update.dense "
                         "PARAMETER_SERVER")}),
    [](const auto& info) { return info.param.name; });

TEST(DeviceValidatorTest, TakesWhatDevicesDo) {
  const auto expect_taken = [](void (*change)(v1::ParallelismSpec&)) {
    v1::JobSpec spec = SmallJob();
    change(OnDevicesInParallel(spec));
    spec.set_workers(4);
    spec.set_min_workers(2);
    EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
  };
  expect_taken([](v1::ParallelismSpec&) {});
  expect_taken([](v1::ParallelismSpec& parallelism) { parallelism.mutable_zero()->set_stage(3); });
  expect_taken([](v1::ParallelismSpec& parallelism) {
    parallelism.set_tensor(2);
    parallelism.mutable_zero()->set_stage(1);
  });
  expect_taken([](v1::ParallelismSpec& parallelism) {
    parallelism.set_context(2);
    parallelism.mutable_zero()->set_stage(2);
  });
  v1::JobSpec on_servers = SmallJob();
  OnDevicesWithServers(on_servers);
  on_servers.mutable_optimizer()->set_name("sgd");
  EXPECT_EQ(ValidateJob(on_servers), absl::OkStatus());
}

}  // namespace
}  // namespace muster
