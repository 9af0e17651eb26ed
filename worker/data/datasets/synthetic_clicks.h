#ifndef MUSTER_WORKER_DATA_DATASETS_SYNTHETIC_CLICKS_H_
#define MUSTER_WORKER_DATA_DATASETS_SYNTHETIC_CLICKS_H_

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

// The fields of SyntheticClicksData in proto/job.proto.
struct SyntheticClicksOptions {
  uint64_t examples = 0;
  uint32_t fields = 0;
  uint64_t cardinality = 0;
  uint32_t numeric = 0;
  uint64_t seed = 0;
};

// A click log drawn from a known logistic model, so that the best possible result is known, too.
// Example i:
//   value of field f      v_f in [0, cardinality); P(v) is proportional to ln((v + 2) / (v + 1)),
//                         nearly 1 / (v + 1), the power law of words and of advertisements
//   numeric feature j     x_j, normal, mean 0, variance 1
//   probability of click  1 / (1 + exp(-z)), z = -1 + sum of all a[f, v_f] + sum of all b[j] x_j
//   label                 1 with that probability, else 0
// The weights a and b are normal with mean 0 and variance 4 / (fields + numeric). Everything is a
// pure function of the seed and the indices, made when read: no memory, any size.
class SyntheticClicks : public Dataset {
 public:
  // InvalidArgument, naming the field of DataSpec: no examples, or more than 2^40; neither fields
  // nor numeric features, or more than 65536; fields of no value, or of more than 2^48.
  static absl::StatusOr<std::unique_ptr<const SyntheticClicks>> Create(
      const SyntheticClicksOptions& options);

  const DatasetInfo& info() const override { return info_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  absl::Status Read(absl::Span<const int64_t> indices, Batch& batch) const override;

  // Returns the probability of a click with which an example's label was drawn. REQUIRES: as Read.
  double TrueProbability(int64_t index) const;

 private:
  explicit SyntheticClicks(const SyntheticClicksOptions& options);

  uint64_t FieldValue(int64_t index, uint32_t field) const;
  float NumericFeature(int64_t index, uint32_t feature) const;
  int32_t Label(int64_t index) const;
  double Logit(int64_t index) const;

  // All const after construction.
  const SyntheticClicksOptions options_;
  const Philox field_values_;
  const Philox field_weights_;
  const Philox numeric_features_;
  const Philox label_draws_;
  // Standard deviation of the weights.
  const double spread_;
  std::vector<double> numeric_weights_;
  DatasetInfo info_;
  uint64_t fingerprint_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_DATASETS_SYNTHETIC_CLICKS_H_
