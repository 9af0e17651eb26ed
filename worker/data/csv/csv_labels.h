#ifndef MUSTER_WORKER_DATA_CSV_CSV_LABELS_H_
#define MUSTER_WORKER_DATA_CSV_CSV_LABELS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

// Collects the labels of CSV files, and maps them to classes.
//
//   labels                              classes
//   whole numbers from 0                the numbers themselves
//   -1 and +1                           0 and 1
//   whole numbers from 1 to K           0 to K - 1 (K at most 4,096; otherwise as from 0). Ones
//                                       alone are class 1 of the numbers from 0
//   texts                               by the order of their bytes
//
// Not thread-safe.
class CsvLabels {
 public:
  // The largest label. Classes are a model's outputs; larger labels are probably values to predict.
  static constexpr int32_t kMaxLabel = 1'000'000;
  // Most classes that are kept by name: every checkpoint holds all names.
  static constexpr size_t kMostNamed = 4096;
  static constexpr size_t kMostNameBytes = 64;

  // Adds the next example's label. `path` outlives this object. InvalidArgument, naming file and
  // line: the label is missing (common/text/missing_value.h); a number, but not a whole one in [-1,
  // kMaxLabel]; a text that is not UTF-8 or longer than kMostNameBytes; or the text number
  // kMostNamed + 1.
  absl::Status Add(absl::string_view text, const std::string& path, int64_t line);

  // Returns the number of labels.
  int64_t size() const { return static_cast<int64_t>(codes_.size()); }

  // Returns each class's label as text, in order of class; empty if labels are the classes
  // themselves. Uses all examples, including held-out ones, since chance may decide which examples
  // those are. REQUIRES: size() > 0. InvalidArgument, naming file and lines: there are numbers
  // beside texts, or -1 beside labels other than +1.
  absl::StatusOr<std::vector<std::string>> Learn() const;

  struct Result {
    std::vector<int32_t> labels;
    // At least 2; labels lie in [0, classes).
    int64_t classes = 0;
  };
  // Returns all labels by `classes`, which Learn returned, and empties this object.
  // InvalidArgument: a label is none of the classes (names file and line), or `classes` has one
  // twice.
  absl::StatusOr<Result> Finish(const std::vector<std::string>& classes);

 private:
  struct Place {
    const std::string* path = nullptr;
    int64_t line = 0;
  };

  const Place& PlaceOf(int32_t code) const;

  // Code of each label: a number stands for itself, kFirstText - i for text i in order of arrival.
  static constexpr int32_t kFirstText = -2;
  std::vector<int32_t> codes_;
  absl::flat_hash_map<std::string, int32_t> texts_;
  // The place where each label first stood: for numbers from -1 on, and for texts.
  std::vector<Place> number_places_;
  std::vector<Place> text_places_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_LABELS_H_
