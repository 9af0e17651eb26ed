#include "server/shard/service/parameter_service.h"

#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/rpc/channel.h"
#include "common/rpc/parameter_service/grpc_parameter_client.h"
#include "common/rpc/rpc_credentials.h"
#include "gmock/gmock.h"
#include "grpcpp/channel.h"
#include "grpcpp/client_context.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.grpc.pb.h"
#include "server/shard/service/fake_partition_host.h"
#include "server/shard/service/message_budget.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kServiceTimeout = absl::Seconds(60);
constexpr size_t kServedFloats = 1000;

class ParameterServiceTest : public ::testing::Test {
 protected:
  ParameterServiceTest() { Serve(kServedFloats, {}); }
  ~ParameterServiceTest() override { Stop(); }

  void Serve(size_t floats, ParameterServiceOptions options) {
    Stop();
    host_ = std::make_unique<FakePartitionHost>(floats);
    service_ = ParameterService::Create(*host_, options);
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", RpcCredentials::PlainText().server(), &port);
    builder.RegisterService(&service_->service());
    server_ = builder.BuildAndStart();
    address_ = WithPort("127.0.0.1:0", port);
    client_ = MakeGrpcParameterClient(address_, RpcCredentials::PlainText());
  }

  void Stop() {
    client_.reset();
    if (server_ == nullptr) return;
    service_->Shutdown();
    server_->Shutdown();
    server_.reset();
    service_.reset();
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
  static Payload Floats(size_t count, float value) {
    return Payload::Of(std::vector<float>(count, value));
  }
  // The host's parameters, as a pull brings them.
  std::vector<float> Pulled(ParameterClient& client) {
    auto result = StartExchange(client, Pull())->Take(kServiceTimeout);
    EXPECT_TRUE(result.ok()) << result.status();
    std::vector<float> values(result->payload.size() / sizeof(float));
    result->payload.CopyTo(values.data());
    return values;
  }

  // Spins until the other threads have brought `done` about.
  template <typename Done>
  static void Await(Done done) {
    while (!done()) std::this_thread::yield();
  }

  std::unique_ptr<FakePartitionHost> host_;
  std::unique_ptr<ParameterService> service_;
  std::unique_ptr<grpc::Server> server_;
  std::string address_;
  std::unique_ptr<ParameterClient> client_;
};

TEST_F(ParameterServiceTest, PushesAddAndPullsReturn) {
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(
        StartExchange(*client_, Push(), Floats(kServedFloats, 1.5f))->Take(kServiceTimeout).ok());
  }
  EXPECT_EQ(Pulled(*client_), std::vector<float>(kServedFloats, 4.5f));
}

TEST_F(ParameterServiceTest, LargePayloadsArriveWhole) {
  constexpr size_t kLarge = 3 << 20;
  Serve(kLarge, {});
  std::vector<float> values(kLarge);
  for (size_t i = 0; i < kLarge; ++i) values[i] = i % 1000;
  const Payload payload = Payload::Of(values);
  std::vector<std::shared_ptr<Pending<ExchangeResult>>> pushes;
  for (int i = 0; i < 4; ++i) pushes.push_back(StartExchange(*client_, Push(), payload));
  for (auto& push : pushes) EXPECT_TRUE(push->Take(kServiceTimeout).ok());
  for (float& value : values) value *= 4;
  EXPECT_TRUE(Pulled(*client_) == values);
}

TEST_F(ParameterServiceTest, HostErrorsReachTheCaller) {
  const auto result = StartExchange(*client_, Push(), Floats(3, 1))->Take(kServiceTimeout);
  EXPECT_EQ(result.status(), absl::InvalidArgumentError("payload has 12 bytes, expected 4000"));
  EXPECT_TRUE(
      StartExchange(*client_, Push(), Floats(kServedFloats, 1))->Take(kServiceTimeout).ok());
}

