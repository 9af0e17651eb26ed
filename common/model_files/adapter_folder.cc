#include "common/model_files/adapter_folder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/model_files/adapter_layout.h"
#include "common/model_files/transformer_layout.h"
#include "common/safetensors/safetensors_writer.h"
#include "common/text/dump_json.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

namespace fs = std::filesystem;

constexpr char kAdapterConfig[] = "adapter_config.json";
constexpr char kAdapterWeights[] = "adapter_model.safetensors";

// A layer of the files' with the adapters of Muster's that it has.
struct FileLayer {
  std::string module;
  int64_t rows = 0;
  int64_t in = 0;
  std::vector<AdapterPlace> places;

  // The name that configurations know it by.
  std::string name() const { return module.substr(module.rfind('.') + 1); }
};

// Returns the name of the layer that an adapter belongs to, within a block.
std::string ModuleOf(HuggingFaceFamily family, AdapterTarget target) {
  const bool gpt2 = family == HuggingFaceFamily::kGpt2;
  switch (target) {
    case AdapterTarget::kQuery:
      return gpt2 ? "attn.c_attn" : "self_attn.q_proj";
    case AdapterTarget::kKey:
      return gpt2 ? "attn.c_attn" : "self_attn.k_proj";
    case AdapterTarget::kValue:
      return gpt2 ? "attn.c_attn" : "self_attn.v_proj";
    case AdapterTarget::kOutput:
      return gpt2 ? "attn.c_proj" : "self_attn.o_proj";
    case AdapterTarget::kGate:
      return "mlp.gate_proj";
    case AdapterTarget::kUp:
      return gpt2 ? "mlp.c_fc" : "mlp.up_proj";
    case AdapterTarget::kDown:
      return gpt2 ? "mlp.c_proj" : "mlp.down_proj";
  }
  return "";
}

std::vector<FileLayer> LayersOf(HuggingFaceFamily family, const Weights& weights,
                                const v1::AdapterSpec& adapter) {
  const bool gpt2 = family == HuggingFaceFamily::kGpt2;
  std::vector<FileLayer> layers;
  for (AdapterPlace place : AdapterPlaces(weights.spec(), adapter)) {
    const std::string module = ModuleOf(family, place.target);
    // Fused layers are GPT-2's alone: elsewhere an adapter has a layer of its own.
    if (!gpt2) place.first_row = 0;
    if (layers.empty() || layers.back().module != module) {
      layers.push_back({module, gpt2 ? place.matrix_rows : place.rows, place.in, {}});
    }
    layers.back().places.push_back(place);
  }
  return layers;
}

std::string FileName(HuggingFaceFamily family, uint32_t block, const FileLayer& layer,
                     const char* matrix) {
  return absl::StrCat("base_model.model.",
                      family == HuggingFaceFamily::kGpt2 ? "transformer.h." : "model.layers.",
                      block, ".", layer.module, ".lora_", matrix, ".weight");
}

std::string ConfigOf(HuggingFaceFamily family, const v1::AdapterSpec& adapter,
                     const std::vector<FileLayer>& layers) {
  const double alpha = adapter.alpha() == 0 ? adapter.rank() : adapter.alpha();
  auto names = nlohmann::ordered_json::array();
  auto ranks = nlohmann::ordered_json::object();
  auto alphas = nlohmann::ordered_json::object();
  for (const FileLayer& layer : layers) {
    // GPT-2 has two layers named c_proj; where one has no adapter, its whole name tells them apart.
    const std::string name = family == HuggingFaceFamily::kGpt2 ? layer.module : layer.name();
    names.push_back(name);
    if (layer.places.size() == 1) continue;
    ranks[name] = adapter.rank() * layer.places.size();
    alphas[name] = alpha * static_cast<double>(layer.places.size());
  }
  const nlohmann::ordered_json config = {
      {"peft_type", "LORA"},
      {"task_type", "CAUSAL_LM"},
      {"base_model_name_or_path", nullptr},
      {"inference_mode", true},
      {"r", adapter.rank()},
      {"lora_alpha", alpha},
      {"lora_dropout", adapter.dropout()},
      {"target_modules", names},
      {"rank_pattern", ranks},
      {"alpha_pattern", alphas},
      // GPT-2's matrices are [in, out].
      {"fan_in_fan_out", family == HuggingFaceFamily::kGpt2},
      {"bias", "none"},
  };
  return absl::StrCat(DumpJson(config, 2), "\n");
}

