#ifndef MUSTER_WORKER_PREDICT_WRITE_PREDICTIONS_H_
#define MUSTER_WORKER_PREDICT_WRITE_PREDICTIONS_H_

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

namespace v1 {
class JobSpec;
}  // namespace v1

// Predicts the label of each example of the job's data with the weights in a file of `muster
// export`, and gives `sink` the text of a table: the examples' own columns (ExampleSource) and
// their predictions (PredictionColumns), a few examples at a time, of which no more are kept.
// Returns the number of examples.
//
// InvalidArgument: the job's model predicts neither classes nor numbers of examples (names what to
// do instead); the data have a column of predictions already; or errors of OpenExamples,
// ExampleSource::Next and TrainedModel::Create. Other errors are those of reading, or of the sink.
absl::StatusOr<int64_t> WritePredictions(
    const v1::JobSpec& spec, const std::string& weights,
    const std::function<absl::Status(absl::string_view)>& sink);

}  // namespace muster

#endif  // MUSTER_WORKER_PREDICT_WRITE_PREDICTIONS_H_
