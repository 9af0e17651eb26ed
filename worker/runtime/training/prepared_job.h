#ifndef MUSTER_WORKER_RUNTIME_TRAINING_PREPARED_JOB_H_
#define MUSTER_WORKER_RUNTIME_TRAINING_PREPARED_JOB_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/step/step_batches.h"
#include "worker/data/dataset.h"
#include "worker/data/sampling/mixture.h"
#include "worker/data/sampling/split.h"
#include "worker/nn/model.h"

namespace muster {

class PreparedFolder;

namespace v1 {
class JobSpec;
class TablesSchema;
}  // namespace v1

// A job's data, model and schema, made from its specification. Equal on every slot; the schema is
// of whole tensors, of which ranks hold shares (kModelAxes).
struct PreparedJob {
  PreparedJob();
  PreparedJob(PreparedJob&&);
  ~PreparedJob();

  // Returns the data to evaluate. Its first `evaluated.training` examples are not evaluated.
  const Dataset& evaluation_data() const { return validation ? *validation : *dataset; }

  // Returns the clock at which this job begins; above 0 if it goes on from another.
  int64_t first_clock() const { return positions.empty() ? 0 : positions.back().clock; }

  // Returns a fingerprint of the content of all data.
  uint64_t data_fingerprint() const;

  std::unique_ptr<const Dataset> dataset;
  // Null if the examples to evaluate are held out of `dataset`.
  std::unique_ptr<const Dataset> validation;
  Split split;
  Split evaluated;
  // The examples of each step, as specified.
  StepBatches batches = StepBatches(1);
  // Positions in the data of the jobs that this one goes on from; at the last of them it begins.
  std::vector<DataPosition> positions;
  std::unique_ptr<const Model> model;
  // Says which example each position has; null if the data are no mixture.
  std::shared_ptr<const Mixture> mixture;
  // The job's last clock; 0 if the job only evaluates.
  uint64_t total_steps = 0;
  std::unique_ptr<const v1::TablesSchema> schema;
};

// Opens the data (reading all of it once) and makes the model. `positions` are those in the data at
// which jobs began or changed their batches that this one goes on from (StepBatches); at the last
// of them it begins. `preparation` and `prepared` are those of DatasetOptions. Errors are those of
// OpenDataset, SplitExamples, CreateModel, TotalSteps and ValidateSchema; they name the field or
// file, its value and what would be right. InvalidArgument, too: the validation data do not fit the
// training data.
absl::StatusOr<PreparedJob> PrepareJob(const v1::JobSpec& spec,
                                       absl::Span<const DataPosition> positions = {},
                                       const std::string& preparation = "",
                                       const PreparedFolder* prepared = nullptr);

}  // namespace muster

#endif  // MUSTER_WORKER_RUNTIME_TRAINING_PREPARED_JOB_H_
