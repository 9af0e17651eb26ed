#include "worker/runtime/training/prepared_job.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/fingerprint.h"
#include "common/base/status_macros.h"
#include "common/job/regression.h"
#include "common/mesh/job_mesh.h"
#include "common/optim/schedule.h"
#include "common/partition/parameter_groups.h"
#include "common/partition/schema.h"
#include "common/plan/passes/unit_costs.h"
#include "common/plan/size/data_size.h"
#include "common/plan/size/model_size.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "worker/data/datasets/open_dataset.h"
#include "worker/data/sampling/job_mixture.h"
#include "worker/data/sampling/steps.h"
#include "worker/models/create_model.h"
#include "worker/models/resolve_transformer.h"
#include "worker/strategy/tables_schema.h"

namespace muster {

namespace {

// InvalidArgument names what differs.
absl::Status CheckFit(const DatasetInfo& training, const DatasetInfo& validation) {
  const auto differ = [](absl::string_view what, int64_t a, int64_t b) {
    return absl::InvalidArgumentError(absl::StrCat("the validation data have ", b, " ", what,
                                                   ", the training data ", a,
                                                   "; both have to be of the same form"));
  };
  if (training.dense_features != validation.dense_features) {
    return differ("dense features", training.dense_features, validation.dense_features);
  }
  if (training.fields != validation.fields) {
    return differ("fields", training.fields, validation.fields);
  }
  if (training.vocabulary != validation.vocabulary) {
    return differ("token values", training.vocabulary, validation.vocabulary);
  }
  if (training.tokenizer.has_value() != validation.tokenizer.has_value() ||
      (training.tokenizer.has_value() &&
       training.tokenizer->fingerprint != validation.tokenizer->fingerprint)) {
    return absl::InvalidArgumentError(
        "the validation data have another tokenizer than the training data; give them the same");
  }
  return absl::OkStatus();
}

ModelOptions OptionsOf(const v1::JobSpec& spec) {
  return {MeshOf(spec), ResolveAdapter(spec.adapter())};
}

// Opens the data, and sets which examples are trained on and which are evaluated.
absl::Status OpenData(const v1::JobSpec& spec, const std::string& preparation,
                      const PreparedFolder* prepared, PreparedJob& job) {
  DatasetOptions options;
  options.context = RequiredContext(spec.model());
  options.labels = RegressionOf(spec.model()) ? LabelKind::kNumber : LabelKind::kClass;
  if (spec.model().has_deep_fm()) options.features = FeatureForm::kOnePerField;
  options.preparation = preparation;
  options.seed = spec.seed();
  options.prepared = prepared;
  MUSTER_ASSIGN_OR_RETURN(job.dataset, OpenDataset(spec.data(), options));
  const DatasetInfo& info = job.dataset->info();
  MUSTER_ASSIGN_OR_RETURN(job.split, SplitExamples(info.examples, spec.data().holdout()));
  job.evaluated = job.split;
  if (!spec.has_validation()) return absl::OkStatus();
  options.preparation = info.preparation;
  MUSTER_ASSIGN_OR_RETURN(job.validation, OpenDataset(spec.validation(), options));
  MUSTER_RETURN_IF_ERROR(CheckFit(info, job.validation->info()));
  // Finds labels for which the model has no class.
  MUSTER_RETURN_IF_ERROR(
      CreateModel(spec.model(), spec.compute(), job.validation->info(), OptionsOf(spec)).status());
  job.evaluated = {.training = 0, .held_out = job.validation->info().examples};
  return absl::OkStatus();
}

// Sets which layers each stage of the job's pipeline has, if it has one.
absl::Status DivideLayers(const v1::JobSpec& spec, const DatasetInfo& info,
                          v1::TablesSchema& schema) {
  if (SizeAlong(Axis::kPipeline, spec) == 1) return absl::OkStatus();
  DataSize data;
  data.dense_features = info.dense_features;
  data.vocabulary = info.vocabulary;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<int> sizes,
                          VirtualStageSizes(spec, CostsOfUnits(spec, SizeOfModel(spec, data))));
  schema.set_pipeline(SizeAlong(Axis::kPipeline, spec));
  schema.mutable_pipeline_layers()->Add(sizes.begin(), sizes.end());
  return absl::OkStatus();
}

}  // namespace

PreparedJob::PreparedJob() = default;
PreparedJob::PreparedJob(PreparedJob&&) = default;
PreparedJob::~PreparedJob() = default;

uint64_t PreparedJob::data_fingerprint() const {
  const uint64_t training = dataset->fingerprint();
  return validation == nullptr ? training
                               : MixBits(training ^ MixBits(validation->fingerprint() + 1));
}

absl::StatusOr<PreparedJob> PrepareJob(const v1::JobSpec& spec,
                                       absl::Span<const DataPosition> positions,
                                       const std::string& preparation,
                                       const PreparedFolder* prepared) {
  PreparedJob job;
  job.batches = BatchesOf(spec, positions);
  job.positions.assign(positions.begin(), positions.end());
  MUSTER_RETURN_IF_ERROR(OpenData(spec, preparation, prepared, job));
  const DatasetInfo& info = job.dataset->info();
  MUSTER_ASSIGN_OR_RETURN(job.model,
                          CreateModel(spec.model(), spec.compute(), info, OptionsOf(spec)));
  MUSTER_ASSIGN_OR_RETURN(
      job.total_steps,
      TotalSteps(spec.stop(), {job.split.training, info.context}, job.batches, job.first_clock()));
  if (job.total_steps > 0) {
    MUSTER_ASSIGN_OR_RETURN(job.mixture, MakeJobMixture(spec, info.sources, job.batches,
                                                        static_cast<int64_t>(job.total_steps)));
  }
  MUSTER_RETURN_IF_ERROR(ValidateSchedule(spec.schedule()));
  ModelDescription described = job.model->description();
  MUSTER_RETURN_IF_ERROR(SetParameterGroups(spec, absl::MakeSpan(described.tensors)));
  v1::TablesSchema schema = MakeTablesSchema(described, spec, job.total_steps);
  if (info.tokenizer.has_value()) {
    schema.mutable_tokenizer()->set_fingerprint(info.tokenizer->fingerprint);
    schema.mutable_tokenizer()->set_name(info.tokenizer->name);
  }
  MUSTER_RETURN_IF_ERROR(DivideLayers(spec, info, schema));
  MUSTER_RETURN_IF_ERROR(ValidateSchema(schema));
  job.schema = std::make_unique<const v1::TablesSchema>(std::move(schema));
  return job;
}

}  // namespace muster
