#include "common/rpc/parameter_service/grpc_parameter_client.h"

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/rpc/channel.h"
#include "common/rpc/rpc_credentials.h"
#include "common/rpc/rpc_status.h"
#include "gmock/gmock.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.grpc.pb.h"

namespace muster {
namespace {

using ::testing::HasSubstr;

constexpr absl::Duration kTimeout = absl::Seconds(60);

// A server as any other program might write one, with messages of plain protobuf. It answers an
// operation by its clock:
enum : uint64_t {
  kEcho = 0,          // The payload comes back.
  kHold = 1,          // Answered, in reverse order, with the next operation that is not held.
  kFail = 2,          // An error in the reply.
  kHangUp = 3,        // The stream ends.
  kUnknownReply = 4,  // A reply to nobody.
};

class PlainService final : public v1::ParameterService::Service {
 public:
  grpc::Status OpenTables(grpc::ServerContext*, const v1::OpenTablesRequest* request,
                          v1::OpenTablesReply* reply) override {
    if (request->slots() == 0) {
      return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "slots is 0");
    }
    reply->add_partitions()->set_partition(request->slots());
    return grpc::Status::OK;
  }
  grpc::Status DropTables(grpc::ServerContext*, const v1::DropTablesRequest* request,
                          v1::DropTablesReply*) override {
    dropped = request->job_id();
    return grpc::Status::OK;
  }
  grpc::Status GetServerStats(grpc::ServerContext*, const v1::GetServerStatsRequest*,
                              v1::GetServerStatsReply* reply) override {
    reply->set_bytes_pushed(17);
    return grpc::Status::OK;
  }

  grpc::Status Exchange(
      grpc::ServerContext*,
      grpc::ServerReaderWriter<v1::ExchangeReply, v1::ExchangeRequest>* stream) override {
    ++streams;
    std::vector<v1::ExchangeRequest> held;
    v1::ExchangeRequest request;
    while (stream->Read(&request)) {
      {
        absl::MutexLock lock(&mutex);
        partitions.push_back(request.partition());
        received.push_back(request.slot());
      }
      v1::ExchangeReply reply;
      reply.set_request_id(request.request_id());
      reply.set_payload(request.payload());
      switch (request.clock()) {
        case kHold:
          held.push_back(request);
          continue;
        case kFail:
          reply.set_code(static_cast<int>(absl::StatusCode::kResourceExhausted));
          reply.set_message("the queue is full");
          reply.set_retry_after_ms(70);
          break;
        case kHangUp:
          return grpc::Status(grpc::StatusCode::INTERNAL, "tripped over a cable");
        case kUnknownReply:
          reply.set_request_id(987654321);
          break;
      }
      stream->Write(reply);
      for (; !held.empty(); held.pop_back()) {
        reply.set_request_id(held.back().request_id());
        reply.set_payload(held.back().payload());
        stream->Write(reply);
      }
    }
    return grpc::Status::OK;
  }

  // Waits until `count` operations arrived.
  std::vector<uint32_t> AwaitReceived(size_t count) {
    absl::MutexLock lock(&mutex);
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex) {
      return received.size() >= count;
    };
    mutex.Await(absl::Condition(&enough));
    return received;
  }

  std::string dropped;
  std::atomic<int> streams{0};
  absl::Mutex mutex;
  std::vector<uint32_t> partitions ABSL_GUARDED_BY(mutex);
  // Slots of the operations: tests number them so.
  std::vector<uint32_t> received ABSL_GUARDED_BY(mutex);
};

class GrpcParameterClientTest : public ::testing::Test {
 protected:
  GrpcParameterClientTest() { Connect({}); }

  void Connect(ParameterClientOptions options) {
    client_.reset();
    server_.reset();
    grpc::ServerBuilder builder;
    ConfigureServer(builder);
    int port = 0;
    builder.AddListeningPort("127.0.0.1:0", RpcCredentials::PlainText().server(), &port);
    builder.RegisterService(&service_);
    server_ = builder.BuildAndStart();
    client_ = MakeGrpcParameterClient(WithPort("127.0.0.1:0", port), RpcCredentials::PlainText(),
                                      options);
  }

  static v1::ExchangeRequest Operation(uint64_t clock, uint32_t number = 0) {
    v1::ExchangeRequest request;
    request.set_job_id("job-1");
    request.set_clock(clock);
    request.set_slot(number);
    request.mutable_dense_push();
    return request;
  }

