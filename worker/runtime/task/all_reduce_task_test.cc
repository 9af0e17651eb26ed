#include "worker/runtime/task/all_reduce_task.h"

#include <atomic>
#include <fstream>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "absl/synchronization/notification.h"
#include "common/files/temp_folder.h"
#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "proto/task_service.pb.h"
#include "worker/runtime/task/job_in_threads_for_testing.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Pair;

constexpr int kSteps = 40;

v1::JobSpec Spec(uint32_t workers) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      R"pb(
        model { mlp { hidden: 16 classes: 3 } }
        data {
          synthetic_classification { examples: 600 features: 8 classes: 3 seed: 5 }
          holdout: 0.2
        }
        optimizer { name: "adam" learning_rate: 0.01 }
        update {
          dense: ALL_REDUCE
          sparse: ALL_REDUCE
          deterministic: true
          first_bucket_bytes: 64
          bucket_bytes: 256
        }
        batch_size: 48
        stop { steps: 40 }
        seed: 7
      )pb",
      &spec));
  spec.set_workers(workers);
  return spec;
}

std::vector<uint64_t> UndisturbedChecksums(const v1::JobSpec& spec) {
  JobInThreads job(spec);
  job.StartAll();
  for (uint32_t slot = 0; slot < spec.workers(); ++slot) {
    EXPECT_EQ(job.Wait(slot), absl::OkStatus());
  }
  return job.Checksums();
}

TEST(AllReduceTaskTest, RanksTrainTogetherAndKeepOneResult) {
  const v1::JobSpec spec = Spec(2);
  JobInThreads job(spec);
  job.StartAll();
  ASSERT_EQ(job.Wait(0), absl::OkStatus());
  ASSERT_EQ(job.Wait(1), absl::OkStatus());

  const auto rounds = job.meeting.rounds();
  ASSERT_EQ(rounds.size(), 1);
  EXPECT_FALSE(rounds[0].source_slot.has_value());
  const auto checkpoints = job.meeting.checkpoints();
  ASSERT_EQ(checkpoints.size(), 1);
  EXPECT_EQ(checkpoints[0].clock(), kSteps);
  EXPECT_EQ(checkpoints[0].task().slot(), 0);
  EXPECT_EQ(checkpoints[0].files_size(), 8);
  for (uint32_t slot = 0; slot < 2; ++slot) {
    uint64_t steps = 0, examples = 0, sent = 0;
    for (const auto& report : job.meeting.progress(slot)) {
      steps += report.steps();
      examples += report.examples();
      sent += report.bytes_sent();
    }
    EXPECT_EQ(steps, kSteps);
    EXPECT_EQ(examples, kSteps * 24);
    // Between two, the ring's 2 (W - 1) / W is 1: f32 gradients of 8 x 16 + 16 + 16 x 3 + 3
    // parameters.
    EXPECT_EQ(sent, kSteps * 195 * sizeof(float));
  }
  const auto evaluations = job.meeting.evaluations();
  ASSERT_EQ(evaluations.count(kSteps), 1);
  EXPECT_EQ(evaluations.at(kSteps).examples(), 120);
  // Guessing gives ln 3.
  EXPECT_LT(evaluations.at(kSteps).loss(), 0.8);

  // The same job in one process.
  JobInThreads alone(Spec(1));
  alone.StartAll();
  ASSERT_EQ(alone.Wait(0), absl::OkStatus());
  EXPECT_NEAR(alone.meeting.evaluations().at(kSteps).loss(), evaluations.at(kSteps).loss(), 1e-5);
}

TEST(AllReduceTaskTest, ARunRepeatsBitForBit) {
  const std::vector<uint64_t> checksums = UndisturbedChecksums(Spec(3));
  EXPECT_EQ(checksums.size(), 8);
  EXPECT_EQ(UndisturbedChecksums(Spec(3)), checksums);
}

// Rows of sparse tables are all-reduced with the rest; gradients come from two micro-batches.
v1::JobSpec SparseSpec() {
  v1::JobSpec spec = Spec(3);
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(
      R"pb(
        model { deep_fm { embedding_dim: 4 hidden: 8 } }
        data { synthetic_clicks { examples: 600 fields: 3 cardinality: 20 numeric: 2 seed: 1 } }
        micro_batches: 2
      )pb",
      &spec));
  return spec;
}

// Each task keeps a copy of another one's slice.
v1::JobSpec CopiesSpec() {
  v1::JobSpec spec = Spec(3);
  spec.set_micro_batches(2);
  v1::ZeroSpec& zero = *spec.mutable_parallelism()->mutable_zero();
  zero.set_stage(3);
  zero.set_redundancy(1);
  return spec;
}