// Reads an adapter's matrix of so many elements.
absl::Status ReadAdapter(const Weights& weights, uint32_t block, AdapterTarget target,
                         const char* matrix, int64_t elements, std::vector<float>& values) {
  const std::string name = AdapterTensorName(block, target, matrix);
  MUSTER_RETURN_IF_ERROR(weights.Read(name, values));
  if (static_cast<int64_t>(values.size()) == elements) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, " has ", values.size(),
                                                 " numbers, but its adapter says ", elements,
                                                 ": these weights are of another model"));
}

// Appends a layer's two matrices.
absl::Status AppendLayer(const Weights& weights, uint32_t block, const FileLayer& layer,
                         int64_t rank, SafetensorsWriter& writer) {
  std::vector<float> values, all;
  for (const AdapterPlace& place : layer.places) {
    MUSTER_RETURN_IF_ERROR(
        ReadAdapter(weights, block, place.target, "down", rank * place.in, values));
    all.insert(all.end(), values.begin(), values.end());
  }
  writer.Append(all);
  const int64_t columns = rank * static_cast<int64_t>(layer.places.size());
  all.assign(layer.rows * columns, 0);
  for (size_t i = 0; i < layer.places.size(); ++i) {
    const AdapterPlace& place = layer.places[i];
    MUSTER_RETURN_IF_ERROR(
        ReadAdapter(weights, block, place.target, "up", place.rows * rank, values));
    for (int64_t row = 0; row < place.rows; ++row) {
      std::copy_n(values.begin() + row * rank, rank,
                  all.begin() + (place.first_row + row) * columns + static_cast<int64_t>(i) * rank);
    }
  }
  writer.Append(all);
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckAdapterFolder(const std::string& folder, Replace replace) {
  for (const char* name : {kAdapterConfig, kAdapterWeights}) {
    MUSTER_RETURN_IF_ERROR(OutputTarget((fs::path(folder) / name).string(), replace).status());
  }
  return absl::OkStatus();
}

absl::Status WriteAdapterFolder(const std::string& folder, const Weights& weights,
                                const v1::AdapterSpec& adapter, DType type, Replace replace) {
  MUSTER_ASSIGN_OR_RETURN(const HuggingFaceFamily family, FamilyOf(weights.spec()));
  MUSTER_RETURN_IF_ERROR(CheckAdapterFolder(folder, replace));
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    return absl::FailedPreconditionError(
        absl::StrCat("cannot make the folder ", folder, ": ", error.message()));
  }
  const std::vector<FileLayer> layers = LayersOf(family, weights, adapter);
  const auto rank = static_cast<int64_t>(adapter.rank());
  std::vector<SafetensorsWriter::Tensor> announced;
  for (uint32_t block = 0; block < weights.spec().layers(); ++block) {
    for (const FileLayer& layer : layers) {
      const int64_t columns = rank * static_cast<int64_t>(layer.places.size());
      announced.push_back({FileName(family, block, layer, "A"), {columns, layer.in}});
      announced.push_back({FileName(family, block, layer, "B"), {layer.rows, columns}});
    }
  }
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<SafetensorsWriter> writer,
                          SafetensorsWriter::Create((fs::path(folder) / kAdapterWeights).string(),
                                                    announced, {{"format", "pt"}}, type, replace));
  for (uint32_t block = 0; block < weights.spec().layers(); ++block) {
    for (const FileLayer& layer : layers) {
      MUSTER_RETURN_IF_ERROR(AppendLayer(weights, block, layer, rank, *writer));
    }
  }
  MUSTER_RETURN_IF_ERROR(writer->Finish());
  // Last, so that a folder with a configuration is complete.
  return WriteOutputFile((fs::path(folder) / kAdapterConfig).string(), replace,
                         ConfigOf(family, adapter, layers));
}

}  // namespace muster
