// What every ParameterClient promises, however it reaches the server: in process, by gRPC's stream,
// and by the data channel over TCP, plain and under TLS, and through shared memory, without and
// with memory that the client has registered.

#include <algorithm>
#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/rpc/certificates_for_testing.h"
#include "common/rpc/channel.h"
#include "common/rpc/data_channel_client.h"
#include "common/rpc/grpc_parameter_client.h"
#include "common/rpc/rpc_credentials.h"
#include "common/rpc/rpc_status.h"
#include "common/transport/channel_io.h"
#include "common/transport/registered_memory.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/service/data_channel_server.h"
#include "server/shard/service/fake_partition_host.h"
#include "server/shard/service/in_process_parameter_client.h"
#include "server/shard/service/parameter_service.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kTimeout = absl::Seconds(60);
constexpr size_t kFloats = 1000;

enum class Way { kInProcess, kGrpc, kTcp, kTls, kSharedMemory, kRegistered };

std::string WayName(const ::testing::TestParamInfo<Way>& info) {
  switch (info.param) {
    case Way::kInProcess:
      return "InProcess";
    case Way::kGrpc:
      return "Grpc";
    case Way::kTcp:
      return "Tcp";
    case Way::kTls:
      return "Tls";
    case Way::kSharedMemory:
      return "SharedMemory";
    case Way::kRegistered:
      return "Registered";
  }
  return "";
}

const char* Kind(Way way) {
  return way == Way::kGrpc  ? "grpc"
         : way == Way::kTcp ? "tcp"
         : way == Way::kTls ? "tls"
                            : "shared_memory";
}

// Of server and clients.
RpcCredentials Credentials(Way way) {
  if (way != Way::kTls) return RpcCredentials::PlainText();
  CertificatesForTesting cluster(::testing::TempDir(), "cluster");
  return *RpcCredentials::Of(cluster.Issue("everybody"), TlsUse::kCallsAndServes);
}

class ParameterClientTest : public ::testing::TestWithParam<Way> {
 protected:
  ParameterClientTest() : io_(*ChannelIo::Create()) { Serve(kFloats, {}); }
  ~ParameterClientTest() override { Stop(); }

  void Serve(size_t floats, ExchangeLimits limits) {
    Stop();
    host_ = std::make_unique<FakePartitionHost>(floats);
    DataChannelServerOptions data;
    data.listener.host = "127.0.0.1";
    data.limits = limits;
    if (credentials_.encrypted()) data.listener.security = ChannelSecurity::kTls;
    data_channels_ = *DataChannelServer::Create(*host_, data);
    ParameterServiceOptions options;
    options.push_bytes = limits.push_bytes;
    options.reply_bytes = limits.reply_bytes;
    options.parked_bytes = limits.parked_bytes;
    service_ = ParameterService::Create(*host_, options, data_channels_.get());
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", credentials_.server(), &port);
    builder.RegisterService(&service_->service());
    server_ = builder.BuildAndStart();
    address_ = WithPort("127.0.0.1:0", port);
    client_ = Connect();
  }

  std::unique_ptr<ParameterClient> Connect(ParameterClientOptions options = {}) {
    if (GetParam() == Way::kInProcess) return MakeInProcessParameterClient(*host_);
    if (GetParam() == Way::kGrpc) return MakeGrpcParameterClient(address_, credentials_, options);
    DataChannelClientOptions channel;
    channel.client = options;
    const bool shared = GetParam() == Way::kSharedMemory || GetParam() == Way::kRegistered;
    channel.shared_memory_bytes = shared ? 4 << 20 : 0;
    channel.tcp =
        shared ? DataChannelClientOptions::Tcp::kNotUsed : DataChannelClientOptions::Tcp::kUsed;
    channel.opened = [](const std::string& kind, const std::string& reason) {
      EXPECT_EQ(kind, Kind(GetParam())) << reason;
    };
    channel.registered_memory = registered_;
    return MakeDataChannelClient(address_, credentials_, io_, channel);
  }

