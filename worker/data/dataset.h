#ifndef MUSTER_WORKER_DATA_DATASET_H_
#define MUSTER_WORKER_DATA_DATASET_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "common/job/label_kind.h"
#include "common/tokenizer/tokenizer_identity.h"
#include "worker/data/batch.h"

namespace muster {

// How numbers to predict are normalised: a value in its own unit is target * deviation + mean.
struct TargetScale {
  double mean = 0;
  // Above 0.
  double deviation = 1;
};

// One of several sources whose examples training mixes (worker/data/sampling/mixture.h).
struct DatasetSource {
  std::string name;
  // The source's training examples are [first, first + training).
  int64_t first = 0;
  int64_t training = 0;
};

// The sparse features that a model reads of an example.
enum class FeatureForm {
  // Any number of entries, with values.
  kEntries,
  // One of each categorical field, with value 1 (DatasetInfo::fields).
  kOnePerField,
};

// The shape of a dataset's examples.
struct DatasetInfo {
  int64_t examples = 0;
  int64_t dense_features = 0;
  // True with sparse features. If `fields` > 0, they are that many categorical fields.
  bool sparse = false;
  int64_t fields = 0;
  // Number of tokens per example, and of token values; 0 without tokens.
  int64_t context = 0;
  int64_t vocabulary = 0;
  // Labels lie in [0, classes); -1 stands for no label.
  int64_t classes = 0;
  // Set if examples have Batch::targets instead of labels; `classes` is 0 then.
  std::optional<TargetScale> target;
  // 1, or `context` for sequences, where each token's label is the token that follows.
  int64_t labels_per_example = 1;
  // Bytes of the source that a label of each class stands for: the loss in bits per byte is the
  // loss of all labels divided by the sum of their bytes. Empty means 1 byte each.
  std::vector<int32_t> label_bytes;
  // Set for sequences of tokens.
  std::optional<TokenizerIdentity> tokenizer;
  // Set if training mixes several sources: these, in order of `first`, followed by all held-out
  // examples.
  std::vector<DatasetSource> sources;
  // Serialised v1::DataPreparation: how values became numbers. Empty if they were numbers already.
  std::string preparation;
};

// Random access to examples by an index that is built at creation. Thread-safe.
class Dataset {
 public:
  virtual ~Dataset() = default;

  virtual const DatasetInfo& info() const = 0;

  // Returns a fingerprint of the content, equal on every machine that sees the same data.
  virtual uint64_t fingerprint() const = 0;

  // Fills `batch` (cleared first) with the examples at these indices, in order. REQUIRES: indices
  // in [0, examples).
  virtual absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASET_H_