enum class Kind { kDense, kSparse, kCopies };

// A slot dies before its n-th call, wherever in a step that is, and is filled again.
class LostTaskTest : public ::testing::TestWithParam<std::tuple<int, Kind>> {};

TEST_P(LostTaskTest, TheOthersGoOnInPlaceToTheSameBits) {
  const auto [lost_at, kind] = GetParam();
  v1::JobSpec spec = kind == Kind::kSparse   ? SparseSpec()
                     : kind == Kind::kCopies ? CopiesSpec()
                                             : Spec(3);
  spec.mutable_checkpoint()->set_every_steps(7);
  spec.mutable_evaluation()->set_every_steps(10);
  JobInThreads job(spec);
  std::atomic<bool> killed = false;
  job.SetHook([&, number = lost_at](uint32_t slot, int call, CollectiveCall&) {
    if (slot == 1 && call == number && !killed.exchange(true)) job.Kill(1);
  });
  job.StartAll();
  EXPECT_EQ(job.Wait(1).code(), absl::StatusCode::kAborted);
  job.Start(1);
  for (uint32_t slot = 0; slot < 3; ++slot) EXPECT_EQ(job.Wait(slot), absl::OkStatus());

  const auto rounds = job.meeting.rounds();
  ASSERT_EQ(rounds.size(), 2);
  EXPECT_THAT(rounds[1].slots, ElementsAre(0, 1, 2));
  static auto& undisturbed = *new std::map<Kind, std::vector<uint64_t>>();
  if (undisturbed.count(kind) == 0) undisturbed[kind] = UndisturbedChecksums(spec);
  EXPECT_EQ(job.Checksums(), undisturbed.at(kind));
  // Who failed told of its calls, and its log names who was lost.
  EXPECT_FALSE(job.meeting.collectives(0).empty());
  bool named = false;
  for (const std::string& line : job.log()) {
    named |= absl::StrContains(line, "slot 0 meets the others again") &&
             absl::StrContains(line, "slot 1");
  }
  EXPECT_TRUE(named) << ::testing::PrintToString(job.log());
  // So do they where they meet. Who is new, and who was never told why, says nothing.
  EXPECT_THAT(rounds[0].failures, IsEmpty());
  EXPECT_THAT(rounds[1].failures,
              ElementsAre(Pair(0, HasSubstr("slot 1")), Pair(2, HasSubstr("slot 1"))));
}

INSTANTIATE_TEST_SUITE_P(Calls, LostTaskTest,
                         ::testing::Combine(::testing::Range(0, 230, 23),
                                            ::testing::Values(Kind::kDense, Kind::kSparse,
                                                              Kind::kCopies)));

// Two data ranks of two tensor ranks each. Its four slots compute half of the heads each.
v1::JobSpec TensorRanksSpec(const std::string& text) {
  v1::JobSpec spec = Spec(4);
  spec.mutable_parallelism()->set_tensor(2);
  EXPECT_TRUE(google::protobuf::TextFormat::MergeFromString(
      R"pb(
        model { transformer { layers: 1 width: 8 heads: 2 context: 4 feed_forward: 8 } }
        batch_size: 8
        stop { steps: 10 }
        evaluation { every_steps: 5 }
        checkpoint { every_steps: 4 }
      )pb",
      &spec));
  spec.mutable_data()->clear_synthetic_classification();
  spec.mutable_data()->mutable_sequences()->set_path(text);
  return spec;
}

TEST(AllReduceTaskTest, TensorRanksReportOnceAndGoOnInPlace) {
  const TempFolder folder;
  const std::string text = folder.path() + "/text";
  std::ofstream(text) << std::string(300, 'a') << std::string(300, 'b');
  const v1::JobSpec spec = TensorRanksSpec(text);
  JobInThreads whole(spec);
  whole.StartAll();
  for (uint32_t slot = 0; slot < 4; ++slot) ASSERT_EQ(whole.Wait(slot), absl::OkStatus());
  for (uint32_t slot = 0; slot < 4; ++slot) {
    uint64_t steps = 0, examples = 0;
    for (const auto& report : whole.meeting.progress(slot)) {
      steps += report.steps();
      examples += report.examples();
    }
    EXPECT_EQ(steps, 10);
    EXPECT_EQ(examples, slot % 2 == 0 ? 40 : 0) << slot;
  }
  v1::JobSpec single = spec;
  single.set_workers(1);
  single.clear_parallelism();
  JobInThreads alone(single);
  alone.StartAll();
  ASSERT_EQ(alone.Wait(0), absl::OkStatus());
  for (const auto& [clock, result] : alone.meeting.evaluations()) {
    EXPECT_EQ(whole.meeting.evaluations().at(clock).examples(), result.examples());
    EXPECT_NEAR(whole.meeting.evaluations().at(clock).loss(), result.loss(), 1e-5);
  }
  for (const int lost_at : {0, 30, 61, 92, 123, 154}) {
    SCOPED_TRACE(lost_at);
    JobInThreads job(spec);
    std::atomic<bool> killed = false;
    job.SetHook([&](uint32_t slot, int call, CollectiveCall&) {
      if (slot == 3 && call == lost_at && !killed.exchange(true)) job.Kill(3);
    });
    job.StartAll();
    EXPECT_EQ(job.Wait(3).code(), absl::StatusCode::kAborted);
    job.Start(3);
    for (uint32_t slot = 0; slot < 4; ++slot) EXPECT_EQ(job.Wait(slot), absl::OkStatus());
    EXPECT_EQ(job.meeting.rounds().size(), 2);
    EXPECT_EQ(job.Checksums(), whole.Checksums());
  }
}

