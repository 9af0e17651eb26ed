// What ParameterClients promise where there is a wire between them and their server: limits,
// counts, and what becomes of either when the other goes.

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/rpc/channel.h"
#include "common/rpc/parameter_service/data_channel_client.h"
#include "common/rpc/rpc_status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "server/shard/service/parameter_client_for_testing.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

class WireTest : public ParameterClientTest {};

TEST_P(WireTest, StatsCountTheWayThatIsUsed) {
  EXPECT_TRUE(StartExchange(*client_, Push(), Floats(kFloats, 1))->Take(kTimeout).ok());
  const auto stats = client_->Stats(kTimeout);
  ASSERT_TRUE(stats.ok()) << stats.status();
  ASSERT_EQ(stats->channels_size(), 3);
  for (const v1::ChannelStats& channel : stats->channels()) {
    const bool used = channel.kind() == Kind(GetParam());
    EXPECT_EQ(channel.connections(), used ? 1u : 0u) << channel.kind();
    EXPECT_EQ(channel.requests(), used ? 1u : 0u) << channel.kind();
    EXPECT_EQ(channel.bytes_received() >= kFloats * sizeof(float), used) << channel.kind();
  }
}

TEST_P(WireTest, TooManyParkedBytesAreRefused) {
  Serve(kFloats, {.parked_bytes = 10000});
  auto first = StartExchange(*client_, Pull(1), Floats(2000, 0));
  Await([&] { return host_->parked() == 1; });
  const absl::Status refused =
      StartExchange(*client_, Pull(1), Floats(1000, 0))->Take(kTimeout).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_GT(RetryAfter(refused).value_or(absl::ZeroDuration()), absl::ZeroDuration());
  EXPECT_EQ(host_->parked(), 1u);
  host_->AnswerParked();
  EXPECT_TRUE(first->Take(kTimeout).ok());
}

TEST_P(WireTest, ReadsNoMoreWhileTooManyPushesAreUnderWay) {
  Serve(kFloats, {.push_bytes = 3 * kFloats * sizeof(float)});
  host_->Hold();
  std::vector<std::shared_ptr<Pending<ExchangeResult>>> pushes;
  for (int i = 0; i < 10; ++i) {
    pushes.push_back(StartExchange(*client_, Push(), Floats(kFloats, 1)));
  }
  Await([&] { return host_->executed() == 3; });
  // A fourth would have been read by the time that another client is served.
  auto other = Connect();
  auto second = StartExchange(*other, Pull());
  Await([&] { return host_->executed() == 4; });
  EXPECT_EQ(host_->executed(), 4u);
  host_->Release();
  for (auto& push : pushes) EXPECT_TRUE(push->Take(kTimeout).ok());
  EXPECT_TRUE(second->Take(kTimeout).ok());
  EXPECT_EQ(Pulled(*client_), std::vector<float>(kFloats, 10));
}

TEST_P(WireTest, ReadsNoMoreWhileTooManyRepliesWait) {
  constexpr size_t kLarge = 1 << 18;
  Serve(kLarge, {.reply_bytes = 1 << 20});
  constexpr int kPulls = 200;
  std::vector<std::shared_ptr<Pending<ExchangeResult>>> pulls;
  for (int i = 0; i < kPulls; ++i) pulls.push_back(StartExchange(*client_, Pull()));
  for (auto& pull : pulls) {
    const auto result = pull->Take(kTimeout);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(result->payload.size(), kLarge * sizeof(float));
  }
}

TEST_P(WireTest, AnAnswerOverTheLimitIsAnErrorThatSaysSo) {
  Serve(kMaxMessageBytes / sizeof(float) + 1, {});
  const absl::Status status = StartExchange(*client_, Pull())->Take(kTimeout).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("pull fewer blocks"));
}

TEST_P(WireTest, OversizedMessagesAreRefusedBeforeTheyAreSent) {
  const absl::Status status =
      StartExchange(*client_, Push(), Floats(kMaxMessageBytes / sizeof(float) + 1, 1))
          ->Wait(kTimeout);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("over the limit of 67108864 bytes"));
  EXPECT_TRUE(StartExchange(*client_, Pull())->Take(kTimeout).ok());
}

TEST_P(WireTest, TheLargestMessagePasses) {
  // 64 MiB less what the header may take, through shared memory of 4 MiB.
  constexpr size_t kLargest = (kMaxMessageBytes - 1024) / sizeof(float);
  Serve(kLargest, {});
  EXPECT_TRUE(StartExchange(*client_, Push(), Floats(kLargest, 2))->Take(kTimeout).ok());
  EXPECT_TRUE(Pulled(*client_) == std::vector<float>(kLargest, 2));
}

