#include "server/shard/service/in_process_parameter_client.h"

#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/service/fake_partition_host.h"

namespace muster {
namespace {

constexpr size_t kHostFloats = 10;

v1::ExchangeRequest Push() {
  v1::ExchangeRequest request;
  request.mutable_dense_push();
  return request;
}

v1::ExchangeRequest Pull(uint64_t clock) {
  v1::ExchangeRequest request;
  request.set_clock(clock);
  request.mutable_dense_pull();
  return request;
}

Payload Ones(size_t count) { return Payload::Of(std::vector<float>(count, 1)); }

class InProcessParameterClientTest : public ::testing::Test {
 protected:
  FakePartitionHost host_{kHostFloats};
  std::unique_ptr<ParameterClient> client_ = MakeInProcessParameterClient(host_);
};

TEST_F(InProcessParameterClientTest, ReachesTheHost) {
  EXPECT_TRUE(StartExchange(*client_, Push(), Ones(kHostFloats))->Take(absl::ZeroDuration()).ok());
  const auto pulled = StartExchange(*client_, Pull(0))->Take(absl::ZeroDuration());
  ASSERT_TRUE(pulled.ok()) << pulled.status();
  std::vector<float> values(kHostFloats);
  ASSERT_EQ(pulled->payload.size(), kHostFloats * sizeof(float));
  pulled->payload.CopyTo(values.data());
  EXPECT_EQ(values, std::vector<float>(kHostFloats, 1));
}

TEST_F(InProcessParameterClientTest, TurnsErrorRepliesIntoStatuses) {
  EXPECT_EQ(StartExchange(*client_, Push(), Ones(3))->Take(absl::ZeroDuration()).status(),
            absl::InvalidArgumentError("payload has 12 bytes, expected 40"));
  EXPECT_FALSE(client_->OpenTables({}, absl::Seconds(1)).ok());
  EXPECT_TRUE(client_->DropTables("job-1", absl::Seconds(1)).ok());
  EXPECT_EQ(client_->Stats(absl::Seconds(1))->bytes_pushed(), 1u);
}

TEST_F(InProcessParameterClientTest, AbortEndsCallsAndTellsTheHost) {
  auto parked = StartExchange(*client_, Pull(1));
  EXPECT_FALSE(host_.parked_cancelled(0));
  client_->Abort(absl::AbortedError("fenced"));
  EXPECT_EQ(parked->Wait(absl::ZeroDuration()), absl::AbortedError("fenced"));
  EXPECT_TRUE(host_.parked_cancelled(0));
  EXPECT_EQ(StartExchange(*client_, Pull(0))->Wait(absl::ZeroDuration()),
            absl::AbortedError("fenced"));
}

TEST_F(InProcessParameterClientTest, AnswersMayOutliveTheClient) {
  auto parked = StartExchange(*client_, Pull(1));
  client_.reset();
  EXPECT_EQ(parked->Wait(absl::ZeroDuration()).code(), absl::StatusCode::kCancelled);
  host_.AnswerParked();
}

}  // namespace
}  // namespace muster
