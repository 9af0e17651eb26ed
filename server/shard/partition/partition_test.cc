#include "server/shard/partition/partition.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "common/tensor/half.h"
#include "server/shard/calls/test_exchange.h"
#include "server/shard/partition/partition_fixture.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST_F(PartitionTest, BspUpdatesOnceWhenAllSlotsHaveClosed) {
  Open(TestOpenRequest(2));
  PushAllDense(0, 0, 2);
  Do(TestSparsePush(0, 0, 0, 2), KeysAndRows({5, 6}, {1, 1, 2, 2}));
  Do(TestClose(0, 0, 1));
  const TestAnswer parked = Call(TestDensePull(0, 1, 0, 2));
  EXPECT_FALSE(parked.arrived());
  PushAllDense(1, 0, 4);
  Do(TestSparsePush(1, 0, 0, 1), KeysAndRows({5}, {3, 5}));
  const TestAnswer close = Do(TestClose(1, 0, 1));
  EXPECT_EQ(close.reply().slowest_clock(), 1u);
  ASSERT_TRUE(parked.arrived());
  // 1 - (2 + 4) / 2 examples.
  EXPECT_THAT(parked.floats(), Each(-2));
  EXPECT_THAT(Do(TestSparsePull(0, 1, 3), KeysAndRows({6, 5, 7}, {})).floats(),
              ElementsAre(-0.5, -0.5, -1.5, -2.5, 0.5, 0.5));
}

TEST_F(PartitionTest, SspAppliesOnArrivalWithTheRateOverTheSlots) {
  v1::OpenTablesRequest request = TestOpenRequest(2);
  request.mutable_update()->set_staleness_bound(1);
  Open(request);
  PushAllDense(0, 0, 2);
  Do(TestSparsePush(0, 0, 0, 1), KeysAndRows({5}, {2, 4}));
  EXPECT_THAT(Do(TestDensePull(1, 0, 0, 1)).floats(), Each(0));
  EXPECT_THAT(Do(TestSparsePull(1, 0, 1), KeysAndRows({5}, {})).floats(), ElementsAre(-0.5, -1.5));
  Do(TestClose(0, 0, 1));
  // One ahead may read, two ahead may not.
  const TestAnswer ahead = Do(TestDensePull(0, 1, 0, 1));
  EXPECT_EQ(ahead.reply().slowest_clock(), 0u);
  EXPECT_EQ(ahead.reply().fastest_clock(), 1u);
  PushAllDense(0, 1, 2);
  Do(TestClose(0, 1, 0));
  const TestAnswer parked = Call(TestDensePull(0, 2, 0, 1));
  EXPECT_FALSE(parked.arrived());
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestDensePush(0, 2, 0, 1),
                      Floats({1, 1, 1, 1})),
              HasSubstr("past the staleness bound"));
  PushAllDense(1, 0, 0);
  Do(TestClose(1, 0, 0));
  EXPECT_TRUE(parked.arrived());
}

TEST_F(PartitionTest, RowsOfOneKeyInAPushAreOneStepOverTheirSum) {
  for (const bool synchronous : {true, false}) {
    v1::OpenTablesRequest request = TestOpenRequest(1);
    request.mutable_update()->set_unlimited_staleness(!synchronous);
    // Two steps would be 1.7 times as long as the first one alone.
    request.mutable_schema()->mutable_optimizer()->set_name("adagrad");
    const auto pulled = [&](uint32_t rows, const Payload& payload) {
      Open(request);
      PushAllDense(0, 0, 1);
      Do(TestSparsePush(0, 0, 0, rows), payload);
      Do(TestClose(0, 0, 1));
      return Do(TestSparsePull(0, 1, 2), KeysAndRows({5, 6}, {})).floats();
    };
    const std::vector<float> sum = pulled(2, KeysAndRows({5, 6}, {4, -4, 1, 1}));
    EXPECT_NE(sum[0], sum[1]);
    EXPECT_EQ(pulled(4, KeysAndRows({5, 6, 5, 5}, {1, -1, 1, 1, 1, -1, 2, -2})), sum);
  }
}

