// Small messages to and fro, and large ones one way, between two ranks (threads here; what lies
// between them is what lies between processes), and a token around more ranks than processors.

#include <pthread.h>
#include <sched.h>

#include <thread>
#include <vector>

#include "benchmark/benchmark.h"
#include "worker/collectives/transport/meeting/group_for_testing.h"

namespace muster {
namespace {

constexpr Wiring kWirings[] = {Wiring::kSharedMemory, Wiring::kTcp, Wiring::kTls};

void Check(benchmark::State& state, const absl::Status& status) {
  if (!status.ok()) state.SkipWithError(status.ToString().c_str());
}

// Two ranks on a processor each: figures are to tell of transports, not of where the scheduler puts
// threads.
void Pin(const Transport& transport) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(transport.rank() % static_cast<int>(std::thread::hardware_concurrency()), &set);
  pthread_setaffinity_np(pthread_self(), sizeof(set), &set);
}

// The first byte says whether another round follows.
void RoundTrip(benchmark::State& state) {
  const Wiring wiring = kWirings[state.range(0)];
  const auto bytes = static_cast<size_t>(state.range(1));
  GroupForTesting group(wiring, 2);
  group.Run([&](Transport& transport) {
    Pin(transport);
    std::vector<std::byte> message(bytes);
    if (transport.rank() == 1) {
      while (ReadAll(transport, 0, absl::MakeSpan(message)).ok() && message[0] == std::byte{0}) {
        if (!WriteAll(transport, 0, message).ok()) return;
      }
      return;
    }
    for (auto _ : state) {
      Check(state, WriteAll(transport, 1, message));
      Check(state, ReadAll(transport, 1, absl::MakeSpan(message)));
    }
    message[0] = std::byte{1};
    Check(state, WriteAll(transport, 1, message));
  });
  state.SetLabel(Name(wiring));
}
BENCHMARK(RoundTrip)->ArgsProduct({{0, 1, 2}, {64, 4096, 65536}})->UseRealTime();

// Both ways at once, as the ranks of a ring do.
void Stream(benchmark::State& state) {
  const Wiring wiring = kWirings[state.range(0)];
  const auto bytes = static_cast<size_t>(state.range(1));
  GroupForTesting group(wiring, 2);
  group.Run([&](Transport& transport) {
    Pin(transport);
    std::vector<std::byte> sent(bytes), got(bytes);
    const auto exchange = [&](std::byte last) {
      sent[0] = last;
      return Exchange(transport, 1 - transport.rank(), sent, 1 - transport.rank(),
                      absl::MakeSpan(got));
    };
    if (transport.rank() == 1) {
      while (exchange(std::byte{0}).ok() && got[0] == std::byte{0}) {
      }
      return;
    }
    for (auto _ : state) Check(state, exchange(std::byte{0}));
    Check(state, exchange(std::byte{1}));
  });
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
  state.SetLabel(Name(wiring));
}
BENCHMARK(Stream)->ArgsProduct({{0, 1, 2}, {1 << 20, 64 << 20}})->UseRealTime();

void OneWay(benchmark::State& state) {
  const Wiring wiring = kWirings[state.range(0)];
  const auto bytes = static_cast<size_t>(state.range(1));
  GroupForTesting group(wiring, 2);
  group.Run([&](Transport& transport) {
    Pin(transport);
    std::vector<std::byte> message(bytes);
    std::byte token[1];
    if (transport.rank() == 1) {
      while (ReadAll(transport, 0, absl::MakeSpan(message)).ok() && message[0] == std::byte{0}) {
        if (!WriteAll(transport, 0, token).ok()) return;
      }
      return;
    }
    for (auto _ : state) {
      Check(state, WriteAll(transport, 1, message));
      Check(state, ReadAll(transport, 1, absl::MakeSpan(token)));
    }
    message[0] = std::byte{1};
    Check(state, WriteAll(transport, 1, message));
  });
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(bytes));
  state.SetLabel(Name(wiring));
}
BENCHMARK(OneWay)->ArgsProduct({{0, 1, 2}, {1 << 20, 64 << 20}})->UseRealTime();

void TokenAroundARing(benchmark::State& state) {
  const Wiring wiring = kWirings[state.range(0)];
  const int size = static_cast<int>(state.range(1));
  GroupForTesting group(wiring, size);
  group.Run([&](Transport& transport) {
    if (size == 2) Pin(transport);
    const int next = (transport.rank() + 1) % size, before = (transport.rank() + size - 1) % size;
    std::byte token[64] = {};
    if (transport.rank() != 0) {
      while (ReadAll(transport, before, absl::MakeSpan(token)).ok()) {
        if (!WriteAll(transport, next, token).ok() || token[0] != std::byte{0}) return;
      }
      return;
    }
    for (auto _ : state) {
      Check(state, WriteAll(transport, next, token));
      Check(state, ReadAll(transport, before, absl::MakeSpan(token)));
    }
    token[0] = std::byte{1};
    Check(state, WriteAll(transport, next, token));
    Check(state, ReadAll(transport, before, absl::MakeSpan(token)));
  });
  state.SetLabel(Name(wiring));
}
BENCHMARK(TokenAroundARing)->ArgsProduct({{0, 1}, {2, 4, 8}})->UseRealTime();

}  // namespace
}  // namespace muster
