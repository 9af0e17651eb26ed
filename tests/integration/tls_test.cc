// A cluster whose daemons have certificates: jobs train on both roads with all that leaves a
// process under TLS, and who has no certificate gets in nowhere.

#include <memory>
#include <string>

#include "common/rpc/certificates_for_testing.h"
#include "common/rpc/rpc_credentials.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "proto/job_service.pb.h"
#include "tests/harness/jobs.h"
#include "tests/harness/process_cluster.h"

namespace muster {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class TlsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // As if every process were on a machine of its own.
    auto cluster = ProcessCluster::Start({.servers = 1,
                                          .workers = 2,
                                          .tls = certificates_.Issue("everybody"),
                                          .worker_arguments = {"--collectives-transport=tcp"}});
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    cluster_ = *std::move(cluster);
  }

  // Trains it to its end; its log.
  std::string Train(const v1::JobSpec& spec) {
    const auto id = cluster_->Submit(spec);
    if (!id.ok()) {
      ADD_FAILURE() << id.status();
      return "";
    }
    const auto end = cluster_->AwaitEnd(*id);
    EXPECT_TRUE(end.ok() && end->state() == v1::SUCCEEDED) << cluster_->Diagnose(*id);
    std::string log;
    v1::ReadLogsRequest whole;
    whole.set_job_id(*id);
    EXPECT_TRUE(
        cluster_->jobs()
            .Logs(whole, [&log](absl::string_view text) { log.append(text.data(), text.size()); })
            .ok());
    return log;
  }

  CertificatesForTesting certificates_{::testing::TempDir(), "cluster"};
  std::unique_ptr<ProcessCluster> cluster_;
};

TEST_F(TlsTest, JobsTrainOnServersByEncryptedChannels) {
  const std::string log = Train(SmallJob());
  EXPECT_THAT(log, HasSubstr("go by tls"));
  EXPECT_THAT(log, Not(HasSubstr("go by tcp")));
  std::string metrics;
  ASSERT_TRUE(cluster_->jobs().Metrics(metrics).ok());
  EXPECT_THAT(metrics, HasSubstr("kind=\"tls\""));
  EXPECT_THAT(metrics, Not(HasSubstr("kind=\"tcp\"")));
}

TEST_F(TlsTest, JobsTrainByAllReduce) {
  v1::JobSpec spec = SmallJob();
  spec.mutable_update()->set_dense(v1::UpdateSpec::ALL_REDUCE);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::ALL_REDUCE);
  Train(spec);
}

TEST_F(TlsTest, AClientWithoutCertificateIsToldWhatItLacks) {
  JobClient plain(cluster_->coordinator_address(), RpcCredentials::PlainText());
  v1::GetClusterReply reply;
  const absl::Status status = plain.Cluster(reply);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("--tls-authority"));
}

}  // namespace
}  // namespace muster
