#include "worker/runtime/prepared_job.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/optim/schedule.h"
#include "common/partition/schema.h"
#include "proto/job.pb.h"
#include "proto/schema.pb.h"
#include "worker/data/open_dataset.h"
#include "worker/data/steps.h"
#include "worker/models/create_model.h"
#include "worker/strategy/tables_schema.h"

namespace muster {

PreparedJob::PreparedJob() = default;
PreparedJob::PreparedJob(PreparedJob&&) = default;
PreparedJob::~PreparedJob() = default;

absl::StatusOr<PreparedJob> PrepareJob(const v1::JobSpec& spec, const DataPosition& begin) {
  PreparedJob job;
  job.begin = begin;
  DatasetOptions options;
  options.context = RequiredContext(spec.model());
  MUSTER_ASSIGN_OR_RETURN(job.dataset, OpenDataset(spec.data(), options));
  const DatasetInfo& info = job.dataset->info();
  MUSTER_ASSIGN_OR_RETURN(job.split, SplitExamples(info.examples, spec.data().holdout()));
  MUSTER_ASSIGN_OR_RETURN(job.model, CreateModel(spec.model(), spec.compute(), info));
  MUSTER_ASSIGN_OR_RETURN(job.total_steps,
                          TotalSteps(spec.stop(), job.split.training, spec.batch_size(), begin));
  MUSTER_RETURN_IF_ERROR(ValidateSchedule(spec.schedule()));
  v1::TablesSchema schema = MakeTablesSchema(job.model->description(), spec, job.total_steps);
  if (info.tokenizer.has_value()) {
    schema.mutable_tokenizer()->set_fingerprint(info.tokenizer->fingerprint);
    schema.mutable_tokenizer()->set_name(info.tokenizer->name);
  }
  MUSTER_RETURN_IF_ERROR(ValidateSchema(schema));
  job.schema = std::make_unique<const v1::TablesSchema>(std::move(schema));
  return job;
}

}  // namespace muster
