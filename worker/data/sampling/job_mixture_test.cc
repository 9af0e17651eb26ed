#include "worker/data/sampling/job_mixture.h"

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

const std::vector<DatasetSource> kSources = {{"a", 0, 100}, {"b", 100, 50}};

v1::JobSpec Job(const std::string& mixture) {
  v1::JobSpec spec;
  spec.set_batch_size(10);
  spec.set_seed(3);
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(
      mixture, spec.mutable_data()->mutable_mixture()));
  return spec;
}

std::vector<int64_t> Examples(const Mixture& mixture, int64_t begin, int64_t end) {
  std::vector<int64_t> examples;
  mixture.Append(begin, end, examples);
  return examples;
}

constexpr char kChanging[] = R"(
  sources { name: "a" weight: 1 }
  sources { name: "b" weight: 0 }
  changes { step: 4 weights { key: "b" value: 1 } }
  changes { step: 6 weights { key: "a" value: 0 } })";

TEST(JobMixtureTest, OtherDataHaveNone) {
  v1::JobSpec spec;
  spec.mutable_data()->mutable_sequences();
  EXPECT_EQ(MakeJobMixture(spec, {}, StepBatches(1), 10).value(), nullptr);
}

TEST(JobMixtureTest, WeightsChangeAtTheirSteps) {
  const auto mixture = MakeJobMixture(Job(kChanging), kSources, BatchesOf(Job("")), 100).value();
  EXPECT_EQ(mixture->CountBefore(40, 1), 0);
  EXPECT_EQ(mixture->CountBefore(60, 1), 10);
  EXPECT_EQ(mixture->CountBefore(90, 1), 40);
}

TEST(JobMixtureTest, AJobThatGoesOnTakesTheVeryNextExamples) {
  const v1::JobSpec spec = Job(kChanging);
  const auto whole = MakeJobMixture(spec, kSources, BatchesOf(Job("")), 100).value();
  // At clock 5, between the changes; with the same batch size the stream is the same.
  const auto later =
      MakeJobMixture(spec, kSources, BatchesOf(spec, {{DataPosition{5, 50}}}), 100).value();
  EXPECT_EQ(Examples(*later, 50, 120), Examples(*whole, 50, 120));
  // With half the batch the second change comes after half as many further examples.
  v1::JobSpec half = spec;
  half.set_batch_size(5);
  const auto halved =
      MakeJobMixture(half, kSources, BatchesOf(half, {{DataPosition{5, 50}}}), 100).value();
  EXPECT_EQ(Examples(*halved, 50, 55), Examples(*whole, 50, 55));
  EXPECT_EQ(halved->CountBefore(75, 1) - halved->CountBefore(55, 1), 20);
}

// Jobs with batches of 10, 2 and 5 examples follow one another at clocks 3 and 5.
TEST(JobMixtureTest, ChangesStayWhereEarlierJobsHadThem) {
  const v1::JobSpec first = Job(kChanging);
  v1::JobSpec second = first, third = first;
  second.set_batch_size(2);
  third.set_batch_size(5);
  const std::vector<DataPosition> at_3 = BatchesOf(first).PositionsUpTo(3);
  const auto of_second = MakeJobMixture(second, kSources, BatchesOf(second, at_3), 100).value();
  const std::vector<DataPosition> at_5 = BatchesOf(second, at_3).PositionsUpTo(5);
  const auto of_third = MakeJobMixture(third, kSources, BatchesOf(third, at_5), 100).value();
  // The change at step 4 was at position 32; that at step 6 is at position 39.
  EXPECT_EQ(Examples(*of_third, 0, 36), Examples(*of_second, 0, 36));
  EXPECT_EQ(of_third->CountBefore(32, 1), 0);
  EXPECT_GT(of_third->CountBefore(34, 1), 0);
  EXPECT_EQ(of_third->CountBefore(60, 1) - of_third->CountBefore(39, 1), 21);
}

TEST(JobMixtureTest, WeightsChangeAtStepsOfAnyBatch) {
  v1::JobSpec spec = Job(kChanging);
  v1::BatchChange& change = *spec.add_batch_changes();
  change.set_step(5);
  change.set_batch_size(30);
  const auto mixture = MakeJobMixture(spec, kSources, BatchesOf(spec), 100).value();
  EXPECT_EQ(mixture->CountBefore(40, 1), 0);
  // Step 5 has 30 examples, of either source.
  EXPECT_EQ(mixture->CountBefore(80, 1), 20);
  EXPECT_EQ(mixture->CountBefore(110, 1), 50);
}

TEST(JobMixtureTest, ASourcesOrderFollowsFromItsNameOrSeed) {
  const auto first = [](const std::string& a) {
    const v1::JobSpec spec = Job("sources { weight: 1 " + a + " } sources { name: 'b' }");
    return Examples(*MakeJobMixture(spec, kSources, BatchesOf(Job("")), 1).value(), 0, 10);
  };
  EXPECT_EQ(first("name: 'a'"), first("name: 'a' epochs: 2"));
  EXPECT_NE(first("name: 'a'"), first("name: 'c'"));
  EXPECT_EQ(first("name: 'a' seed: 7"), first("name: 'c' seed: 7"));
  EXPECT_NE(first("name: 'a' seed: 7"), first("name: 'a' seed: 8"));
}

TEST(JobMixtureTest, SaysWhenTheSourcesAreUsedUp) {
  const v1::JobSpec spec =
      Job("sources { name: 'a' weight: 1 epochs: 1 } sources { name: 'b' weight: 1 epochs: 0.5 }");
  EXPECT_TRUE(MakeJobMixture(spec, kSources, BatchesOf(Job("")), 12).ok());
  EXPECT_THAT(
      std::string(MakeJobMixture(spec, kSources, BatchesOf(Job("")), 13).status().message()),
      HasSubstr("used up before step 13, but the job ends at step 13; give a source more"));
}

}  // namespace
}  // namespace muster
