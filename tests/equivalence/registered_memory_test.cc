// Servers that read gradients where they were computed, and write parameters where they are
// computed with: training comes to the very bits that it comes to by messages, also where tasks are
// lost on the way. Every gradient is overwritten with NaN as soon as it may be (PoisoningStrategy).
#include <string>

#include "common/files/temp_folder.h"
#include "gtest/gtest.h"
#include "tests/equivalence/dying_strategy.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"

namespace muster {
namespace {

struct MemoryCase {
  const char* name;
  v1::ComputeSpec::Type compute = v1::ComputeSpec::F32;
  v1::UpdateSpec::WireType wire = v1::UpdateSpec::F32;
  double max_norm = 0;
};

class RegisteredMemoryTest : public ::testing::TestWithParam<MemoryCase> {
 protected:
  v1::JobSpec Job() const {
    v1::JobSpec spec = TinyJob("transformer", "adamw", WriteTinyText(folder_));
    spec.set_workers(3);
    spec.mutable_stop()->set_steps(20);
    spec.mutable_compute()->set_type(GetParam().compute);
    spec.mutable_update()->set_wire(GetParam().wire);
    spec.mutable_update()->set_deterministic(true);
    if (GetParam().max_norm > 0) spec.mutable_clipping()->set_by_global_norm(GetParam().max_norm);
    return spec;
  }

  const TempFolder folder_;
};

TEST_P(RegisteredMemoryTest, TrainsToTheBitsOfMessages) {
  const v1::JobSpec spec = Job();
  const TrainedValues expected = TrainOnServers(spec, {}).trained[0];
  ASSERT_FALSE(expected.values.empty());
  const RunResult run = TrainOnServers(spec, {.reach = Reach::kRegisteredMemory});
  for (const TrainedValues& slot : run.trained) EXPECT_EQ(slot.values, expected.values);
}

// Not with 16 bits on the wire: what a lost task's rounding owed is lost with it.
class LostTaskTest : public RegisteredMemoryTest {};

TEST_P(LostTaskTest, LeavesTheSameBits) {
  v1::JobSpec spec = Job();
  spec.mutable_stop()->set_steps(8);
  const TrainedValues expected = TrainOnServers(spec, {}).trained[0];
  ASSERT_FALSE(expected.values.empty());
  // While servers write parameters, before they read gradients, while they do, and afterwards.
  for (const HookCall& at :
       {HookCall{Hook::kAcquire, 1, 2}, HookCall{Hook::kBeforeBackward, 1},
        HookCall{Hook::kGradientReady, 1, 1}, HookCall{Hook::kGradientReady, 1, 2},
        HookCall{Hook::kEndStep, 1}, HookCall{Hook::kGradientReady, 3, 2}}) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(at.hook) << " of step " << at.step);
    RunOptions options = {.reach = Reach::kRegisteredMemory};
    HookCall later = at;
    ++later.step;
    options.deaths = {{0, at, true}, {1, at, false}, {0, later, false}};
    const RunResult run = TrainOnServers(spec, options);
    for (const TrainedValues& slot : run.trained) EXPECT_EQ(slot.values, expected.values);
  }
}

constexpr MemoryCase kF32 = {"F32"};
constexpr MemoryCase kClipped = {"Clipped", v1::ComputeSpec::F32, v1::UpdateSpec::F32, 0.5};
constexpr MemoryCase kBf16 = {"Bf16", v1::ComputeSpec::BF16};
constexpr MemoryCase kBf16OnTheWire = {"Bf16OnTheWire", v1::ComputeSpec::F32, v1::UpdateSpec::BF16};

INSTANTIATE_TEST_SUITE_P(Types, RegisteredMemoryTest,
                         ::testing::Values(kF32, kClipped, kBf16, kBf16OnTheWire),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Types, LostTaskTest, ::testing::Values(kF32, kClipped, kBf16),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster
