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
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/model_limits.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/files/file_content.h"
#include "common/files/parse_json.h"
#include "common/model_files/expert_config.h"
#include "common/model_files/transformer_config.h"
#include "common/safetensors/safetensors_writer.h"
#include "common/text/dump_json.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr char kWeights[] = "model.safetensors";
constexpr char kIndex[] = "model.safetensors.index.json";
constexpr char kConfig[] = "config.json";
constexpr char kTokenizer[] = "tokenizer.json";
constexpr char kTokenizerConfig[] = "tokenizer_config.json";
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
  if (Exists(folder / kWeights)) return TensorsByFile{{kWeights, std::nullopt}};
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

std::string Shape(const std::vector<int64_t>& shape) {
  return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
}

// Says that tokenizer.json is all there is to the tokenizer: without this file readers take the
// class of the model's family, which adds tokens and cuts words in its own way.
std::string TokenizerConfig(const ModelFolderContents& contents) {
  nlohmann::json json = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                         {"model_max_length", contents.weights.spec().context()},
                         {"clean_up_tokenization_spaces", false}};
  if (contents.end_of_text.has_value()) {
    json["bos_token"] = contents.end_of_text_name;
    json["eos_token"] = contents.end_of_text_name;
  }
  if (!contents.begin_of_text_name.empty()) json["bos_token"] = contents.begin_of_text_name;
  return DumpJson(json, 2) + "\n";
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
  MUSTER_RETURN_IF_ERROR(check("head_width", spec.head_width(), kMaxHeadDim));
  MUSTER_RETURN_IF_ERROR(check("feed_forward", spec.feed_forward(), kMaxFeedForward));
  MUSTER_RETURN_IF_ERROR(check("vocabulary", spec.vocabulary(), kMaxVocabulary));
  MUSTER_RETURN_IF_ERROR(check("context", spec.context(), kMaxContext));
  if (!spec.has_moe()) return absl::OkStatus();
  const v1::MoeSpec& moe = spec.moe();
  MUSTER_RETURN_IF_ERROR(check("moe.experts", moe.experts(), kMaxExperts));
  MUSTER_RETURN_IF_ERROR(check("moe.top_k", moe.top_k(), moe.experts()));
  MUSTER_RETURN_IF_ERROR(check("moe.expert_width", moe.expert_width(), kMaxFeedForward));
  if (moe.shared_width() > 0) {
    MUSTER_RETURN_IF_ERROR(check("moe.shared_width", moe.shared_width(), kMaxFeedForward));
  }
  for (const uint32_t layer : moe.dense_layers()) {
    if (layer < spec.layers()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the transformer's moe.dense_layers have the number ", layer,
                     ", expected numbers from 0 to ", spec.layers() - 1));
  }
  const std::vector<bool> with_experts = LayersWithExperts(spec);
  if (std::find(with_experts.begin(), with_experts.end(), true) == with_experts.end()) {
    return absl::InvalidArgumentError(
        "the transformer's moe.dense_layers are all its layers; leave out moe");
  }
  return absl::OkStatus();
}

// The first dimension of a tensor that has rows of padding after those of the layout.
int64_t PaddedRows(const v1::TransformerSpec& spec, const MusterTensor& tensor) {
  const int64_t multiple = std::max<int64_t>(1, spec.pad_vocabulary_to());
  const bool padded = tensor.name == "embedding.weight" || tensor.name == "head.weight";
  return padded ? RoundUp(tensor.shape[0], multiple) : tensor.shape[0];
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
  const std::string config = (folder / kConfig).string();
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
      return absl::InvalidArgumentError(absl::StrCat(folder_, "/", kIndex, " says that the tensor ",
                                                     name, " is in ", file.path(),
                                                     ", which has none of that name"));
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
          absl::StrCat(folder_, ": tensor ", tensor.name, " has shape ", Shape(found->shape),
                       ", expected ", Shape(tensor.shape), " by config.json"));
    }
  }
  for (const auto& [name, tensor] : found_) {
    // A tied head may be written out all the same.
    if (expected.count(name) > 0 || name == kHead) continue;
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

absl::Status CheckModelFolder(const std::string& folder, Replace replace) {
  // An index is not written, but says that the folder is another model's.
  for (const char* name : {kConfig, kWeights, kIndex, kTokenizer, kTokenizerConfig}) {
    MUSTER_RETURN_IF_ERROR(OutputTarget((fs::path(folder) / name).string(), replace).status());
  }
  return absl::OkStatus();
}

absl::Status WriteModelFolder(const std::string& folder, const ModelFolderContents& contents,
                              Replace replace) {
  const Weights& weights = contents.weights;
  MUSTER_ASSIGN_OR_RETURN(const HuggingFaceFamily family, FamilyOf(weights.spec()));
  MUSTER_RETURN_IF_ERROR(CheckSizes(weights.spec()));
  const std::vector<HuggingFaceTensor> layout = HuggingFaceTensors(family, weights.spec());
  MUSTER_RETURN_IF_ERROR(CheckShapes(weights, layout));
  MUSTER_RETURN_IF_ERROR(CheckModelFolder(folder, replace));
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
                                                    announced, {{"format", "pt"}}, replace));
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
  const auto write = [&](const char* name, const std::string& text) {
    return WriteOutputFile((fs::path(folder) / name).string(), replace, text);
  };
  if (contents.tokenizer_json.empty()) {
    // Of weights that were replaced.
    for (const char* name : {kTokenizer, kTokenizerConfig})
      fs::remove(fs::path(folder) / name, error);
  } else {
    MUSTER_RETURN_IF_ERROR(write(kTokenizer, contents.tokenizer_json));
    MUSTER_RETURN_IF_ERROR(write(kTokenizerConfig, TokenizerConfig(contents)));
  }
  // Last, so that a folder with a configuration is complete.
  return write(kConfig, WriteTransformerConfig(family, weights.spec(), contents.end_of_text));
}

}  // namespace muster
