#include "worker/runtime/device/device_rank_for_testing.h"

#include <utility>

#include "common/base/status_macros.h"
#include "common/kernels/device/device_arrays.h"
#include "common/mesh/job_mesh.h"
#include "common/partition/local_tensors.h"
#include "common/partition/schema.h"
#include "common/plan/passes/unit_costs.h"
#include "common/plan/size/data_size.h"
#include "common/plan/size/model_size.h"
#include "common/step/stage_spec.h"
#include "common/tensor/half.h"
#include "proto/cluster_service.pb.h"
#include "proto/schema.pb.h"
#include "worker/collectives/host/host_communicator.h"
#include "worker/collectives/transport/in_process_transport_for_testing.h"
#include "worker/models/create_model.h"
#include "worker/runtime/device/device_engine.h"
#include "worker/runtime/device/device_job.h"
#include "worker/strategy/group/recovery/kept_shard.h"
#include "worker/strategy/tables_schema.h"

namespace muster {

namespace {

// Sets which layers each stage of the job's pipeline has, if it has one.
absl::Status DivideLayers(const v1::JobSpec& spec, int64_t vocabulary, v1::TablesSchema& schema) {
  if (SizeAlong(Axis::kPipeline, spec) == 1) return absl::OkStatus();
  DataSize data;
  data.vocabulary = vocabulary;
  MUSTER_ASSIGN_OR_RETURN(const std::vector<int> sizes,
                          VirtualStageSizes(spec, CostsOfUnits(spec, SizeOfModel(spec, data))));
  schema.set_pipeline(SizeAlong(Axis::kPipeline, spec));
  schema.mutable_pipeline_layers()->Add(sizes.begin(), sizes.end());
  return absl::OkStatus();
}

}  // namespace

DatasetInfo SequencesFor(const v1::JobSpec& spec, int64_t vocabulary) {
  DatasetInfo data;
  data.examples = 100;
  data.context = RequiredContext(spec.model());
  data.vocabulary = data.classes = vocabulary;
  data.labels_per_example = data.context;
  return data;
}

absl::StatusOr<std::unique_ptr<DeviceRank>> DeviceRank::Create(const v1::JobSpec& spec,
                                                               int64_t vocabulary, Place place) {
  const DatasetInfo data = SequencesFor(spec, vocabulary);
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<const Model> model,
                          CreateModel(spec.model(), spec.compute(), data, MeshOf(spec)));
  v1::TablesSchema schema =
      MakeTablesSchema(model->description(), spec, /*total_steps=*/spec.stop().steps());
  MUSTER_RETURN_IF_ERROR(DivideLayers(spec, vocabulary, schema));
  MUSTER_ASSIGN_OR_RETURN(DeviceOptions options,
                          ResidentDeviceOptionsFor(spec, data, schema, place.device));
  if (place.host == nullptr) {
    place.host = MakeHostCommunicator(InProcessGroup(1).Join(0), {}).value();
  }
  v1::TaskOrder order;
  *order.mutable_spec() = spec;
  order.set_job_id("job");
  order.set_generation(1);
  order.set_slot(place.host->rank());
  order.set_checkpoint_root(place.checkpoint_root);
  order.set_restore_uri(place.restore_uri);
  order.set_start_clock(place.start_clock);

  std::unique_ptr<DeviceRank> rank(new DeviceRank());
  const MeshPosition shard = ShardOf(order);
  const ModelStage stage =
      StageOfJob(spec, schema, model->description().units, shard.at(Axis::kPipeline));
  TakeStage(stage, options.compute);
  MUSTER_ASSIGN_OR_RETURN(rank->tensors_,
                          LocalTensors(model->description().tensors, DivisionOf(schema, shard.mesh),
                                       shard.at(kShareAxes)));
  rank->type_ = options.compute.type;
  rank->divided_ = ZeroStage(spec) > 0;
  ShardedDependencies dependencies;
  dependencies.storage = place.storage != nullptr ? place.storage : &rank->storage_;
  dependencies.clock = &rank->real_clock_;
  MUSTER_ASSIGN_OR_RETURN(
      rank->strategy_,
      MakeDeviceStrategy(order, schema, options, place.make_communicator, std::move(dependencies)));
  rank->spec_ = spec;
  rank->options_ = options;
  rank->stage_ = stage;
  MUSTER_RETURN_IF_ERROR(rank->Meet(std::move(place.host), place.source));
  return rank;
}

