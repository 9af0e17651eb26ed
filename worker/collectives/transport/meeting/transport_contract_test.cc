// Tests what every transport between processes owes the executor above. Ranks are threads here;
// they reach each other through sockets and shared memory as processes do.

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "gtest/gtest.h"
#include "worker/collectives/transport/meeting/group_for_testing.h"
#include "worker/collectives/transport/mesh/host_transport.h"
#include "worker/collectives/transport/pipes/host_pipe.h"
#include "worker/collectives/transport/pipes/striped_stream.h"

namespace muster {
namespace {

// Byte `i` of the stream from one rank to another.
std::byte ByteAt(int from, int to, uint64_t i) {
  const uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15u + static_cast<uint64_t>(from * 64 + to);
  return static_cast<std::byte>(mixed >> 56);
}

// Resets a connection, as something between the machines may do.
void Reset(int socket) {
  sockaddr nobody = {};
  nobody.sa_family = AF_UNSPEC;
  ASSERT_EQ(connect(socket, &nobody, sizeof(nobody)), 0);
}

class TransportContractTest : public testing::TestWithParam<Wiring> {};

TEST_P(TransportContractTest, BytesArriveInOrderWhateverTheSizes) {
  constexpr uint64_t kBytes = 3 << 20;
  GroupForTesting group(GetParam(), 3);
  group.Run([](Transport& transport) {
    std::mt19937 random(7 + transport.rank());
    std::vector<uint64_t> written(3), read(3);
    std::vector<std::byte> buffer(200'000);
    const auto length = [&](uint64_t left) {
      const size_t most = random() % 4 == 0 ? buffer.size() : 97;
      return static_cast<size_t>(std::min<uint64_t>(left, 1 + random() % most));
    };
    while (true) {
      const uint64_t ticket = transport.Ticket();
      std::vector<PipeInterest> interests;
      for (int peer = 0; peer < 3; ++peer) {
        if (peer == transport.rank()) continue;
        Pipe& pipe = transport.pipe(peer);
        while (written[peer] < kBytes) {
          const size_t wanted = length(kBytes - written[peer]);
          for (size_t i = 0; i < wanted; ++i) {
            buffer[i] = ByteAt(transport.rank(), peer, written[peer] + i);
          }
          // What is not taken is offered again, and no less.
          size_t taken = 0;
          while (taken < wanted) {
            const auto part =
                pipe.Write(absl::MakeConstSpan(buffer).subspan(taken, wanted - taken));
            ASSERT_TRUE(part.ok()) << part.status();
            if (*part == 0) break;
            taken += *part;
          }
          written[peer] += taken;
          if (taken < wanted) break;
        }
        ASSERT_TRUE(pipe.Flush().ok()) << pipe.Flush();
        for (bool more = true; more && read[peer] < kBytes;) {
          const size_t wanted = length(kBytes - read[peer]);
          absl::Span<const std::byte> bytes;
          const bool peek = random() % 2 == 0;
          if (peek) {
            const auto peeked = pipe.Peek(wanted);
            ASSERT_TRUE(peeked.ok()) << peeked.status();
            bytes = *peeked;
          } else {
            const auto count = pipe.Read(absl::MakeSpan(buffer).first(wanted));
            ASSERT_TRUE(count.ok()) << count.status();
            bytes = absl::MakeConstSpan(buffer).first(*count);
          }
          ASSERT_LE(bytes.size(), wanted);
          size_t same = 0;
          while (same < bytes.size() &&
                 bytes[same] == ByteAt(peer, transport.rank(), read[peer] + same)) {
            ++same;
          }
          ASSERT_EQ(same, bytes.size()) << "of the bytes from " << read[peer];
          if (peek) pipe.Consume(bytes.size());
          read[peer] += bytes.size();
          more = !bytes.empty();
        }
        const bool readable = read[peer] < kBytes, writable = written[peer] < kBytes;
        if (readable || writable) interests.push_back({peer, readable, writable});
      }
      if (interests.empty()) return;
      ASSERT_TRUE(transport.health().ok()) << transport.health();
      transport.Wait(ticket, interests, absl::Seconds(20));
    }
  });
}

TEST_P(TransportContractTest, AFullPipeTakesNoMore) {
  GroupForTesting group(GetParam(), 2);
  auto transports = group.Meet();
  ASSERT_TRUE(transports[0].ok() && transports[1].ok());
  const std::vector<std::byte> bytes(1 << 20);
  size_t written = 0;
  // Kernel buffers grow for a while; rings hold what they hold.
  for (int attempt = 0; attempt < 1000; ++attempt) {
    const auto taken = (*transports[0])->pipe(1).Write(bytes);
    ASSERT_TRUE(taken.ok());
    if (*taken == 0) break;
    written += *taken;
    ASSERT_LT(written, size_t{64} << 20);
  }
  EXPECT_GT(written, 0u);
  // It all comes, and then there is room again.
  std::vector<std::byte> got(written);
  ASSERT_TRUE(ReadAll(**transports[1], 0, absl::MakeSpan(got)).ok());
  const auto taken = (*transports[0])->pipe(1).Write(bytes);
  ASSERT_TRUE(taken.ok()) << taken.status();
  EXPECT_GT(*taken, 0u);
}

// Elements of 8 bytes that are aligned in the stream come whole, however bytes were cut before.
TEST_P(TransportContractTest, PeekShowsElementsWhole) {
  constexpr uint64_t kElements = 300'000;
  GroupForTesting group(GetParam(), 2);
  group.Run([](Transport& transport) {
    std::mt19937 random(3);
    if (transport.rank() == 0) {
      std::vector<uint64_t> values(kElements);
      for (uint64_t i = 0; i < kElements; ++i) values[i] = i * 3;
      absl::Span<const std::byte> rest(reinterpret_cast<const std::byte*>(values.data()),
                                       values.size() * 8);
      while (!rest.empty()) {
        const size_t part = std::min<size_t>(rest.size(), 1 + random() % 9001);
        ASSERT_TRUE(WriteAll(transport, 1, rest.first(part)).ok());
        rest.remove_prefix(part);
      }
      return;
    }
    uint64_t seen = 0;
    while (seen < kElements) {
      const uint64_t ticket = transport.Ticket();
      const auto bytes = transport.pipe(0).Peek(1 + random() % 300'000);
      ASSERT_TRUE(bytes.ok()) << bytes.status();
      const size_t whole = bytes->size() / 8;
      if (whole == 0) {
        // More than 7 bytes must come to those that are there.
        const auto again = transport.pipe(0).Peek(8);
        ASSERT_TRUE(again.ok());
        if (again->size() < 8) {
          transport.Wait(ticket, {{0, true, false}}, absl::Seconds(20));
          ASSERT_TRUE(transport.health().ok());
        }
        continue;
      }
      ASSERT_EQ(reinterpret_cast<uintptr_t>(bytes->data()) % 8, 0u);
      for (size_t i = 0; i < whole; ++i) {
        uint64_t value;
        std::memcpy(&value, bytes->data() + 8 * i, 8);
        ASSERT_EQ(value, (seen + i) * 3);
      }
      transport.pipe(0).Consume(whole * 8);
      seen += whole;
    }
  });
}

// Ranks that always sleep and wake: a lost wake-up would hang until the deadline.
TEST_P(TransportContractTest, NoWakeUpIsLost) {
  constexpr int kRounds = 3000;
  GroupForTesting group(GetParam(), 3);
  group.Run([](Transport& transport) {
    const int next = (transport.rank() + 1) % 3, before = (transport.rank() + 2) % 3;
    std::mt19937 random(transport.rank());
    std::byte token[8] = {};
    for (int round = 0; round < kRounds; ++round) {
      // One token circles; now and then a rank is late, so that the others fall asleep.
      if (transport.rank() == 0) {
        ASSERT_TRUE(WriteAll(transport, next, token).ok());
      }
      ASSERT_TRUE(ReadAll(transport, before, absl::MakeSpan(token)).ok());
      if (random() % 64 == 0) absl::SleepFor(absl::Microseconds(random() % 300));
      if (transport.rank() != 0) {
        ASSERT_TRUE(WriteAll(transport, next, token).ok());
      }
    }
  });
}

TEST_P(TransportContractTest, WakeEndsAWait) {
  GroupForTesting group(GetParam(), 2);
  auto transports = group.Meet();
  ASSERT_TRUE(transports[0].ok() && transports[1].ok());
  Transport& transport = **transports[0];
  for (int round = 0; round < 200; ++round) {
    const uint64_t ticket = transport.Ticket();
    std::thread waker([&] { transport.Wake(); });
    const absl::Time start = absl::Now();
    transport.Wait(ticket, {{1, true, false}}, absl::Seconds(20));
    EXPECT_LT(absl::Now() - start, absl::Seconds(10));
    waker.join();
  }
}

TEST_P(TransportContractTest, WaitEndsWithItsTimeout) {
  GroupForTesting group(GetParam(), 2);
  auto transports = group.Meet();
  ASSERT_TRUE(transports[0].ok() && transports[1].ok());
  const absl::Time start = absl::Now();
  (*transports[0])->Wait((*transports[0])->Ticket(), {{1, true, false}}, absl::Milliseconds(30));
  EXPECT_GE(absl::Now() - start, absl::Milliseconds(29));
  EXPECT_TRUE((*transports[0])->health().ok());
}

TEST_P(TransportContractTest, AbortReachesAllAndTheFirstOneCounts) {
  GroupForTesting group(GetParam(), 3);
  auto transports = group.Meet();
  for (const auto& transport : transports) ASSERT_TRUE(transport.ok()) << transport.status();
  std::thread waiting([&] {
    // Asleep, with no reason of its own to wake.
    (*transports[2])->Wait((*transports[2])->Ticket(), {{0, true, false}}, absl::Seconds(20));
    EXPECT_FALSE((*transports[2])->health().ok());
  });
  (*transports[1])->Abort(absl::AbortedError("rank 1 has had enough"));
  (*transports[1])->Abort(absl::InternalError("later"));
  waiting.join();
  for (auto& transport : transports) {
    EXPECT_EQ(AwaitFailure(**transport), absl::AbortedError("rank 1 has had enough"));
  }
  EXPECT_EQ((*transports[0])->pipe(1).Write(std::vector<std::byte>(1)).status(),
            absl::AbortedError("rank 1 has had enough"));
  EXPECT_EQ((*transports[0])->pipe(1).Peek(1).status(),
            absl::AbortedError("rank 1 has had enough"));
}

// A rank that has found an error by itself still tells the others its own reason.
TEST_P(TransportContractTest, AbortAfterAFailureReachesTheOthers) {
  GroupForTesting group(GetParam(), 3);
  auto transports = group.Meet();
  for (const auto& transport : transports) ASSERT_TRUE(transport.ok()) << transport.status();
  transports[2]->reset();
  // Needs rank 2, which has left: fails on this rank alone.
  std::byte byte;
  EXPECT_EQ(ReadAll(**transports[0], 2, absl::MakeSpan(&byte, 1)).code(),
            absl::StatusCode::kUnavailable);
  EXPECT_TRUE((*transports[1])->health().ok());
  (*transports[0])->Abort(absl::UnavailableError("the whole story"));
  EXPECT_EQ(AwaitFailure(**transports[1]), absl::UnavailableError("the whole story"));
}

TEST_P(TransportContractTest, AGoodbyeIsAnErrorOnlyToWhoeverWaits) {
  GroupForTesting group(GetParam(), 3);
  auto transports = group.Meet();
  for (const auto& transport : transports) ASSERT_TRUE(transport.ok()) << transport.status();
  std::vector<std::byte> bytes(1000);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = ByteAt(2, 0, i);
  ASSERT_TRUE(WriteAll(**transports[2], 0, bytes).ok());
  transports[2]->reset();
  // What it wrote before it left is still there.
  std::vector<std::byte> got(bytes.size());
  ASSERT_TRUE(ReadAll(**transports[0], 2, absl::MakeSpan(got)).ok());
  EXPECT_EQ(got, bytes);
  EXPECT_TRUE((*transports[0])->health().ok());
  // The others go on.
  ASSERT_TRUE(WriteAll(**transports[1], 0, bytes).ok());
  ASSERT_TRUE(ReadAll(**transports[0], 1, absl::MakeSpan(got)).ok());
  const absl::Status status = ReadAll(**transports[0], 2, absl::MakeSpan(got));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(absl::StrContains(status.message(), "rank 2")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "left")) << status;
  EXPECT_TRUE((*transports[1])->health().ok());
}

// Something between the machines resets the data connection; the control connection lives on.
TEST_P(TransportContractTest, ABrokenConnectionIsNamedByWhoeverNeedsIt) {
  GroupForTesting group(GetParam(), 2);
  auto transports = group.Meet();
  ASSERT_TRUE(transports[0].ok() && transports[1].ok());
  const int socket = static_cast<HostPipe&>((*transports[0])->pipe(1)).descriptor();
  if (GetParam() == Wiring::kSharedMemory) {
    EXPECT_EQ(socket, -1);
    return;
  }
  Reset(socket);
  EXPECT_TRUE((*transports[1])->health().ok());
  std::vector<std::byte> got(1);
  const absl::Status status = ReadAll(**transports[1], 0, absl::MakeSpan(got));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "connection to rank 0")) << status;
}

TEST_P(TransportContractTest, ABrokenConnectionOfSeveralIsNamedWhenItsTurnComes) {
  const int connections = OptionsFor(GetParam(), 0).connections;
  if (connections == 1) GTEST_SKIP() << "needs several data connections";
  GroupForTesting group(GetParam(), 2);
  auto transports = group.Meet();
  ASSERT_TRUE(transports[0].ok() && transports[1].ok());
  const auto& pipe = static_cast<HostPipe&>((*transports[0])->pipe(1));
  EXPECT_EQ(pipe.write_descriptor(), pipe.descriptor());
  // The first stripe, which what ranks tell each other when they meet has begun.
  std::vector<std::byte> bytes(kStripeBytes);
  ASSERT_TRUE(WriteAll(**transports[0], 1, bytes).ok());
  ASSERT_TRUE(ReadAll(**transports[1], 0, absl::MakeSpan(bytes)).ok());
  ASSERT_NE(pipe.write_descriptor(), pipe.descriptor());
  Reset(pipe.write_descriptor());
  // The other way the first connection still has its turn.
  ASSERT_TRUE(WriteAll(**transports[1], 0, absl::MakeConstSpan(bytes).first(100)).ok());
  ASSERT_TRUE(ReadAll(**transports[0], 1, absl::MakeSpan(bytes).first(100)).ok());
  const absl::Status status = ReadAll(**transports[1], 0, absl::MakeSpan(bytes).first(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "connection to rank 0")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), absl::StrCat("connection 2 of ", connections)))
      << status;
}

