#include "worker/data/sampling/prefetcher.h"

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"
#include "worker/data/datasets/synthetic_classification.h"
#include "worker/data/sampling/sampler.h"

namespace muster {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::unique_ptr<const Sampler> TestSampler() {
  return Sampler::Create(
             {.seed = 1, .data_ranks = 2, .batches = StepBatches(10), .training_examples = 100})
      .value();
}

// Labels are the indices asked for. One read fails where asked to; reads wait while the gate is
// shut.
class RecordingDataset : public Dataset {
 public:
  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return 0; }

  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override {
    absl::MutexLock lock(&mutex_);
    ++begun_;
    mutex_.Await(absl::Condition(&open_));
    ++ended_;
    if (fail_next_) {
      fail_next_ = false;
      return absl::DataLossError("the disk is gone");
    }
    if (batch.labels.capacity() == 0) ++fresh_batches_;
    batch.Clear();
    batch.examples = static_cast<int64_t>(indices.size());
    batch.labels.assign(indices.begin(), indices.end());
    return absl::OkStatus();
  }

  void SetOpen(bool open) {
    absl::MutexLock lock(&mutex_);
    open_ = open;
  }
  void FailNext() {
    absl::MutexLock lock(&mutex_);
    fail_next_ = true;
  }
  void AwaitReadsBegun(int reads) const {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, reads]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return begun_ >= reads; };
    mutex_.Await(absl::Condition(&enough));
  }
  void AwaitReadsEnded(int reads) const {
    absl::MutexLock lock(&mutex_);
    const auto enough = [this, reads]()
                            ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return ended_ >= reads; };
    mutex_.Await(absl::Condition(&enough));
  }
  int reads_begun() const {
    absl::MutexLock lock(&mutex_);
    return begun_;
  }
  int fresh_batches() const {
    absl::MutexLock lock(&mutex_);
    return fresh_batches_;
  }

 private:
  DatasetInfo info_;
  mutable absl::Mutex mutex_;
  bool open_ ABSL_GUARDED_BY(mutex_) = true;
  mutable bool fail_next_ ABSL_GUARDED_BY(mutex_) = false;
  mutable int begun_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable int ended_ ABSL_GUARDED_BY(mutex_) = 0;
  mutable int fresh_batches_ ABSL_GUARDED_BY(mutex_) = 0;
};

// That `batch` is what the sampler says of this clock.
void ExpectBatch(const Sampler& sampler, int64_t clock, int64_t data_rank, const Batch& batch) {
  std::vector<int64_t> examples;
  sampler.MicroBatchExamples(clock, data_rank, 0, examples);
  EXPECT_EQ(batch.examples, static_cast<int64_t>(examples.size()));
  EXPECT_EQ(batch.labels, std::vector<int32_t>(examples.begin(), examples.end()))
      << "clock " << clock;
}

TEST(PrefetcherTest, HandsOutTheBatchesOfConsecutiveClocks) {
  const auto dataset =
      SyntheticClassification::Create({.examples = 100, .features = 3, .classes = 4, .seed = 1})
          .value();
  const auto sampler = TestSampler();
  Prefetcher prefetcher(*dataset, *sampler, {.data_rank = 1, .start_clock = 5});
  Batch batch;
  Batch expected;
  std::vector<int64_t> examples;
  for (int64_t clock = 5; clock < 60; ++clock) {
    ASSERT_TRUE(prefetcher.Next(clock, 0, batch).ok());
    sampler->MicroBatchExamples(clock, 1, 0, examples);
    ASSERT_TRUE(dataset->Read(examples, expected).ok());
    ASSERT_EQ(batch.dense, expected.dense);
    ASSERT_EQ(batch.labels, expected.labels);
  }
}

TEST(PrefetcherTest, ReadsAheadAndNoFurtherThanItsDepth) {
  RecordingDataset dataset;
  const auto sampler = TestSampler();
  {
    Prefetcher prefetcher(dataset, *sampler, {.depth = 3});
    dataset.AwaitReadsEnded(3);
    dataset.SetOpen(false);
    Batch batch;
    // Three are ready without a read going through; taking one makes room for one more read.
    ASSERT_TRUE(prefetcher.Next(0, 0, batch).ok());
    ExpectBatch(*sampler, 0, 0, batch);
    dataset.AwaitReadsBegun(4);
    dataset.SetOpen(true);
    dataset.AwaitReadsEnded(4);
    ASSERT_TRUE(prefetcher.Next(1, 0, batch).ok());
    ASSERT_TRUE(prefetcher.Next(2, 0, batch).ok());
  }
  // Those taken and three more at the most.
  EXPECT_LE(dataset.reads_begun(), 6);
}

