#ifndef MUSTER_COMMON_STEP_STEP_BATCHES_H_
#define MUSTER_COMMON_STEP_STEP_BATCHES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace muster {

namespace v1 {
class Adjustment;
class JobSpec;
}  // namespace v1

// A place in the endless stream of training examples: `examples` of them were taken before `clock`.
struct DataPosition {
  int64_t clock = 0;
  int64_t examples = 0;

  friend bool operator==(const DataPosition&, const DataPosition&) = default;
};

// The examples of a step: positions [begin, begin + size) of the stream.
struct StepBatch {
  int64_t begin = 0;
  int64_t size = 0;

  int64_t end() const { return begin + size; }
};

// Says which positions of the stream of training examples each step has: batches follow one
// another, and their size changes at clocks. All that depends on the number of examples before a
// clock asks this type: what ranks read, where a job ends, where a mixture's weights change, and
// where a job that resumes another goes on.
//
// It is kept as positions in order of clocks. Between two of them all batches are equally large
// (where a record of an older release lacks positions, equal up to rounding); after the last one
// they have `size`. Batches of 4, of 8 from clock 2 on:
//
//   clock       0     1     2      3        positions (0, 0), (2, 8); size 8
//   examples  0..3  4..7  8..15  16..23
//
// Examples that are passed over lie between two positions of the same clock.
class StepBatches {
 public:
  // No position is beyond this one; it stands for all that would be.
  static constexpr int64_t kEndless = int64_t{1} << 62;

  // All batches have `size`, which is at least 0; it is 0 where only a program knows its examples.
  explicit StepBatches(int64_t size);
  // Batches of `size` begin at the last of the positions, which are in order of clocks and do not
  // name (0, 0), with which every stream begins.
  StepBatches(absl::Span<const DataPosition> positions, int64_t size);

  // Gives batches from the clock on another size. REQUIRES: `clock` is not before the last
  // position.
  void SetSize(int64_t clock, int64_t size);

  // Returns the batch of a clock. REQUIRES: clock >= 0.
  StepBatch At(int64_t clock) const;
  // Returns the first clock before which at least so many examples were taken. REQUIRES: no batch
  // from the last position on is empty.
  int64_t ClockAfter(int64_t examples) const;
  // Returns the sizes of the smallest and the largest batch of clocks from this one on.
  struct Sizes {
    int64_t smallest = 0;
    int64_t largest = 0;
  };
  Sizes SizesFrom(int64_t clock) const;
  // Returns the positions before a clock at which sizes change, and that of the clock itself,
  // without (0, 0): those with which the constructor makes the same batches before the clock.
  std::vector<DataPosition> PositionsUpTo(int64_t clock) const;

 private:
  std::vector<DataPosition> positions_ = {{}};
  int64_t size_;
};

// Returns the size of the batch at a clock as the job's specification has it: that of the last of
// its batch_changes at or before the clock. REQUIRES: a valid specification.
int64_t SpecifiedBatchSize(const v1::JobSpec& spec, int64_t clock);

// Returns the batches of a job: up to the last of `positions` those of the jobs that it goes on
// from, then as specified or decided. `adjustments` is what was decided, in order of clocks: a
// batch size holds up to the next decision, and 0 stands for that of the specification. Positions
// tell of examples that were passed over. REQUIRES: a valid specification.
StepBatches BatchesOf(const v1::JobSpec& spec, absl::Span<const DataPosition> positions = {},
                      absl::Span<const v1::Adjustment> adjustments = {});

}  // namespace muster

#endif  // MUSTER_COMMON_STEP_STEP_BATCHES_H_