// Its end must not be news that hides the error of the slot whose loss it saw.
TEST(AllReduceTaskTest, ARankOfAShardGroupWaitsForTheCoordinatorAfterALoss) {
  v1::JobSpec spec = Spec(2);
  spec.mutable_parallelism()->mutable_zero()->set_stage(1);
  JobInThreads job(spec);
  std::atomic<bool> killed = false;
  job.SetHook([&](uint32_t slot, int call, CollectiveCall&) {
    if (slot == 1 && call == 25 && !killed.exchange(true)) job.Kill(1);
  });
  job.StartAll();
  EXPECT_EQ(job.Wait(1).code(), absl::StatusCode::kAborted);
  job.meeting.AwaitCollectives(0);
  // The coordinator takes the job back.
  job.meeting.Lose(0);
  const absl::Status end = job.Wait(0);
  EXPECT_EQ(end.code(), absl::StatusCode::kAborted) << end;
  EXPECT_EQ(job.meeting.rounds().size(), 1);
}

// Its files would take the place of those that are committed.
TEST(AllReduceTaskTest, ACommittedCutIsNotTakenAgainByTheNextRound) {
  v1::JobSpec spec = Spec(2);
  spec.mutable_checkpoint()->set_every_steps(10);
  JobInThreads job(spec);
  std::atomic<bool> killed = false;
  job.SetHook([&](uint32_t slot, int, CollectiveCall& made) {
    // Rank 0 has committed the last cut, for which all wait, and says so.
    if (slot == 0 && made.label == "commit of the cut" && !killed.exchange(true)) job.Kill(1);
  });
  job.StartAll();
  EXPECT_EQ(job.Wait(1).code(), absl::StatusCode::kAborted);
  job.Start(1);
  for (uint32_t slot = 0; slot < 2; ++slot) EXPECT_EQ(job.Wait(slot), absl::OkStatus());
  const auto rounds = job.meeting.rounds();
  ASSERT_EQ(rounds.size(), 2);
  EXPECT_EQ(rounds[1].clock, 40);
  std::vector<uint64_t> committed;
  for (const auto& request : job.meeting.checkpoints()) committed.push_back(request.clock());
  EXPECT_THAT(committed, ElementsAre(10, 20, 30, 40));
  EXPECT_EQ(job.Checksums(), UndisturbedChecksums(spec));
}

TEST(AllReduceTaskTest, ATaskLostWhileOthersWaitForItsEvaluationIsReplaced) {
  v1::JobSpec spec = Spec(2);
  spec.mutable_evaluation()->set_every_steps(10);
  JobInThreads job(spec);
  job.meeting.LoseInEvaluation(1);
  job.StartAll();
  EXPECT_EQ(job.Wait(1).code(), absl::StatusCode::kAborted);
  job.Start(1);
  EXPECT_EQ(job.Wait(0), absl::OkStatus());
  EXPECT_EQ(job.Wait(1), absl::OkStatus());
  const auto rounds = job.meeting.rounds();
  ASSERT_EQ(rounds.size(), 2);
  EXPECT_EQ(rounds[1].source_slot, 0);
  EXPECT_EQ(rounds[1].clock, 10);
  EXPECT_EQ(job.meeting.evaluations().size(), 4);
  EXPECT_EQ(job.Checksums(), UndisturbedChecksums(spec));
}