TEST(PrefetcherTest, StopsBeforeTheEndClock) {
  RecordingDataset dataset;
  const auto sampler = TestSampler();
  {
    Prefetcher prefetcher(dataset, *sampler, {.end_clock = 3, .depth = 8});
    Batch batch;
    for (int64_t clock = 0; clock < 3; ++clock) {
      ASSERT_TRUE(prefetcher.Next(clock, 0, batch).ok());
      ExpectBatch(*sampler, clock, 0, batch);
    }
    const absl::Status beyond = prefetcher.Next(3, 0, batch);
    EXPECT_EQ(beyond.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(beyond.message()), HasSubstr("clock 3"));
    EXPECT_EQ(prefetcher.Next(-1, 0, batch).code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(dataset.reads_begun(), 3);
}

TEST(PrefetcherTest, GoesOnFromAnyClock) {
  RecordingDataset dataset;
  const auto sampler = TestSampler();
  Prefetcher prefetcher(dataset, *sampler, {.data_rank = 1});
  Batch batch;
  for (const int64_t clock : {0, 1, 7, 8, 2, 2, 3, 100, 0}) {
    ASSERT_TRUE(prefetcher.Next(clock, 0, batch).ok());
    ExpectBatch(*sampler, clock, 1, batch);
  }
}

TEST(PrefetcherTest, HandsOutMicroBatchesInOrderAndSeeksToAny) {
  RecordingDataset dataset;
  const auto sampler = Sampler::Create({.seed = 1,
                                        .data_ranks = 2,
                                        .batches = StepBatches(20),
                                        .training_examples = 100,
                                        .job_data_ranks = 2,
                                        .micro_batches = 3})
                           .value();
  Prefetcher prefetcher(dataset, *sampler, {.data_rank = 1, .start_clock = 2, .end_clock = 6});
  Batch batch;
  std::vector<int64_t> examples;
  const auto expect = [&](int64_t clock, int64_t micro_batch) {
    ASSERT_TRUE(prefetcher.Next(clock, micro_batch, batch).ok());
    sampler->MicroBatchExamples(clock, 1, micro_batch, examples);
    EXPECT_EQ(batch.labels, std::vector<int32_t>(examples.begin(), examples.end()))
        << "clock " << clock << " micro-batch " << micro_batch;
  };
  for (int64_t clock = 2; clock < 6; ++clock) {
    for (int64_t micro_batch = 0; micro_batch < 3; ++micro_batch) expect(clock, micro_batch);
  }
  expect(4, 1);
  expect(3, 2);
  expect(4, 0);
  EXPECT_EQ(prefetcher.Next(4, 3, batch).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(prefetcher.Next(4, -1, batch).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(prefetcher.Next(6, 0, batch).code(), absl::StatusCode::kInvalidArgument);
}

// One of two data ranks takes micro-batches no larger than with both, so their number varies.
TEST(PrefetcherTest, StepsHaveMicroBatchesByTheirBatch) {
  RecordingDataset dataset;
  SamplerOptions options = {
      .data_ranks = 1, .batches = StepBatches(6), .training_examples = 100, .job_data_ranks = 2};
  options.micro_batches = 2;
  options.batches.SetSize(2, 11);
  options.batches.SetSize(4, 4);
  const auto sampler = Sampler::Create(options).value();
  Prefetcher prefetcher(dataset, *sampler, {.end_clock = 6});
  Batch batch;
  std::vector<int64_t> examples;
  std::vector<int64_t> counts;
  for (int64_t clock = 0; clock < 6; ++clock) {
    counts.push_back(sampler->MicroBatches(clock));
    for (int64_t micro_batch = 0; micro_batch < counts.back(); ++micro_batch) {
      ASSERT_TRUE(prefetcher.Next(clock, micro_batch, batch).ok());
      sampler->MicroBatchExamples(clock, 0, micro_batch, examples);
      EXPECT_EQ(batch.labels, std::vector<int32_t>(examples.begin(), examples.end()));
    }
  }
  EXPECT_THAT(counts, ::testing::ElementsAre(3, 3, 4, 4, 4, 4));
  EXPECT_EQ(dataset.reads_begun(), 22);
}

TEST(PrefetcherTest, DropsAReadThatASeekOvertook) {
  RecordingDataset dataset;
  dataset.SetOpen(false);
  const auto sampler = TestSampler();
  Prefetcher prefetcher(dataset, *sampler, {});
  dataset.AwaitReadsBegun(1);
  Batch batch;
  absl::Status status;
  std::thread caller([&] { status = prefetcher.Next(40, 0, batch); });
  dataset.SetOpen(true);
  caller.join();
  ASSERT_TRUE(status.ok()) << status;
  ExpectBatch(*sampler, 40, 0, batch);
}

TEST(PrefetcherTest, RecyclesBatches) {
  RecordingDataset dataset;
  const auto sampler = TestSampler();
  Prefetcher prefetcher(dataset, *sampler, {.depth = 2});
  Batch batch;
  for (int64_t clock = 0; clock < 200; ++clock) ASSERT_TRUE(prefetcher.Next(clock, 0, batch).ok());
  // Two ready, one being read, one with the caller.
  EXPECT_LE(dataset.fresh_batches(), 4);
}

TEST(PrefetcherTest, AnErrorNamesDataRankAndClockAndTheNextTryReadsAgain) {
  RecordingDataset dataset;
  dataset.FailNext();
  const auto sampler = TestSampler();
  Prefetcher prefetcher(dataset, *sampler, {.data_rank = 1, .start_clock = 4});
  Batch batch;
  const absl::Status status = prefetcher.Next(4, 0, batch);
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("data rank 1"), HasSubstr("clock 4"), HasSubstr("the disk is gone")));
  ASSERT_TRUE(prefetcher.Next(4, 0, batch).ok());
  ExpectBatch(*sampler, 4, 1, batch);
  ASSERT_TRUE(prefetcher.Next(5, 0, batch).ok());
  ExpectBatch(*sampler, 5, 1, batch);
}

TEST(PrefetcherTest, EndsCleanlyAtAnyMoment) {
  RecordingDataset dataset;
  const auto sampler = TestSampler();
  Batch batch;
  for (int64_t taken = 0; taken < 50; ++taken) {
    Prefetcher prefetcher(dataset, *sampler, {.depth = 1 + static_cast<int>(taken % 3)});
    for (int64_t clock = 0; clock < taken % 7; ++clock) {
      ASSERT_TRUE(prefetcher.Next(clock, 0, batch).ok());
    }
  }
}

}  // namespace
}  // namespace muster
