#include "server/coordinator/memory_prediction.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/optim/optimizer.h"
#include "proto/job.pb.h"
#include "server/coordinator/job_road.h"
#include "server/coordinator/placement.h"

namespace muster {
namespace {

constexpr uint64_t kImagePixels = 784;
constexpr uint64_t kUnknownRows = 1 << 18;
constexpr uint64_t kUnknownKeys = 64;
constexpr uint64_t kRowOverheadBytes = 64;
constexpr uint64_t kWorkerBaseBytes = 64 << 20;
constexpr uint64_t kByteValues = 256;
// GPT-2's, where only the tokenizer's files say.
constexpr uint64_t kUnknownVocabulary = 50257;
// Logits that the head holds at a time (worker/nn/language_head.h).
constexpr uint64_t kLogitsAtOnce = (uint64_t{256} << 20) / 4;
// Of the widths of layers: values, gradients, and the batch as it was read.
constexpr uint64_t kActivationFactor = 3;

// What a model keeps, as far as the specification tells.
struct Size {
  uint64_t dense = 0;
  uint64_t rows = 0;
  uint64_t row_dim = 0;
  // Floats of all activations of one example.
  uint64_t widths = 0;
  // Keys that one example touches.
  uint64_t keys = 0;
  // Logits of one example of a language model, and of one token.
  uint64_t logits = 0;
  uint64_t vocabulary = 0;
};

uint64_t Rows(uint64_t bound) {
  return bound == 0 ? kUnknownRows : std::min<uint64_t>(bound, kUnknownRows);
}

struct DataSize {
  uint64_t numeric = 0;
  uint64_t fields = 0;
  uint64_t rows = 0;
  uint64_t keys = 0;
};

DataSize SizeOf(const v1::DataSpec& data) {
  switch (data.reader_case()) {
    case v1::DataSpec::kIdx:
      return {.numeric = kImagePixels};
    case v1::DataSpec::kLibsvm:
      return {.rows = kUnknownRows, .keys = kUnknownKeys};
    case v1::DataSpec::kCsv: {
      const uint64_t fields = data.csv().categorical_size();
      const uint64_t numeric = data.csv().numeric_size();
      return {.numeric = numeric,
              .fields = fields,
              .rows = fields * kUnknownRows + numeric,
              .keys = fields + numeric};
    }
    case v1::DataSpec::kSyntheticClicks: {
      const v1::SyntheticClicksData& clicks = data.synthetic_clicks();
      return {.numeric = clicks.numeric(),
              .fields = clicks.fields(),
              .rows = clicks.fields() * Rows(clicks.cardinality()) + clicks.numeric(),
              .keys = uint64_t{clicks.fields()} + clicks.numeric()};
    }
    case v1::DataSpec::kSyntheticClassification:
      return {.numeric = data.synthetic_classification().features(),
              .rows = data.synthetic_classification().features(),
              .keys = data.synthetic_classification().features()};
    default:
      return {};
  }
}

// Fully connected layers, with biases.
void AddLayers(uint64_t inputs, const google::protobuf::RepeatedField<uint32_t>& hidden,
               uint64_t outputs, Size& size) {
  std::vector<uint64_t> widths(hidden.begin(), hidden.end());
  widths.push_back(outputs);
  size.widths += inputs;
  for (uint64_t width : widths) {
    size.dense += (inputs + 1) * width;
    size.widths += width;
    inputs = width;
  }
}

// An example is a sequence of `context` tokens. Counts what the worker's TransformerMemory lays
// out.
Size SizeOfTransformer(const v1::JobSpec& spec) {
  const v1::TransformerSpec& model = spec.model().transformer();
  using Spec = v1::TransformerSpec;
  const uint64_t C = model.width();
  const uint64_t heads = std::max(1u, model.heads());
  const uint64_t kv_heads = model.kv_heads() == 0 ? heads : model.kv_heads();
  const bool swiglu = model.activation() == Spec::SWIGLU;
  const uint64_t usual = swiglu ? (8 * C / 3 + 63) / 64 * 64 : 4 * C;
  const uint64_t F = model.feed_forward() == 0 ? usual : model.feed_forward();
  const uint64_t U = swiglu ? 2 * F : F;
  const uint64_t Q = (heads + 2 * kv_heads) * (C / heads);
  uint64_t V = model.vocabulary();
  if (V == 0) V = spec.data().sequences().tokenizer().empty() ? kByteValues : kUnknownVocabulary;

  Size size;
  size.dense = V * C * (model.separate_head() ? 2 : 1) + 2 * C;
  if (model.positions() != Spec::ROTARY) size.dense += model.context() * C;
  size.dense += model.layers() * (C * (Q + C + U + F) + 4 * C);
  if (!model.no_biases()) size.dense += model.layers() * (Q + 2 * C + U);

  // Per token: what every block keeps, in two types; one set of all of a block, with its gradients;
  // the head.
  const bool half = spec.compute().type() == v1::ComputeSpec::BF16;
  uint64_t kept = 3 * C + Q + U + F;
  uint64_t stream = 2 * C;
  if (spec.compute().recompute() == v1::ComputeSpec::SELECTIVE) kept = Q + U;
  if (spec.compute().recompute() == v1::ComputeSpec::FULL) {
    kept = 0;
    stream = C;
  }
  const uint64_t one_set = 3 * C + Q + U + F + C + std::max(F, C) + std::max(Q, U) + C;
  const uint64_t in_type = model.layers() * kept + one_set;
  const uint64_t in_f32 = model.layers() * (stream + heads + 4) + 2 * C;
  size.widths = model.context() * ((half ? in_type / 2 : in_type) + in_f32) / kActivationFactor;
  size.logits = model.context() * V;
  size.vocabulary = V;
  return size;
}

Size SizeOf(const v1::JobSpec& spec) {
  const v1::ModelSpec& model = spec.model();
  const DataSize data = SizeOf(spec.data());
  Size size;
  switch (model.model_case()) {
    case v1::ModelSpec::kLogisticRegression: {
      const uint32_t classes = model.logistic_regression().classes();
      size.row_dim = classes <= 2 ? 1 : classes;
      size.dense = size.row_dim;
      size.rows = data.rows;
      size.keys = data.keys;
      size.widths = size.row_dim + data.fields + data.numeric;
      break;
    }
    case v1::ModelSpec::kMlp:
      AddLayers(data.numeric + data.fields, model.mlp().hidden(), model.mlp().classes(), size);
      break;
    case v1::ModelSpec::kNgram: {
      const v1::NgramSpec& ngram = model.ngram();
      google::protobuf::RepeatedField<uint32_t> hidden;
      hidden.Add(ngram.hidden());
      AddLayers(uint64_t{ngram.orders()} * ngram.embedding_dim(), hidden, kByteValues, size);
      size.row_dim = ngram.embedding_dim();
      size.keys = ngram.orders();
      for (uint32_t order = 1; order <= ngram.orders(); ++order) {
        // There are only 256 and 65,536 strings of one and two bytes.
        const uint64_t strings = order <= 2 ? uint64_t{1} << (8 * order) : kUnknownRows;
        size.rows += std::min(strings, Rows(ngram.buckets()));
      }
      break;
    }
    case v1::ModelSpec::kDeepFm: {
      const v1::DeepFmSpec& deep_fm = model.deep_fm();
      const uint64_t dim = deep_fm.embedding_dim();
      AddLayers(data.fields * dim + data.numeric, deep_fm.hidden(), 1, size);
      size.dense += data.numeric * (dim + 1) + 1;
      size.row_dim = dim + 1;
      size.rows = data.rows;
      size.keys = data.keys;
      break;
    }
    case v1::ModelSpec::kTransformer:
      return SizeOfTransformer(spec);
    case v1::ModelSpec::MODEL_NOT_SET:
      break;
  }
  return size;
}

bool IsHalf(v1::UpdateSpec::WireType wire) {
  return wire == v1::UpdateSpec::BF16 || wire == v1::UpdateSpec::F16;
}

uint64_t SlotFloats(const v1::OptimizerSpec& spec, Granularity granularity, uint64_t n) {
  const auto optimizer = CreateOptimizer(spec, granularity);
  return optimizer.ok() ? (*optimizer)->slot_floats(n) : 0;
}

}  // namespace

MemoryPrediction PredictMemory(const v1::JobSpec& spec) {
  const Size size = SizeOf(spec);
  const bool all_reduce = TrainsByAllReduce(spec);
  const uint64_t dense_slots = SlotFloats(spec.optimizer(), Granularity::kElements, 1);
  const uint64_t row_slots = SlotFloats(spec.optimizer(), Granularity::kRow, size.row_dim);
  const uint64_t row_bytes = size.rows * (4 * (size.row_dim + row_slots) + kRowOverheadBytes);
  MemoryPrediction prediction;
  if (!all_reduce) {
    prediction.server_bytes = 4 * size.dense * (2 + dense_slots);
    if (spec.update().deterministic()) prediction.server_bytes += 4 * size.dense * spec.workers();
  }
  if (NeedsServers(spec)) {
    const uint64_t cache = spec.sparse_tables().cache_bytes();
    // Beyond the cache, the rows that one step touches.
    const uint64_t step_rows = spec.batch_size() * size.keys;
    const uint64_t in_memory =
        cache == 0 ? row_bytes : cache + step_rows * row_bytes / std::max<uint64_t>(1, size.rows);
    prediction.server_bytes += std::min(row_bytes, in_memory);
  }

  const uint64_t micro_batches = uint64_t{spec.workers()} * std::max(spec.micro_batches(), 1u);
  const uint64_t share = (spec.batch_size() + micro_batches - 1) / micro_batches;
  std::vector<MemoryPrediction::Part>& parts = prediction.worker_parts;
  parts.push_back({"weights", 4 * size.dense});
  parts.push_back({"gradients", 4 * size.dense});
  if (!all_reduce && IsHalf(spec.update().wire())) {
    // The residual, and up to three steps' pushes under way.
    parts.push_back({"half-precision pushes", 4 * size.dense + 3 * 2 * size.dense});
  }
  if (all_reduce) {
    const uint64_t largest =
        std::max(spec.update().first_bucket_bytes(), spec.update().bucket_bytes());
    const bool halves = spec.update().wire() == v1::UpdateSpec::BF16;
    parts.push_back({"optimizer state", 4 * size.dense * dense_slots});
    parts.push_back(
        {"gradients on the wire", halves ? 2 * size.dense : 2 * std::min(largest, 4 * size.dense)});
    if (!NeedsServers(spec)) {
      parts.push_back({"sparse rows", row_bytes});
      parts.push_back(
          {"rows of a step", spec.batch_size() * size.keys * (4 * size.row_dim + 8) * 2});
    }
  }
  if (spec.compute().type() == v1::ComputeSpec::BF16) {
    parts.push_back({"weights in bf16", 2 * size.dense});
  }
  parts.push_back({"activations and batches", share * size.widths * 4 * kActivationFactor});
  parts.push_back(
      {"logits", 4 * std::min(share * size.logits, std::max(kLogitsAtOnce, size.vocabulary))});
  parts.push_back({"program and buffers", kWorkerBaseBytes});
  for (const MemoryPrediction::Part& part : parts) prediction.worker_bytes += part.bytes;
  return prediction;
}

std::string DescribeWorker(const MemoryPrediction& prediction) {
  std::string text = FormatBytes(prediction.worker_bytes);
  absl::string_view separator = " = ";
  for (const MemoryPrediction::Part& part : prediction.worker_parts) {
    if (part.bytes == 0) continue;
    absl::StrAppend(&text, std::exchange(separator, " + "), part.name, " ",
                    FormatBytes(part.bytes));
  }
  return text;
}

}  // namespace muster
