#include "client/prove/weights_difference.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"

namespace muster {
namespace {

// Elements that are compared at a time.
constexpr int64_t kPart = 1 << 16;
// A tensor of smaller elements is measured by this share of the largest element of all.
constexpr double kShareOfLargest = 0.05;

double Distance(float a, float b) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return 0;
  const double distance = std::abs(static_cast<double>(a) - b);
  return std::isnan(distance) ? std::numeric_limits<double>::infinity() : distance;
}

// Adds elements of a tensor from `first` on to its difference.
void AddElements(const std::vector<float>& values, const std::vector<float>& expected, size_t count,
                 int64_t first, TensorDifference& result) {
  for (size_t i = 0; i < count; ++i) {
    if (std::isfinite(expected[i])) {
      result.largest = std::max(result.largest, std::abs(static_cast<double>(expected[i])));
    }
    const double distance = Distance(values[i], expected[i]);
    if (distance <= result.difference) continue;
    result.difference = distance;
    result.element = first + static_cast<int64_t>(i);
    result.value = values[i];
    result.expected = expected[i];
  }
}

absl::StatusOr<TensorDifference> CompareElements(const std::string& name,
                                                 const SafetensorsTensor& tensor,
                                                 const SafetensorsTensor& expected) {
  TensorDifference result;
  result.tensor = name;
  std::vector<float> a(std::min(kPart, tensor.elements())), b(a.size());
  for (int64_t first = 0; first < tensor.elements(); first += kPart) {
    const auto count = static_cast<size_t>(std::min(kPart, tensor.elements() - first));
    MUSTER_RETURN_IF_ERROR(ReadAsFloats(tensor, name, first, absl::MakeSpan(a).first(count)));
    MUSTER_RETURN_IF_ERROR(ReadAsFloats(expected, name, first, absl::MakeSpan(b).first(count)));
    AddElements(a, b, count, first, result);
  }
  return result;
}

// Returns the positions of a table's rows by key.
std::map<uint64_t, int64_t> RowsByKey(const SafetensorsTensor& keys) {
  std::map<uint64_t, int64_t> rows;
  for (int64_t row = 0; row < keys.elements(); ++row) {
    uint64_t key = 0;
    memcpy(&key, keys.bytes.data() + row * sizeof(key), sizeof(key));
    rows[key] = row;
  }
  return rows;
}

// Compares the rows of a table, which each file has in an order of its own.
absl::StatusOr<TensorDifference> CompareRows(const std::string& table, const SafetensorsFile& file,
                                             const SafetensorsFile& expected) {
  const std::string name = table + ".rows";
  const SafetensorsTensor& rows = file.tensors().at(name);
  const SafetensorsTensor& expected_rows = expected.tensors().at(name);
  const std::map<uint64_t, int64_t> by_key = RowsByKey(file.tensors().at(table + ".keys"));
  TensorDifference result;
  result.tensor = name;
  const int64_t dim = expected_rows.shape.back();
  std::vector<float> a(dim), b(dim);
  for (const auto& [key, row] : RowsByKey(expected.tensors().at(table + ".keys"))) {
    const auto found = by_key.find(key);
    if (found == by_key.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), " has no row of ", table, " for the key ", key));
    }
    MUSTER_RETURN_IF_ERROR(ReadAsFloats(rows, name, found->second * dim, absl::MakeSpan(a)));
    MUSTER_RETURN_IF_ERROR(ReadAsFloats(expected_rows, name, row * dim, absl::MakeSpan(b)));
    AddElements(a, b, a.size(), row * dim, result);
  }
  return result;
}

}  // namespace

absl::StatusOr<std::vector<TensorDifference>> WeightsDifference(const SafetensorsFile& file,
                                                                const SafetensorsFile& expected) {
  for (const auto& [name, tensor] : file.tensors()) {
    if (expected.tensors().count(name) > 0) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(file.path(), " has the tensor ", name, ", and the other has not"));
  }
  std::vector<std::pair<std::string, const SafetensorsTensor*>> in_order;
  for (const auto& [name, tensor] : expected.tensors()) in_order.emplace_back(name, &tensor);
  std::sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) {
    return a.second->bytes.data() < b.second->bytes.data();
  });
  std::vector<TensorDifference> differences;
  for (const auto& [name, tensor] : in_order) {
    const auto found = file.tensors().find(name);
    if (found == file.tensors().end() || found->second.shape != tensor->shape ||
        found->second.dtype != tensor->dtype) {
      return absl::InvalidArgumentError(absl::StrCat(
          file.path(),
          found == file.tensors().end() ? " has no tensor " : " has another shape of the tensor ",
          name));
    }
    // Looked at with the rows.
    if (tensor->dtype == "U64") continue;
    const std::string table(absl::StripSuffix(name, ".rows"));
    const bool rows = table != name && expected.tensors().count(table + ".keys") > 0;
    MUSTER_ASSIGN_OR_RETURN(
        TensorDifference difference,
        rows ? CompareRows(table, file, expected) : CompareElements(name, found->second, *tensor));
    differences.push_back(std::move(difference));
  }
  return differences;
}

double AllowedDifference(const TensorDifference& tensor, double largest_of_all, double tolerance) {
  return tolerance * std::max(tensor.largest, kShareOfLargest * largest_of_all);
}

}  // namespace muster