// Once, a rank that did not read for 10 s, because it computed, lost its full connection.
TEST_P(TransportContractTest, AFullConnectionIsNotGivenUp) {
  GroupForTesting group(GetParam(), 2);
  auto transports = group.Meet();
  ASSERT_TRUE(transports[0].ok() && transports[1].ok());
  const int socket = static_cast<HostPipe&>((*transports[0])->pipe(1)).descriptor();
  int milliseconds = 0;
  socklen_t length = sizeof(milliseconds);
  if (socket >= 0) {
    ASSERT_EQ(getsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, &length), 0);
  }
  EXPECT_EQ(milliseconds, 0);
}

TEST_P(TransportContractTest, SurveyTellsWhatAllDo) {
  GroupForTesting group(GetParam(), 3);
  auto transports = group.Meet();
  for (int rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(transports[rank].ok()) << transports[rank].status();
    CallState state;
    state.sequence = 100 + rank;
    state.inside = 1;
    std::strcpy(state.label, "bucket 3");
    (*transports[rank])->Publish(state);
  }
  transports[1]->reset();
  // Its goodbye may still be on its way; it does not answer any more in any case.
  std::vector<RankState> states;
  do {
    states = (*transports[0])->Survey(absl::Milliseconds(200));
  } while (states[1].life != RankState::Life::kLeft);
  ASSERT_EQ(states.size(), 3u);
  EXPECT_EQ(states[0].life, RankState::Life::kAnswers);
  EXPECT_EQ(states[0].call.sequence, 100u);
  EXPECT_EQ(states[2].life, RankState::Life::kAnswers);
  EXPECT_EQ(states[2].call.sequence, 102u);
  EXPECT_STREQ(states[2].call.label, "bucket 3");
}

