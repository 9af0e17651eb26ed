#ifndef MUSTER_COMMON_PACKING_PACKING_FIGURES_H_
#define MUSTER_COMMON_PACKING_PACKING_FIGURES_H_

#include <cstdint>

#include "absl/types/span.h"

namespace muster {

// The figures of documents in windows of `context` tokens.
struct PackingFigures {
  uint64_t windows = 0;
  // Tokens of all windows that belong to no document.
  uint64_t padding = 0;
  // The sum over the documents' parts in all windows of their squared lengths: twice the number of
  // pairs of tokens that attention within documents looks at. A token of padding sees itself alone.
  double squares = 0;

  // Returns the share of windows that is padding. REQUIRES: there are windows.
  double PaddingShare(int64_t context) const {
    return static_cast<double>(padding) /
           (static_cast<double>(windows) * static_cast<double>(context));
  }
  // Returns the mean over all tokens of the length of their document's part, in [1, context]: what
  // stands for the context where operations of attention are counted. REQUIRES: there are windows.
  double MeanDocument(int64_t context) const {
    return squares / (static_cast<double>(windows) * static_cast<double>(context));
  }
};

inline double SquareOf(uint64_t length) {
  return static_cast<double>(length) * static_cast<double>(length);
}

// Returns the figures of documents that follow one another and are cut wherever a window ends
// (v1::SequenceData::WITHIN_DOCUMENTS). Document i ends before token ends[i]; tokens at the end
// that fill no window, or have no token after them, are not used. REQUIRES: `ends` rises from above
// 0; context >= 1.
PackingFigures FiguresOfStream(absl::Span<const uint64_t> ends, int64_t context);

}  // namespace muster

#endif  // MUSTER_COMMON_PACKING_PACKING_FIGURES_H_
