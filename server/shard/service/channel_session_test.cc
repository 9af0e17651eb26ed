// Answers that go into memory which the client has registered, over a real channel; what all ways
// to a server promise is in parameter_client_contract_test.cc.

#include "server/shard/service/channel_session.h"

#include <sys/socket.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/transport/data_channel/channel_connector.h"
#include "common/transport/data_channel/channel_io.h"
#include "common/transport/data_channel/channel_pair_for_testing.h"
#include "common/transport/data_channel/frame.h"
#include "common/transport/data_channel/knock_for_testing.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "gtest/gtest.h"
#include "proto/parameter_service.pb.h"
#include "server/shard/service/message_budget.h"

namespace muster {
namespace {

constexpr size_t kMemoryBytes = 1 << 20;

// Keeps calls for the test to answer.
class CallKeeper final : public PartitionHost {
 public:
  absl::StatusOr<v1::OpenTablesReply> OpenTables(const v1::OpenTablesRequest&) override {
    return absl::UnimplementedError("not called here");
  }
  absl::StatusOr<v1::EndGenerationReply> EndGeneration(const v1::EndGenerationRequest&) override {
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
  explicit ChannelSessionTest(int64_t message_bytes = int64_t{1} << 30)
      : budgets_(std::make_shared<MessageBudgets>(message_bytes)) {
    auto client = ConnectSharedChannel(listener_.address(), 1 << 20, io_->NextLoop(), io_->pool(),
                                       absl::Now() + absl::Seconds(30), memory_);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    client_->Start(from_server_);
    server_ = listener_.AwaitChannel();
    session_ = ChannelSession::Start(
        server_, host_, std::make_shared<ExchangeCounters>(),
        {.limits = {}, .budgets = budgets_, .ended = [this] { ended_.Notify(); }});
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
    const Payload::Span span(memory.get(), bytes);
    call.done({}, Payload({span}, std::move(memory)));
  }

  const std::shared_ptr<MessageBudgets> budgets_;
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

// A channel through shared memory whose server has room for one push of half of what the client has
// registered.
class SharedRoomTest : public ChannelSessionTest {
 protected:
  static constexpr size_t kBytes = kMemoryBytes / 2;

  SharedRoomTest() : ChannelSessionTest(3 * kBytes) {}

  void PushRegistered(uint64_t id) {
    v1::ExchangeRequest request;
    request.set_request_id(id);
    request.mutable_dense_push();
    request.mutable_payload_in()->set_bytes(kBytes);
    client_->Send(request.SerializeAsString(), {});
  }

  v1::ExchangeReply AwaitReply(size_t number) {
    v1::ExchangeReply reply;
    EXPECT_TRUE(reply.ParseFromString(from_server_->AwaitMessages(number + 1)[number].header));
    return reply;
  }
};

// A client may name the same memory any number of times, by any number of connections, and each may
// be copied.
TEST_F(SharedRoomTest, APushInRegisteredMemoryThatHasNoRoomIsRefusedAndTakenLater) {
  // Of others.
  budgets_->passing.Take(kBytes);
  PushRegistered(1);
  const v1::ExchangeReply refused = AwaitReply(0);
  EXPECT_EQ(refused.request_id(), 1u);
  EXPECT_EQ(refused.code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_GT(refused.retry_after_ms(), 0u);
  budgets_->passing.Return(kBytes);
  PushRegistered(2);
  const ExchangeCall push = host_.Take();
  EXPECT_EQ(push.request->request_id(), 2u);
  EXPECT_EQ(push.payload.size(), kBytes);
  EXPECT_GE(budgets_->passing.used(), static_cast<int64_t>(kBytes));
  push.done({}, {});
  EXPECT_EQ(AwaitReply(1).code(), 0);
  while (budgets_->passing.used() != 0) std::this_thread::yield();
}

TEST_F(SharedRoomTest, OperationsThatWaitAreCountedToo) {
  v1::ExchangeRequest request;
  request.mutable_cut();
  request.mutable_payload_in()->set_bytes(kBytes);
  client_->Send(request.SerializeAsString(), {});
  const ExchangeCall waiting = host_.Take();
  EXPECT_EQ(budgets_->parked.used(), kBytes);
  client_->Send(request.SerializeAsString(), {});
  EXPECT_EQ(AwaitReply(0).code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  waiting.done({}, {});
}

TEST_F(SharedRoomTest, ALongMessageIsLeftInTheRingUntilThereIsRoom) {
  // Of others.
  budgets_->passing.Take(kBytes);
  v1::ExchangeRequest request;
  request.mutable_dense_push();
  client_->Send(request.SerializeAsString(),
                Payload::Of(std::vector<float>(kBytes / sizeof(float), 2)));
  while (!budgets_->passing.has_waiters()) std::this_thread::yield();
  EXPECT_EQ(budgets_->passing.used(), kBytes);
  budgets_->passing.Return(kBytes);
  const ExchangeCall second = host_.Take();
  std::vector<float> values(kBytes / sizeof(float));
  ASSERT_EQ(second.payload.size(), kBytes);
  second.payload.CopyTo(values.data());
  EXPECT_EQ(values, std::vector<float>(kBytes / sizeof(float), 2));
  second.done({}, {});
  while (budgets_->passing.used() != 0) std::this_thread::yield();
}

// Channels over TCP whose server has room for few messages.
class ChannelRoomTest : public ::testing::Test {
 protected:
  static constexpr int64_t kRoom = 32 << 20;

  struct Client {
    std::shared_ptr<FrameChannel> channel;
    std::shared_ptr<RecordingHandler> received = std::make_shared<RecordingHandler>();
  };

  ~ChannelRoomTest() override {
    for (const Client& client : clients_) client.channel->Close(absl::CancelledError("the end"));
    for (const auto& ended : ended_) ended->WaitForNotification();
  }

  // The session of the client that has just connected.
  std::shared_ptr<ChannelSession> Serve() {
    const auto ended = std::make_shared<absl::Notification>();
    ended_.push_back(ended);
    return ChannelSession::Start(
        listener_.AwaitChannel(), host_, std::make_shared<ExchangeCounters>(),
        {.limits = {.reply_bytes = int64_t{1} << 40}, .budgets = budgets_, .ended = [ended] {
           ended->Notify();
         }});
  }

  Client Connect() {
    auto channel = ConnectSocketChannel(listener_.address(), io_->NextLoop(), io_->pool(),
                                        absl::Now() + absl::Seconds(30));
    EXPECT_TRUE(channel.ok()) << channel.status();
    clients_.push_back({*std::move(channel)});
    clients_.back().channel->Start(clients_.back().received);
    Serve();
    return clients_.back();
  }

  static void Push(const Client& client, size_t bytes) {
    v1::ExchangeRequest request;
    request.mutable_dense_push();
    client.channel->Send(request.SerializeAsString(),
                         Payload::Of(std::vector<float>(bytes / sizeof(float))));
  }

  void AwaitUsed(int64_t bytes) {
    while (budgets_->passing.used() != bytes) std::this_thread::yield();
  }

  const std::shared_ptr<ChannelIo> io_ = *ChannelIo::Create({.threads = 1});
  ListenerForTesting listener_;
  CallKeeper host_;
  const std::shared_ptr<MessageBudgets> budgets_ = std::make_shared<MessageBudgets>(2 * kRoom);
  std::vector<Client> clients_;
  std::vector<std::shared_ptr<absl::Notification>> ended_;
};

// Twenty whole messages at once took their sum.
TEST_F(ChannelRoomTest, AMessageIsLeftUnreadUntilThereIsRoom) {
  constexpr size_t kBytes = 20 << 20;
  Push(Connect(), kBytes);
  const ExchangeCall first = host_.Take();
  EXPECT_EQ(budgets_->passing.used(), kBytes);
  Push(Connect(), kBytes);
  while (!budgets_->passing.has_waiters()) std::this_thread::yield();
  EXPECT_EQ(budgets_->passing.used(), kBytes);
  first.done({}, {});
  const ExchangeCall second = host_.Take();
  EXPECT_EQ(second.payload.size(), kBytes);
  second.done({}, {});
  AwaitUsed(0);
}

TEST_F(ChannelRoomTest, AnswersThatNobodyReadsTakeABoundedPartAndOthersGetTheirs) {
  constexpr size_t kBytes = 2 << 20;
  constexpr int kPulls = 40;
  const auto answer = std::make_shared<std::vector<std::byte>>(kBytes);
  const auto pull = [](const Client& client) {
    v1::ExchangeRequest request;
    request.mutable_sparse_pull();
    client.channel->Send(request.SerializeAsString(), {});
  };
  const auto answer_one = [&](const ExchangeCall& call) {
    call.done({}, Payload({{answer->data(), kBytes}}, answer));
  };
  const Client greedy = Connect();
  greedy.channel->SetReading(false);
  for (int i = 0; i < kPulls; ++i) pull(greedy);
  std::vector<ExchangeCall> calls;
  while (calls.size() < kPulls) calls.push_back(host_.Take());
  for (const ExchangeCall& call : calls) {
    answer_one(call);
    EXPECT_LE(budgets_->passing.used(), kRoom / 2 + kPulls * 1024);
  }
  const Client honest = Connect();
  pull(honest);
  answer_one(host_.Take());
  EXPECT_EQ(honest.received->AwaitMessages(1)[0].payload.size(), kBytes);
  greedy.channel->SetReading(true);
  int refused = 0;
  for (const RecordingHandler::Message& message : greedy.received->AwaitMessages(kPulls)) {
    v1::ExchangeReply reply;
    ASSERT_TRUE(reply.ParseFromString(message.header));
    if (message.payload.size() == kBytes) continue;
    EXPECT_EQ(reply.code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
    EXPECT_GT(reply.retry_after_ms(), 0u);
    ++refused;
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, kPulls);
  AwaitUsed(0);
}

// Operations that wait may wait for pushes, which must find room all the same.
TEST_F(ChannelRoomTest, OperationsThatWaitLeaveRoomToPushes) {
  constexpr size_t kBytes = 20 << 20;
  const auto pull = [&](const Client& client) {
    v1::ExchangeRequest request;
    request.mutable_sparse_pull();
    client.channel->Send(request.SerializeAsString(),
                         Payload::Of(std::vector<float>(kBytes / sizeof(float))));
  };
  pull(Connect());
  const ExchangeCall parked = host_.Take();
  const Client refused = Connect();
  pull(refused);
  v1::ExchangeReply reply;
  ASSERT_TRUE(reply.ParseFromString(refused.received->AwaitMessages(1)[0].header));
  EXPECT_EQ(reply.code(), static_cast<int>(absl::StatusCode::kResourceExhausted));
  EXPECT_GT(reply.retry_after_ms(), 0u);
  Push(Connect(), kBytes);
  const ExchangeCall push = host_.Take();
  push.done({}, {});
  parked.done({}, {});
  AwaitUsed(0);
  EXPECT_EQ(budgets_->parked.used(), 0);
}

// A host drops what waits for pushes once the caller is gone: its room is for those who come after.
TEST_F(ChannelRoomTest, ACallThatIsDroppedUnansweredGivesItsRoomBack) {
  constexpr size_t kBytes = 20 << 20;
  v1::ExchangeRequest request;
  request.mutable_sparse_pull();
  const Client client = Connect();
  client.channel->Send(request.SerializeAsString(),
                       Payload::Of(std::vector<float>(kBytes / sizeof(float))));
  std::optional<ExchangeCall> parked = host_.Take();
  EXPECT_EQ(budgets_->parked.used(), kBytes);
  client.channel->Close(absl::CancelledError("killed"));
  while (!parked->cancelled->load()) std::this_thread::yield();
  EXPECT_EQ(budgets_->parked.used(), kBytes);
  parked.reset();
  EXPECT_EQ(budgets_->parked.used(), 0);
}

TEST_F(ChannelRoomTest, AMessageThatDoesNotComeGivesItsRoomUp) {
  const auto client = KnockAt(listener_.address(), ChannelHello::Kind::kStream);
  ASSERT_TRUE(client.ok()) << client.status();
  const std::shared_ptr<ChannelSession> session = Serve();
  std::byte frame[kFrameBytes];
  EncodeFrame({.kind = FrameKind::kMessage, .payload_bytes = 1 << 20}, frame);
  ASSERT_EQ(send(client->socket.get(), frame, sizeof(frame), MSG_NOSIGNAL), kFrameBytes);
  AwaitUsed(1 << 20);
  const auto now = std::chrono::steady_clock::now();
  session->CloseIfStalled(now);
  EXPECT_EQ(budgets_->passing.used(), 1 << 20);
  session->CloseIfStalled(now + std::chrono::seconds(61));
  AwaitUsed(0);
}

}  // namespace
}  // namespace muster
