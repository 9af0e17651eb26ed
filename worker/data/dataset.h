#ifndef MUSTER_WORKER_DATA_DATASET_H_
#define MUSTER_WORKER_DATA_DATASET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/tokenizer/tokenizer_identity.h"
#include "worker/data/batch.h"

namespace muster {

// What the examples of a dataset hold.
struct DatasetInfo {
  int64_t examples = 0;
  int64_t dense_features = 0;
  // Sparse features are present; with `fields` > 0 they are that many categorical fields.
  bool sparse = false;
  int64_t fields = 0;
  // Tokens of each example, and how many token values there are (0: no tokens).
  int64_t context = 0;
  int64_t vocabulary = 0;
  // Labels lie in [0, classes), or are -1 where there is none.
  int64_t classes = 0;
  // 1, or `context` where the example is a sequence each token of which has its successor as label.
  int64_t labels_per_example = 1;
  // By class, bytes of the source that such a label stands for: the loss in bits per byte is that
  // of all labels over the sum of these. Empty: 1 each.
  std::vector<int32_t> label_bytes;
  // Of language in tokens.
  std::optional<TokenizerIdentity> tokenizer;
  // Serialised v1::DataPreparation: how values of the data became numbers. Empty: they are numbers
  // already.
  std::string preparation;
};

// Random access to examples over an index built once, at creation. Thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const DatasetInfo& info() const = 0;

  // Of the content: equal on every machine that sees the same data.
  virtual uint64_t fingerprint() const = 0;

  // Fills `batch` (cleared first) with the examples at these indices, in order. REQUIRES: indices
  // in [0, examples).
  virtual absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASET_H_
