#include "common/job/validation/model_validator.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/model_limits.h"
#include "common/base/status_macros.h"
#include "common/job/regression.h"
#include "common/job/validation/attention_validator.h"
#include "common/job/validation/expert_validator.h"
#include "common/job/validation/invalid.h"
#include "common/job/validation/mixture_validator.h"
#include "common/text/did_you_mean.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

using v1::DataSpec;
using v1::ModelSpec;

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

// Makes the checks of the worker's own (ResolveTransformer), except those that need the data.
absl::Status ValidateTransformer(const v1::TransformerSpec& spec) {
  if (!spec.from().empty()) {
    return Invalid("model.transformer.from", absl::StrCat("\"", spec.from(), "\""),
                   "only `muster` reads it, on the machine where a job is submitted; give "
                   "layers, width and the other fields in its place");
  }
  MUSTER_RETURN_IF_ERROR(
      Within("model.transformer.layers", spec.layers(), 1, kMaxTransformerLayers));
  MUSTER_RETURN_IF_ERROR(Within("model.transformer.width", spec.width(), 1, kMaxWidth));
  MUSTER_RETURN_IF_ERROR(
      Within("model.transformer.feed_forward", spec.feed_forward(), 0, kMaxFeedForward));
  MUSTER_RETURN_IF_ERROR(
      Within("model.transformer.vocabulary", spec.vocabulary(), 0, kMaxVocabulary));
  MUSTER_RETURN_IF_ERROR(Within("model.transformer.context", spec.context(), 2, kMaxContext));
  MUSTER_RETURN_IF_ERROR(ValidateAttention(spec));
  const struct {
    absl::string_view field;
    bool valid;
    int value;
  } enums[] = {
      {"model.transformer.norm", v1::TransformerSpec::Norm_IsValid(spec.norm()), spec.norm()},
      {"model.transformer.positions", v1::TransformerSpec::Positions_IsValid(spec.positions()),
       spec.positions()},
      {"model.transformer.activation", v1::TransformerSpec::Activation_IsValid(spec.activation()),
       spec.activation()}};
  for (const auto& choice : enums) {
    if (choice.valid) continue;
    return Invalid(choice.field, absl::StrCat(choice.value),
                   "this release does not know it; leave it out for the usual one");
  }
  const std::pair<absl::string_view, float> probabilities[] = {
      {"model.transformer.dropout", spec.dropout()},
      {"model.transformer.attention_dropout", spec.attention_dropout()},
      {"model.transformer.label_smoothing", spec.label_smoothing()}};
  for (const auto& [field, probability] : probabilities) {
    if (probability >= 0 && probability < 1) continue;
    return Invalid(field, absl::StrCat(probability), "it is a probability, in [0, 1)");
  }
  if (const uint64_t elements = uint64_t{spec.context()} * spec.width();
      spec.dropout() > 0 && elements > kMaxDropoutElements) {
    return Invalid("model.transformer.dropout", absl::StrCat(spec.dropout()),
                   absl::StrCat("but context · width is ", elements, "; with dropout at most ",
                                kMaxDropoutElements, " is possible"));
  }
  if (!(spec.z_loss() >= 0 && std::isfinite(spec.z_loss()))) {
    return Invalid("model.transformer.z_loss", absl::StrCat(spec.z_loss()),
                   "it must be a finite number of at least 0 (usually about 1e-4)");
  }
  if (!(spec.norm_epsilon() >= 0 && spec.norm_epsilon() < 1)) {
    return Invalid("model.transformer.norm_epsilon", absl::StrCat(spec.norm_epsilon()),
                   "it must be in (0, 1) (0 stands for 1e-5)");
  }
  MUSTER_RETURN_IF_ERROR(Within("model.transformer.pad_vocabulary_to", spec.pad_vocabulary_to(), 0,
                                kMaxVocabularyMultiple));
  if (spec.pad_vocabulary_to() > 1 && spec.vocabulary() == 0) {
    return Invalid("model.transformer.pad_vocabulary_to", absl::StrCat(spec.pad_vocabulary_to()),
                   "but model.transformer.vocabulary is left out; set it to the number of the "
                   "tokenizer's tokens");
  }
  return ValidateExperts(spec);
}

