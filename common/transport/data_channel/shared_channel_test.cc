// What only channels through shared memory do; what all channels promise is in
// frame_channel_test.cc.

#include "common/transport/data_channel/shared_channel.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/clock.h"
#include "common/base/buffer_pool.h"
#include "common/base/payload.h"
#include "common/transport/data_channel/channel_connector.h"
#include "common/transport/data_channel/channel_io.h"
#include "common/transport/data_channel/channel_pair_for_testing.h"
#include "common/transport/data_channel/io_loop.h"
#include "common/transport/descriptor.h"
#include "common/transport/shared_memory/registered_memory.h"
#include "common/transport/shared_memory/shared_segment.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

// What several channels have sent, in order. Thread-safe.
class SentOrder {
 public:
  void Add(char name) {
    absl::MutexLock lock(&mutex_);
    names_.push_back(name);
  }
  std::string Await(size_t count) {
    absl::MutexLock lock(&mutex_);
    const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return names_.size() >= count;
    };
    mutex_.Await(absl::Condition(&enough));
    return names_;
  }

 private:
  absl::Mutex mutex_;
  std::string names_ ABSL_GUARDED_BY(mutex_);
};

class NamedHandler final : public FrameChannel::Handler {
 public:
  NamedHandler(char name, SentOrder& order) : name_(name), order_(order) {}

  std::byte* PlaceFor(absl::string_view, size_t) override { return nullptr; }
  void OnMessage(absl::string_view, Payload) override {}
  void OnSent(size_t) override { order_.Add(name_); }
  void OnClosed(const absl::Status&) override { closed_.Notify(); }

  void AwaitClosed() { closed_.WaitForNotification(); }

 private:
  const char name_;
  SentOrder& order_;
  absl::Notification closed_;
};

// One end of a channel, and what stands for a process at the other that reads nothing yet.
struct End {
  End(size_t arena_bytes, IoLoop& loop, std::shared_ptr<BufferPool> pool) {
    std::array<int, 2> sockets;
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, sockets.data()),
              0);
    peer = Descriptor(sockets[1]);
    channel = SharedChannel::Create({.segment = *SharedSegment::Create(arena_bytes),
                                     .direction = SharedSegment::Direction::kToClient,
                                     .socket = Descriptor(sockets[0]),
                                     .own_bell = Descriptor(eventfd(0, EFD_NONBLOCK)),
                                     .peer_bell = Descriptor(eventfd(0, EFD_NONBLOCK))},
                                    loop, std::move(pool));
  }

  Descriptor peer;
  std::shared_ptr<SharedChannel> channel;
};

TEST(SharedChannelTest, ChannelsOfALoopTakeTurnsToSend) {
  constexpr int kMessages = 6;
  const Payload payload = Payload::Of(std::vector<float>((1 << 20) / sizeof(float)));
  const auto loop = IoLoop::Create({});
  ASSERT_TRUE(loop.ok()) << loop.status();
  const std::shared_ptr<BufferPool> pool = BufferPool::Create(0);
  SentOrder order;
  End a(16 << 20, **loop, pool), b(16 << 20, **loop, pool);
  const auto a_handler = std::make_shared<NamedHandler>('a', order);
  const auto b_handler = std::make_shared<NamedHandler>('b', order);
  // Nothing is sent before all is queued.
  absl::Notification queued;
  (*loop)->Post([&queued] { queued.WaitForNotification(); });
  a.channel->Start(a_handler);
  b.channel->Start(b_handler);
  for (int i = 0; i < kMessages; ++i) a.channel->Send("a", payload);
  for (int i = 0; i < kMessages; ++i) b.channel->Send("b", payload);
  queued.Notify();
  EXPECT_EQ(order.Await(2 * kMessages), "abababababab");

  for (auto* end : {&a, &b}) end->channel->Close(absl::CancelledError("the test ends"));
  a_handler->AwaitClosed();
  b_handler->AwaitClosed();
}

