#include "common/plan/size/model_size.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/model_limits.h"
#include "common/base/round_up.h"
#include "common/job/adapter_targets.h"
#include "common/job/head_width.h"
#include "common/partition/parameter_groups.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

int64_t Extent(uint64_t n) { return static_cast<int64_t>(n); }

Placement Divided(int dimension, std::vector<Placement::Section> sections) {
  return {Placement::Kind::kShard, dimension, std::move(sections)};
}

// A section whose every row or column is a unit.
Placement::Section Each(uint64_t extent) { return {Extent(extent), Extent(extent)}; }

void AddMatrix(const std::string& name, uint32_t unit, uint64_t out, uint64_t in,
               const Placement& placement, ModelSize& model) {
  model.tensors.push_back(
      {.name = name, .shape = {Extent(out), Extent(in)}, .unit = unit, .placement = placement});
}

void AddVector(const std::string& name, uint32_t unit, uint64_t elements,
               const Placement& placement, ModelSize& model) {
  model.tensors.push_back({.name = name,
                           .shape = {Extent(elements)},
                           .unit = unit,
                           .weight_decay = false,
                           .placement = placement});
}

// A fully connected layer: its weight [out, in] and, unless it has none, its bias.
struct LinearSize {
  uint64_t out = 0;
  uint64_t in = 0;
  bool bias = true;
  Placement weight_placement;
  Placement bias_placement;
};

// Returns a layer whose outputs ranks divide by sections.
LinearSize ByOutputs(std::vector<Placement::Section> sections, uint64_t in, bool bias) {
  uint64_t out = 0;
  for (const Placement::Section& section : sections) out += section.extent;
  const Placement placement = Divided(0, std::move(sections));
  return {out, in, bias, placement, placement};
}

// Returns a layer whose inputs ranks divide. The first one adds the bias.
LinearSize ByInputs(uint64_t out, Placement::Section inputs, bool bias) {
  return {out,
          static_cast<uint64_t>(inputs.extent),
          bias,
          Divided(1, {inputs}),
          {.kind = Placement::Kind::kFirst}};
}

void AddLinear(const std::string& name, uint32_t unit, const LinearSize& linear, ModelSize& model) {
  model.products.push_back({.in = linear.in, .out = linear.out, .tensor = model.tensors.size()});
  AddMatrix(absl::StrCat(name, ".weight"), unit, linear.out, linear.in, linear.weight_placement,
            model);
  if (!linear.bias) return;
  AddVector(absl::StrCat(name, ".bias"), unit, linear.out, linear.bias_placement, model);
}

// Fully connected layers, a unit each, which ranks divide in pairs: the first by outputs,
// the second by inputs. A last layer without a second is not divided.
void AddPerceptron(uint64_t inputs, const google::protobuf::RepeatedField<uint32_t>& hidden,
                   uint64_t outputs, ModelSize& model) {
  const auto layers = static_cast<uint32_t>(hidden.size()) + 1;
  for (uint32_t unit = 0; unit < layers; ++unit) {
    const bool last = unit + 1 == layers;
    const uint64_t out = last ? outputs : hidden[static_cast<int>(unit)];
    const LinearSize linear = unit % 2 == 1 ? ByInputs(out, Each(inputs), true)
                              : last        ? LinearSize{out, inputs}
                                            : ByOutputs({Each(out)}, inputs, true);
    AddLinear(last ? "output" : absl::StrCat("hidden", unit), unit, linear, model);
    inputs = out;
  }
}

void AddTable(const std::string& name, uint64_t dim, uint64_t lookups, uint64_t rows,
              ModelSize& model) {
  model.sparse.push_back({.name = name, .dim = static_cast<uint32_t>(dim)});
  model.lookups = lookups;
  model.rows = rows;
}

float BiasRateOf(const v1::MoeSpec& moe) {
  if (!moe.selection_bias()) return 0;
  return moe.bias_rate() == 0 ? kUsualBiasRate : moe.bias_rate();
}

