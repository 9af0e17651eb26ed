#include "server/coordinator/model_validator.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/model_limits.h"
#include "common/base/status_macros.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using v1::DataSpec;
using v1::ModelSpec;

absl::Status Invalid(absl::string_view field, absl::string_view value, absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat(field, " is ", value, "; ", remedy));
}

absl::Status AtLeast(absl::string_view field, uint64_t value, uint64_t least) {
  if (value >= least) return absl::OkStatus();
  return Invalid(field, absl::StrCat(value), absl::StrCat("it must be at least ", least));
}

absl::Status Within(absl::string_view field, uint64_t value, uint64_t least, uint64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Invalid(field, absl::StrCat(value), absl::StrCat("it must be from ", least, " to ", most));
}

absl::Status Path(absl::string_view field, const std::string& path) {
  if (!path.empty()) return absl::OkStatus();
  return Invalid(field, "empty", "give a path that every worker can read");
}

absl::Status HiddenSizes(absl::string_view field,
                         const google::protobuf::RepeatedField<uint32_t>& hidden) {
  if (hidden.size() > kMaxHiddenLayers) {
    return Invalid(field, absl::StrCat(hidden.size(), " layers"),
                   absl::StrCat("there may be at most ", kMaxHiddenLayers));
  }
  for (int i = 0; i < hidden.size(); ++i) {
    MUSTER_RETURN_IF_ERROR(Within(absl::StrCat(field, "[", i, "]"), hidden[i], 1, kMaxWidth));
  }
  return absl::OkStatus();
}

absl::Status ValidateModel(const ModelSpec& model) {
  switch (model.model_case()) {
    case ModelSpec::kLogisticRegression:
      if (model.logistic_regression().classes() == 1) {
        return Invalid("model.logistic_regression.classes", "1",
                       "2 (or 0) is the binary form, more the multinomial one");
      }
      return Within("model.logistic_regression.classes", model.logistic_regression().classes(), 0,
                    kMaxWidth);
    case ModelSpec::kMlp:
      MUSTER_RETURN_IF_ERROR(HiddenSizes("model.mlp.hidden", model.mlp().hidden()));
      return Within("model.mlp.classes", model.mlp().classes(), 2, kMaxWidth);
    case ModelSpec::kNgram:
      MUSTER_RETURN_IF_ERROR(Within("model.ngram.orders", model.ngram().orders(), 1, kMaxOrders));
      MUSTER_RETURN_IF_ERROR(
          Within("model.ngram.embedding_dim", model.ngram().embedding_dim(), 1, kMaxEmbeddingDim));
      return Within("model.ngram.hidden", model.ngram().hidden(), 1, kMaxWidth);
    case ModelSpec::kDeepFm:
      MUSTER_RETURN_IF_ERROR(HiddenSizes("model.deep_fm.hidden", model.deep_fm().hidden()));
      // A row also holds the column's own weight.
      return Within("model.deep_fm.embedding_dim", model.deep_fm().embedding_dim(), 1,
                    kMaxEmbeddingDim - 1);
    case ModelSpec::MODEL_NOT_SET:
      break;
  }
  return Invalid("model", "not set", "name one of logistic_regression, mlp, ngram, deep_fm");
}

absl::Status ValidateCsv(const v1::CsvData& csv) {
  MUSTER_RETURN_IF_ERROR(Path("data.csv.path", csv.path()));
  if (csv.label().empty()) {
    return Invalid("data.csv.label", "empty", "name the column that is to be predicted");
  }
  std::vector<std::string> columns(csv.numeric().begin(), csv.numeric().end());
  columns.insert(columns.end(), csv.categorical().begin(), csv.categorical().end());
  if (columns.empty()) {
    return Invalid("data.csv", "without columns", "name columns in numeric, categorical or both");
  }
  columns.push_back(csv.label());
  std::sort(columns.begin(), columns.end());
  const auto twice = std::adjacent_find(columns.begin(), columns.end());
  if (twice == columns.end()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("data.csv names the column \"", *twice,
                   "\" twice; a column is the label, numeric or categorical"));
}

