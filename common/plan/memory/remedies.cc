#include "common/plan/memory/remedies.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/job/job_road.h"
#include "common/job/validation/device_validator.h"
#include "common/job/validation/job_validator.h"
#include "common/job/validation/pipeline_validator.h"
#include "common/job/validation/zero_validator.h"
#include "common/mesh/job_mesh.h"
#include "common/plan/memory/rows_memory.h"
#include "common/text/format_bytes.h"
#include "proto/job.pb.h"

namespace muster {
namespace {

// Each changes a job, or says by an empty text that it has nothing to change.
using Change = std::string (*)(v1::JobSpec& spec);

std::string RecomputeMore(v1::JobSpec& spec) {
  v1::ComputeSpec& compute = *spec.mutable_compute();
  if (!spec.model().has_transformer() || compute.recompute() == v1::ComputeSpec::FULL) return "";
  const bool selective = compute.recompute() == v1::ComputeSpec::SELECTIVE;
  compute.set_recompute(selective ? v1::ComputeSpec::FULL : v1::ComputeSpec::SELECTIVE);
  return absl::StrCat("compute.recompute ", selective ? "FULL" : "SELECTIVE");
}

std::string HalveMicroBatches(v1::JobSpec& spec) {
  if (LargestMicroBatch(spec) <= 1) return "";
  spec.set_micro_batches(2 * std::max(1u, spec.micro_batches()));
  return absl::StrCat("micro_batches ", spec.micro_batches());
}

std::string DoubleWorkers(v1::JobSpec& spec) {
  if (LargestMicroBatch(spec) <= 1) return "";
  v1::ZeroSpec& zero = *spec.mutable_parallelism()->mutable_zero();
  const bool all_divide = zero.shard() == SizeAlong(kDataAxes, spec);
  spec.set_workers(2 * std::max(1u, spec.workers()));
  if (all_divide) zero.set_shard(SizeAlong(kDataAxes, spec));
  return absl::StrCat(spec.workers(), " workers");
}

// With parameters on servers there is stage 3 alone, where both passes read one version and pushes
// are not rounded.
bool MayHoldUnitsInFlight(const v1::JobSpec& spec) {
  const v1::UpdateSpec& update = spec.update();
  return !TrainsByAllReduce(spec) && spec.parallelism().zero().stage() == 0 &&
         spec.compute().device() != v1::ComputeSpec::CUDA && !update.unlimited_staleness() &&
         update.staleness_bound() == 0 &&
         (update.wire() == v1::UpdateSpec::WIRE_TYPE_UNSPECIFIED ||
          update.wire() == v1::UpdateSpec::F32);
}

// Returns whether ranks may divide what the job says where it trains.
bool MayDivideSo(const v1::JobSpec& spec) {
  return ValidateZero(spec).ok() && ValidateDevice(spec).ok() && ValidatePipeline(spec).ok();
}

std::string RaiseZeroStage(v1::JobSpec& spec) {
  if (MayHoldUnitsInFlight(spec)) {
    spec.mutable_parallelism()->mutable_zero()->set_stage(3);
    return "parallelism.zero.stage 3";
  }
  const uint32_t stage = spec.parallelism().zero().stage();
  const bool divides =
      TrainsByAllReduce(spec) && SizeAlong(kGradientAxes, spec) > 1 && !spec.stop().evaluate_only();
  if (!divides || stage >= 3) return "";
  v1::JobSpec raised = spec;
  raised.mutable_parallelism()->mutable_zero()->set_stage(stage + 1);
  if (!MayDivideSo(raised)) return "";
  spec = std::move(raised);
  return absl::StrCat("parallelism.zero.stage ", stage + 1);
}

// Each worker becomes two that compute what it did together.
std::string RaiseTensor(v1::JobSpec& spec) {
  v1::JobSpec raised = spec;
  raised.set_workers(2 * std::max(1u, spec.workers()));
  raised.mutable_parallelism()->set_tensor(2 * SizeAlong(Axis::kTensor, spec));
  if (!ValidateJob(raised).ok()) return "";
  spec = std::move(raised);
  return absl::StrCat("parallelism.tensor ", SizeAlong(Axis::kTensor, spec), " and ",
                      spec.workers(), " workers");
}

// The same, with as many micro-batches as keep two stages busy at least.
std::string RaisePipeline(v1::JobSpec& spec) {
  v1::JobSpec raised = spec;
  const uint32_t stages = 2 * std::max(1u, spec.parallelism().pipeline());
  raised.set_workers(2 * std::max(1u, spec.workers()));
  raised.mutable_parallelism()->set_pipeline(stages);
  raised.mutable_parallelism()->clear_pipeline_layers();
  const uint32_t share = spec.batch_size() / std::max(1u, SizeAlong(kDataAxes, spec));
  raised.set_micro_batches(std::max(spec.micro_batches(), std::min(2 * stages, share)));
  if (!ValidateJob(raised).ok()) return "";
  spec = std::move(raised);
  return absl::StrCat("parallelism.pipeline ", stages, ", micro_batches ", spec.micro_batches(),
                      " and ", spec.workers(), " workers");
}

// Also for a single worker, which has no one to divide with.
std::string OffloadState(v1::JobSpec& spec) {
  v1::ZeroSpec zero = spec.parallelism().zero();
  const bool possible = TrainsByAllReduce(spec) && !spec.stop().evaluate_only();
  if (!possible || zero.offload() != v1::ZeroSpec::OFFLOAD_UNSPECIFIED) return "";
  const bool without_stage = zero.stage() == 0;
  if (without_stage) zero.set_stage(1);
  zero.set_offload(v1::ZeroSpec::OPTIMIZER_STATE);
  v1::JobSpec offloads = spec;
  *offloads.mutable_parallelism()->mutable_zero() = zero;
  if (!MayDivideSo(offloads)) return "";
  spec = std::move(offloads);
  return absl::StrCat("parallelism.zero.", without_stage ? "stage 1 and " : "",
                      "offload OPTIMIZER_STATE");
}

std::string RowsToServers(v1::JobSpec& spec) {
  if (RowsOnServers(spec)) return "";
  spec.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  return "update.sparse PARAMETER_SERVER";
}

std::string AllToServers(v1::JobSpec& spec) {
  if (!TrainsByAllReduce(spec) || RanksTogether(spec) > 1) return "";
  spec.mutable_update()->set_dense(v1::UpdateSpec::PARAMETER_SERVER);
  spec.mutable_update()->set_sparse(v1::UpdateSpec::PARAMETER_SERVER);
  if (spec.parallelism().zero().stage() == 0) return "update.dense PARAMETER_SERVER";
  // Servers already hold the state that ranks would divide.
  spec.mutable_parallelism()->clear_zero();
  return "update.dense PARAMETER_SERVER without parallelism.zero";
}

constexpr Change kChanges[] = {RecomputeMore,  HalveMicroBatches, DoubleWorkers,
                               RaiseZeroStage, RaiseTensor,       RaisePipeline,
                               OffloadState,   RowsToServers,     AllToServers};

// What has to fit.
struct Goal {
  const DataSize& data;
  const WorkerProcessors& processors;
  const MemoryOf memory;
  const uint64_t limit;

