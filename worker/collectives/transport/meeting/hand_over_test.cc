// Tests two ranks whose hand-over of memory goes wrong, at either end and at every step: the pair
// meets all the same, over TCP. The test plays the end that errs.

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/transport/deadline.h"
#include "common/transport/descriptor.h"
#include "common/transport/keyed_hash.h"
#include "common/transport/shared_memory/shared_region.h"
#include "common/transport/sockets/blocking_frames.h"
#include "common/transport/sockets/sockets.h"
#include "common/transport/wire.h"
#include "gtest/gtest.h"
#include "worker/collectives/transport/meeting/endpoint_address.h"
#include "worker/collectives/transport/meeting/group_for_testing.h"
#include "worker/collectives/transport/meeting/handshake.h"
#include "worker/collectives/transport/meeting/meeting_point.h"
#include "worker/collectives/transport/pipes/doorbell.h"
#include "worker/collectives/transport/pipes/shared_memory_pipe.h"

namespace muster {
namespace {

using Met = absl::StatusOr<std::unique_ptr<HostTransport>>;

constexpr char kHandOverSecret[] = "secret";
constexpr char kShared[] = "shared";
constexpr char kNotShared[] = "not shared";

// Two ranks; with Wiring::kTcp a rank neither calls unix sockets nor listens on one.
struct Pair {
  Pair(Wiring lower, Wiring higher) {
    points.push_back(MeetingPoint::Create(OptionsFor(lower, 0)).value());
    points.push_back(MeetingPoint::Create(OptionsFor(higher, 1)).value());
    for (const auto& point : points) {
      addresses.push_back(EndpointAddress::Parse(point->address()).value());
    }
  }

  Met Meet(int rank) {
    CollectiveEndpoint::Group group;
    group.name = "world";
    group.round = 1;
    group.secret = kHandOverSecret;
    group.rank = rank;
    for (const EndpointAddress& address : addresses) group.addresses.push_back(address.Serialize());
    return points[rank]->Meet(group, absl::Seconds(30));
  }

