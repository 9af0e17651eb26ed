#include "common/model_files/model_folder.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/model_limits.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/files/parse_json.h"
#include "common/model_files/transformer_config.h"
#include "common/safetensors/safetensors_writer.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr char kWeights[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";

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

absl::StatusOr<std::vector<std::string>> FilesOf(const fs::path& folder) {
  if (Exists(folder / kWeights)) return std::vector<std::string>{kWeights};
  if (!Exists(folder / kIndex)) {
    return absl::NotFoundError(
        absl::StrCat(folder.string(), " has no ", kWeights,
                     Exists(folder / "pytorch_model.bin")
                         ? "; pytorch_model.bin is Python's pickle, which is not read: convert it "
                           "to safetensors first"
                         : "; name a folder with config.json and model.safetensors"));
  }
  const std::string path = (folder / kIndex).string();
  MUSTER_ASSIGN_OR_RETURN(const FileContent content, FileContent::Open(path));
  const absl::string_view text = content.bytes();
  MUSTER_ASSIGN_OR_RETURN(const nlohmann::json index,
                          ParseJson(text, path, "the index of several safetensors files"));
  if (!index.is_object() || !index.contains("weight_map") || !index["weight_map"].is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(path, " has no object weight_map"));
  }
  std::set<std::string> names;
  for (const auto& entry : index["weight_map"].items()) {
    const std::string name = entry.value().is_string() ? entry.value().get<std::string>() : "";
    if (name.empty() || fs::path(name).filename() != name) {
      return absl::InvalidArgumentError(absl::StrCat(path, ": weight_map names the file '", name,
                                                     "' for ", entry.key(),
                                                     "; expected a file of the same folder"));
    }
    names.insert(name);
  }
  return std::vector<std::string>(names.begin(), names.end());
}

std::string Shape(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

absl::Status WriteText(const fs::path& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (file) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("cannot write ", path.string()));
}

std::vector<float> Transposed(const std::vector<float>& values, int64_t rows, int64_t cols) {
  std::vector<float> out(values.size());
  // In squares, so that both sides stay in cache.
  constexpr int64_t kSide = 32;
  for (int64_t r0 = 0; r0 < rows; r0 += kSide) {
    for (int64_t c0 = 0; c0 < cols; c0 += kSide) {
      for (int64_t r = r0; r < std::min(rows, r0 + kSide); ++r) {
        for (int64_t c = c0; c < std::min(cols, c0 + kSide); ++c) {
          out[c * rows + r] = values[r * cols + c];
        }
      }
    }
  }
  return out;
}

int64_t Product(const std::vector<int64_t>& shape) {
  int64_t product = 1;
  for (const int64_t extent : shape) product *= extent;
  return product;
}

// Refuses sizes of which shapes could not be computed, or whose elements not be counted.
absl::Status CheckSizes(const v1::TransformerSpec& spec) {
  const auto check = [](absl::string_view field, uint64_t value, uint64_t most) {
    if (value >= 1 && value <= most) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the transformer's ", field, " is ", value,
                                                   ", expected a number from 1 to ", most));
  };
  MUSTER_RETURN_IF_ERROR(check("layers", spec.layers(), kMaxTransformerLayers));
  MUSTER_RETURN_IF_ERROR(check("width", spec.width(), kMaxWidth));
  MUSTER_RETURN_IF_ERROR(check("heads", spec.heads(), spec.width()));
  MUSTER_RETURN_IF_ERROR(check("kv_heads", spec.kv_heads(), spec.heads()));
  MUSTER_RETURN_IF_ERROR(check("feed_forward", spec.feed_forward(), kMaxFeedForward));
  MUSTER_RETURN_IF_ERROR(check("vocabulary", spec.vocabulary(), kMaxVocabulary));
  return check("context", spec.context(), kMaxContext);
}

// The first dimension of a tensor that has rows of padding after those of the layout.
int64_t PaddedRows(const v1::TransformerSpec& spec, const MusterTensor& tensor) {
  const int64_t multiple = std::max<int64_t>(1, spec.pad_vocabulary_to());
  const bool padded = tensor.name == "embedding.weight" || tensor.name == "head.weight";
  return padded ? (tensor.shape[0] + multiple - 1) / multiple * multiple : tensor.shape[0];
}

// Refuses weights that lack a tensor of the layout, or have it in another shape.
absl::Status CheckShapes(const Weights& weights, const std::vector<HuggingFaceTensor>& layout) {
  std::map<std::string, std::vector<int64_t>> shapes;
  for (const MusterTensor& tensor : weights.tensors()) shapes[tensor.name] = tensor.shape;
  for (const MusterTensor& tensor : MusterTensors(layout)) {
    std::vector<int64_t> expected = tensor.shape;
    expected[0] = PaddedRows(weights.spec(), tensor);
    const auto found = shapes.find(tensor.name);
    if (found == shapes.end() || found->second != expected) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the weights' tensor ", tensor.name,
          found == shapes.end() ? " is missing" : absl::StrCat(" has shape ", Shape(found->second)),
          ", expected shape ", Shape(expected), " for this transformer"));
    }
  }
  return absl::OkStatus();
}

