#include "common/collectives/schedule.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/collectives/schedule_simulator.h"
#include "gtest/gtest.h"

namespace muster {
namespace {

constexpr int kMostRanks = 16;

enum class Place { kApart, kInPlace };

std::vector<size_t> Counts(int size) {
  const size_t w = size;
  const std::set<size_t> distinct = {0, 1, 2, 3, 7, w - 1, w, w + 1, 6 * w, 1023};
  return {distinct.begin(), distinct.end()};
}

// Slices of different lengths, some of them empty.
std::vector<std::vector<size_t>> UnequalCounts(int size) {
  std::vector<size_t> rising, sparse, one(size, 0);
  for (int i = 0; i < size; ++i) {
    rising.push_back(i);
    sparse.push_back(i % 3 == 1 ? 17 + i : i % 2);
  }
  one[size / 2] = 40;
  return {rising, sparse, one};
}

size_t Total(const std::vector<size_t>& counts) {
  return std::accumulate(counts.begin(), counts.end(), size_t{0});
}

size_t Begin(const std::vector<size_t>& counts, int rank) {
  return std::accumulate(counts.begin(), counts.begin() + rank, size_t{0});
}

std::vector<int> RankOrder(int size) {
  std::vector<int> order(size);
  std::iota(order.begin(), order.end(), 0);
  return order;
}

// One collective call of a whole group, simulated; the requests differ in rank only.
class Group {
 public:
  Group(ScheduleRequest request, Place place) : request_(request), place_(place) {}

  // `elements` gives a rank's input and output lengths; `begins` where they lie in place.
  template <typename Elements, typename Begins>
  ScheduleSimulator Simulate(Elements elements, Begins begins, int frozen = -1) {
    std::vector<ScheduleSimulator::Rank> ranks;
    for (int rank = 0; rank < request_.size; ++rank) {
      ScheduleRequest request = request_;
      request.rank = rank;
      request.in_place = place_ == Place::kInPlace;
      const auto [input, output] = elements(rank);
      const auto [input_begin, output_begin] = begins(rank);
      ranks.push_back({.schedule = MakeSchedule(request),
                       .input = input,
                       .output = output,
                       .in_place = place_ == Place::kInPlace,
                       .input_begin = input_begin,
                       .output_begin = output_begin});
      sent_.push_back(SentElements(ranks.back().schedule));
    }
    // The interleaving differs from case to case, and is the same in every run.
    const uint32_t seed = 1000 * request_.size + request_.count + 7 * sent_.front();
    ScheduleSimulator simulator(std::move(ranks), seed);
    simulator.Run(frozen);
    return simulator;
  }

  uint64_t sent(int rank) const { return sent_[rank]; }
  uint64_t sent_by_all() const { return std::accumulate(sent_.begin(), sent_.end(), uint64_t{0}); }

