// A rank that moves its data over three TCP connections is called by another one, which the test
// plays: the called rank takes each connection once, for what it was opened for.

#include <poll.h>
#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"
#include "common/transport/deadline.h"
#include "common/transport/descriptor.h"
#include "common/transport/keyed_hash.h"
#include "common/transport/sockets/blocking_frames.h"
#include "common/transport/sockets/sockets.h"
#include "common/transport/wire.h"
#include "gtest/gtest.h"
#include "worker/collectives/transport/meeting/endpoint_address.h"
#include "worker/collectives/transport/meeting/group_for_testing.h"
#include "worker/collectives/transport/meeting/handshake.h"
#include "worker/collectives/transport/meeting/meeting_point.h"
#include "worker/collectives/transport/pipes/striped_stream.h"

namespace muster {
namespace {

constexpr char kSecret[] = "secret";
// Bytes that ranks tell each other first of all, once they have met (HostTransport).
constexpr size_t kFirstBytes = 64;

class DataConnectionsTest : public testing::Test {
 protected:
  DataConnectionsTest()
      : point_(MeetingPoint::Create(OptionsFor(Wiring::kTcp3, 1)).value()),
        address_(EndpointAddress::Parse(point_->address()).value()) {
    called_ = std::thread([this] {
      CollectiveEndpoint::Group group;
      group.name = "world";
      group.round = 1;
      group.secret = kSecret;
      group.rank = 1;
      // The higher rank calls nobody.
      group.addresses = {point_->address(), point_->address()};
      met_ = point_->Meet(group, absl::Seconds(40));
    });
  }
  ~DataConnectionsTest() override {
    if (called_.joinable()) called_.join();
  }

  Hello HelloFor(ConnectionKind kind, uint32_t lane) const {
    WireWriter key;
    key.Number(uint64_t{1});
    key.Number(uint64_t{0});
    Hello hello;
    hello.group_key = key.bytes();
    hello.endpoint_nonce = address_.nonce;
    hello.nonce = RandomBytes(16);
    hello.kind = kind;
    hello.to = 1;
    hello.size = 2;
    hello.connections = 3;
    hello.lane = lane;
    return hello;
  }

  Descriptor Connect() const { return ConnectTcp(address_.host, address_.port, deadline_).value(); }

  struct Called {
    Descriptor socket;
    absl::Status status;
  };
  Called CallWith(const Hello& hello) const {
    Called called;
    called.socket = Connect();
    called.status = Call(called.socket.get(), hello, kSecret, deadline_).status();
    return called;
  }
  Called CallFor(ConnectionKind kind, uint32_t lane) const {
    return CallWith(HelloFor(kind, lane));
  }

