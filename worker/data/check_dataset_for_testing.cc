#include "worker/data/check_dataset_for_testing.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "absl/strings/match.h"
#include "common/fuzz/fuzz_check.h"

namespace muster {

void CheckDataset(const absl::StatusOr<std::unique_ptr<const Dataset>>& dataset,
                  const std::string& path) {
  if (!dataset.ok()) {
    FUZZ_CHECK(dataset.status().code() == absl::StatusCode::kInvalidArgument);
    FUZZ_CHECK(absl::StrContains(dataset.status().message(), path));
    FUZZ_CHECK(dataset.status().message().size() < 10000);
    return;
  }
  const DatasetInfo& info = (*dataset)->info();
  FUZZ_CHECK(info.examples > 0);
  std::vector<int64_t> indices;
  for (int64_t i = std::min<int64_t>(info.examples, 100); i-- > 0;) indices.push_back(i);
  Batch batch;
  FUZZ_CHECK((*dataset)->Read(indices, batch).ok());
  FUZZ_CHECK(batch.examples == static_cast<int64_t>(indices.size()));
  FUZZ_CHECK(batch.dense.size() == indices.size() * info.dense_features);
  FUZZ_CHECK(batch.tokens.size() == indices.size() * info.context);
  FUZZ_CHECK(batch.labels.size() == (info.target.has_value() ? 0 : indices.size()));
  FUZZ_CHECK(batch.targets.size() == (info.target.has_value() ? indices.size() : 0));
  for (const int32_t label : batch.labels) FUZZ_CHECK(label >= 0 && label < info.classes);
  for (const float target : batch.targets) FUZZ_CHECK(std::isfinite(target));
  for (const float value : batch.dense) FUZZ_CHECK(std::isfinite(value));
  for (const float value : batch.values) FUZZ_CHECK(std::isfinite(value));
  FUZZ_CHECK(batch.offsets.size() == (info.sparse ? indices.size() + 1 : 1));
  FUZZ_CHECK(batch.offsets.back() == static_cast<int64_t>(batch.keys.size()));
  FUZZ_CHECK(batch.keys.size() == batch.values.size());
  if (info.fields > 0) FUZZ_CHECK(batch.keys.size() == indices.size() * info.fields);
}

}  // namespace muster