 private:
  const ScheduleRequest request_;
  const Place place_;
  std::vector<uint64_t> sent_;
};

std::pair<size_t, size_t> Zero(int) { return {0, 0}; }

// Every rank's part once, completed once; returns the order.
std::vector<int> ExpectSum(const SymbolicValue& value, size_t index, int size) {
  EXPECT_EQ(value.index, index);
  EXPECT_EQ(value.completed, size > 1 ? 1 : 0);
  std::vector<int> sorted = value.Order();
  std::sort(sorted.begin(), sorted.end());
  EXPECT_EQ(sorted, RankOrder(size)) << "element " << index;
  return value.Order();
}

class ScheduleTest : public testing::TestWithParam<std::tuple<int, Place>> {
 protected:
  int size() const { return std::get<0>(GetParam()); }
  Place place() const { return std::get<1>(GetParam()); }
};

TEST_P(ScheduleTest, AllReduce) {
  for (Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect, Algorithm::kExchange,
                              Algorithm::kDoubling, Algorithm::kHalving}) {
    for (size_t count : Counts(size())) {
      SCOPED_TRACE(absl::StrCat(Name(algorithm), ", ", count, " elements"));
      Group group(
          {.kind = Collective::kAllReduce, .algorithm = algorithm, .size = size(), .count = count},
          place());
      const ScheduleSimulator simulator =
          group.Simulate([&](int) { return std::pair(count, count); }, Zero);
      ASSERT_EQ(simulator.error(), "");
      for (size_t i = 0; i < count; ++i) {
        const std::vector<int> order = ExpectSum(simulator.output(0, i), i, size());
        if (algorithm != Algorithm::kRing) {
          ASSERT_EQ(order, RankOrder(size()));
        }
        for (int rank = 1; rank < size(); ++rank) {
          ASSERT_EQ(simulator.output(rank, i), simulator.output(0, i));
        }
        if (place() == Place::kApart) {
          ASSERT_EQ(simulator.input(0, i), SymbolicValue::Of(0, i));
        }
      }
      const uint64_t once = count * (size() - 1);
      int cores = 1, steps = 0;
      for (; 2 * cores <= size(); cores *= 2) ++steps;
      // Ranks that stand by add their vector and the result.
      const uint64_t folds = 2 * count * (size() - cores);
      if (algorithm == Algorithm::kExchange) {
        EXPECT_EQ(group.sent(0), once);
      } else if (algorithm == Algorithm::kDoubling) {
        EXPECT_EQ(group.sent_by_all(), count * cores * steps + folds);
      } else if (algorithm == Algorithm::kHalving) {
        EXPECT_EQ(group.sent_by_all(), 2 * count * (cores - 1) + folds);
      } else {
        EXPECT_EQ(group.sent_by_all(), 2 * once);
        for (int rank = 0; rank < size() && count % size() == 0; ++rank) {
          EXPECT_EQ(group.sent(rank), 2 * once / size());
        }
      }
    }
  }
}

// The choice between the two algorithms then makes no difference to the bits.
TEST_P(ScheduleTest, DoublingAndHalvingAddTheSameToTheSame) {
  constexpr size_t kCount = 37;
  SymbolicValue first[kCount];
  for (Algorithm algorithm : {Algorithm::kDoubling, Algorithm::kHalving}) {
    Group group(
        {.kind = Collective::kAllReduce, .algorithm = algorithm, .size = size(), .count = kCount},
        place());
    const ScheduleSimulator simulator =
        group.Simulate([&](int) { return std::pair(kCount, kCount); }, Zero);
    ASSERT_EQ(simulator.error(), "");
    for (size_t i = 0; i < kCount; ++i) {
      if (algorithm == Algorithm::kDoubling) first[i] = simulator.output(0, i);
      for (int rank = 0; rank < size(); ++rank) {
        ASSERT_EQ(simulator.output(rank, i), first[i]) << "rank " << rank << ", element " << i;
      }
    }
  }
}

// `==` of the test above and of AllReduce would not see a difference that a shape does not show.
TEST(SymbolicValueTest, TheShapeTellsWhatWasAddedToWhat) {
  const Algorithm algorithms[] = {Algorithm::kDirect, Algorithm::kDoubling, Algorithm::kRing};
  std::set<uint64_t> shapes;
  for (const Algorithm algorithm : algorithms) {
    Group group({.kind = Collective::kAllReduce, .algorithm = algorithm, .size = 4, .count = 1},
                Place::kApart);
    shapes.insert(group.Simulate([](int) { return std::pair(size_t{1}, size_t{1}); }, Zero)
                      .output(0, 0)
                      .shape);
  }
  // ((0 + 1) + 2) + 3, (0 + 1) + (2 + 3), and the ring's order.
  EXPECT_EQ(shapes.size(), 3u);
}

TEST_P(ScheduleTest, ReduceScatter) {
  std::vector<std::vector<size_t>> cases = UnequalCounts(size());
  for (size_t count : {0, 1, 2, 3, 7, 64}) cases.emplace_back(size(), count);
  for (Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect}) {
    for (size_t fragment : {1, 3, 20, 1000}) {
      for (const std::vector<size_t>& counts : cases) {
        // Direct knows no fragments; more than eight rounds show nothing that eight do not.
        if (algorithm == Algorithm::kDirect && fragment > 1) continue;
        const size_t largest = *std::max_element(counts.begin(), counts.end());
        if (algorithm == Algorithm::kRing && largest > 8 * fragment) continue;
        SCOPED_TRACE(absl::StrCat(Name(algorithm), ", fragments of ", fragment, ", ",
                                  absl::StrJoin(counts, " ")));
        Group group({.kind = Collective::kReduceScatter,
                     .algorithm = algorithm,
                     .size = size(),
                     .counts = counts,
                     .fragment = fragment},
                    place());
        const ScheduleSimulator simulator =
            group.Simulate([&](int rank) { return std::pair(Total(counts), counts[rank]); },
                           [&](int rank) { return std::pair(size_t{0}, Begin(counts, rank)); });
        ASSERT_EQ(simulator.error(), "");
        for (int rank = 0; rank < size(); ++rank) {
          const size_t begin = Begin(counts, rank);
          for (size_t i = 0; i < counts[rank]; ++i) {
            const std::vector<int> order = ExpectSum(simulator.output(rank, i), begin + i, size());
            std::vector<int> expected = RankOrder(size());
            // The order is from the rank after the owner around to the owner.
            if (algorithm == Algorithm::kRing) {
              std::rotate(expected.begin(), expected.begin() + (rank + 1) % size(), expected.end());
            }
            ASSERT_EQ(order, expected);
          }
          // In place too, other ranks' slices stay as they were.
          for (size_t i = 0; i < Total(counts); ++i) {
            if (place() == Place::kInPlace && i >= begin && i < begin + counts[rank]) continue;
            ASSERT_EQ(simulator.input(rank, i), SymbolicValue::Of(rank, i));
          }
        }
        EXPECT_EQ(group.sent_by_all(), Total(counts) * (size() - 1));
        if (std::set<size_t>(counts.begin(), counts.end()).size() == 1) {
          EXPECT_EQ(group.sent(0), counts[0] * (size() - 1));
        }
      }
    }
  }
}