// The tensors of a feed-forward layer of experts.
void AddExperts(const std::string& name, uint32_t unit, const TransformerSize& size,
                float sign_rate, ModelSize& model) {
  const ExpertExtents& experts = size.experts;
  AddLinear(name + ".router", unit, {experts.E, size.C, false}, model);
  if (sign_rate > 0) {
    AddVector(name + ".router.bias", unit, experts.E, {}, model);
    model.tensors.back().sign_rate = sign_rate;
  }
  const auto add = [&](const char* part, uint64_t out, uint64_t in) {
    const Placement placement = {.kind = Placement::Kind::kExperts,
                                 .sections = {{Extent(experts.E * out), Extent(experts.E)}}};
    AddLinear(name + part, unit, {experts.E * out, in, false, placement, {}}, model);
    model.products.back().experts = experts.E;
    model.products.back().chosen = experts.k;
  };
  add(".experts.up", experts.U, size.C);
  add(".experts.down", size.C, experts.F);
  if (experts.shared_F == 0) return;
  AddLinear(name + ".shared.up", unit, {experts.shared_U, size.C, false}, model);
  AddLinear(name + ".shared.down", unit, {size.C, experts.shared_F, false}, model);
  if (experts.shared_gate) AddLinear(name + ".shared_gate", unit, {1, size.C, false}, model);
}

// The adapters of a block.
void AddAdapters(const std::string& block, uint32_t unit, const v1::AdapterSpec& spec,
                 const TransformerSize& size, ModelSize& model) {
  const Placement::Section queries = {Extent(size.A), Extent(size.heads)};
  const Placement::Section keys = {Extent(size.kv_heads * size.head_dim()), Extent(size.kv_heads)};
  const Placement::Section hidden = Each(size.F);
  const std::array<bool, kAdapterTargets> targets = TargetsOf(spec);
  const auto name_of = [&](AdapterTarget target) {
    return absl::StrCat(block, ".", kAdapterTargetNames[static_cast<int>(target)], ".adapter");
  };
  const auto whole = [](uint64_t rows) { return Divided(0, {{Extent(rows), 1}}); };
  const uint64_t rank = size.adapter_rank;
  // Adapters of layers whose outputs ranks divide, and of those whose inputs they divide.
  const auto by_outputs = [&](AdapterTarget target, const Placement::Section& outputs) {
    if (!targets[static_cast<int>(target)]) return;
    const std::string name = name_of(target);
    AddMatrix(name + ".down", unit, rank, size.C, whole(rank), model);
    AddMatrix(name + ".up", unit, outputs.extent, rank, Divided(0, {outputs}), model);
  };
  const auto by_inputs = [&](AdapterTarget target, const Placement::Section& inputs) {
    if (!targets[static_cast<int>(target)]) return;
    const std::string name = name_of(target);
    AddMatrix(name + ".down", unit, rank, inputs.extent, Divided(1, {inputs}), model);
    AddMatrix(name + ".up", unit, size.C, rank, whole(size.C), model);
  };
  by_outputs(AdapterTarget::kQuery, queries);
  by_outputs(AdapterTarget::kKey, keys);
  by_outputs(AdapterTarget::kValue, keys);
  by_inputs(AdapterTarget::kOutput, queries);
  by_outputs(AdapterTarget::kGate, hidden);
  by_outputs(AdapterTarget::kUp, hidden);
  by_inputs(AdapterTarget::kDown, hidden);
}

void AddTransformer(const v1::TransformerSpec& spec, const v1::AdapterSpec& adapter,
                    const TransformerSize& size, ModelSize& model) {
  const bool biases = !spec.no_biases();
  const bool norm_biases = biases && spec.norm() != v1::TransformerSpec::RMS_NORM;
  const bool gated = size.U > size.F;
  const Placement::Section queries = {Extent(size.A), Extent(size.heads)};
  const Placement::Section keys = {Extent(size.kv_heads * size.head_dim()), Extent(size.kv_heads)};
  const Placement by_token = Divided(0, {Each(size.V)});
  const auto add_norm = [&](const std::string& name, uint32_t unit) {
    AddVector(absl::StrCat(name, ".weight"), unit, size.C, {}, model);
    if (norm_biases) AddVector(absl::StrCat(name, ".bias"), unit, size.C, {}, model);
  };
  AddMatrix("embedding.weight", 0, size.V, size.C, by_token, model);
  if (spec.positions() != v1::TransformerSpec::ROTARY) {
    AddMatrix("positions.weight", 0, size.T, size.C, {.kind = Placement::Kind::kFirst}, model);
  }
  for (uint64_t l = 0; l < size.layers; ++l) {
    const auto unit = static_cast<uint32_t>(1 + l);
    const std::string name = absl::StrCat("block", l);
    add_norm(name + ".norm1", unit);
    AddLinear(name + ".qkv", unit,
              ByOutputs({queries, keys, keys}, size.C, biases || spec.attention_biases()), model);
    if (size.P > 0) {
      const auto add_head_norm = [&](const char* part, uint64_t columns) {
        AddVector(absl::StrCat(name, part), unit, columns, Divided(0, {{Extent(columns), 1}}),
                  model);
      };
      const bool per_head = spec.query_key_norm() == v1::TransformerSpec::PER_HEAD;
      add_head_norm(".query_norm.weight", size.normed);
      add_head_norm(".key_norm.weight", per_head ? size.normed : size.kv_heads * size.head_dim());
    }
    AddLinear(name + ".proj", unit, ByInputs(size.C, queries, biases), model);
    add_norm(name + ".norm2", unit);
    if (size.experts.IsExpertBlock(l)) {
      AddExperts(name, unit, size, BiasRateOf(spec.moe()), model);
    } else {
      std::vector<Placement::Section> up(gated ? 2 : 1, Each(size.F));
      AddLinear(name + ".up", unit, ByOutputs(std::move(up), size.C, biases), model);
      AddLinear(name + ".down", unit, ByInputs(size.C, Each(size.F), biases), model);
    }
    if (size.adapter_rank > 0) AddAdapters(name, unit, adapter, size, model);
  }
  const auto unit = static_cast<uint32_t>(1 + size.layers);
  add_norm("norm", unit);
  model.products.push_back({.in = size.C, .out = size.V, .tensor = model.tensors.size()});
  AddMatrix("head.weight", unit, size.V, size.C, by_token, model);
  if (!spec.separate_head()) model.tensors.back().tied_to = "embedding.weight";
  model.transformer = size;
}

