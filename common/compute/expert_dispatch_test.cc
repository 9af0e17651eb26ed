#include "common/compute/expert_dispatch.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <vector>

#include "common/base/philox.h"
#include "common/compute/host_expert_ops.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;

// Returns where the rows of each expert begin, of each rank, which has so many for each.
std::vector<int32_t> OffsetsOf(const std::vector<int32_t>& counts, int ranks) {
  const size_t experts = counts.size() / ranks;
  std::vector<int32_t> offsets;
  for (int rank = 0; rank < ranks; ++rank) {
    offsets.push_back(0);
    for (size_t e = 0; e < experts; ++e) {
      offsets.push_back(offsets.back() + counts[rank * experts + e]);
    }
  }
  return offsets;
}

// Returns where the rows that the rank takes in the round begin for each of its experts.
std::vector<int32_t> TakenOffsets(const std::vector<int32_t>& offsets, int ranks, int rank,
                                  const ExpertDispatch::Round& round) {
  const auto experts = static_cast<int64_t>(offsets.size()) / ranks - 1;
  std::vector<int32_t> taken(experts / ranks + 1), numbers(round.rows);
  HostExpertOps().OrderHostedRows(
      {.ranks = ranks, .rank = rank, .experts = experts, .first = round.first, .rows = round.rows},
      offsets.data(), taken.data(), numbers.data());
  for (int64_t i = 0; i < round.rows; ++i) EXPECT_EQ(numbers[i], i);
  return taken;
}

TEST(ExpertDispatchTest, RowsGoToTheRanksOfTheirExperts) {
  const std::vector<int32_t> offsets = OffsetsOf({3, 1, 2, 2}, 2);
  const ExpertDispatch first(offsets, 2, 0), second(offsets, 2, 1);
  ASSERT_EQ(first.rounds(), 1);
  EXPECT_THAT(TakenOffsets(offsets, 2, 0, first.MakeRound(0)), ElementsAre(0, 5));
  EXPECT_THAT(TakenOffsets(offsets, 2, 1, second.MakeRound(0)), ElementsAre(0, 3));
  const std::vector<ExpertDispatch::Rows> sent = second.MakeRound(0).sent;
  ASSERT_EQ(sent.size(), 2u);
  EXPECT_EQ(sent[0].peer, 0);
  EXPECT_EQ(sent[0].first, 0);
  EXPECT_EQ(sent[0].count, 2);
  EXPECT_EQ(sent[1].peer, 1);
  EXPECT_EQ(sent[1].first, 2);
}

TEST(ExpertDispatchTest, NoRowsAreOneRound) {
  const std::vector<int32_t> offsets(2 * 5);
  const ExpertDispatch dispatch(offsets, 2, 1);
  ASSERT_EQ(dispatch.rounds(), 1);
  EXPECT_THAT(TakenOffsets(offsets, 2, 1, dispatch.MakeRound(0)), ElementsAre(0, 0, 0));
  EXPECT_TRUE(dispatch.MakeRound(0).sent.empty());
}

// Carries all rounds out on numbers of rows, which say whose they are, and checks that each comes
// once, to its expert, in order, in bounded memory.
void ExpectEveryRowOnce(const std::vector<int32_t>& counts, int ranks) {
  const auto experts = static_cast<int>(counts.size()) / ranks, of_rank = experts / ranks;
  const std::vector<int32_t> own_offsets = OffsetsOf(counts, ranks);
  std::vector<ExpertDispatch> dispatches;
  for (int rank = 0; rank < ranks; ++rank) dispatches.emplace_back(own_offsets, ranks, rank);
  const int rounds = dispatches[0].rounds();
  // (source, row) of what each expert took.
  std::vector<std::vector<std::tuple<int, int64_t>>> taken(experts);
  for (int round = 0; round < rounds; ++round) {
    std::vector<ExpertDispatch::Round> made;
    for (const ExpertDispatch& dispatch : dispatches) {
      EXPECT_EQ(dispatch.rounds(), rounds);
      made.push_back(dispatch.MakeRound(round));
    }
    // Messages from rank to rank, in order.
    std::map<std::pair<int, int>, std::vector<ExpertDispatch::Rows>> messages;
    for (int rank = 0; rank < ranks; ++rank) {
      for (const ExpertDispatch::Rows& rows : made[rank].sent) {
        messages[{rank, rows.peer}].push_back(rows);
      }
    }
    for (int rank = 0; rank < ranks; ++rank) {
      const std::vector<int32_t> offsets = TakenOffsets(own_offsets, ranks, rank, made[rank]);
      int64_t own = 0, at = 0;
      for (int e = 0; e < experts; ++e) own += counts[rank * experts + e];
      for (const ExpertDispatch::Rows& rows : made[rank].taken) {
        std::vector<ExpertDispatch::Rows>& from = messages[{rows.peer, rank}];
        ASSERT_FALSE(from.empty());
        ASSERT_EQ(from.front().count, rows.count);
        ASSERT_EQ(rows.first, at);
        const auto expert = std::upper_bound(offsets.begin(), offsets.end(), at) - offsets.begin();
        ASSERT_LE(at + rows.count, offsets[expert]);
        for (int64_t i = 0; i < rows.count; ++i) {
          taken[rank * of_rank + expert - 1].emplace_back(rows.peer, from.front().first + i);
        }
        at += rows.count;
        from.erase(from.begin());
      }
      EXPECT_EQ(at, made[rank].rows);
      EXPECT_EQ(at, offsets.back());
      EXPECT_LE(at, MostHostedRows(own));
    }
    for (const auto& [pair, left] : messages) EXPECT_TRUE(left.empty());
  }
  for (int e = 0; e < experts; ++e) {
    std::vector<std::tuple<int, int64_t>> wanted;
    for (int rank = 0; rank < ranks; ++rank) {
      int64_t first = 0;
      for (int before = 0; before < e; ++before) first += counts[rank * experts + before];
      for (int64_t i = 0; i < counts[rank * experts + e]; ++i) wanted.emplace_back(rank, first + i);
    }
    EXPECT_EQ(taken[e], wanted) << "expert " << e;
  }
}

TEST(ExpertDispatchTest, EveryRowComesOnce) {
  const Philox random(5, "test", "counts");
  uint64_t draw = 0;
  for (const int ranks : {1, 2, 3, 4}) {
    for (int history = 0; history < 50; ++history) {
      const int experts = ranks * static_cast<int>(1 + random.Below(3, draw++));
      std::vector<int32_t> counts(ranks * experts);
      // Some experts, or all but one, get nothing.
      for (int32_t& count : counts) {
        const bool has_some = random.Below(history % 4 + 1, draw++) == 0;
        count = has_some ? static_cast<int32_t>(random.Below(300, draw++)) : 0;
      }
      ExpectEveryRowOnce(counts, ranks);
    }
  }
}

// A rank without own rows takes few at a time.
TEST(ExpertDispatchTest, WorstRoutingTakesRounds) {
  const std::vector<int32_t> counts = {0, 0, 1000, 0};
  ExpectEveryRowOnce(counts, 2);
  const std::vector<int32_t> offsets = OffsetsOf(counts, 2);
  EXPECT_EQ(ExpertDispatch(offsets, 2, 1).rounds(), 16);
}

}  // namespace
}  // namespace muster