// Slot 0 dies, is missed, and comes back.
void ExpectGoesOnSmaller(const v1::JobSpec& spec, int calls_a_step) {
  JobInThreads job(spec);
  absl::Notification gone, back;
  std::atomic<bool> killed = false, asked = false;
  job.SetHook([&](uint32_t slot, int call, CollectiveCall&) {
    if (slot == 0 && call == 5 * calls_a_step && !killed.exchange(true)) {
      job.Kill(0);
      job.meeting.GoOnWithout(0);
    }
    if (slot == 1 && call == 15 * calls_a_step && !asked.exchange(true)) {
      gone.Notify();
      back.WaitForNotification();
      job.meeting.AskToMeet();
      job.meeting.AwaitAnsweredReport(1);
    }
  });
  job.StartAll();
  EXPECT_EQ(job.Wait(0).code(), absl::StatusCode::kAborted);
  gone.WaitForNotification();
  job.Start(0);
  back.Notify();
  for (uint32_t slot = 0; slot < 3; ++slot) EXPECT_EQ(job.Wait(slot), absl::OkStatus());

  const auto rounds = job.meeting.rounds();
  ASSERT_EQ(rounds.size(), 3);
  EXPECT_THAT(rounds[1].slots, ElementsAre(1, 2));
  EXPECT_THAT(rounds[2].slots, ElementsAre(0, 1, 2));
  EXPECT_GT(rounds[2].clock, rounds[1].clock);
  EXPECT_EQ(job.meeting.evaluations().at(kSteps).examples(), 120);
  // The examples of a step stayed the same, so the result does but for rounding.
  JobInThreads whole(spec);
  whole.StartAll();
  for (uint32_t slot = 0; slot < 3; ++slot) ASSERT_EQ(whole.Wait(slot), absl::OkStatus());
  EXPECT_NEAR(job.meeting.evaluations().at(kSteps).loss(),
              whole.meeting.evaluations().at(kSteps).loss(), 1e-5);
}

TEST(AllReduceTaskTest, AJobGoesOnSmallerAndTakesASlotInAgain) {
  ExpectGoesOnSmaller(Spec(3), /*calls_a_step=*/4);
}

TEST(AllReduceTaskTest, AShardGroupGoesOnSmallerAndTakesASlotInAgain) {
  v1::JobSpec spec = CopiesSpec();
  spec.set_min_workers(2);
  ExpectGoesOnSmaller(spec, /*calls_a_step=*/12);
}

TEST(AllReduceTaskTest, AStuckTaskTellsOfItsCallsWhenAsked) {
  JobInThreads job(Spec(2));
  job.meeting.WantCollectives(true);
  v1::CollectiveRecord stuck_in;
  job.SetHook([&](uint32_t slot, int call, CollectiveCall&) {
    if (slot != 1 || call != 30) return;
    // Slot 0 waits in this call meanwhile, or comes to it.
    do {
      job.meeting.AwaitAnsweredReport(0);
      const auto told = job.meeting.collectives(0);
      if (!told.empty()) stuck_in = *told.back().calls().rbegin();
    } while (stuck_in.duration_us() != -1);
    job.meeting.WantCollectives(false);
  });
  job.StartAll();
  EXPECT_EQ(job.Wait(0), absl::OkStatus());
  EXPECT_EQ(job.Wait(1), absl::OkStatus());
  EXPECT_EQ(stuck_in.group(), "world");
  EXPECT_EQ(stuck_in.duration_us(), -1);
  EXPECT_EQ(stuck_in.error(), "");
}

TEST(AllReduceTaskTest, DifferentCallsEndAllTasks) {
  JobInThreads job(Spec(2));
  job.SetHook([&](uint32_t slot, int call, CollectiveCall& made) {
    if (slot == 1 && call == 25) made.kind = Collective::kBarrier;
  });
  job.StartAll();
  const absl::Status end = job.Wait(0);
  EXPECT_EQ(end.code(), absl::StatusCode::kFailedPrecondition) << end;
  EXPECT_THAT(end.message(), HasSubstr("slot 1"));
  EXPECT_EQ(job.Wait(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(job.meeting.rounds().size(), 1);
  EXPECT_FALSE(job.meeting.collectives(0).empty());
}

TEST(AllReduceTaskTest, DifferentBucketsEndAllTasksBeforeTheyTrain) {
  const v1::JobSpec spec = Spec(2);
  v1::JobSpec other = spec;
  other.mutable_update()->set_bucket_bytes(128);
  JobInThreads job(spec);
  job.SetSpec(1, other);
  job.StartAll();
  for (uint32_t slot = 0; slot < 2; ++slot) {
    const absl::Status end = job.Wait(slot);
    EXPECT_TRUE(absl::IsFailedPrecondition(end) || absl::IsNotFound(end)) << end;
  }
  EXPECT_TRUE(job.meeting.rounds().empty());
}

}  // namespace
}  // namespace muster
