#include "common/safetensors/safetensors_file.h"

#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status_macros.h"
#include "common/files/parse_json.h"

namespace muster {
namespace {

using Json = nlohmann::json;

// As the format's own library has it.
constexpr uint64_t kMostHeaderBytes = 100'000'000;

// 0: unknown.
int64_t ElementBytes(absl::string_view dtype) {
  for (const auto& [name, bytes] :
       std::initializer_list<std::pair<absl::string_view, int64_t>>{{"F64", 8},
                                                                    {"F32", 4},
                                                                    {"F16", 2},
                                                                    {"BF16", 2},
                                                                    {"I64", 8},
                                                                    {"I32", 4},
                                                                    {"I16", 2},
                                                                    {"I8", 1},
                                                                    {"U64", 8},
                                                                    {"U32", 4},
                                                                    {"U16", 2},
                                                                    {"U8", 1},
                                                                    {"BOOL", 1},
                                                                    {"F8_E4M3", 1},
                                                                    {"F8_E5M2", 1}}) {
    if (dtype == name) return bytes;
  }
  return 0;
}

std::optional<uint64_t> Natural(const Json& value) {
  if (!value.is_number_integer() || value < Json(0)) return std::nullopt;
  return value.get<uint64_t>();
}

// What an entry of the header says; a message if it says nothing sensible.
absl::StatusOr<SafetensorsTensor> ParseTensor(const Json& entry, absl::string_view data) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry.contains("shape") ||
      !entry.contains("data_offsets") || !entry["dtype"].is_string() ||
      !entry["shape"].is_array() || !entry["data_offsets"].is_array() ||
      entry["data_offsets"].size() != 2) {
    return absl::InvalidArgumentError("lacks dtype, shape or data_offsets");
  }
  SafetensorsTensor tensor;
  tensor.dtype = entry["dtype"].get<std::string>();
  const int64_t element_bytes = ElementBytes(tensor.dtype);
  if (element_bytes == 0) {
    return absl::InvalidArgumentError(absl::StrCat("has the unknown type ", tensor.dtype));
  }
  uint64_t bytes = element_bytes;
  for (const Json& extent : entry["shape"]) {
    const std::optional<uint64_t> natural = Natural(extent);
    if (!natural.has_value() || __builtin_mul_overflow(bytes, *natural, &bytes) ||
        *natural > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return absl::InvalidArgumentError("has an impossible shape");
    }
    tensor.shape.push_back(static_cast<int64_t>(*natural));
  }
  const std::optional<uint64_t> begin = Natural(entry["data_offsets"][0]);
  const std::optional<uint64_t> end = Natural(entry["data_offsets"][1]);
  if (!begin.has_value() || !end.has_value() || *begin > *end || *end > data.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("lies outside of the file's ", data.size(), " bytes of tensors"));
  }
  if (*end - *begin != bytes) {
    return absl::InvalidArgumentError(absl::StrCat("has ", *end - *begin, " bytes, but ", bytes,
                                                   " by its shape [",
                                                   absl::StrJoin(tensor.shape, ", "), "]"));
  }
  tensor.bytes = data.substr(*begin, *end - *begin);
  return tensor;
}

// Of IEEE 754 half precision.
float FromHalf(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t exponent = half >> 10 & 0x1f;
  const uint32_t fraction = half & 0x3ff;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(fraction) * 0x1p-24f;
    return sign != 0 ? -magnitude : magnitude;
  }
  const uint32_t wide = exponent == 0x1f ? 0xff : exponent + 112;
  return std::bit_cast<float>(sign | wide << 23 | fraction << 13);
}

}  // namespace

int64_t SafetensorsTensor::elements() const {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

absl::StatusOr<std::unique_ptr<const SafetensorsFile>> SafetensorsFile::Open(
    const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(FileContent content, FileContent::Open(path));
  auto file = absl::WrapUnique(new SafetensorsFile(path, std::move(content)));
  MUSTER_RETURN_IF_ERROR(file->Parse());
  return std::unique_ptr<const SafetensorsFile>(std::move(file));
}

SafetensorsFile::SafetensorsFile(std::string path, FileContent content)
    : path_(std::move(path)), content_(std::move(content)) {}

absl::Status SafetensorsFile::Parse() {
  const absl::string_view bytes = content_.bytes();
  const auto no_file = [this](absl::string_view why) {
    return absl::InvalidArgumentError(
        absl::StrCat(path_, " is no safetensors file, or a damaged one: ", why));
  };
  uint64_t header_bytes = 0;
  if (bytes.size() < sizeof(header_bytes)) return no_file("it is shorter than its first field");
  memcpy(&header_bytes, bytes.data(), sizeof(header_bytes));
  if (header_bytes > bytes.size() - sizeof(header_bytes)) {
    return no_file("its header reaches past the end");
  }
  if (header_bytes > kMostHeaderBytes) {
    return no_file(absl::StrCat("its header has ", header_bytes, " bytes, at most ",
                                kMostHeaderBytes, " can be"));
  }
  const absl::string_view text = bytes.substr(sizeof(header_bytes), header_bytes);
  const absl::string_view data = bytes.substr(sizeof(header_bytes) + header_bytes);
  MUSTER_ASSIGN_OR_RETURN(const Json header, ParseJson(text, absl::StrCat("the header of ", path_),
                                                       "that of a safetensors file"));
  if (!header.is_object()) return no_file("its header is no JSON object");
  for (const auto& item : header.items()) {
    if (item.key() == "__metadata__") {
      if (!item.value().is_object()) return no_file("its metadata is no JSON object");
      for (const auto& entry : item.value().items()) {
        if (entry.value().is_string()) metadata_[entry.key()] = entry.value().get<std::string>();
      }
      continue;
    }
    absl::StatusOr<SafetensorsTensor> tensor = ParseTensor(item.value(), data);
    if (!tensor.ok()) {
      return no_file(absl::StrCat("tensor ", item.key(), " ", tensor.status().message()));
    }
    tensors_[item.key()] = *std::move(tensor);
  }
  return absl::OkStatus();
}

absl::Status ReadAsFloats(const SafetensorsTensor& tensor, absl::string_view name, int64_t first,
                          absl::Span<float> out) {
  if (tensor.dtype == "F32") {
    if (out.empty()) return absl::OkStatus();
    memcpy(out.data(), tensor.bytes.data() + first * sizeof(float), out.size() * sizeof(float));
    return absl::OkStatus();
  }
  if (tensor.dtype != "F16" && tensor.dtype != "BF16") {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", name, " has type ", tensor.dtype, ", expected F32, F16 or BF16"));
  }
  const bool half = tensor.dtype == "F16";
  for (size_t i = 0; i < out.size(); ++i) {
    uint16_t value;
    memcpy(&value, tensor.bytes.data() + (first + i) * sizeof(value), sizeof(value));
    out[i] = half ? FromHalf(value) : std::bit_cast<float>(static_cast<uint32_t>(value) << 16);
  }
  return absl::OkStatus();
}

}  // namespace muster
