#ifndef MUSTER_WORKER_RUNTIME_TRAINING_PREPARED_JOB_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_PREPARED_JOB_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/data/dataset.h"
#include "worker/data/sampling/data_position.h"
#include "worker/data/sampling/split.h"
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

  // What is evaluated: the examples of evaluation_data() that come after the first
  // `evaluated.training`.
  const Dataset& evaluation_data() const { return validation ? *validation : *dataset; }

  // Of the content of all data.
  uint64_t data_fingerprint() const;

  std::unique_ptr<const Dataset> dataset;
  // Null: what is evaluated is held out of `dataset`.
  std::unique_ptr<const Dataset> validation;
  Split split;
  Split evaluated;
  // Where its batches begin.
  DataPosition begin;
  std::unique_ptr<const Model> model;
  // The last clock of the job; 0 for one that only evaluates.
  uint64_t total_steps = 0;
  std::unique_ptr<const v1::TablesSchema> schema;
};

// Opens the data (reading all of it once) and makes the model. `preparation` is that of
// DatasetOptions. Errors name the field or file, its value and what would be right: those of
// OpenDataset, SplitExamples, CreateModel, TotalSteps and ValidateSchema, and
// InvalidArgument where the validation data do not fit the training data.
absl::StatusOr<PreparedJob> PrepareJob(const v1::JobSpec& spec, const DataPosition& begin = {},
                                       const std::string& preparation = "");

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_PREPARED_JOB_H_
