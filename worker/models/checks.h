#ifndef MUSTER_WORKER_MODELS_CHECKS_H_
#define MUSTER_WORKER_MODELS_CHECKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "common/base/model_limits.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"

namespace muster {

// The checks that models have in common. All return InvalidArgument with a message that names what
// was checked, its value, and what would be right.

// Checks a field of the model specification, by its path such as "model.mlp.classes".
absl::Status CheckField(absl::string_view field, uint64_t value, uint64_t low, uint64_t high);

// Checks the widths of hidden layers. REQUIRES: min_layers is 0 or 1.
absl::Status CheckHidden(absl::string_view field, absl::Span<const uint32_t> hidden,
                         int min_layers);

// Checks that a model that predicts `classes` classes, as `field` says, covers those of the data.
absl::Status CheckClasses(absl::string_view field, uint64_t classes, const DatasetInfo& data);

// Returns what the data hold, for messages: "120 dense features", "13 dense features and 26
// categorical fields".
std::string DescribeData(const DatasetInfo& data);

// Checks a batch's labels: one per example, each in [0, classes).
absl::Status CheckLabels(const Batch& batch, int64_t classes);

// Checks a batch's dense features: `features` per example.
absl::Status CheckDense(const Batch& batch, int64_t features);

// Checks a batch's sparse features: whole rows, keys and values in equal number, which a 32-bit
// index can count.
absl::Status CheckSparse(const Batch& batch);

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_CHECKS_H_
