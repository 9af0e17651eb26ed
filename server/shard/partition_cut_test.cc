// Cuts in two steps, taken by all and then written for one, when servers go down in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/partition_file.h"
#include "common/partition/cut_order.h"
#include "proto/checkpoint.pb.h"
#include "server/shard/test_engine.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::UnorderedElementsAre;
using Operation = FakeLogFileSystem::Operation;

class PartitionCutTest : public TestEngine {
 protected:
  TestAnswer Cut(CutOrder::Step step, uint32_t slot, uint64_t clock,
                 absl::optional<uint64_t> base = absl::nullopt) {
    return Call(TestCut(slot, clock), EncodeCutOrder({.step = step, .base = base}));
  }
  // With what the slot owes of the 8 dense elements.
  TestAnswer TakeOwing(uint32_t slot, uint64_t clock, float value) {
    const Payload head = EncodeCutOrder({.step = CutOrder::Step::kTake, .base = {}});
    std::vector<std::byte> bytes(head.size() + 8 * sizeof(float));
    head.CopyTo(bytes.data());
    Floats(std::vector<float>(8, value)).CopyTo(bytes.data() + head.size());
    return Call(TestCut(slot, clock), Payload::Of(std::move(bytes)));
  }
  TestAnswer TakeWithScale(uint32_t slot, uint64_t clock, const LossScale& scale) {
    return Call(TestCut(slot, clock),
                EncodeCutOrder({.step = CutOrder::Step::kTake, .base = {}, .loss_scale = scale}));
  }
  // Both slots of a job take the cut at clock 1 and are let go; then the server goes down, and only
  // slot 0 has heard.
  void ExpectNoFileWithoutSlot0(const v1::OpenTablesRequest& request,
                                const std::function<TestAnswer(uint32_t, uint64_t)>& take) {
    Open(request);
    for (uint32_t slot : {0, 1}) CloseWithout(slot, 0);
    const TestAnswer lost = take(1, 1);
    EXPECT_EQ(Path(take(0, 1)), "");
    EXPECT_EQ(Path(lost), "");
    Restart(request);
    const TestAnswer again = take(1, 1);
    EXPECT_FALSE(again.arrived()) << "slot 0 may be on its way";
    const TestAnswer written = Cut(CutOrder::Step::kWrite, 0, 1);
    EXPECT_EQ(Path(written), "") << "without what slot 0 sent to the earlier life";
    EXPECT_THAT(written.reply().message(), HasSubstr("earlier life"));
    EXPECT_EQ(Path(again), "") << "nothing is left to wait for";
    for (uint32_t slot : {0, 1}) CloseWithout(slot, 1);
    const TestAnswer next = take(1, 2);
    EXPECT_EQ(Path(take(0, 2)), "");
    EXPECT_EQ(Path(next), "");
    EXPECT_NE(Path(Cut(CutOrder::Step::kWrite, 0, 2)), "") << "the cut after it is whole again";
  }
  void CloseWithout(uint32_t slot, uint64_t clock) {
    v1::ExchangeRequest none = TestClose(slot, clock, 0);
    none.mutable_close()->set_no_dense(true);
    Do(none);
  }
  void Restart(const v1::OpenTablesRequest& request) {
    files_.Crash(1);
    Start();
    Open(request);
  }
  static std::string Path(const TestAnswer& answer) {
    EXPECT_TRUE(answer.arrived());
    if (!answer.arrived()) return "not answered";
    EXPECT_EQ(answer.code(), absl::StatusCode::kOk) << answer.reply().message();
    return answer.reply().checkpoint_path();
  }
};

TEST_F(PartitionCutTest, TrainingGoesOnBetweenTakeAndWrite) {
  Open(TestDurableRequest());
  Step(0, 1);
  EXPECT_EQ(Path(Cut(CutOrder::Step::kTake, 0, 1)), "");
  Step(1, 1);
  EXPECT_NE(Path(Cut(CutOrder::Step::kWrite, 0, 1)), "");
  // What follows finds the cut known.
  EXPECT_NE(Path(Cut(CutOrder::Step::kTake, 0, 1)), "");
}

TEST_F(PartitionCutTest, AViewThatWentWithItsServerIsNotMadeAnewByWhoWrites) {
  const v1::OpenTablesRequest request = TestDurableRequest();
  Open(request);
  Step(0, 1);
  EXPECT_EQ(Path(Cut(CutOrder::Step::kTake, 0, 1)), "");
  Restart(request);
  // Though nothing has come since.
  const TestAnswer gone = Cut(CutOrder::Step::kWrite, 0, 1);
  EXPECT_EQ(Path(gone), "");
  EXPECT_THAT(gone.reply().message(), HasSubstr("earlier life"));
  // The next one is whole, whatever is asked for.
  EXPECT_EQ(Path(Cut(CutOrder::Step::kTake, 0, 1)), "");
  EXPECT_NE(Path(Cut(CutOrder::Step::kWrite, 0, 1, 0)), "");
}