TEST_F(PartitionTest, AspNeverWaits) {
  v1::OpenTablesRequest request = TestOpenRequest(2);
  request.mutable_update()->set_unlimited_staleness(true);
  Open(request);
  for (uint64_t clock = 0; clock < 5; ++clock) {
    PushAllDense(0, clock, 2);
    Do(TestClose(0, clock, 0));
    const TestAnswer pull = Do(TestDensePull(0, clock + 1, 0, 1));
    EXPECT_THAT(pull.floats(), Each(-static_cast<float>(clock)));
    EXPECT_EQ(pull.reply().slowest_clock(), 0u);
    EXPECT_EQ(pull.reply().fastest_clock(), clock + 1);
  }
}

TEST_F(PartitionTest, AContributionCountsOnce) {
  for (const int64_t bound : {0, 1}) {
    v1::OpenTablesRequest request = TestOpenRequest(1);
    request.mutable_update()->set_staleness_bound(bound);
    Open(request);
    Do(TestDensePush(0, 0, 0, 1), Floats({1, 1, 1, 1}));
    EXPECT_TRUE(Do(TestDensePush(0, 0, 0, 1), Floats({9, 9, 9, 9})).reply().already_applied());
    // Only the second block of these two is new.
    EXPECT_FALSE(
        Do(TestDensePush(0, 0, 0, 2), Floats({9, 9, 9, 9, 2, 2, 2, 2})).reply().already_applied());
    Do(TestSparsePush(0, 0, 0, 1), KeysAndRows({5}, {1, 1}));
    EXPECT_TRUE(Do(TestSparsePush(0, 0, 0, 1), KeysAndRows({5}, {1, 1})).reply().already_applied());
    EXPECT_FALSE(Do(TestClose(0, 0, 1)).reply().already_applied());
    EXPECT_TRUE(Do(TestClose(0, 0, 1)).reply().already_applied());
    EXPECT_TRUE(Do(TestSparsePush(0, 0, 0, 1), KeysAndRows({5}, {1, 1})).reply().already_applied());
    EXPECT_TRUE(Do(TestDensePush(0, 0, 1, 1), Floats({9, 9, 9, 9})).reply().already_applied());
    EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), ElementsAre(0, 0, 0, 0, -1, -1, -1, -1));
    EXPECT_THAT(Do(TestSparsePull(0, 1, 1), KeysAndRows({5}, {})).floats(),
                ElementsAre(-0.5, -0.5));
  }
}

TEST_F(PartitionTest, DeterministicSumsAreInOrderOfSlotHoweverTheyCome) {
  v1::OpenTablesRequest request = TestOpenRequest(3);
  request.mutable_update()->set_deterministic(true);
  const std::vector<float> values = {1e8, -1e8, 1};
  for (const auto& order :
       std::vector<std::vector<uint32_t>>{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}, {2, 0, 1}}) {
    Open(request);
    for (uint32_t slot : order) PushAllDense(slot, 0, values[slot]);
    for (uint32_t slot : order) Do(TestClose(slot, 0, 0));
    EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), Each(1 - 1 / 3.f));
  }
}

TEST_F(PartitionTest, SlotsWithoutDenseGradientsAreLeftOutOfTheSum) {
  v1::OpenTablesRequest request = TestOpenRequest(3);
  request.mutable_update()->set_deterministic(true);
  Open(request);
  PushAllDense(2, 0, 3);
  v1::ExchangeRequest none = TestClose(0, 0, 0);
  none.mutable_close()->set_no_dense(true);
  Do(none);
  none.set_slot(1);
  Do(none);
  Do(TestClose(2, 0, 0));
  EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), Each(0));
}

TEST_F(PartitionTest, ARespawnedSlotSeesWhatItsClockSaw) {
  v1::OpenTablesRequest request = TestOpenRequest(1);
  request.mutable_update()->set_deterministic(true);
  Open(request);
  for (uint64_t clock = 0; clock < 2; ++clock) {
    PushAllDense(0, clock, 1);
    Do(TestSparsePush(0, clock, 0, 1), KeysAndRows({5 + clock}, {1, 1}));
    Do(TestClose(0, clock, 1));
  }
  // The slot died before it had closed clock 1 elsewhere.
  v1::ExchangeRequest pull = TestDensePull(0, 1, 0, 2);
  pull.set_incarnation(2);
  EXPECT_THAT(Do(pull).floats(), Each(0));
  v1::ExchangeRequest rows = TestSparsePull(0, 1, 2);
  rows.set_incarnation(2);
  EXPECT_THAT(Do(rows, KeysAndRows({5, 6}, {})).floats(), ElementsAre(-0.5, -0.5, 0.5, 0.5));
  pull.set_clock(2);
  EXPECT_THAT(Do(pull).floats(), Each(-1));
  pull.set_clock(0);
  // Nobody who takes over is that far behind.
  EXPECT_THAT(Refusal(absl::StatusCode::kAborted, pull), HasSubstr("not kept"));
}