// Checks what the loss is multiplied by in f16.
absl::Status ValidateLossScale(const v1::ComputeSpec& compute) {
  const float scale = compute.loss_scale();
  if (scale == 0 && compute.loss_scale_window() == 0) return absl::OkStatus();
  if (compute.type() != v1::ComputeSpec::F16) {
    const bool by_scale = scale != 0;
    return Invalid(by_scale ? "compute.loss_scale" : "compute.loss_scale_window",
                   by_scale ? absl::StrCat(scale) : absl::StrCat(compute.loss_scale_window()),
                   absl::StrCat("but compute.type is ", v1::ComputeSpec::Type_Name(compute.type()),
                                ", whose gradients need none; leave it out, or compute in F16"));
  }
  if (scale == 0) return absl::OkStatus();
  int exponent = 0;
  if (!(scale >= 1 && scale <= kMaxLossScale) || std::frexp(scale, &exponent) != 0.5f) {
    return Invalid(
        "compute.loss_scale", absl::StrCat(scale),
        absl::StrCat("it must be a power of two from 1 to ", static_cast<int64_t>(kMaxLossScale),
                     ", or left out to be found while training"));
  }
  if (compute.loss_scale_window() != 0) {
    return Invalid("compute.loss_scale_window", absl::StrCat(compute.loss_scale_window()),
                   "but compute.loss_scale is given, and stays as it is; leave one of them out");
  }
  return absl::OkStatus();
}

// Checks how the model computes: all but transformers keep to f32 and to their activations.
absl::Status ValidateCompute(const v1::JobSpec& spec) {
  const v1::ComputeSpec& compute = spec.compute();
  if (!v1::ComputeSpec::Type_IsValid(compute.type())) {
    return Invalid("compute.type", absl::StrCat(static_cast<int>(compute.type())),
                   "it must be F32, BF16 or F16");
  }
  MUSTER_RETURN_IF_ERROR(ValidateLossScale(compute));
  if (!v1::ComputeSpec::Recompute_IsValid(compute.recompute())) {
    return Invalid("compute.recompute", absl::StrCat(static_cast<int>(compute.recompute())),
                   "it must be NONE, SELECTIVE or FULL");
  }
  if (!(compute.peak_flops() >= 0) || std::isinf(compute.peak_flops())) {
    return Invalid("compute.peak_flops", absl::StrCat(compute.peak_flops()),
                   "give a positive number of operations per second, or 0 if it is not known");
  }
  if (spec.model().has_transformer()) return absl::OkStatus();
  if (compute.peak_flops() > 0) {
    return Invalid("compute.peak_flops", absl::StrCat(compute.peak_flops()),
                   "but only the operations of model.transformer are counted; leave it out");
  }
  constexpr absl::string_view kTransformersOnly =
      "but only model.transformer computes otherwise than F32 without recomputation; leave it out";
  if (compute.type() > v1::ComputeSpec::F32) {
    return Invalid("compute.type", v1::ComputeSpec::Type_Name(compute.type()), kTransformersOnly);
  }
  if (compute.recompute() > v1::ComputeSpec::NONE) {
    return Invalid("compute.recompute", v1::ComputeSpec::Recompute_Name(compute.recompute()),
                   kTransformersOnly);
  }
  return absl::OkStatus();
}

