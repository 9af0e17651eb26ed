#ifndef MUSTER_COMMON_PACKING_WHOLE_DOCUMENTS_H_
#define MUSTER_COMMON_PACKING_WHOLE_DOCUMENTS_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/packing/packing_figures.h"

namespace muster {

// Divides documents into windows of T tokens, whole where they fit
// (v1::SequenceData::WHOLE_DOCUMENTS).
//
// A document of n tokens teaches n - 1 labels, each token the next one, so it takes n - 1 places:
// its last token predicts nothing, and nobody sees it. The first floor((n - 1) / T) · T places are
// windows of their own. What is left, the document's piece, shares a window with other pieces by
// best fit decreasing among the pieces of kBlock documents that follow one another: the longest
// piece first, each into the window in which it leaves the least room, or into a new one. So every
// label of the data is in exactly one window, and a window has at most one part of a document.
// Windows are in the order of their first documents, and a window's documents in that of the data:
// examples that are held out at the end are the end of the data, as nearly as that can be.
//
// With T = 4 the documents of 8, 3, 2 and 4 tokens take 7, 2, 1 and 3 places. The windows are
// [document 0, tokens 0..3], [document 0, tokens 4..6, and document 2], [document 1 and padding]
// and [document 3 and padding].
//
// Takes 4 bytes for each document and 4 for each window; making it takes O(log kBlock) for each
// document, and memory for kBlock of them. A function of the documents alone. Immutable, so
// thread-safe.
class WholeDocuments {
 public:
  static constexpr size_t kBlock = size_t{1} << 16;

  // A part of a document in a window: its `count` tokens from `first` on, each of which has the
  // next token of the data as its label.
  struct Piece {
    uint64_t first = 0;
    int64_t count = 0;
  };

  // Document i ends before token ends[i]. `ends` must outlive the windows. InvalidArgument: there
  // are more documents or windows than a 32-bit number can count. REQUIRES: `ends` rises from above
  // 0; context >= 1.
  static absl::StatusOr<std::unique_ptr<const WholeDocuments>> Create(
      absl::Span<const uint64_t> ends, int64_t context);

  // Returns the most that bytes() can be.
  static uint64_t BytesAtMost(uint64_t documents, uint64_t tokens, uint64_t context) {
    // A document's piece, or a window of `context` places, and where either begins.
    return sizeof(uint32_t) * (2 * (documents + tokens / std::max<uint64_t>(1, context)) + 1);
  }

  int64_t windows() const { return static_cast<int64_t>(window_begins_.size()) - 1; }
  const PackingFigures& figures() const { return figures_; }
  uint64_t bytes() const {
    return sizeof(uint32_t) * (documents_.capacity() + window_begins_.capacity());
  }

  // Replaces `pieces` by those of a window, in order; they have at least one token and at most
  // `context`. REQUIRES: window in [0, windows()).
  void PiecesOf(int64_t window, std::vector<Piece>& pieces) const;

 private:
  WholeDocuments(absl::Span<const uint64_t> ends, uint64_t context)
      : ends_(ends), context_(context) {}

  // Adds the windows of documents [first, end).
  void AddBlock(size_t first, size_t end);
  uint64_t BeginOf(size_t document) const { return document == 0 ? 0 : ends_[document - 1]; }
  uint64_t PlacesOf(size_t document) const { return ends_[document] - BeginOf(document) - 1; }

  const absl::Span<const uint64_t> ends_;
  const uint64_t context_;
  // All const after Create. The documents of all windows, one window after another; a window has
  // those from its begin to the begin of the next one.
  std::vector<uint32_t> documents_;
  std::vector<uint32_t> window_begins_;
  PackingFigures figures_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_PACKING_WHOLE_DOCUMENTS_H_