TEST_F(ParameterServiceTest, UnaryCallsReachTheHost) {
  v1::OpenTablesRequest request;
  request.set_job_id("job-1");
  request.add_partitions()->set_partition(6);
  const auto opened = client_->OpenTables(request, kServiceTimeout);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->partitions(0).partition(), 6u);
  EXPECT_EQ(client_->OpenTables({}, kServiceTimeout).status().code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(client_->DropTables("job-1", kServiceTimeout).ok());
  EXPECT_EQ(client_->Stats(kServiceTimeout)->bytes_pushed(), 0u);
}

TEST_F(ParameterServiceTest, BlockedOpensHoldUpNothingElse) {
  ParameterServiceOptions options;
  options.blocking_threads = 1;
  options.blocking_queue = 1;
  Serve(kServedFloats, options);
  host_->Hold();
  v1::OpenTablesRequest request;
  request.set_job_id("job-1");
  // One blocks, one waits, and of any more at least one is refused.
  std::vector<std::thread> opens;
  std::atomic<int> opened{0}, refused{0};
  for (int i = 0; i < 3; ++i) {
    opens.emplace_back([&] {
      const absl::Status status = client_->OpenTables(request, kServiceTimeout).status();
      opened += status.ok();
      refused += absl::IsUnavailable(status);
    });
  }
  Await([&] { return refused >= 1; });
  EXPECT_TRUE(client_->Stats(kServiceTimeout).ok());
  host_->Release();
  for (std::thread& open : opens) open.join();
  EXPECT_EQ(opened + refused, 3);
  EXPECT_GE(opened, 1);
}

TEST_F(ParameterServiceTest, ParkedCallsLetOthersPassAndAreAnsweredLater) {
  auto parked = StartExchange(*client_, Pull(1));
  EXPECT_TRUE(
      StartExchange(*client_, Push(), Floats(kServedFloats, 2))->Take(kServiceTimeout).ok());
  EXPECT_EQ(parked->Wait(absl::ZeroDuration()).code(), absl::StatusCode::kDeadlineExceeded);
  Await([&] { return host_->parked() == 1; });
  host_->AnswerParked();
  EXPECT_TRUE(parked->Take(kServiceTimeout).ok());
}

TEST_F(ParameterServiceTest, ParkedCallsAreCancelledWithTheirStream) {
  auto parked = StartExchange(*client_, Pull(1));
  Await([&] { return host_->parked() == 1; });
  EXPECT_FALSE(host_->parked_cancelled(0));
  client_.reset();
  Await([&] { return host_->parked_cancelled(0); });
  // An answer that comes too late goes nowhere.
  host_->AnswerParked();
}

// The message memory that it held is free for later calls.
TEST_F(ParameterServiceTest, AParkedCallThatIsDroppedUnansweredGivesItsRoomBack) {
  ParameterServiceOptions options;
  Serve(kServedFloats, options);
  const auto parked = StartExchange(*client_, Pull(1), Floats(kServedFloats, 1));
  Await([&] { return host_->parked() == 1; });
  EXPECT_GE(options.budgets->parked.used(), static_cast<int64_t>(kServedFloats * sizeof(float)));
  client_.reset();
  Await([&] { return host_->parked_cancelled(0); });
  host_->DropCancelled();
  EXPECT_EQ(host_->parked(), 0u);
  Await([&] { return options.budgets->parked.used() == 0; });
}

TEST_F(ParameterServiceTest, ShutdownEndsStreamsAndRefusesNewOnes) {
  auto parked = StartExchange(*client_, Pull(1));
  Await([&] { return host_->parked() == 1; });
  service_->Shutdown();
  const absl::Status status = parked->Take(kServiceTimeout).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(status.message()), HasSubstr("shutting down"));
  auto late = MakeGrpcParameterClient(address_, RpcCredentials::PlainText());
  EXPECT_EQ(StartExchange(*late, Pull())->Take(kServiceTimeout).status().code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(ParameterServiceTest, PlainProtobufClientsAreServedAndMayHalfClose) {
  auto stub = v1::ParameterService::NewStub(MakeChannel(address_, RpcCredentials::PlainText()));
  grpc::ClientContext context;
  SetDeadline(context, kServiceTimeout);
  auto stream = stub->Exchange(&context);
  v1::ExchangeRequest push = Push();
  push.set_request_id(8);
  push.set_payload(std::string(kServedFloats * sizeof(float), '\0'));
  ASSERT_TRUE(stream->Write(push));
  v1::ExchangeRequest pull = Pull(1);
  pull.set_request_id(9);
  ASSERT_TRUE(stream->Write(pull));
  stream->WritesDone();
  v1::ExchangeReply reply;
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.request_id(), 8u);
  Await([&] { return host_->parked() == 1; });
  host_->AnswerParked();
  ASSERT_TRUE(stream->Read(&reply));
  EXPECT_EQ(reply.request_id(), 9u);
  EXPECT_EQ(reply.payload().size(), kServedFloats * sizeof(float));
  EXPECT_FALSE(stream->Read(&reply));
  EXPECT_TRUE(stream->Finish().ok());
}

