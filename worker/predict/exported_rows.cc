#include "worker/predict/exported_rows.h"

#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/partition/initial_values.h"

namespace muster {
namespace {

// Returns a tensor of the table, which must have this type and shape; -1 is any extent.
absl::StatusOr<const SafetensorsTensor*> FindPart(const SafetensorsFile& file,
                                                  const std::string& name, const std::string& dtype,
                                                  const std::vector<int64_t>& shape) {
  const auto found = file.tensors().find(name);
  if (found == file.tensors().end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        file.path(), " has no tensor ", name, "; expected the weights of a job with such a table"));
  }
  const SafetensorsTensor& tensor = found->second;
  bool fits = tensor.dtype == dtype && tensor.shape.size() == shape.size();
  for (size_t i = 0; fits && i < shape.size(); ++i) {
    fits = shape[i] < 0 || tensor.shape[i] == shape[i];
  }
  if (fits) return &tensor;
  return absl::InvalidArgumentError(absl::StrCat(
      file.path(), ": ", name, " is ", tensor.dtype, " [", absl::StrJoin(tensor.shape, ", "),
      "], expected ", dtype, " of ", shape.size(), " dimensions",
      shape.back() < 0 ? std::string() : absl::StrCat(", the last of ", shape.back())));
}

}  // namespace

absl::StatusOr<ExportedRows> ExportedRows::Open(const SafetensorsFile& file,
                                                const SparseTableSpec& table, uint64_t seed) {
  MUSTER_ASSIGN_OR_RETURN(const SafetensorsTensor* const keys,
                          FindPart(file, absl::StrCat(table.name, ".keys"), "U64", {-1}));
  const int64_t count = keys->shape[0];
  MUSTER_ASSIGN_OR_RETURN(
      const SafetensorsTensor* const values,
      FindPart(file, absl::StrCat(table.name, ".rows"), "F32", {count, int64_t{table.dim}}));
  ExportedRows rows(table, seed);
  rows.rows_ = values->bytes;
  rows.row_of_.reserve(count);
  for (int64_t i = 0; i < count; ++i) {
    uint64_t key = 0;
    std::memcpy(&key, keys->bytes.data() + i * sizeof(key), sizeof(key));
    rows.row_of_.emplace(key, i);
  }
  return rows;
}

void ExportedRows::LookUp(SparseRows& sparse) const {
  const size_t dim = table_->dim;
  const size_t bytes = dim * sizeof(float);
  for (size_t i = 0; i < sparse.keys.size(); ++i) {
    const absl::Span<float> row = absl::MakeSpan(sparse.rows).subspan(i * dim, dim);
    const auto found = row_of_.find(sparse.keys[i]);
    if (found == row_of_.end()) {
      InitialRow(*table_, seed_, sparse.keys[i], row);
    } else {
      std::memcpy(row.data(), rows_.data() + found->second * bytes, bytes);
    }
  }
}

}  // namespace muster
