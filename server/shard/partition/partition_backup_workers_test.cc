// Clocks that do not wait for the slowest slots.
#include <optional>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/calls/test_exchange.h"
#include "server/shard/partition/partition_fixture.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A job of three slots, whose clocks take two.
class PartitionBackupWorkersTest : public PartitionTest {
 protected:
  PartitionBackupWorkersTest() { Open(Request()); }

  static v1::OpenTablesRequest Request() {
    v1::OpenTablesRequest request = TestOpenRequest(3);
    request.mutable_update()->set_backup_workers(1);
    return request;
  }

  static v1::ExchangeRequest Close(uint32_t slot, uint64_t clock, uint64_t examples,
                                   const std::vector<uint32_t>& left_out) {
    v1::ExchangeRequest request = TestClose(slot, clock, examples == 0 ? 0 : 1);
    request.mutable_close()->set_examples(examples);
    request.mutable_close()->set_no_dense(examples == 0);
    request.mutable_close()->mutable_left_out()->Assign(left_out.begin(), left_out.end());
    return request;
  }

  // Enters both slots.
  void Decide(uint64_t clock, uint32_t a, uint32_t b) {
    const TestAnswer first = Call(TestEnter(a, clock));
    EXPECT_FALSE(first.arrived());
    Do(TestEnter(b, clock));
    ASSERT_TRUE(first.arrived());
    EXPECT_EQ(first.code(), absl::StatusCode::kOk);
  }

  // Pushes `value`, the sum over `examples`, to all elements and to the row of key 5.
  void Push(uint32_t slot, uint64_t clock, float value, uint64_t examples) {
    v1::ExchangeRequest dense = TestDensePush(slot, clock, 0, 2);
    dense.mutable_dense_push()->set_examples(examples);
    Do(dense, Floats(std::vector<float>(8, value)));
    v1::ExchangeRequest rows = TestSparsePush(slot, clock, 0, 1);
    rows.mutable_sparse_push()->set_examples(examples);
    Do(rows, KeysAndRows({5}, {value, value}));
  }

  void ExpectValues(uint64_t clock, float dense, float row) {
    EXPECT_THAT(Do(TestDensePull(0, clock, 0, 2)).floats(), Each(dense));
    EXPECT_THAT(Do(TestSparsePull(0, clock, 1), KeysAndRows({5}, {})).floats(), Each(row));
  }
};

TEST_F(PartitionBackupWorkersTest, AllThatEnterAClockAreToldWhomItLeavesOut) {
  const TestAnswer first = Call(TestEnter(2, 0));
  EXPECT_FALSE(first.arrived());
  EXPECT_THAT(Do(TestEnter(0, 0)).reply().left_out(), ElementsAre(1));
  ASSERT_TRUE(first.arrived());
  EXPECT_THAT(first.reply().left_out(), ElementsAre(1));
  EXPECT_FALSE(first.reply().already_applied());
  // A repeat gets the same answer, and so does the slot that came too late.
  EXPECT_THAT(Do(TestEnter(2, 0)).reply().left_out(), ElementsAre(1));
  EXPECT_THAT(Do(TestEnter(1, 0)).reply().left_out(), ElementsAre(1));
}

TEST_F(PartitionBackupWorkersTest, TheMeanIsOverTheExamplesOfThoseThatEntered) {
  Decide(0, 0, 2);
  Push(0, 0, 3, 1);
  Push(2, 0, 5, 3);
  Do(Close(0, 0, 1, {1}));
  EXPECT_FALSE(Call(TestDensePull(0, 1, 0, 1)).arrived());
  Do(Close(2, 0, 3, {1}));
  // The gradient is 8 over 4 examples, and the rate 1.
  ExpectValues(1, -1, -1.5);
  // The slot that was left out trains on with the next clock, and may be the first to enter it.
  EXPECT_EQ(Do(TestEnter(1, 0)).reply().fastest_clock(), 1u);
  Do(TestDensePull(1, 1, 0, 2));
  Decide(1, 1, 0);
  Push(1, 1, 2, 2);
  Push(0, 1, 2, 2);
  for (const uint32_t slot : {1, 0}) Do(Close(slot, 1, 2, {2}));
  ExpectValues(2, -2, -2.5);
}

