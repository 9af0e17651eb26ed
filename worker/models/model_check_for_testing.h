#ifndef MUSTER_WORKER_MODELS_MODEL_CHECK_FOR_TESTING_H_
#define MUSTER_WORKER_MODELS_MODEL_CHECK_FOR_TESTING_H_

#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"

namespace muster {

// For tests: what holds for every model.

// The model of a specification in text form. Fails the test, and returns null, where there is none.
std::unique_ptr<const Model> MakeModel(const std::string& model_spec, const DatasetInfo& data);
std::unique_ptr<const Model> MakeModel(const std::string& model_spec, const std::string& compute,
                                       const DatasetInfo& data);

// The message of CreateModel's InvalidArgument; fails the test where it succeeds or fails
// otherwise.
std::string CreateError(const std::string& model_spec, const DatasetInfo& data);

// Checks the model's description for consistency, and the gradients of its loss sum with regard to
// samples of every tensor and to the rows, from random parameters and rows, against differences;
// that gradients are added, and rows' gradients written; that another forward pass on the same
// micro-batch gives the same; and CheckNoExamples.
void CheckModel(const Model& model, const Batch& batch);

// Checks the probabilities that a classifier of examples gives from random parameters, of wanted
// and of unwanted passes: they add up to 1, are the scores of two classes, and the predicted
// classes are right as often as the pass counts.
void CheckProbabilities(const Model& model, const Batch& batch, int64_t classes);

// Checks passes over no examples after those over `batch`, with parameters of NaN: results are
// zeros; gradients become zeros where they are written, and stay as they are where they are added
// to.
void CheckNoExamples(const Model& model, const Batch& batch);

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_MODEL_CHECK_FOR_TESTING_H_