TEST_P(ScheduleTest, RingReduceScatterNeedsLittleScratch) {
  const Schedule schedule = MakeSchedule({.kind = Collective::kReduceScatter,
                                          .algorithm = Algorithm::kRing,
                                          .size = size(),
                                          .count = 1000,
                                          .fragment = 10});
  EXPECT_EQ(schedule.scratch, 10 * std::max(0, size() - 2));
}

TEST_P(ScheduleTest, AllGather) {
  std::vector<std::vector<size_t>> cases = UnequalCounts(size());
  for (size_t count : {0, 1, 2, 3, 7, 64}) cases.emplace_back(size(), count);
  for (Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect}) {
    for (const std::vector<size_t>& counts : cases) {
      SCOPED_TRACE(absl::StrCat(Name(algorithm), ", ", absl::StrJoin(counts, " ")));
      Group group({.kind = Collective::kAllGather,
                   .algorithm = algorithm,
                   .size = size(),
                   .counts = counts},
                  place());
      const ScheduleSimulator simulator =
          group.Simulate([&](int rank) { return std::pair(counts[rank], Total(counts)); },
                         [&](int rank) { return std::pair(Begin(counts, rank), size_t{0}); });
      ASSERT_EQ(simulator.error(), "");
      for (int rank = 0; rank < size(); ++rank) {
        for (int owner = 0; owner < size(); ++owner) {
          for (size_t i = 0; i < counts[owner]; ++i) {
            ASSERT_EQ(simulator.output(rank, Begin(counts, owner) + i),
                      SymbolicValue::Of(owner, i));
          }
        }
      }
      EXPECT_EQ(group.sent_by_all(), Total(counts) * (size() - 1));
    }
  }
}

TEST_P(ScheduleTest, Broadcast) {
  for (Algorithm algorithm : {Algorithm::kRing, Algorithm::kDirect}) {
    for (int root = 0; root < size(); ++root) {
      for (size_t count : {0, 1, 7, 100}) {
        SCOPED_TRACE(absl::StrCat(Name(algorithm), " from ", root, ", ", count, " elements"));
        Group group({.kind = Collective::kBroadcast,
                     .algorithm = algorithm,
                     .size = size(),
                     .count = count,
                     .root = root},
                    place());
        const ScheduleSimulator simulator =
            group.Simulate([&](int) { return std::pair(count, count); }, Zero);
        ASSERT_EQ(simulator.error(), "");
        for (int rank = 0; rank < size(); ++rank) {
          for (size_t i = 0; i < count; ++i) {
            ASSERT_EQ(simulator.output(rank, i), SymbolicValue::Of(root, i));
          }
          if (algorithm == Algorithm::kRing) {
            EXPECT_LE(group.sent(rank), count);
          }
        }
        EXPECT_EQ(group.sent_by_all(), count * (size() - 1));
      }
    }
  }
}

TEST_P(ScheduleTest, Reduce) {
  for (int root = 0; root < size(); ++root) {
    for (size_t count : {0, 1, 7, 100}) {
      SCOPED_TRACE(absl::StrCat("to ", root, ", ", count, " elements"));
      Group group({.kind = Collective::kReduce, .size = size(), .count = count, .root = root},
                  place());
      const ScheduleSimulator simulator = group.Simulate(
          [&](int rank) { return std::pair(count, rank == root ? count : 0); }, Zero);
      ASSERT_EQ(simulator.error(), "");
      for (size_t i = 0; i < count; ++i) {
        ASSERT_EQ(ExpectSum(simulator.output(root, i), i, size()), RankOrder(size()));
      }
      EXPECT_EQ(group.sent_by_all(), count * (size() - 1));
      EXPECT_EQ(group.sent(root), 0);
    }
  }
}

