#ifndef MUSTER_COMMON_TOKENIZER_BPE_UNICODE_RANGES_H_
#define MUSTER_COMMON_TOKENIZER_BPE_UNICODE_RANGES_H_

#include <cstdint>

#include "absl/types/span.h"

namespace muster {

// Code points from `first` to `last`, both included.
struct CodePointRange {
  uint32_t first;
  uint32_t last;
};

// Unicode's general categories L (letters) and N (numbers): ascending, disjoint ranges.
absl::Span<const CodePointRange> LetterRanges();
absl::Span<const CodePointRange> NumberRanges();

}  // namespace muster

#endif  // MUSTER_COMMON_TOKENIZER_BPE_UNICODE_RANGES_H_
