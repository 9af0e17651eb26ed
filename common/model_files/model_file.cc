#include "common/model_files/model_file.h"

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/text/dump_json.h"
#include "google/protobuf/text_format.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

constexpr char kTransformer[] = "transformer";
constexpr char kAdapterKey[] = "adapter";
constexpr char kTokenizerKey[] = "tokenizer";
constexpr char kBytes[] = "bytes";
constexpr uint64_t kMostHeaderBytes = uint64_t{1} << 30;

std::string InOneLine(const google::protobuf::Message& message) {
  google::protobuf::TextFormat::Printer printer;
  printer.SetSingleLineMode(true);
  std::string text;
  printer.PrintToString(message, &text);
  return text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const ModelFile>> ModelFile::Open(const std::string& path) {
  auto model = absl::WrapUnique(new ModelFile());
  MUSTER_RETURN_IF_ERROR(model->Parse(path));
  return std::unique_ptr<const ModelFile>(std::move(model));
}

ModelFile::ModelFile() : spec_(std::make_unique<v1::TransformerSpec>()) {}

ModelFile::~ModelFile() = default;

absl::Status ModelFile::Parse(const std::string& path) {
  MUSTER_ASSIGN_OR_RETURN(file_, SafetensorsFile::Open(path));
  const auto model = file_->metadata().find(kTransformer);
  if (model == file_->metadata().end()) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " does not say what model it holds; expected a file that `muster export` wrote of a "
        "transformer, or a folder with config.json and model.safetensors"));
  }
  if (!google::protobuf::TextFormat::ParseFromString(model->second, spec_.get())) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        " describes its transformer in a way that this program does not read; use a newer "
        "Muster"));
  }
  const auto embedding = file_->tensors().find("embedding.weight");
  if (embedding == file_->tensors().end() || embedding->second.shape.size() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has no matrix embedding.weight"));
  }
  FillTransformerDefaults(embedding->second.shape[0], *spec_);
  if (const auto found = file_->metadata().find(kAdapterKey); found != file_->metadata().end()) {
    adapter_ = std::make_unique<v1::AdapterSpec>();
    if (!google::protobuf::TextFormat::ParseFromString(found->second, adapter_.get())) {
      return absl::InvalidArgumentError(absl::StrCat(
          path,
          " describes its adapters in a way that this program does not read; use a newer Muster"));
    }
  }
  if (const auto found = file_->metadata().find(kTokenizerKey); found != file_->metadata().end()) {
    tokenizer_json_ = found->second == kBytes ? "" : found->second;
  }
  for (const auto& [name, tensor] : file_->tensors()) tensors_.push_back({name, tensor.shape});
  return absl::OkStatus();
}

std::optional<TokenizerIdentity> ModelFile::tokenizer() const {
  return TokenizerOfMetadata(file_->metadata());
}

absl::Status ModelFile::Read(const std::string& tensor, std::vector<float>& values) const {
  const auto found = file_->tensors().find(tensor);
  if (found == file_->tensors().end()) {
    return absl::NotFoundError(absl::StrCat(file_->path(), " has no tensor ", tensor));
  }
  values.resize(found->second.elements());
  return ReadAsFloats(found->second, tensor, 0, absl::MakeSpan(values));
}

std::map<std::string, std::string> ModelFileMetadata(
    const v1::TransformerSpec& spec, const std::optional<std::string>& tokenizer_json) {
  std::map<std::string, std::string> metadata;
  metadata[kTransformer] = InOneLine(spec);
  if (tokenizer_json.has_value()) {
    metadata[kTokenizerKey] = tokenizer_json->empty() ? kBytes : *tokenizer_json;
  }
  return metadata;
}

void AddAdapter(const v1::AdapterSpec& adapter, std::map<std::string, std::string>& metadata) {
  metadata[kAdapterKey] = InOneLine(adapter);
}

MetadataInserter::MetadataInserter(Make make, Sink sink)
    : make_(std::move(make)), sink_(std::move(sink)) {}

absl::Status MetadataInserter::Write(absl::string_view bytes) {
  if (passed_) return sink_(bytes);
  header_.append(bytes.data(), bytes.size());
  uint64_t length = 0;
  if (header_.size() < sizeof(length)) return absl::OkStatus();
  memcpy(&length, header_.data(), sizeof(length));
  if (length > kMostHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("a safetensors header of ", length, " bytes is none"));
  }
  if (header_.size() - sizeof(length) < length) return absl::OkStatus();
  auto json = nlohmann::ordered_json::parse(header_.begin() + sizeof(length),
                                            header_.begin() + sizeof(length) + length, nullptr,
                                            /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError("a safetensors header that is no JSON object is none");
  }
  nlohmann::ordered_json& metadata = json["__metadata__"];
  Metadata present;
  for (const auto& entry : metadata.items()) {
    if (entry.value().is_string()) present[entry.key()] = entry.value().get<std::string>();
  }
  MUSTER_ASSIGN_OR_RETURN(const Metadata added, make_(present));
  for (const auto& [name, value] : added) metadata[name] = value;
  std::string text = DumpJson(json);
  text.append((8 - text.size() % 8) % 8, ' ');
  const uint64_t new_length = text.size();
  MUSTER_RETURN_IF_ERROR(sink_({reinterpret_cast<const char*>(&new_length), sizeof(new_length)}));
  MUSTER_RETURN_IF_ERROR(sink_(text));
  passed_ = true;
  const std::string rest = header_.substr(sizeof(length) + length);
  header_.clear();
  return rest.empty() ? absl::OkStatus() : sink_(rest);
}

}  // namespace muster