TEST_P(TransportContractTest, SubgroupsAreGroupsOfTheirOwn) {
  GroupForTesting group(GetParam(), 4);
  group.Run([](Transport& transport) {
    // {3, 1} and {2, 0}: in an order of their own.
    const int odd = transport.rank() % 2;
    const std::vector<int> ranks = {2 + odd, odd};
    auto subgroup = transport.Subgroup(ranks, /*id=*/1 + odd, absl::Seconds(20));
    ASSERT_TRUE(subgroup.ok()) << subgroup.status();
    ASSERT_EQ((*subgroup)->size(), 2);
    ASSERT_EQ((*subgroup)->rank(), transport.rank() >= 2 ? 0 : 1);
    const int other = 1 - (*subgroup)->rank();
    const std::byte sent[1] = {static_cast<std::byte>(transport.rank())};
    std::byte got[1];
    ASSERT_TRUE(Exchange(**subgroup, other, sent, other, absl::MakeSpan(got)).ok());
    EXPECT_EQ(static_cast<int>(got[0]), ranks[other]);
    // And again below: one of its own, twice removed.
    auto lone = (*subgroup)->Subgroup({(*subgroup)->rank()}, 7, absl::Seconds(20));
    ASSERT_TRUE(lone.ok()) << lone.status();
    EXPECT_EQ((*lone)->size(), 1);
    // Its end is not the parent's: one rank aborts it once the other is done with it.
    if ((*subgroup)->rank() == 0) {
      ASSERT_TRUE(ReadAll(**subgroup, other, absl::MakeSpan(got)).ok());
      (*subgroup)->Abort(absl::AbortedError("over"));
    } else {
      // The abort may be here before this returns.
      (void)WriteAll(**subgroup, other, sent);
    }
    subgroup->reset();
    const int next = (transport.rank() + 1) % 4, before = (transport.rank() + 3) % 4;
    ASSERT_TRUE(Exchange(transport, next, sent, before, absl::MakeSpan(got)).ok());
    EXPECT_EQ(static_cast<int>(got[0]), before);
  });
}

