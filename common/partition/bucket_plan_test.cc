#include "common/partition/bucket_plan.h"

#include <set>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {

bool operator==(const GradientBucket& a, const GradientBucket& b) {
  return a.begin == b.begin && a.end == b.end && a.ready_unit == b.ready_unit;
}

void PrintTo(const GradientBucket& bucket, std::ostream* out) {
  *out << "[" << bucket.begin << "," << bucket.end << ")@" << bucket.ready_unit;
}

namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// One tensor per unit, of these sizes.
std::vector<TensorSpec> Units(const std::vector<int64_t>& sizes) {
  std::vector<TensorSpec> tensors;
  for (size_t unit = 0; unit < sizes.size(); ++unit) {
    TensorSpec& tensor = tensors.emplace_back();
    tensor.name = absl::StrCat("t", unit);
    tensor.shape = {sizes[unit]};
    tensor.unit = unit;
  }
  return tensors;
}

DenseLayout LayoutInOneBlock(const std::vector<TensorSpec>& tensors) {
  return DenseLayout::Create(tensors, {.block_bytes = 8, .partitions = 3}).value();
}

std::vector<GradientBucket> Plan(const std::vector<TensorSpec>& tensors, uint64_t first_elements,
                                 uint64_t elements) {
  return MakeBucketPlan(LayoutInOneBlock(tensors), tensors, {first_elements * 4, elements * 4});
}

TEST(BucketPlanTest, TheExampleOfTheHeader) {
  EXPECT_THAT(
      Plan(Units({2, 3, 2}), 1, 4),
      ElementsAre(GradientBucket{6, 7, 2}, GradientBucket{2, 6, 1}, GradientBucket{0, 2, 0}));
}

TEST(BucketPlanTest, UnitsShareABucketOnlyWhole) {
  EXPECT_THAT(Plan(Units({5, 2, 2}), 5, 5),
              ElementsAre(GradientBucket{5, 9, 1}, GradientBucket{0, 5, 0}));
}

TEST(BucketPlanTest, ALargeUnitIsCutFromItsEnd) {
  EXPECT_THAT(Plan(Units({10, 1}), 2, 4),
              ElementsAre(GradientBucket{10, 11, 1}, GradientBucket{6, 10, 0},
                          GradientBucket{2, 6, 0}, GradientBucket{0, 2, 0}));
}

TEST(BucketPlanTest, ATiedTensorIsCompleteWithTheFirstUnitThatAddsToIt) {
  std::vector<TensorSpec> tensors = Units({3, 2, 3});
  // The storage is the last unit's; backward adds to it again in unit 0.
  tensors[0].tied_to = "t2";
  EXPECT_THAT(Plan(tensors, 3, 3), ElementsAre(GradientBucket{2, 5, 0}, GradientBucket{0, 2, 1}));
  // The storage is the first unit's.
  tensors = Units({3, 2, 3});
  tensors[2].tied_to = "t0";
  EXPECT_THAT(Plan(tensors, 3, 3), ElementsAre(GradientBucket{3, 5, 1}, GradientBucket{0, 3, 0}));
}

TEST(BucketPlanTest, NoTensorsNoBuckets) { EXPECT_THAT(Plan({}, 1, 1), IsEmpty()); }

TEST(BucketPlanTest, DefaultsAreOneAndTwentyFiveMebibytes) {
  const std::vector<TensorSpec> tensors = Units({16 << 20});
  const std::vector<GradientBucket> plan = MakeBucketPlan(
      DenseLayout::Create(tensors, {.partitions = 1}).value(), tensors, BucketPlanOptions());
  ASSERT_EQ(plan.size(), 4);
  EXPECT_EQ(plan[0].elements(), 1 << 18);
  EXPECT_EQ(plan[1].elements(), 25 << 18);
  EXPECT_EQ(plan[2].elements(), 25 << 18);
  EXPECT_EQ(plan[3].elements(), 13 << 18);
}

// Every sequence of up to four units of up to four elements, and all bucket sizes up to five.
TEST(BucketPlanTest, CoversEverythingOnceInOrderForEverySmallModel) {
  std::set<uint64_t> fingerprints;
  size_t plans = 0;
  for (int code = 0; code < 5 * 5 * 5 * 5; ++code) {
    const std::vector<int64_t> sizes = {code % 5, code / 5 % 5, code / 25 % 5, code / 125};
    const std::vector<TensorSpec> tensors = Units(sizes);
    const uint64_t total = sizes[0] + sizes[1] + sizes[2] + sizes[3];
    for (uint64_t first = 1; first <= 5; ++first) {
      for (uint64_t rest = 1; rest <= 5; ++rest) {
        SCOPED_TRACE(absl::StrCat(code, " ", first, " ", rest));
        const std::vector<GradientBucket> plan = Plan(tensors, first, rest);
        uint64_t at = total;
        int ready = 3;
        for (size_t i = 0; i < plan.size(); ++i) {
          ASSERT_EQ(plan[i].end, at);
          ASSERT_LT(plan[i].begin, plan[i].end);
          ASSERT_LE(plan[i].elements(), i == 0 ? first : rest);
          at = plan[i].begin;
          // Ready exactly with the unit of its first element: none earlier, none later.
          uint64_t unit_begin = 0;
          int unit = 0;
          while (unit_begin + sizes[unit] <= plan[i].begin) unit_begin += sizes[unit++];
          ASSERT_EQ(plan[i].ready_unit, unit);
          ASSERT_LE(plan[i].ready_unit, ready);
          ready = plan[i].ready_unit;
          // Whoever takes part of a unit takes it from its start, or holds nothing of others before
          // it.
          const bool cuts = unit_begin != plan[i].begin;
          if (cuts) {
            ASSERT_LE(plan[i].end, unit_begin + sizes[unit]);
          }
        }
        ASSERT_EQ(at, 0);
        ASSERT_EQ(BucketPlanFingerprint(plan), BucketPlanFingerprint(Plan(tensors, first, rest)));
        fingerprints.insert(BucketPlanFingerprint(plan));
        ++plans;
      }
    }
  }
  // Plans that differ have fingerprints that differ; many models and sizes give one plan.
  EXPECT_GT(fingerprints.size(), 500);
  EXPECT_LT(fingerprints.size(), plans);
}

TEST(BucketPlanTest, TheFingerprintSeesEveryField) {
  const std::vector<GradientBucket> plan = {{2, 4, 1}, {0, 2, 0}};
  const uint64_t fingerprint = BucketPlanFingerprint(plan);
  for (int field = 0; field < 3; ++field) {
    std::vector<GradientBucket> other = plan;
    if (field == 0) other[0].begin = 3;
    if (field == 1) other[1].end = 3;
    if (field == 2) other[0].ready_unit = 0;
    EXPECT_NE(BucketPlanFingerprint(other), fingerprint);
  }
}

TEST(BucketPlanTest, OptionsThatAJobLeavesOutAreTheDefaults) {
  v1::UpdateSpec update;
  EXPECT_EQ(BucketPlanOptionsOf(update).first_bucket_bytes, 1u << 20);
  EXPECT_EQ(BucketPlanOptionsOf(update).bucket_bytes, 25u << 20);
  update.set_first_bucket_bytes(64);
  update.set_bucket_bytes(500);
  EXPECT_EQ(BucketPlanOptionsOf(update).first_bucket_bytes, 64u);
  EXPECT_EQ(BucketPlanOptionsOf(update).bucket_bytes, 500u);
}

}  // namespace
}  // namespace muster
