#ifndef MUSTER_COMMON_KERNELS_TRANSFORMER_DROPOUT_H_
#define MUSTER_COMMON_KERNELS_TRANSFORMER_DROPOUT_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "common/kernels/host_device.h"

namespace muster {

// Which elements one use of dropout drops at one clock: a pure function of the job's seed, the
// use's name (such as "block3.attention"), the clock, the example's global index and the
// element's index within the example. So every worker, every repetition, backward and every kind of
// device finds the same mask again, and none is stored.
//
// Element e of example x is decided by 16 bits of the generator: word e / 2 % 4 of
// Philox(seed, "dropout", name).At(clock << 32 | e / 8, x), its low half for even e, its high half
// for odd. It is dropped where they are below round(probability · 65536), and else scaled by
// 65536 / (65536 - round(probability · 65536)), so that the mean stays exactly. Indices e stay
// below 2^35, clocks count modulo 2^32.
struct DropoutMask {
  DropoutMask(uint64_t seed, absl::string_view name, uint64_t clock, float probability);

  // Of the generator.
  uint64_t key;
  uint64_t clock;
  // Dropped below it; in [0, 65535].
  uint32_t threshold;
  float scale;
};

// The rows of each sequence that one of several ranks has which divide sequences zig-zag: two
// pieces of `half` rows, one behind the other in the rank's arrays, that begin with rows `first`
// and `second` of the whole sequence. All zeros: whole sequences.
struct SequenceShare {
  // Rows of the whole sequence.
  int64_t whole = 0;
  int64_t half = 0;
  int64_t first = 0;
  int64_t second = 0;

  // Returns how many elements of the arrays lie side by side in an example of `size` elements, too.
  MUSTER_HOST_DEVICE constexpr int64_t Run(int64_t size) const {
    return whole == 0 ? size : size / whole * half;
  }
};

// Element `element` of an example; `example` counts from the arrays' first.
struct ExampleElement {
  int64_t example;
  int64_t element;
};

// Returns where the arrays' element `at` lies, of which `run` (SequenceShare::Run) is at /
// run(size) and `within` is at % run(size): the one rule for processors and devices.
MUSTER_HOST_DEVICE constexpr ExampleElement PlaceInExample(const SequenceShare& share, int64_t size,
                                                           int64_t run, int64_t within) {
  if (share.whole == 0) return {run, within};
  const int64_t row = run % 2 == 0 ? share.first : share.second;
  return {run / 2, size / share.whole * row + within};
}

// An array of `elements` elements, a part of dense examples of `size` elements each. It begins with
// element `first_element` of the example with the global index `first_example`; every rank and
// micro-batch names its own. With a `share`, the arrays hold its rows of each example (whose rows
// have size / whole elements), and first_element counts those.
struct DropoutShape {
  int64_t elements = 0;
  int64_t size = 0;
  uint64_t first_example = 0;
  int64_t first_element = 0;
  SequenceShare share;
};

// y = x · factor. y may be x. Backward is the same function on gradients. On ComputeThreads()
// threads; the same bits on any number of them, and on every instruction set. Thread-safe. (Dropout
// of a branch that is added to the residual stream is part of Norm.)
void Dropout(const DropoutMask& mask, const DropoutShape& shape, const float* x, float* y);

}  // namespace muster

#endif  // MUSTER_COMMON_KERNELS_TRANSFORMER_DROPOUT_H_
