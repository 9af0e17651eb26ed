// Tests that repeated calls touch no memory that is new to the process: the first calls leave all
// that they need.
#include <malloc.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/communicator.h"
#include "worker/collectives/host/communicator_backends_for_testing.h"
#include "worker/collectives/host/run_cases_for_testing.h"

namespace muster {
namespace {

constexpr int kFaultRanks = 3;
constexpr size_t kBytes = 4 << 20;
constexpr size_t kCount = kBytes / sizeof(float);
constexpr int kWarmUp = 2;
constexpr int kRounds = 10;

// Returns the page faults of the whole process, in which nobody but the ranks does anything.
int64_t PageFaults() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

// A rank's memory, and the calls of one round on it.
struct RoundCaller {
  explicit RoundCaller(std::unique_ptr<CollectiveBuffer> buffer) : shared(std::move(buffer)) {}

  void Round(Communicator& rank, Faults& faults) {
    void* const buffer = shared->bytes().data();
    const std::vector<size_t> counts(rank.size(), kCount / rank.size());
    // Averages, so that values stay as they are.
    const CollectiveCall apart = {.kind = Collective::kAllReduce,
                                  .reduction = Reduction::kAvg,
                                  .in = in.data(),
                                  .out = out.data(),
                                  .count = kCount};
    CollectiveCall in_place = apart;
    in_place.out = in.data();
    CollectiveCall in_shared = apart;
    in_shared.in = in_shared.out = buffer;
    CollectiveCall half = apart;
    half.dtype = DType::kBf16;
    half.count = 2 * kCount;
    CollectiveCall scatter = apart;
    scatter.kind = Collective::kReduceScatter;
    scatter.count = counts[0];
    CollectiveCall gather = scatter;
    gather.kind = Collective::kAllGather;
    CollectiveCall exchange = scatter;
    exchange.kind = Collective::kAllToAll;
    exchange.counts = exchange.send_counts = counts;
    for (const CollectiveCall& call :
         {apart, in_place, in_shared, half, scatter, gather, exchange}) {
      faults.Add(rank.Run(call));
    }
    faults.Add(rank.Start(in_place)->Wait(absl::Minutes(2)));
  }

  std::vector<float> in = std::vector<float>(kCount, 1.0f);
  std::vector<float> out = std::vector<float>(kCount);
  const std::unique_ptr<CollectiveBuffer> shared;
};

class PageFaultsTest : public testing::TestWithParam<Backend> {
 protected:
  static void SetUpTestSuite() {
    // A page of 2 MiB would be one fault.
    prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0);
    // A large allocation is always memory new to the process, and so shows if a call makes it.
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
  }
};

TEST_P(PageFaultsTest, RepeatedCallsFaultNothingIn) {
  const std::unique_ptr<TestGroup> group = GetParam().make(kFaultRanks);
  Faults faults;
  int64_t before = 0, after = 0;
  group->Run([&](Communicator& rank) {
    absl::StatusOr<std::unique_ptr<CollectiveBuffer>> shared = rank.Allocate(kBytes);
    faults.Add(shared.status());
    if (!shared.ok()) return;
    RoundCaller caller(*std::move(shared));
    const CollectiveCall barrier = {.kind = Collective::kBarrier};
    for (int i = 0; i < kWarmUp; ++i) caller.Round(rank, faults);
    faults.Add(rank.Run(barrier));
    if (rank.rank() == 0) before = PageFaults();
    faults.Add(rank.Run(barrier));
    for (int i = 0; i < kRounds; ++i) caller.Round(rank, faults);
    faults.Add(rank.Run(barrier));
    if (rank.rank() == 0) after = PageFaults();
    // Until then nobody takes anything down.
    faults.Add(rank.Run(barrier));
  });
  EXPECT_THAT(faults.Take(), testing::ElementsAre());
  // A quarter of one rank's buffer for each round; a call that took its memory anew would fault in
  // as much several times over, and what else goes on in the process is far below it.
  EXPECT_LT(after - before, kRounds * static_cast<int64_t>(kBytes) / 4 / getpagesize());
}

std::string NameOfBackend(const testing::TestParamInfo<Backend>& info) { return info.param.name; }

// Returns the backends that processes use.
std::vector<Backend> BackendsOfProcesses() {
  std::vector<Backend> backends;
  for (const Backend& backend : AllBackends()) {
    if (!backend.can_break) backends.push_back(backend);
  }
  backends.push_back(MixedBackend());
  return backends;
}

INSTANTIATE_TEST_SUITE_P(OfProcesses, PageFaultsTest, testing::ValuesIn(BackendsOfProcesses()),
                         NameOfBackend);

}  // namespace
}  // namespace muster
