#include "common/model_files/weight_files.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/model_files/model_folder_names.h"
#include "common/model_files/tensor_arrays.h"
#include "common/text/dump_json.h"

namespace muster {
namespace {

// The largest finite f16.
constexpr float kLargestF16 = 65504;

}  // namespace

WeightFiles::WeightFiles(std::string folder, std::vector<SafetensorsWriter::Tensor> tensors,
                         DType type, uint64_t file_bytes, Replace replace)
    : folder_(std::move(folder)), tensors_(std::move(tensors)), type_(type), replace_(replace) {
  uint64_t in_file = 0;
  for (size_t i = 0; i < tensors_.size(); ++i) {
    const uint64_t bytes = ElementsOf(tensors_[i].shape) * SizeOf(type);
    if (begins_.empty() || in_file + bytes > file_bytes) {
      begins_.push_back(i);
      in_file = 0;
    }
    in_file += bytes;
    bytes_ += bytes;
  }
  begins_.push_back(tensors_.size());
}

std::string WeightFiles::NameOf(size_t file) const {
  const size_t files = begins_.size() - 1;
  if (files == 1) return kModelWeights;
  return absl::StrFormat("model-%05d-of-%05d.safetensors", file + 1, files);
}

absl::Status WeightFiles::Append(absl::Span<const float> values) {
  if (type_ == DType::kF16) {
    for (const float value : values) {
      if (std::abs(value) <= kLargestF16) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", tensors_[next_].name, " has the value ", value,
                       ", which f16 cannot hold: export as bf16 or f32"));
    }
  }
  if (writer_ == nullptr) {
    const std::vector<SafetensorsWriter::Tensor> announced(tensors_.begin() + begins_[file_],
                                                           tensors_.begin() + begins_[file_ + 1]);
    MUSTER_ASSIGN_OR_RETURN(
        writer_, SafetensorsWriter::Create(absl::StrCat(folder_, "/", NameOf(file_)), announced,
                                           {{"format", "pt"}}, type_, replace_));
  }
  writer_->Append(values);
  if (++next_ < begins_[file_ + 1]) return absl::OkStatus();
  MUSTER_RETURN_IF_ERROR(writer_->Finish());
  writer_ = nullptr;
  ++file_;
  return absl::OkStatus();
}

absl::Status WeightFiles::Finish() {
  if (begins_.size() <= 2) return absl::OkStatus();
  nlohmann::json map = nlohmann::json::object();
  for (size_t file = 0; file + 1 < begins_.size(); ++file) {
    for (size_t i = begins_[file]; i < begins_[file + 1]; ++i) map[tensors_[i].name] = NameOf(file);
  }
  const nlohmann::json index = {{"metadata", {{"total_size", bytes_}}}, {"weight_map", map}};
  return WriteOutputFile(absl::StrCat(folder_, "/", kModelIndex), replace_,
                         DumpJson(index, 2) + "\n");
}

std::set<std::string> WeightFiles::names() const {
  std::set<std::string> names;
  for (size_t file = 0; file + 1 < begins_.size(); ++file) names.insert(NameOf(file));
  if (names.size() > 1) names.insert(kModelIndex);
  return names;
}

}  // namespace muster