// lengths[from][to]; what a rank sends is a row of it, what it receives a column.
void ExpectAllToAll(const std::vector<std::vector<size_t>>& lengths, Place place) {
  const int size = static_cast<int>(lengths.size());
  std::vector<std::vector<size_t>> columns(size, std::vector<size_t>(size));
  for (int from = 0; from < size; ++from) {
    for (int to = 0; to < size; ++to) columns[to][from] = lengths[from][to];
  }
  std::vector<ScheduleSimulator::Rank> ranks;
  for (int rank = 0; rank < size; ++rank) {
    const Schedule schedule = MakeSchedule({.kind = Collective::kAllToAll,
                                            .rank = rank,
                                            .size = size,
                                            .counts = columns[rank],
                                            .send_counts = lengths[rank],
                                            .in_place = place == Place::kInPlace});
    EXPECT_EQ(SentElements(schedule), Total(lengths[rank]) - lengths[rank][rank]);
    ranks.push_back({.schedule = schedule,
                     .input = Total(lengths[rank]),
                     .output = Total(columns[rank]),
                     .in_place = place == Place::kInPlace});
  }
  ScheduleSimulator simulator(std::move(ranks), size);
  simulator.Run();
  ASSERT_EQ(simulator.error(), "");
  for (int to = 0; to < size; ++to) {
    for (int from = 0; from < size; ++from) {
      for (size_t i = 0; i < lengths[from][to]; ++i) {
        ASSERT_EQ(simulator.output(to, Begin(columns[to], from) + i),
                  SymbolicValue::Of(from, Begin(lengths[from], to) + i));
      }
    }
  }
}

TEST_P(ScheduleTest, AllToAll) {
  for (size_t count : {0, 1, 2, 7, 64}) {
    SCOPED_TRACE(absl::StrCat(count, " each"));
    ExpectAllToAll({static_cast<size_t>(size()), std::vector<size_t>(size(), count)}, place());
  }
}

TEST_P(ScheduleTest, AllToAllOfUnequalCounts) {
  std::vector<std::vector<size_t>> uneven(size()), symmetric(size());
  for (int from = 0; from < size(); ++from) {
    for (int to = 0; to < size(); ++to) {
      uneven[from].push_back((from * 5 + to * 3) % 11);
      symmetric[from].push_back((from * to + from + to) % 7);
    }
  }
  ExpectAllToAll(uneven, place());
  ExpectAllToAll(symmetric, place());
}

TEST_P(ScheduleTest, NobodyLeavesABarrierBeforeAllHaveEntered) {
  for (Algorithm algorithm : {Algorithm::kDirect, Algorithm::kDissemination}) {
    for (int late = -1; late < size(); ++late) {
      SCOPED_TRACE(absl::StrCat(Name(algorithm), " without ", late));
      Group group({.kind = Collective::kBarrier, .algorithm = algorithm, .size = size()},
                  Place::kApart);
      ScheduleSimulator simulator = group.Simulate(Zero, Zero, late);
      if (size() > 1) {
        for (int rank = 0; rank < size(); ++rank) EXPECT_EQ(simulator.Done(rank), late < 0);
      }
      simulator.Run();
      EXPECT_EQ(simulator.error(), "");
    }
  }
}

TEST_P(ScheduleTest, SlicesAreEvenAndCoverAll) {
  for (size_t count : Counts(size())) {
    size_t next = 0;
    for (int rank = 0; rank < size(); ++rank) {
      const Slice slice = OwnSlice(count, rank, size());
      EXPECT_EQ(slice.begin, next);
      EXPECT_GE(slice.count, count / size());
      EXPECT_LE(slice.count, count / size() + 1);
      next += slice.count;
    }
    EXPECT_EQ(next, count);
  }
}

INSTANTIATE_TEST_SUITE_P(Worlds, ScheduleTest,
                         testing::Combine(testing::Range(1, kMostRanks + 1),
                                          testing::Values(Place::kApart, Place::kInPlace)),
                         [](const testing::TestParamInfo<std::tuple<int, Place>>& info) {
                           return absl::StrCat(
                               "World", std::get<0>(info.param),
                               std::get<1>(info.param) == Place::kApart ? "Apart" : "InPlace");
                         });

constexpr Collective kAll[] = {
    Collective::kAllReduce, Collective::kReduceScatter, Collective::kAllGather,
    Collective::kBroadcast, Collective::kReduce,        Collective::kAllToAll,
    Collective::kSend,      Collective::kReceive,       Collective::kBarrier};
