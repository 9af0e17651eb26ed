#ifndef MUSTER_WORKER_DATA_BATCH_H_
#define MUSTER_WORKER_DATA_BATCH_H_

#include <cstdint>
#include <vector>

namespace muster {

// B examples as a model takes them. DatasetInfo says which parts are filled. All arrays are
// row-major.
struct Batch {
  int64_t examples = 0;
  // f32 [B, dense_features].
  std::vector<float> dense;
  // Sparse features in compressed rows: example i has the entries [offsets[i], offsets[i + 1]).
  // With categorical fields every example has one entry per field, in field order, with value 1.
  std::vector<int64_t> offsets;
  std::vector<uint64_t> keys;
  std::vector<float> values;
  // int32 [B, context]. With one label per example: the tokens before the label, oldest first, -1
  // before the start of the data. With one label per token: the sequence, without -1.
  std::vector<int32_t> tokens;
  // int32 [B, labels_per_example]: a class, or the next token. With one label per token, the label
  // of tokens[b, t] is the token that follows. -1 means no label, which counts in no loss.
  std::vector<int32_t> labels;
  // int32 [B, context], where several documents may share the tokens of an example: the position of
  // each token within its document, 0 at a document's first token in the example and one more at
  // each of the others. Tokens see those of their own document alone, and a label that belongs to
  // another document is -1. Empty: the tokens of an example are one document.
  std::vector<int32_t> positions;
  // f32 [B]: the number to predict, normalised (DatasetInfo::target). `labels` is empty then.
  std::vector<float> targets;

  void Clear() {
    examples = 0;
    dense.clear();
    offsets.assign(1, 0);
    keys.clear();
    values.clear();
    tokens.clear();
    labels.clear();
    positions.clear();
    targets.clear();
  }
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_BATCH_H_
