#include "common/safetensors/safetensors_writer.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/text/dump_json.h"

namespace muster {

absl::StatusOr<std::unique_ptr<SafetensorsWriter>> SafetensorsWriter::Create(
    const std::string& path, const std::vector<Tensor>& tensors,
    const std::map<std::string, std::string>& metadata) {
  using Json = nlohmann::json;
  Json header = Json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  uint64_t elements = 0;
  for (const Tensor& tensor : tensors) {
    const uint64_t begin = elements;
    uint64_t product = 1;
    for (const int64_t extent : tensor.shape) product *= extent;
    elements += product;
    header[tensor.name] = {{"dtype", "F32"},
                           {"shape", tensor.shape},
                           {"data_offsets", {begin * sizeof(float), elements * sizeof(float)}}};
  }
  std::string text = DumpJson(header);
  // Readers map the file, and tensors are to be aligned then.
  text.append((8 - text.size() % 8) % 8, ' ');
  auto writer = absl::WrapUnique(new SafetensorsWriter(path, elements));
  const uint64_t length = text.size();
  writer->file_.write(reinterpret_cast<const char*>(&length), sizeof(length));
  writer->file_.write(text.data(), static_cast<std::streamsize>(text.size()));
  if (!writer->file_) {
    return absl::FailedPreconditionError(absl::StrCat(
        "cannot write ", writer->partial_, "; does its folder exist, may it be written?"));
  }
  return writer;
}

SafetensorsWriter::SafetensorsWriter(std::string path, uint64_t elements)
    : path_(std::move(path)),
      partial_(path_ + ".partial"),
      file_(partial_, std::ios::binary | std::ios::trunc),
      left_(static_cast<int64_t>(elements)) {}

SafetensorsWriter::~SafetensorsWriter() {
  file_.close();
  if (!finished_) std::remove(partial_.c_str());
}

void SafetensorsWriter::Append(absl::Span<const float> values) {
  left_ -= static_cast<int64_t>(values.size());
  file_.write(reinterpret_cast<const char*>(values.data()),
              static_cast<std::streamsize>(values.size() * sizeof(float)));
}

absl::Status SafetensorsWriter::Finish() {
  file_.close();
  if (!file_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("cannot write all of ", partial_, "; is there space left?"));
  }
  if (left_ != 0) {
    return absl::FailedPreconditionError(absl::StrCat(partial_, " got ", left_ > 0 ? left_ : -left_,
                                                      " elements too ",
                                                      left_ > 0 ? "few" : "many"));
  }
  if (std::rename(partial_.c_str(), path_.c_str()) != 0) {
    return absl::FailedPreconditionError(absl::StrCat("cannot rename ", partial_, " to ", path_));
  }
  finished_ = true;
  return absl::OkStatus();
}

}  // namespace muster