TEST_P(TransportContractTest, MemoryIsSharedWhereAllShareIt) {
  GroupForTesting group(GetParam(), 3);
  const bool shared = GetParam() == Wiring::kSharedMemory;
  group.Run([shared](Transport& transport) {
    for (const size_t bytes : {size_t{100'000}, size_t{0}, size_t{1}}) {
      auto memory = transport.Allocate(bytes, absl::Seconds(20));
      if (!shared) {
        EXPECT_EQ(memory.status().code(), absl::StatusCode::kUnimplemented);
        continue;
      }
      ASSERT_TRUE(memory.ok()) << memory.status();
      EXPECT_EQ((*memory)->bytes(), bytes);
      if (bytes == 0) continue;
      EXPECT_EQ((*memory)->of(transport.rank())[bytes - 1], std::byte{0});
      (*memory)->of(transport.rank())[bytes - 1] = static_cast<std::byte>(10 + transport.rank());
      // Everybody has written once it has heard of all.
      for (int peer = 0; peer < 3; ++peer) {
        std::byte token[1];
        if (peer == transport.rank()) continue;
        ASSERT_TRUE(Exchange(transport, peer, {token, 1}, peer, absl::MakeSpan(token)).ok());
        EXPECT_EQ((*memory)->of(peer)[bytes - 1], static_cast<std::byte>(10 + peer));
      }
    }
    // Nobody leaves while another still allocates.
    std::byte token[1];
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == transport.rank()) continue;
      ASSERT_TRUE(Exchange(transport, peer, {token, 1}, peer, absl::MakeSpan(token)).ok());
    }
  });
}

