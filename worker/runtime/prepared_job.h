#ifndef MUSTER_WORKER_RUNTIME_PREPARED_JOB_H_
#define MUSTER_WORKER_RUNTIME_PREPARED_JOB_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "worker/data/data_position.h"
#include "worker/data/dataset.h"
#include "worker/data/split.h"
#include "worker/nn/model.h"

namespace muster {

namespace v1 {
class JobSpec;
class TablesSchema;
}  // namespace v1

// What follows from a job's specification and its data, alike on every slot.
struct PreparedJob {
  PreparedJob();
  PreparedJob(PreparedJob&&);
  ~PreparedJob();

  std::unique_ptr<const Dataset> dataset;
  Split split;
  // Where its batches begin.
  DataPosition begin;
  std::unique_ptr<const Model> model;
  // The last clock of the job; 0 for one that only evaluates.
  uint64_t total_steps = 0;
  std::unique_ptr<const v1::TablesSchema> schema;
};

// Opens the data (reading all of it once) and makes the model. Errors name the field or file, its
// value and what would be right: those of OpenDataset, SplitExamples, CreateModel, TotalSteps and
// ValidateSchema.
absl::StatusOr<PreparedJob> PrepareJob(const v1::JobSpec& spec, const DataPosition& begin = {});

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_PREPARED_JOB_H_
