#ifndef MUSTER_WORKER_PREDICT_EXAMPLE_SOURCE_H_
#define MUSTER_WORKER_PREDICT_EXAMPLE_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/optional.h"
#include "worker/data/batch.h"
#include "worker/data/dataset.h"

namespace muster {

// Examples to predict the labels of, one after another, and the columns that stand before their
// predictions. Not thread-safe.
class ExampleSource {
 public:
  virtual ~ExampleSource() = default;

  // Returns the shape of the examples; `examples` is 0, as their number is not known.
  virtual const DatasetInfo& info() const = 0;

  // Replaces `batch` by the next examples, `most` at most and none at the end, with labels and
  // targets of 0. Replaces `lines` by each one's columns as text, without a line end. Errors are
  // those of OpenDataset: files are read as far as the examples are taken.
  virtual absl::Status Next(int64_t most, Batch& batch, std::vector<std::string>& lines) = 0;

  // The character between columns.
  virtual char separator() const = 0;

  // Return the names of the columns as text, like a line; nothing if the file has no such line; and
  // whether this is the name of one. REQUIRES: Next.
  virtual absl::optional<absl::string_view> header() const = 0;
  virtual bool HasColumn(absl::string_view name) const = 0;
};

}  // namespace muster

#endif  // MUSTER_WORKER_PREDICT_EXAMPLE_SOURCE_H_