TEST_F(PartitionCutTest, ATakeDoesNotWaitForThoseWhoHaveGoneOn) {
  v1::OpenTablesRequest request = TestDurableRequest();
  request.set_slots(2);
  request.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  Open(request);
  for (uint32_t slot : {0, 1}) CloseWithout(slot, 0);
  // Slot 1 is answered, slot 0's answer is lost with the server.
  const TestAnswer first = TakeOwing(1, 1, 0.25);
  EXPECT_FALSE(first.arrived()) << "what slot 0 owes was not awaited";
  EXPECT_EQ(Path(TakeOwing(0, 1, 0.5)), "");
  EXPECT_EQ(Path(first), "");
  Restart(request);
  const TestAnswer again = TakeOwing(0, 1, 0.5);
  EXPECT_FALSE(again.arrived());
  // Slot 1 trains on; it does not come again.
  CloseWithout(1, 1);
  EXPECT_EQ(Path(again), "");
  EXPECT_THAT(again.reply().message(), HasSubstr("went on"));
  EXPECT_EQ(Path(Cut(CutOrder::Step::kWrite, 0, 1)), "") << "without slot 1's residual";
  // The cut after it is whole again.
  CloseWithout(0, 1);
  const TestAnswer next = TakeOwing(0, 2, 0.5);
  EXPECT_EQ(Path(TakeOwing(1, 2, 0.25)), "");
  EXPECT_EQ(Path(next), "");
  EXPECT_NE(Path(Cut(CutOrder::Step::kWrite, 0, 2)), "");
}

TEST_F(PartitionCutTest, AFileIsNotWrittenWithoutAResidualOfAnEarlierLife) {
  v1::OpenTablesRequest request = TestDurableRequest();
  request.set_slots(2);
  request.mutable_update()->set_wire(v1::UpdateSpec::BF16);
  ExpectNoFileWithoutSlot0(
      request, [this](uint32_t slot, uint64_t clock) { return TakeOwing(slot, clock, 0.5); });
}

TEST_F(PartitionCutTest, AFileIsNotWrittenWithoutALossScaleOfAnEarlierLife) {
  v1::OpenTablesRequest request = TestDurableRequest();
  request.set_slots(2);
  ExpectNoFileWithoutSlot0(request, [this](uint32_t slot, uint64_t clock) {
    return TakeWithScale(slot, clock, {.scale = 64, .steps = 3});
  });
}

TEST_F(PartitionCutTest, AFileHoldsTheLossScalesOfAllSlots) {
  v1::OpenTablesRequest request = TestDurableRequest();
  request.set_slots(2);
  Open(request);
  for (uint32_t slot : {0, 1}) CloseWithout(slot, 0);
  const TestAnswer first = TakeWithScale(1, 1, {.scale = 64, .steps = 3});
  EXPECT_FALSE(first.arrived()) << "that of slot 0 was not awaited";
  EXPECT_FALSE(TakeWithScale(1, 1, {.scale = 2, .steps = 0}).arrived())
      << "a repeat stands for nobody else";
  EXPECT_EQ(Path(TakeWithScale(0, 1, {.scale = 128, .steps = 5})), "");
  EXPECT_EQ(Path(first), "");
  // Its take is where it belongs.
  const CutOrder wrong{
      .step = CutOrder::Step::kWrite, .base = {}, .loss_scale = LossScale{.scale = 4, .steps = 0}};
  EXPECT_EQ(Call(TestCut(0, 1), EncodeCutOrder(wrong)).code(), absl::StatusCode::kInvalidArgument);
  const auto reader = PartitionFileReader::Open(
      storage_, JoinUri(CheckpointFolder(request.checkpoint_root(), "job", 1),
                        Path(Cut(CutOrder::Step::kWrite, 0, 1))));
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_EQ((*reader)->header().loss_scales_size(), 2);
  const v1::StoredLossScale& last = (*reader)->header().loss_scales(1);
  EXPECT_EQ(last.slot(), 1u);
  EXPECT_EQ(last.scale(), 64);
  EXPECT_EQ(last.steps(), 3u);
  EXPECT_EQ((*reader)->header().loss_scales(0).scale(), 128);
}