  static Payload Bytes(size_t size, int seed) {
    std::vector<uint8_t> bytes(size);
    for (size_t i = 0; i < size; ++i) bytes[i] = i * 13 + seed;
    return Payload::Of(std::move(bytes));
  }

  static std::string Flatten(const Payload& payload) {
    std::string bytes(payload.size(), '\0');
    payload.CopyTo(bytes.data());
    return bytes;
  }

  PlainService service_;
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<ParameterClient> client_;
};

TEST_F(GrpcParameterClientTest, UnaryCallsWork) {
  v1::OpenTablesRequest request;
  request.set_slots(3);
  const auto opened = client_->OpenTables(request, kTimeout);
  ASSERT_TRUE(opened.ok()) << opened.status();
  EXPECT_EQ(opened->partitions(0).partition(), 3u);
  EXPECT_TRUE(client_->DropTables("job-1", kTimeout).ok());
  EXPECT_EQ(service_.dropped, "job-1");
  EXPECT_EQ(client_->Stats(kTimeout)->bytes_pushed(), 17u);
}

TEST_F(GrpcParameterClientTest, UnaryErrorsNameCallAndServer) {
  const absl::Status status = client_->OpenTables({}, kTimeout).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("OpenTables on server 127.0.0.1:"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("slots is 0"));
}

class EchoTest : public GrpcParameterClientTest, public ::testing::WithParamInterface<size_t> {};

TEST_P(EchoTest, PayloadsComeBackWhole) {
  const Payload payload = Bytes(GetParam(), 5);
  const auto result = StartExchange(*client_, Operation(kEcho), payload)->Take(kTimeout);
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(result->payload.size(), GetParam());
  EXPECT_TRUE(Flatten(result->payload) == Flatten(payload));
}

INSTANTIATE_TEST_SUITE_P(Sizes, EchoTest, ::testing::Values(0, 1, 4095, 1 << 20, (8 << 20) + 3));

TEST_F(GrpcParameterClientTest, AnswersFindTheirCallsInAnyOrder) {
  std::vector<std::shared_ptr<Pending<ExchangeResult>>> calls;
  for (int i = 0; i < 20; ++i) {
    calls.push_back(StartExchange(*client_, Operation(kHold, i), Bytes(100 + i, i)));
  }
  calls.push_back(StartExchange(*client_, Operation(kEcho, 20), Bytes(120, 20)));
  for (int i = 0; i <= 20; ++i) {
    const auto result = calls[i]->Take(kTimeout);
    ASSERT_TRUE(result.ok()) << result.status();
    EXPECT_EQ(Flatten(result->payload), Flatten(Bytes(100 + i, i)));
  }
  const std::vector<uint32_t> received = service_.AwaitReceived(21);
  for (uint32_t i = 0; i <= 20; ++i) EXPECT_EQ(received[i], i);
  EXPECT_EQ(service_.streams, 1);
}