absl::Status DeviceRank::Meet(std::unique_ptr<Communicator> host, absl::optional<int> source) {
  engine_ = nullptr;
  MUSTER_RETURN_IF_ERROR(strategy_->Join(std::move(host), source));
  MUSTER_ASSIGN_OR_RETURN(engine_, MakeDeviceEngine(spec_, options_,
                                                    {.passes = passes(),
                                                     .strategy = *strategy_,
                                                     .tensor_group = strategy_->tensor_group(),
                                                     .context_group = strategy_->context_group(),
                                                     .expert_group = strategy_->expert_group(),
                                                     .counting_group = strategy_->counting_group(),
                                                     .stage = stage_,
                                                     .stages = strategy_->stage_group()}));
  MUSTER_ASSIGN_OR_RETURN(clock_, strategy_->Start());
  return absl::OkStatus();
}

absl::StatusOr<DeviceRank::StepResult> DeviceRank::Train(
    absl::Span<const PlacedBatch> micro_batches) {
  loss_scale_ = strategy_->loss_scale();
  GivenMicroBatches source(micro_batches);
  StepResult result;
  MUSTER_RETURN_IF_ERROR(engine_->Train(clock_, source, result.sums));
  ++clock_;
  result.gradient_norm = strategy_->counters().gradient_norm;
  return result;
}

absl::StatusOr<PassResult> DeviceRank::Evaluate(const Batch& batch) {
  PassResult result;
  MUSTER_RETURN_IF_ERROR(engine_->BeginEvaluation(clock_));
  MUSTER_RETURN_IF_ERROR(engine_->Evaluate(batch, PassOutput::kScores, result));
  return result;
}

template <typename T>
absl::StatusOr<std::vector<std::vector<float>>> DeviceRank::Read(
    absl::Span<const absl::Span<T>> values) {
  std::vector<std::vector<float>> read(tensors_.size());
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (!tensors_[t].tied_to.empty()) continue;
    read[t].resize(values[t].size());
    passes().stream().CopyToHost(read[t].data(), values[t].data(),
                                 values[t].size() * sizeof(float));
  }
  MUSTER_RETURN_IF_ERROR(passes().Wait());
  return read;
}

absl::StatusOr<std::vector<std::vector<float>>> DeviceRank::Weights() {
  if (divided_) return AcquiredWeights();
  return Read(strategy_->parameters().values);
}

absl::StatusOr<std::vector<std::vector<float>>> DeviceRank::AcquiredWeights() {
  MUSTER_RETURN_IF_ERROR(strategy_->BeginStep(clock_));
  std::vector<std::vector<float>> read(tensors_.size());
  const int units = static_cast<int>(tensors_.back().unit) + 1;
  for (int unit = 0; unit < units; ++unit) {
    MUSTER_RETURN_IF_ERROR(strategy_->Acquire(unit, Direction::kForward));
    const ModelParameters parameters = strategy_->parameters();
    for (size_t t = 0; t < tensors_.size(); ++t) {
      if (!tensors_[t].tied_to.empty() || static_cast<int>(tensors_[t].unit) != unit) continue;
      const size_t elements = tensors_[t].elements();
      read[t].resize(elements);
      std::vector<uint16_t> rounded(elements);
      if (parameters.values[t].empty()) {
        passes().stream().CopyToHost(rounded.data(), parameters.rounded[t],
                                     elements * sizeof(uint16_t));
      } else {
        passes().stream().CopyToHost(read[t].data(), parameters.values[t].data(),
                                     elements * sizeof(float));
      }
      MUSTER_RETURN_IF_ERROR(passes().Wait());
      if (!parameters.values[t].empty()) continue;
      WidenHalf(type_, reinterpret_cast<const std::byte*>(rounded.data()), absl::MakeSpan(read[t]));
    }
    strategy_->Release(unit, Direction::kForward);
  }
  return read;
}

absl::Status DeviceRank::SetWeights(const std::vector<std::vector<float>>& weights) {
  DeviceStream& stream = passes().stream();
  // The strategy's memory is const to models alone.
  const ModelParameters to = strategy_->parameters();
  for (size_t t = 0; t < tensors_.size(); ++t) {
    if (!tensors_[t].tied_to.empty()) continue;
    stream.CopyToDevice(const_cast<float*>(to.values[t].data()), weights[t].data(),
                        weights[t].size() * sizeof(float));
    if (to.rounded.empty()) continue;
    DeviceConvert(stream, static_cast<int64_t>(weights[t].size()), DType::kF32, to.values[t].data(),
                  type_, const_cast<void*>(to.rounded[t]));
  }
  return passes().Wait();
}

absl::StatusOr<std::vector<std::vector<float>>> DeviceRank::Gradients() {
  MUSTER_ASSIGN_OR_RETURN(std::vector<std::vector<float>> gradients, Read(strategy_->gradients()));
  for (std::vector<float>& tensor : gradients) {
    for (float& gradient : tensor) gradient /= loss_scale_;
  }
  return gradients;
}

}  // namespace muster
