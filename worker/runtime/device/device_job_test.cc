// Jobs whose tasks compute on emulated devices, against the same jobs on processors.
#include <atomic>
#include <cmath>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/device/device_fault.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/device/linked_device_training.h"
#include "worker/runtime/task/job_in_threads_for_testing.h"

namespace muster {
namespace {

constexpr int kJobSteps = 12;

std::unique_ptr<DeviceTraining> EmulatedDevices() {
  LinkedDeviceOptions options;
  options.make_communicator = [](Communicator& host) { return host.Split(0, host.rank()); };
  return MakeLinkedDeviceTraining(std::move(options));
}

std::string TextFile() {
  const std::string path = ::testing::TempDir() + "/text";
  std::ofstream text(path);
  for (int i = 0; i < 120; ++i) text << "the " << i % 7 << " cats of house " << i * 37 % 90 << "\n";
  return path;
}

v1::JobSpec Spec(uint32_t workers, const std::string& more = "") {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      absl::StrCat(R"pb(
                     model {
                       transformer {
                         layers: 1
                         width: 16
                         heads: 2
                         context: 8
                         dropout: 0.1
                         attention_dropout: 0.1
                       }
                     }
                     optimizer { name: "adamw" learning_rate: 0.01 epsilon: 1e-3 weight_decay: 0.1 }
                     schedule { name: "linear" warmup_steps: 3 }
                     clipping { by_global_norm: 0.5 }
                     update {
                       dense: ALL_REDUCE
                       sparse: ALL_REDUCE
                       first_bucket_bytes: 2048
                       bucket_bytes: 8192
                     }
                     batch_size: 4
                     micro_batches: 2
                     stop { steps: 12 }
                     seed: 7
                   )pb",
                   more),
      &spec));
  spec.mutable_data()->mutable_sequences()->set_path(TextFile());
  spec.mutable_data()->set_holdout(0.1);
  spec.mutable_evaluation()->set_every_steps(4);
  spec.mutable_evaluation()->set_max_examples(12);
  spec.set_workers(workers);
  return spec;
}

v1::JobSpec OnDevice(v1::JobSpec spec) {
  spec.mutable_compute()->set_device(v1::ComputeSpec::CUDA);
  return spec;
}

// Held-out losses, by clock.
std::map<uint64_t, double> Curve(const JobInThreads& job) {
  std::map<uint64_t, double> curve;
  for (const auto& [clock, result] : job.meeting.evaluations()) curve[clock] = result.loss();
  return curve;
}

std::map<uint64_t, double> TrainInThreads(const v1::JobSpec& spec) {
  const auto devices = EmulatedDevices();
  JobInThreads job(spec);
  job.SetDevices(*devices);
  job.StartAll();
  for (uint32_t slot = 0; slot < spec.workers(); ++slot) {
    EXPECT_EQ(job.Wait(slot), absl::OkStatus());
  }
  return Curve(job);
}

void ExpectNearCurve(const std::map<uint64_t, double>& got,
                     const std::map<uint64_t, double>& expected, double tolerance) {
  ASSERT_EQ(got.size(), expected.size());
  for (const auto& [clock, loss] : expected) {
    EXPECT_NEAR(got.at(clock), loss, tolerance * loss) << "at clock " << clock;
  }
  EXPECT_LT(got.rbegin()->second, got.begin()->second - 0.05) << "it learns";
}

TEST(DeviceJobTest, OneWorkerTrainsAsOnProcessors) {
  const v1::JobSpec spec = Spec(1);
  ExpectNearCurve(TrainInThreads(OnDevice(spec)), TrainInThreads(spec), 1e-4);
}

// What a job leaves that two workers have trained on devices.
struct TrainedByTwo {
  std::map<uint64_t, double> curve;
  // By slot.
  std::vector<std::vector<v1::ReportProgressRequest>> progress;
};

// Trains once in a process.
const TrainedByTwo& TwoWorkers() {
  static const TrainedByTwo* const trained = [] {
    auto* const two = new TrainedByTwo();
    const auto devices = EmulatedDevices();
    JobInThreads job(OnDevice(Spec(2)));
    job.SetDevices(*devices);
    job.StartAll();
    for (uint32_t slot = 0; slot < 2; ++slot) EXPECT_EQ(job.Wait(slot), absl::OkStatus());
    two->curve = Curve(job);
    for (uint32_t slot = 0; slot < 2; ++slot) two->progress.push_back(job.meeting.progress(slot));
    return two;
  }();
  return *trained;
}

TEST(DeviceJobTest, TwoWorkersTrainAsOneOnProcessors) {
  ExpectNearCurve(TwoWorkers().curve, TrainInThreads(Spec(1)), 1e-4);
}

void ExpectHalfPrecisionIsNear(const std::string& compute) {
  ExpectNearCurve(TrainInThreads(OnDevice(Spec(2, compute))), TrainInThreads(Spec(1, compute)),
                  2e-2);
}

TEST(DeviceJobTest, HalfPrecisionAndRecomputationTrainAsOnProcessors) {
  ExpectHalfPrecisionIsNear("compute { type: BF16 recompute: FULL }");
}

