#include "tests/harness/shared_cluster.h"

namespace muster {

ProcessCluster* SharedClusterTest::cluster_ = nullptr;

void SharedClusterTest::SetUpTestSuite() {
  auto cluster = ProcessCluster::Start({.servers = 2, .workers = 2, .slots_per_worker = 2});
  ASSERT_TRUE(cluster.ok()) << cluster.status();
  cluster_ = cluster->release();
}

void SharedClusterTest::TearDownTestSuite() {
  delete cluster_;
  cluster_ = nullptr;
}

v1::JobStatus SharedClusterTest::Train(const v1::JobSpec& spec) {
  const auto job_id = cluster_->Submit(spec);
  EXPECT_TRUE(job_id.ok()) << job_id.status();
  if (!job_id.ok()) return {};
  const auto status = cluster_->AwaitEnd(*job_id);
  EXPECT_TRUE(status.ok()) << status.status() << "\n" << cluster_->Diagnose(*job_id);
  if (!status.ok()) return {};
  EXPECT_EQ(status->state(), v1::SUCCEEDED) << status->message() << "\n"
                                            << cluster_->Diagnose(*job_id);
  return *status;
}

}  // namespace muster
