#include "client/chaos/faults/link_proxy.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/transport/deadline.h"
#include "common/transport/sockets/blocking_frames.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

Deadline Patience() { return Deadline::After(absl::Seconds(60)); }

// Answers every frame with the same, on any number of connections, one thread each. Thread-safe.
class Echo {
 public:
  Echo() : listener_(ListenTcp("127.0.0.1").value()), thread_([this] { Serve(); }) {}
  ~Echo() {
    shutdown(listener_.socket.get(), SHUT_RDWR);
    thread_.join();
    for (const int socket : sockets()) shutdown(socket, SHUT_RDWR);
    for (std::thread& guest : guests_) guest.join();
    for (const int socket : sockets()) close(socket);
  }
  uint16_t port() const { return listener_.port; }

  // Blocks until such a frame has come.
  void AwaitHeard(const std::string& text) {
    absl::MutexLock lock(&mutex_);
    const auto heard = [this, &text]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
      return std::count(heard_.begin(), heard_.end(), text) > 0;
    };
    mutex_.Await(absl::Condition(&heard));
  }
  // Sends a frame on all connections, unasked.
  void Tell(const std::string& text) {
    for (const int socket : sockets()) ASSERT_TRUE(SendFrame(socket, text, Patience()).ok());
  }

 private:
  std::vector<int> sockets() {
    absl::MutexLock lock(&mutex_);
    return sockets_;
  }
  void Serve() {
    while (true) {
      pollfd polled = {.fd = listener_.socket.get(), .events = POLLIN, .revents = 0};
      poll(&polled, 1, -1);
      const int socket = accept4(listener_.socket.get(), nullptr, nullptr, SOCK_NONBLOCK);
      if (socket < 0) return;
      absl::MutexLock lock(&mutex_);
      sockets_.push_back(socket);
      guests_.emplace_back([this, socket] { Answer(socket); });
    }
  }
  void Answer(int socket) {
    while (true) {
      const auto frame = ReceiveFrame(socket, Patience());
      if (!frame.ok()) break;
      {
        absl::MutexLock lock(&mutex_);
        heard_.push_back(*frame);
      }
      if (!SendFrame(socket, *frame, Patience()).ok()) break;
    }
    shutdown(socket, SHUT_RDWR);
  }

  const TcpListener listener_;
  absl::Mutex mutex_;
  std::vector<std::string> heard_ ABSL_GUARDED_BY(mutex_);
  // Closed at the end.
  std::vector<int> sockets_ ABSL_GUARDED_BY(mutex_);
  // Changed by thread_ alone while that runs.
  std::vector<std::thread> guests_;
  std::thread thread_;
};

class LinkProxyTest : public ::testing::Test {
 protected:
  LinkProxyTest() {
    LinkProxy::Options options;
    options.target_port = echo_.port();
    options.caller = [this](uint16_t) { return caller_; };
    proxy_ = LinkProxy::Create(ListenTcp("127.0.0.1").value(), std::move(options)).value();
  }

  absl::StatusOr<Descriptor> Call() { return ConnectTcp("127.0.0.1", proxy_->port(), Patience()); }
  static absl::Status Say(const Descriptor& socket, const std::string& text) {
    return SendFrame(socket.get(), text, Patience());
  }
  static absl::StatusOr<std::string> Hear(const Descriptor& socket) {
    return ReceiveFrame(socket.get(), Patience());
  }
  // Sends a frame and gets it back.
  static void ExpectWorks(const Descriptor& socket, const std::string& text) {
    ASSERT_TRUE(Say(socket, text).ok());
    const auto answer = Hear(socket);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(*answer == text);
  }
  // Whether something has arrived, or an end.
  static bool Stirs(const Descriptor& socket) {
    pollfd polled = {.fd = socket.get(), .events = POLLIN, .revents = 0};
    return poll(&polled, 1, 0) > 0;
  }

  Echo echo_;
  // Const while a proxy accepts.
  std::string caller_ = "worker-0";
  std::unique_ptr<LinkProxy> proxy_;
};

TEST_F(LinkProxyTest, EveryByteArrives) {
  const Descriptor one = Call().value(), two = Call().value();
  ExpectWorks(one, "small");
  ExpectWorks(two, "other");
  // More than all buffers on the way hold.
  const auto frame = [](int i) { return std::string(60000, static_cast<char>(i)); };
  std::thread sender([&] {
    for (int i = 0; i < 300; ++i) ASSERT_TRUE(Say(one, frame(i)).ok());
  });
  for (int i = 0; i < 300; ++i) {
    const auto answer = Hear(one);
    ASSERT_TRUE(answer.ok()) << answer.status();
    EXPECT_TRUE(*answer == frame(i)) << i;
  }
  sender.join();
}

