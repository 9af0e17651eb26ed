#ifndef MUSTER_COMMON_COLLECTIVES_SCHEDULE_SIMULATOR_H_
#define MUSTER_COMMON_COLLECTIVES_SCHEDULE_SIMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "common/collectives/schedule.h"

namespace muster {

// A symbolic element: which element of which ranks' inputs it sums up, in the order of addition.
struct SymbolicValue {
  static SymbolicValue Of(int rank, size_t index) {
    return {.index = index,
            .ranks = static_cast<uint64_t>(rank),
            .terms = 1,
            .shape = static_cast<uint64_t>(rank) + 1};
  }

  std::vector<int> Order() const;
  bool operator==(const SymbolicValue&) const = default;

  size_t index = 0;
  // Ranks of the terms, four bits each, the first one highest.
  uint64_t ranks = 0;
  // Number of terms; 0 if never written.
  int terms = 0;
  // A fingerprint of what was added to what: sums of equal shape have the same bits.
  uint64_t shape = 0;
  // Number of transfers that completed the value.
  int completed = 0;
};

// Runs the schedules of all ranks of a group on symbols, an element at a time, in random order,
// with pipes that hold one element, and notes whatever goes wrong.
class ScheduleSimulator {
 public:
  struct Rank {
    Schedule schedule;
    // Number of elements of each buffer.
    size_t input = 0;
    size_t output = 0;
    // True if the smaller of the two buffers lies in the larger, at these positions.
    bool in_place = false;
    size_t input_begin = 0;
    size_t output_begin = 0;
  };

  ScheduleSimulator(std::vector<Rank> ranks, uint32_t seed);

  // Runs until nothing moves any more. Rank `frozen` does nothing meanwhile; -1 for none.
  void Run(int frozen = -1);

  bool Done(int rank) const;
  SymbolicValue output(int rank, size_t index) const;
  // Returns the value that now lies where the input was.
  SymbolicValue input(int rank, size_t index) const;
  // Returns the first thing that went wrong; empty if nothing did.
  const std::string& error() const { return error_; }

 private:
  struct State {
    // Input, output and scratch; buffers that overlap share their cells.
    std::vector<SymbolicValue> memory;
    size_t base[3] = {};
    size_t size[3] = {};
    // Number of elements moved, by transfer.
    std::vector<size_t> moved;
    // Indices of the transfers that are yet to end, by peer; the first one may move.
    std::vector<std::deque<int>> sends;
    std::vector<std::deque<int>> receives;
    std::vector<int> pending;
  };

  void CheckShape(int rank);
  void CheckPairs();
  bool MayMove(int rank, int index) const;
  // Moves one element if possible now.
  bool Step(int rank, int index);
  bool Sweep(int frozen, bool random_pauses);
  void Finish(int rank, int index);
  bool ReadsLater(int rank, int reader, size_t cell) const;
  void Write(int rank, int index, const SymbolicValue& value);
  SymbolicValue Add(const SymbolicValue& left, const SymbolicValue& right);
  void Fail(int rank, int index, const std::string& what);

  const std::vector<Rank> ranks_;
  std::vector<State> states_;
  // pipes_[from][to]
  std::vector<std::vector<std::deque<SymbolicValue>>> pipes_;
  std::mt19937 random_;
  std::string error_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_COLLECTIVES_SCHEDULE_SIMULATOR_H_