  void Stop() {
    client_.reset();
    if (server_ == nullptr) return;
    service_->Shutdown();
    server_->Shutdown();
    server_.reset();
    service_.reset();
    data_channels_.reset();
  }

  static v1::ExchangeRequest Push() {
    v1::ExchangeRequest request;
    request.mutable_dense_push();
    return request;
  }
  static v1::ExchangeRequest Pull(uint64_t clock = 0) {
    v1::ExchangeRequest request;
    request.set_clock(clock);
    request.mutable_dense_pull();
    return request;
  }
  // In registered memory, where there is some.
  Payload Floats(size_t count, float value) { return Floats(std::vector<float>(count, value)); }
  Payload Floats(std::vector<float> values) {
    const Payload payload = Payload::Of(std::move(values));
    if (registered_ == nullptr || payload.size() == 0) return payload;
    const absl::Span<std::byte> place = Place(payload.size());
    payload.CopyTo(place.data());
    return Payload({place}, registered_);
  }
  // Where something may land.
  absl::Span<std::byte> Place(size_t bytes) {
    if (registered_ != nullptr) return absl::MakeSpan(registered_->Take(bytes), bytes);
    own_places_.emplace_back(bytes);
    return absl::MakeSpan(own_places_.back());
  }
  // The host's parameters, as a pull brings them.
  std::vector<float> Pulled(ParameterClient& client) {
    auto result = StartExchange(client, Pull())->Take(kTimeout);
    if (!result.ok()) {
      ADD_FAILURE() << result.status();
      return {};
    }
    std::vector<float> values(result->payload.size() / sizeof(float));
    result->payload.CopyTo(values.data());
    return values;
  }

  // Spins until the other threads have brought `done` about.
  template <typename Done>
  static void Await(Done done) {
    while (!done()) std::this_thread::yield();
  }

  const RpcCredentials credentials_ = Credentials(GetParam());
  const std::shared_ptr<ChannelIo> io_;
  const std::shared_ptr<RegisteredMemory> registered_ =
      GetParam() == Way::kRegistered ? *RegisteredMemory::Create(size_t{1} << 30) : nullptr;
  std::list<std::vector<std::byte>> own_places_;
  std::unique_ptr<FakePartitionHost> host_;
  std::unique_ptr<DataChannelServer> data_channels_;
  std::unique_ptr<ParameterService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::unique_ptr<ParameterClient> client_;
};

TEST_P(ParameterClientTest, PushesAddAndPullsReturn) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(StartExchange(*client_, Push(), Floats(kFloats, 1.5f))->Take(kTimeout).ok());
  }
  EXPECT_EQ(Pulled(*client_), std::vector<float>(kFloats, 4.5f));
}

TEST_P(ParameterClientTest, PayloadsOfAllSizesArriveWhole) {
  for (const size_t floats : {size_t{1}, size_t{1023}, size_t{1024}, size_t{1025}, size_t{16384},
                              size_t{70001}, size_t{600000}, size_t{3} << 20}) {
    Serve(floats, {});
    std::vector<float> values(floats);
    for (size_t i = 0; i < floats; ++i) values[i] = i % 1000;
    const Payload payload = Floats(values);
    std::vector<std::shared_ptr<Pending<ExchangeResult>>> pushes;
    for (int i = 0; i < 4; ++i) pushes.push_back(StartExchange(*client_, Push(), payload));
    for (auto& push : pushes) EXPECT_TRUE(push->Take(kTimeout).ok());
    for (float& value : values) value *= 4;
    EXPECT_TRUE(Pulled(*client_) == values) << floats;
  }
}