constexpr uint64_t kMegabyte = 1 << 20;

bool Exists(Collective kind, Algorithm algorithm) {
  switch (algorithm) {
    case Algorithm::kDirect:
      return true;
    case Algorithm::kRing:
      return kind == Collective::kAllReduce || kind == Collective::kReduceScatter ||
             kind == Collective::kAllGather || kind == Collective::kBroadcast;
    case Algorithm::kExchange:
    case Algorithm::kDoubling:
    case Algorithm::kHalving:
      return kind == Collective::kAllReduce;
    case Algorithm::kDissemination:
      return kind == Collective::kBarrier;
  }
  return false;
}

TEST(ChooseAlgorithmTest, ChoosesOneThatExistsAndKeepsOrderWhereItMatters) {
  for (Collective kind : kAll) {
    for (DType dtype : {DType::kF32, DType::kF16, DType::kBf16}) {
      for (int size : {1, 2, 3, 8, 9, 16, 100}) {
        for (uint64_t bytes : {0 * kMegabyte, uint64_t{4}, kMegabyte / 16, kMegabyte / 4, kMegabyte,
                               1000 * kMegabyte}) {
          for (bool same_machine : {false, true}) {
            for (bool deterministic : {false, true}) {
              const Algorithm algorithm = ChooseAlgorithm({.kind = kind,
                                                           .dtype = dtype,
                                                           .bytes = bytes,
                                                           .size = size,
                                                           .same_machine = same_machine,
                                                           .deterministic = deterministic});
              EXPECT_TRUE(Exists(kind, algorithm)) << Name(kind) << " by " << Name(algorithm);
              const bool sums =
                  kind == Collective::kAllReduce || kind == Collective::kReduceScatter;
              if (sums && (deterministic || dtype != DType::kF32)) {
                EXPECT_TRUE(algorithm == Algorithm::kDirect || algorithm == Algorithm::kExchange)
                    << Name(algorithm);
              }
            }
          }
        }
      }
    }
  }
}

TEST(ChooseAlgorithmTest, LongMessagesBetweenMachinesTakeTheRing) {
  AlgorithmRequest request = {.kind = Collective::kAllReduce, .bytes = 25 * kMegabyte, .size = 4};
  EXPECT_EQ(ChooseAlgorithm(request), Algorithm::kRing);
  request.same_machine = true;
  EXPECT_EQ(ChooseAlgorithm(request), Algorithm::kDirect);
  request.size = 2;
  EXPECT_EQ(ChooseAlgorithm(request), Algorithm::kExchange);
  request.size = 4;
  request.bytes = 4096;
  EXPECT_EQ(ChooseAlgorithm(request), Algorithm::kExchange);
  request.same_machine = false;
  EXPECT_EQ(ChooseAlgorithm(request), Algorithm::kExchange);
}

TEST(ChooseAlgorithmTest, BetweenMachinesPairsAreChosenWhereTheySaveMessages) {
  const auto choice = [](int size, uint64_t kilobytes) {
    return ChooseAlgorithm(
        {.kind = Collective::kAllReduce, .bytes = kilobytes << 10, .size = size});
  };
  EXPECT_EQ(choice(2, 64), Algorithm::kDirect);
  EXPECT_EQ(choice(4, 4), Algorithm::kExchange);
  EXPECT_EQ(choice(4, 64), Algorithm::kDoubling);
  EXPECT_EQ(choice(4, 256), Algorithm::kDirect);
  EXPECT_EQ(choice(8, 4), Algorithm::kExchange);
  EXPECT_EQ(choice(8, 32), Algorithm::kDoubling);
  EXPECT_EQ(choice(16, 256), Algorithm::kHalving);
  EXPECT_EQ(choice(3, 256), Algorithm::kDirect);
}

TEST(SendAndReceiveTest, Pair) {
  std::vector<ScheduleSimulator::Rank> ranks(3);
  ranks[0] = {.schedule = MakeSchedule(
                  {.kind = Collective::kReceive, .rank = 0, .size = 3, .count = 9, .root = 2}),
              .output = 9};
  ranks[2] = {.schedule = MakeSchedule(
                  {.kind = Collective::kSend, .rank = 2, .size = 3, .count = 9, .root = 0}),
              .input = 9};
  ScheduleSimulator simulator(ranks, 1);
  simulator.Run();
  EXPECT_EQ(simulator.error(), "");
  for (size_t i = 0; i < 9; ++i) EXPECT_EQ(simulator.output(0, i), SymbolicValue::Of(2, i));
}

}  // namespace
}  // namespace muster
