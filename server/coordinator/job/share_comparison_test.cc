#include "server/coordinator/job/share_comparison.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

// Returns what `ranks` data ranks say that compute right, each of its own share and of those at the
// distances. Slots are data ranks.
std::vector<ShareOpinion> Right(uint32_t ranks, std::vector<uint32_t> distances) {
  distances.insert(distances.begin(), 0);
  std::vector<ShareOpinion> opinions;
  for (uint32_t slot = 0; slot < ranks; ++slot) {
    for (const uint32_t distance : distances) {
      const uint32_t share = (slot + distance) % ranks;
      opinions.push_back({.slot = slot, .share = share, .gradients = 100 + share});
    }
  }
  return opinions;
}

// Changes what the slot says of a share, in the `time`-th of its opinions on it.
void Flip(uint32_t slot, uint32_t share, int time, std::vector<ShareOpinion>& opinions) {
  for (ShareOpinion& opinion : opinions) {
    if (opinion.slot == slot && opinion.share == share && time-- == 0) opinion.gradients += 1000;
  }
}

TEST(ShareComparisonTest, EqualBitsAreRight) {
  EXPECT_TRUE(CompareShares(Right(2, {1})).right());
  EXPECT_TRUE(CompareShares(Right(5, {1, 2})).right());
}

TEST(ShareComparisonTest, TwoOpinionsDoNotSayWhoIsWrong) {
  std::vector<ShareOpinion> opinions = Right(4, {1});
  Flip(2, 2, 0, opinions);
  const StepVerdict verdict = CompareShares(opinions);
  EXPECT_THAT(verdict.wrong, IsEmpty());
  EXPECT_THAT(verdict.unsettled, ElementsAre(1, 2));
}

TEST(ShareComparisonTest, AThirdOpinionDoes) {
  std::vector<ShareOpinion> opinions = Right(3, {1, 2});
  Flip(2, 2, 0, opinions);
  const StepVerdict verdict = CompareShares(opinions);
  EXPECT_THAT(verdict.wrong, ElementsAre(Pair(2, 2)));
  EXPECT_THAT(verdict.unsettled, IsEmpty());
}

TEST(ShareComparisonTest, OfAnothersShareAsOfItsOwn) {
  std::vector<ShareOpinion> opinions = Right(4, {1, 2});
  Flip(3, 0, 0, opinions);
  EXPECT_THAT(CompareShares(opinions).wrong, ElementsAre(Pair(3, 0)));
}

TEST(ShareComparisonTest, ASlotThatContradictsItselfIsWrongAmongTwo) {
  std::vector<ShareOpinion> opinions = Right(2, {1, 2});
  Flip(1, 1, 1, opinions);
  StepVerdict verdict = CompareShares(opinions);
  EXPECT_THAT(verdict.wrong, ElementsAre(Pair(1, 1)));
  EXPECT_THAT(verdict.unsettled, IsEmpty());
  // Once of the other's share, which it makes again later.
  opinions = Right(2, {1, 2});
  Flip(1, 0, 0, opinions);
  verdict = CompareShares(opinions);
  EXPECT_THAT(verdict.wrong, IsEmpty());
  EXPECT_THAT(verdict.unsettled, ElementsAre(0, 1));
  opinions = Right(2, {1, 2, 3});
  Flip(1, 0, 0, opinions);
  EXPECT_THAT(CompareShares(opinions).wrong, ElementsAre(Pair(1, 0)));
}

TEST(ShareComparisonTest, AmongTwoThatEachRepeatThemselvesNobodyCanTell) {
  std::vector<ShareOpinion> opinions = Right(2, {1, 2, 3});
  for (int time = 0; time < 2; ++time) Flip(0, 0, time, opinions);
  for (ShareOpinion& opinion : opinions) {
    if (opinion.slot == 0 && opinion.share == 0) opinion.gradients = 7;
  }
  const StepVerdict verdict = CompareShares(opinions);
  EXPECT_THAT(verdict.wrong, IsEmpty());
  EXPECT_THAT(verdict.unsettled, ElementsAre(0, 1));
}

TEST(ShareComparisonTest, PartsAreComparedAmongThemselves) {
  std::vector<ShareOpinion> opinions;
  for (const ShareOpinion& of_rank : Right(3, {1, 2})) {
    for (int part = 0; part < 2; ++part) {
      opinions.push_back({.slot = 2 * of_rank.slot + part,
                          .part = part,
                          .share = of_rank.share,
                          .gradients = of_rank.gradients + 10 * part});
    }
  }
  EXPECT_TRUE(CompareShares(opinions).right());
  Flip(3, 1, 0, opinions);
  EXPECT_THAT(CompareShares(opinions).wrong, ElementsAre(Pair(3, 1)));
  // The wrong activations of one came to the other.
  Flip(2, 1, 0, opinions);
  EXPECT_THAT(CompareShares(opinions).wrong, ElementsAre(Pair(2, 1), Pair(3, 1)));
}

}  // namespace
}  // namespace muster