// A client that has registered memory, and its server, in one process.
class RegisteredChannelTest : public ::testing::Test {
 protected:
  RegisteredChannelTest() {
    auto client = ConnectSharedChannel(listener_.address(), 1 << 20, io_->NextLoop(), io_->pool(),
                                       absl::Now() + absl::Seconds(30), memory_);
    EXPECT_TRUE(client.ok()) << client.status();
    client_ = *std::move(client);
    server_ = listener_.AwaitChannel();
    client_->Start(from_server_);
    server_->Start(from_client_);
  }
  ~RegisteredChannelTest() override {
    for (const auto& end : {client_, server_}) end->Close(absl::CancelledError("the test ends"));
    EXPECT_FALSE(from_server_->AwaitClosed().ok());
    EXPECT_FALSE(from_client_->AwaitClosed().ok());
  }

  const std::shared_ptr<RegisteredMemory> memory_ = *RegisteredMemory::Create(1 << 20);
  const std::shared_ptr<ChannelIo> io_ = *ChannelIo::Create({.threads = 1});
  ListenerForTesting listener_;
  std::shared_ptr<FrameChannel> client_;
  std::shared_ptr<FrameChannel> server_;
  std::shared_ptr<RecordingHandler> from_server_ = std::make_shared<RecordingHandler>();
  std::shared_ptr<RecordingHandler> from_client_ = std::make_shared<RecordingHandler>();
};

TEST_F(RegisteredChannelTest, TheServerReadsAndWritesWhatTheClientNames) {
  const absl::Span<std::byte> place(memory_->Take(5000), 5000);
  place[17] = std::byte{42};
  const auto offset = client_->RegisteredOffset(place.subspan(10));
  ASSERT_TRUE(offset.has_value());
  const auto read = server_->ReadRegistered(*offset, 100);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->spans()[0][7], std::byte{42});
  {
    const auto room = server_->WriteRegistered(*offset + 3, 2);
    ASSERT_TRUE(room.ok()) << room.status();
    room->get()[1] = std::byte{43};
  }
  EXPECT_EQ(place[14], std::byte{43});
  // Neither side reaches more, nor the other way round.
  EXPECT_TRUE(absl::IsInvalidArgument(server_->ReadRegistered(1 << 20, 1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(server_->WriteRegistered(0, (1 << 20) + 1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(client_->ReadRegistered(0, 1).status()));
  EXPECT_TRUE(absl::IsInvalidArgument(client_->WriteRegistered(0, 1).status()));
  EXPECT_FALSE(server_->RegisteredOffset(place).has_value());
}

TEST_F(RegisteredChannelTest, WhatIsReadOutlivesTheChannelAndTheClientsMapping) {
  std::byte* const place = memory_->Take(100);
  place[99] = std::byte{5};
  const Payload read = *server_->ReadRegistered(*client_->RegisteredOffset({place, 100}), 100);
  client_->Close(absl::CancelledError("done"));
  EXPECT_FALSE(from_client_->AwaitClosed().ok());
  EXPECT_EQ(read.spans()[0][99], std::byte{5});
}

TEST_F(RegisteredChannelTest, TheClientsEndWaitsForAWriteThatIsUnderWay) {
  std::shared_ptr<std::byte> room = *server_->WriteRegistered(0, 100);
  ASSERT_NE(room, nullptr);
  client_->Close(absl::CancelledError("done"));
  // Closed to further ones, as soon as the end has begun.
  while (*server_->WriteRegistered(0, 100) != nullptr) std::this_thread::yield();
  EXPECT_FALSE(from_server_->closed());
  room = nullptr;
  EXPECT_EQ(from_server_->AwaitClosed(), absl::CancelledError("done"));
}

TEST_F(RegisteredChannelTest, SoDoesTheServers) {
  std::shared_ptr<std::byte> room = *server_->WriteRegistered(0, 100);
  ASSERT_NE(room, nullptr);
  server_->Close(absl::UnavailableError("the server is shutting down"));
  while (*server_->WriteRegistered(0, 100) != nullptr) std::this_thread::yield();
  EXPECT_FALSE(from_client_->closed());
  EXPECT_FALSE(from_server_->closed());
  room = nullptr;
  EXPECT_FALSE(from_client_->AwaitClosed().ok());
  EXPECT_EQ(from_server_->AwaitClosed(), absl::UnavailableError("the server is shutting down"));
}

}  // namespace
}  // namespace muster
