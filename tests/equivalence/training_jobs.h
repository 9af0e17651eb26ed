#ifndef MUSTER_TESTS_EQUIVALENCE_TRAINING_JOBS_H_
#define MUSTER_TESTS_EQUIVALENCE_TRAINING_JOBS_H_

#include <string>
#include <vector>

#include "common/files/temp_folder.h"
#include "proto/job.pb.h"

namespace muster {

// The models and optimizers that jobs can name.
const std::vector<std::string>& ModelNames();
const std::vector<std::string>& OptimizerNames();

// Writes the text that the language model's jobs train on into a folder; its path.
std::string WriteTinyText(const TempFolder& folder);

// A job of 50 steps with two workers on tiny data that exercises every part of the model: several
// blocks per partition, rows that come and go, batches that end within an epoch. `text_path` is a
// file for the language model.
v1::JobSpec TinyJob(const std::string& model, const std::string& optimizer,
                    const std::string& text_path);

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_TRAINING_JOBS_H_