TEST_F(GrpcParameterClientTest, ErrorsInRepliesEndTheCallAndNotTheStream) {
  const auto failed = StartExchange(*client_, Operation(kFail))->Take(kTimeout);
  EXPECT_EQ(failed.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(failed.status().message(), "the queue is full");
  EXPECT_EQ(RetryAfter(failed.status()), absl::Milliseconds(70));
  EXPECT_TRUE(StartExchange(*client_, Operation(kEcho))->Take(kTimeout).ok());
  EXPECT_EQ(service_.streams, 1);
}

TEST_F(GrpcParameterClientTest, ABrokenStreamEndsAllItsCallsAsUnavailable) {
  auto held = StartExchange(*client_, Operation(kHold, 0));
  auto fatal = StartExchange(*client_, Operation(kHangUp, 1));
  for (const auto& call : {held, fatal}) {
    const absl::Status status = call->Wait(kTimeout);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
    EXPECT_THAT(std::string(status.message()), HasSubstr("tripped over a cable"));
  }
  EXPECT_EQ(StartExchange(*client_, Operation(kEcho))->Wait(kTimeout).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(GrpcParameterClientTest, AReplyToNobodyEndsTheStream) {
  const absl::Status status = StartExchange(*client_, Operation(kUnknownReply))->Wait(kTimeout);
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("unknown request 987654321"));
}

TEST_F(GrpcParameterClientTest, AnAbsentServerIsUnavailable) {
  server_->Shutdown();
  EXPECT_EQ(StartExchange(*client_, Operation(kEcho))->Wait(kTimeout).code(),
            absl::StatusCode::kUnavailable);
}

TEST_F(GrpcParameterClientTest, AbortEndsAllCallsWithItsReason) {
  auto held = StartExchange(*client_, Operation(kHold));
  client_->Abort(absl::AbortedError("generation 3 replaces 2"));
  EXPECT_EQ(held->Wait(kTimeout), absl::AbortedError("generation 3 replaces 2"));
  EXPECT_EQ(StartExchange(*client_, Operation(kEcho))->Wait(kTimeout),
            absl::AbortedError("generation 3 replaces 2"));
}

TEST_F(GrpcParameterClientTest, ClosingEndsWhatIsOutstanding) {
  auto held = StartExchange(*client_, Operation(kHold));
  service_.AwaitReceived(1);
  client_.reset();
  EXPECT_EQ(held->Wait(absl::ZeroDuration()).code(), absl::StatusCode::kCancelled);
}

TEST_F(GrpcParameterClientTest, OversizedMessagesAreRefusedBeforeTheyAreSent) {
  const absl::Status status =
      StartExchange(*client_, Operation(kEcho), Bytes(kMaxMessageBytes, 1))->Wait(kTimeout);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(status.message()), HasSubstr("over the limit of 67108864 bytes"));
  EXPECT_TRUE(StartExchange(*client_, Operation(kEcho))->Take(kTimeout).ok());
}

TEST_F(GrpcParameterClientTest, PushesWaitForTheWindowAndTheQueueIsBounded) {
  ParameterClientOptions options;
  options.window_bytes = 10000;
  options.max_queued_bytes = 20000;
  Connect(options);
  // Two fit the window; the third waits here, and a fourth may too; a fifth may not.
  std::vector<std::shared_ptr<Pending<ExchangeResult>>> calls;
  for (int i = 0; i < 4; ++i) {
    calls.push_back(StartExchange(*client_, Operation(kHold, i), Bytes(4900, i)));
    if (i < 2) service_.AwaitReceived(i + 1);
  }
  std::vector<std::shared_ptr<Pending<ExchangeResult>>> more;
  absl::Status refused;
  for (int i = 0; i < 3 && refused.ok(); ++i) {
    auto call = StartExchange(*client_, Operation(kHold, 4 + i), Bytes(4900, i));
    if (const absl::Status status = call->Wait(absl::ZeroDuration());
        absl::IsResourceExhausted(status)) {
      refused = status;
    }
  }
  EXPECT_THAT(std::string(refused.message()), HasSubstr("wait to be sent"));
  EXPECT_EQ(service_.AwaitReceived(2).size(), 2u);
}

TEST_F(GrpcParameterClientTest, PullsPassAFullWindow) {
  ParameterClientOptions options;
  options.window_bytes = 10;
  Connect(options);
  auto push = StartExchange(*client_, Operation(kHold, 0), Bytes(4900, 0));
  v1::ExchangeRequest pull = Operation(kEcho, 1);
  pull.mutable_dense_pull();
  // Answered, it lets the push go too.
  EXPECT_TRUE(StartExchange(*client_, pull, Bytes(100, 0))->Take(kTimeout).ok());
  EXPECT_TRUE(push->Take(kTimeout).ok());
}

TEST_F(GrpcParameterClientTest, ManyThreadsAndConnectionsKeepEachPartitionsOrder) {
  ParameterClientOptions options;
  options.connections = 3;
  options.window_bytes = 30000;
  Connect(options);
  constexpr int kPartitions = 6, kCalls = 50;
  std::vector<std::thread> threads;
  std::atomic<int> answered{0};
  absl::BlockingCounter pending(kPartitions * kCalls);
  for (int partition = 0; partition < kPartitions; ++partition) {
    threads.emplace_back([&, partition] {
      for (int i = 0; i < kCalls; ++i) {
        v1::ExchangeRequest request = Operation(kEcho, i);
        request.set_partition(partition);
        client_->Call(request, Bytes(3000, i), [&, i](absl::StatusOr<ExchangeResult> result) {
          answered += result.ok() && Flatten(result->payload) == Flatten(Bytes(3000, i));
          pending.DecrementCount();
        });
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  pending.Wait();
  ASSERT_EQ(answered, kPartitions * kCalls);
  EXPECT_EQ(service_.streams, 3);
  const std::vector<uint32_t> received = service_.AwaitReceived(kPartitions * kCalls);
  std::vector<uint32_t> next(kPartitions);
  absl::MutexLock lock(&service_.mutex);
  for (size_t i = 0; i < received.size(); ++i) {
    EXPECT_EQ(received[i], next[service_.partitions[i]]++);
  }
}

}  // namespace
}  // namespace muster
