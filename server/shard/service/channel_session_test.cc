// Answers that go into memory which the client has registered, over a real channel; what all ways
// to a server promise is in parameter_client_contract_test.cc.

#include "server/shard/service/channel_session.h"

#include <cstddef>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/transport/channel_connector.h"
#include "common/transport/channel_io.h"
#include "common/transport/channel_pair_for_testing.h"
#include "common/transport/registered_memory.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"

namespace muster {
namespace {

constexpr size_t kMemoryBytes = 1 << 20;

// Keeps calls for the test to answer.
class CallKeeper final : public PartitionHost {
 public:
  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest&) override {
    return absl::UnimplementedError("not called here");
  }
  absl::Status DropTables(const v1::DropTablesRequest&) override {
    return absl::UnimplementedError("not called here");
  }
  v1::GetServerStatsReply Stats() const override { return {}; }
  void Execute(ExchangeCall call) override {
    absl::MutexLock lock(&mutex_);
    calls_.push_back(std::move(call));
  }

  ExchangeCall Take() {
    absl::MutexLock lock(&mutex_);
    const auto come = [this]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !calls_.empty(); };
    mutex_.Await(absl::Condition(&come));
    ExchangeCall call = std::move(calls_.back());
    calls_.pop_back();
    return call;
  }

 private:
  absl::Mutex mutex_;
  std::vector<ExchangeCall> calls_ ABSL_GUARDED_BY(mutex_);
};

class ChannelSessionTest : public ::testing::Test {
 protected:
  ChannelSessionTest() {
    auto client = ConnectSharedChannel(listener_.address(), 1 << 20, io_->NextLoop(), io_->pool(),
                                       absl::Now() + absl::Seconds(30), memory_);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    client_->Start(from_server_);
    server_ = listener_.AwaitChannel();
    session_ = ChannelSession::Start(server_, host_, std::make_shared<ExchangeCounters>(),
                                     {.limits = {}, .ended = [this] { ended_.Notify(); }});
  }
  ~ChannelSessionTest() override {
    client_->Close(absl::CancelledError("the test ends"));
    EXPECT_FALSE(from_server_->AwaitClosed().ok());
    ended_.WaitForNotification();
  }

  // A call as the client makes it whose answer is to lie at [offset, offset + bytes).
  ExchangeCall Pull(uint64_t offset, uint64_t bytes, bool dense = true) {
    v1::ExchangeRequest request;
    request.set_request_id(7);
    if (dense) {
      request.mutable_dense_pull();
    } else {
      request.mutable_sparse_pull();
    }
    request.mutable_answer_to()->set_offset(offset);
    request.mutable_answer_to()->set_bytes(bytes);
    client_->Send(request.SerializeAsString(), {});
    return host_.Take();
  }

  // Whether memory that the call gives for an answer of so many bytes is the client's first.
  bool IsMadeInPlace(const ExchangeCall& call, size_t bytes) {
    *start_ = std::byte{0};
    const std::shared_ptr<std::byte> memory = call.answer_memory(bytes);
    if (memory != nullptr) *memory = std::byte{1};
    return *start_ == std::byte{1};
  }

  // What a host does that has made an answer.
  static void Answer(const ExchangeCall& call, std::shared_ptr<std::byte> memory, size_t bytes) {
    const Payload::Piece piece(memory.get(), bytes);
    call.done({}, Payload({piece}, std::move(memory)));
  }

  const std::shared_ptr<RegisteredMemory> memory_ = *RegisteredMemory::Create(kMemoryBytes);
  std::byte* const start_ = memory_->Take(kMemoryBytes);
  const std::shared_ptr<ChannelIo> io_ = *ChannelIo::Create({.threads = 1});
  ListenerForTesting listener_;
  CallKeeper host_;
  std::shared_ptr<FrameChannel> client_;
  std::shared_ptr<FrameChannel> server_;
  std::shared_ptr<RecordingHandler> from_server_ = std::make_shared<RecordingHandler>();
  absl::Notification ended_;
  std::shared_ptr<ChannelSession> session_;
};

TEST_F(ChannelSessionTest, AnAnswerIsMadeWhereTheClientWantsIt) {
  const ExchangeCall call = Pull(0, 100);
  EXPECT_TRUE(IsMadeInPlace(call, 100));
  Answer(call, call.answer_memory(100), 100);
  const RecordingHandler::Message message = from_server_->AwaitMessages(1)[0];
  EXPECT_EQ(message.payload.size(), 0);
  v1::ExchangeReply reply;
  ASSERT_TRUE(reply.ParseFromString(message.header));
  EXPECT_TRUE(reply.landed());
  EXPECT_EQ(reply.request_id(), 7);
}

// Room is as long as the client has said, not a byte longer; elsewhere the answer comes behind the
// reply, or is copied.
TEST_F(ChannelSessionTest, AnAnswerOfAnotherLengthIsMadeElsewhere) {
  for (const size_t bytes : {1, 97, 98, 99, 101, 104}) {
    EXPECT_FALSE(IsMadeInPlace(Pull(0, bytes), 100)) << bytes;
  }
  // Where elements would lie across words, and where there is nothing.
  EXPECT_EQ(Pull(2, 100).answer_memory(100), nullptr);
  EXPECT_EQ(Pull(kMemoryBytes, 100).answer_memory(100), nullptr);
}

// Rows may come from the disk, for which no client's end is to wait.
TEST_F(ChannelSessionTest, RowsAreMadeElsewhere) {
  EXPECT_FALSE(IsMadeInPlace(Pull(0, 100, /*dense=*/false), 100));
}

// The channel's end waits for room that is lent, on the loop that would send the answer.
TEST_F(ChannelSessionTest, AnAnswerMadeInPlaceWhileTheServerEndsHoldsNothingUp) {
  constexpr size_t kBytes = 1 << 17;
  const ExchangeCall call = Pull(0, kBytes);
  ASSERT_TRUE(IsMadeInPlace(call, kBytes));
  std::shared_ptr<std::byte> room = call.answer_memory(kBytes);
  session_->Close(absl::UnavailableError("the server is shutting down"));
  while (*server_->WriteRegistered(0, 4) != nullptr) std::this_thread::yield();
  Answer(call, std::move(room), kBytes);
  EXPECT_TRUE(absl::IsUnavailable(from_server_->AwaitClosed()));
}

TEST_F(ChannelSessionTest, AnAnswerMadeInPlaceWhileTheClientEndsHoldsNothingUp) {
  constexpr size_t kBytes = 1 << 17;
  const ExchangeCall call = Pull(0, kBytes);
  ASSERT_TRUE(IsMadeInPlace(call, kBytes));
  std::shared_ptr<std::byte> room = call.answer_memory(kBytes);
  client_->Close(absl::CancelledError("done"));
  while (*server_->WriteRegistered(0, 4) != nullptr) std::this_thread::yield();
  Answer(call, std::move(room), kBytes);
  EXPECT_EQ(from_server_->AwaitClosed(), absl::CancelledError("done"));
}

}  // namespace
}  // namespace muster