TEST_F(ParameterServiceTest, GarbageEndsItsStreamOnly) {
  grpc::GenericStub stub(MakeChannel(address_, RpcCredentials::PlainText()));
  grpc::ClientContext context;
  SetDeadline(context, kServiceTimeout);
  grpc::CompletionQueue queue;
  auto stream = stub.PrepareCall(&context, "/muster.v1.ParameterService/Exchange", &queue);
  void* tag;
  bool ok;
  stream->StartCall(nullptr);
  queue.Next(&tag, &ok);
  grpc::Slice garbage(std::string("\x7a\x7f truncated"));
  stream->Write(grpc::ByteBuffer(&garbage, 1), nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  stream->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_THAT(status.error_message(), HasSubstr("cut short"));
  EXPECT_TRUE(
      StartExchange(*client_, Push(), Floats(kServedFloats, 1))->Take(kServiceTimeout).ok());
}

// A host that a request makes ask for more memory than there is.
class HungryHost final : public PartitionHost {
 public:
  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest&) override {
    throw std::bad_alloc();
  }
  absl::StatusOr<v1::EndGenerationReply> EndGeneration(const v1::EndGenerationRequest&) override {
    throw std::bad_alloc();
  }
  absl::Status DropTables(const v1::DropTablesRequest&) override {
    return absl::InternalError(std::string(std::vector<char>().max_size() + 1, 'x'));
  }
  void Execute(ExchangeCall) override {}
  v1::GetServerStatsReply Stats() const override { return {}; }
};

TEST(ParameterServiceMemoryTest, ACallThatFindsNoMemoryIsAnsweredAndTheServerGoesOn) {
  HungryHost host;
  const auto service = ParameterService::Create(host);
  grpc::ServerBuilder builder;
  ConfigureServer(builder);
  int port = 0;
  builder.AddListeningPort("127.0.0.1:0", RpcCredentials::PlainText().server(), &port);
  builder.RegisterService(&service->service());
  const std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  const auto client =
      MakeGrpcParameterClient(WithPort("127.0.0.1:0", port), RpcCredentials::PlainText());
  for (int i = 0; i < 2; ++i) {
    for (const absl::Status& status : {client->OpenTables({}, kServiceTimeout).status(),
                                       client->EndGeneration({}, kServiceTimeout).status(),
                                       client->DropTables({}, kServiceTimeout)}) {
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      EXPECT_THAT(std::string(status.message()), HasSubstr("memory"));
    }
  }
  service->Shutdown();
  server->Shutdown();
}

TEST_F(ParameterServiceTest, ClientsThatVanishMidwayLeaveNothingBehind) {
  for (int round = 0; round < 20; ++round) {
    auto client = MakeGrpcParameterClient(address_, RpcCredentials::PlainText());
    for (int i = 0; i < 20; ++i) {
      client->Call(i % 2 == 0 ? Push() : Pull(i % 3), Floats(kServedFloats, 1),
                   [](absl::StatusOr<ExchangeResult>) {});
    }
    if (round % 2 == 0) client->Abort(absl::CancelledError("done"));
  }
  EXPECT_TRUE(
      StartExchange(*client_, Push(), Floats(kServedFloats, 1))->Take(kServiceTimeout).ok());
}

}  // namespace
}  // namespace muster
