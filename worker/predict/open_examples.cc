#include "worker/predict/open_examples.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/job/regression.h"
#include "proto/data_preparation.pb.h"
#include "proto/job.pb.h"
#include "worker/data/datasets/idx_dataset.h"
#include "worker/data/datasets/open_dataset.h"
#include "worker/predict/csv_examples.h"
#include "worker/predict/dataset_examples.h"

namespace muster {
namespace {

absl::Status NoPreparation() {
  return absl::InvalidArgumentError(
      "the weights do not tell how their data were prepared, as those that an earlier release "
      "trained; train the job anew");
}

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
      "; examples are predicted from files of data.csv, data.libsvm and data.idx"));
}

}  // namespace muster
