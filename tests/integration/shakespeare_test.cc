// The example that a first language model is trained with is on the way to what the documents say
// of it: 2.4 bits per byte at the end of its 800 steps.

#include <iostream>
#include <string>

#include "client/job/job_file.h"
#include "gtest/gtest.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// Two seeds came to 3.17 and 3.25 after 100 steps, 3.07 and 3.13 after 125, 2.88 after 200 and 2.49
// after 600.
constexpr double kBitsPerByte = 3.2;
constexpr uint64_t kMostSteps = 125;

TEST(ShakespeareTest, TheExampleLearns) {
  if (SharedData().empty()) {
    GTEST_SKIP() << "the text is not at hand: MUSTER_SHARED_DATA names no folder";
  }
  if (kSanitized) GTEST_SKIP() << "too slow; learning_test trains a smaller one";
  v1::JobSpec spec;
  ASSERT_EQ(ReadJobFile("examples/shakespeare.textproto", spec), absl::OkStatus());
  ASSERT_EQ(ReplaceDataPath(SharedData() + "/tinyshakespeare.txt", spec), absl::OkStatus());
  // Its schedule stays that of all its steps; those after that take it further, but show no more.
  spec.mutable_stop()->set_target(kBitsPerByte);
  spec.mutable_evaluation()->set_every_steps(25);
  spec.mutable_evaluation()->set_max_examples(200);

  auto cluster = ProcessCluster::Start({});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  const auto id = (*cluster)->Submit(spec);
  ASSERT_TRUE(id.ok()) << id.status();
  const auto job = (*cluster)->AwaitEnd(*id);
  ASSERT_TRUE(job.ok()) << job.status();
  ASSERT_EQ(job->state(), v1::SUCCEEDED) << job->message() << "\n" << (*cluster)->Diagnose(*id);
  for (const v1::EvaluationResult& evaluation : job->evaluations()) {
    std::cout << "step " << evaluation.clock() << ", " << evaluation.training_seconds()
              << " s: " << evaluation.metric() << " " << evaluation.value() << std::endl;
  }
  ASSERT_GE(job->evaluations_size(), 1);
  const v1::EvaluationResult& last = *job->evaluations().rbegin();
  EXPECT_EQ(last.metric(), "bits_per_byte");
  EXPECT_LE(last.value(), kBitsPerByte);
  EXPECT_LE(last.clock(), kMostSteps);
}

}  // namespace
}  // namespace muster