TEST_F(PartitionTest, FencesOlderIncarnations) {
  Open(TestOpenRequest(1));
  v1::ExchangeRequest push = TestDensePush(0, 0, 0, 1);
  push.set_incarnation(5);
  Do(push, Floats({1, 1, 1, 1}));
  push.set_incarnation(4);
  EXPECT_THAT(Refusal(absl::StatusCode::kAborted, push, Floats({1, 1, 1, 1})),
              HasSubstr("incarnation 4, current is 5"));
  EXPECT_THAT(Refusal(absl::StatusCode::kAborted, TestDensePull(0, 0, 0, 1)),
              HasSubstr("incarnation"));
}

TEST_F(PartitionTest, WrongRequestsChangeNothing) {
  Open(TestOpenRequest(2));
  const auto invalid = absl::StatusCode::kInvalidArgument;
  EXPECT_THAT(Refusal(invalid, TestDensePush(0, 0, 0, 2), Floats({1})), HasSubstr("4 bytes"));
  EXPECT_THAT(Refusal(invalid, TestDensePush(0, 0, 1, 2), Floats({1, 1, 1, 1, 1, 1, 1, 1})),
              HasSubstr("has 2 blocks"));
  EXPECT_THAT(Refusal(invalid, TestDensePush(0, 0, 4000000000, 400000000)), HasSubstr("2 blocks"));
  EXPECT_THAT(Refusal(invalid, TestDensePull(0, 0, 0, 3)), HasSubstr("2 blocks"));
  EXPECT_THAT(Refusal(invalid, TestDensePull(0, 0, 0, 0)), HasSubstr("0 blocks"));
  EXPECT_THAT(Refusal(invalid, TestSparsePush(0, 0, 0, 2), KeysAndRows({5, 6}, {1, 1, 1})),
              HasSubstr("payload has 28 bytes"));
  EXPECT_THAT(Refusal(invalid, TestSparsePull(0, 0, 2), KeysAndRows({5}, {})),
              HasSubstr("8 bytes"));
  EXPECT_THAT(Refusal(invalid, TestRequest(0, 0)), HasSubstr("names no operation"));
  EXPECT_THAT(Refusal(invalid, TestDensePull(2, 0, 0, 1)), HasSubstr("has 2 slots"));
  EXPECT_THAT(Refusal(invalid, TestClip(0, 0, 0.5)), HasSubstr("does not clip"));
  v1::ExchangeRequest unknown = TestSparsePush(0, 0, 0, 1);
  unknown.mutable_sparse_push()->set_table(2);
  EXPECT_THAT(Refusal(absl::StatusCode::kNotFound, unknown, KeysAndRows({5}, {1, 1})),
              HasSubstr("table is 2"));
  unknown.mutable_sparse_push()->set_table(0);
  EXPECT_THAT(Refusal(invalid, unknown, KeysAndRows({5}, {1, 1})), HasSubstr("table is 0"));
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestClose(0, 0, 0)),
              HasSubstr("0 of 2 pushes of dense blocks"));
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestDensePush(0, 1, 0, 1),
                      Floats({1, 1, 1, 1})),
              HasSubstr("open clock here is 0"));
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestDensePull(0, 1, 0, 1)),
              HasSubstr("the slot itself has closed 0"));
  EXPECT_THAT(Do(TestDensePull(0, 0, 0, 2)).floats(), Each(1));
  EXPECT_EQ(partition_->stats().sparse_rows, 0u);
}