TEST_F(PartitionBackupWorkersTest, ALeftOutSlotClosesForItselfWhatOthersHaveNot) {
  Decide(0, 0, 2);
  Push(0, 0, 3, 1);
  Push(2, 0, 5, 3);
  Do(Close(1, 0, 0, {1}));
  EXPECT_THAT(Do(Close(1, 0, 0, {1})).reply().already_applied(), true);
  Do(Close(0, 0, 1, {1}));
  Do(Close(2, 0, 3, {1}));
  ExpectValues(1, -1, -1.5);
}

TEST_F(PartitionBackupWorkersTest, NormsAreOfTheMeanOverThoseThatEntered) {
  v1::OpenTablesRequest request = Request();
  request.mutable_schema()->mutable_clipping()->set_by_global_norm(1);
  Open(request);
  Decide(0, 1, 2);
  for (const uint32_t slot : {1, 2}) Push(slot, 0, 4, 2);
  for (const uint32_t slot : {1, 2}) Do(Close(slot, 0, 2, {0}));
  // The mean is 2: four elements in each block, two in the row.
  EXPECT_THAT(Do(TestClip(1, 0, std::nullopt)).doubles(), ElementsAre(16, 16, 8));
  Do(TestClip(1, 0, 0.5));
  ExpectValues(1, 0, -0.5);
}

TEST_F(PartitionBackupWorkersTest, ASlotThatIsAlwaysLeftOutChangesNothing) {
  std::vector<std::vector<float>> values;
  for (const bool backups : {false, true}) {
    v1::OpenTablesRequest request = backups ? Request() : TestOpenRequest(2);
    request.mutable_schema()->mutable_optimizer()->set_name("adam");
    request.mutable_schema()->mutable_optimizer()->set_learning_rate(0.1f);
    Open(request);
    for (uint64_t clock = 0; clock < 20; ++clock) {
      if (backups) Decide(clock, clock % 2, 1 - clock % 2);
      for (const uint32_t slot : {0, 1}) Push(slot, clock, 0.3f * clock - slot, 2 + slot);
      for (const uint32_t slot : {0, 1}) {
        Do(Close(slot, clock, 2 + slot,
                 backups ? std::vector<uint32_t>{2} : std::vector<uint32_t>()));
      }
    }
    values.push_back(Do(TestDensePull(0, 20, 0, 2)).floats());
    const auto row = Do(TestSparsePull(0, 20, 1), KeysAndRows({5}, {})).floats();
    values.back().insert(values.back().end(), row.begin(), row.end());
  }
  EXPECT_EQ(values[0], values[1]);
  EXPECT_NE(values[0][0], 1);
}

TEST_F(PartitionBackupWorkersTest, EntriesFollowTheRules) {
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestEnter(0, 1)),
              HasSubstr("entry of slot 0 at clock 1"));
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, Close(0, 0, 0, {})),
              HasSubstr("enter it first"));
  EXPECT_THAT(Refusal(absl::StatusCode::kInvalidArgument, Close(0, 0, 0, {1, 2})),
              HasSubstr("left_out names 2 slots, and the job has 1 backup_workers"));
  v1::ExchangeRequest elsewhere = TestEnter(0, 0);
  Open(TestOpenRequest(3));
  EXPECT_THAT(Refusal(absl::StatusCode::kInvalidArgument, elsewhere),
              HasSubstr("update.backup_workers"));
  EXPECT_THAT(Refusal(absl::StatusCode::kInvalidArgument, Close(0, 0, 0, {1})),
              HasSubstr("left_out is set"));
}

TEST_F(PartitionBackupWorkersTest, ARespawnedTaskIsInWhereItsPredecessorWas) {
  Decide(0, 0, 2);
  ASSERT_TRUE(partition_->EnterTask(2, 7).ok());
  v1::ExchangeRequest again = TestEnter(2, 0);
  again.set_incarnation(7);
  const TestAnswer answer = Do(again);
  EXPECT_TRUE(answer.reply().already_applied());
  EXPECT_THAT(answer.reply().left_out(), ElementsAre(1));
}

}  // namespace
}  // namespace muster