TEST_F(PartitionCutTest, AFileHoldsTheLossScaleOfAGroup) {
  v1::OpenTablesRequest request = TestDurableRequest();
  request.set_slots(2);
  Open(request);
  for (uint32_t slot : {0, 1}) {
    v1::ExchangeRequest close = TestCloseWithScale(slot, 0, 0, slot == 1);
    close.mutable_close()->set_no_dense(true);
    Do(close);
  }
  // The server knows it, whatever it has been through.
  EXPECT_EQ(Path(Cut(CutOrder::Step::kTake, 1, 1)), "");
  Restart(request);
  EXPECT_EQ(Path(Cut(CutOrder::Step::kTake, 0, 1)), "");
  const auto reader = PartitionFileReader::Open(
      storage_, JoinUri(CheckpointFolder(request.checkpoint_root(), "job", 1),
                        Path(Cut(CutOrder::Step::kWrite, 0, 1))));
  ASSERT_TRUE(reader.ok()) << reader.status();
  ASSERT_EQ((*reader)->header().loss_scales_size(), 2);
  for (const v1::StoredLossScale& scale : (*reader)->header().loss_scales()) {
    EXPECT_EQ(scale.scale(), 512);
  }
}

// The memory of a call belongs to its client, which may write to it while the call waits.
TEST_F(PartitionCutTest, TheOrderIsThatWhichWasChecked) {
  v1::OpenTablesRequest request = TestDurableRequest();
  request.set_slots(2);
  Open(request);
  CloseWithout(0, 0);
  const Payload order = EncodeCutOrder({.step = CutOrder::Step::kTake, .base = {}});
  const auto memory = std::make_shared<std::vector<std::byte>>(order.size());
  order.CopyTo(memory->data());
  const TestAnswer take = Call(TestCut(0, 1), Payload({absl::MakeConstSpan(*memory)}, memory));
  EXPECT_FALSE(take.arrived()) << "slot 1 has not closed the clock";
  // Neither a step that there is, nor the loss scale that it says.
  std::fill(memory->begin(), memory->end(), std::byte{0xff});
  CloseWithout(1, 0);
  EXPECT_EQ(Path(take), "");
  EXPECT_NE(Path(Cut(CutOrder::Step::kWrite, 0, 1)), "");
}

TEST_F(PartitionCutTest, EveryAttemptAtAFileHasItsOwnName) {
  Open(TestOpenRequest(1));
  Step(0, 1);
  const std::string first = Path(Cut(CutOrder::Step::kWhole, 0, 1));
  // A server that forgot all, in the same generation: whether it may is for others to say.
  Start();
  Open(TestOpenRequest(1));
  Step(0, 1);
  const std::string second = Path(Cut(CutOrder::Step::kWhole, 0, 1));
  EXPECT_NE(second, first);
  const std::string folder = CheckpointFolder(TestOpenRequest(1).checkpoint_root(), "job", 1);
  EXPECT_EQ(storage_.List(folder)->size(), 2);
}

TEST_F(PartitionCutTest, AFileThatTheLogDoesNotKnowIsNotAnswered) {
  ShardEngine::Options options = Options();
  options.log_segment_bytes = 4096;
  Start(options);
  Open(TestDurableRequest());
  // No room for another segment of the log.
  files_.set_fault([](Operation operation, const std::string&) {
    return operation == Operation::kAllocate ? absl::ResourceExhaustedError("the disk is full")
                                             : absl::OkStatus();
  });
  uint64_t clock = 0;
  for (; clock < 200; ++clock) {
    if (const TestAnswer cut = Call(TestCut(0, clock)); cut.code() != absl::StatusCode::kOk) break;
    CloseWithout(0, clock);
  }
  ASSERT_LT(clock, 200u) << "the log was never full";
  EXPECT_EQ(Code(TestCut(0, clock)), absl::StatusCode::kUnavailable);
  files_.set_fault(nullptr);
  EXPECT_NE(Path(Call(TestCut(0, clock))), "");
}

// Checkpoints whose files cannot be written, once there is an error.
class FailingStorage final : public CheckpointStorage {
 public:
  explicit FailingStorage(CheckpointStorage& inner) : inner_(inner) {}

  absl::StatusOr<std::unique_ptr<StorageWriter>> Create(absl::string_view uri) override {
    if (!error.ok()) return error;
    return inner_.Create(uri);
  }
  absl::StatusOr<std::unique_ptr<StorageReader>> Open(absl::string_view uri) const override {
    return inner_.Open(uri);
  }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view uri) const override {
    return inner_.List(uri);
  }
  absl::StatusOr<bool> Exists(absl::string_view uri) const override { return inner_.Exists(uri); }
  absl::Status DeleteRecursively(absl::string_view uri) override {
    return inner_.DeleteRecursively(uri);
  }
  absl::Status SyncFolder(absl::string_view uri) override { return inner_.SyncFolder(uri); }

  absl::Status error;

 private:
  CheckpointStorage& inner_;
};