// Elements as bf16; these are exact.
Payload Bf16(const std::vector<float>& values) {
  std::vector<uint16_t> bits(values.size());
  RoundToHalf(DType::kBf16, values, bits.data());
  return Payload::Of(std::move(bits));
}

// The bf16 elements of an answer; an even number of them.
std::vector<float> Bf16Of(const TestAnswer& answer) {
  const std::vector<float> pairs = answer.floats();
  std::vector<float> values(2 * pairs.size());
  WidenHalf(DType::kBf16, reinterpret_cast<const std::byte*>(pairs.data()), absl::MakeSpan(values));
  return values;
}

TEST_F(PartitionTest, HalvesAreSummedAsF32AndAnsweredAsAsked) {
  Open(TestOpenRequest(2));
  v1::ExchangeRequest push = TestDensePush(0, 0, 0, 2);
  push.mutable_dense_push()->set_type(v1::UpdateSpec::BF16);
  const std::vector<float> gradient = {1, 2, 3, 4, 5, 6, 7, 8};
  EXPECT_THAT(Refusal(absl::StatusCode::kInvalidArgument, push, Floats(gradient)),
              HasSubstr("payload has 32 bytes, blocks 0 to 1 have 16 of bf16"));
  EXPECT_EQ(Do(push, Bf16(gradient)).code(), absl::StatusCode::kOk);
  // The other slot's in f32, with what bf16 has no digits for.
  EXPECT_EQ(Do(TestDensePush(1, 0, 0, 2), Floats(std::vector<float>(8, 0x1p-12f))).code(),
            absl::StatusCode::kOk);
  v1::ExchangeRequest rows = TestSparsePush(0, 0, 0, 2);
  rows.mutable_sparse_push()->set_type(v1::UpdateSpec::BF16);
  EXPECT_THAT(Refusal(absl::StatusCode::kInvalidArgument, rows, KeysAndRows({5, 6}, {1, 1, 1, 1})),
              HasSubstr("payload has 32 bytes"));
  // Two keys, then four halves.
  const std::vector<uint64_t> keys = {5, 6};
  std::vector<std::byte> bytes(24);
  std::memcpy(bytes.data(), keys.data(), 16);
  Bf16({1, 2, 3, 4}).CopyTo(bytes.data() + 16);
  EXPECT_EQ(Do(rows, Payload::Of(bytes)).code(), absl::StatusCode::kOk);
  EXPECT_EQ(Do(TestClose(0, 0, 1)).code(), absl::StatusCode::kOk);
  EXPECT_EQ(Do(TestClose(1, 0, 0)).code(), absl::StatusCode::kOk);

  // Both slots have one example each.
  std::vector<float> exact, rounded;
  for (float g : gradient) {
    exact.push_back(1 - (g + 0x1p-12f) / 2);
    rounded.push_back(1 - g / 2);
  }
  EXPECT_EQ(Do(TestDensePull(0, 1, 0, 2)).floats(), exact);
  v1::ExchangeRequest pull = TestDensePull(0, 1, 0, 2);
  pull.mutable_dense_pull()->set_type(v1::UpdateSpec::BF16);
  EXPECT_EQ(Bf16Of(Do(pull))[0], rounded[0]);
  EXPECT_EQ(Bf16Of(Do(pull)).size(), 8u);
  v1::ExchangeRequest pull_rows = TestSparsePull(0, 1, 2);
  pull_rows.mutable_sparse_pull()->set_type(v1::UpdateSpec::BF16);
  EXPECT_EQ(Bf16Of(Do(pull_rows, KeysAndRows(keys, {}))), (std::vector<float>{0, -0.5, -1, -1.5}));
  pull_rows.mutable_sparse_pull()->set_type(static_cast<v1::UpdateSpec::WireType>(7));
  EXPECT_THAT(Refusal(absl::StatusCode::kInvalidArgument, pull_rows, KeysAndRows(keys, {})),
              HasSubstr("type is 7"));
}

TEST_F(PartitionTest, KeysOfAnotherPartitionAreRefused) {
  v1::OpenTablesRequest request = TestOpenRequest(1);
  request.mutable_schema()->set_partitions(2);
  Open(request);
  // Of any 32 keys, some belong elsewhere.
  std::vector<uint64_t> keys(32);
  for (size_t i = 0; i < keys.size(); ++i) keys[i] = i;
  EXPECT_THAT(Refusal(absl::StatusCode::kInvalidArgument, TestSparsePull(0, 0, keys.size()),
                      KeysAndRows(keys, {})),
              HasSubstr("belongs to partition 1"));
}