TEST(DeviceJobTest, HalfPrecisionAndRecomputationTrainAsOnProcessorsExhaustive) {
  ExpectHalfPrecisionIsNear("compute { type: F16 recompute: SELECTIVE }");
}

void ExpectZeroStagesTrainAsOne(const std::vector<uint32_t>& stages) {
  const std::map<uint64_t, double> alone = TrainInThreads(Spec(1));
  for (const uint32_t stage : stages) {
    v1::JobSpec spec = OnDevice(Spec(2));
    spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
    spec.mutable_checkpoint()->set_every_steps(5);
    ExpectNearCurve(TrainInThreads(spec), alone, 1e-4);
  }
}

TEST(DeviceJobTest, EveryZeroStageTrainsAsOneWorkerOnProcessors) {
  ExpectZeroStagesTrainAsOne({3});
}

TEST(DeviceJobTest, EveryZeroStageTrainsAsOneWorkerOnProcessorsExhaustive) {
  ExpectZeroStagesTrainAsOne({1, 2});
}

TEST(DeviceJobTest, TensorRanksTrainAsOneWorkerOnProcessors) {
  v1::JobSpec spec = OnDevice(Spec(2));
  spec.mutable_parallelism()->set_tensor(2);
  ExpectNearCurve(TrainInThreads(spec), TrainInThreads(Spec(1)), 1e-4);
}

v1::JobSpec InPipeline(v1::JobSpec spec, v1::ParallelismSpec::PipelineSchedule schedule) {
  spec.mutable_model()->mutable_transformer()->set_layers(2);
  spec.set_workers(2);
  spec.mutable_parallelism()->set_pipeline(2);
  spec.mutable_parallelism()->set_pipeline_schedule(schedule);
  return spec;
}

void ExpectPipelinesTrainAsOne(
    const std::vector<v1::ParallelismSpec::PipelineSchedule>& schedules) {
  v1::JobSpec alone = Spec(1);
  alone.mutable_model()->mutable_transformer()->set_layers(2);
  const std::map<uint64_t, double> expected = TrainInThreads(alone);
  for (const auto schedule : schedules) {
    v1::JobSpec spec = OnDevice(InPipeline(Spec(1), schedule));
    spec.mutable_checkpoint()->set_every_steps(5);
    ExpectNearCurve(TrainInThreads(spec), expected, 1e-4);
  }
}

TEST(DeviceJobTest, EveryPipelineTrainsAsOneWorkerOnProcessors) {
  ExpectPipelinesTrainAsOne({v1::ParallelismSpec::INTERLEAVED});
}

TEST(DeviceJobTest, EveryPipelineTrainsAsOneWorkerOnProcessorsExhaustive) {
  ExpectPipelinesTrainAsOne({v1::ParallelismSpec::ONE_F_ONE_B, v1::ParallelismSpec::GPIPE,
                             v1::ParallelismSpec::ZERO_BUBBLE});
}

v1::JobSpec UnderZero(uint32_t stage) {
  v1::JobSpec spec = Spec(2);
  spec.mutable_parallelism()->mutable_zero()->set_stage(stage);
  return spec;
}