  uint64_t Needs(const v1::JobSpec& spec) const {
    const MemoryPlan plan = PlanMemory(spec, data, processors);
    return memory == MemoryOf::kDevice ? plan.device_bytes() : plan.worker_own_bytes();
  }
  bool Fits(const v1::JobSpec& spec) const { return Needs(spec) <= limit; }
};

// Makes a change again and again for as long as less is needed then; returns its last name.
std::string Apply(Change change, const Goal& goal, v1::JobSpec& spec) {
  std::string name;
  while (!goal.Fits(spec)) {
    v1::JobSpec next = spec;
    const std::string done = change(next);
    if (done.empty() || goal.Needs(next) >= goal.Needs(spec)) break;
    spec = next;
    name = done;
  }
  return name;
}

}  // namespace

std::vector<Remedy> FindRemedies(const v1::JobSpec& spec, const DataSize& data,
                                 const WorkerProcessors& processors, MemoryOf memory,
                                 uint64_t limit) {
  const Goal goal{data, processors, memory, limit};
  std::vector<Remedy> remedies;
  for (const Change change : kChanges) {
    v1::JobSpec changed = spec;
    const std::string name = Apply(change, goal, changed);
    if (!name.empty() && goal.Fits(changed)) remedies.push_back({name, goal.Needs(changed)});
  }
  if (!remedies.empty()) return remedies;
  v1::JobSpec changed = spec;
  std::string names;
  for (const Change change : kChanges) {
    const std::string name = Apply(change, goal, changed);
    if (!name.empty()) absl::StrAppend(&names, names.empty() ? "" : " with ", name);
  }
  if (!names.empty() && goal.Fits(changed)) remedies.push_back({names, goal.Needs(changed)});
  return remedies;
}

std::string DescribeRemedies(const std::vector<Remedy>& remedies) {
  if (remedies.empty()) {
    return "no other batch, recomputation, division among workers or road makes it fit: take a "
           "smaller model, or machines with more memory";
  }
  std::string text;
  for (const Remedy& remedy : remedies) {
    absl::StrAppend(&text, text.empty() ? "it would fit with " : ", or ", remedy.change, " (",
                    FormatBytes(remedy.bytes), ")");
  }
  return text;
}

}  // namespace muster
