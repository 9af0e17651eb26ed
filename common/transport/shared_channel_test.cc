// What only channels through shared memory do; what all channels promise is in
// frame_channel_test.cc.

#include "common/transport/shared_channel.h"

#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/base/buffer_pool.h"
#include "common/base/payload.h"
#include "common/transport/descriptor.h"
#include "common/transport/io_loop.h"
#include "common/transport/shared_segment.h"
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

}  // namespace
}  // namespace muster