  std::vector<std::unique_ptr<MeetingPoint>> points;
  // Addresses that the ranks take for each other's.
  std::vector<EndpointAddress> addresses;
};

void ExpectTcp(std::vector<Met>& met) {
  ASSERT_TRUE(met[0].ok()) << met[0].status();
  ASSERT_TRUE(met[1].ok()) << met[1].status();
  InParallel(2, [&](int rank) {
    Transport& transport = **met[rank];
    const int peer = 1 - rank;
    EXPECT_EQ(transport.Description(peer), "tcp");
    const std::byte sent[1] = {static_cast<std::byte>(10 + rank)};
    std::byte got[1] = {};
    EXPECT_TRUE(Exchange(transport, peer, sent, peer, absl::MakeSpan(got)).ok());
    EXPECT_EQ(static_cast<int>(got[0]), 10 + peer);
  });
}

// Returns memory of the right size whose owner could cut it off under the other's feet.
Descriptor UnsealedMemory(size_t bytes) {
  Descriptor memory(memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(memory.get(), static_cast<off_t>(bytes)), 0);
  return memory;
}

// The behaviour of one end once both have proved the secret.
struct Fault {
  const char* name;
  void (*play)(int socket, Deadline deadline);
};

std::string NameOf(const testing::TestParamInfo<Fault>& info) { return info.param.name; }

// The called rank's faults: it has been offered a doorbell, its event and the rings.
class CalledRankFaultTest : public testing::TestWithParam<Fault> {};

TEST_P(CalledRankFaultTest, TcpTakesOver) {
  Pair pair(Wiring::kSharedMemory, Wiring::kTcp);
  const std::string name = absl::StrCat("muster-test-", absl::BytesToHexString(RandomBytes(16)));
  const Descriptor listener = ListenUnix(name).value();
  pair.addresses[1].unix_name = name;
  bool played = false;
  std::thread at_fault([&] {
    const Deadline deadline = Deadline::After(absl::Seconds(20));
    ASSERT_TRUE(AwaitSocket(listener.get(), POLLIN, deadline).ok());
    const Descriptor socket(
        accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    const absl::StatusOr<std::string> frame = ReceiveFrame(socket.get(), deadline);
    ASSERT_TRUE(frame.ok()) << frame.status();
    const Hello hello = Hello::Parse(*frame).value();
    const auto key = Answer(socket.get(), hello, hello, kHandOverSecret, deadline);
    ASSERT_TRUE(key.ok()) << key.status();
    GetParam().play(socket.get(), deadline);
    played = true;
  });
  std::vector<Met> met(2);
  InParallel(2, [&](int rank) { met[rank] = pair.Meet(rank); });
  at_fault.join();
  EXPECT_TRUE(played);
  ExpectTcp(met);
}

constexpr Fault kCalledRankFaults[] = {
    {"HangsUp", [](int, Deadline) {}},
    {"CannotMap",
     [](int socket, Deadline deadline) {
       EXPECT_TRUE(ReceiveDescriptors(socket, deadline).ok());
       EXPECT_TRUE(SendFrame(socket, kNotShared, deadline).ok());
     }},
    {"HandsOverMemoryThatIsNotSealed",
     [](int socket, Deadline deadline) {
       EXPECT_TRUE(ReceiveDescriptors(socket, deadline).ok());
       const Descriptor page = UnsealedMemory(Doorbell::kBytes);
       const Descriptor event(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
       const int offered[] = {page.get(), event.get()};
       EXPECT_TRUE(SendDescriptors(socket, kShared, offered, deadline).ok());
       EXPECT_EQ(ReceiveFrame(socket, deadline).value_or("nothing"), kNotShared);
     }},
    // Only the token, which the called rank writes into the rings, proves that they are the same.
    {"WorksOnOtherMemory",
     [](int socket, Deadline deadline) {
       EXPECT_TRUE(ReceiveDescriptors(socket, deadline).ok());
       const Doorbell bell = Doorbell::Create().value();
       const int offered[] = {bell.page_descriptor(), bell.event_descriptor()};
       EXPECT_TRUE(SendDescriptors(socket, kShared, offered, deadline).ok());
       EXPECT_EQ(ReceiveFrame(socket, deadline).value_or("nothing"), kNotShared);
     }},
};
INSTANTIATE_TEST_SUITE_P(Faults, CalledRankFaultTest, testing::ValuesIn(kCalledRankFaults), NameOf);

// The calling rank's faults, in its first attempt; then it calls by TCP, as it would.
class CallingRankFaultTest : public testing::TestWithParam<Fault> {};

TEST_P(CallingRankFaultTest, TcpTakesOver) {
  Pair pair(Wiring::kTcp, Wiring::kSharedMemory);
  std::vector<Met> met(2);
  std::thread called([&] { met[1] = pair.Meet(1); });
  {
    const Deadline deadline = Deadline::After(absl::Seconds(20));
    WireWriter group;
    group.Number(uint64_t{1});
    group.Number(uint64_t{0});
    Hello hello;
    hello.group_key = group.bytes();
    hello.endpoint_nonce = pair.addresses[1].nonce;
    hello.nonce = RandomBytes(16);
    hello.to = 1;
    hello.size = 2;
    const Descriptor socket = ConnectUnix(pair.addresses[1].unix_name, deadline).value();
    const auto key = Call(socket.get(), hello, kHandOverSecret, deadline);
    EXPECT_TRUE(key.ok()) << key.status();
    GetParam().play(socket.get(), deadline);
  }
  met[0] = pair.Meet(0);
  called.join();
  ExpectTcp(met);
}

// A doorbell, its event, and these rings.
void Offer(int socket, const Doorbell& bell, int rings, Deadline deadline) {
  const int offered[] = {bell.page_descriptor(), bell.event_descriptor(), rings};
  EXPECT_TRUE(SendDescriptors(socket, kShared, offered, deadline).ok());
}

constexpr Fault kCallingRankFaults[] = {
    {"HangsUp", [](int, Deadline) {}},
    {"HandsOverNothing",
     [](int socket, Deadline deadline) {
       EXPECT_TRUE(SendFrame(socket, kShared, deadline).ok());
       EXPECT_EQ(ReceiveFrame(socket, deadline).value_or("nothing"), kNotShared);
     }},
    {"HandsOverRingsThatAreNotSealed",
     [](int socket, Deadline deadline) {
       const Doorbell bell = Doorbell::Create().value();
       const Descriptor rings = UnsealedMemory(kPairBytes);
       Offer(socket, bell, rings.get(), deadline);
       EXPECT_EQ(ReceiveFrame(socket, deadline).value_or("nothing"), kNotShared);
     }},
    {"HandsOverRingsOfAnotherSize",
     [](int socket, Deadline deadline) {
       const Doorbell bell = Doorbell::Create().value();
       const SharedRegion rings = SharedRegion::Create(kPairBytes / 2).value();
       Offer(socket, bell, rings.descriptor(), deadline);
       EXPECT_EQ(ReceiveFrame(socket, deadline).value_or("nothing"), kNotShared);
     }},
    {"FindsNoToken",
     [](int socket, Deadline deadline) {
       const Doorbell bell = Doorbell::Create().value();
       const SharedRegion rings = SharedRegion::Create(kPairBytes).value();
       Offer(socket, bell, rings.descriptor(), deadline);
       const absl::StatusOr<DescriptorFrame> reply = ReceiveDescriptors(socket, deadline);
       EXPECT_EQ(reply.ok() ? reply->bytes : reply.status().ToString(), kShared);
       EXPECT_TRUE(SendFrame(socket, kNotShared, deadline).ok());
     }},
};
INSTANTIATE_TEST_SUITE_P(Faults, CallingRankFaultTest, testing::ValuesIn(kCallingRankFaults),
                         NameOf);

}  // namespace
}  // namespace muster