TEST_P(ParameterClientTest, PayloadsInOddPiecesArriveWhole) {
  constexpr size_t kLarge = 700'001;
  Serve(kLarge, {});
  std::vector<float> values(kLarge);
  for (size_t i = 0; i < kLarge; ++i) values[i] = i % 777;
  const Payload whole = Payload::Of(values);
  std::vector<Payload::Piece> pieces;
  const auto bytes = whole.pieces()[0];
  for (size_t at = 0, step = 1; at < bytes.size(); at += step, step = step * 2 + 1) {
    pieces.push_back(bytes.subspan(at, step));
  }
  EXPECT_TRUE(StartExchange(*client_, Push(), Payload(pieces, whole.owner()))->Take(kTimeout).ok());
  EXPECT_TRUE(Pulled(*client_) == values);
}

// As rows are pushed.
TEST_P(ParameterClientTest, PayloadsInManyShortPiecesArriveWhole) {
  constexpr size_t kLarge = 700'001;
  constexpr size_t kPieceBytes = 252;
  Serve(kLarge, {});
  std::vector<float> values(kLarge);
  for (size_t i = 0; i < kLarge; ++i) values[i] = i % 777;
  const Payload whole = Payload::Of(values);
  std::vector<Payload::Piece> pieces;
  const auto bytes = whole.pieces()[0];
  for (size_t at = 0; at < bytes.size(); at += kPieceBytes) {
    pieces.push_back(bytes.subspan(at, kPieceBytes));
  }
  EXPECT_TRUE(StartExchange(*client_, Push(), Payload(pieces, whole.owner()))->Take(kTimeout).ok());
  EXPECT_TRUE(Pulled(*client_) == values);
}

