#include "worker/runtime/task/task.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/lost_state.h"
#include "common/base/status_macros.h"
#include "common/files/text_files.h"
#include "common/job/job_road.h"
#include "common/job/sequence_sources.h"
#include "common/kernels/matmul.h"
#include "common/step/step_batches.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/task_service.pb.h"
#include "worker/data/prepared/prepared_folder.h"
#include "worker/data/sampling/one_class.h"
#include "worker/runtime/task/all_reduce_task.h"
#include "worker/runtime/task/device_training.h"
#include "worker/runtime/task/task_parts.h"
#include "worker/runtime/training/prepared_job.h"
#include "worker/runtime/training/step_executor.h"
#include "worker/runtime/training/trainer.h"
#include "worker/strategy/servers/parameter_server_strategy.h"
#include "worker/strategy/servers/takeover.h"

namespace muster {
namespace {

absl::Status CheckRoads(const v1::UpdateSpec& update) {
  if (update.sparse() != v1::UpdateSpec::ALL_REDUCE ||
      update.dense() == v1::UpdateSpec::ALL_REDUCE) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      "update.sparse is ALL_REDUCE while update.dense is PARAMETER_SERVER; train both by "
      "ALL_REDUCE, or keep sparse tables on servers");
}

bool OnDevice(const v1::JobSpec& spec) { return spec.compute().device() == v1::ComputeSpec::CUDA; }

absl::Status CheckDevice(const v1::JobSpec& spec, const TaskDependencies& dependencies) {
  if (!OnDevice(spec) || dependencies.devices != nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "compute.device is CUDA, but this worker's program of tasks was built without CUDA; it "
      "should not have offered devices");
}

// Logs which files of a folder of texts are not read.
void LogHiddenFiles(const v1::DataSpec& data, const TaskDependencies& dependencies) {
  // The other readers read no folders.
  std::vector<std::string> paths;
  if (data.has_text()) paths.push_back(data.text().path());
  for (const v1::SequenceData* source : SequenceSources(data)) paths.push_back(source->path());
  for (const std::string& path : paths) {
    const std::string hidden = TellHiddenFiles(path);
    if (!hidden.empty()) dependencies.log(absl::StrCat("data ", hidden));
  }
}

PreparedFolder::Options PreparedFolderOptions(const v1::TaskOrder& order,
                                              const TaskDependencies& dependencies) {
  PreparedFolder::Options options;
  options.folder = dependencies.prepared_folder;
  options.most_bytes = dependencies.prepared_bytes;
  options.threads = std::max<int>(1, order.spec().threads_per_worker());
  options.tell = [&dependencies](absl::string_view text) {
    if (!text.empty()) dependencies.log(text);
    TellWait(*dependencies.coordinator, text);
  };
  return options;
}

absl::StatusOr<std::unique_ptr<StepEngine>> MakeEngine(const v1::TaskOrder& order,
                                                       const PreparedJob& job, Strategy& strategy,
                                                       const TaskDependencies& dependencies) {
  if (OnDevice(order.spec())) {
    return dependencies.devices->MakeEngine(order, job, strategy, dependencies);
  }
  return std::make_unique<StepExecutor>(order.spec(), *job.model, strategy);
}

// Returns whether the task tells what is to be told once.
bool IsFirst(const v1::TaskOrder& order) {
  return order.slot() == (order.member_slots().empty() ? 0 : order.member_slots(0));
}

// Meets the job's other tasks. The first of those that train finds out where they go on, unless the
// order says so.
absl::StatusOr<v1::RendezvousReply> MeetOnServers(const v1::TaskOrder& order,
                                                  const PreparedJob& job,
                                                  const TaskDependencies& dependencies) {
  v1::RendezvousRequest request = MeetingRequest(job);
  if (IsFirst(order) && order.takes_over_generation() > 0 && order.start_clock() == 0) {
    MUSTER_ASSIGN_OR_RETURN(const uint64_t clock,
                            EndEarlierGenerations(order, RoutingOf(dependencies)));
    request.set_taken_over_clock(clock);
  }
  return dependencies.coordinator->Rendezvous(std::move(request));
}

absl::Status RunOnServers(const v1::TaskOrder& given, const PreparedJob& job,
                          const TaskDependencies& dependencies) {
  MUSTER_ASSIGN_OR_RETURN(const v1::RendezvousReply meeting,
                          MeetOnServers(given, job, dependencies));
  const v1::TaskOrder order = OrderOfMember(given, meeting.start_clock());
  ParameterServerStrategy::Options options;
  options.checkpoints = dependencies.storage;
  options.pull_f32 = OnDevice(order.spec());
  options.registered_memory = dependencies.registered_memory;
  MUSTER_ASSIGN_OR_RETURN(
      std::unique_ptr<ParameterServerStrategy> strategy,
      ParameterServerStrategy::Create(order, *job.schema, options, RoutingOf(dependencies)));
  MUSTER_ASSIGN_OR_RETURN(const std::unique_ptr<StepEngine> engine,
                          MakeEngine(order, job, *strategy, dependencies));
  const RankInWorld place = {.rank = static_cast<int>(order.slot()),
                             .world_size = static_cast<int>(order.spec().workers())};
  MUSTER_ASSIGN_OR_RETURN(TrainerOptions trainer_options,
                          TrainerOptionsFor(order, meeting, place, dependencies));
  trainer_options.slot = given.slot();
  std::atomic<bool> ended = false;
  trainer_options.reporting.end_at_once = [&] {
    ended = true;
    strategy->EndWaits("other slots train from here on");
  };
  // Batches and rates are those of the job, whoever trains.
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<Trainer> trainer,
                          Trainer::Create(given.spec(), trainer_options, job, {*strategy, *engine},
                                          *dependencies.coordinator, *dependencies.clock));
  const absl::Status status = trainer->Run();
  if (ended && absl::IsAborted(status) && LostStateOf(status) == LostState::kNone) {
    return absl::CancelledError(status.message());
  }
  return status;
}

