#include "tests/harness/safetensors_reader.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr char kKeys[] = ".keys";
constexpr char kRows[] = ".rows";

// Puts the rows of a sparse table into ascending order of key.
void SortRows(std::string& keys, std::string& rows) {
  const size_t count = keys.size() / sizeof(uint64_t);
  if (count == 0) return;
  const size_t row_bytes = rows.size() / count;
  std::vector<std::pair<uint64_t, size_t>> order(count);
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(&order[i].first, keys.data() + i * sizeof(uint64_t), sizeof(uint64_t));
    order[i].second = i;
  }
  std::sort(order.begin(), order.end());
  std::string sorted_keys, sorted_rows;
  for (const auto& [key, place] : order) {
    sorted_keys.append(keys, place * sizeof(uint64_t), sizeof(uint64_t));
    sorted_rows.append(rows, place * row_bytes, row_bytes);
  }
  keys = std::move(sorted_keys);
  rows = std::move(sorted_rows);
}

}  // namespace

std::vector<float> ExportedTensor::Floats() const {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

absl::StatusOr<ExportedTensors> ReadSafetensors(const std::string& file) {
  uint64_t header_bytes = 0;
  if (file.size() < sizeof(header_bytes)) return absl::InvalidArgumentError("no header length");
  std::memcpy(&header_bytes, file.data(), sizeof(header_bytes));
  if (header_bytes > file.size() - sizeof(header_bytes)) {
    return absl::InvalidArgumentError("header reaches past the end");
  }
  const auto header =
      nlohmann::json::parse(file.substr(sizeof(header_bytes), header_bytes), nullptr,
                            /*allow_exceptions=*/false);
  if (!header.is_object()) return absl::InvalidArgumentError("header is no JSON object");
  const size_t data = sizeof(header_bytes) + header_bytes;
  ExportedTensors tensors;
  uint64_t covered = 0;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const uint64_t begin = entry["data_offsets"][0];
    const uint64_t end = entry["data_offsets"][1];
    if (begin > end || data + end > file.size()) {
      return absl::InvalidArgumentError(absl::StrCat(name, " lies outside the file"));
    }
    ExportedTensor& tensor = tensors[name];
    tensor.dtype = entry["dtype"];
    tensor.shape = entry["shape"].get<std::vector<int64_t>>();
    tensor.bytes = file.substr(data + begin, end - begin);
    int64_t elements = 1;
    for (int64_t extent : tensor.shape) elements *= extent;
    const int64_t element_bytes = tensor.dtype == "U64" ? 8 : 4;
    if (elements * element_bytes != static_cast<int64_t>(tensor.bytes.size())) {
      return absl::InvalidArgumentError(absl::StrCat(name, " has a shape that is not its length"));
    }
    covered += end - begin;
  }
  if (data + covered != file.size()) return absl::InvalidArgumentError("data has gaps or overlaps");
  for (auto& [name, keys] : tensors) {
    if (!absl::EndsWith(name, kKeys)) continue;
    const auto rows = tensors.find(name.substr(0, name.size() - strlen(kKeys)) + kRows);
    if (rows != tensors.end()) SortRows(keys.bytes, rows->second.bytes);
  }
  return tensors;
}

}  // namespace muster