TEST_P(ParameterClientTest, AnswersLandWhereTheCallerWantsThem) {
  // Large enough to come in several pieces.
  Serve(300'000, {});
  ASSERT_TRUE(StartExchange(*client_, Push(), Floats(300'000, 2.5f))->Take(kTimeout).ok());
  const absl::Span<std::byte> place = Place(300'002 * sizeof(float));
  const absl::Span<float> arena(reinterpret_cast<float*>(place.data()), 300'002);
  std::fill(arena.begin(), arena.end(), -1.0f);
  const absl::Span<std::byte> landing = place.subspan(4, 300'000 * sizeof(float));
  const auto pull_into = [this](absl::Span<std::byte> place) {
    const auto pending = std::make_shared<Pending<ExchangeResult>>();
    client_->CallInto(Pull(), {}, place, [pending](absl::StatusOr<ExchangeResult> result) {
      pending->Finish(std::move(result));
    });
    return pending->Take(kTimeout);
  };
  const absl::StatusOr<ExchangeResult> landed = pull_into(landing);
  ASSERT_TRUE(landed.ok()) << landed.status();
  ASSERT_EQ(landed->payload.pieces().size(), 1u);
  EXPECT_EQ(landed->payload.pieces()[0].data(), landing.data());
  EXPECT_EQ(landed->reply->landed(), GetParam() == Way::kRegistered);
  EXPECT_EQ(std::count(arena.begin(), arena.end(), 2.5f), 300'000);
  EXPECT_EQ(arena.front(), -1.0f);
  EXPECT_EQ(arena.back(), -1.0f);

  // Of another length it is the caller's to look at.
  std::fill(arena.begin(), arena.end(), -1.0f);
  const absl::StatusOr<ExchangeResult> other = pull_into(landing.subspan(4));
  ASSERT_TRUE(other.ok()) << other.status();
  EXPECT_EQ(other->payload.size(), landing.size());
  EXPECT_EQ(std::count(arena.begin(), arena.end(), -1.0f), 300'002);
}

// The server itself writes to registered memory: not when nobody waits for it there any more.
TEST_P(ParameterClientTest, NothingLandsAfterTheCallHasEnded) {
  const absl::Span<std::byte> landing = Place(kFloats * sizeof(float));
  std::fill(landing.begin(), landing.end(), std::byte{7});
  const auto pending = std::make_shared<Pending<ExchangeResult>>();
  client_->CallInto(Pull(1), {}, landing, [pending](absl::StatusOr<ExchangeResult> result) {
    pending->Finish(std::move(result));
  });
  Await([&] { return host_->parked() == 1; });
  client_->Abort(absl::AbortedError("fenced"));
  EXPECT_EQ(pending->Wait(kTimeout), absl::AbortedError("fenced"));
  host_->AnswerParked();
  EXPECT_EQ(std::count(landing.begin(), landing.end(), std::byte{7}), landing.size());
}

TEST_P(ParameterClientTest, WhatIsAnsweredWhileNobodyWaitsComesOnceSomebodyDoes) {
  for (int round = 0; round < 20; ++round) {
    client_->SetWaiting(false);
    std::vector<std::shared_ptr<Pending<ExchangeResult>>> calls;
    for (int i = 0; i < 10; ++i) {
      calls.push_back(StartExchange(*client_, Push(), Floats(kFloats, 1)));
      calls.push_back(StartExchange(*client_, Pull()));
    }
    Await([&] { return host_->executed() == static_cast<size_t>(20 * (round + 1)); });
    client_->SetWaiting(true);
    for (const auto& call : calls) EXPECT_TRUE(call->Take(kTimeout).ok());
  }
  EXPECT_EQ(Pulled(*client_), std::vector<float>(kFloats, 200));
}

TEST_P(ParameterClientTest, ARegisteredPayloadIsReadWhereItLies) {
  if (registered_ == nullptr) GTEST_SKIP() << "this way copies payloads";
  host_->Hold();
  const absl::Span<std::byte> place = Place(kFloats * sizeof(float));
  const auto push = StartExchange(*client_, Push(), Payload({place}, registered_));
  Await([&] { return host_->executed() == 1; });
  const absl::Span<float> values(reinterpret_cast<float*>(place.data()), kFloats);
  std::fill(values.begin(), values.end(), 2.0f);
  host_->Release();
  EXPECT_TRUE(push->Take(kTimeout).ok());
  EXPECT_EQ(Pulled(*client_), std::vector<float>(kFloats, 2));
}

TEST_P(ParameterClientTest, HostErrorsReachTheCaller) {
  const auto result = StartExchange(*client_, Push(), Floats(3, 1))->Take(kTimeout);
  EXPECT_EQ(result.status(), absl::InvalidArgumentError("payload has 12 bytes, expected 4000"));
  EXPECT_TRUE(StartExchange(*client_, Push(), Floats(kFloats, 1))->Take(kTimeout).ok());
}

TEST_P(ParameterClientTest, UnaryCallsReachTheHost) {
  v1::OpenTablesRequest request;
  request.set_job_id("job-1");
  request.add_partitions()->set_partition(6);
  const auto opened = client_->OpenTables(request, kTimeout);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->partitions(0).partition(), 6u);
  EXPECT_EQ(client_->OpenTables({}, kTimeout).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(client_->DropTables("job-1", kTimeout).ok());
  EXPECT_EQ(client_->Stats(kTimeout)->bytes_pushed(), 0u);
}

TEST_P(ParameterClientTest, ParkedCallsLetOthersPassAndAreAnsweredLater) {
  auto parked = StartExchange(*client_, Pull(1));
  EXPECT_TRUE(StartExchange(*client_, Push(), Floats(kFloats, 2))->Take(kTimeout).ok());
  EXPECT_EQ(parked->Wait(absl::ZeroDuration()).code(), absl::StatusCode::kDeadlineExceeded);
  Await([&] { return host_->parked() == 1; });
  host_->AnswerParked();
  EXPECT_TRUE(parked->Take(kTimeout).ok());
}

TEST_P(ParameterClientTest, ParkedCallsAreCancelledWithTheirClient) {
  auto parked = StartExchange(*client_, Pull(1));
  Await([&] { return host_->parked() == 1; });
  EXPECT_FALSE(host_->parked_cancelled(0));
  client_.reset();
  EXPECT_EQ(parked->Wait(absl::ZeroDuration()).code(), absl::StatusCode::kCancelled);
  Await([&] { return host_->parked_cancelled(0); });
  // An answer that comes too late goes nowhere.
  host_->AnswerParked();
}

TEST_P(ParameterClientTest, AbortEndsAllCallsWithItsReason) {
  auto parked = StartExchange(*client_, Pull(1));
  Await([&] { return host_->parked() == 1; });
  client_->Abort(absl::AbortedError("generation 3 replaces 2"));
  EXPECT_EQ(parked->Wait(kTimeout), absl::AbortedError("generation 3 replaces 2"));
  EXPECT_EQ(StartExchange(*client_, Pull())->Wait(kTimeout),
            absl::AbortedError("generation 3 replaces 2"));
  Await([&] { return host_->parked_cancelled(0); });
}

TEST_P(ParameterClientTest, AbortBeforeTheFirstCallHolds) {
  client_->Abort(absl::AbortedError("fenced"));
  EXPECT_EQ(StartExchange(*client_, Pull())->Wait(kTimeout), absl::AbortedError("fenced"));
}

TEST_P(ParameterClientTest, CallsFromDoneWork) {
  absl::Notification answered;
  client_->Call(Push(), Floats(kFloats, 1), [&](absl::StatusOr<ExchangeResult> first) {
    EXPECT_TRUE(first.ok()) << first.status();
    client_->Call(Push(), Floats(kFloats, 1), [&](absl::StatusOr<ExchangeResult> second) {
      EXPECT_TRUE(second.ok()) << second.status();
      answered.Notify();
    });
  });
  answered.WaitForNotification();
  EXPECT_EQ(Pulled(*client_), std::vector<float>(kFloats, 2));
}

TEST_P(ParameterClientTest, ResultsOutliveTheirClientAndServer) {
  Serve(100'000, {});
  EXPECT_TRUE(StartExchange(*client_, Push(), Floats(100'000, 3))->Take(kTimeout).ok());
  std::vector<ExchangeResult> results;
  for (int i = 0; i < 20; ++i) {
    auto result = StartExchange(*client_, Pull())->Take(kTimeout);
    ASSERT_TRUE(result.ok()) << result.status();
    results.push_back(*std::move(result));
  }
  Stop();
  host_.reset();
  for (const ExchangeResult& result : results) {
    std::vector<float> values(result.payload.size() / sizeof(float));
    result.payload.CopyTo(values.data());
    EXPECT_TRUE(values == std::vector<float>(100'000, 3));
  }
}

TEST_P(ParameterClientTest, ManyThreadsAllGetTheirAnswers) {
  constexpr int kThreads = 4, kCalls = 200;
  std::atomic<int> answered{0};
  absl::BlockingCounter pending(kThreads * kCalls);
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (int i = 0; i < kCalls; ++i) {
        v1::ExchangeRequest request = i % 3 == 0 ? Pull() : Push();
        request.set_partition(thread);
        client_->Call(request, i % 3 == 0 ? Payload() : Floats(kFloats, 1),
                      [&](absl::StatusOr<ExchangeResult> result) {
                        answered += result.ok();
                        pending.DecrementCount();
                      });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  pending.Wait();
  EXPECT_EQ(answered, kThreads * kCalls);
  const float pushes = kThreads * (kCalls - (kCalls + 2) / 3);
  EXPECT_EQ(Pulled(*client_), std::vector<float>(kFloats, pushes));
}

INSTANTIATE_TEST_SUITE_P(Ways, ParameterClientTest,
                         ::testing::Values(Way::kInProcess, Way::kGrpc, Way::kTcp, Way::kTls,
                                           Way::kSharedMemory, Way::kRegistered),
                         WayName);

// What holds where there is a wire.
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
