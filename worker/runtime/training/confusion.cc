#include "worker/runtime/training/confusion.h"

#include <cstddef>

#include "absl/strings/str_cat.h"
#include "common/eval/confusion.h"
#include "proto/data_preparation.pb.h"
#include "proto/status.pb.h"

namespace muster {

void BeginConfusion(const DatasetInfo& data, int64_t classes, v1::Confusion& confusion) {
  confusion.Clear();
  confusion.set_classes(static_cast<uint32_t>(classes));
  if (classes > kMostConfusionClasses) return;
  v1::DataPreparation preparation;
  // The dataset made it, or has read it before.
  preparation.ParseFromString(data.preparation);
  const auto& known = preparation.csv().classes();
  for (int c = 0; c < classes; ++c) {
    if (known.empty()) {
      confusion.add_labels(absl::StrCat(c));
    } else {
      confusion.add_labels(c < known.size() ? known[c] : absl::StrCat("class ", c));
    }
  }
  confusion.mutable_counts()->Resize(static_cast<int>(classes * classes), 0);
}

void CountExamples(absl::Span<const int32_t> labels, absl::Span<const int32_t> predicted,
                   v1::Confusion& confusion) {
  const int classes = static_cast<int>(confusion.classes());
  for (size_t i = 0; i < labels.size(); ++i) {
    const int at = labels[i] * classes + predicted[i];
    confusion.set_counts(at, confusion.counts(at) + 1);
  }
}

}  // namespace muster
