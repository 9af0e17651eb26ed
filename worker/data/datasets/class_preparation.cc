#include "worker/data/datasets/class_preparation.h"

#include <utility>

#include "common/base/status_macros.h"

namespace muster {

absl::Status PrepareClasses(ClassLabels& collected, const v1::CsvPreparation* kept,
                            DatasetInfo& info, std::vector<int32_t>& labels) {
  MUSTER_ASSIGN_OR_RETURN(ClassLabels::Result result, collected.Finish());
  labels = std::move(result.labels);
  info.classes = result.classes;
  v1::DataPreparation preparation;
  auto& names = *preparation.mutable_csv()->mutable_classes();
  names.Assign(result.names.begin(), result.names.end());
  // Classes are called as in the data that the weights were trained on.
  if (kept != nullptr) names = kept->classes();
  if (!names.empty()) info.preparation = preparation.SerializeAsString();
  return absl::OkStatus();
}

}  // namespace muster