// Replaces `values` by the tensor's elements, as many as its shape says.
absl::Status ReadWhole(const Weights& weights, const std::string& name,
                       std::vector<float>& values) {
  MUSTER_RETURN_IF_ERROR(weights.Read(name, values));
  for (const MusterTensor& tensor : weights.tensors()) {
    if (tensor.name != name || Product(tensor.shape) == static_cast<int64_t>(values.size())) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " has ", values.size(),
                                                   " elements, expected ", Product(tensor.shape),
                                                   " by its shape ", Shape(tensor.shape)));
  }
  return absl::OkStatus();
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
  const std::string config = (folder / "config.json").string();
  if (!Exists(config)) {
    return absl::NotFoundError(absl::StrCat(
        folder_, " has no config.json; name a folder with config.json and model.safetensors"));
  }
  MUSTER_ASSIGN_OR_RETURN(const FileContent text, FileContent::Open(config));
  MUSTER_RETURN_IF_ERROR(ParseTransformerConfig(text.bytes(), config, *spec_));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<std::string> names, FilesOf(folder));
  for (const std::string& name : names) {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<const SafetensorsFile> file,
                            SafetensorsFile::Open((folder / name).string()));
    for (const auto& [tensor_name, tensor] : file->tensors()) {
      if (!IsBuffer(tensor_name)) found_[WithoutPrefix(tensor_name)] = &tensor;
    }
    files_.push_back(std::move(file));
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
  if (spec_->separate_head() && Find("lm_head.weight") == nullptr) spec_->set_separate_head(false);
  MUSTER_ASSIGN_OR_RETURN(const HuggingFaceFamily family, FamilyOf(*spec_));
  layout_ = HuggingFaceTensors(family, *spec_);
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
          absl::StrCat(folder_, ": tensor ", tensor.name, " has shape ", Shape(found->shape),
                       ", expected ", Shape(tensor.shape), " by config.json"));
    }
  }
  for (const auto& [name, tensor] : found_) {
    // A tied head may be written out all the same.
    if (expected.count(name) > 0 || name == "lm_head.weight") continue;
    return absl::InvalidArgumentError(absl::StrCat(folder_, " has the tensor ", name, " of shape ",
                                                   Shape(tensor->shape),
                                                   ", which Muster's model has no place for"));
  }
  tensors_ = MusterTensors(layout_);
  return absl::OkStatus();
}

absl::Status ModelFolder::Read(const std::string& tensor, std::vector<float>& values) const {
  values.clear();
  for (const HuggingFaceTensor& part : layout_) {
    if (part.muster != tensor) continue;
    std::vector<float> read(Product(part.shape));
    MUSTER_RETURN_IF_ERROR(ReadAsFloats(*Find(part.name), part.name, 0, absl::MakeSpan(read)));
    if (part.transposed) read = Transposed(read, part.shape[0], part.shape[1]);
    values.insert(values.end(), read.begin(), read.end());
  }
  if (values.empty()) return absl::NotFoundError(absl::StrCat(folder_, " holds no ", tensor));
  return absl::OkStatus();
}

absl::Status WriteModelFolder(const std::string& folder, const ModelFolderContents& contents) {
  const Weights& weights = contents.weights;
  MUSTER_ASSIGN_OR_RETURN(const HuggingFaceFamily family, FamilyOf(weights.spec()));
  MUSTER_RETURN_IF_ERROR(CheckSizes(weights.spec()));
  const std::vector<HuggingFaceTensor> layout = HuggingFaceTensors(family, weights.spec());
  MUSTER_RETURN_IF_ERROR(CheckShapes(weights, layout));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the folder ", folder, ": ", error.message()));
  }
  std::vector<SafetensorsWriter::Tensor> announced;
  for (const HuggingFaceTensor& tensor : layout) announced.push_back({tensor.name, tensor.shape});
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                          SafetensorsWriter::Create((fs::path(folder) / kWeights).string(),
                                                    announced, {{"format", "pt"}}));
  std::string read;
  std::vector<float> values;
  for (const HuggingFaceTensor& tensor : layout) {
    if (tensor.muster.empty()) {
      writer->Append(std::vector<float>(Product(tensor.shape)));
      continue;
    }
    if (read != tensor.muster) MUSTER_RETURN_IF_ERROR(ReadWhole(weights, tensor.muster, values));
    read = tensor.muster;
    if (tensor.transposed) {
      writer->Append(Transposed(values, tensor.shape[1], tensor.shape[0]));
      continue;
    }
    const int64_t elements = Product(tensor.shape);
    const int64_t first = tensor.first_row * (elements / tensor.shape[0]);
    writer->Append(absl::MakeConstSpan(values).subspan(first, elements));
  }
  MUSTER_RETURN_IF_ERROR(writer->Finish());
  if (!contents.tokenizer_json.empty()) {
    MUSTER_RETURN_IF_ERROR(WriteText(fs::path(folder) / "tokenizer.json", contents.tokenizer_json));
  }
  // Last, so that a folder with a configuration is complete.
  return WriteText(fs::path(folder) / "config.json",
                   WriteTransformerConfig(family, weights.spec(), contents.end_of_text));
}

}  // namespace muster