TEST_F(PartitionTest, PayloadsMayComeInOddSpans) {
  Open(TestOpenRequest(1));
  const std::vector<float> values = {1, 2, 3, 4, 5, 6, 7, 8};
  const auto bytes = std::make_shared<std::vector<std::byte>>(33);
  std::memcpy(bytes->data() + 1, values.data(), 32);
  std::vector<Payload::Span> spans;
  for (const auto& [begin, end] : {std::pair<int, int>{1, 4}, {4, 18}, {18, 19}, {19, 33}}) {
    spans.emplace_back(bytes->data() + begin, end - begin);
  }
  Do(TestDensePush(0, 0, 0, 2), Payload(spans, bytes));
  Do(TestClose(0, 0, 0));
  EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), ElementsAre(0, -1, -2, -3, -4, -5, -6, -7));
}

TEST_F(PartitionTest, ClosesMayRunAheadOfTheOthersWithoutPushes) {
  Open(TestOpenRequest(2));
  PushAllDense(0, 0, 2);
  Do(TestClose(0, 0, 0));
  v1::ExchangeRequest none = TestClose(0, 1, 0);
  none.mutable_close()->set_no_dense(true);
  Do(none);
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestDensePush(0, 2, 0, 1),
                      Floats({1, 1, 1, 1})),
              HasSubstr("past the staleness bound"));
  PushAllDense(1, 0, 2);
  Do(TestClose(1, 0, 0));
  EXPECT_THAT(Do(TestDensePull(1, 1, 0, 1)).floats(), Each(-1));
  PushAllDense(1, 1, 2);
  const TestAnswer close = Do(TestClose(1, 1, 0));
  EXPECT_EQ(close.reply().slowest_clock(), 2u);
  // Two examples, of which one slot's had no gradient.
  EXPECT_THAT(Do(TestDensePull(0, 2, 0, 1)).floats(), Each(-2));
}

// A clock that no slot has an example for passes, and changes no weight, momentum or row.
TEST_F(PartitionTest, NoExamplesMoveNothing) {
  for (const bool at_once : {false, true}) {
    for (const bool deterministic : {false, true}) {
      if (at_once && deterministic) continue;
      SCOPED_TRACE(at_once);
      v1::OpenTablesRequest request = TestOpenRequest(1);
      request.mutable_schema()->mutable_optimizer()->set_name("momentum");
      request.mutable_schema()->mutable_optimizer()->set_momentum(0.5);
      request.mutable_schema()->mutable_optimizer()->set_weight_decay(0.25);
      request.mutable_update()->set_unlimited_staleness(at_once);
      request.mutable_update()->set_deterministic(deterministic);
      const auto train = [&](const std::vector<uint64_t>& examples_of_steps) {
        Open(request);
        uint64_t clock = 0;
        for (const uint64_t examples : examples_of_steps) {
          v1::ExchangeRequest dense = TestDensePush(0, clock, 0, 2);
          dense.mutable_dense_push()->set_examples(examples);
          Do(dense, Floats(std::vector<float>(8, examples > 0 ? 2 : 0)));
          v1::ExchangeRequest sparse = TestSparsePush(0, clock, 0, 1);
          sparse.mutable_sparse_push()->set_examples(examples);
          Do(sparse, KeysAndRows({5 + clock * (1 - examples)}, {1, 1}));
          v1::ExchangeRequest close = TestClose(0, clock, 1);
          close.mutable_close()->set_examples(examples);
          EXPECT_EQ(Do(close).reply().slowest_clock(), clock + 1);
          ++clock;
        }
        std::vector<float> values = Do(TestDensePull(0, clock, 0, 2)).floats();
        const std::vector<float> rows =
            Do(TestSparsePull(0, clock, 2), KeysAndRows({5, 6}, {})).floats();
        values.insert(values.end(), rows.begin(), rows.end());
        return values;
      };
      const std::vector<float> two = train({1, 1});
      EXPECT_EQ(train({1, 0, 1}), two);
      EXPECT_EQ(train({0, 1, 0, 0, 1, 0}), two);
      EXPECT_NE(train({1, 1, 1}), two);
    }
  }
}

