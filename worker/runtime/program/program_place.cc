#include "worker/runtime/program/program_place.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/optional.h"
#include "proto/cluster_service.pb.h"
#include "proto/job.pb.h"
#include "proto/task_service.pb.h"

namespace muster {

absl::StatusOr<ProgramPlace> PlaceInRound(const v1::RendezvousReply& round,
                                          const v1::TaskOrder& order) {
  ProgramPlace place;
  place.world_size = static_cast<uint32_t>(round.peers_size());
  std::vector<v1::ProgramEndpoint> endpoints(round.peers_size());
  absl::optional<int> rank;
  for (int peer = 0; peer < round.peers_size(); ++peer) {
    if (!endpoints[peer].ParseFromString(round.peers(peer).endpoint())) {
      return absl::InternalError(absl::StrCat("round ", round.round(), ": the endpoint of slot ",
                                              round.peers(peer).slot(),
                                              " is no ProgramEndpoint message"));
    }
    if (round.peers(peer).slot() == order.slot()) rank = peer;
  }
  if (!rank.has_value()) {
    return absl::InternalError(absl::StrCat("slot ", order.slot(), " was answered with round ",
                                            round.round(), ", which it is not in"));
  }
  place.rank = static_cast<uint32_t>(*rank);
  place.master_host = endpoints.front().host();
  place.master_port = endpoints.front().port();
  place.local_world_size = 0;
  std::vector<uint32_t> devices;
  std::vector<std::string> daemons;
  for (const v1::ProgramEndpoint& endpoint : endpoints) {
    if (std::find(daemons.begin(), daemons.end(), endpoint.worker_id()) == daemons.end()) {
      daemons.push_back(endpoint.worker_id());
    }
  }
  place.group_world_size = static_cast<uint32_t>(daemons.size());
  place.group_rank = static_cast<uint32_t>(
      std::find(daemons.begin(), daemons.end(), endpoints[*rank].worker_id()) - daemons.begin());
  for (int peer = 0; peer < round.peers_size(); ++peer) {
    if (endpoints[peer].worker_id() != order.worker_id()) continue;
    if (peer == *rank) place.local_rank = place.local_world_size;
    ++place.local_world_size;
    if (endpoints[peer].has_device()) devices.push_back(endpoints[peer].device());
  }
  place.devices = absl::StrJoin(devices, ",");
  return place;
}

ProgramPlace PlaceAlone(const v1::TaskOrder& order) {
  ProgramPlace place;
  place.rank = order.slot();
  place.world_size = order.spec().workers();
  place.group_rank = place.rank;
  place.group_world_size = place.world_size;
  if (order.spec().compute().device() == v1::ComputeSpec::CUDA) {
    place.devices = absl::StrCat(order.device());
  }
  return place;
}

std::vector<std::string> ProgramEnvironment(const v1::TaskOrder& order, const ProgramPlace& place,
                                            const ProgramSurroundings& surroundings) {
  std::map<std::string, std::string> variables = {
      {"PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
      {"LANG", "C.UTF-8"},
      {"TMPDIR", surroundings.temporary_folder},
      {"OMP_NUM_THREADS", absl::StrCat(std::max(1u, order.spec().threads_per_worker()))},
      // Otherwise the log has nothing before some KiB are printed.
      {"PYTHONUNBUFFERED", "1"}};
  if (!surroundings.home.empty()) variables["HOME"] = surroundings.home;
  for (const auto& [name, value] : order.spec().model().program().environment()) {
    variables[name] = value;
  }
  variables["RANK"] = absl::StrCat(place.rank);
  variables["WORLD_SIZE"] = absl::StrCat(place.world_size);
  variables["LOCAL_RANK"] = absl::StrCat(place.local_rank);
  variables["LOCAL_WORLD_SIZE"] = absl::StrCat(place.local_world_size);
  if (!place.master_host.empty()) {
    variables["MASTER_ADDR"] = place.master_host;
    variables["MASTER_PORT"] = absl::StrCat(place.master_port);
  }
  variables["GROUP_RANK"] = absl::StrCat(place.group_rank);
  variables["GROUP_WORLD_SIZE"] = absl::StrCat(place.group_world_size);
  variables["ROLE_NAME"] = "default";
  variables["ROLE_RANK"] = variables["RANK"];
  variables["ROLE_WORLD_SIZE"] = variables["WORLD_SIZE"];
  variables["TORCHELASTIC_RUN_ID"] = order.job_id();
  variables["TORCHELASTIC_RESTART_COUNT"] = absl::StrCat(RestartsOf(order));
  variables["TORCHELASTIC_MAX_RESTARTS"] =
      absl::StrCat(order.spec().model().program().max_restarts());
  variables["CUDA_VISIBLE_DEVICES"] = place.devices;
  variables["MUSTER_TASK"] = surroundings.socket;
  variables["MUSTER_TASK_TOKEN"] = surroundings.token;
  variables["MUSTER_JOB"] = order.job_id();
  variables["MUSTER_SLOT"] = absl::StrCat(order.slot());
  std::vector<std::string> environment;
  for (const auto& [name, value] : variables) {
    environment.push_back(absl::StrCat(name, "=", value));
  }
  return environment;
}

uint64_t RestartsOf(const v1::TaskOrder& order) {
  const bool alone = order.spec().model().program().elastic();
  return (alone ? order.incarnation() : order.generation()) - 1;
}

}  // namespace muster
