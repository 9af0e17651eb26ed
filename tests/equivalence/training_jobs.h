#ifndef MUSTER_TESTS_EQUIVALENCE_TRAINING_JOBS_H_
#define MUSTER_TESTS_EQUIVALENCE_TRAINING_JOBS_H_

#include <string>
#include <tuple>
#include <vector>

#include "common/files/temp_folder.h"
#include "proto/job.pb.h"

namespace muster {

// The models and optimizers that jobs can name.
const std::vector<std::string>& ModelNames();
const std::vector<std::string>& OptimizerNames();

// Pairs of a model and an optimizer. The chosen ones have each optimizer with a model that has rows
// and with one that has none, and each model with several optimizers; the other ones are the rest.
using ModelAndOptimizer = std::tuple<std::string, std::string>;
std::vector<ModelAndOptimizer> ChosenModelsAndOptimizers();
std::vector<ModelAndOptimizer> OtherModelsAndOptimizers();

// Writes the text that the language model's jobs train on into a folder; its path.
std::string WriteTinyText(const TempFolder& folder);

// A job of 50 steps with two workers on tiny data that exercises every part of the model: several
// blocks per partition, rows that come and go, batches that end within an epoch. `text_path` is a
// file for the language model.
v1::JobSpec TinyJob(const std::string& model, const std::string& optimizer,
                    const std::string& text_path);

// Returns the job by all-reduce; buckets are small, so that every model has several.
v1::JobSpec ByAllReduceInSmallBuckets(v1::JobSpec spec);

}  // namespace muster

#endif  // MUSTER_TESTS_EQUIVALENCE_TRAINING_JOBS_H_