TEST_P(TransportContractTest, SaysWhatItUses) {
  GroupForTesting group(GetParam(), 3);
  const Wiring wiring = GetParam();
  const HostEndpointOptions options = OptionsFor(wiring, 0);
  std::string connection = options.tls ? "tls" : "tcp";
  if (options.connections > 1) absl::StrAppend(&connection, " x ", options.connections);
  group.Run([&](Transport& transport) {
    EXPECT_EQ(transport.Description(transport.rank()), "");
    for (int peer = 0; peer < 3; ++peer) {
      if (peer == transport.rank()) continue;
      const bool shared = wiring == Wiring::kSharedMemory ||
                          (wiring == Wiring::kMixed && (peer + transport.rank()) % 2 == 0);
      EXPECT_EQ(transport.Description(peer), shared ? "shared memory" : connection);
    }
    EXPECT_EQ(static_cast<HostTransport&>(transport).all_shared(), wiring == Wiring::kSharedMemory);
  });
}

TEST_P(TransportContractTest, AGroupOfOneNeedsNobody) {
  GroupForTesting group(GetParam(), 1);
  group.Run([](Transport& transport) {
    EXPECT_EQ(transport.size(), 1);
    EXPECT_TRUE(transport.health().ok());
    EXPECT_EQ(transport.Survey(absl::Seconds(1)).size(), 1u);
  });
}

INSTANTIATE_TEST_SUITE_P(Wirings, TransportContractTest,
                         testing::Values(Wiring::kSharedMemory, Wiring::kTcp, Wiring::kTls,
                                         Wiring::kTcp3, Wiring::kTls2, Wiring::kMixed),
                         [](const auto& info) { return Name(info.param); });

}  // namespace
}  // namespace muster
