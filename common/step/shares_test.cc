#include "common/step/shares.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <vector>

#include "common/base/philox.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

// Expects that `passes` of all data ranks are every position of [0, examples) once, in order of
// data ranks and of passes; that ranks with nothing more to do come after those that have, in every
// rank's passes; and that no pass is empty on all ranks. `pass` is a rank's pass.
void ExpectDivided(int64_t examples, int64_t data_ranks, int64_t passes,
                   const std::function<Share(int64_t, int64_t)>& pass) {
  int64_t next = 0;
  int64_t most_passes = 0;
  int64_t least = examples, most = 0;
  for (int64_t data_rank = 0; data_rank < data_ranks; ++data_rank) {
    const int64_t first = next;
    int64_t filled = 0;
    for (int64_t i = 0; i < passes; ++i) {
      const Share share = pass(data_rank, i);
      ASSERT_EQ(share.begin, next);
      ASSERT_GE(share.size(), 0);
      next = share.end;
      if (share.size() == 0) continue;
      ASSERT_EQ(filled, i) << "after an empty one";
      ++filled;
    }
    most_passes = std::max(most_passes, filled);
    least = std::min(least, next - first);
    most = std::max(most, next - first);
  }
  ASSERT_EQ(next, examples);
  ASSERT_LE(most - least, 1);
  ASSERT_EQ(most_passes, passes);
}

TEST(SharesTest, DifferByAtMostOneExample) {
  for (int64_t examples = 0; examples <= 40; ++examples) {
    for (int64_t data_ranks = 1; data_ranks <= 8; ++data_ranks) {
      int64_t next = 0;
      for (int64_t data_rank = 0; data_rank < data_ranks; ++data_rank) {
        const Share share = ShareOf(examples, data_rank, data_ranks);
        ASSERT_EQ(share.begin, next);
        ASSERT_GE(share.size(), examples / data_ranks);
        ASSERT_LE(share.size(), (examples + data_ranks - 1) / data_ranks);
        next = share.end;
      }
      ASSERT_EQ(next, examples);
    }
  }
  EXPECT_EQ(ShareOf(int64_t{1} << 62, 6, 8).size(), int64_t{1} << 59);
}

TEST(SharesTest, FollowParts) {
  const std::vector<uint32_t> parts = {1143, 1143, 571, 1143};
  std::vector<int64_t> sizes;
  for (int i = 0; i < 4; ++i) sizes.push_back(ShareOf(400, i, parts).size());
  EXPECT_THAT(sizes, ElementsAre(114, 114, 57, 115));
  // Each has one before parts count.
  EXPECT_EQ(ShareOf(4, 2, parts).size(), 1);
  EXPECT_EQ(ShareOf(int64_t{1} << 62, 1, std::vector<uint32_t>(2, 1u << 31)).end, int64_t{1} << 62);
}

TEST(SharesTest, OfEqualPartsAreEqual) {
  for (int64_t data_ranks = 1; data_ranks <= 8; ++data_ranks) {
    const std::vector<uint32_t> parts(data_ranks, 7);
    for (int64_t examples = data_ranks; examples <= 40; ++examples) {
      for (int64_t rank = 0; rank < data_ranks; ++rank) {
        ASSERT_EQ(ShareOf(examples, rank, parts).begin, ShareOf(examples, rank, data_ranks).begin);
        ASSERT_EQ(ShareOf(examples, rank, parts).end, ShareOf(examples, rank, data_ranks).end);
      }
    }
  }
}

// Micro-batches of random parts are every example once, and none is larger than those of equal
// parts.
TEST(BatchDivisionTest, PartsNeedNoMoreMemory) {
  const Philox random(1, "shares_test", "parts");
  uint64_t drawn = 0;
  int more_passes = 0;
  for (int i = 0; i < 3000; ++i) {
    const auto data_ranks = static_cast<int64_t>(random.Below(6, drawn++)) + 1;
    const auto micro_batches = static_cast<int64_t>(random.Below(4, drawn++)) + 1;
    const int64_t batch =
        data_ranks * micro_batches + static_cast<int64_t>(random.Below(60, drawn++));
    std::vector<uint32_t> parts;
    for (int64_t d = 0; d < data_ranks; ++d) {
      parts.push_back(static_cast<uint32_t>(random.Below(20, drawn++)) + 1);
    }
    const BatchDivision division = {.batch_size = batch,
                                    .data_ranks = data_ranks,
                                    .job_data_ranks = data_ranks,
                                    .micro_batches = micro_batches,
                                    .parts = parts};
    const int64_t count = division.MicroBatches();
    ASSERT_GE(count, micro_batches);
    more_passes += count > micro_batches;
    const int64_t share = (batch + data_ranks - 1) / data_ranks;
    const int64_t most = (share + micro_batches - 1) / micro_batches;
    std::vector<bool> any(count);
    int64_t next = 0;
    for (int64_t rank = 0; rank < data_ranks; ++rank) {
      ASSERT_GE(division.ShareOfRank(rank).size(), 1);
      for (int64_t j = 0; j < count; ++j) {
        const Share pass = division.MicroBatch(rank, j);
        ASSERT_EQ(pass.begin, next);
        ASSERT_LE(pass.size(), most) << "memory was planned for less";
        any[j] = any[j] || pass.size() > 0;
        next = pass.end;
      }
      ASSERT_EQ(next, division.ShareOfRank(rank).end);
    }
    ASSERT_EQ(next, batch);
    EXPECT_THAT(any, Each(true)) << "a pass of no examples on every rank";
  }
  EXPECT_GT(more_passes, 0);
}