TEST_F(PartitionTest, AnAbsentGradientIsZerosWhereAnotherSlotHasOneAndElseNoStep) {
  enum class Gives { kTwo, kZeros, kNothing };
  for (const bool deterministic : {false, true}) {
    v1::OpenTablesRequest request = TestOpenRequest(2);
    request.mutable_schema()->mutable_optimizer()->set_name("adam");
    request.mutable_schema()->mutable_optimizer()->set_weight_decay(0.25);
    request.mutable_schema()->set_own_steps(true);
    request.mutable_update()->set_deterministic(deterministic);
    // What the two slots give at each clock.
    const auto train = [&](const std::vector<std::pair<Gives, Gives>>& clocks) {
      Open(request);
      uint64_t clock = 0;
      for (const auto& [first, second] : clocks) {
        for (const uint32_t slot : {1, 0}) {
          const Gives gives = slot == 0 ? first : second;
          v1::ExchangeRequest push = TestDensePush(slot, clock, 0, 2);
          push.mutable_dense_push()->set_absent(gives == Gives::kNothing);
          Do(push, gives == Gives::kNothing
                       ? Payload()
                       : Floats(std::vector<float>(8, gives == Gives::kTwo ? 2 : 0)));
          Do(TestClose(slot, clock, 0));
        }
        ++clock;
      }
      return Do(TestDensePull(0, clock, 0, 2)).floats();
    };
    constexpr Gives kTwo = Gives::kTwo, kZeros = Gives::kZeros, kNothing = Gives::kNothing;
    const std::vector<float> half = train({{kTwo, kZeros}, {kZeros, kTwo}});
    EXPECT_EQ(train({{kTwo, kNothing}, {kNothing, kTwo}}), half);
    // Neither the bias correction nor weight decay sees a clock without gradients.
    EXPECT_EQ(train({{kNothing, kNothing}, {kTwo, kNothing}, {kNothing, kNothing}, {kZeros, kTwo}}),
              half);
    EXPECT_NE(train({{kTwo, kZeros}, {kZeros, kZeros}, {kZeros, kTwo}}), half);
    EXPECT_THAT(train({{kNothing, kNothing}}), Each(1));
  }
}

TEST_F(PartitionTest, AnAbsentGradientHasNoPayloadAndUnderAspIsNoStep) {
  v1::OpenTablesRequest request = TestOpenRequest(1);
  request.mutable_update()->set_unlimited_staleness(true);
  Open(request);
  v1::ExchangeRequest push = TestDensePush(0, 0, 0, 2);
  push.mutable_dense_push()->set_absent(true);
  EXPECT_THAT(Refusal(absl::StatusCode::kInvalidArgument, push, Floats(std::vector<float>(8, 1))),
              HasSubstr("payload has 32 bytes, blocks 0 to 1 have 0"));
  Do(push);
  Do(TestClose(0, 0, 0));
  EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), Each(1));
}

TEST_F(PartitionTest, ClippingByNormExchangesNormsForAScale) {
  v1::OpenTablesRequest request = TestOpenRequest(2);
  request.mutable_schema()->mutable_clipping()->set_by_global_norm(1);
  Open(request);
  for (uint32_t slot : {0, 1}) {
    PushAllDense(slot, 0, 2);
    Do(TestSparsePush(slot, 0, 0, 1), KeysAndRows({5}, {3, 4}));
  }
  Do(TestClose(0, 0, 1));
  const TestAnswer norms = Call(TestClip(0, 0, std::nullopt));
  EXPECT_FALSE(norms.arrived());
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestClip(0, 0, 0.5)),
              HasSubstr("ask for the norms first"));
  Do(TestClose(1, 0, 1));
  ASSERT_TRUE(norms.arrived());
  // The mean gradient is 2 in all four elements of a block, and (3, 4) in the row.
  EXPECT_THAT(norms.doubles(), ElementsAre(16, 16, 25));
  const TestAnswer pull = Call(TestDensePull(1, 1, 0, 2));
  EXPECT_FALSE(pull.arrived());
  EXPECT_FALSE(Do(TestClip(0, 0, 0.5)).reply().already_applied());
  ASSERT_TRUE(pull.arrived());
  EXPECT_THAT(pull.floats(), Each(0));
  EXPECT_TRUE(Do(TestClip(0, 0, 0.5)).reply().already_applied());
  // A respawned slot 0 may ask again: other partitions may still wait for the scale.
  const TestAnswer repeat = Do(TestClip(0, 0, std::nullopt));
  EXPECT_TRUE(repeat.reply().already_applied());
  EXPECT_THAT(repeat.doubles(), ElementsAre(16, 16, 25));
  EXPECT_THAT(Refusal(absl::StatusCode::kInvalidArgument, TestClip(0, 1, std::nan(""))),
              HasSubstr("finite"));
}