  // Once all connections are there.
  void EndMeeting(const Called& first_lane) {
    const std::string told(kFirstBytes, '\0');
    EXPECT_EQ(send(first_lane.socket.get(), told.data(), told.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(told.size()));
    called_.join();
    EXPECT_TRUE(met_.ok()) << met_.status();
  }

  // Fails the test if they do not come.
  std::string Receive(const Called& lane, size_t count) const {
    std::string bytes(count, '\0');
    size_t received = 0;
    while (received < count) {
      EXPECT_TRUE(AwaitSocket(lane.socket.get(), POLLIN, deadline_).ok()) << received;
      const ssize_t got = recv(lane.socket.get(), &bytes[received], count - received, MSG_DONTWAIT);
      if (got <= 0) {
        ADD_FAILURE() << "after " << received << " of " << count << " bytes";
        break;
      }
      received += static_cast<size_t>(got);
    }
    return bytes;
  }

  const std::unique_ptr<MeetingPoint> point_;
  const EndpointAddress address_;
  const Deadline deadline_ = Deadline::After(absl::Seconds(20));
  absl::StatusOr<std::unique_ptr<HostTransport>> met_ = absl::UnknownError("not yet");
  std::thread called_;
};

TEST_F(DataConnectionsTest, ComeInAnyOrderAndEachIsTakenOnce) {
  const Called control = CallFor(ConnectionKind::kControl, 0);
  ASSERT_TRUE(control.status.ok()) << control.status;
  const uint32_t lanes[] = {2, 1, 0, 0};
  std::vector<Called> data(4);
  InParallel(4, [&](int i) { data[i] = CallFor(ConnectionKind::kData, lanes[i]); });
  EXPECT_TRUE(data[0].status.ok()) << data[0].status;
  EXPECT_TRUE(data[1].status.ok()) << data[1].status;
  if (!data[2].status.ok()) std::swap(data[2], data[3]);
  EXPECT_TRUE(data[2].status.ok()) << data[2].status;
  // Nobody took the other one, which learns that when the ranks have met.
  EXPECT_EQ(data[3].status.code(), absl::StatusCode::kAborted) << data[3].status;
  EndMeeting(data[2]);
  ASSERT_TRUE(met_.ok());

  // A stripe by each, in the lanes' order, whatever that of the calls.
  std::vector<std::byte> sent(2 * kStripeBytes + 100 - kFirstBytes);
  for (size_t i = 0; i < sent.size(); ++i) sent[i] = static_cast<std::byte>(i % 251);
  ASSERT_TRUE(WriteAll(**met_, 0, sent).ok());
  const std::string got =
      Receive(data[2], kStripeBytes) + Receive(data[1], kStripeBytes) + Receive(data[0], 100);
  ASSERT_EQ(got.size(), kFirstBytes + sent.size());
  for (size_t i = 0; i < sent.size(); ++i) {
    ASSERT_EQ(static_cast<std::byte>(got[kFirstBytes + i]), sent[i]) << i;
  }
}

TEST_F(DataConnectionsTest, OneTooManyIsHungUpOn) {
  const Called control = CallFor(ConnectionKind::kControl, 0);
  ASSERT_TRUE(control.status.ok()) << control.status;
  EXPECT_EQ(CallFor(ConnectionKind::kData, 3).status.code(), absl::StatusCode::kUnavailable);
  EXPECT_FALSE(deadline_.passed());
  std::vector<Called> data(3);
  for (uint32_t lane = 0; lane < 3; ++lane) {
    data[lane] = CallFor(ConnectionKind::kData, lane);
    ASSERT_TRUE(data[lane].status.ok()) << data[lane].status;
  }
  EndMeeting(data[0]);
}

// A caller that has recorded the hello of one connection cannot open another one with it.
TEST_F(DataConnectionsTest, AHelloIsOfOneConnection) {
  const Called control = CallFor(ConnectionKind::kControl, 0);
  ASSERT_TRUE(control.status.ok()) << control.status;
  Hello hello = HelloFor(ConnectionKind::kData, 0);
  const Called first = CallWith(hello);
  ASSERT_TRUE(first.status.ok()) << first.status;

  hello.proof = KeyedHash(kSecret, "hello" + hello.Claims());
  hello.lane = 1;
  const Descriptor forger = Connect();
  ASSERT_TRUE(SendFrame(forger.get(), hello.Serialize(), deadline_).ok());
  const absl::StatusOr<std::string> reply = ReceiveFrame(forger.get(), deadline_);
  ASSERT_TRUE(reply.ok()) << reply.status();
  EXPECT_EQ(static_cast<absl::StatusCode>(WireReader(*reply).Number<uint32_t>()),
            absl::StatusCode::kUnauthenticated);
  // Even with the secret, no two connections share a nonce.
  const absl::Status repeated = CallWith(hello).status;
  EXPECT_EQ(repeated.code(), absl::StatusCode::kUnauthenticated) << repeated;
  EXPECT_TRUE(absl::StrContains(repeated.message(), "repeats a hello")) << repeated;

  const Called second = CallFor(ConnectionKind::kData, 1);
  ASSERT_TRUE(second.status.ok()) << second.status;
  const Called third = CallFor(ConnectionKind::kData, 2);
  ASSERT_TRUE(third.status.ok()) << third.status;
  EndMeeting(first);
}

}  // namespace
}  // namespace muster
