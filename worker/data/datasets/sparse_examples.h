#ifndef MUSTER_WORKER_DATA_DATASETS_SPARSE_EXAMPLES_H_
#define MUSTER_WORKER_DATA_DATASETS_SPARSE_EXAMPLES_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "worker/data/batch.h"

namespace muster {

// Sparse features of examples in compressed rows: 12 bytes per entry, 8 per example.
class SparseExamples {
 public:
  // Adds an entry to the last example, which EndExample ends.
  void Add(uint64_t key, float value) {
    keys_.push_back(key);
    values_.push_back(value);
  }
  void EndExample() { offsets_.push_back(static_cast<int64_t>(keys_.size())); }

  // Returns the number of examples that were ended.
  int64_t examples() const { return static_cast<int64_t>(offsets_.size()) - 1; }

  // Appends the entries of examples to a batch.
  void Read(absl::Span<const int64_t> indices, Batch& batch) const {
    for (const int64_t index : indices) {
      const int64_t begin = offsets_[index];
      const int64_t end = offsets_[index + 1];
      batch.keys.insert(batch.keys.end(), keys_.begin() + begin, keys_.begin() + end);
      batch.values.insert(batch.values.end(), values_.begin() + begin, values_.begin() + end);
      batch.offsets.push_back(static_cast<int64_t>(batch.keys.size()));
    }
  }

 private:
  // Example i has the entries [offsets_[i], offsets_[i + 1]).
  std::vector<int64_t> offsets_ = {0};
  std::vector<uint64_t> keys_;
  std::vector<float> values_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_SPARSE_EXAMPLES_H_
