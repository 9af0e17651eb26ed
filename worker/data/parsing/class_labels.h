#ifndef MUSTER_WORKER_DATA_PARSING_CLASS_LABELS_H_
#define MUSTER_WORKER_DATA_PARSING_CLASS_LABELS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Collects the labels of a text file and decides, once all are known, which scheme they follow: -1
// and +1 (which become classes 0 and 1), or classes 0 … C - 1. Not thread-safe.
class ClassLabels {
 public:
  // The largest label. Classes are a model's outputs; larger labels are probably values to predict.
  static constexpr int32_t kMaxLabel = 1'000'000;

  explicit ClassLabels(std::string path) : path_(std::move(path)) {}

  // Adds the next label. InvalidArgument, naming file and line: no whole number in [-1, kMaxLabel].
  absl::Status Add(absl::string_view text, int64_t line);

  struct Result {
    std::vector<int32_t> labels;
    // At least 2; labels lie in [0, classes).
    int64_t classes = 0;
    // Each class's label as text, in order of class; empty if labels are the classes themselves.
    std::vector<std::string> names;
  };
  // Returns all labels, and leaves this object empty. InvalidArgument, naming file and lines: there
  // is -1 beside labels other than +1.
  absl::StatusOr<Result> Finish();

 private:
  const std::string path_;
  std::vector<int32_t> labels_;
  int32_t largest_ = 0;
  // The first lines with label -1 and with a label other than -1 and +1; 0 if there is none.
  int64_t line_of_minus_one_ = 0;
  int64_t line_of_other_ = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_PARSING_CLASS_LABELS_H_