TEST_F(LinkProxyTest, ACutEndsConnectionsAndRefusesNewOnesUntilItHeals) {
  const Descriptor before = Call().value();
  ExpectWorks(before, "a");
  proxy_->SetFault("worker-0", {.kind = LinkFault::Kind::kCut});
  EXPECT_FALSE(Hear(before).ok());
  // The system takes the call, and the proxy ends it.
  const auto meanwhile = Call();
  EXPECT_TRUE(!meanwhile.ok() || !Hear(*meanwhile).ok());
  proxy_->SetFault("worker-0", {});
  ExpectWorks(Call().value(), "b");
}

TEST_F(LinkProxyTest, AFaultIsOfOneCaller) {
  const Descriptor connection = Call().value();
  ExpectWorks(connection, "a");
  proxy_->SetFault("worker-1", {.kind = LinkFault::Kind::kCut});
  ExpectWorks(connection, "b");
}

class HalfOpenTest : public LinkProxyTest, public ::testing::WithParamInterface<LinkFault::Kind> {};

TEST_P(HalfOpenTest, NothingIsLostAndNothingArrivesUntilItHeals) {
  const Descriptor held = Call().value();
  ExpectWorks(held, "before");
  proxy_->SetFault("worker-0", {.kind = GetParam()});
  ASSERT_TRUE(Say(held, "during").ok());
  // Each gives the proxy a turn.
  for (int turn = 0; turn < 20; ++turn) {
    proxy_->SetFault("somebody else", {});
    EXPECT_FALSE(Stirs(held));
  }
  // New ones are taken, and hear nothing either.
  const Descriptor late = Call().value();
  ASSERT_TRUE(Say(late, "late").ok());
  EXPECT_FALSE(Stirs(late));
  proxy_->SetFault("worker-0", {});
  EXPECT_EQ(Hear(held).value(), "during");
  EXPECT_EQ(Hear(late).value(), "late");
  ExpectWorks(held, "after");
}

INSTANTIATE_TEST_SUITE_P(Directions, HalfOpenTest,
                         ::testing::Values(LinkFault::Kind::kFromCaller, LinkFault::Kind::kToCaller,
                                           LinkFault::Kind::kSilent));

TEST_F(LinkProxyTest, TheOtherDirectionOfAHalfOpenLinkWorks) {
  const Descriptor caller = Call().value();
  ExpectWorks(caller, "a");
  proxy_->SetFault("worker-0", {.kind = LinkFault::Kind::kToCaller});
  ASSERT_TRUE(Say(caller, "b").ok());
  echo_.AwaitHeard("b");
  EXPECT_FALSE(Stirs(caller));
  proxy_->SetFault("worker-0", {.kind = LinkFault::Kind::kFromCaller});
  EXPECT_EQ(Hear(caller).value(), "b");
  ASSERT_TRUE(Say(caller, "c").ok());
  echo_.Tell("news");
  EXPECT_EQ(Hear(caller).value(), "news");
  proxy_->SetFault("worker-0", {});
  EXPECT_EQ(Hear(caller).value(), "c");
}

TEST_F(LinkProxyTest, ASlowLinkTakesItsTime) {
  const Descriptor connection = Call().value();
  ExpectWorks(connection, "a");
  const absl::Duration latency = absl::Milliseconds(30);
  proxy_->SetFault("worker-0",
                   {.kind = LinkFault::Kind::kSlow, .latency = latency, .bytes_per_second = 1e6});
  const absl::Time start = absl::Now();
  ExpectWorks(connection, std::string(60'000, 'y'));
  EXPECT_GE(absl::Now() - start, 2 * latency);
}

TEST_F(LinkProxyTest, AnEndIsToldAsAnEnd) {
  Descriptor caller = Call().value();
  ExpectWorks(caller, "a");
  ASSERT_TRUE(Say(caller, "last").ok());
  shutdown(caller.get(), SHUT_WR);
  EXPECT_EQ(Hear(caller).value(), "last");
  EXPECT_FALSE(Hear(caller).ok());
}

TEST(LinkProxyWithoutTargetTest, ACallIsRefused) {
  uint16_t nobody = 0;
  { nobody = ListenTcp("127.0.0.1").value().port; }
  LinkProxy::Options options;
  options.target_port = nobody;
  const auto proxy = LinkProxy::Create(ListenTcp("127.0.0.1").value(), std::move(options)).value();
  const auto call = ConnectTcp("127.0.0.1", proxy->port(), Patience());
  EXPECT_TRUE(!call.ok() || !ReceiveFrame(call->get(), Patience()).ok());
}

}  // namespace
}  // namespace muster
