#include "client/chaos/exported_weights.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace muster {
namespace {

constexpr char kKeys[] = ".keys";
constexpr char kRows[] = ".rows";

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

double MeanApart(const ExportedWeights& a, const ExportedWeights& b) {
  constexpr double kOther = std::numeric_limits<double>::infinity();
  if (a.size() != b.size()) return kOther;
  double sum = 0;
  size_t weights = 0;
  for (const auto& [name, bytes] : a) {
    const auto other = b.find(name);
    if (other == b.end() || other->second.size() != bytes.size()) return kOther;
    if (absl::EndsWith(name, kKeys)) {
      if (bytes != other->second) return kOther;
      continue;
    }
    for (size_t at = 0; at + sizeof(float) <= bytes.size(); at += sizeof(float)) {
      float one = 0, two = 0;
      std::memcpy(&one, bytes.data() + at, sizeof(one));
      std::memcpy(&two, other->second.data() + at, sizeof(two));
      sum += std::abs(one - two);
      ++weights;
    }
  }
  return weights == 0 || std::isnan(sum) ? kOther : sum / static_cast<double>(weights);
}

absl::StatusOr<ExportedWeights> ParseWeights(absl::string_view safetensors) {
  uint64_t header_bytes = 0;
  if (safetensors.size() < sizeof(header_bytes)) {
    return absl::InvalidArgumentError("the export ends before the length of its header");
  }
  std::memcpy(&header_bytes, safetensors.data(), sizeof(header_bytes));
  safetensors.remove_prefix(sizeof(header_bytes));
  if (header_bytes > safetensors.size()) {
    return absl::InvalidArgumentError("the export ends within its header");
  }
  const auto header = nlohmann::json::parse(safetensors.begin(), safetensors.begin() + header_bytes,
                                            nullptr, /*allow_exceptions=*/false);
  safetensors.remove_prefix(header_bytes);
  if (!header.is_object()) return absl::InvalidArgumentError("the export's header is not JSON");
  ExportedWeights weights;
  for (const auto& [name, entry] : header.items()) {
    if (name == "__metadata__") continue;
    const uint64_t begin = entry["data_offsets"][0], end = entry["data_offsets"][1];
    if (begin > end || end > safetensors.size()) {
      return absl::InvalidArgumentError(absl::StrCat(name, " lies outside the export"));
    }
    weights[name] = std::string(safetensors.substr(begin, end - begin));
  }
  for (auto& [name, bytes] : weights) {
    if (!absl::EndsWith(name, kKeys)) continue;
    const auto rows = weights.find(name.substr(0, name.size() - strlen(kKeys)) + kRows);
    if (rows != weights.end()) SortRows(bytes, rows->second);
  }
  return weights;
}

}  // namespace muster
