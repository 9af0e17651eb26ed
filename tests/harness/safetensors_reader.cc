#include "tests/harness/safetensors_reader.h"

#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/chaos/exported_weights.h"

namespace muster {

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
  // Rows in ascending order of key.
  absl::StatusOr<ExportedWeights> weights = ParseWeights(file);
  if (!weights.ok()) return weights.status();
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
    tensor.bytes = std::move((*weights)[name]);
    int64_t elements = 1;
    for (int64_t extent : tensor.shape) elements *= extent;
    const int64_t element_bytes = tensor.dtype == "U64" ? 8 : 4;
    if (elements * element_bytes != static_cast<int64_t>(tensor.bytes.size())) {
      return absl::InvalidArgumentError(absl::StrCat(name, " has a shape that is not its length"));
    }
    covered += end - begin;
  }
  if (data + covered != file.size()) return absl::InvalidArgumentError("data has gaps or overlaps");
  return tensors;
}

}  // namespace muster
