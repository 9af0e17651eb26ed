#include "worker/collectives/transport/meeting/meeting_point.h"

#include <sys/socket.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
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

namespace muster {
namespace {

using Met = absl::StatusOr<std::unique_ptr<HostTransport>>;

std::vector<std::unique_ptr<MeetingPoint>> Points(Wiring wiring, int size) {
  std::vector<std::unique_ptr<MeetingPoint>> points;
  for (int rank = 0; rank < size; ++rank) {
    points.push_back(MeetingPoint::Create(OptionsFor(wiring, rank)).value());
  }
  return points;
}

CollectiveEndpoint::Group GroupOf(const std::vector<std::unique_ptr<MeetingPoint>>& points,
                                  int rank, uint64_t round) {
  CollectiveEndpoint::Group group;
  group.name = "world";
  group.round = round;
  group.secret = "secret";
  group.rank = rank;
  for (const auto& point : points) group.addresses.push_back(point->address());
  return group;
}

// Longer than a test may take: one that waits for it never passes.
constexpr absl::Duration kForever = absl::Hours(1);

// Calls `attempt` with a new round and twice the time until it returns true. Ranks whose deadline
// is to pass take no longer than they need on a quiet machine, and have the time they need on a
// busy one.
void GiveEverMoreTime(const std::function<bool(uint64_t round, absl::Duration timeout)>& attempt) {
  absl::Duration timeout = absl::Milliseconds(100);
  for (uint64_t round = 1; round <= 9; ++round) {
    if (attempt(round, timeout)) return;
    timeout *= 2;
  }
  ADD_FAILURE() << "not within " << timeout / 2 << " either";
}

class MeetingPointTest : public testing::TestWithParam<Wiring> {};

TEST_P(MeetingPointTest, AWrongSecretIsUnauthenticatedAndNamesTheRank) {
  const auto points = Points(GetParam(), 2);
  std::vector<Met> met(2);
  // The called rank's deadline may pass before it is called.
  GiveEverMoreTime([&](uint64_t round, absl::Duration timeout) {
    absl::Duration took;
    InParallel(2, [&](int rank) {
      CollectiveEndpoint::Group group = GroupOf(points, rank, round);
      group.names = {"slot 4", "slot 7"};
      if (rank == 1) group.secret = "of another job";
      const Deadline start = Deadline::After(absl::ZeroDuration());
      met[rank] = points[rank]->Meet(group, rank == 0 ? kForever : timeout);
      if (rank == 1) took = -start.left();
    });
    // The caller knows at once. The called rank cannot tell it from somebody who calls in the
    // rank's name: it waits for the rank until its deadline.
    EXPECT_GE(took, timeout);
    return met[1].status().code() != absl::StatusCode::kUnavailable;
  });
  EXPECT_EQ(met[0].status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(absl::StrContains(met[0].status().message(), "slot 7 (pid ")) << met[0].status();
  EXPECT_EQ(met[1].status().code(), absl::StatusCode::kUnauthenticated);
  EXPECT_TRUE(absl::StrContains(met[1].status().message(), "slot 4 (pid ")) << met[1].status();
}

TEST_P(MeetingPointTest, ARankThatDoesNotComeIsTheOneNamed) {
  const auto points = Points(GetParam(), 3);
  std::vector<Met> met(2);
  // The two that come may be too late for each other.
  const auto names_other = [&](int rank) {
    return absl::StrContains(met[rank].status().message(), absl::StrCat("rank ", 1 - rank));
  };
  GiveEverMoreTime([&](uint64_t round, absl::Duration timeout) {
    InParallel(2, [&](int rank) {
      met[rank] = points[rank]->Meet(GroupOf(points, rank, round), timeout);
    });
    return !names_other(0) && !names_other(1);
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(met[rank].status().code(), absl::StatusCode::kUnavailable);
    EXPECT_TRUE(absl::StrContains(met[rank].status().message(), "rank 2")) << met[rank].status();
    EXPECT_FALSE(absl::StrContains(met[rank].status().message(), absl::StrCat("rank ", rank)))
        << met[rank].status();
  }
}

// Tests a pair whose network is cut. The called endpoint accepts connections, as the kernel does
// that, and says nothing.
TEST_P(MeetingPointTest, BothSidesNameTheAddressThatWasCalled) {
  const auto points = Points(GetParam(), 2);
  const TcpListener listener = ListenTcp("127.0.0.1").value();
  EndpointAddress deaf = EndpointAddress::Parse(points[1]->address()).value();
  deaf.port = listener.port;
  deaf.unix_name.clear();
  std::vector<Met> met(2);
  InParallel(2, [&](int rank) {
    CollectiveEndpoint::Group group = GroupOf(points, rank, 1);
    if (rank == 0) group.addresses[1] = deaf.Serialize();
    met[rank] = points[rank]->Meet(group, absl::Milliseconds(300));
  });
  const EndpointAddress called = EndpointAddress::Parse(points[1]->address()).value();
  EXPECT_EQ(met[0].status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(met[0].status().message(),
                                absl::StrCat("rank 1 (pid ", deaf.pid, "): called at 127.0.0.1:",
                                             deaf.port, ": no answer in time")))
      << met[0].status();
  EXPECT_EQ(met[1].status().code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(met[1].status().message(),
                                absl::StrCat("it has not called ", called.host, ":", called.port)))
      << met[1].status();
}

TEST_P(MeetingPointTest, OneThatCallsEarlyWaits) {
  const auto points = Points(GetParam(), 2);
  Met early;
  std::thread calling([&] { early = points[0]->Meet(GroupOf(points, 0, 1), absl::Seconds(30)); });
  // Whether it has called by now or not, the two meet.
  absl::SleepFor(absl::Milliseconds(20));
  const Met late = points[1]->Meet(GroupOf(points, 1, 1), absl::Seconds(30));
  calling.join();
  EXPECT_TRUE(early.ok()) << early.status();
  EXPECT_TRUE(late.ok()) << late.status();
}

TEST_P(MeetingPointTest, ARoundThatIsOverIsRefused) {
  const auto points = Points(GetParam(), 2);
  std::vector<Met> met(2);
  const auto meet = [&](int rank) {
    met[rank] = points[rank]->Meet(GroupOf(points, rank, 5), kForever);
  };
  InParallel(2, meet);
  ASSERT_TRUE(met[0].ok() && met[1].ok());
  meet(0);
  EXPECT_EQ(met[0].status().code(), absl::StatusCode::kAborted) << met[0].status();
  EXPECT_TRUE(absl::StrContains(met[0].status().message(), "met already")) << met[0].status();
}

TEST_P(MeetingPointTest, RanksOfDifferentRoundsDoNotMeet) {
  const auto points = Points(GetParam(), 2);
  std::vector<Met> met(2);
  InParallel(2, [&](int rank) {
    met[rank] = points[rank]->Meet(GroupOf(points, rank, 1 + rank), absl::Milliseconds(100));
  });
  EXPECT_EQ(met[0].status().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(met[1].status().code(), absl::StatusCode::kUnavailable);
}

TEST_P(MeetingPointTest, TwoGroupsMeetAtOnce) {
  const auto points = Points(GetParam(), 3);
  std::vector<Met> met(6);
  InParallel(6, [&](int i) {
    // In the second group the ranks are in another order.
    const int round = i / 3, rank = i % 3;
    CollectiveEndpoint::Group group = GroupOf(points, rank, 1 + round);
    if (round == 1) {
      std::reverse(group.addresses.begin(), group.addresses.end());
      group.rank = 2 - rank;
    }
    met[i] = points[rank]->Meet(group, absl::Seconds(30));
  });
  InParallel(6, [&](int i) {
    ASSERT_TRUE(met[i].ok()) << met[i].status();
    Transport& transport = **met[i];
    const int next = (transport.rank() + 1) % 3, before = (transport.rank() + 2) % 3;
    const std::byte sent[1] = {static_cast<std::byte>(i / 3 * 10 + transport.rank())};
    std::byte got[1];
    ASSERT_TRUE(Exchange(transport, next, sent, before, absl::MakeSpan(got)).ok());
    EXPECT_EQ(static_cast<int>(got[0]), i / 3 * 10 + before);
  });
}

TEST_P(MeetingPointTest, AnotherIdeaOfTheGroupIsAnError) {
  auto points = Points(GetParam(), 3);
  CollectiveEndpoint::Group groups[] = {GroupOf(points, 0, 1), GroupOf(points, 1, 1)};
  groups[0].addresses.pop_back();
  // Nobody waits for one who refuses connections.
  points[2].reset();
  std::vector<Met> met(2);
  InParallel(2, [&](int rank) { met[rank] = points[rank]->Meet(groups[rank], kForever); });
  EXPECT_EQ(met[0].status().code(), absl::StatusCode::kFailedPrecondition) << met[0].status();
  EXPECT_TRUE(absl::StrContains(met[0].status().message(), "size 2, expected 3"))
      << met[0].status();
}

TEST_P(MeetingPointTest, NoiseOnThePortDisturbsNobody) {
  const auto points = Points(GetParam(), 2);
  std::vector<Descriptor> noise;
  for (const auto& point : points) {
    const EndpointAddress address = EndpointAddress::Parse(point->address()).value();
    const absl::Time deadline = absl::Now() + absl::Seconds(20);
    // One that says nothing, one that says something else, one that hangs up.
    noise.push_back(ConnectTcp(address.host, address.port, deadline).value());
    noise.push_back(ConnectTcp(address.host, address.port, deadline).value());
    send(noise.back().get(), "GET / HTTP/1.1\r\n\r\n", 18, MSG_NOSIGNAL);
    (void)ConnectTcp(address.host, address.port, deadline).value();
  }
  std::vector<Met> met(2);
  InParallel(2, [&](int rank) {
    met[rank] = points[rank]->Meet(GroupOf(points, rank, 1), absl::Seconds(30));
  });
  EXPECT_TRUE(met[0].ok()) << met[0].status();
  EXPECT_TRUE(met[1].ok()) << met[1].status();
}

// Returns what rank 0 would say to rank 1 of a group of 2, without the proof.
Hello HelloOf(const EndpointAddress& address, Wiring wiring) {
  const HostEndpointOptions options = OptionsFor(wiring, 0);
  WireWriter key;
  key.Number(uint64_t{1});
  key.Number(uint64_t{0});
  Hello hello;
  hello.group_key = key.bytes();
  hello.endpoint_nonce = address.nonce;
  hello.nonce = std::string(16, 'n');
  hello.size = 2;
  hello.to = 1;
  hello.tls = options.tls;
  hello.connections = static_cast<uint32_t>(options.connections);
  return hello;
}

// An impostor that knows the address, the round and the ranks, but not the secret, can say hello in
// a rank's name. It neither holds the meeting up by saying nothing more, nor takes the rank's
// place: with the 20 s that a caller gets once it has proved the secret, five impostors for one
// connection would take all the time.
TEST_P(MeetingPointTest, AnImpostorNeitherStallsNorEndsTheMeeting) {
  const auto points = Points(GetParam(), 2);
  const EndpointAddress address = EndpointAddress::Parse(points[1]->address()).value();
  Hello hello = HelloOf(address, GetParam());
  hello.proof = std::string(32, 'x');
  const absl::Time deadline = absl::Now() + absl::Seconds(20);
  std::vector<Descriptor> impostors;
  for (int i = 0; i < 10; ++i) {
    hello.kind = i % 2 == 0 ? ConnectionKind::kControl : ConnectionKind::kData;
    impostors.push_back(ConnectTcp(address.host, address.port, deadline).value());
    ASSERT_TRUE(SendFrame(impostors.back().get(), hello.Serialize(), deadline).ok());
  }
  std::vector<Met> met(2);
  InParallel(2, [&](int rank) {
    met[rank] = points[rank]->Meet(GroupOf(points, rank, 1), absl::Seconds(60));
  });
  EXPECT_TRUE(met[0].ok()) << met[0].status();
  EXPECT_TRUE(met[1].ok()) << met[1].status();
}

// A caller that has recorded a rank's hello can prove as much as that does, once.
TEST_P(MeetingPointTest, ARepeatedHelloIsRefusedAtOnce) {
  const auto points = Points(GetParam(), 2);
  const EndpointAddress address = EndpointAddress::Parse(points[1]->address()).value();
  Hello hello = HelloOf(address, GetParam());
  hello.proof = KeyedHash("secret", "hello" + hello.Claims());
  std::vector<Met> met(2);
  const auto meet = [&](int rank) {
    met[rank] = points[rank]->Meet(GroupOf(points, rank, 1), absl::Seconds(60));
  };
  std::thread called(meet, 1);
  const absl::Time deadline = absl::Now() + absl::Seconds(40);
  for (const absl::StatusCode expected : {absl::StatusCode::kOk, absl::StatusCode::kUnauthenticated,
                                          absl::StatusCode::kUnauthenticated}) {
    const Descriptor socket = ConnectTcp(address.host, address.port, deadline).value();
    EXPECT_TRUE(SendFrame(socket.get(), hello.Serialize(), deadline).ok());
    const absl::StatusOr<std::string> reply = ReceiveFrame(socket.get(), deadline);
    EXPECT_TRUE(reply.ok()) << reply.status();
    if (reply.ok()) {
      EXPECT_EQ(static_cast<absl::StatusCode>(WireReader(*reply).Number<uint32_t>()), expected);
    }
  }
  meet(0);
  called.join();
  EXPECT_TRUE(met[0].ok()) << met[0].status();
  EXPECT_TRUE(met[1].ok()) << met[1].status();
}

// Meeting of a sub-group: the lower rank waits for an answer, the higher one for a call.
TEST_P(MeetingPointTest, AnAbortEndsTheMeetingOfASubgroup) {
  for (const int alone : {0, 1}) {
    const auto points = Points(GetParam(), 2);
    std::vector<Met> met(2);
    InParallel(2, [&](int rank) {
      met[rank] = points[rank]->Meet(GroupOf(points, rank, 1), absl::Seconds(30));
    });
    ASSERT_TRUE(met[0].ok() && met[1].ok());
    absl::Status status;
    std::thread meeting([&] { status = (*met[alone])->Subgroup({0, 1}, 7, kForever).status(); });
    (*met[1 - alone])->Abort(absl::AbortedError("enough"));
    meeting.join();
    EXPECT_EQ(status.code(), absl::StatusCode::kAborted) << status;
    EXPECT_EQ(status.message(), "enough");
  }
}

TEST_P(MeetingPointTest, TransportsOutliveTheirMeetingPoint) {
  auto points = Points(GetParam(), 2);
  std::vector<Met> met(2);
  InParallel(2, [&](int rank) {
    met[rank] = points[rank]->Meet(GroupOf(points, rank, 1), absl::Seconds(30));
  });
  ASSERT_TRUE(met[0].ok() && met[1].ok());
  points.clear();
  InParallel(2, [&](int rank) {
    const auto subgroup = (*met[rank])->Subgroup({1, 0}, 1, absl::Seconds(30));
    EXPECT_TRUE(subgroup.ok()) << subgroup.status();
  });
}

INSTANTIATE_TEST_SUITE_P(Wirings, MeetingPointTest,
                         testing::Values(Wiring::kSharedMemory, Wiring::kTcp, Wiring::kTls,
                                         Wiring::kTcp3, Wiring::kMixed),
                         [](const auto& info) { return Name(info.param); });

TEST(MeetingPointOptionsTest, TlsOnOneSideOnlyIsNamed) {
  std::vector<std::unique_ptr<MeetingPoint>> points;
  points.push_back(MeetingPoint::Create(OptionsFor(Wiring::kTcp, 0)).value());
  points.push_back(MeetingPoint::Create(OptionsFor(Wiring::kTls, 1)).value());
  std::vector<Met> met(2);
  InParallel(2, [&](int rank) {
    met[rank] = points[rank]->Meet(GroupOf(points, rank, 1), absl::Seconds(30));
  });
  EXPECT_EQ(met[0].status().code(), absl::StatusCode::kFailedPrecondition) << met[0].status();
  EXPECT_TRUE(absl::StrContains(met[0].status().message(), "TLS")) << met[0].status();
}

TEST(MeetingPointOptionsTest, AnotherNumberOfConnectionsIsNamed) {
  std::vector<std::unique_ptr<MeetingPoint>> points;
  points.push_back(MeetingPoint::Create(OptionsFor(Wiring::kTcp3, 0)).value());
  points.push_back(MeetingPoint::Create(OptionsFor(Wiring::kTcp, 1)).value());
  std::vector<Met> met(2);
  InParallel(2, [&](int rank) {
    met[rank] = points[rank]->Meet(GroupOf(points, rank, 1), absl::Seconds(30));
  });
  for (int rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(met[rank].status().code(), absl::StatusCode::kFailedPrecondition)
        << met[rank].status();
    EXPECT_TRUE(absl::StrContains(met[rank].status().message(),
                                  "it joins with 3 data connections, expected 1"))
        << met[rank].status();
  }
}

TEST(MeetingPointOptionsTest, ConnectionsAreOneToSixteen) {
  for (const int connections : {-1, 0, 17}) {
    EXPECT_EQ(MeetingPoint::Create({.connections = connections}).status().code(),
              absl::StatusCode::kInvalidArgument)
        << connections;
  }
  EXPECT_TRUE(MeetingPoint::Create({.connections = 16}).ok());
}

TEST(MeetingPointOptionsTest, WildcardsAndUnknownHostsAreRefused) {
  for (const char* const host : {"0.0.0.0", "::", "no such host"}) {
    HostEndpointOptions options;
    options.host = host;
    EXPECT_EQ(MeetingPoint::Create(options).status().code(), absl::StatusCode::kInvalidArgument)
        << host;
  }
}

TEST(MeetingPointOptionsTest, APortOfThoseGivenIsListenedOnAndTheAdvertisedHostTold) {
  const TcpListener taken = ListenTcp("127.0.0.1").value();
  HostEndpointOptions options;
  options.first_port = options.last_port = taken.port;
  options.advertised_host = "192.0.2.7";
  const absl::Status full = MeetingPoint::Create(options).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(full.message(), absl::StrCat("from ", taken.port))) << full;
  options.first_port = static_cast<uint16_t>(taken.port - 1000);
  options.last_port = taken.port;
  const auto point = MeetingPoint::Create(options).value();
  const auto address = EndpointAddress::Parse(point->address()).value();
  EXPECT_GE(address.port, options.first_port);
  EXPECT_LT(address.port, options.last_port);
  EXPECT_EQ(address.host, "192.0.2.7");
}

TEST(MeetingPointOptionsTest, AGroupMustMakeSense) {
  const auto points = Points(Wiring::kTcp, 2);
  CollectiveEndpoint::Group group = GroupOf(points, 2, 1);
  EXPECT_EQ(points[0]->Meet(group, absl::Seconds(1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  group = GroupOf(points, 0, 1);
  group.names = {"one"};
  EXPECT_EQ(points[0]->Meet(group, absl::Seconds(1)).status().code(),
            absl::StatusCode::kInvalidArgument);
  group = GroupOf(points, 0, 1);
  group.addresses[1] = "nonsense";
  EXPECT_EQ(points[0]->Meet(group, absl::Seconds(1)).status().code(),
            absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace muster
