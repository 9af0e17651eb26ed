#ifndef MUSTER_WORKER_PREDICT_DATASET_EXAMPLES_H_
#define MUSTER_WORKER_PREDICT_DATASET_EXAMPLES_H_

#include <memory>
#include <utility>

#include "worker/predict/example_source.h"

namespace muster {

// The examples of a dataset whose files have no columns. Their one column, `example`, counts them
// from 0.
class DatasetExamples final : public ExampleSource {
 public:
  // The labels of the dataset make no difference.
  explicit DatasetExamples(std::unique_ptr<const Dataset> dataset);

  const DatasetInfo& info() const override { return info_; }
  absl::Status Next(int64_t most, Batch& batch, std::vector<std::string>& lines) override;
  char separator() const override { return ','; }
  absl::optional<absl::string_view> header() const override { return kExample; }
  bool HasColumn(absl::string_view name) const override { return name == kExample; }

 private:
  static constexpr char kExample[] = "example";

  const std::unique_ptr<const Dataset> dataset_;
  DatasetInfo info_;  // Const after construction.
  int64_t next_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_PREDICT_DATASET_EXAMPLES_H_