// Matrices that are multiplied with; the embedding and positions are looked up in f32.
void SetComputeTypes(const v1::ComputeSpec& compute, ModelSize& model) {
  const DType type = compute.type() == v1::ComputeSpec::BF16  ? DType::kBf16
                     : compute.type() == v1::ComputeSpec::F16 ? DType::kF16
                                                              : DType::kF32;
  for (TensorSpec& tensor : model.tensors) {
    if (tensor.weight_decay && tensor.unit > 0) tensor.compute = type;
  }
}

void AddNgram(const v1::NgramSpec& ngram, const DataSize& data, ModelSize& model) {
  const uint64_t dim = ngram.embedding_dim();
  google::protobuf::RepeatedField<uint32_t> hidden;
  hidden.Add(ngram.hidden());
  AddPerceptron(uint64_t{ngram.orders()} * dim, hidden, kByteValues, model);
  uint64_t rows = 0;
  for (uint32_t order = 1; order <= ngram.orders(); ++order) {
    // There are only 256 and 65,536 strings of one and two bytes.
    const uint64_t longer = data.examples > 0 ? data.examples : kUnknownRows;
    const uint64_t strings = order <= 2 ? uint64_t{1} << (8 * order) : longer;
    rows += ngram.buckets() == 0 ? strings : std::min<uint64_t>(strings, ngram.buckets());
  }
  AddTable("embedding", dim, ngram.orders(), rows, model);
}

void AddDeepFm(const v1::DeepFmSpec& spec, const DataSize& data, ModelSize& model) {
  const uint64_t dim = spec.embedding_dim();
  if (data.dense_features > 0) AddMatrix("numeric.weight", 0, 1, data.dense_features, {}, model);
  AddPerceptron(data.fields * dim + data.dense_features, spec.hidden(), 1, model);
  AddTable("embedding", dim + 1, data.keys, data.rows, model);
}

void AddLinearModel(uint64_t outputs, const DataSize& data, ModelSize& model) {
  AddVector("bias", 0, outputs, {}, model);
  if (data.dense_features > 0) AddLinear("dense", 0, {outputs, data.dense_features, false}, model);
  if (data.sparse) AddTable("weights", outputs, data.keys, data.rows, model);
}

uint64_t FeedForwardOf(const v1::TransformerSpec& spec) {
  if (spec.feed_forward() > 0) return spec.feed_forward();
  const uint64_t C = spec.width();
  return spec.activation() == v1::TransformerSpec::SWIGLU ? RoundUp(CeilDivide(8 * C, 3), 64)
                                                          : 4 * C;
}

}  // namespace

std::string VocabularyAssumption(const v1::JobSpec& spec, const DataSize& data) {
  const bool leaves_it =
      spec.model().has_transformer() && spec.model().transformer().vocabulary() == 0;
  return leaves_it ? data.vocabulary_assumption : "";
}

