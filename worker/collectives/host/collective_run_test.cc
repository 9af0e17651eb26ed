// Runs every algorithm on real pipes, also for lengths and group sizes for which a communicator
// chooses another one, and compares with known sums.
#include "worker/collectives/host/collective_run.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"
#include "worker/collectives/transport/meeting/group_for_testing.h"

namespace muster {
namespace {

// Kinds of pipes: pipes of 192 bytes that take 13 bytes at a time, or TCP.
enum class Pipes { kTiny, kTcp };

// Calls `body` on a thread for each rank.
void OnGroup(Pipes pipes, int size, const std::function<void(Transport&)>& body) {
  if (pipes == Pipes::kTcp) {
    GroupForTesting(Wiring::kTcp, size).Run(body);
    return;
  }
  InProcessGroup group(size, {.pipe_bytes = 192, .write_bytes = 13});
  std::vector<std::unique_ptr<Transport>> transports;
  for (int rank = 0; rank < size; ++rank) transports.push_back(group.Join(rank));
  InParallel(size, [&](int rank) { body(*transports[rank]); });
}

void Finish(Transport& transport, CollectiveRun& run) {
  while (true) {
    const uint64_t ticket = transport.Ticket();
    const auto progress = run.Step();
    ASSERT_TRUE(progress.ok()) << progress.status();
    if (*progress == CollectiveRun::Progress::kDone) return;
    if (*progress == CollectiveRun::Progress::kSome) continue;
    std::vector<PipeInterest> interests;
    run.AddInterests(interests);
    ASSERT_FALSE(interests.empty());
    transport.Wait(ticket, interests, absl::Seconds(30));
  }
}

class CollectiveRunTest : public testing::TestWithParam<std::tuple<Algorithm, int, Pipes>> {
 protected:
  // All ranks' results of an all-reduce, in place or not. `value` of a rank and an index.
  template <typename T>
  std::vector<std::vector<T>> AllReduce(DType dtype, Reduction reduction, size_t count,
                                        bool in_place, const std::function<T(int, size_t)>& value) {
    const auto [algorithm, size, pipes] = GetParam();
    std::vector<std::vector<T>> results(size);
    OnGroup(pipes, size, [&, algorithm = algorithm](Transport& transport) {
      std::vector<T> in(count), out(count);
      for (size_t i = 0; i < count; ++i) in[i] = value(transport.rank(), i);
      CollectiveCall call;
      call.kind = Collective::kAllReduce;
      call.dtype = dtype;
      call.reduction = reduction;
      call.in = in.data();
      call.out = in_place ? in.data() : out.data();
      call.count = count;
      CollectiveRun run(transport);
      // Twice: what one call leaves must not disturb the next.
      for (uint64_t sequence : {1, 2}) {
        for (size_t i = 0; i < count; ++i) in[i] = value(transport.rank(), i);
        run.Begin(call, algorithm, MakeHeader(call, algorithm, sequence, 0), {});
        Finish(transport, run);
        if (testing::Test::HasFailure()) return;
      }
      results[transport.rank()] = in_place ? in : out;
    });
    return results;
  }
};

TEST_P(CollectiveRunTest, SumsAreExactInEveryRank) {
  const int size = std::get<1>(GetParam());
  for (const size_t count : {0, 1, 7, 61, 1000, 40'003}) {
    for (const bool in_place : {false, true}) {
      SCOPED_TRACE(absl::StrCat(count, " elements, in place ", in_place));
      const auto results = AllReduce<int64_t>(
          DType::kInt64, Reduction::kSum, count, in_place,
          [](int rank, size_t i) { return static_cast<int64_t>(i * 16 + 1) << (3 * (rank % 5)); });
      for (size_t i = 0; i < count; ++i) {
        int64_t expected = 0;
        for (int rank = 0; rank < size; ++rank) {
          expected += static_cast<int64_t>(i * 16 + 1) << (3 * (rank % 5));
        }
        for (int rank = 0; rank < size; ++rank) {
          ASSERT_EQ(results[rank][i], expected) << "rank " << rank << ", element " << i;
        }
      }
    }
  }
}

// Values whose sum depends on the order of the additions, zeros of both signs, and not-a-numbers.
TEST_P(CollectiveRunTest, EveryRankHasTheSameBits) {
  const int size = std::get<1>(GetParam());
  constexpr size_t kCount = 3001;
  for (const Reduction reduction : {Reduction::kSum, Reduction::kAvg, Reduction::kMin}) {
    const auto results =
        AllReduce<float>(DType::kF32, reduction, kCount, /*in_place=*/true, [](int rank, size_t i) {
          if (i % 11 == 3) return rank % 2 == 0 ? 0.0f : -0.0f;
          const float value = (i * 7919 + rank * 104729) % 1009 * 1e-3f + (rank == 1 ? 1e5f : 0);
          // If both operands are different NaNs, either may be the sum: a compiler may swap what it
          // adds.
          return i % 13 == 5 ? std::numeric_limits<float>::quiet_NaN() : value;
        });
    for (int rank = 1; rank < size; ++rank) {
      EXPECT_EQ(std::memcmp(results[rank].data(), results[0].data(), kCount * sizeof(float)), 0)
          << "rank " << rank;
    }
  }
}

TEST_P(CollectiveRunTest, AnAverageIsDividedOnce) {
  const int size = std::get<1>(GetParam());
  const auto results =
      AllReduce<float>(DType::kF32, Reduction::kAvg, 1000, /*in_place=*/false,
                       [size](int rank, size_t i) { return static_cast<float>(i) * size + rank; });
  for (int rank = 0; rank < size; ++rank) {
    for (size_t i = 0; i < 1000; ++i) {
      ASSERT_FLOAT_EQ(results[rank][i], i * size + (size - 1) / 2.0f) << "rank " << rank;
    }
  }
}

using RunParameters = std::tuple<Algorithm, int, Pipes>;

// Returns the runs of a default run of the tests: of each algorithm one group over each kind of
// pipes. All sizes come up.
std::vector<RunParameters> DefaultRuns() {
  return {{Algorithm::kDoubling, 3, Pipes::kTiny}, {Algorithm::kDoubling, 4, Pipes::kTcp},
          {Algorithm::kHalving, 6, Pipes::kTiny},  {Algorithm::kHalving, 8, Pipes::kTcp},
          {Algorithm::kRing, 4, Pipes::kTiny},     {Algorithm::kRing, 3, Pipes::kTcp},
          {Algorithm::kDirect, 2, Pipes::kTiny},   {Algorithm::kDirect, 6, Pipes::kTcp},
          {Algorithm::kExchange, 3, Pipes::kTiny}, {Algorithm::kExchange, 4, Pipes::kTcp}};
}

// Returns all others.
std::vector<RunParameters> OtherRuns() {
  const std::vector<RunParameters> defaults = DefaultRuns();
  std::vector<RunParameters> others;
  for (const Algorithm algorithm : {Algorithm::kDoubling, Algorithm::kHalving, Algorithm::kRing,
                                    Algorithm::kDirect, Algorithm::kExchange}) {
    for (const int size : {2, 3, 4, 6, 8}) {
      for (const Pipes pipes : {Pipes::kTiny, Pipes::kTcp}) {
        const RunParameters run = {algorithm, size, pipes};
        if (std::count(defaults.begin(), defaults.end(), run) == 0) others.push_back(run);
      }
    }
  }
  return others;
}

std::string NameOfRun(const testing::TestParamInfo<RunParameters>& info) {
  const auto& [algorithm, size, pipes] = info.param;
  return absl::StrCat(Name(algorithm), "World", size, pipes == Pipes::kTiny ? "Tiny" : "Tcp");
}

INSTANTIATE_TEST_SUITE_P(Algorithms, CollectiveRunTest, testing::ValuesIn(DefaultRuns()),
                         NameOfRun);
INSTANTIATE_TEST_SUITE_P(ExhaustiveAlgorithms, CollectiveRunTest, testing::ValuesIn(OtherRuns()),
                         NameOfRun);

}  // namespace
}  // namespace muster