// Every number of data ranks that are left, too.
TEST(BatchDivisionTest, EveryExampleOnceInTheSameNumberOfMicroBatchesOnAllRanks) {
  int empty = 0;
  for (int64_t batch = 1; batch <= 20; ++batch) {
    for (int64_t job_data_ranks = 1; job_data_ranks <= std::min<int64_t>(8, batch);
         ++job_data_ranks) {
      const int64_t most_parts = std::min<int64_t>(6, batch / job_data_ranks);
      for (int64_t parts = 1; parts <= most_parts; ++parts) {
        int64_t largest = 0;
        for (int64_t data_ranks = job_data_ranks; data_ranks >= 1; --data_ranks) {
          SCOPED_TRACE(testing::Message()
                       << batch << " examples, " << data_ranks << " of " << job_data_ranks
                       << " data ranks, " << parts << " micro-batches");
          const BatchDivision division = {batch, data_ranks, job_data_ranks, parts};
          const int64_t count = division.MicroBatches();
          ASSERT_GE(count, parts);
          ASSERT_NO_FATAL_FAILURE(
              ExpectDivided(batch, data_ranks, count, [&](int64_t data_rank, int64_t i) {
                const Share share = division.MicroBatch(data_rank, i);
                if (data_ranks == job_data_ranks) {
                  EXPECT_GT(share.size(), 0);
                  largest = std::max(largest, share.size());
                }
                EXPECT_LE(share.size(), largest) << "memory was planned for less";
                empty += share.size() == 0;
                return share;
              }));
          if (data_ranks == job_data_ranks) {
            ASSERT_EQ(count, parts);
          }
        }
      }
    }
  }
  EXPECT_GT(empty, 0) << "no rank ran out of examples";
}

TEST(BatchDivisionTest, AShareIsDividedEvenlyIntoWhatItNeeds) {
  // Two of the former three ranks are left: they have 4 and 5 of 9 examples, 3 at a time.
  const BatchDivision division = {
      .batch_size = 9, .data_ranks = 2, .job_data_ranks = 3, .micro_batches = 1};
  EXPECT_EQ(division.MicroBatches(), 2);
  EXPECT_EQ(division.MicroBatch(0, 0).size(), 2);
  EXPECT_EQ(division.MicroBatch(0, 1).size(), 2);
  EXPECT_EQ(division.MicroBatch(1, 0).size(), 2);
  EXPECT_EQ(division.MicroBatch(1, 1).size(), 3);
  // With 7 examples in micro-batches of 3, only one of the ranks needs a second micro-batch.
  const BatchDivision uneven = {
      .batch_size = 7, .data_ranks = 2, .job_data_ranks = 3, .micro_batches = 1};
  EXPECT_EQ(uneven.MicroBatches(), 2);
  EXPECT_EQ(uneven.MicroBatch(0, 0).size(), 3);
  EXPECT_EQ(uneven.MicroBatch(0, 1).size(), 0);
  EXPECT_EQ(uneven.MicroBatch(1, 0).size(), 2);
  EXPECT_EQ(uneven.MicroBatch(1, 1).size(), 2);
}

TEST(EvaluationDivisionTest, EveryExampleOnceInTheSameNumberOfBatchesOnAllRanks) {
  int empty = 0;
  for (int64_t examples = 0; examples <= 40; ++examples) {
    for (int64_t data_ranks = 1; data_ranks <= 8; ++data_ranks) {
      for (int64_t most = 1; most <= 9; ++most) {
        SCOPED_TRACE(testing::Message() << examples << " examples, " << data_ranks
                                        << " data ranks, batches of " << most);
        const EvaluationDivision division = {examples, data_ranks, most};
        ASSERT_NO_FATAL_FAILURE(ExpectDivided(
            examples, data_ranks, division.Batches(), [&](int64_t data_rank, int64_t i) {
              const Share batch = division.Batch(data_rank, i);
              EXPECT_LE(batch.size(), most);
              // A batch that another one follows is full.
              if (i + 1 < division.Batches() && division.Batch(data_rank, i + 1).size() > 0) {
                EXPECT_EQ(batch.size(), most);
              }
              empty += batch.size() == 0;
              return batch;
            }));
      }
    }
  }
  EXPECT_GT(empty, 0) << "no rank ran out of examples";
}

}  // namespace
}  // namespace muster
