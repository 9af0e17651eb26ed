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
  // Classes are a model's outputs, so a far larger label is rather a value to predict.
  static constexpr int32_t kMaxLabel = 1'000'000;
  // Classes that are kept by name: each is part of every checkpoint.
  static constexpr size_t kMostNamed = 4096;
  static constexpr size_t kMostNameBytes = 64;

  // Takes the next example's label. `path` outlives this object. InvalidArgument, naming file and
  // line: it is missing, or a number but no whole one in [-1, kMaxLabel], or a text that is not
  // UTF-8 or has more than kMostNameBytes, or the labels are more than kMostNamed texts.
  absl::Status Add(absl::string_view text, const std::string& path, int64_t line);

  // How many there are.
  int64_t size() const { return static_cast<int64_t>(codes_.size()); }

  // Learns from all examples what the classes are: the label's text of each, in order of class;
  // empty: the numbers themselves. A class that only held-out examples have is one, too: which
  // examples those are may be chance. REQUIRES: size() > 0. InvalidArgument, naming file and lines:
  // numbers stand beside texts, or -1 beside labels other than +1.
  absl::StatusOr<std::vector<std::string>> Learn() const;

  struct Result {
    std::vector<int32_t> labels;
    // At least 2; labels lie in [0, classes).
    int64_t classes = 0;
  };
  // All labels by classes as Learn gives them, leaving this object empty. InvalidArgument, naming
  // file and line: a label is none of these, or `classes` has one twice.
  absl::StatusOr<Result> Finish(const std::vector<std::string>& classes);

 private:
  struct Place {
    const std::string* path = nullptr;
    int64_t line = 0;
  };

  const Place& PlaceOf(int32_t code) const;

  // A number is itself; the text of number i (in the order in which they came) is kFirstText - i.
  static constexpr int32_t kFirstText = -2;
  std::vector<int32_t> codes_;
  absl::flat_hash_map<std::string, int32_t> texts_;
  // Where each label stood first: of numbers from -1 on, and of texts.
  std::vector<Place> number_places_;
  std::vector<Place> text_places_;
};

}  // namespace muster

#endif  // MUSTER_WORKER_DATA_CSV_CSV_LABELS_H_
