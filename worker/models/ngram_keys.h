#ifndef MUSTER_WORKER_MODELS_NGRAM_KEYS_H_
#define MUSTER_WORKER_MODELS_NGRAM_KEYS_H_

#include <cstdint>

#include "absl/types/span.h"

namespace muster {

// The rows that an n-gram model looks up for one example. Order o stands for the o tokens before
// the predicted one; tokens run from the oldest to the newest, -1 standing before the start of the
// data, a symbol of its own.
//
// The hash of order o mixes that of order o - 1 with the token o places back, so all orders
// together take one pass; o itself goes into the key. keys[o - 1] is that 64-bit value, or with
// `buckets` > 0 its share of [0, buckets) moved to
// [(o - 1) · buckets, o · buckets), so that orders never share a row. Values are stable: they are
// stored in checkpoints.
//
// REQUIRES: tokens.size() >= keys.size(), every token >= -1, keys.size() · buckets < 2^64.
void NgramKeys(absl::Span<const int32_t> tokens, uint64_t buckets, absl::Span<uint64_t> keys);

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_NGRAM_KEYS_H_