ExpertExtents ExpertsOf(const v1::TransformerSpec& spec) {
  ExpertExtents experts;
  if (!spec.has_moe()) return experts;
  const v1::MoeSpec& moe = spec.moe();
  const uint64_t factor = spec.activation() == v1::TransformerSpec::SWIGLU ? 2 : 1;
  experts.E = moe.experts();
  experts.k = moe.top_k();
  experts.F = moe.expert_width() == 0 ? FeedForwardOf(spec) : moe.expert_width();
  experts.U = factor * experts.F;
  experts.shared_F = moe.shared_width();
  experts.shared_U = factor * experts.shared_F;
  experts.shared_gate = moe.shared_gate();
  experts.counts = moe.auxiliary_loss() > 0 || moe.selection_bias();
  experts.counts_together = moe.auxiliary_scope() == v1::MoeSpec::MICRO_BATCH ||
                            moe.auxiliary_scope() == v1::MoeSpec::GLOBAL_BATCH;
  experts.counts_of_all_ranks = moe.auxiliary_scope() == v1::MoeSpec::GLOBAL_BATCH;
  experts.drops = moe.capacity_factor() > 0;
  experts.dense_layers.assign(moe.dense_layers().begin(), moe.dense_layers().end());
  return experts;
}

TransformerSize SizeOfTransformer(const v1::TransformerSpec& spec, const DataSize& data) {
  TransformerSize size;
  size.layers = spec.layers();
  size.C = spec.width();
  size.heads = std::max(1u, spec.heads());
  size.kv_heads = spec.kv_heads() == 0 ? size.heads : spec.kv_heads();
  size.A = size.heads * HeadWidth(spec);
  const bool swiglu = spec.activation() == v1::TransformerSpec::SWIGLU;
  size.F = FeedForwardOf(spec);
  size.U = swiglu ? 2 * size.F : size.F;
  size.Q = (size.heads + 2 * size.kv_heads) * size.head_dim();
  if (spec.query_key_norm() > v1::TransformerSpec::NONE) {
    size.P = (size.heads + size.kv_heads) * size.head_dim();
    size.normed = spec.query_key_norm() == v1::TransformerSpec::PER_HEAD ? size.head_dim() : size.A;
  }
  size.V = spec.vocabulary() == 0 ? std::max<uint64_t>(1, data.vocabulary) : spec.vocabulary();
  if (const uint64_t multiple = spec.pad_vocabulary_to(); multiple > 1) {
    size.V = RoundUp(size.V, multiple);
  }
  size.T = spec.context();
  size.window = spec.sliding_window();
  size.whole_layers.assign(spec.whole_layers().begin(), spec.whole_layers().end());
  size.experts = ExpertsOf(spec);
  return size;
}

uint64_t ModelSize::dense() const {
  uint64_t elements = 0;
  for (const TensorSpec& tensor : tensors) {
    if (tensor.tied_to.empty()) elements += tensor.elements();
  }
  return elements;
}

uint64_t ModelSize::trained() const {
  uint64_t elements = 0;
  for (const TensorSpec& tensor : tensors) {
    if (tensor.tied_to.empty() && !tensor.frozen) elements += tensor.elements();
  }
  return elements;
}

ModelSize SizeOfModel(const v1::JobSpec& spec, const DataSize& data) {
  ModelSize model;
  switch (spec.model().model_case()) {
    case v1::ModelSpec::kLogisticRegression: {
      const uint64_t classes = spec.model().logistic_regression().classes();
      AddLinearModel(classes <= 2 ? 1 : classes, data, model);
      break;
    }
    case v1::ModelSpec::kLinearRegression:
      AddLinearModel(1, data, model);
      break;
    case v1::ModelSpec::kMlp: {
      const v1::MlpSpec& mlp = spec.model().mlp();
      AddPerceptron(data.dense_features, mlp.hidden(), mlp.has_regression() ? 1 : mlp.classes(),
                    model);
      break;
    }
    case v1::ModelSpec::kNgram:
      AddNgram(spec.model().ngram(), data, model);
      break;
    case v1::ModelSpec::kDeepFm:
      AddDeepFm(spec.model().deep_fm(), data, model);
      break;
    case v1::ModelSpec::kTransformer: {
      TransformerSize size = SizeOfTransformer(spec.model().transformer(), data);
      size.adapter_rank = spec.adapter().rank();
      AddTransformer(spec.model().transformer(), spec.adapter(), size, model);
      break;
    }
    case v1::ModelSpec::kProgram:
    case v1::ModelSpec::MODEL_NOT_SET:
      break;
  }
  if (model.transformer.has_value()) SetComputeTypes(spec.compute(), model);
  // ValidateLayout tells of errors.
  SetParameterGroups(spec, absl::MakeSpan(model.tensors)).IgnoreError();
  const int units = model.tensors.empty() ? 1 : static_cast<int>(model.tensors.back().unit) + 1;
  model.chunks = {{0, units}};
  return model;
}

}  // namespace muster
