#include "common/job/validation/adapter_validator.h"

#include <functional>
#include <string>

#include "common/job/test_jobs.h"
#include "common/job/validation/bad_job_for_testing.h"
#include "common/job/validation/job_validator.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

void Adapted(v1::JobSpec& spec) {
  OnDevices(spec);
  spec.mutable_compute()->clear_device();
  spec.mutable_adapter()->set_rank(2);
}

v1::ParameterGroup& AddGroup(v1::JobSpec& spec) {
  OnDevices(spec);
  spec.mutable_compute()->clear_device();
  v1::ParameterGroup& group = *spec.mutable_optimizer()->add_groups();
  group.add_names("*");
  return group;
}

TEST(AdapterValidatorTest, AdaptersAndGroupsAreAccepted) {
  v1::JobSpec spec = SmallJob();
  Adapted(spec);
  spec.mutable_adapter()->add_targets("key");
  AddGroup(spec).set_rate(2);
  EXPECT_EQ(ValidateJob(spec), absl::OkStatus());
}

class BadAdapterTest : public ::testing::TestWithParam<BadJob> {};

TEST_P(BadAdapterTest, IsRefusedByName) { ExpectRefused(GetParam()); }

INSTANTIATE_TEST_SUITE_P(
    Jobs, BadAdapterTest,
    ::testing::Values(BadJob{"OtherModel", [](auto& s) { s.mutable_adapter()->set_rank(1); },
                             HasSubstr("only model.transformer")},
                      BadJob{"NoRank",
                             [](auto& s) {
                               Adapted(s);
                               s.mutable_adapter()->set_rank(0);
                             },
                             HasSubstr("adapter.rank is 0")},
                      BadJob{"NegativeAlpha",
                             [](auto& s) {
                               Adapted(s);
                               s.mutable_adapter()->set_alpha(-1);
                             },
                             HasSubstr("adapter.alpha is -1")},
                      BadJob{"AllDropped",
                             [](auto& s) {
                               Adapted(s);
                               s.mutable_adapter()->set_dropout(1);
                             },
                             HasSubstr("adapter.dropout is 1")},
                      BadJob{"NoSuchTarget",
                             [](auto& s) {
                               Adapted(s);
                               s.mutable_adapter()->add_targets("q_proj");
                             },
                             HasSubstr("one of query, key, value, output, gate, up, down")},
                      BadJob{"NoGate",
                             [](auto& s) {
                               Adapted(s);
                               s.mutable_adapter()->add_targets("gate");
                             },
                             HasSubstr("no gate")},
                      BadJob{"Device",
                             [](auto& s) {
                               Adapted(s);
                               s.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
                             },
                             HasSubstr("compute.device CUDA")},
                      BadJob{"Experts",
                             [](auto& s) {
                               Adapted(s);
                               v1::MoeSpec& moe =
                                   *s.mutable_model()->mutable_transformer()->mutable_moe();
                               moe.set_experts(4);
                               moe.set_top_k(1);
                             },
                             HasSubstr("model.transformer.moe")},
                      BadJob{"HalfWireToServers",
                             [](auto& s) {
                               Adapted(s);
                               s.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
                               s.mutable_update()->set_wire(v1::UpdateSpec::BF16);
                             },
                             HasSubstr("update.wire is BF16")},
                      BadJob{"DropoutOfDividedInputs",
                             [](auto& s) {
                               Adapted(s);
                               s.mutable_adapter()->add_targets("down");
                               s.mutable_adapter()->set_dropout(0.1);
                               s.set_workers(2);
                               s.mutable_parallelism()->set_tensor(2);
                             },
                             HasSubstr("each would drop others")},
                      BadJob{"GroupWithoutNames", [](auto& s) { AddGroup(s).clear_names(); },
                             HasSubstr("optimizer.groups[0].names is empty")},
                      BadJob{"GroupWithoutDifference", [](auto& s) { AddGroup(s); },
                             HasSubstr("set one of them")},
                      BadJob{"NegativeRate", [](auto& s) { AddGroup(s).set_rate(-1); },
                             HasSubstr("optimizer.groups[0].rate is -1")},
                      BadJob{"NanDecay", [](auto& s) { AddGroup(s).set_weight_decay(kNan); },
                             HasSubstr("optimizer.groups[0].weight_decay is nan")},
                      BadJob{"FrozenAtARate",
                             [](auto& s) {
                               AddGroup(s).set_rate(1);
                               s.mutable_optimizer()->mutable_groups(0)->set_frozen(true);
                             },
                             HasSubstr("no step reads")},
                      BadJob{"FrozenPerceptron",
                             [](auto& s) {
                               v1::ParameterGroup& group = *s.mutable_optimizer()->add_groups();
                               group.add_names("*");
                               group.set_frozen(true);
                             },
                             HasSubstr("give the group a rate of 0")},
                      BadJob{"DecayOfFtrl",
                             [](auto& s) {
                               s.mutable_optimizer()->set_name("ftrl");
                               v1::ParameterGroup& group = *s.mutable_optimizer()->add_groups();
                               group.add_names("*");
                               group.set_weight_decay(1);
                             },
                             HasSubstr("ftrl has l1 and l2")}),
    [](const auto& info) { return std::string(info.param.name); });

}  // namespace
}  // namespace muster
