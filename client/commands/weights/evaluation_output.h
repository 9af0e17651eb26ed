#ifndef MUSTER_CLIENT_COMMANDS_WEIGHTS_EVALUATION_OUTPUT_H_
#define MUSTER_CLIENT_COMMANDS_WEIGHTS_EVALUATION_OUTPUT_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace muster {

namespace v1 {
class EvaluationResult;
}  // namespace v1

using NamedValue = std::pair<std::string, double>;

// Returns a line on an evaluation, with its metric, loss and other `values`, and the clock of the
// checkpoint if that is known. For a classifier, tables of at most 80 columns follow: precision,
// recall and F1 of at most 20 classes, and the confusion matrix of at most 10.
std::string EvaluationText(const v1::EvaluationResult& result,
                           const std::vector<NamedValue>& values, std::optional<uint64_t> clock);

// Returns the fields that the evaluation's JSON has beside those of the message, or in their place:
//
//   VALUE      each of `values`; a metric without a value is null
//   auc        of a classifier of two classes; null if there is none
//   classes    of a classifier: objects with label, examples, precision, recall and f1, of which
//              those that would be 0 / 0 are null
//   confusion  of a classifier: a row for each true class, in which the numbers of examples stand
//   by
//              predicted class
//   no_confusion  why a classifier has neither; then both are null
nlohmann::ordered_json EvaluationFields(const v1::EvaluationResult& result,
                                        const std::vector<NamedValue>& values);

}  // namespace muster

#endif  // MUSTER_CLIENT_COMMANDS_WEIGHTS_EVALUATION_OUTPUT_H_
