#include "worker/predict/open_examples.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/regression.h"
#include "proto/data_preparation.pb.h"
#include "proto/job.pb.h"
#include "worker/data/datasets/idx_dataset.h"
#include "worker/data/datasets/open_dataset.h"
#include "worker/predict/csv_examples.h"

namespace muster {
namespace {

absl::Status NoPreparation() {
  return absl::InvalidArgumentError(
      "the weights do not tell how their data were prepared, as those that an earlier release "
      "trained; train the job anew");
}

// The examples of a dataset whose files have no columns. Their one column, `example`, counts them
// from 0. The labels of the dataset make no difference.
class DatasetExamples final : public ExampleSource {
 public:
  explicit DatasetExamples(std::unique_ptr<const Dataset> dataset)
      : dataset_(std::move(dataset)), info_(dataset_->info()) {
    info_.examples = 0;
    if (!info_.target.has_value()) info_.classes = 2;
  }

  const DatasetInfo& info() const override { return info_; }
  absl::Status Next(int64_t most, Batch& batch, std::vector<std::string>& lines) override {
    const int64_t end = std::min(next_ + most, dataset_->info().examples);
    std::vector<int64_t> indices;
    lines.clear();
    for (; next_ < end; ++next_) {
      indices.push_back(next_);
      lines.push_back(absl::StrCat(next_));
    }
    MUSTER_RETURN_IF_ERROR(dataset_->Read(indices, batch));
    std::fill(batch.labels.begin(), batch.labels.end(), 0);
    std::fill(batch.targets.begin(), batch.targets.end(), 0.0f);
    return absl::OkStatus();
  }
  char separator() const override { return ','; }
  absl::optional<absl::string_view> header() const override { return kExample; }
  bool HasColumn(absl::string_view name) const override { return name == kExample; }

 private:
  static constexpr char kExample[] = "example";

  const std::unique_ptr<const Dataset> dataset_;
  DatasetInfo info_;  // Const after construction.
  int64_t next_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ExampleSource>> OpenExamples(
    const v1::JobSpec& spec, const v1::DataPreparation& preparation) {
  const LabelKind labels = RegressionOf(spec.model()) ? LabelKind::kNumber : LabelKind::kClass;
  const v1::DataSpec& data = spec.data();
  switch (data.reader_case()) {
    case v1::DataSpec::kCsv:
      if (!preparation.has_csv()) return NoPreparation();
      return CsvExamples::Create(data.csv(), labels, preparation.csv());
    case v1::DataSpec::kLibsvm: {
      if (labels == LabelKind::kNumber && !preparation.has_csv()) return NoPreparation();
      v1::DataSpec in_order;
      *in_order.mutable_libsvm() = data.libsvm();
      MUSTER_ASSIGN_OR_RETURN(
          std::unique_ptr<const Dataset> dataset,
          OpenDataset(in_order,
                      {.labels = labels, .preparation = preparation.SerializeAsString()}));
      return std::make_unique<DatasetExamples>(std::move(dataset));
    }
    case v1::DataSpec::kLibffm: {
      v1::DataSpec in_order;
      *in_order.mutable_libffm() = data.libffm();
      DatasetOptions options;
      if (spec.model().has_deep_fm()) options.features = FeatureForm::kOnePerField;
      options.preparation = preparation.SerializeAsString();
      MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Dataset> dataset,
                              OpenDataset(in_order, options));
      return std::make_unique<DatasetExamples>(std::move(dataset));
    }
    case v1::DataSpec::kIdx: {
      MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const Dataset> dataset,
                              IdxDataset::CreateUnlabelled(data.idx().images()));
      return std::make_unique<DatasetExamples>(std::move(dataset));
    }
    default:
      break;
  }
  const google::protobuf::FieldDescriptor* const reader =
      v1::DataSpec::descriptor()->FindFieldByNumber(data.reader_case());
  return absl::InvalidArgumentError(absl::StrCat(
      "the job's data are ", reader == nullptr ? "none" : absl::StrCat("data.", reader->name()),
      "; examples are predicted from files of data.csv, data.libsvm, data.libffm and data.idx"));
}

}  // namespace muster
