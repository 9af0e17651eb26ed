#include "worker/data/sampling/evaluation_share.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// What all data ranks evaluate, joined in their order; shares are read three examples at a time.
std::vector<int64_t> Joined(const Split& split, int64_t data_ranks, int64_t max_examples) {
  std::vector<int64_t> joined;
  std::vector<int64_t> part;
  for (int64_t data_rank = 0; data_rank < data_ranks; ++data_rank) {
    const EvaluationShare share(
        split, {.data_rank = data_rank, .data_ranks = data_ranks, .max_examples = max_examples});
    for (int64_t batch = 0; batch < share.Batches(3); ++batch) {
      share.BatchExamples(batch, 3, part);
      joined.insert(joined.end(), part.begin(), part.end());
    }
  }
  return joined;
}

TEST(EvaluationShareTest, SharesCoverWhatIsHeldOut) {
  const Split split = {.training = 100, .held_out = 10};
  for (const int64_t data_ranks : {1, 2, 3, 10, 12}) {
    EXPECT_THAT(Joined(split, data_ranks, 0),
                ElementsAre(100, 101, 102, 103, 104, 105, 106, 107, 108, 109));
    EXPECT_EQ(Joined(split, data_ranks, 10), Joined(split, data_ranks, 0));
    EXPECT_EQ(Joined(split, data_ranks, 1000), Joined(split, data_ranks, 0));
  }
}

TEST(EvaluationShareTest, ABoundTakesExamplesSpreadOverAll) {
  const Split split = {.training = 100, .held_out = 10};
  for (const int64_t data_ranks : {1, 2, 3}) {
    EXPECT_THAT(Joined(split, data_ranks, 4), ElementsAre(100, 102, 105, 107));
    EXPECT_THAT(Joined(split, data_ranks, 1), ElementsAre(100));
  }
}

TEST(EvaluationShareTest, ARankWithoutExamplesHasAsManyBatchesAsTheOthers) {
  const Split split = {.training = 5, .held_out = 7};
  std::vector<int64_t> examples = {-1};
  for (const int64_t data_rank : {0, 1, 2}) {
    const EvaluationShare share(split,
                                {.data_rank = data_rank, .data_ranks = 3, .max_examples = 2});
    EXPECT_EQ(share.Batches(4), 1);
    share.BatchExamples(0, 4, examples);
    EXPECT_EQ(examples.size(), data_rank == 0 ? 0 : 1);
  }
}

TEST(EvaluationShareTest, NothingHeldOutIsNothingToEvaluate) {
  EXPECT_THAT(Joined({.training = 5, .held_out = 0}, 2, 0), IsEmpty());
  EXPECT_THAT(Joined({.training = 5, .held_out = 0}, 2, 3), IsEmpty());
  EXPECT_EQ(EvaluationShare({.training = 5, .held_out = 0}, {.data_ranks = 2}).Batches(3), 0);
}

}  // namespace
}  // namespace muster