absl::Status ValidateReader(const DataSpec& data) {
  switch (data.reader_case()) {
    case DataSpec::kText:
      return Path("data.text.path", data.text().path());
    case DataSpec::kIdx:
      MUSTER_RETURN_IF_ERROR(Path("data.idx.images", data.idx().images()));
      return Path("data.idx.labels", data.idx().labels());
    case DataSpec::kLibsvm:
      return Path("data.libsvm.path", data.libsvm().path());
    case DataSpec::kCsv:
      return ValidateCsv(data.csv());
    case DataSpec::kSyntheticClicks: {
      const v1::SyntheticClicksData& clicks = data.synthetic_clicks();
      MUSTER_RETURN_IF_ERROR(AtLeast("data.synthetic_clicks.examples", clicks.examples(), 1));
      MUSTER_RETURN_IF_ERROR(
          AtLeast("data.synthetic_clicks.fields", clicks.fields() + clicks.numeric(), 1));
      if (clicks.fields() == 0) return absl::OkStatus();
      return AtLeast("data.synthetic_clicks.cardinality", clicks.cardinality(), 1);
    }
    case DataSpec::kSyntheticClassification: {
      const v1::SyntheticClassificationData& made = data.synthetic_classification();
      MUSTER_RETURN_IF_ERROR(AtLeast("data.synthetic_classification.examples", made.examples(), 1));
      MUSTER_RETURN_IF_ERROR(AtLeast("data.synthetic_classification.features", made.features(), 1));
      return AtLeast("data.synthetic_classification.classes", made.classes(), 2);
    }
    case DataSpec::READER_NOT_SET:
      break;
  }
  return Invalid("data", "without a reader",
                 "name one of text, idx, libsvm, csv, synthetic_clicks, synthetic_classification");
}

struct Fit {
  absl::string_view model;
  std::vector<DataSpec::ReaderCase> readers;
  absl::string_view reader_names;
  std::vector<absl::string_view> metrics;
};

Fit FitOf(const ModelSpec& model) {
  switch (model.model_case()) {
    case ModelSpec::kMlp:
      return {"mlp",
              {DataSpec::kIdx, DataSpec::kCsv, DataSpec::kSyntheticClassification},
              "idx, csv, synthetic_classification",
              {"loss", "accuracy"}};
    case ModelSpec::kNgram:
      return {"ngram", {DataSpec::kText}, "text", {"loss", "accuracy", "bits_per_byte"}};
    case ModelSpec::kDeepFm:
      return {"deep_fm",
              {DataSpec::kCsv, DataSpec::kSyntheticClicks},
              "csv, synthetic_clicks",
              {"loss", "accuracy", "auc", "binned_auc"}};
    default:
      break;
  }
  Fit fit{"logistic_regression",
          {DataSpec::kLibsvm, DataSpec::kCsv, DataSpec::kSyntheticClicks},
          "libsvm, csv, synthetic_clicks",
          {"loss", "accuracy"}};
  if (model.logistic_regression().classes() <= 2) {
    fit.metrics.insert(fit.metrics.end(), {"auc", "binned_auc"});
  } else {
    fit.model = "multinomial logistic_regression";
  }
  return fit;
}

absl::string_view ReaderName(const DataSpec& data) {
  return DataSpec::descriptor()->FindFieldByNumber(data.reader_case())->name();
}

}  // namespace

absl::Status ValidateModelAndData(const v1::JobSpec& spec) {
  MUSTER_RETURN_IF_ERROR(ValidateModel(spec.model()));
  MUSTER_RETURN_IF_ERROR(ValidateReader(spec.data()));
  const Fit fit = FitOf(spec.model());
  if (std::find(fit.readers.begin(), fit.readers.end(), spec.data().reader_case()) ==
      fit.readers.end()) {
    return Invalid("data", ReaderName(spec.data()),
                   absl::StrCat("model ", fit.model, " reads one of ", fit.reader_names));
  }
  const std::string& metric = spec.evaluation().metric();
  if (!metric.empty() &&
      std::find(fit.metrics.begin(), fit.metrics.end(), metric) == fit.metrics.end()) {
    return Invalid(
        "evaluation.metric", absl::StrCat("\"", metric, "\""),
        absl::StrCat("model ", fit.model, " is measured by one of ",
                     absl::StrJoin(fit.metrics, ", "), " (empty takes the model's own)"));
  }
  return absl::OkStatus();
}

}  // namespace muster
