// The example that a first language model is trained with learns what the documents say of it.

#include <iostream>
#include <string>

#include "client/job_file.h"
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

constexpr double kBitsPerByte = 2.5;

TEST(ShakespeareTest, TheExampleLearns) {
  if (SharedData().empty()) {
    GTEST_SKIP() << "the text is not at hand: MUSTER_SHARED_DATA names no folder";
  }
  if (kSanitized) GTEST_SKIP() << "too slow; learning_test trains a smaller one";
  v1::JobSpec spec;
  ASSERT_EQ(ReadJobFile("examples/shakespeare.textproto", spec), absl::OkStatus());
  ASSERT_EQ(ReplaceDataPath(SharedData() + "/tinyshakespeare.txt", spec), absl::OkStatus());
  // What is left of its steps after that takes it further, but shows no more.
  spec.mutable_stop()->set_target(kBitsPerByte);
  spec.mutable_evaluation()->set_every_steps(100);

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
}

}  // namespace
}  // namespace muster
