// Training in f16 with a scaled loss: near f32, alike in one process, on servers and by all-reduce,
// and steps whose gradients overflow change nothing on any road.
#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/equivalence/dying_strategy.h"
#include "tests/equivalence/run_checkpoints.h"
#include "tests/equivalence/step_observer.h"
#include "tests/equivalence/training_jobs.h"
#include "tests/equivalence/training_run.h"
#include "worker/runtime/training/prepared_job.h"

namespace muster {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

class Float16TrainingTest : public ::testing::Test {
 protected:
  v1::JobSpec Job() {
    v1::JobSpec spec = TinyJob("transformer", "adamw", WriteTinyText(folder_));
    spec.mutable_optimizer()->set_learning_rate(0.003);
    spec.mutable_model()->mutable_transformer()->set_dropout(0.1);
    spec.mutable_model()->mutable_transformer()->set_attention_dropout(0.1);
    spec.mutable_compute()->set_type(v1::ComputeSpec::F16);
    return spec;
  }

  static v1::JobSpec ByAllReduce(v1::JobSpec spec) {
    spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
    spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
    spec.mutable_update()->set_bucket_bytes(4096);
    return spec;
  }

  // A job whose loss scale doubles with each step, from 2^12 on. At 2^15, in its fourth step,
  // gradients before the first norm, which enlarges them as much as it does the small values that
  // training starts with, are no f16 any more.
  v1::JobSpec Growing(int steps) {
    v1::JobSpec spec = Job();
    spec.mutable_stop()->set_steps(steps);
    spec.mutable_compute()->set_loss_scale_window(1);
    return spec;
  }

  // Makes an element of one tensor's gradient infinite in the third step of slot 1, in the task
  // that comes to it first: a task that takes the slot over does not overflow.
  class OverflowOnce final : public StepObserver {
   public:
    explicit OverflowOnce(const v1::JobSpec& spec)
        : tensors_(PrepareJob(spec)->model->description().tensors) {}

    void GradientReady(uint32_t slot, uint64_t clock, int unit, float loss_scale,
                       GradientSpans gradients) override {
      if (slot != 1 || clock != 2 || unit != 1 || std::exchange(done_, true)) return;
      const auto tensor = std::find_if(tensors_.begin(), tensors_.end(), [](const TensorSpec& t) {
        return t.unit == 1 && t.tied_to.empty();
      });
      gradients[tensor - tensors_.begin()][0] = INFINITY;
    }

   private:
    const std::vector<TensorSpec> tensors_;
    bool done_ = false;
  };

  using Road = std::function<std::pair<TrainedValues, std::vector<std::string>>(v1::JobSpec)>;
  struct NamedRoad {
    const char* name;
    Road train;
  };

  static std::vector<NamedRoad> Roads() {
    const auto on_servers = [](v1::JobSpec spec) {
      RunResult run = TrainOnServers(spec, {});
      return std::make_pair(run.trained[0], run.log);
    };
    return {{"one process",
             [](v1::JobSpec spec) {
               std::vector<std::string> log;
               TrainedValues values = TrainLocally(std::move(spec), nullptr, &log);
               return std::make_pair(values, log);
             }},
            {"servers", on_servers},
            {"servers, to the bit",
             [on_servers](v1::JobSpec spec) {
               spec.mutable_update()->set_deterministic(true);
               return on_servers(spec);
             }},
            {"servers, by global norm",
             [on_servers](v1::JobSpec spec) {
               spec.mutable_clipping()->set_by_global_norm(0.5);
               return on_servers(spec);
             }},
            {"servers, pushes of bf16",
             [on_servers](v1::JobSpec spec) {
               spec.mutable_update()->set_wire(v1::UpdateSpec::BF16);
               return on_servers(spec);
             }},
            // With one worker the order of pushes, and so the result, is one.
            {"servers, each push at once",
             [on_servers](v1::JobSpec spec) {
               spec.set_workers(1);
               spec.mutable_update()->set_unlimited_staleness(true);
               return on_servers(spec);
             }},
            {"all-reduce", [](v1::JobSpec spec) {
               RunResult run = TrainByAllReduce(ByAllReduce(std::move(spec)), {});
               return std::make_pair(run.trained[0], run.log);
             }}};
  }