// `field` is where a model's regression is specified.
absl::Status ValidateRegression(const std::string& field, const v1::RegressionSpec& regression) {
  using v1::RegressionSpec;
  if (!RegressionSpec::Loss_IsValid(regression.loss())) {
    return Invalid(field + ".loss", absl::StrCat(static_cast<int>(regression.loss())),
                   "it must be SQUARED, ABSOLUTE or HUBER");
  }
  const float delta = regression.huber_delta();
  if (!(delta >= 0) || std::isinf(delta)) {
    return Invalid(field + ".huber_delta", absl::StrCat(delta),
                   "it is in standard deviations of the target, and above 0 (0 stands for 1)");
  }
  if (delta > 0 && regression.loss() != RegressionSpec::HUBER) {
    return Invalid(field + ".huber_delta", absl::StrCat(delta),
                   absl::StrCat("but ", field, ".loss is not HUBER; leave it out, or set that"));
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
      if (model.mlp().has_regression()) {
        if (model.mlp().classes() == 0) {
          return ValidateRegression("model.mlp.regression", model.mlp().regression());
        }
        return Invalid("model.mlp.classes", absl::StrCat(model.mlp().classes()),
                       "but model.mlp.regression predicts a number; leave one of them out");
      }
      return Within("model.mlp.classes", model.mlp().classes(), 2, kMaxWidth);
    case ModelSpec::kNgram:
      MUSTER_RETURN_IF_ERROR(Within("model.ngram.orders", model.ngram().orders(), 1, kMaxOrders));
      MUSTER_RETURN_IF_ERROR(
          Within("model.ngram.embedding_dim", model.ngram().embedding_dim(), 1, kMaxEmbeddingDim));
      return Within("model.ngram.hidden", model.ngram().hidden(), 1, kMaxWidth);
    case ModelSpec::kDeepFm:
      MUSTER_RETURN_IF_ERROR(HiddenSizes("model.deep_fm.hidden", model.deep_fm().hidden()));
      MUSTER_RETURN_IF_ERROR(
          ValidateRegression("model.deep_fm.regression", model.deep_fm().regression()));
      // A row also holds the column's own weight.
      return Within("model.deep_fm.embedding_dim", model.deep_fm().embedding_dim(), 1,
                    kMaxEmbeddingDim - 1);
    case ModelSpec::kTransformer:
      return ValidateTransformer(model.transformer());
    case ModelSpec::kLinearRegression:
      return ValidateRegression("model.linear_regression", model.linear_regression());
    case ModelSpec::kProgram:  // ValidateProgram checks it.
    case ModelSpec::MODEL_NOT_SET:
      break;
  }
  return Invalid("model", "not set",
                 "name one of logistic_regression, linear_regression, mlp, ngram, deep_fm, "
                 "transformer, program");
}

absl::Status ValidateSeparator(const std::string& separator) {
  if (separator.empty()) return absl::OkStatus();
  const char first = separator.front();
  if (separator.size() == 1 && first != '"' && first != '\n' && first != '\r' && first != '\0' &&
      !absl::ascii_isalnum(first)) {
    return absl::OkStatus();
  }
  return Invalid("data.csv.separator",
                 absl::StrCat("\"", absl::Utf8SafeCHexEscape(separator), "\""),
                 "it is the one character between a line's fields, such as \";\", \"|\" or a tab "
                 "(\"\\t\" in a job file); left out it is a comma");
}

// Checks a column without a header, which is named by its number.
absl::Status CheckColumnNumber(const std::string& column) {
  uint32_t number = 0;
  if (absl::SimpleAtoi(column, &number) && number > 0 && column == absl::StrCat(number)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("data.csv names the column \"", column,
                   "\", but data.csv.no_header is set, so columns go by their numbers: \"1\", "
                   "\"2\", and so on; name those, or leave no_header out"));
}

absl::Status ValidateCsv(const v1::CsvData& csv) {
  MUSTER_RETURN_IF_ERROR(Path("data.csv.path", csv.path()));
  if (csv.label().empty()) {
    return Invalid("data.csv.label", "empty", "name the column that is to be predicted");
  }
  MUSTER_RETURN_IF_ERROR(ValidateSeparator(csv.separator()));
  std::vector<std::string> columns(csv.numeric().begin(), csv.numeric().end());
  columns.insert(columns.end(), csv.categorical().begin(), csv.categorical().end());
  if (columns.empty()) {
    return Invalid("data.csv", "without columns", "name columns in numeric, categorical or both");
  }
  columns.push_back(csv.label());
  for (const std::string& column : columns) {
    if (csv.no_header()) MUSTER_RETURN_IF_ERROR(CheckColumnNumber(column));
  }
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
    case DataSpec::kSequences:
      return ValidateSequences("data.sequences", data.sequences());
    case DataSpec::kMixture:
      return ValidateMixture(data.mixture());
    case DataSpec::kIdx:
      MUSTER_RETURN_IF_ERROR(Path("data.idx.images", data.idx().images()));
      return Path("data.idx.labels", data.idx().labels());
    case DataSpec::kLibsvm:
      return Path("data.libsvm.path", data.libsvm().path());
    case DataSpec::kLibffm:
      return Path("data.libffm.path", data.libffm().path());
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
  return Invalid(
      "data", "without a reader",
      "name one of text, sequences, mixture, idx, libsvm, libffm, csv, synthetic_clicks, "
      "synthetic_classification");
}

