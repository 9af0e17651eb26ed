#include "common/compute/context_ring.h"

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr int kMostRanks = 8;

TEST(ContextRingTest, ChunksOfAllRanksAreTheSequence) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    std::set<int64_t> begins;
    for (int rank = 0; rank < ranks; ++rank) {
      begins.insert(FirstOfChunk(ranks, rank, 0, 5));
      begins.insert(FirstOfChunk(ranks, rank, 1, 5));
    }
    EXPECT_EQ(begins.size(), 2 * ranks);
    EXPECT_EQ(*begins.begin(), 0);
    EXPECT_EQ(*begins.rbegin(), (2 * ranks - 1) * 5);
  }
}

TEST(ContextRingTest, KeysOfATurnAreThoseThatTheRankBeforeHadAtTheLast) {
  for (int ranks = 2; ranks <= kMostRanks; ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      EXPECT_EQ(SourceOfTurn(ranks, rank, 0), rank);
      for (int turn = 0; turn + 1 < ranks; ++turn) {
        EXPECT_EQ(SourceOfTurn(ranks, (rank + 1) % ranks, turn + 1),
                  SourceOfTurn(ranks, rank, turn));
      }
    }
  }
}

// Every chunk of queries meets every chunk of keys that it sees, once, and no other.
TEST(ContextRingTest, EachQueryMeetsEachKeyThatItSeesOnce) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    std::map<std::pair<int64_t, int64_t>, int> met;
    for (int rank = 0; rank < ranks; ++rank) {
      for (int turn = 0; turn < ranks; ++turn) {
        const int source = SourceOfTurn(ranks, rank, turn);
        for (const ChunkPair& pair : ChunkPairs(rank, source)) {
          ++met[{FirstOfChunk(ranks, rank, pair.query_half, 1),
                 FirstOfChunk(ranks, source, pair.key_half, 1)}];
        }
      }
    }
    for (int64_t queries = 0; queries < 2 * ranks; ++queries) {
      for (int64_t keys = 0; keys < 2 * ranks; ++keys) {
        EXPECT_EQ((met[{queries, keys}]), keys <= queries ? 1 : 0)
            << queries << " and " << keys << " of " << ranks << " ranks";
      }
    }
  }
}

// A pair of a chunk with itself is half of a pair of two chunks.
TEST(ContextRingTest, RanksHaveAsMuchToDoAtEachTurn) {
  for (int ranks = 1; ranks <= kMostRanks; ++ranks) {
    for (int rank = 0; rank < ranks; ++rank) {
      for (int turn = 0; turn < ranks; ++turn) {
        const int source = SourceOfTurn(ranks, rank, turn);
        int halves = 0;
        for (const ChunkPair& pair : ChunkPairs(rank, source)) {
          halves += source == rank && pair.query_half == pair.key_half ? 1 : 2;
        }
        EXPECT_EQ(halves, 4);
      }
    }
  }
}

}  // namespace
}  // namespace muster
