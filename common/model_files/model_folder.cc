#include "common/model_files/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/files/parse_json.h"
#include "common/model_files/expert_config.h"
#include "common/model_files/model_folder_names.h"
#include "common/model_files/tensor_arrays.h"
#include "common/model_files/transformer_config.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr char kHead[] = "lm_head.weight";

bool Exists(const fs::path& path) {
  std::error_code error;
  return fs::exists(path, error);
}

// Tensors that hold no weights: masks and tables that are made anew.
bool IsBuffer(absl::string_view name) {
  return absl::EndsWith(name, ".attn.bias") || absl::EndsWith(name, ".attn.masked_bias") ||
         absl::EndsWith(name, ".rotary_emb.inv_freq");
}

// GPT-2 was published without the prefix that the model with its head has.
std::string WithoutPrefix(const std::string& name) {
  return std::string(absl::StripPrefix(name, "transformer."));
}

// The files of weights, each with the tensors that the index says are in it; none of a single file,
// which has no index.
using TensorsByFile = std::map<std::string, std::optional<std::set<std::string>>>;

absl::StatusOr<TensorsByFile> FilesOf(const fs::path& folder) {
  if (Exists(folder / kModelWeights)) return TensorsByFile{{kModelWeights, std::nullopt}};
  if (!Exists(folder / kModelIndex)) {
    return absl::NotFoundError(
        absl::StrCat(folder.string(), " has no ", kModelWeights,
                     Exists(folder / "pytorch_model.bin")
                         ? "; pytorch_model.bin is Python's pickle, which is not read: convert it "
                           "to safetensors first"
                         : "; name a folder with config.json and model.safetensors"));
  }
  const std::string path = (folder / kModelIndex).string();
  MUSTER_ASSIGN_OR_RETURN(const FileContent content, FileContent::Open(path));
  const absl::string_view text = content.bytes();
  MUSTER_ASSIGN_OR_RETURN(const nlohmann::json index,
                          ParseJson(text, path, "the index of several safetensors files"));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has no object weight_map"));
  }
  TensorsByFile files;
  for (const auto& entry : index["weight_map"].items()) {
    const std::string name = entry.value().is_string() ? entry.value().get<std::string>() : "";
    if (name.empty() || fs::path(name).filename() != name) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": weight_map names the file '", name,
                                                     "' for ", entry.key(),
                                                     "; expected a file of the same folder"));
    }
    std::optional<std::set<std::string>>& tensors = files[name];
    if (!tensors.has_value()) tensors.emplace();
    tensors->insert(entry.key());
  }
  return files;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const ModelFolder>> ModelFolder::Open(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return absl::NotFoundError(
        absl::StrCat(folder, " is no folder; name one with config.json and model.safetensors"));
  }
  auto model = absl::WrapUnique(new ModelFolder(folder));
  MUSTER_RETURN_IF_ERROR(model->OpenFiles());
  MUSTER_RETURN_IF_ERROR(model->Match());
  return std::unique_ptr<const ModelFolder>(std::move(model));
}

ModelFolder::ModelFolder(std::string folder)
    : folder_(std::move(folder)), spec_(std::make_unique<v1::TransformerSpec>()) {}

ModelFolder::~ModelFolder() = default;

absl::Status ModelFolder::OpenFiles() {
  const fs::path folder = folder_;
  const std::string config = (folder / kModelConfig).string();
  if (!Exists(config)) {
    return absl::NotFoundError(absl::StrCat(
        folder_, " has no config.json; name a folder with config.json and model.safetensors"));
  }
  MUSTER_ASSIGN_OR_RETURN(const FileContent text, FileContent::Open(config));
  MUSTER_RETURN_IF_ERROR(ParseTransformerConfig(text.bytes(), config, *spec_));
  MUSTER_ASSIGN_OR_RETURN(const TensorsByFile files, FilesOf(folder));
  for (const auto& [name, indexed] : files) {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const SafetensorsFile> file,
                            SafetensorsFile::Open((folder / name).string()));
    MUSTER_RETURN_IF_ERROR(AddTensors(*file, indexed.has_value() ? &*indexed : nullptr));
    files_.push_back(std::move(file));
  }
  return absl::OkStatus();
}

