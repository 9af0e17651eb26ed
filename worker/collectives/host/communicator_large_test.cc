// Large messages on every backend. Every pair of values of any two factors comes up in some case.
#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "worker/collectives/host/collective_cases_for_testing.h"
#include "worker/collectives/host/communicator_backends_for_testing.h"
#include "worker/collectives/host/run_cases_for_testing.h"

namespace muster {
namespace {

class LargeMessagesTest : public testing::TestWithParam<Backend> {};

struct LargeCase {
  int size = 1;
  CollectiveCase c;
};

struct World {
  int size;
  // Bytes of the longer messages; the others have 1 MiB.
  size_t bytes;
};
// 4 MiB, even cut among 15 ranks, still take the algorithms of long messages.
constexpr World kWorlds[] = {{2, (16 << 20) + 1}, {3, (16 << 20) + 1}, {4, (16 << 20) + 1},
                             {5, (4 << 20) + 1},  {6, (4 << 20) + 1},  {7, (4 << 20) + 1},
                             {8, (16 << 20) + 1}, {15, (4 << 20) + 1}};

std::vector<LargeCase> PairwiseCover() {
  const int levels[] = {7, 7, 5, std::size(kWorlds), 2, 2, 2, 2};
  constexpr int kFactors = 8;
  using Row = std::vector<int>;
  std::set<std::tuple<int, int, int, int>> missing;
  for (int a = 0; a < kFactors; ++a) {
    for (int b = a + 1; b < kFactors; ++b) {
      for (int i = 0; i < levels[a]; ++i) {
        for (int j = 0; j < levels[b]; ++j) missing.insert({a, i, b, j});
      }
    }
  }
  std::vector<LargeCase> cases;
  uint64_t random = 1;
  while (!missing.empty()) {
    // The best of some random rows that hold the first pair missing.
    Row best;
    int best_covers = -1;
    for (int attempt = 0; attempt < 50; ++attempt) {
      Row row(kFactors);
      for (int f = 0; f < kFactors; ++f) {
        random = random * 6364136223846793005 + 1442695040888963407;
        row[f] = (random >> 33) % levels[f];
      }
      const auto& [a, i, b, j] = *missing.begin();
      row[a] = i;
      row[b] = j;
      int covers = 0;
      for (int x = 0; x < kFactors; ++x) {
        for (int y = x + 1; y < kFactors; ++y) covers += missing.count({x, row[x], y, row[y]});
      }
      if (covers > best_covers) {
        best_covers = covers;
        best = row;
      }
    }
    for (int x = 0; x < kFactors; ++x) {
      for (int y = x + 1; y < kFactors; ++y) missing.erase({x, best[x], y, best[y]});
    }
    LargeCase large;
    large.c.kind = kCollectives[best[0]];
    large.c.dtype = kDTypes[best[1]];
    large.c.reduction = kReductions[best[2]];
    const World& world = kWorlds[best[3]];
    large.size = world.size;
    large.c.in_place = best[4] == 1;
    large.c.misaligned = best[5] == 1;
    large.c.deterministic = best[7] == 1;
    const size_t bytes = best[6] == 0 ? 1 << 20 : world.bytes;
    large.c.count = bytes / SizeOf(large.c.dtype) + best[6];
    const bool slices = large.c.kind == Collective::kReduceScatter ||
                        large.c.kind == Collective::kAllGather ||
                        large.c.kind == Collective::kAllToAll;
    if (slices) large.c.count = large.c.count / large.size + 1;
    large.c.root = large.size - 1;
    large.c.seed = cases.size();
    cases.push_back(large);
  }
  return cases;
}

// Returns whether a default run has the group. Each backend then has one size or two, and nearly
// all sizes come up.
bool IsDefault(const Backend& backend, int size) {
  static const auto* const sizes = new SizesByBackend({{"InProcess", {2, 5}},
                                                       {"Narrow", {6}},
                                                       {"SharedMemory", {3, 8}},
                                                       {"Tcp", {4}},
                                                       {"Tls", {3}},
                                                       {"Mixed", {5}}});
  const std::vector<int>& of_backend = sizes->at(backend.name);
  return std::count(of_backend.begin(), of_backend.end(), size) > 0;
}

// Makes the calls of the cover in the groups of a default run, or in the others.
void RunCover(const Backend& backend, bool by_default) {
  const std::vector<LargeCase> cases = PairwiseCover();
  for (const World& world : kWorlds) {
    if (IsDefault(backend, world.size) != by_default) continue;
    std::vector<CollectiveCase> of_size;
    for (const LargeCase& large : cases) {
      if (large.size == world.size) of_size.push_back(large.c);
    }
    const std::unique_ptr<TestGroup> group = backend.make(world.size);
    EXPECT_THAT(RunCases(*group, of_size), testing::IsEmpty());
  }
}

TEST_P(LargeMessagesTest, ByPairwiseCover) { RunCover(GetParam(), /*by_default=*/true); }

TEST_P(LargeMessagesTest, ByPairwiseCoverExhaustive) { RunCover(GetParam(), /*by_default=*/false); }

INSTANTIATE_TEST_SUITE_P(All, LargeMessagesTest, testing::ValuesIn(AllBackends()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Mixed, LargeMessagesTest, testing::Values(MixedBackend()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace muster