TEST_F(PartitionTest, ACutWaitsForAllSlotsAndIsTakenOnce) {
  Open(TestOpenRequest(2));
  PushAllDense(0, 0, 2);
  Do(TestClose(0, 0, 0));
  const TestAnswer first = Call(TestCut(0, 1));
  EXPECT_FALSE(first.arrived());
  PushAllDense(1, 0, 2);
  Do(TestClose(1, 0, 0));
  ASSERT_TRUE(first.arrived());
  ASSERT_EQ(first.code(), absl::StatusCode::kOk) << first.reply().message();
  EXPECT_GT(first.reply().checkpoint_bytes(), 8 * sizeof(float));
  PushAllDense(0, 1, 2);
  const TestAnswer second = Do(TestCut(1, 1));
  EXPECT_EQ(second.reply().checkpoint_path(), first.reply().checkpoint_path());
  EXPECT_EQ(second.reply().checkpoint_checksum(), first.reply().checkpoint_checksum());
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestCut(1, 0)),
              HasSubstr("slots have gone on"));
}

// A slot that was taken over in mid-close repeats the cut of its clock where the next has been
// taken.
TEST_F(PartitionTest, TheCutBeforeTheLastIsAnsweredAgain) {
  Open(TestOpenRequest(1));
  std::vector<std::string> paths;
  for (uint64_t clock : {1, 2, 3}) {
    PushAllDense(0, clock - 1, 2);
    Do(TestClose(0, clock - 1, 0));
    paths.push_back(Do(TestCut(0, clock)).reply().checkpoint_path());
  }
  EXPECT_EQ(Do(TestCut(0, 2)).reply().checkpoint_path(), paths[1]);
  EXPECT_EQ(Do(TestCut(0, 3)).reply().checkpoint_path(), paths[2]);
  EXPECT_THAT(Refusal(absl::StatusCode::kAborted, TestCut(0, 1)), HasSubstr("slots have gone on"));
}

TEST_F(PartitionTest, ACutAfterThePushesOfItsClockIsRefused) {
  Open(TestOpenRequest(1));
  PushAllDense(0, 0, 2);
  EXPECT_THAT(Refusal(absl::StatusCode::kFailedPrecondition, TestCut(0, 0)),
              HasSubstr("before it pushes"));
}

TEST_F(PartitionTest, ParkedBytesAreBounded) {
  Open(TestOpenRequest(2));
  v1::ExchangeRequest none = TestClose(0, 0, 0);
  none.mutable_close()->set_no_dense(true);
  Do(none);
  const std::vector<uint64_t> keys(100, 5);
  EXPECT_FALSE(Call(TestSparsePull(0, 1, 100), KeysAndRows(keys, {})).arrived());
  const TestAnswer refused = Call(TestSparsePull(0, 1, 100), KeysAndRows(keys, {}));
  ASSERT_TRUE(refused.arrived());
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(refused.reply().retry_after_ms(), 0u);
}

TEST_F(PartitionTest, ParkedCallsWithoutAPayloadAreBoundedToo) {
  Open(TestOpenRequest(2));
  v1::ExchangeRequest none = TestClose(0, 0, 0);
  none.mutable_close()->set_no_dense(true);
  Do(none);
  for (size_t i = 0; i < 2000 / kCallBytes; ++i) {
    EXPECT_FALSE(Call(TestDensePull(0, 1, 0, 1)).arrived());
  }
  EXPECT_THAT(Refusal(absl::StatusCode::kResourceExhausted, TestDensePull(0, 1, 0, 1)),
              HasSubstr("bytes of waiting requests"));
}

