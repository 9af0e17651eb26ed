// Random sequences of calls, of every kind and many sizes, run and started, with messages between
// them and groups made on the way, compared with what a plain loop computes. Pipes are tiny and cut
// bytes anywhere, so that every call is interrupted at every place.
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/host/collective_cases_for_testing.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"

namespace muster {
namespace {

// One thing that every rank does.
struct Act {
  enum class Kind { kRun, kStart, kSendToNext, kSplit, kWaitForAll };
  Kind kind = Kind::kRun;
  CollectiveCase c;
};

std::vector<Act> RandomActs(uint64_t seed, int size, int acts) {
  std::mt19937_64 random(seed);
  const auto below = [&](uint64_t limit) { return random() % limit; };
  std::vector<Act> result;
  for (int i = 0; i < acts; ++i) {
    Act act;
    const uint64_t kind = below(20);
    act.kind = kind < 9    ? Act::Kind::kRun
               : kind < 16 ? Act::Kind::kStart
               : kind < 18 ? Act::Kind::kSendToNext
               : kind < 19 ? Act::Kind::kWaitForAll
                           : Act::Kind::kSplit;
    act.c.kind = kCollectives[below(std::size(kCollectives))];
    act.c.dtype = kDTypes[below(std::size(kDTypes))];
    act.c.reduction = kReductions[below(std::size(kReductions))];
    act.c.count = below(4) == 0 ? below(4000) : below(40);
    act.c.unequal = act.c.kind != Collective::kAllReduce && below(2) == 0;
    act.c.in_place = below(2) == 0;
    act.c.misaligned = below(2) == 0;
    act.c.deterministic = below(2) == 0;
    act.c.root = below(size);
    act.c.seed = random();
    result.push_back(act);
  }
  return result;
}

// A started call, or a pair of messages around the ring of ranks.
struct Pending {
  std::shared_ptr<Work> work;
  std::unique_ptr<CaseRunner> runner;
  std::vector<int64_t> sent, received;
  int64_t expected = 0;
};

// Carries the acts out as one rank; what goes wrong.
std::string Perform(Communicator& rank, const std::vector<Act>& acts) {
  std::vector<Pending> pending;
  const auto finish = [&]() -> std::string {
    for (Pending& each : pending) {
      if (absl::Status status = each.work->Wait(absl::Minutes(5)); !status.ok()) {
        return status.ToString();
      }
      if (each.runner != nullptr) {
        if (std::string fault = each.runner->Check(); !fault.empty()) return fault;
      }
      for (const int64_t value : each.received) {
        if (value != each.expected) return "a message has other contents";
      }
    }
    pending.clear();
    return "";
  };
  CaseRunner runner(rank.rank(), rank.size());
  const int next = (rank.rank() + 1) % rank.size();
  const int previous = (rank.rank() + rank.size() - 1) % rank.size();
  for (const Act& act : acts) {
    switch (act.kind) {
      case Act::Kind::kRun: {
        const absl::Status status = rank.Run(runner.Prepare(act.c));
        if (!status.ok()) return absl::StrCat(act.c.ToString(), ": ", status.ToString());
        if (std::string fault = runner.Check(); !fault.empty()) return fault;
        break;
      }
      case Act::Kind::kStart: {
        Pending started;
        started.runner = std::make_unique<CaseRunner>(rank.rank(), rank.size());
        started.work = rank.Start(started.runner->Prepare(act.c));
        pending.push_back(std::move(started));
        break;
      }
      case Act::Kind::kSendToNext: {
        if (rank.size() == 1) break;
        Pending send, receive;
        send.sent.assign(act.c.count, rank.rank() + static_cast<int64_t>(act.c.seed % 1000));
        receive.received.resize(act.c.count);
        receive.expected = previous + static_cast<int64_t>(act.c.seed % 1000);
        send.work = rank.Start({.kind = Collective::kSend,
                                .dtype = DType::kInt64,
                                .in = send.sent.data(),
                                .count = act.c.count,
                                .root = next,
                                .tag = static_cast<int>(act.c.seed % 3)});
        receive.work = rank.Start({.kind = Collective::kReceive,
                                   .dtype = DType::kInt64,
                                   .out = receive.received.data(),
                                   .count = act.c.count,
                                   .root = act.c.seed % 2 == 0 ? previous : kAnyRank,
                                   .tag = static_cast<int>(act.c.seed % 3)});
        pending.push_back(std::move(send));
        pending.push_back(std::move(receive));
        break;
      }
      case Act::Kind::kSplit: {
        const int colour = (rank.rank() + act.c.seed % 7) % 2;
        absl::StatusOr<std::unique_ptr<Communicator>> part = rank.Split(colour, act.c.root);
        if (!part.ok()) return part.status().ToString();
        CaseRunner of_part((*part)->rank(), (*part)->size());
        CollectiveCase c = act.c;
        c.root = 0;
        const absl::Status status = (*part)->Run(of_part.Prepare(c));
        if (!status.ok()) return status.ToString();
        if (std::string fault = of_part.Check(); !fault.empty()) return fault;
        break;
      }
      case Act::Kind::kWaitForAll:
        if (std::string fault = finish(); !fault.empty()) return fault;
        break;
    }
  }
  return finish();
}

class CommunicatorRandomTest : public testing::TestWithParam<uint64_t> {};

TEST_P(CommunicatorRandomTest, AgreesWithAPlainLoop) {
  const uint64_t seed = GetParam();
  std::mt19937_64 random(seed);
  const int size = 1 + static_cast<int>(random() % 6);
  InProcessOptions options;
  options.pipe_bytes = 64 * (1 + random() % 4);
  options.write_bytes = 1 + random() % 200;
  HostCommunicatorOptions communicator;
  communicator.same_machine = random() % 2 == 0;
  const std::vector<Act> acts = RandomActs(seed, size, 100);

  InProcessGroup group(size, options);
  std::vector<std::string> faults(size);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank) {
    threads.emplace_back([&, rank] {
      absl::StatusOr<std::unique_ptr<Communicator>> made =
          MakeHostCommunicator(group.Join(rank), communicator);
      faults[rank] = Perform(**made, acts);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_THAT(faults, testing::Each(""));
}

// The first twelve have groups of every size, on one machine and on several.
INSTANTIATE_TEST_SUITE_P(Seeds, CommunicatorRandomTest, testing::Range<uint64_t>(1, 13));
INSTANTIATE_TEST_SUITE_P(ExhaustiveSeeds, CommunicatorRandomTest, testing::Range<uint64_t>(13, 41));

}  // namespace
}  // namespace muster
