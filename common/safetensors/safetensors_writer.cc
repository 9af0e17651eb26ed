#include "common/safetensors/safetensors_writer.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/tensor/half.h"
#include "common/text/dump_json.h"

namespace muster {
namespace {

// Returns the format's name of a type.
const char* NameOf(DType type) {
  return type == DType::kBf16 ? "BF16" : type == DType::kF16 ? "F16" : "F32";
}

}  // namespace

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, const std::vector<Tensor>& tensors,
    const std::map<std::string, std::string>& metadata, DType type, Replace replace) {
  using Json = nlohmann::json;
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t elements = 0;
  for (const Tensor& tensor : tensors) {
    const uint64_t begin = elements;
    uint64_t product = 1;
    for (const int64_t extent : tensor.shape) product *= extent;
    elements += product;
    header[tensor.name] = {{"dtype", NameOf(type)},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin * SizeOf(type), elements * SizeOf(type)}}};
  }
  std::string text = DumpJson(header);
  // Readers map the file, and tensors are to be aligned then.
  text.append((8 - text.size() % 8) % 8, ' ');
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<OutputFile> file, OutputFile::Create(path, replace));
  const uint64_t length = text.size();
  MUSTER_RETURN_IF_ERROR(file->Write({reinterpret_cast<const char*>(&length), sizeof(length)}));
  MUSTER_RETURN_IF_ERROR(file->Write(text));
  return absl::WrapUnique(new SafetensorsWriter(path, type, std::move(file), elements));
}

SafetensorsWriter::SafetensorsWriter(std::string path, DType type, std::unique_ptr<OutputFile> file,
                                     uint64_t elements)
    : path_(std::move(path)),
      type_(type),
      file_(std::move(file)),
      left_(static_cast<int64_t>(elements)) {}

void SafetensorsWriter::Append(absl::Span<const float> values) {
  left_ -= static_cast<int64_t>(values.size());
  if (type_ == DType::kF32) {
    status_.Update(file_->Write(
        {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)}));
    return;
  }
  std::vector<uint16_t> bits(values.size());
  RoundToHalf(type_, values, bits.data());
  status_.Update(
      file_->Write({reinterpret_cast<const char*>(bits.data()), bits.size() * sizeof(uint16_t)}));
}

absl::Status SafetensorsWriter::Finish() {
  MUSTER_RETURN_IF_ERROR(status_);
  if (left_ != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, " got ", left_ > 0 ? left_ : -left_, " elements too ", left_ > 0 ? "few" : "many"));
  }
  return file_->Publish();
}

}  // namespace muster