// A waiting call keeps its caller's connection, and memory of it.
TEST_F(PartitionTest, ATaskLetsGoOfWhatItsPredecessorWaitedFor) {
  Open(TestOpenRequest(2));
  v1::ExchangeRequest none = TestClose(0, 0, 0);
  none.mutable_close()->set_no_dense(true);
  Do(none);
  TestAnswer answer;
  ExchangeCall call = MakeTestCall(TestDensePull(0, 1, 0, 1), {}, answer);
  const auto gone = std::make_shared<std::atomic<bool>>(false);
  call.cancelled = gone;
  auto connection = std::make_shared<int>();
  const std::weak_ptr<int> held = connection;
  call.done = [connection = std::move(connection)](v1::ExchangeReply, Payload) {};
  std::vector<ExchangeCall> calls;
  calls.push_back(std::move(call));
  partition_->Execute(std::move(calls));
  // One whose caller is there goes on waiting.
  const TestAnswer other = Call(TestDensePull(1, 1, 0, 1));
  EXPECT_FALSE(held.expired());
  gone->store(true);
  ASSERT_TRUE(partition_->EnterTask(0, 2).ok());
  EXPECT_TRUE(held.expired());
  none = TestClose(1, 0, 0);
  none.mutable_close()->set_no_dense(true);
  Do(none);
  EXPECT_TRUE(other.arrived());
}

TEST_F(PartitionTest, RowsBeyondTheMemoryBudgetAreRefused) {
  Open(TestOpenRequest(1));
  const uint64_t rows = 40000;
  std::vector<uint64_t> keys(rows);
  for (uint64_t i = 0; i < rows; ++i) keys[i] = i;
  EXPECT_THAT(Refusal(absl::StatusCode::kResourceExhausted, TestSparsePush(0, 0, 0, rows),
                      KeysAndRows(keys, std::vector<float>(rows * 2))),
              HasSubstr("memory budget"));
  keys.resize(100);
  Do(TestSparsePush(0, 0, 0, 100), KeysAndRows(keys, std::vector<float>(200)));
}

TEST_F(PartitionTest, RepliesNeverChangeAfterwards) {
  v1::OpenTablesRequest request = TestOpenRequest(1);
  request.mutable_update()->set_staleness_bound(1);
  Open(request);
  const TestAnswer before = Do(TestDensePull(0, 0, 0, 2));
  PushAllDense(0, 0, 5);
  EXPECT_THAT(before.floats(), Each(1));
  EXPECT_THAT(Do(TestDensePull(0, 0, 0, 2)).floats(), Each(-4));
}

TEST_F(PartitionTest, ClosingAnswersWhatIsParkedAndAllThatFollows) {
  Open(TestOpenRequest(2));
  v1::ExchangeRequest none = TestClose(0, 0, 0);
  none.mutable_close()->set_no_dense(true);
  Do(none);
  const TestAnswer parked = Call(TestDensePull(0, 1, 0, 1));
  partition_->Close(absl::AbortedError("fenced"));
  ASSERT_TRUE(parked.arrived());
  EXPECT_EQ(parked.code(), absl::StatusCode::kAborted);
  EXPECT_EQ(Refusal(absl::StatusCode::kAborted, TestDensePull(0, 0, 0, 1)), "fenced");
}

TEST_F(PartitionTest, ClippingByValueReachesTheOptimizer) {
  v1::OpenTablesRequest request = TestOpenRequest(1);
  request.mutable_schema()->mutable_clipping()->set_by_value(0.25);
  Open(request);
  PushAllDense(0, 0, 5);
  Do(TestSparsePush(0, 0, 0, 1), KeysAndRows({5}, {-5, 0.125}));
  Do(TestClose(0, 0, 1));
  EXPECT_THAT(Do(TestDensePull(0, 1, 0, 2)).floats(), Each(0.75));
  EXPECT_THAT(Do(TestSparsePull(0, 1, 1), KeysAndRows({5}, {})).floats(), ElementsAre(0.75, 0.375));
}

}  // namespace
}  // namespace muster
