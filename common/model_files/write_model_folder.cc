#include "common/model_files/write_model_folder.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/model_limits.h"
#include "common/base/round_up.h"
#include "common/base/status_macros.h"
#include "common/model_files/expert_config.h"
#include "common/model_files/model_folder_names.h"
#include "common/model_files/tensor_arrays.h"
#include "common/model_files/transformer_config.h"
#include "common/model_files/weight_files.h"
#include "common/text/dump_json.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

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
  for (const auto& [name, text] : contents.special_tokens) json[name] = text;
  if (!contents.chat_template.empty()) json["chat_template"] = contents.chat_template;
  return DumpJson(json, 2) + "\n";
}

FrameTokens FrameTokensOf(const ModelFolderContents& contents) {
  FrameTokens tokens;
  tokens.begin = contents.begin_of_text.has_value() ? contents.begin_of_text : contents.end_of_text;
  if (contents.end_of_text.has_value()) tokens.ends.push_back(*contents.end_of_text);
  for (const int32_t token : contents.ends_of_turns) {
    if (token != contents.end_of_text) tokens.ends.push_back(token);
  }
  return tokens;
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
          found == shapes.end() ? " is missing"
                                : absl::StrCat(" has shape ", ShapeText(found->second)),
          ", expected shape ", ShapeText(expected), " for this transformer"));
    }
  }
  return absl::OkStatus();
}

// Replaces `values` by the tensor's elements, as many as its shape says.
absl::Status ReadWhole(const Weights& weights, const std::string& name,
                       std::vector<float>& values) {
  MUSTER_RETURN_IF_ERROR(weights.Read(name, values));
  for (const MusterTensor& tensor : weights.tensors()) {
    if (tensor.name != name || ElementsOf(tensor.shape) == static_cast<int64_t>(values.size())) {
      continue;
    }
    return absl::InvalidArgumentError(absl::StrCat("tensor ", name, " has ", values.size(),
                                                   " elements, expected ", ElementsOf(tensor.shape),
                                                   " by its shape ", ShapeText(tensor.shape)));
  }
  return absl::OkStatus();
}

// Writes one tensor of the layout after the other; several may be parts of one of Muster's.
absl::Status WriteWeights(const Weights& weights, const std::vector<HuggingFaceTensor>& layout,
                          WeightFiles& files) {
  std::string read;
  std::vector<float> values;
  for (const HuggingFaceTensor& tensor : layout) {
    const int64_t elements = ElementsOf(tensor.shape);
    if (tensor.muster.empty()) {
      MUSTER_RETURN_IF_ERROR(files.Append(std::vector<float>(elements)));
      continue;
    }
    if (read != tensor.muster) MUSTER_RETURN_IF_ERROR(ReadWhole(weights, tensor.muster, values));
    read = tensor.muster;
    if (tensor.transposed) {
      MUSTER_RETURN_IF_ERROR(files.Append(Transposed(values, tensor.shape[1], tensor.shape[0])));
      continue;
    }
    const int64_t first = tensor.first_row * (elements / tensor.shape[0]);
    MUSTER_RETURN_IF_ERROR(files.Append(absl::MakeConstSpan(values).subspan(first, elements)));
  }
  return files.Finish();
}

// Removes files of the model that was in the folder before, which readers would take for this
// one's.
void RemoveStale(const fs::path& folder, const std::set<std::string>& written) {
  std::vector<fs::path> stale;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool weights = name == kModelWeights || name == kModelIndex ||
                         (absl::StartsWith(name, "model-") && absl::StrContains(name, "-of-") &&
                          absl::EndsWith(name, ".safetensors"));
    const bool others =
        name == kModelTokenizer || name == kModelTokenizerConfig || name == kModelChatTemplate;
    if ((weights || others) && written.count(name) == 0) stale.push_back(entry.path());
  }
  for (const fs::path& path : stale) fs::remove(path, error);
}

}  // namespace

absl::Status CheckModelFolder(const std::string& folder, Replace replace) {
  // An index says that the folder is another model's, even if none is written.
  for (const char* name : {kModelConfig, kModelWeights, kModelIndex, kModelGeneration,
                           kModelTokenizer, kModelTokenizerConfig, kModelChatTemplate}) {
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
  WeightFiles files(folder, std::move(announced), contents.type, contents.file_bytes, replace);
  MUSTER_RETURN_IF_ERROR(WriteWeights(weights, layout, files));
  std::set<std::string> written = files.names();
  const auto write = [&](const char* name, const std::string& text) {
    written.insert(name);
    return WriteOutputFile((fs::path(folder) / name).string(), replace, text);
  };
  if (!contents.tokenizer_json.empty()) {
    MUSTER_RETURN_IF_ERROR(write(kModelTokenizer, contents.tokenizer_json));
    MUSTER_RETURN_IF_ERROR(write(kModelTokenizerConfig, TokenizerConfig(contents)));
  }
  const FrameTokens tokens = FrameTokensOf(contents);
  MUSTER_RETURN_IF_ERROR(write(kModelGeneration, WriteGenerationConfig(tokens)));
  RemoveStale(folder, written);
  // Last, so that a folder with a configuration is complete.
  return write(kModelConfig, WriteTransformerConfig(family, weights.spec(), tokens, contents.type));
}

}  // namespace muster