struct Fit {
  absl::string_view model;
  std::vector<DataSpec::ReaderCase> readers;
  absl::string_view reader_names;
  std::vector<absl::string_view> metrics;
};

// Of models that predict a number, whose data must have numbers as labels.
Fit FitOfRegression(const ModelSpec& model) {
  const std::vector<absl::string_view> metrics = {"loss", "rmse", "mae", "r2"};
  if (model.has_linear_regression()) {
    return {"linear_regression", {DataSpec::kLibsvm, DataSpec::kCsv}, "libsvm, csv", metrics};
  }
  return {model.has_mlp() ? "mlp with regression" : "deep_fm with regression",
          {DataSpec::kCsv},
          "csv",
          metrics};
}

Fit FitOf(const ModelSpec& model) {
  if (RegressionOf(model) != nullptr) return FitOfRegression(model);
  switch (model.model_case()) {
    case ModelSpec::kMlp:
      return {"mlp",
              {DataSpec::kIdx, DataSpec::kCsv, DataSpec::kSyntheticClassification},
              "idx, csv, synthetic_classification",
              {"loss", "accuracy"}};
    case ModelSpec::kNgram:
      return {
          "ngram", {DataSpec::kText}, "text", {"loss", "perplexity", "accuracy", "bits_per_byte"}};
    case ModelSpec::kDeepFm:
      return {"deep_fm",
              {DataSpec::kLibffm, DataSpec::kCsv, DataSpec::kSyntheticClicks},
              "libffm, csv, synthetic_clicks",
              {"loss", "accuracy", "auc", "binned_auc"}};
    case ModelSpec::kTransformer:
      return {"transformer",
              {DataSpec::kSequences, DataSpec::kMixture},
              "sequences, mixture",
              {"loss", "perplexity", "accuracy", "bits_per_byte"}};
    default:
      break;
  }
  Fit fit{"logistic_regression",
          {DataSpec::kLibsvm, DataSpec::kLibffm, DataSpec::kCsv, DataSpec::kSyntheticClicks},
          "libsvm, libffm, csv, synthetic_clicks",
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

// Checks that the model can read the data.
absl::Status ValidateFit(absl::string_view field, const DataSpec& data, const Fit& fit) {
  if (std::find(fit.readers.begin(), fit.readers.end(), data.reader_case()) != fit.readers.end()) {
    return absl::OkStatus();
  }
  return Invalid(field, ReaderName(data),
                 absl::StrCat("model ", fit.model, " reads one of ", fit.reader_names));
}

}  // namespace

absl::Status ValidateModelAndData(const v1::JobSpec& spec) {
  MUSTER_RETURN_IF_ERROR(ValidateModel(spec.model()));
  MUSTER_RETURN_IF_ERROR(ValidateReader(spec.data()));
  if (spec.has_validation()) {
    if (const absl::Status reader = ValidateReader(spec.validation()); !reader.ok()) {
      return absl::InvalidArgumentError(absl::StrCat("validation: ", reader.message()));
    }
  }
  MUSTER_RETURN_IF_ERROR(ValidateCompute(spec));
  const Fit fit = FitOf(spec.model());
  MUSTER_RETURN_IF_ERROR(ValidateFit("data", spec.data(), fit));
  if (spec.has_validation()) {
    MUSTER_RETURN_IF_ERROR(ValidateFit("validation", spec.validation(), fit));
  }
  const std::string& metric = spec.evaluation().metric();
  if (!metric.empty() &&
      std::find(fit.metrics.begin(), fit.metrics.end(), metric) == fit.metrics.end()) {
    return Invalid("evaluation.metric", absl::StrCat("\"", metric, "\""),
                   absl::StrCat("model ", fit.model, " is measured by one of ",
                                absl::StrJoin(fit.metrics, ", "), " (empty takes the model's own)",
                                DidYouMean(metric, std::vector<std::string>(fit.metrics.begin(),
                                                                            fit.metrics.end()))));
  }
  return absl::OkStatus();
}

}  // namespace muster