absl::Status ModelFolder::AddTensors(const SafetensorsFile& file,
                                     const std::set<std::string>* indexed) {
  if (indexed != nullptr) {
    for (const std::string& name : *indexed) {
      if (file.tensors().count(name) > 0) continue;
      return absl::InvalidArgumentError(absl::StrCat(folder_, "/", kModelIndex,
                                                     " says that the tensor ", name, " is in ",
                                                     file.path(), ", which has none of that name"));
    }
  }
  for (const auto& [name, tensor] : file.tensors()) {
    if (IsBuffer(name) || (indexed != nullptr && indexed->count(name) == 0)) continue;
    if (found_.emplace(WithoutPrefix(name), &tensor).second) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(folder_, " has the tensor ", WithoutPrefix(name),
                     " twice, once with the prefix \"transformer.\"; expected one"));
  }
  return absl::OkStatus();
}

const SafetensorsTensor* ModelFolder::Find(const std::string& name) const {
  const auto found = found_.find(WithoutPrefix(name));
  return found == found_.end() ? nullptr : found->second;
}

absl::Status ModelFolder::Match() {
  // A head of its own that the file leaves out is the embedding: some writers do not say so in the
  // configuration.
  if (spec_->separate_head() && Find(kHead) == nullptr) spec_->set_separate_head(false);
  MUSTER_ASSIGN_OR_RETURN(const HuggingFaceFamily family, FamilyOf(*spec_));
  const bool fused = std::any_of(found_.begin(), found_.end(),
                                 [](const auto& tensor) { return IsOfFusedExperts(tensor.first); });
  // Before a name is made for each: a configuration may ask for millions.
  const std::vector<bool> layers = LayersWithExperts(*spec_);
  const auto with_experts = static_cast<size_t>(std::count(layers.begin(), layers.end(), true));
  if (!fused && with_experts * spec_->moe().experts() > found_.size()) {
    return absl::InvalidArgumentError(absl::StrCat(
        folder_, " has ", found_.size(), " tensors, fewer than there are experts by ",
        "its config.json: ", spec_->moe().experts(), " in each of ", with_experts, " layers"));
  }
  layout_ = HuggingFaceTensors(family, *spec_, fused ? ExpertFiles::kFused : ExpertFiles::kApart);
  // Of two names for one tensor, writers may keep the head's.
  if (!spec_->separate_head() && Find(kHead) != nullptr) {
    found_.emplace(WithoutPrefix(EmbeddingName(family)), Find(kHead));
  }
  std::set<std::string> expected;
  for (const HuggingFaceTensor& tensor : layout_) {
    expected.insert(WithoutPrefix(tensor.name));
    const SafetensorsTensor* found = Find(tensor.name);
    if (found == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(folder_, " has no tensor ", tensor.name,
                                                     ", which its config.json asks for"));
    }
    if (found->shape != tensor.shape) {
      return absl::InvalidArgumentError(
          absl::StrCat(folder_, ": tensor ", tensor.name, " has shape ", ShapeText(found->shape),
                       ", expected ", ShapeText(tensor.shape), " by config.json"));
    }
  }
  for (const auto& [name, tensor] : found_) {
    // A tied head may be written out all the same.
    if (expected.count(name) > 0 || name == kHead) continue;
    return absl::InvalidArgumentError(absl::StrCat(folder_, " has the tensor ", name, " of shape ",
                                                   ShapeText(tensor->shape),
                                                   ", which Muster's model has no place for"));
  }
  tensors_ = MusterTensors(layout_);
  return absl::OkStatus();
}

absl::Status ModelFolder::Read(const std::string& tensor, std::vector<float>& values) const {
  values.clear();
  for (const HuggingFaceTensor& part : layout_) {
    if (part.muster != tensor) continue;
    std::vector<float> read(ElementsOf(part.shape));
    MUSTER_RETURN_IF_ERROR(ReadAsFloats(*Find(part.name), part.name, 0, absl::MakeSpan(read)));
    if (part.transposed) read = Transposed(read, part.shape[0], part.shape[1]);
    values.insert(values.end(), read.begin(), read.end());
  }
  if (values.empty()) return absl::NotFoundError(absl::StrCat(folder_, " holds no ", tensor));
  return absl::OkStatus();
}

}  // namespace muster
