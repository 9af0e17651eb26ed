#ifndef MUSTER_WORKER_DATA_DATASETS_SYNTHETIC_CLASSIFICATION_H_
#define MUSTER_WORKER_DATA_DATASETS_SYNTHETIC_CLASSIFICATION_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/base/philox.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"

namespace muster {

// The fields of SyntheticClassificationData in proto/job.proto.
struct SyntheticClassificationOptions {
  uint64_t examples = 0;
  uint32_t features = 0;
  uint32_t classes = 0;
  uint64_t seed = 0;
};

// Gaussian clusters: an example's class is uniform, its dense features are its class's mean plus
// normal noise of variance 1. Means are normal with variance 1 in each feature, so two means lie
// about sqrt(2 features) apart: with 2 features clusters overlap much, with 20 hardly. Everything
// is a pure function of the seed and the indices, made when read; only the means are held in
// memory.
class SyntheticClassification : public Dataset {
 public:
  // InvalidArgument, naming the field of DataSpec: no examples, or more than 2^40; no features;
  // fewer than 2 classes; more than 2^26 features times classes.
  static absl::StatusOr<std::unique_ptr<const SyntheticClassification>> Create(
      const SyntheticClassificationOptions& options);

  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override;

  // Returns a class's mean, [features].
  absl::Span<const float> mean(int32_t label) const;

 private:
  explicit SyntheticClassification(const SyntheticClassificationOptions& options);

  // All const after construction.
  const Philox labels_;
  const Philox noise_;
  // [classes, features]
  std::vector<float> means_;
  DatasetInfo info_;
  uint64_t fingerprint_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_SYNTHETIC_CLASSIFICATION_H_
