#ifndef MUSTER_WORKER_MODELS_CREATE_MODEL_H_
#define MUSTER_WORKER_MODELS_CREATE_MODEL_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "common/mesh/mesh.h"
#include "worker/data/dataset.h"
#include "worker/nn/model.h"
#include "worker/nn/transformer/arrays/adapter_shape.h"

namespace muster {

namespace v1 {
class ComputeSpec;
class ModelSpec;
}  // namespace v1

// A job says this of its model beside the specification of the model itself.
struct ModelOptions {
  ModelOptions(const Mesh& mesh = {}, const AdapterShape& adapter = {})  // NOLINT
      : mesh(mesh), adapter(adapter) {}

  Mesh mesh;
  // Transformers alone have them (ResolveAdapter).
  AdapterShape adapter;
};

// Returns the model that a specification names, for data of this kind. Pure: every process that
// calls it with equal arguments gets a model with equal descriptions. InvalidArgument: the
// specification names no model, a field is out of its range, the model does not compute as
// `compute` says, or the data lacks what the model reads (the message names the field or what is
// missing, its value, and the remedy).
//
// The ranks of a layer of the options' mesh each compute their part of the model with their shares
// of the description's tensors (LocalTensors), which are whole. InvalidArgument: the model cannot
// be divided among them.
absl::StatusOr<std::unique_ptr<const Model>> CreateModel(const v1::ModelSpec& spec,
                                                         const v1::ComputeSpec& compute,
                                                         const DatasetInfo& data,
                                                         const ModelOptions& options = {});

// Tokens that the model reads, before each label or in each sequence, for DatasetOptions::context;
// 0 for models that read no text, and for specifications that CreateModel refuses.
int64_t RequiredContext(const v1::ModelSpec& spec);

}  // namespace muster

#endif  // MUSTER_WORKER_MODELS_CREATE_MODEL_H_