// No rank has the slices of the lost one, or its stage; the coordinator takes the job back.
void LoseForGood(const v1::JobSpec& on_processors) {
  const v1::JobSpec spec = OnDevice(on_processors);
  const auto devices = EmulatedDevices();
  JobInThreads job(spec);
  job.SetDevices(*devices);
  std::atomic<bool> killed = false;
  job.SetHook([&](uint32_t slot, int call, CollectiveCall&) {
    if (slot == 1 && call == 61 && !killed.exchange(true)) job.Kill(1);
  });
  job.StartAll();
  EXPECT_EQ(job.Wait(1).code(), absl::StatusCode::kAborted);
  job.meeting.AwaitCollectives(0);
  job.meeting.Lose(0);
  EXPECT_EQ(job.Wait(0).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(job.meeting.rounds().size(), 1);
}

TEST(DeviceJobTest, ARankWhoseShardNobodyElseHasWaitsForTheCoordinatorAfterALoss) {
  LoseForGood(UnderZero(3));
  LoseForGood(InPipeline(Spec(1), v1::ParallelismSpec::ONE_F_ONE_B));
}

TEST(DeviceJobTest, ARankWhoseShardNobodyElseHasWaitsForTheCoordinatorAfterALossExhaustive) {
  LoseForGood(UnderZero(1));
}

// Tells whether a slot dies before a call, the n-th of its task.
using Moment = std::function<bool(int call, const CollectiveCall& made)>;

Moment AtCall(int lost_at) {
  return [lost_at](int call, const CollectiveCall&) { return call == lost_at; };
}

// Tells of the n-th call with a label, in the middle of a step that no rank has made.
Moment AtCallNamed(const std::string& label, int lost_at) {
  return [label, left = lost_at](int, const CollectiveCall& made) mutable {
    return made.label == label && --left == 0;
  };
}

// Slot 1 dies and is filled again.
void LoseAndReplace(const v1::JobSpec& spec, Moment moment,
                    const std::map<uint64_t, double>& undisturbed) {
  const auto devices = EmulatedDevices();
  JobInThreads job(spec);
  job.SetDevices(*devices);
  std::atomic<bool> killed = false;
  job.SetHook([&](uint32_t slot, int call, CollectiveCall& made) {
    if (slot == 1 && !killed && moment(call, made)) {
      killed = true;
      job.Kill(1);
    }
  });
  job.StartAll();
  ASSERT_EQ(job.Wait(1).code(), absl::StatusCode::kAborted);
  job.Start(1);
  for (uint32_t slot = 0; slot < spec.workers(); ++slot) {
    EXPECT_EQ(job.Wait(slot), absl::OkStatus());
  }
  ASSERT_EQ(job.meeting.rounds().size(), 2);
  EXPECT_TRUE(job.meeting.rounds()[1].source_slot.has_value()) << "the others go on";
  ExpectNearCurve(Curve(job), undisturbed, 1e-6);
}

// Checkpoints change nothing.
void ExpectNothingIsLost(int lost_at) {
  v1::JobSpec spec = OnDevice(Spec(2));
  spec.mutable_checkpoint()->set_every_steps(5);
  LoseAndReplace(spec, AtCall(lost_at), TwoWorkers().curve);
}

TEST(DeviceJobTest, ALostWorkerIsReplacedAndNothingIsLost) { ExpectNothingIsLost(61); }

TEST(DeviceJobTest, ALostWorkerIsReplacedAndNothingIsLostExhaustive) { ExpectNothingIsLost(9); }

// Other ranks have the slices of the lost one, or its share of the layers.
TEST(DeviceJobTest, ALostShardIsTakenFromItsReplica) {
  v1::JobSpec spec = OnDevice(Spec(4));
  spec.set_batch_size(8);
  spec.mutable_parallelism()->mutable_zero()->set_stage(2);
  spec.mutable_parallelism()->mutable_zero()->set_shard(2);
  LoseAndReplace(spec, AtCallNamed("gradients of unit 0", 9), TrainInThreads(spec));
}

TEST(DeviceJobTest, ALostShardIsTakenFromItsReplicaExhaustive) {
  v1::JobSpec spec = OnDevice(Spec(4));
  spec.set_batch_size(8);
  spec.mutable_parallelism()->set_tensor(2);
  LoseAndReplace(spec, AtCallNamed("bucket 0", 5), TrainInThreads(spec));
}

// Its process could do no better in another round, and the others have done nothing wrong.
TEST(DeviceJobTest, AFaultyDeviceEndsItsTaskAndNoOther) {
  v1::JobSpec spec = OnDevice(Spec(2));
  spec.mutable_stop()->set_steps(4);
  std::atomic<bool> faulty = true;
  LinkedDeviceOptions options;
  options.make_communicator =
      [&](Communicator& host) -> absl::StatusOr<std::unique_ptr<Communicator>> {
    if (host.rank() == 1 && faulty.exchange(false)) return DeviceFaultError("ECC error");
    return host.Split(0, host.rank());
  };
  const auto devices = MakeLinkedDeviceTraining(std::move(options));
  JobInThreads job(spec);
  job.SetDevices(*devices);
  job.StartAll();
  EXPECT_EQ(job.Wait(1), DeviceFaultError("ECC error"));
  job.meeting.Lose(1);
  job.Start(1);
  for (uint32_t slot = 0; slot < 2; ++slot) EXPECT_EQ(job.Wait(slot), absl::OkStatus());
}

// Gradients are added as they are scaled, so that a scale of its own would spoil all ranks' sums.
TEST(DeviceJobTest, AReplacedWorkerTakesOverTheLossScaleThatWasFound) {
  const v1::JobSpec spec = OnDevice(Spec(2, "compute { type: F16 loss_scale_window: 4 }"));
  LoseAndReplace(spec, AtCall(61), TrainInThreads(spec));
}

TEST(DeviceJobTest, ProgressTellsOfStepsAndTraffic) {
  for (uint32_t slot = 0; slot < 2; ++slot) {
    uint64_t steps = 0, examples = 0, sent = 0;
    const auto& reports = TwoWorkers().progress[slot];
    ASSERT_FALSE(reports.empty());
    for (const auto& report : reports) {
      steps += report.steps();
      examples += report.examples();
      sent += report.bytes_sent();
    }
    EXPECT_EQ(steps, kJobSteps);
    EXPECT_EQ(examples, kJobSteps * 2);
    EXPECT_GT(sent, 0);
    // The last step's.
    const double labels = static_cast<double>(reports.back().loss_weight());
    EXPECT_EQ(labels, 2 * 8);
    EXPECT_GT(reports.back().loss_sum() / labels, 1);
    EXPECT_LT(reports.back().loss_sum() / labels, 6);
  }
}

TEST(DeviceJobTest, AProgramWithoutDevicesSaysSo) {
  JobInThreads job(OnDevice(Spec(1)));
  job.StartAll();
  const absl::Status end = job.Wait(0);
  EXPECT_EQ(end.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(absl::StrContains(end.message(), "built without CUDA")) << end;
}

}  // namespace
}  // namespace muster
