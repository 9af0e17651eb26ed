#include "client/compare/pass_times.h"

#include <gtest/gtest.h>

#include <string>

#include "proto/job.pb.h"
#include "proto/trace.pb.h"

namespace muster {
namespace {

void AddEvent(const std::string& name, const std::string& category, uint64_t milliseconds,
              v1::TraceChunk& chunk) {
  v1::TracePiece& piece = *chunk.mutable_piece();
  v1::TraceEvent& event = *piece.add_events();
  event.set_name(piece.names_size());
  event.set_duration_ns(milliseconds * 1'000'000);
  v1::TraceName& added = *piece.add_names();
  added.set_name(name);
  added.set_category(category);
}

v1::TraceChunk ChunkOf(uint32_t slot) {
  v1::TraceChunk chunk;
  chunk.mutable_source()->set_slot(slot);
  return chunk;
}

v1::JobSpec TwoStages(v1::ParallelismSpec::PipelineSchedule schedule) {
  v1::JobSpec spec;
  spec.set_workers(2);
  spec.set_micro_batches(4);
  spec.mutable_parallelism()->set_pipeline(2);
  spec.mutable_parallelism()->set_pipeline_schedule(schedule);
  return spec;
}

// Two steps of two stages with two units each. Of four micro-batches, a stage has 1 ms forward and
// 2 ms backward each.
PassTimes TwoSteps() {
  PassTimes times;
  for (uint32_t slot = 0; slot < 2; ++slot) {
    v1::TraceChunk chunk = ChunkOf(slot);
    const std::string first = std::to_string(2 * slot), second = std::to_string(2 * slot + 1);
    for (int step = 0; step < 2; ++step) {
      AddEvent("step", "step", 18, chunk);
      AddEvent("forward " + first, "compute", slot == 0 ? 3 : 4, chunk);
      AddEvent("backward " + first, "compute", 6, chunk);
      // The head makes both passes at once.
      if (slot == 0) AddEvent("forward " + second, "compute", 1, chunk);
      AddEvent((slot == 0 ? "backward " : "forward and backward ") + second, "compute", 2, chunk);
      AddEvent("wait", "wait", 5, chunk);
      AddEvent("optimizer", "optimizer", 2 + slot, chunk);
    }
    AddTimes(chunk, times);
  }
  return times;
}

TEST(PassTimesTest, PredictsAStepFromItsPasses) {
  const auto figures =
      FiguresOfSchedule(TwoStages(v1::ParallelismSpec::ONE_F_ONE_B), {2, 2}, TwoSteps());
  ASSERT_TRUE(figures.has_value());
  // (4 + 1) of 3 ms, and the slower optimizer.
  EXPECT_NEAR(figures->predicted_seconds, 0.015 + 0.003, 1e-9);
  EXPECT_NEAR(figures->predicted_bubble, 3.0 / 12, 1e-9);
  // Of 36 ms the stages compute 24, and step their parameters for 5.
  EXPECT_NEAR(figures->bubble, (36.0 - 5) / 24 - 1, 1e-9);
}

TEST(PassTimesTest, BackwardOfWeightsFillsTheWaits) {
  PassTimes times;
  for (uint32_t slot = 0; slot < 2; ++slot) {
    v1::TraceChunk chunk = ChunkOf(slot);
    AddEvent("step", "step", 13, chunk);
    const std::string unit = std::to_string(slot);
    for (const char* pass : {"forward ", "backward of input ", "backward of weights "}) {
      AddEvent(pass + unit, "compute", 4, chunk);
    }
    AddTimes(chunk, times);
  }
  const auto figures =
      FiguresOfSchedule(TwoStages(v1::ParallelismSpec::ZERO_BUBBLE), {1, 1}, times);
  ASSERT_TRUE(figures.has_value());
  EXPECT_NEAR(figures->predicted_seconds, 0.013, 1e-9);
  EXPECT_NEAR(figures->bubble, figures->predicted_bubble, 1e-9);
}

TEST(PassTimesTest, IsNotKnownWithoutTheTimesOfAStage) {
  const v1::JobSpec spec = TwoStages(v1::ParallelismSpec::GPIPE);
  PassTimes times = TwoSteps();
  EXPECT_TRUE(FiguresOfSchedule(spec, {2, 2}, times).has_value());
  EXPECT_FALSE(FiguresOfSchedule(spec, {4}, times).has_value());
  times.erase(1);
  EXPECT_FALSE(FiguresOfSchedule(spec, {2, 2}, times).has_value());
  EXPECT_FALSE(FiguresOfSchedule(spec, {2, 2}, {}).has_value());
}

TEST(PassTimesTest, ServersAreNoSlots) {
  v1::TraceChunk chunk = ChunkOf(0);
  chunk.mutable_source()->set_server_id("server-0");
  AddEvent("step", "step", 1, chunk);
  PassTimes times;
  AddTimes(chunk, times);
  EXPECT_TRUE(times.empty());
}

}  // namespace
}  // namespace muster
