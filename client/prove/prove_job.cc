#include "client/prove/prove_job.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <system_error>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "client/cluster/job_client.h"
#include "client/cluster/local_cluster.h"
#include "client/cluster/unnamed_file.h"
#include "client/terminal/progress.h"
#include "common/base/status_macros.h"
#include "common/rpc/rpc_credentials.h"
#include "proto/job_service.pb.h"
#include "proto/metrics.pb.h"
#include "proto/status.pb.h"

namespace muster {
namespace {

// Servers of the cluster, where the job has any.
constexpr int kServers = 2;

// A run leaves this behind.
struct StepResult {
  double norm = 0;
  // Holds the bytes that `weights` borrows.
  std::unique_ptr<UnnamedFile> file;
  std::unique_ptr<const SafetensorsFile> weights;
};

absl::StatusOr<double> NormOf(JobClient& jobs, const std::string& job_id) {
  v1::ReadMetricsRequest request;
  request.set_job_id(job_id);
  request.add_series("train/gradient_norm");
  v1::MetricsChunk history;
  MUSTER_RETURN_IF_ERROR(jobs.History(request, history));
  if (history.series_size() == 0 || history.series(0).points().empty()) {
    return absl::InternalError(absl::StrCat("job ", job_id, " told no norm of its gradient"));
  }
  return history.series(0).points().rbegin()->last();
}

absl::StatusOr<StepResult> RunStep(JobClient& jobs, const v1::JobSpec& job,
                                   const ProofOptions& options) {
  options.starting(job.name());
  std::string job_id;
  MUSTER_RETURN_IF_ERROR(jobs.Submit(job, job_id));
  v1::JobStatus end;
  MUSTER_RETURN_IF_ERROR(jobs.Watch(job_id, options.changed, end));
  options.ended();
  if (end.state() != v1::SUCCEEDED) {
    return absl::FailedPreconditionError(
        absl::StrCat(job.name(), " ended as ", StateName(end), ": ", end.message()));
  }
  StepResult result;
  MUSTER_ASSIGN_OR_RETURN(result.norm, NormOf(jobs, job_id));
  MUSTER_ASSIGN_OR_RETURN(result.file, UnnamedFile::Create("the weights"));
  v1::CheckpointRequest checkpoint;
  checkpoint.set_job_id(job_id);
  MUSTER_RETURN_IF_ERROR(
      jobs.Export(checkpoint, [&](absl::string_view bytes) { return result.file->Write(bytes); }));
  MUSTER_ASSIGN_OR_RETURN(result.weights, SafetensorsFile::Open(result.file->path()));
  return result;
}

absl::StatusOr<ComparedStep> CompareStep(JobClient& jobs, const ProofJobs& proof,
                                         ProofClipping clipping, const ProofOptions& options) {
  v1::JobSpec mesh = proof.mesh;
  options.change_mesh(mesh);
  MUSTER_ASSIGN_OR_RETURN(const StepResult made, RunStep(jobs, mesh, options));
  MUSTER_ASSIGN_OR_RETURN(const StepResult expected, RunStep(jobs, proof.one, options));
  ComparedStep step = {.clipping = clipping, .norm = made.norm, .expected_norm = expected.norm};
  MUSTER_ASSIGN_OR_RETURN(step.tensors, WeightsDifference(*made.weights, *expected.weights));
  double largest = 0;
  for (const TensorDifference& tensor : step.tensors) largest = std::max(largest, tensor.largest);
  for (TensorDifference& tensor : step.tensors) {
    step.allowed.push_back(AllowedDifference(tensor, largest, proof.tolerance) / kProofRate);
    // From weights to gradients, which they are but for a millionth.
    for (double* value : {&tensor.difference, &tensor.largest}) *value /= kProofRate;
    for (double* value : {&tensor.value, &tensor.expected}) *value /= -kProofRate;
  }
  return step;
}

}  // namespace

bool ComparedStep::norms_agree(double tolerance) const {
  return std::abs(norm - expected_norm) <= tolerance * std::abs(expected_norm);
}

const TensorDifference* ComparedStep::first_wrong() const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (!(tensors[i].difference <= allowed[i])) return &tensors[i];
  }
  return nullptr;
}

bool Proof::holds() const {
  return std::all_of(steps.begin(), steps.end(), [this](const ComparedStep& step) {
    return step.norms_agree(tolerance) && step.first_wrong() == nullptr;
  });
}

absl::StatusOr<Proof> ProveJob(const v1::JobSpec& spec, const ProofOptions& options) {
  std::vector<ProofClipping> clippings = {ProofClipping::kNone};
  if (spec.clipping().by_value() > 0 || spec.clipping().by_global_norm() > 0) {
    clippings.push_back(ProofClipping::kAsTheJob);
  }
  // Before a cluster is started.
  MUSTER_ASSIGN_OR_RETURN(const ProofJobs first, MakeProofJobs(spec, ProofClipping::kNone));
  std::error_code error;
  std::string path = (std::filesystem::temp_directory_path(error) / "muster-prove-XXXXXX").string();
  if (error || mkdtemp(path.data()) == nullptr) {
    return absl::InternalError(
        absl::StrCat("cannot make a temporary folder like ", path,
                     "; set TMPDIR to an existing folder that you can write to"));
  }
  const ClusterFolder folder(path);
  const absl::Cleanup stop = [&folder] {
    std::error_code ignored;
    if (StopLocalCluster(folder).ok()) std::filesystem::remove_all(folder.path(), ignored);
  };
  const bool needs_servers = first.mesh.update().dense() != v1::UpdateSpec::ALL_REDUCE ||
                             first.mesh.update().sparse() != v1::UpdateSpec::ALL_REDUCE;
  MUSTER_ASSIGN_OR_RETURN(
      const LocalCluster cluster,
      StartLocalCluster(folder, {.servers = needs_servers ? kServers : 0,
                                 .workers = static_cast<int>(std::max(1u, first.mesh.workers())),
                                 .worker_flags = options.worker_flags,
                                 .life = LocalClusterOptions::Life::kOfThisProcess}));
  JobClient jobs(cluster.coordinator_address, RpcCredentials::PlainText());
  Proof proof = {.job = first.mesh, .notes = first.notes, .tolerance = first.tolerance};
  for (const ProofClipping clipping : clippings) {
    MUSTER_ASSIGN_OR_RETURN(const ProofJobs runs, MakeProofJobs(spec, clipping));
    MUSTER_ASSIGN_OR_RETURN(ComparedStep step, CompareStep(jobs, runs, clipping, options));
    proof.steps.push_back(std::move(step));
  }
  return proof;
}

}  // namespace muster
