#ifndef MUSTER_WORKER_DATA_BATCH_H_
#define MUSTER_WORKER_DATA_BATCH_H_

#include <cstdint>
#include <vector>

namespace muster {

// Examples as a model takes them. Which parts are filled is the dataset's DatasetInfo; the others
// are empty. B examples, all row-major.
struct Batch {
  int64_t examples = 0;
  // f32 [B, dense_features].
  std::vector<float> dense;
  // Sparse features in compressed rows: those of example i are [offsets[i], offsets[i + 1]). With
  // categorical fields every example has exactly one entry per field, in field order, its value 1.
  std::vector<int64_t> offsets;
  std::vector<uint64_t> keys;
  std::vector<float> values;
  // int32 [B, context]. With one label an example: the tokens before it, oldest first, -1 before
  // the start of the data. With one label a token: the sequence itself, no -1.
  std::vector<int32_t> tokens;
  // Class, 0 or 1, or the next token. [B, labels_per_example]: with one label a token, that of
  // tokens[b, t] is the token that follows it. -1: this place has none and counts in no loss.
  std::vector<int32_t> labels;

  void Clear() {
    examples = 0;
    dense.clear();
    offsets.assign(1, 0);
    keys.clear();
    values.clear();
    tokens.clear();
    labels.clear();
  }
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_BATCH_H_