TEST_F(PartitionCutTest, AFileThatCannotBeWrittenNowIsGivenUpAndLostDataEndTheJob) {
  FailingStorage storage(storage_);
  ShardEngine::Options options = Options();
  options.checkpoint_storage = &storage;
  Start(options);
  Open(TestDurableRequest());
  Step(0, 1);
  Path(Cut(CutOrder::Step::kTake, 0, 1));
  storage.error = absl::ResourceExhaustedError("no space left");
  const TestAnswer full = Cut(CutOrder::Step::kWrite, 0, 1);
  EXPECT_EQ(Path(full), "");
  EXPECT_THAT(full.reply().message(), HasSubstr("no space left"));
  Step(1, 1);
  Path(Cut(CutOrder::Step::kTake, 0, 2));
  storage.error = absl::PermissionDeniedError("let this process's user write there");
  const TestAnswer read_only = Cut(CutOrder::Step::kWrite, 0, 2);
  EXPECT_EQ(Path(read_only), "");
  EXPECT_THAT(read_only.reply().message(), HasSubstr("user write there"));
  Step(2, 1);
  Path(Cut(CutOrder::Step::kTake, 0, 3));
  storage.error = absl::DataLossError("what was written is not there");
  EXPECT_EQ(Cut(CutOrder::Step::kWrite, 0, 3).code(), absl::StatusCode::kDataLoss);
  storage.error = absl::OkStatus();
  Step(3, 1);
  Path(Cut(CutOrder::Step::kTake, 0, 4));
  EXPECT_NE(Path(Cut(CutOrder::Step::kWrite, 0, 4)), "");
  storage.error = absl::ResourceExhaustedError("no space left");
  EXPECT_NE(Path(Cut(CutOrder::Step::kWhole, 0, 4)), "") << "it is known";
  // Who waits for the last one asks until there is room.
  Step(4, 1);
  const TestAnswer last = Cut(CutOrder::Step::kWhole, 0, 5);
  EXPECT_EQ(Path(last), "");
  EXPECT_THAT(last.reply().message(), HasSubstr("no space left"));
  storage.error = absl::OkStatus();
  EXPECT_NE(Path(Cut(CutOrder::Step::kWhole, 0, 5)), "");
  // Before anything else uses the engine.
  Start();
}

// A new job is refused where nothing can be written; one that has run waits until it can be again.
TEST_F(PartitionCutTest, ARootThatBecomesReadOnlyEndsNoJob) {
  FailingStorage storage(storage_);
  ShardEngine::Options options = Options();
  options.checkpoint_storage = &storage;
  Start(options);
  storage.error = absl::PermissionDeniedError("a read-only file system");
  v1::OpenTablesRequest request = TestOpenRequest(1);
  EXPECT_EQ(engine_->OpenTables(request).status().code(), absl::StatusCode::kFailedPrecondition);
  request.set_generation(2);
  EXPECT_EQ(engine_->OpenTables(request).status().code(), absl::StatusCode::kUnavailable);
  storage.error = absl::OkStatus();
  Open(request);
  // Before anything else uses the engine.
  Start();
}

// Rows that have expired, but that the sweep has not come by yet, must not come back from the base.
TEST_F(PartitionCutTest, ADeltaStrikesOutWhatHasExpired) {
  v1::OpenTablesRequest request = TestDurableRequest();
  request.mutable_schema()->mutable_sparse_options()->set_expire_after_clocks(2);
  Open(request);
  std::vector<uint64_t> keys(6);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  Do(TestDensePush(0, 0, 0, 2), Floats(std::vector<float>(8, 1)));
  Do(TestSparsePush(0, 0, 0, keys.size()), KeysAndRows(keys, std::vector<float>(12, 1)));
  Do(TestClose(0, 0, 1));
  Path(Cut(CutOrder::Step::kTake, 0, 1));
  ASSERT_NE(Path(Cut(CutOrder::Step::kWrite, 0, 1)), "");
  Step(1, 1);
  Step(2, 1);
  Path(Cut(CutOrder::Step::kTake, 0, 3));
  const std::string path = Path(Cut(CutOrder::Step::kWrite, 0, 3, 1));
  const auto reader = PartitionFileReader::Open(
      storage_, JoinUri(CheckpointFolder(request.checkpoint_root(), "job", 3), path));
  ASSERT_TRUE(reader.ok()) << reader.status();
  EXPECT_EQ((*reader)->header().base_clock(), 1u);
  std::vector<uint64_t> rows, dropped;
  const auto add_to = [](std::vector<uint64_t>& to) {
    return [&to](absl::Span<const uint64_t> some) {
      to.insert(to.end(), some.begin(), some.end());
      return absl::OkStatus();
    };
  };
  ASSERT_TRUE((*reader)->ReadKeys(0, add_to(rows)).ok());
  ASSERT_TRUE((*reader)->ReadDropped(0, add_to(dropped)).ok());
  EXPECT_THAT(rows, ElementsAre(5));
  EXPECT_THAT(dropped, UnorderedElementsAre(0, 1, 2, 3, 4));
}

}  // namespace
}  // namespace muster