// Logs that the data's preparation differs from the one that the weights were trained with.
void LogPreparation(const v1::TaskOrder& order, const PreparedJob& job,
                    const TaskDependencies& dependencies) {
  const bool needed = !job.dataset->info().preparation.empty();
  const bool given = !order.data_preparation().empty();
  if (order.restore_uri().empty() || needed == given) return;
  dependencies.log(
      needed ? "the checkpoint that the task starts from does not say how its data were prepared "
               "(an earlier release wrote it, or other data): means, deviations and classes are "
               "learned from this job's training examples"
             : "the checkpoint that the task starts from says how its data were prepared (means, "
               "deviations, classes), which this job's reader has no use for");
}

// Returns the positions in the data of the jobs that this one goes on from, up to its own first.
absl::StatusOr<std::vector<DataPosition>> PositionsOf(const v1::TaskOrder& order) {
  const int earlier = order.earlier_data_clocks_size();
  if (order.earlier_data_examples_size() != earlier) {
    return absl::InvalidArgumentError(
        absl::StrCat("the task's order has ", earlier, " clocks of earlier jobs, but ",
                     order.earlier_data_examples_size(),
                     " numbers of examples; start the daemons anew, all of ", "one release"));
  }
  std::vector<DataPosition> positions;
  for (int i = 0; i < earlier; ++i) {
    positions.push_back({.clock = static_cast<int64_t>(order.earlier_data_clocks(i)),
                         .examples = static_cast<int64_t>(order.earlier_data_examples(i))});
  }
  if (order.data_clock() > 0 || order.data_examples() > 0) {
    positions.push_back({.clock = static_cast<int64_t>(order.data_clock()),
                         .examples = static_cast<int64_t>(order.data_examples())});
  }
  return positions;
}

}  // namespace

absl::Status RunTask(const v1::TaskOrder& order, const TaskDependencies& dependencies) {
  MUSTER_RETURN_IF_ERROR(CheckRoads(order.spec().update()));
  MUSTER_RETURN_IF_ERROR(CheckDevice(order.spec(), dependencies));
  SetComputeThreads(std::max<int>(1, order.spec().threads_per_worker()));
  MUSTER_ASSIGN_OR_RETURN(const std::vector<DataPosition> positions, PositionsOf(order));
  const PreparedFolder prepared(PreparedFolderOptions(order, dependencies));
  MUSTER_ASSIGN_OR_RETURN(PreparedJob job,
                          PrepareJob(order.spec(), positions, order.data_preparation(),
                                     dependencies.prepared_folder.empty() ? nullptr : &prepared));
  if (dependencies.wrap_model != nullptr) {
    job.model = dependencies.wrap_model(order, std::move(job.model));
  }
  dependencies.log(absl::StrCat("slot ", order.slot(), ": ", job.split.training,
                                " examples to train on, ", job.evaluated.held_out,
                                job.validation == nullptr ? " held out, " : " to evaluate on, ",
                                job.total_steps, " steps"));
  const bool tells = IsFirst(order);
  if (tells) {
    LogHiddenFiles(order.spec().data(), dependencies);
    LogHiddenFiles(order.spec().validation(), dependencies);
  }
  if (tells && job.validation == nullptr) {
    MUSTER_ASSIGN_OR_RETURN(const std::string warning, WarnOfOneClass(*job.dataset, job.split));
    if (!warning.empty()) dependencies.log(absl::StrCat("warning: ", warning));
  }
  LogPreparation(order, job, dependencies);
  if (!TrainsInRounds(order.spec())) {
    return RunOnServers(order, job, dependencies);
  }
  MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<AllReduceTask> task,
                          AllReduceTask::Create(order, job, dependencies));
  return task->Run();
}

}  // namespace muster
