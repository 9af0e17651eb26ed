#ifndef MUSTER_WORKER_PREDICT_OPEN_EXAMPLES_H_
#define MUSTER_WORKER_PREDICT_OPEN_EXAMPLES_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/predict/example_source.h"

namespace muster {

namespace v1 {
class DataPreparation;
class JobSpec;
}  // namespace v1

// Opens the data of a job as examples to predict, in the order of the files: CSV, Parquet,
// libsvm, libffm or, by their images alone, IDX. `preparation` came with the job's weights.
//
// InvalidArgument: the job reads other data (names what to do instead); the weights came without
// the preparation that the data need. Otherwise errors of CsvExamples::Create and OpenDataset.
absl::StatusOr<std::unique_ptr<ExampleSource>> OpenExamples(const v1::JobSpec& spec,
                                                            const v1::DataPreparation& preparation);

}  // namespace muster

#endif  // MUSTER_WORKER_PREDICT_OPEN_EXAMPLES_H_