  const TempFolder folder_;
};

TEST_F(Float16TrainingTest, NearerToF32ThanBf16) {
  v1::JobSpec spec = Job();
  spec.mutable_compute()->set_type(v1::ComputeSpec::F32);
  const TrainedValues exact = TrainLocally(spec);
  for (const float scale : {0.0f, 1.0f, 1024.0f}) {
    spec.mutable_compute()->set_type(v1::ComputeSpec::F16);
    spec.mutable_compute()->set_loss_scale(scale);
    ExpectClose(TrainLocally(spec), exact, 4e-3);
  }
}

TEST_F(Float16TrainingTest, AlikeOnAllRoads) {
  v1::JobSpec spec = Job();
  spec.mutable_compute()->set_recompute(v1::ComputeSpec::SELECTIVE);
  spec.set_micro_batches(2);
  const TrainedValues expected = TrainLocally(spec);
  ExpectClose(TrainOnServers(spec, {}).trained[0], expected, 4e-3);
  ExpectClose(TrainByAllReduce(ByAllReduce(spec), {}).trained[0], expected, 4e-3);
  spec.mutable_update()->set_deterministic(true);
  EXPECT_EQ(TrainOnServers(spec, {}).trained[0].values,
            TrainByAllReduce(ByAllReduce(spec), {}).trained[0].values);
}

// To the bit: neither weights nor what the optimizer keeps, nor its decay.
TEST_F(Float16TrainingTest, AStepThatOverflowsEverywhereChangesNothing) {
  for (const NamedRoad& road : Roads()) {
    SCOPED_TRACE(road.name);
    const auto [two, start] = road.train(Growing(2));
    const auto [three, calm] = road.train(Growing(3));
    EXPECT_THAT(calm, Not(Contains(HasSubstr("overflow"))));
    const auto [four, log] = road.train(Growing(4));
    EXPECT_THAT(log, Contains(HasSubstr("slot 0: gradients of step 4 overflow at a loss scale of "
                                        "32768 and are left out (1 such steps so far); it is "
                                        "16384 from now on")));
    EXPECT_EQ(four.values, three.values);
    EXPECT_NE(three.values, two.values);
  }
}

// As far as its scale was found by then: from the beginning again, it would overflow in other
// steps.
TEST_F(Float16TrainingTest, ARestoredJobGoesOnWithItsLossScales) {
  v1::JobSpec spec = Growing(14);
  spec.mutable_update()->set_deterministic(true);
  spec.mutable_checkpoint()->set_every_steps(7);
  spec.mutable_compute()->set_loss_scale_window(2);
  for (const bool by_all_reduce : {false, true}) {
    for (const auto wire : {v1::UpdateSpec::F32, v1::UpdateSpec::BF16}) {
      SCOPED_TRACE(absl::StrCat(by_all_reduce ? "all-reduce, " : "servers, ",
                                v1::UpdateSpec::WireType_Name(wire)));
      spec.mutable_update()->set_wire(wire);
      RunCheckpoints checkpoints;
      RunOptions options;
      options.checkpoints = &checkpoints;
      const auto train = [&] {
        return by_all_reduce ? TrainByAllReduce(ByAllReduce(spec), options)
                             : TrainOnServers(spec, options);
      };
      const RunResult undisturbed = train();
      EXPECT_THAT(undisturbed.log, Contains(HasSubstr("slot 0: gradients of step")));
      options.from = 7;
      const RunResult restored = train();
      EXPECT_THAT(restored.log, Contains(HasSubstr("slot 1 goes on with a loss scale of")));
      EXPECT_EQ(restored.trained[0].values, undisturbed.trained[0].values);
    }
  }
}

// Which steps overflow is the group's, on both roads.
TEST_F(Float16TrainingTest, BothRoadsLeaveTheSameStepsOut) {
  v1::JobSpec spec = Growing(16);
  spec.mutable_update()->set_deterministic(true);
  const RunResult on_servers = TrainOnServers(spec, {});
  const RunResult by_all_reduce = TrainByAllReduce(ByAllReduce(spec), {});
  EXPECT_EQ(on_servers.trained[0].values, by_all_reduce.trained[0].values);
  for (const RunResult* run : {&on_servers, &by_all_reduce}) {
    for (const char* slot : {"slot 0", "slot 1"}) {
      EXPECT_THAT(run->log, Contains(HasSubstr(absl::StrCat(
                                slot, ": gradients of step 4 overflow at a loss scale of 32768"))));
    }
  }
}

// With a scale of its own, it would overflow in other steps.
TEST_F(Float16TrainingTest, ATaskThatTakesASlotOverGoesOnWithTheLossScale) {
  v1::JobSpec spec = Growing(12);
  spec.mutable_update()->set_deterministic(true);
  spec.mutable_clipping()->set_by_global_norm(0.5);
  const TrainedValues undisturbed = TrainOnServers(spec, {}).trained[0];
  const Death deaths[] = {
      {.slot = 1, .at = {Hook::kAcquire, 1, 3}},
      {.slot = 0, .at = {Hook::kGradientReady, 3, 1}, .takes_effect = true},
      {.slot = 1, .at = {Hook::kGradientReady, 6, 2}},
      {.slot = 0, .at = {Hook::kEndStep, 7}, .takes_effect = true},
      {.slot = 1, .at = {Hook::kEndStep, 9}},
      {.slot = 1, .at = {Hook::kBeginStep, 12}},
  };
  for (const Death& death : deaths) {
    SCOPED_TRACE(death.at.step);
    RunOptions options;
    options.deaths = {death};
    EXPECT_EQ(TrainOnServers(spec, options).trained[0].values, undisturbed.values);
    EXPECT_EQ(TrainByAllReduce(ByAllReduce(spec), options).trained[0].values, undisturbed.values);
  }
}

// Under ZeRO stage 3, some micro-batches of a step are pushed before one overflows.
TEST_F(Float16TrainingTest, StepsThatOverflowAreLeftOutWholeWithUnitsInFlight) {
  v1::JobSpec spec = Growing(12);
  spec.mutable_update()->set_deterministic(true);
  spec.mutable_clipping()->set_by_global_norm(0.5);
  v1::JobSpec in_flight = spec;
  in_flight.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  in_flight.mutable_parallelism()->mutable_zero()->set_stage(3);
  EXPECT_EQ(TrainOnServers(in_flight, {}).trained[0].values,
            TrainOnServers(spec, {}).trained[0].values);

  in_flight.set_micro_batches(3);
  const RunResult undisturbed = TrainOnServers(in_flight, {});
  EXPECT_THAT(undisturbed.log, Contains(HasSubstr("gradients of step 4 overflow")));
  spec.set_micro_batches(3);
  ExpectClose(undisturbed.trained[0], TrainOnServers(spec, {}).trained[0], 1e-2);
  // Slots die in the step that overflows, and in the one after it.
  for (const HookCall& at : {HookCall{Hook::kGradientReady, 4, 5}, HookCall{Hook::kEndStep, 4},
                             HookCall{Hook::kGradientReady, 5, 7}}) {
    SCOPED_TRACE(testing::Message() << static_cast<int>(at.hook) << " of step " << at.step);
    RunOptions options;
    options.deaths = {{.slot = 1, .at = at, .takes_effect = true}, {.slot = 0, .at = at}};
    EXPECT_EQ(TrainOnServers(in_flight, options).trained[0].values, undisturbed.trained[0].values);
  }
}

// Pushes of the task that overflowed stand as zeros, and some of its micro-batches before that as
// they are, but the task that takes over computes a finite gradient. The clock is left out as a
// whole, or counts as a whole.
TEST_F(Float16TrainingTest, WhatATaskHasWithdrawnLeavesTheClockOutAfterItsDeath) {
  v1::JobSpec spec = Job();
  spec.mutable_stop()->set_steps(5);
  spec.mutable_update()->set_deterministic(true);
  v1::JobSpec in_flight = spec;
  in_flight.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  in_flight.mutable_parallelism()->mutable_zero()->set_stage(3);
  in_flight.set_micro_batches(2);
  for (const v1::JobSpec& job : {spec, in_flight}) {
    SCOPED_TRACE(job.parallelism().ShortDebugString());
    const auto finite = TrainOnServers(job, {}).trained[0].values;
    RunOptions options;
    OverflowOnce overflow(job);
    options.observer = &overflow;
    const RunResult overflowed = TrainOnServers(job, options);
    const auto left_out = overflowed.trained[0].values;
    ASSERT_NE(left_out, finite);
    int times_left_out = 0, times = 0;
    for (const HookCall& at : overflowed.calls[1]) {
      if (at.step != 3 || (at.hook != Hook::kGradientReady && at.hook != Hook::kEndStep)) continue;
      for (const bool takes_effect : {false, true}) {
        SCOPED_TRACE(testing::Message() << "hook " << static_cast<int>(at.hook) << ", call "
                                        << at.nth << (takes_effect ? " takes effect" : ""));
        OverflowOnce again(job);
        options.observer = &again;
        options.deaths = {{.slot = 1, .at = at, .takes_effect = takes_effect}};
        const auto values = TrainOnServers(job, options).trained[0].values;
        EXPECT_TRUE(values == left_out || values == finite);
        times_left_out += values == left_out ? 1 : 0;
        ++times;
      }
    }
    EXPECT_GT(times_left_out, 1);
    EXPECT_LT(times_left_out, times);
  }
}

// A window of one step overflows in every other one, from some step on.
TEST_F(Float16TrainingTest, LearnsWhileItsScaleIsFound) {
  for (const NamedRoad& road : Roads()) {
    SCOPED_TRACE(road.name);
    v1::JobSpec spec = Growing(60);
    spec.mutable_data()->set_holdout(0.2);
    const auto [values, log] = road.train(spec);
    int overflows = 0, growths = 0;
    for (const std::string& line : log) {
      overflows += absl::StrContains(line, "slot 0: gradients of step") ? 1 : 0;
      growths += absl::StrContains(line, "slot 0: the loss scale is") ? 1 : 0;
    }
    EXPECT_GE(overflows, 20);
    EXPECT_EQ(overflows + growths, 60) << "each step does one or the other";
    EXPECT_THAT(log, Contains(HasSubstr(absl::StrCat("slot 0: ", overflows,
                                                     " steps were left out; the loss scale is"))));
    for (const auto& [name, tensor] : values.values) {
      for (const float value : tensor) ASSERT_TRUE(std::isfinite(value)) << name;
    }
  }
}

}  // namespace
}  // namespace muster