TEST_P(WireTest, PushesWaitForTheWindowAndTheQueueIsBounded) {
  host_->Hold();
  ParameterClientOptions options;
  options.window_bytes = 10000;
  options.max_queued_bytes = 20000;
  auto client = Connect(options);
  std::vector<std::shared_ptr<Pending<ExchangeResult>>> calls;
  for (int i = 0; i < 4; ++i) {
    calls.push_back(StartExchange(*client, Push(), Floats(kFloats, 1)));
    // Two fit the window.
    if (i < 2) Await([&] { return host_->executed() == static_cast<size_t>(i) + 1; });
  }
  absl::Status refused;
  for (int i = 0; i < 5 && refused.ok(); ++i) {
    auto call = StartExchange(*client, Push(), Floats(kFloats, 1));
    if (const absl::Status status = call->Wait(absl::ZeroDuration());
        absl::IsResourceExhausted(status)) {
      refused = status;
    }
    calls.push_back(std::move(call));
  }
  EXPECT_THAT(std::string(refused.message()), HasSubstr("wait to be sent"));
  EXPECT_EQ(host_->executed(), 2u);
  host_->Release();
  int ok = 0;
  for (auto& call : calls) ok += call->Take(kTimeout).ok();
  EXPECT_EQ(Pulled(*client), std::vector<float>(kFloats, ok));
}

TEST_P(WireTest, PullsDoNotWaitForTheWindow) {
  ParameterClientOptions options;
  options.window_bytes = 10;
  auto client = Connect(options);
  host_->Hold();
  auto push = StartExchange(*client, Push(), Floats(kFloats, 1));
  auto pull = StartExchange(*client, Pull());
  Await([&] { return host_->executed() == 2; });
  host_->Release();
  EXPECT_TRUE(push->Take(kTimeout).ok());
  EXPECT_TRUE(pull->Take(kTimeout).ok());
}

TEST_P(WireTest, SeveralConnectionsKeepEachPartitionsOrder) {
  ParameterClientOptions options;
  options.connections = 3;
  auto client = Connect(options);
  constexpr int kPartitions = 6, kCalls = 100;
  absl::BlockingCounter pending(kPartitions * kCalls);
  std::atomic<int> failed{0};
  std::vector<std::thread> threads;
  for (int partition = 0; partition < kPartitions; ++partition) {
    threads.emplace_back([&, partition] {
      for (int i = 0; i < kCalls; ++i) {
        v1::ExchangeRequest request = Push();
        request.set_partition(partition);
        request.set_slot(i);
        client->Call(request, Floats(kFloats, 1), [&](absl::StatusOr<ExchangeResult> result) {
          failed += !result.ok();
          pending.DecrementCount();
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  pending.Wait();
  EXPECT_EQ(failed, 0);
  std::vector<uint32_t> next(kPartitions);
  for (const auto& [partition, slot] : host_->order()) EXPECT_EQ(slot, next[partition]++);
}

TEST_P(WireTest, ShutdownEndsChannelsAndRefusesNewOnes) {
  auto parked = StartExchange(*client_, Pull(1));
  Await([&] { return host_->parked() == 1; });
  const absl::Time start = absl::Now();
  service_->Shutdown();
  EXPECT_LT(absl::Now() - start, absl::Seconds(1));
  const absl::Status status = parked->Take(kTimeout).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("shutting down"));
  EXPECT_EQ(StartExchange(*client_, Pull())->Take(kTimeout).status().code(),
            absl::StatusCode::kUnavailable);
  auto late = MakeDataChannelClient(address_, credentials_, io_);
  EXPECT_EQ(StartExchange(*late, Pull())->Take(kTimeout).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_P(WireTest, AServersEndIsNoticedThoughNobodyWaits) {
  auto parked = StartExchange(*client_, Pull(1));
  Await([&] { return host_->parked() == 1; });
  client_->SetWaiting(false);
  service_->Shutdown();
  data_channels_->Shutdown(absl::UnavailableError("the server is shutting down"));
  EXPECT_EQ(parked->Wait(kTimeout).code(), absl::StatusCode::kUnavailable);
}

TEST_P(WireTest, AnAbsentServerIsUnavailable) {
  const std::string address = address_;
  Stop();
  address_ = address;
  auto client = GetParam() == Way::kGrpc
                    ? MakeGrpcParameterClient(address, credentials_)
                    : MakeDataChannelClient(address, credentials_, io_, DataChannelClientOptions());
  EXPECT_EQ(StartExchange(*client, Pull())->Take(kTimeout).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_P(WireTest, ClientsThatVanishMidwayLeaveNothingBehind) {
  for (int round = 0; round < 20; ++round) {
    auto client = Connect();
    for (int i = 0; i < 20; ++i) {
      client->Call(i % 2 == 0 ? Push() : Pull(i % 3), Floats(kFloats, 1),
                   [](absl::StatusOr<ExchangeResult>) {});
    }
    if (round % 2 == 0) client->Abort(absl::CancelledError("done"));
  }
  EXPECT_TRUE(StartExchange(*client_, Push(), Floats(kFloats, 1))->Take(kTimeout).ok());
  Await([&] {
    uint32_t connections = 0;
    const v1::GetServerStatsReply stats = service_->Stats();
    for (const v1::ChannelStats& channel : stats.channels()) {
      connections += channel.connections();
    }
    return connections == 1;
  });
}

INSTANTIATE_TEST_SUITE_P(Ways, WireTest,
                         ::testing::Values(Way::kGrpc, Way::kTcp, Way::kTls, Way::kSharedMemory,
                                           Way::kRegistered),
                         WayName);

}  // namespace
}  // namespace muster
