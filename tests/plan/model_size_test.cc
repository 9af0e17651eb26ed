// The plan's tensors are those that models describe, and its activations what they lay out, for
// jobs of every kind.

#include "common/plan/size/model_size.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/compute/activation_layout.h"
#include "common/compute/host_ops.h"
#include "common/job/regression.h"
#include "common/plan/passes/transformer_memory_plan.h"
#include "common/plan/size/data_size.h"
#include "common/tensor/dtype.h"
#include "gtest/gtest.h"
#include "proto/job.pb.h"
#include "tests/harness/jobs.h"
#include "worker/data/dataset.h"
#include "worker/models/create_model.h"
#include "worker/models/resolve_transformer.h"
#include "worker/nn/transformer/arrays/transformer_memory.h"

namespace muster {
namespace {

// Data as a model is told of it.
DatasetInfo InfoOf(const DataSize& data, const v1::ModelSpec& model) {
  DatasetInfo info;
  info.examples = 1000;
  info.dense_features = static_cast<int64_t>(data.dense_features);
  info.sparse = data.sparse;
  info.fields = static_cast<int64_t>(data.fields);
  info.vocabulary = static_cast<int64_t>(data.vocabulary);
  info.classes = data.vocabulary > 0 ? info.vocabulary : 2;
  if (RegressionOf(model) != nullptr) {
    info.classes = 0;
    info.target = TargetScale();
  }
  if (data.vocabulary > 0) info.context = RequiredContext(model);
  if (model.has_transformer()) info.labels_per_example = info.context;
  return info;
}

void ExpectEqual(const Placement& planned, const Placement& real, const std::string& name) {
  EXPECT_EQ(planned.kind, real.kind) << name;
  EXPECT_EQ(planned.dimension, real.dimension) << name;
  ASSERT_EQ(planned.sections.size(), real.sections.size()) << name;
  for (size_t i = 0; i < planned.sections.size(); ++i) {
    EXPECT_EQ(planned.sections[i].extent, real.sections[i].extent) << name;
    EXPECT_EQ(planned.sections[i].units, real.sections[i].units) << name;
  }
}

void ExpectTheModelsTensors(const std::string& job) {
  SCOPED_TRACE(job);
  const v1::JobSpec spec = ParseJobOrDie(job);
  const DataSize data = SizeOfData(spec.data());
  const auto model = CreateModel(spec.model(), spec.compute(), InfoOf(data, spec.model()));
  ASSERT_TRUE(model.ok()) << model.status();
  const ModelDescription& description = (*model)->description();
  const ModelSize size = SizeOfModel(spec, data);
  ASSERT_EQ(size.tensors.size(), description.tensors.size());
  for (size_t i = 0; i < size.tensors.size(); ++i) {
    const TensorSpec& planned = size.tensors[i];
    const TensorSpec& real = description.tensors[i];
    EXPECT_EQ(planned.name, real.name);
    EXPECT_EQ(planned.shape, real.shape) << real.name;
    EXPECT_EQ(planned.unit, real.unit) << real.name;
    EXPECT_EQ(planned.weight_decay, real.weight_decay) << real.name;
    EXPECT_EQ(planned.sign_rate, real.sign_rate) << real.name;
    EXPECT_EQ(planned.tied_to, real.tied_to) << real.name;
    EXPECT_EQ(planned.compute, real.compute) << real.name;
    if (spec.model().has_transformer()) ExpectEqual(planned.placement, real.placement, real.name);
  }
  ASSERT_EQ(size.sparse.size(), description.sparse_tables.size());
  for (size_t i = 0; i < size.sparse.size(); ++i) {
    EXPECT_EQ(size.sparse[i].name, description.sparse_tables[i].name);
    EXPECT_EQ(size.sparse[i].dim, description.sparse_tables[i].dim);
  }
}

// GPT-2's kind, Llama's kind, and odd ones between.
std::vector<std::string> Transformers() {
  return {
      "layers: 2 width: 48 heads: 3 context: 20",
      "layers: 3 width: 64 heads: 4 kv_heads: 2 context: 16 norm: RMS_NORM positions: ROTARY "
      "activation: SWIGLU no_biases: true separate_head: true",
      "layers: 1 width: 40 heads: 5 context: 8 no_biases: true feed_forward: 96",
      "layers: 2 width: 64 heads: 2 context: 32 norm: RMS_NORM vocabulary: 300 "
      "pad_vocabulary_to: 128",
      "layers: 1 width: 32 heads: 2 context: 64 activation: SWIGLU feed_forward: 72 dropout: 0.1",
      "layers: 3 width: 32 heads: 2 context: 16 activation: SWIGLU no_biases: true moe { experts: "
      "4 "
      "top_k: 2 expert_width: 24 shared_width: 40 shared_gate: true dense_layers: 1 "
      "auxiliary_loss: 0.1 }",
      "layers: 2 width: 32 heads: 2 context: 16 moe { experts: 3 top_k: 1 auxiliary_loss: 0.1 "
      "auxiliary_scope: MICRO_BATCH selection_bias: true bias_rate: 0.01 }",
      "layers: 2 width: 48 heads: 4 kv_heads: 2 head_width: 20 context: 16 norm: RMS_NORM "
      "positions: "
      "ROTARY no_biases: true attention_biases: true query_key_norm: PER_HEAD sliding_window: 5",
      "layers: 2 width: 48 heads: 4 kv_heads: 2 head_width: 20 context: 16 query_key_norm: "
      "WHOLE_WIDTH",
      // Three sequences have more logits than are there at a time.
      "layers: 1 width: 8 heads: 1 context: 64 vocabulary: 700001",
  };
}

TEST(ModelSizeTest, TensorsAreTheModels) {
  const std::string clicks =
      " data { synthetic_clicks { examples: 100 fields: 3 cardinality: 50 numeric: 2 } }";
  const std::string clusters =
      " data { synthetic_classification { examples: 100 features: 8 classes: 2 } }";
  ExpectTheModelsTensors("model { mlp { hidden: [16, 5] classes: 3 } }" + clusters);
  ExpectTheModelsTensors("model { mlp { classes: 2 } }" + clusters);
  ExpectTheModelsTensors("model { logistic_regression { classes: 2 } }" + clusters);
  ExpectTheModelsTensors("model { logistic_regression { classes: 4 } }" + clicks);
  ExpectTheModelsTensors("model { deep_fm { embedding_dim: 4 hidden: 16 } }" + clicks);
  ExpectTheModelsTensors(
      "model { deep_fm { embedding_dim: 4 hidden: 5 } } "
      "data { synthetic_clicks { examples: 100 fields: 3 cardinality: 50 } }");
  const std::string table = " data { csv { path: 'p' label: 'y' numeric: ['a', 'b']";
  ExpectTheModelsTensors("model { linear_regression {} }" + table + " } }");
  ExpectTheModelsTensors("model { linear_regression {} }" + table + " categorical: 'c' } }");
  ExpectTheModelsTensors("model { mlp { hidden: [16, 5] regression {} } }" + table + " } }");
  ExpectTheModelsTensors("model { deep_fm { embedding_dim: 4 hidden: 5 regression {} } }" + table +
                         " categorical: 'c' } }");
  ExpectTheModelsTensors(
      "model { ngram { orders: 3 embedding_dim: 8 hidden: 16 buckets: 100 } } "
      "data { text { path: 't' } }");
  for (const std::string& transformer : Transformers()) {
    for (const std::string type : {"F32", "BF16", "F16"}) {
      ExpectTheModelsTensors(
          absl::StrCat("model { transformer { ", transformer,
                       " } } data { sequences { path: 't' } } compute { type: ", type, " }"));
    }
  }
}

uint64_t LaidOut(const TransformerShape& shape, DType type, Recompute recompute, int64_t sequences,
                 Pass pass) {
  TransformerMemory memory(shape, type, recompute);
  HostOps ops;
  memory.Prepare(
      {.ops = ops, .rows = {.sequences = sequences, .length = shape.context}, .pass = pass});
  return memory.bytes();
}

TEST(ModelSizeTest, ActivationsAreWhatIsLaidOut) {
  const std::vector<Recompute> kinds = {Recompute::kNone, Recompute::kSelective, Recompute::kFull};
  const std::vector<v1::ComputeSpec::Recompute> specified = {
      v1::ComputeSpec::NONE, v1::ComputeSpec::SELECTIVE, v1::ComputeSpec::FULL};
  for (const std::string& transformer : Transformers()) {
    SCOPED_TRACE(transformer);
    const v1::JobSpec spec = ParseJobOrDie(absl::StrCat("model { transformer { ", transformer,
                                                        " } } data { sequences { path: 't' } }"));
    const auto shape = ResolveTransformer(spec.model().transformer(), 256);
    ASSERT_TRUE(shape.ok()) << shape.status();
    const TransformerSize size =
        SizeOfTransformer(spec.model().transformer(), SizeOfData(spec.data()));
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      for (const int64_t sequences : {1, 3}) {
        v1::ComputeSpec compute;
        compute.set_recompute(specified[kind]);
        const auto planned = [&](Pass pass) {
          ActivationRequest request = ActivationRequestOf(size, sequences, compute);
          request.pass = pass;
          return ActivationLayout(request).bytes().total();
        };
        EXPECT_EQ(planned(Pass::kTraining),
                  LaidOut(*shape, DType::kF32, kinds[kind], sequences, Pass::kTraining));
        EXPECT_EQ(planned(Pass::kEvaluation),
                  LaidOut(*shape, DType::kF32, kinds[kind], sequences, Pass::kEvaluation));
        compute.set_type(v1::ComputeSpec::BF16);
        EXPECT_EQ(planned(Pass::kTraining),
                  LaidOut(*shape, DType::kBf16, kinds[kind], sequences, Pass::kTraining));
      }
    }
  }
}

}  // namespace
}  // namespace muster
